#include "failure_detector.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "topology.h"

namespace ringlet {
namespace {

constexpr int64_t kMs = 1000000;

}  // namespace

const char* CauseName(Cause cause) {
  switch (cause) {
    case Cause::kExited:
      return "exited";
    case Cause::kSilent:
      return "silent";
    case Cause::kRefused:
      return "refused";
    case Cause::kCut:
      return "cut";
    case Cause::kStalled:
      return "stalled";
    case Cause::kLeft:
      return "left";
    case Cause::kProtocol:
      return "protocol";
    case Cause::kHeldUp:
      return "held up";
    case Cause::kDeaf:
      return "heard nobody";
  }
  return "unknown";
}

FailureDetector::FailureDetector(Options options, int64_t now)
    : options_(std::move(options)),
      peers_(options_.addresses.size()),
      progress_(now),
      last_tick_(now),
      last_beat_(now) {}

void FailureDetector::Joined(int peer, int64_t now) {
  peers_[peer] = Peer();
  peers_[peer].joined = true;
  peers_[peer].heard = peers_[peer].changed = now;
}

void FailureDetector::Heard(int peer, int64_t now) { peers_[peer].heard = now; }

void FailureDetector::Beat(int peer, const Activity& activity, int64_t now,
                           const ChainEnd& end) {
  if (!(peers_[peer].activity == activity)) peers_[peer].changed = now;
  peers_[peer].activity = activity;
  peers_[peer].end = end;
  peers_[peer].end_at = now;
}

void FailureDetector::Gone(int peer) { peers_[peer].joined = false; }

void FailureDetector::SetActivity(const Activity& activity, uint64_t moved,
                                  int64_t now) {
  if (moved != moved_ || !(activity == activity_)) progress_ = now;
  moved_ = moved;
  activity_ = activity;
}

FailureDetector::Suspect FailureDetector::HeldUp(int64_t now) const {
  const int64_t late = std::max(late_, now - last_tick_ - tick_nanos());
  if (late <= options_.timeout_nanos / 2) return Suspect();
  return {options_.rank, Cause::kHeldUp, static_cast<double>(late) / 1e9};
}

FailureDetector::Suspect FailureDetector::Tick(int64_t now, bool* beat) {
  const int64_t timeout = options_.timeout_nanos;
  const int64_t late = now - last_tick_ - tick_nanos();
  late_ = late;
  last_tick_ = now;
  // Two ticks, also where the second comes a little early.
  *beat = now - last_beat_ >= timeout / 4 - tick_nanos() / 2;
  if (*beat) last_beat_ = now;
  if (late > timeout / 4) {  // what came meanwhile has not been read yet
    for (Peer& peer : peers_) {
      peer.heard = std::min(now, peer.heard + late);
      peer.changed = std::min(now, peer.changed + late);
    }
    progress_ = std::min(now, progress_ + late);
  }
  if (late > timeout) return HeldUp(now);
  Suspect silent;
  int64_t longest = timeout;
  int joined = 0;
  int quiet = 0;  // those that should have been heard at least once since
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (!peers_[r].joined || Outside(r)) continue;
    const int64_t silence = now - peers_[r].heard;
    ++joined;
    if (silence > timeout / 2) ++quiet;
    if (silence <= longest) continue;
    longest = silence;
    silent = {static_cast<int>(r), Cause::kSilent,
              static_cast<double>(longest) / 1e9};
  }
  if (silent.rank < 0) return FindStalled(now);
  if (joined > 1 && quiet == joined) {
    silent.rank = options_.rank;
    silent.cause = Cause::kDeaf;
  }
  return silent;
}

// Follows who waits for whom from this rank to the end of the chain.
FailureDetector::Suspect FailureDetector::FindStalled(int64_t now) const {
  // Later than silence is noticed, here and elsewhere: that is the better clue.
  // A worker that no longer hears is itself still heard for up to T/4.
  const int64_t limit = options_.timeout_nanos + options_.timeout_nanos / 2;
  if (activity_.waiting_on < 0 || now - progress_ <= limit) return Suspect();
  if (!EveryPairLinked()) {
    return FindStalledBeside(now);
  }
  int at = activity_.waiting_on;
  int64_t moved = progress_;  // when something last changed along the chain
  for (size_t hops = 0; hops < peers_.size(); ++hops) {
    const Peer& peer = peers_[at];
    if (!peer.joined) return Suspect();
    moved = std::max(moved, peer.changed);
    if (peer.activity.computing() &&
        peer.activity.sequence < activity_.sequence) {
      return Suspect();  // a slow worker is not a dead worker
    }
    const int next = WaitsOn(peer);
    if (next < 0 || next == options_.rank || next == at) break;
    at = next;
  }
  // One in the middle may have begun the operation just now, and the others
  // not have heard of it yet: their standstill is then no clue.
  const int64_t still = now - moved;
  if (still <= limit) return Suspect();
  return {at, Cause::kStalled, static_cast<double>(still) / 1e9};
}

