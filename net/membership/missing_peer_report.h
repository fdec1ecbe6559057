// MissingPeerReport: the messages of a worker that waits for the other workers.
//
// It owns the reasons why each worker is missing, and which lines were printed.
// The Session, Dialer, Strangers and Withdrawals report connections and
// refusals to it.
//
// Pure: time is an argument, in nanoseconds of a monotonic clock. Messages are
// returned as lines without a newline. A line after 1 s, and then every 10 s,
// names the missing workers. A refused handshake is reported immediately,
// within the RefusalLimits.

#ifndef RINGLET_NET_MEMBERSHIP_MISSING_PEER_REPORT_H_
#define RINGLET_NET_MEMBERSHIP_MISSING_PEER_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/long_wait.h"
#include "../../core/base/time_units.h"
#include "refusal_limits.h"

namespace ringlet {

class MissingPeerReport {
 public:
  static constexpr int64_t kFirst = 1 * kSecond;
  static constexpr int64_t kEvery = 10 * kSecond;

  // `deadline_seconds` is the longest wait, for the lines. `enough` workers
  // suffice, or zero if all are needed.
  MissingPeerReport(int worker, std::vector<std::string> addresses,
                    double deadline_seconds, int enough = 0);

  // Begins the wait. All workers to which this worker connects are missing.
  void Begin(int64_t now);
  void MarkConnected(int peer) { peers_[peer].missing = false; }
  // The worker was connected, and is missing again.
  void MarkMissing(int peer, int64_t now);
  // Sets the worker that another worker misses; -1 if there is none.
  // MissingText() names it only if it is not missing here too. If the wait
  // fails, the workers give up one after another, and the remaining workers
  // then miss each of them. So a newly reported worker replaces the previous
  // one only after a second of reports.
  void SetMissedByOthers(int peer, int64_t now);
  // Sets the reason why the peer is missing, as far as it is known.
  void SetReason(int peer, const std::string& why) { peers_[peer].why = why; }

  // The line that is due; empty if there is none. `gives_up` is false if this
  // worker waits without a limit, until the computing workers form a view.
  std::string DueLine(int64_t now, bool gives_up = true);
  // Call it when all workers are connected. Returns a line if DueLine has
  // returned one before, otherwise "".
  std::string CompletionLine(int64_t now) const;
  // A connection was refused here, or by a peer. Returns the line to print; ""
  // if the limits hold it back, or if `quiet`. MissingText() adds the last
  // refusal here.
  std::string RefusalLine(const std::string& from, const std::string& why,
                          int64_t now, bool quiet = false);
  std::string RefusedByLine(int peer, const std::string& why, int64_t now);

  // The wait for the missing workers, since Begin.
  LongWait CurrentWait() const;
  // "worker 0 (a:1), missing for 11 s: cannot connect; …", and the last
  // refusal.
  std::string MissingText(int64_t now) const;

 private:
  struct Peer {
    bool missing = false;
    int64_t since = 0;
    std::string why = "has not connected";
  };
  std::string LineWithinLimits(const std::string& key, const std::string& line,
                               int64_t now);
  std::string SelfText() const;

  const int worker_;
  const std::vector<std::string> addresses_;
  const double deadline_seconds_;
  const int sufficient_workers_;
  std::vector<Peer> peers_;  // one for each worker
  int64_t begin_ = 0;
  int64_t next_ = 0;
  bool reported_ = false;
  int missed_by_others_ = -1;
  int last_named_ = -1;  // SetMissedByOthers named it at named_at_
  int64_t named_at_ = 0;
  std::string refused_;  // the last connection that was refused here
  RefusalLimits limits_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_MISSING_PEER_REPORT_H_
