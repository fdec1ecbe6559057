// Two ways lead to a suspect: silence, which Tick measures, and a standstill,
// which FindStalled follows along the workers that wait for one another. A
// delay of this worker's own thread is subtracted from both first. In a large
// ring only neighbours are heard, so the end of a chain travels in heartbeats
// (ChainEnd).

#include "failure_detector.h"

#include <algorithm>
#include <utility>

#include "../../core/base/text.h"
#include "../collective/topology.h"
#include "ring_members.h"

namespace ringlet {
namespace {

constexpr int64_t kMs = 1000000;

}  // namespace

FailureDetector::FailureDetector(Options options, int64_t now)
    : options_(std::move(options)),
      peers_(options_.addresses.size()),
      progress_(now),
      last_tick_(now),
      last_beat_(now) {}

void FailureDetector::AddPeer(int peer, int64_t now) {
  peers_[peer] = Peer();
  peers_[peer].watched = true;
  peers_[peer].heard = peers_[peer].changed = now;
}

void FailureDetector::RecordHeard(int peer, int64_t now) {
  peers_[peer].heard = now;
}

void FailureDetector::OnHeartbeat(int peer, const Activity& activity,
                                  int64_t now, const ChainEnd& end) {
  if (!(peers_[peer].activity == activity)) peers_[peer].changed = now;
  peers_[peer].activity = activity;
  peers_[peer].end = end;
  peers_[peer].end_at = now;
}

Status FailureDetector::OnHeartbeatFrame(int peer, const FrameHeader& header,
                                         const uint8_t* payload, int64_t now) {
  Activity activity;
  ChainEnd end;
  RINGLET_RETURN_IF_ERROR(
      DecodeHeartbeat(header, payload, static_cast<int>(peers_.size()),
                      &activity, fully_connected() ? nullptr : &end));
  OnHeartbeat(peer, activity, now, end);
  return Status();
}

void FailureDetector::MakeHeartbeat(int64_t now, FrameHeader* header,
                                    uint8_t* payload) const {
  EncodeHeartbeat(activity_, header, payload,
                  fully_connected() ? ChainEnd() : EndOfChain(now));
}

void FailureDetector::RemovePeer(int peer) { peers_[peer].watched = false; }

void FailureDetector::SetActivity(const Activity& activity,
                                  uint64_t bytes_moved, int64_t now) {
  if (bytes_moved != bytes_moved_ || !(activity == activity_)) progress_ = now;
  bytes_moved_ = bytes_moved;
  activity_ = activity;
}

FailureDetector::Suspect FailureDetector::SelfStalled(int64_t now) const {
  const int64_t late = std::max(late_, now - last_tick_ - tick_nanos());
  if (late <= options_.timeout_nanos / 2) return Suspect();
  return {options_.worker, LossCause::kSelfStalled,
          static_cast<double>(late) / 1e9};
}

FailureDetector::Suspect FailureDetector::Tick(int64_t now, bool* beat) {
  const int64_t timeout = options_.timeout_nanos;
  const int64_t late = now - last_tick_ - tick_nanos();
  late_ = late;
  last_tick_ = now;
  // A heartbeat is due every two ticks. The second tick may be a little early.
  *beat = now - last_beat_ >= timeout / 4 - tick_nanos() / 2;
  if (*beat) last_beat_ = now;
  // This worker was held up, and may have frames that it has not read yet. So
  // the delay counts neither as silence nor as a standstill of its peers.
  if (late > timeout / 4) {
    for (Peer& peer : peers_) {
      peer.heard = std::min(now, peer.heard + late);
      peer.changed = std::min(now, peer.changed + late);
    }
    progress_ = std::min(now, progress_ + late);
  }
  if (late > timeout) return SelfStalled(now);
  Suspect silent;
  int64_t longest = timeout;
  int watched = 0;
  int quiet = 0;  // members that missed at least one heartbeat
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (!peers_[r].watched || IsOutsideView(r)) continue;
    const int64_t silence = now - peers_[r].heard;
    ++watched;
    if (silence > timeout / 2) ++quiet;
    if (silence <= longest) continue;
    longest = silence;
    silent = {static_cast<int>(r), LossCause::kSilent,
              static_cast<double>(longest) / 1e9};
  }
  if (silent.worker < 0) return FindStalled(now);
  if (watched > 1 && quiet == watched) {
    silent.worker = options_.worker;
    silent.cause = LossCause::kIsolated;
  }
  return silent;
}

