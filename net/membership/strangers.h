// Strangers: connections of programs that are not in this worker's ring.
//
// It owns the schedule of probes, and a refusal that waits for the look-up of
// an address. The Session, Handshakes and Withdrawals refuse connections
// through it. A stranger ends this worker's wait only while the first ring
// forms, and only with evidence of its host. Each refusal is an event of this
// worker's log, within the RefusalLimits.
//
// Any program can connect and send false claims, so a refusal has limited
// effect. It counts only while the ring forms for the first time, and only over
// TCP, where the address is some evidence of the sender. So a program that has
// taken the name of a local socket cannot separate two workers.

#ifndef RINGLET_NET_MEMBERSHIP_STRANGERS_H_
#define RINGLET_NET_MEMBERSHIP_STRANGERS_H_

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/time_units.h"
#include "session_parts.h"

namespace ringlet {

// ProbeSchedule: which missing worker is probed, and when.
//
// Pure. It owns the place in the round of probes. Strangers calls Next at each
// tick. One worker is probed at a time, each once in a round. The worker with
// the higher number dials the lower one. So two workers that each list
// themselves first would wait for each other without a message. While the first
// ring forms, a worker compares its list with the lists of the missing workers
// of higher numbers, one after another.
class ProbeSchedule {
 public:
  explicit ProbeSchedule(int worker) : worker_(worker), probed_(worker) {}

  // The first round of probes is after 3 s. Without Begin there is none.
  void Begin(int64_t now) { next_round_ = now + kFirstRound; }

  // The worker of `linked` (ascending) that is to be probed now; -1 if there is
  // none. It is the same until Done.
  int Next(const std::vector<int>& linked, int64_t now) {
    if (now < next_round_) return -1;
    const auto next = std::upper_bound(linked.begin(), linked.end(), probed_);
    if (next != linked.end()) return *next;
    probed_ = worker_;
    next_round_ = now + kBetweenRounds;
    return -1;
  }
  void Done(int peer) { probed_ = peer; }

 private:
  static constexpr int64_t kFirstRound = 3 * kSecond;
  static constexpr int64_t kBetweenRounds = 10 * kSecond;

  const int worker_;
  int probed_;  // the last probed worker of this round, or worker_
  int64_t next_round_ = INT64_MAX;
};

class Strangers : private SessionParts {
 public:
  class Owner {
   public:
    // The ring cannot form with this worker, because a peer does not fit.
    // `withdrawn` is the peer that has withdrawn, or -1.
    virtual void OnCannotForm(const Status& why, int withdrawn) = 0;

   protected:
    ~Owner() = default;
  };
  struct Rejection {
    int worker = -1;     // the peer's number, if it is known
    bool final = false;  // the peer gets the reason's code, and gives up
    bool quiet = false;  // not a worker, so no line for the user
  };

  Strangers(const SessionParts& parts, Owner* owner)
      : SessionParts(parts), owner_(owner), probes_(options_.worker) {}

  // Sends the reason and closes the link.
  void Reject(FramedLink* link, const Status& why, int64_t now,
              const Rejection& how);
  // The reason goes into the message about missing workers, into a line, and
  // into the event log.
  void ReportRefusal(FramedLink* link, const Status& why, int64_t now,
                     const Rejection& how);
  // A peer has refused this worker, which tries again.
  void PrintRefusedBy(int peer, const std::string& text, int64_t now);

  // RefuseOther and RefuseVersion reject a link. They also call OnCannotForm if
  // the reason shows that the ring of this worker cannot form.
  void RefuseOther(FramedLink* link, const Identity& peer, const Status& why,
                   int64_t now);
  void RefuseVersion(FramedLink* link, const Status& why, int64_t now);
  // Call it at each tick of the start: the address of a refused connection may
  // be still looked up.
  void ResolveRefusal();

  // Probes (ProbeSchedule).
  void BeginProbes(int64_t now) { probes_.Begin(now); }
  void ProbeOne(int64_t now);
  void SendProbe(FramedLink* link, uint32_t generation);
  void AnswerProbe(FramedLink* link, const Identity& peer, int64_t now);
  void ProbeRefused(FramedLink* link, const Status& why);
  void ProbeEnded(FramedLink* link, LossCause cause, const Status& why);

 private:
  // A refused connection that may be of a worker of this job. It is of one if
  // its address is the address of a missing worker's host.
  struct Refusal {
    Status why;
    sockaddr_storage from;
    int peer = -1;  // its address is being looked up; -1 if there is none
  };

  Owner* const owner_;
  Refusal refusal_;
  ProbeSchedule probes_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_STRANGERS_H_
