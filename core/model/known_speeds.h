// KnownSpeeds: what a replica takes each worker of an elastic job.
//
// Internal to core/. As the workers have told each other, also of those who are
// gone: one that is started again has measured nothing, and the others know
// how fast its board was.

#ifndef RINGLET_CORE_MODEL_KNOWN_SPEEDS_H_
#define RINGLET_CORE_MODEL_KNOWN_SPEEDS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "../base/collective.h"
#include "../base/status.h"

namespace ringlet {

class KnownSpeeds {
 public:
  // The ranks have met: their numbers in the job's list, and the nanoseconds
  // that each has measured. Where that is 0 it becomes what the lowest rank
  // who remembers the worker does. Every rank calls it with the same numbers.
  Status Meet(Collective* collective, std::vector<int64_t> workers,
              std::vector<int64_t>* nanos);
  // What the ranks who met last have measured now.
  void Note(const std::vector<int64_t>& nanos);

 private:
  std::vector<int64_t> workers_;      // by rank
  std::map<int64_t, int64_t> nanos_;  // by number in the list
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_KNOWN_SPEEDS_H_
