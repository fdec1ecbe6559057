#include "roll_call.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

namespace ringlet {
namespace {

constexpr int kMostNamed = 8;

std::string Seconds(int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f s",
                static_cast<double>(std::max<int64_t>(nanos, 0)) / 1e9);
  return text;
}

}  // namespace

RollCall::RollCall(int rank, std::vector<std::string> addresses,
                   double deadline_seconds)
    : rank_(rank),
      addresses_(std::move(addresses)),
      deadline_seconds_(deadline_seconds),
      peers_(addresses_.size()) {
  peers_[rank].missing = false;
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

std::string RollCall::Self() const {
  return "rank " + std::to_string(rank_) + " of " +
         std::to_string(peers_.size()) + " (" + addresses_[rank_] + ")";
}

std::string RollCall::Missing(int64_t now) const {
  std::string text;
  int named = 0, more = 0;
  for (size_t r = 0; r < peers_.size(); ++r) {
    const Peer& peer = peers_[r];
    if (!peer.missing) continue;
    if (++named > kMostNamed) {
      ++more;
      continue;
    }
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(r) + " (" +
            addresses_[r] + "), missing for " + Seconds(now - peer.since) +
            ": " + peer.why;
  }
  if (more > 0) text += "; and " + std::to_string(more) + " more";
  if (!refused_.empty()) text += "; " + refused_;
  return text;
}

std::string RollCall::Due(int64_t now) {
  if (now < next_) return "";
  // In step with the beginning, also where this comes late.
  next_ += ((now - next_) / kEvery + 1) * kEvery;
  said_ = true;
  char limit[64];
  std::snprintf(limit, sizeof(limit), " (it gives up after %g s)",
                deadline_seconds_);
  return Self() + " waits for " + Missing(now) + limit;
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
