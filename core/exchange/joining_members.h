// JoiningMembers: which workers of a new view took part in the previous run,
// and which join it.
//
// A joining worker must not end the run of the other workers. If it cannot take
// part, or its model differs, it ends, and the other workers form a view
// without it. A job that starts, or is not elastic, has no joining workers.

#ifndef RINGLET_CORE_EXCHANGE_JOINING_MEMBERS_H_
#define RINGLET_CORE_EXCHANGE_JOINING_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

class JoiningMembers {
 public:
  // Every rank calls it first in a new view. `incumbent` is true if this worker
  // has taken part in the run.
  Status ExchangeIncumbents(Collective* collective, bool incumbent);
  // All members have taken part in the run now: none is joining any more.
  void AdmitAll() { incumbents_.clear(); }

  bool joins(int rank) const;
  int last_joiner() const;  // its rank; -1 if there is none
  // The rank that the other workers must agree with: the lowest incumbent.
  int reference_rank() const;

  // Ends a disagreement. Every rank has found that `rank` does not fit, for the
  // reason `why`. If `rank` is joining, it gets `why`, and the other workers
  // get kPeerLost after it has stopped. Otherwise all ranks get `why`.
  Status Refuse(Collective* collective, int rank, const Status& why) const;
  // Reports to the other ranks that this rank cannot continue, as the function
  // AbortOthers does. If this rank is joining, it is a lost worker for them.
  void AbortOthers(Collective* collective, const Status& why) const;

 private:
  std::vector<uint8_t> incumbents_;  // not 0 if incumbent; or empty
};

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_JOINING_MEMBERS_H_