// Follows the chain of workers that wait for one another, from this worker to
// the end of the chain.
FailureDetector::Suspect FailureDetector::FindStalled(int64_t now) const {
  // The limit is longer than the limit of silence, so that a silent worker is
  // found as silent first, by this worker or by another. A worker that no
  // longer receives anything may still be heard by the other workers for up to
  // T/4.
  const int64_t limit = options_.timeout_nanos + options_.timeout_nanos / 2;
  if (activity_.waiting_on < 0 || now - progress_ <= limit) return Suspect();
  if (!fully_connected()) {
    return FindStalledNeighbour(now);
  }
  int awaited = activity_.waiting_on;
  int64_t last_change = progress_;  // the newest change in the chain
  for (size_t hops = 0; hops < peers_.size(); ++hops) {
    const Peer& peer = peers_[awaited];
    if (!peer.watched) return Suspect();
    last_change = std::max(last_change, peer.changed);
    if (peer.activity.computing() &&
        peer.activity.sequence < activity_.sequence) {
      return Suspect();  // a slow worker is not lost
    }
    const int next = AwaitedMemberOf(peer);
    if (next < 0 || next == options_.worker || next == awaited) break;
    awaited = next;
  }
  // A worker in the middle may just have begun the operation, and its report
  // may not have reached the other workers. Their standstill then proves
  // nothing.
  const int64_t still = now - last_change;
  if (still <= limit) return Suspect();
  return {awaited, LossCause::kStalled, static_cast<double>(still) / 1e9};
}

int64_t FailureDetector::LastProgressInChain(const Peer& peer) const {
  const int64_t last_change = std::max(progress_, peer.changed);
  const int64_t end_change = peer.end_at - peer.end.unchanged_for_ms * kMs;
  return peer.end.worker < 0 ? last_change : std::max(last_change, end_change);
}

int64_t FailureDetector::OldestReportInChain(const Peer& peer) const {
  return peer.end.worker < 0 ? peer.end_at
                             : peer.end_at - peer.end.oldest_report_ms * kMs;
}

// In a large ring this worker suspects only the worker that it waits for (the
// peer), since a report travels one link with each heartbeat. A peer that waits
// for a further worker is not suspected: it suspects that worker itself. The
// exception is a circle, in which every worker waits for another. Then any of
// them may suspect its peer. The reports in a large circle are old, so they
// must show that all its workers were stalled at one common time. That is so if
// the oldest report was made more than `limit` after the last progress.
FailureDetector::Suspect FailureDetector::FindStalledNeighbour(
    int64_t now) const {
  const int64_t limit = options_.timeout_nanos + options_.timeout_nanos / 2;
  const Peer& peer = peers_[activity_.waiting_on];
  const int next = peer.activity.waiting_on;
  const bool slow =
      peer.activity.computing() && peer.activity.sequence < activity_.sequence;
  const bool circle_of_two = next == options_.worker;
  const bool is_stalled_circle =
      peer.end.worker == options_.worker &&
      OldestReportInChain(peer) - LastProgressInChain(peer) > limit;
  const int64_t still = now - LastProgressInChain(peer);
  if (!peer.watched || slow || still <= limit ||
      (next >= 0 && !circle_of_two && !is_stalled_circle)) {
    return Suspect();
  }
  return {activity_.waiting_on, LossCause::kStalled,
          static_cast<double>(still) / 1e9};
}

