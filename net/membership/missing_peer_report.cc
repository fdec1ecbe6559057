// A worker is missing from Begin, or from the loss of its link, and `why` is
// the last reason that was reported for it. A line names the longest missing
// worker first, since that is the likeliest cause.

#include "missing_peer_report.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "../../core/base/stable_sort.h"
#include "../../core/base/text.h"
#include "../collective/topology.h"

namespace ringlet {
namespace {

constexpr size_t kMaxNamed = 8;

std::string SecondsText(int64_t nanos) {
  return FormatText("%.0f s",
                    static_cast<double>(std::max<int64_t>(nanos, 0)) / 1e9);
}

}  // namespace

MissingPeerReport::MissingPeerReport(int worker,
                                     std::vector<std::string> addresses,
                                     double deadline_seconds, int enough)
    : worker_(worker),
      addresses_(std::move(addresses)),
      deadline_seconds_(deadline_seconds),
      sufficient_workers_(enough),
      peers_(addresses_.size()) {
  const int size = static_cast<int>(peers_.size());
  for (const int r : LinksOf(worker, size, enough > 0))
    peers_[r].missing = true;
}

void MissingPeerReport::Begin(int64_t now) {
  begin_ = now;
  next_ = now + kFirst;
  for (Peer& peer : peers_) peer.since = now;
}

void MissingPeerReport::MarkMissing(int peer, int64_t now) {
  if (!peers_[peer].missing) peers_[peer].since = now;
  peers_[peer].missing = true;
}

void MissingPeerReport::SetMissedByOthers(int peer, int64_t now) {
  if (peer >= 0 && peers_[peer].missing) return;
  if (peer != last_named_) named_at_ = now;
  last_named_ = peer;
  if (missed_by_others_ < 0 || now - named_at_ >= kSecond)
    missed_by_others_ = peer;
}

std::string MissingPeerReport::SelfText() const {
  return "worker " + std::to_string(worker_) + " of " +
         std::to_string(peers_.size()) + " (" + addresses_[worker_] + ")";
}

LongWait MissingPeerReport::CurrentWait() const {
  LongWait wait;
  wait.since = begin_;
  const int size = static_cast<int>(peers_.size());
  for (int r = 0; r < size; ++r) {
    if (peers_[r].missing) wait.workers.push_back(r);
  }
  return wait;
}

std::string MissingPeerReport::MissingText(int64_t now) const {
  std::string text;
  std::vector<size_t> missing;
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (peers_[r].missing) missing.push_back(r);
  }
  // The longest missing worker comes first. A worker that has just given up is
  // not the cause of the wait.
  StableSort(&missing, [this](size_t a, size_t b) {
    return peers_[a].since < peers_[b].since;
  });
  const size_t named = std::min(missing.size(), kMaxNamed);
  const size_t unnamed = missing.size() - named;
  missing.resize(named);
  for (const size_t r : missing) {
    const Peer& peer = peers_[r];
    text += (text.empty() ? "worker " : "; worker ") + std::to_string(r) +
            " (" + addresses_[r] + "), missing for " +
            SecondsText(now - peer.since) + ": " + peer.why;
  }
  if (unnamed > 0) text += "; and " + std::to_string(unnamed) + " more";
  if (missed_by_others_ >= 0 && !peers_[missed_by_others_].missing) {
    text += (text.empty() ? "worker " : "; worker ") +
            std::to_string(missed_by_others_) + " (" +
            addresses_[missed_by_others_] + "), which others " +
            (named == 0 ? "miss" : "missed before");
  }
  if (text.empty()) {
    text = sufficient_workers_ > 0 ? "workers that compute, or that others miss"
                                   : "workers that others miss";
  }
  if (!refused_.empty()) text += "; " + refused_;
  return text;
}

std::string MissingPeerReport::DueLine(int64_t now, bool gives_up) {
  if (now < next_) return "";
  // A late line does not delay the later ones.
  next_ += ((now - next_) / kEvery + 1) * kEvery;
  reported_ = true;
  const std::string waits = SelfText() + " waits for " + MissingText(now);
  if (!gives_up) return waits + " (until the computing workers form a view)";
  const std::string enough =
      sufficient_workers_ > 0
          ? std::to_string(sufficient_workers_) + " workers suffice, else "
          : "";
  return waits + " (" + enough +
         FormatText("it ends after %g s)", deadline_seconds_);
}

std::string MissingPeerReport::CompletionLine(int64_t now) const {
  if (!reported_) return "";
  return SelfText() + " has waited " + SecondsText(now - begin_) +
         ": all workers are present";
}

std::string MissingPeerReport::RefusalLine(const std::string& from,
                                           const std::string& why, int64_t now,
                                           bool quiet) {
  refused_ = "the last connection refused here, from " + from + ": " + why;
  if (quiet) return "";
  return LineWithinLimits(why,
                          "warning: " + SelfText() +
                              " refused a connection from " + from + ": " + why,
                          now);
}

std::string MissingPeerReport::RefusedByLine(int peer, const std::string& why,
                                             int64_t now) {
  const std::string line = "warning: worker " + std::to_string(peer) + " (" +
                           addresses_[peer] + ") refused this worker, " +
                           SelfText() + ": " + why;
  return LineWithinLimits(line, line, now);
}

std::string MissingPeerReport::LineWithinLimits(const std::string& key,
                                                const std::string& line,
                                                int64_t now) {
  if (!limits_.Admit(key, now)) return "";
  const int64_t hidden = limits_.TakeHeldBack();
  if (hidden == 0) return line;
  return line + " (and " + std::to_string(hidden) + " more not shown)";
}

}  // namespace ringlet
