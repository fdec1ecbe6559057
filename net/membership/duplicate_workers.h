// DuplicateWorkers: second processes with the index of a connected worker.
//
// Pure. It owns the first request of each second process. Handshakes records
// requests here. RecordRequest returns the time since the first request,
// without the time before a stall of this worker. After a crash the restarted
// process often connects before the loss of the first one is noticed. So a
// second process is an error only if it still connects after the time that it
// takes to notice a loss.

#ifndef RINGLET_NET_MEMBERSHIP_DUPLICATE_WORKERS_H_
#define RINGLET_NET_MEMBERSHIP_DUPLICATE_WORKERS_H_

#include <cstdint>
#include <vector>

namespace ringlet {

class DuplicateWorkers {
 public:
  explicit DuplicateWorkers(int size) : seen_(static_cast<size_t>(size)) {}

  // Records that a process with this incarnation connects as `peer`. Returns
  // the time since its first connection, in nanoseconds.
  int64_t RecordRequest(int peer, uint64_t incarnation, int64_t now) {
    Process& process = seen_[static_cast<size_t>(peer)];
    if (process.incarnation != incarnation) process = {incarnation, now};
    return now - process.since;
  }
  // Call it when the peer has connected: a second process may have become the
  // first one.
  void Remove(int peer, int64_t now) {
    seen_[static_cast<size_t>(peer)] = {0, now};
  }
  // Call it after a stall of this worker, which could not notice the end of a
  // first process.
  void ResetTimes(int64_t now) {
    for (Process& process : seen_) process.since = now;
  }

 private:
  struct Process {
    uint64_t incarnation = 0;  // 0 if none is known
    int64_t since = 0;
  };
  std::vector<Process> seen_;  // the last process of each worker
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_DUPLICATE_WORKERS_H_
