#include "roll_call.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "topology.h"

namespace ringlet {
namespace {

constexpr size_t kMostNamed = 8;

std::string Seconds(int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f s",
                static_cast<double>(std::max<int64_t>(nanos, 0)) / 1e9);
  return text;
}

}  // namespace

RollCall::RollCall(int rank, std::vector<std::string> addresses,
                   double deadline_seconds, int enough)
    : rank_(rank),
      addresses_(std::move(addresses)),
      deadline_seconds_(deadline_seconds),
      enough_(enough),
      peers_(addresses_.size()) {
  const int size = static_cast<int>(peers_.size());
  for (const int r : LinksOf(rank, size, enough > 0)) peers_[r].missing = true;
}

void RollCall::Begin(int64_t now) {
  begin_ = now;
  next_ = now + kFirst;
  for (Peer& peer : peers_) peer.since = now;
}

void RollCall::Lost(int peer, int64_t now) {
  if (!peers_[peer].missing) peers_[peer].since = now;
  peers_[peer].missing = true;
}

void RollCall::Elsewhere(int peer, int64_t now) {
  if (peer >= 0 && peers_[peer].missing) return;
  if (peer != named_) named_at_ = now;
  named_ = peer;
  if (elsewhere_ < 0 || now - named_at_ >= kSecond) elsewhere_ = peer;
}

std::string RollCall::Self() const {
  return "rank " + std::to_string(rank_) + " of " +
         std::to_string(peers_.size()) + " (" + addresses_[rank_] + ")";
}

std::string RollCall::Missing(int64_t now) const {
  std::string text;
  std::vector<size_t> ranks;
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (peers_[r].missing) ranks.push_back(r);
  }
  // Who has given up a moment ago is not whom this rank has waited for.
  std::stable_sort(ranks.begin(), ranks.end(), [this](size_t a, size_t b) {
    return peers_[a].since < peers_[b].since;
  });
  const size_t named = std::min(ranks.size(), kMostNamed);
  const size_t more = ranks.size() - named;
  ranks.resize(named);
  for (const size_t r : ranks) {
    const Peer& peer = peers_[r];
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(r) + " (" +
            addresses_[r] + "), missing for " + Seconds(now - peer.since) +
            ": " + peer.why;
  }
  if (more > 0) text += "; and " + std::to_string(more) + " more";
  if (elsewhere_ >= 0 && !peers_[elsewhere_].missing) {
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(elsewhere_) +
            " (" + addresses_[elsewhere_] + "), whom others " +
            (named == 0 ? "miss" : "missed before");
  }
  if (text.empty()) {
    text = enough_ > 0 ? "workers that compute, or that others miss"
                       : "workers that others miss";
  }
  if (!refused_.empty()) text += "; " + refused_;
  return text;
}

std::string RollCall::Due(int64_t now, bool gives_up) {
  if (now < next_) return "";
  // In step with the beginning, also where this comes late.
  next_ += ((now - next_) / kEvery + 1) * kEvery;
  said_ = true;
  const std::string waits = Self() + " waits for " + Missing(now);
  if (!gives_up) return waits + " (until those who compute come)";
  char limit[64];
  std::snprintf(limit, sizeof(limit), "it gives up after %g s)",
                deadline_seconds_);
  const std::string enough =
      enough_ > 0 ? std::to_string(enough_) + " workers suffice, else " : "";
  return waits + " (" + enough + limit;
}

std::string RollCall::Complete(int64_t now) const {
  if (!said_) return "";
  return Self() + " has waited " + Seconds(now - begin_) +
         ": all workers are there";
}

std::string RollCall::Refused(const std::string& from, const std::string& why,
                              int64_t now, bool quiet) {
  refused_ = "the last connection refused here, from " + from + ": " + why;
  if (quiet) return "";
  return Limited(
      why,
      "warning: " + Self() + " refused a connection from " + from + ": " + why,
      now);
}

std::string RollCall::RefusedBy(int peer, const std::string& why, int64_t now) {
  const std::string line = "warning: rank " + std::to_string(peer) + " (" +
                           addresses_[peer] + ") refused this worker, " +
                           Self() + ": " + why;
  return Limited(line, line, now);
}

std::string RollCall::Limited(const std::string& key, const std::string& line,
                              int64_t now) {
  for (const Said& said : last_) {
    if (said.text == key && now - said.at < kSameRefusal) return "";
  }
  if (in_window_ > 0 && now - window_begin_ >= window_) {
    window_ = in_window_ < kMostRefusals
                  ? kRefusalsWindow
                  : std::min(2 * window_, kLongestWindow);
    in_window_ = 0;
  }
  if (in_window_ == kMostRefusals) {
    ++hidden_;
    return "";
  }
  if (in_window_++ == 0) window_begin_ = now;
  last_[oldest_] = {key, now};
  oldest_ = (oldest_ + 1) % kMostRefusals;
  if (hidden_ == 0) return line;
  const std::string hidden = std::to_string(hidden_);
  hidden_ = 0;
  return line + " (and " + hidden + " more that were not told)";
}

}  // namespace ringlet
