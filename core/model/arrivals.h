// Arrivals: who of an elastic job's workers was in the run before they met, and
// who comes to it.
//
// Internal to core/. One that comes to a run of others must not end it: where
// it cannot take part, or does not fit, it ends, and they meet anew without it.
// Where nobody was in a run before, as at the start, and in a job that is not
// elastic, none comes.

#ifndef RINGLET_CORE_MODEL_ARRIVALS_H_
#define RINGLET_CORE_MODEL_ARRIVALS_H_

#include <cstdint>
#include <vector>

#include "../base/collective.h"
#include "../base/status.h"

namespace ringlet {

class Arrivals {
 public:
  // Once the workers have met, before anything else: whether this one was in
  // the run. Every rank calls it.
  Status Meet(Collective* collective, bool lived);
  // All have taken part in the run: no rank comes any more.
  void Settle() { lived_.clear(); }

  bool comes(int rank) const;
  int last_comer() const;  // its rank; -1: none comes
  // The rank by which the others are judged.
  int reference() const;

  // Every rank has found that `rank` does not fit, and `why`. Where that comes,
  // it gets the reason, and the others kPeerLost, once it knows; else all get
  // the reason.
  Status Refuse(Collective* collective, int rank, const Status& why) const;
  // This rank cannot go on, and the others do not know: as AbortOthers, but
  // where it comes it is lost to them.
  void AbortOthers(Collective* collective, const Status& why) const;

 private:
  std::vector<uint8_t> lived_;  // by rank; empty: none comes
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_ARRIVALS_H_
