#include "majority_vote.h"

#include <algorithm>

namespace ringlet {
namespace {

// "rank 1 (10.0.0.2:7000) and rank 2 (10.0.0.3:7000)"
std::string NamesOf(const Collective& collective,
                    const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 < ranks.size() ? ", " : " and ";
    text += "rank " + std::to_string(ranks[i]);
    const std::string address = collective.address(ranks[i]);
    if (!address.empty()) text += " (" + address + ")";
  }
  return text;
}

// The lowest rank with the digests of the majority; -1 if there is none.
int MajorityRank(const std::vector<CheckDigests>& all) {
  for (size_t r = 0; r < all.size(); ++r) {
    const auto equal = std::count(all.begin(), all.end(), all[r]);
    if (static_cast<size_t>(2 * equal) > all.size()) return static_cast<int>(r);
  }
  return -1;
}

constexpr char kOwnParts[] =
    " (a user-defined layer, loss or metric needs -ffp-contract=off)";

}  // namespace

Vote CountVotes(const std::vector<CheckDigests>& all) {
  Vote vote;
  const int right = MajorityRank(all);
  vote.has_majority = right >= 0;
  vote.reference = std::max(right, 0);
  const CheckDigests& reference = all[static_cast<size_t>(vote.reference)];
  for (size_t r = 0; r < all.size(); ++r) {
    if (!vote.has_majority || all[r] != reference) {
      vote.faulty.push_back(static_cast<int>(r));
    }
  }
  return vote;
}

Status MakeVoteError(const Collective& collective, const Vote& vote,
                     const std::vector<CheckDigests>& all,
                     const std::vector<const char*>& parts,
                     const std::string& where) {
  const CheckDigests& reference = all[static_cast<size_t>(vote.reference)];
  const auto other = std::find_if(
      all.begin(), all.end(),
      [&](const CheckDigests& digests) { return digests != reference; });
  const auto first =
      std::mismatch(reference.begin(), reference.end(), other->begin()).first;
  const char* const part =
      parts[static_cast<size_t>(first - reference.begin())];
  const std::vector<int>& faulty = vote.faulty;
  if (!vote.has_majority) {
    return Error(Code::kOutOfSync,
                 "%s: %s differ in their %s, and no more than half of them "
                 "agree: the processor or the memory of one is at fault, or "
                 "its program was compiled otherwise%s. All stop; what was "
                 "saved before is right. Find that machine (ringlet verify), "
                 "and start without it",
                 where.c_str(), NamesOf(collective, faulty).c_str(), part,
                 kOwnParts);
  }
  const bool is_own = std::find(faulty.begin(), faulty.end(),
                                collective.rank()) != faulty.end();
  const std::string text = NamesOf(collective, faulty) +
                           (faulty.size() == 1 ? " has" : " have") + " other " +
                           part + " than the other workers: the processor or " +
                           "the memory of " + (is_own ? "this" : "that") +
                           " machine is at fault, or its program was compiled "
                           "otherwise" +
                           kOwnParts;
  if (!is_own)
    return PeerLost(faulty[0], "%s: %s", where.c_str(), text.c_str());
  return Error(
      Code::kOutOfSync,
      "%s: %s. The other workers continue without it; do not start it again",
      where.c_str(), text.c_str());
}

}  // namespace ringlet
