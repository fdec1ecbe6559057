// WorkerThroughput: the time of a replica on each worker of an elastic job.
//
// The times come with the steps' reports, so every rank has the same ones.
// Times of departed workers are kept: a restarted worker has measured nothing,
// and its earlier speed is still valid.

#ifndef RINGLET_CORE_EXCHANGE_WORKER_THROUGHPUT_H_
#define RINGLET_CORE_EXCHANGE_WORKER_THROUGHPUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

class WorkerThroughput {
 public:
  // The most times that are kept for a rank.
  static constexpr size_t kKept = 31;

  // The known time of worker number `worker` in the list; zero if unknown.
  int64_t NanosPerReplica(int64_t worker) const;
  // Begins a new view of these workers (numbers in the job's list). nanos[r] is
  // rank r's time by NanosPerReplica. If it is 0, the lowest rank that has a
  // time of this worker provides it. Every rank calls it with the same numbers.
  Status BeginView(Collective* collective, std::vector<int64_t> workers,
                   std::vector<int64_t>* nanos);
  // Add records the times of one step of the present view, by rank. Set
  // replaces what NanosPerReplica gives, without a step. Zero if not measured,
  // changes nothing.
  void Add(const std::vector<int64_t>& nanos);
  void Set(const std::vector<int64_t>& nanos);
  // By rank the shortest of the last `steps` measured steps. Empty if a rank
  // has measured fewer than `min_steps`.
  std::vector<int64_t> Shortest(size_t steps, size_t min_steps) const;

 private:
  void RecordTime(size_t rank, int64_t nanos);
  bool HasAll(size_t min_steps) const;

  std::vector<int64_t> workers_;              // the worker of each rank
  std::vector<std::vector<int64_t>> recent_;  // each rank's times, oldest first
  std::map<int64_t, int64_t> nanos_;          // the time of each worker
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_WORKER_THROUGHPUT_H_
