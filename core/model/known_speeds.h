// KnownSpeeds: what a replica takes each worker of an elastic job.
//
// Internal to core/. As the workers have told each other, so every rank knows
// the same; also of those who are gone: one that is started again has measured
// nothing, and the others know how fast its board was.

#ifndef RINGLET_CORE_MODEL_KNOWN_SPEEDS_H_
#define RINGLET_CORE_MODEL_KNOWN_SPEEDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "../base/collective.h"
#include "../base/status.h"

namespace ringlet {

class KnownSpeeds {
 public:
  // Of so many last steps, at most, what was told is kept.
  static constexpr size_t kKept = 31;

  // What worker number `worker` of the list took; 0: not known.
  int64_t Of(int64_t worker) const;
  // The ranks have met: their numbers in the job's list, and the nanoseconds
  // that each has by Of. Where that is 0 it becomes what the lowest rank who
  // remembers the worker does. Every rank calls it with the same numbers.
  Status Meet(Collective* collective, std::vector<int64_t> workers,
              std::vector<int64_t>* nanos);
  // What the ranks who met last have measured since: in one step, or as they
  // know it now, of which nothing before is kept. 0: not measured.
  void Add(const std::vector<int64_t>& nanos);
  void Set(const std::vector<int64_t>& nanos);
  // By rank the median of the steps that were measured, or the shortest of the
  // last `steps` of them. Where a rank has measured fewer than `least`: empty.
  std::vector<int64_t> Medians(size_t least) const;
  std::vector<int64_t> Shortest(size_t steps, size_t least) const;

 private:
  void Remember(size_t rank, int64_t nanos);
  bool HasAll(size_t least) const;

  std::vector<int64_t> workers_;              // by rank
  std::vector<std::vector<int64_t>> recent_;  // by rank, the last one last
  std::map<int64_t, int64_t> nanos_;          // by number in the list
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_KNOWN_SPEEDS_H_