int64_t FailureDetector::MovedBeside(const Peer& peer) const {
  const int64_t moved = std::max(progress_, peer.changed);
  const int64_t end_moved = peer.end_at - peer.end.still_ms * kMs;
  return peer.end.rank < 0 ? moved : std::max(moved, end_moved);
}

int64_t FailureDetector::SeenBeside(const Peer& peer) const {
  return peer.end.rank < 0 ? peer.end_at : peer.end_at - peer.end.seen_ms * kMs;
}

// In a large ring this rank judges the one it waits for, and whoever is further
// along the chain is another's to judge: word of him takes a heartbeat for each
// step. Only in a circle everyone waits for somebody, so everyone judges; what
// is known of it is old, so all of it must have stood still at one time.
FailureDetector::Suspect FailureDetector::FindStalledBeside(int64_t now) const {
  const int64_t limit = options_.timeout_nanos + options_.timeout_nanos / 2;
  const Peer& peer = peers_[activity_.waiting_on];
  const int next = peer.activity.waiting_on;
  const bool slow =
      peer.activity.computing() && peer.activity.sequence < activity_.sequence;
  const bool circle = next == options_.rank;  // of two
  const bool wide = peer.end.rank == options_.rank &&
                    SeenBeside(peer) - MovedBeside(peer) > limit;
  const int64_t still = now - MovedBeside(peer);
  if (!peer.joined || slow || still <= limit ||
      (next >= 0 && !circle && !wide)) {
    return Suspect();
  }
  return {activity_.waiting_on, Cause::kStalled,
          static_cast<double>(still) / 1e9};
}

ChainEnd FailureDetector::EndOfChain(int64_t now) const {
  const auto ms = [now](int64_t since) {
    const int64_t passed = std::max<int64_t>(0, now - since) / kMs;
    return static_cast<uint32_t>(std::min<int64_t>(passed, UINT32_MAX));
  };
  ChainEnd out;
  const int at = activity_.waiting_on;
  if (at < 0 || !peers_[at].joined) return out;
  const Peer& peer = peers_[at];
  // One that leads back here is cut: a circle has no end.
  if (peer.end.rank >= 0 && peer.end.rank != options_.rank) {
    out = peer.end;
    out.same_ms = ms(peer.end_at - peer.end.same_ms * kMs);
    out.still_ms = ms(MovedBeside(peer));
    out.seen_ms = ms(SeenBeside(peer));
  } else {
    out.rank = at;
    out.activity = peer.activity;
    out.same_ms = ms(peer.changed);
    out.still_ms = ms(std::max(progress_, peer.changed));
    out.seen_ms = ms(peer.end_at);
  }
  return out;
}

// It beats four times in a timeout: behind two of them what it said is old.
Waiting::Other FailureDetector::Told(int peer, int64_t now) const {
  const Peer& p = peers_[peer];
  const int64_t silence = now - p.heard;
  return {peer, p.activity, static_cast<double>(now - p.changed) / 1e9,
          silence > options_.timeout_nanos / 2
              ? static_cast<double>(silence) / 1e9
              : 0};
}

Waiting FailureDetector::WaitsFor(int64_t now) const {
  Waiting out;
  out.rank = options_.rank;
  out.activity = activity_;
  int at = activity_.waiting_on;
  if (!EveryPairLinked()) {
    if (at < 0) return out;
    out.chain.push_back(Told(at, now));
    const ChainEnd end = EndOfChain(now);
    if (end.rank >= 0 && end.rank != at) {
      out.chain.push_back({end.rank, end.activity, end.same_ms / 1e3, 0});
    }
    return out;
  }
  while (at >= 0 && at != options_.rank && out.chain.size() < peers_.size()) {
    out.chain.push_back(Told(at, now));
    at = out.chain.back().activity.waiting_on = WaitsOn(peers_[at]);
    // For whom it waits now nobody knows.
    if (out.chain.back().silent > 0) break;
  }
  return out;
}

std::string FailureDetector::Reason(const Suspect& suspect,
                                    const char* detail) {
  std::string out = CauseName(suspect.cause);
  if (suspect.seconds > 0) {
    char seconds[48];
    std::snprintf(seconds, sizeof(seconds), " for %.2f s", suspect.seconds);
    out += seconds;
  }
  return detail[0] == '\0' ? out : out + ": " + detail;
}

Status FailureDetector::Lost(const Suspect& suspect, const char* detail) const {
  char phase[96];
  if (activity_.computing()) {
    std::snprintf(phase, sizeof(phase), "while rank %d computed",
                  RankOf(options_.rank));
  } else {
    std::snprintf(phase, sizeof(phase),
                  "in operation %llu (%s) as seen from rank %d",
                  static_cast<unsigned long long>(activity_.sequence),
                  FrameTypeName(activity_.type), RankOf(options_.rank));
  }
  return PeerLost(
      suspect.rank, "rank %d (%s) was lost: %s, generation %lu, step %llu, %s",
      RankOf(suspect.rank), options_.addresses[suspect.rank].c_str(),
      Reason(suspect, detail).c_str(), static_cast<unsigned long>(generation_),
      static_cast<unsigned long long>(activity_.step), phase);
}

}  // namespace ringlet