ChainEnd FailureDetector::EndOfChain(int64_t now) const {
  const auto ms = [now](int64_t since) {
    const int64_t passed = std::max<int64_t>(0, now - since) / kMs;
    return static_cast<uint32_t>(std::min<int64_t>(passed, UINT32_MAX));
  };
  ChainEnd out;
  const int awaited = activity_.waiting_on;
  if (awaited < 0 || !peers_[awaited].watched) return out;
  const Peer& peer = peers_[awaited];
  // A chain that returns to this worker is a circle, which has no end. It is
  // cut after the peer.
  if (peer.end.worker >= 0 && peer.end.worker != options_.worker) {
    out = peer.end;
    out.reported_for_ms = ms(peer.end_at - peer.end.reported_for_ms * kMs);
    out.unchanged_for_ms = ms(LastProgressInChain(peer));
    out.oldest_report_ms = ms(OldestReportInChain(peer));
  } else {
    out.worker = awaited;
    out.activity = peer.activity;
    out.reported_for_ms = ms(peer.changed);
    out.unchanged_for_ms = ms(std::max(progress_, peer.changed));
    out.oldest_report_ms = ms(peer.end_at);
  }
  return out;
}

// The last report of a peer. Heartbeats arrive every T/4. If none has arrived
// for twice this time, the entry has the peer's silence.
FailureDetector::AwaitedWorker FailureDetector::MakeReport(int peer,
                                                           int64_t now) const {
  const Peer& p = peers_[peer];
  const int64_t silence = now - p.heard;
  return {peer, p.activity, static_cast<double>(now - p.changed) / 1e9,
          silence > options_.timeout_nanos / 2
              ? static_cast<double>(silence) / 1e9
              : 0};
}

std::vector<FailureDetector::AwaitedWorker> FailureDetector::AwaitedWorkers(
    int64_t now) const {
  std::vector<AwaitedWorker> out;
  int awaited = activity_.waiting_on;
  if (!fully_connected()) {
    if (awaited < 0) return out;
    out.push_back(MakeReport(awaited, now));
    const ChainEnd end = EndOfChain(now);
    if (end.worker >= 0 && end.worker != awaited) {
      out.push_back({end.worker, end.activity, end.reported_for_ms / 1e3, 0});
    }
    return out;
  }
  while (awaited >= 0 && awaited != options_.worker &&
         out.size() < peers_.size()) {
    out.push_back(MakeReport(awaited, now));
    awaited = out.back().activity.waiting_on = AwaitedMemberOf(peers_[awaited]);
    // It is not known what a silent worker waits for.
    if (out.back().silent > 0) break;
  }
  return out;
}

// After a late tick progress_ is later without progress, but at least a tick
// ago.
LongWait FailureDetector::CurrentLongWait(int64_t now, bool goes_on) const {
  LongWait wait;
  const int64_t limit =
      goes_on ? tick_nanos()
              : std::min<int64_t>(options_.timeout_nanos / 2, 1000000000);
  if (activity_.waiting_on < 0 || now - progress_ < limit) return wait;
  const std::vector<AwaitedWorker> chain = AwaitedWorkers(now);
  wait.workers = {chain.empty() ? activity_.waiting_on : chain.back().worker};
  wait.since = progress_;
  return wait;
}

std::string FailureDetector::Reason(const Suspect& suspect,
                                    const char* detail) {
  std::string out = LossCauseName(suspect.cause);
  if (suspect.seconds > 0) {
    out += FormatText(" for %.2f s", suspect.seconds);
  }
  return detail[0] == '\0' ? out : out + ": " + detail;
}

std::string FailureDetector::WorkerName(int worker) const {
  return RankOrWorkerName(ranks_.empty() ? worker : ranks_[worker], worker);
}

Status FailureDetector::LossError(const Suspect& suspect,
                                  const char* detail) const {
  const std::string self = WorkerName(options_.worker);
  const std::string phase =
      activity_.computing()
          ? "while " + self + " computed"
          : FormatText("in operation %llu (%s) as seen from %s",
                       static_cast<unsigned long long>(activity_.sequence),
                       FrameTypeName(activity_.type), self.c_str());
  return PeerLost(
      suspect.worker, "%s (%s) was lost: %s, generation %lu, step %llu, %s",
      WorkerName(suspect.worker).c_str(),
      options_.addresses[suspect.worker].c_str(),
      Reason(suspect, detail).c_str(), static_cast<unsigned long>(generation_),
      static_cast<unsigned long long>(activity_.step), phase.c_str());
}

}  // namespace ringlet
