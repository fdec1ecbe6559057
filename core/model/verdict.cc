#include "verdict.h"

#include <algorithm>

namespace ringlet {
namespace {

// "rank 1 (10.0.0.2:7000) and rank 2 (10.0.0.3:7000)"
std::string Named(const Collective& collective, const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 < ranks.size() ? ", " : " and ";
    text += "rank " + std::to_string(ranks[i]);
    const std::string address = collective.address(ranks[i]);
    if (!address.empty()) text += " (" + address + ")";
  }
  return text;
}

// The first rank whose findings are those of more than half; -1: nobody's are.
int Majority(const std::vector<Findings>& all, const std::vector<int>& judged) {
  for (const int r : judged) {
    const auto equal =
        std::count_if(judged.begin(), judged.end(),
                      [&](int other) { return all[other] == all[r]; });
    if (static_cast<size_t>(2 * equal) > judged.size()) return r;
  }
  return -1;
}

}  // namespace

Status Judge(const Collective& collective, const std::vector<Findings>& all,
             const std::vector<const char*>& parts, const std::string& where,
             std::vector<int>* named) {
  std::vector<int> judged;
  std::vector<int>& others = *named;
  others.clear();
  for (size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) judged.push_back(static_cast<int>(r));
  }
  if (judged.empty()) return Status();
  const int right = Majority(all, judged);
  const Findings& reference = all[right < 0 ? judged[0] : right];
  for (const int r : judged) {
    if (all[r] != reference) others.push_back(r);
  }
  if (others.empty()) return Status();
  const Findings& other = all[others[0]];
  const auto first =
      std::mismatch(reference.begin(), reference.end(), other.begin()).first;
  const char* const what =
      parts[static_cast<size_t>(first - reference.begin())];
  if (right < 0) {
    others = judged;
    return Error(Code::kOutOfSync,
                 "%s: %s differ in their %s, and no more than half of them "
                 "agree: the processor or the memory of one is at fault. All "
                 "stop; what was saved before is right. Find that machine "
                 "(ringlet verify), and start without it",
                 where.c_str(), Named(collective, judged).c_str(), what);
  }
  const bool mine = std::find(others.begin(), others.end(),
                              collective.rank()) != others.end();
  const std::string text =
      Named(collective, others) + (others.size() == 1 ? " has" : " have") +
      " other " + what + " than the other workers: the processor or " +
      "the memory of " + (mine ? "this" : "that") + " machine is at fault";
  if (!mine) return PeerLost(others[0], "%s: %s", where.c_str(), text.c_str());
  return Error(Code::kOutOfSync,
               "%s: %s. The others go on without it; do not start it again",
               where.c_str(), text.c_str());
}

}  // namespace ringlet
