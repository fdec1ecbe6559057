// Agreement: the ranks of a job compare what must be alike on all of them.
//
// Internal to core/.

#ifndef RINGLET_CORE_AGREEMENT_H_
#define RINGLET_CORE_AGREEMENT_H_

#include <cstdint>
#include <vector>

#include "collective.h"
#include "status.h"

namespace ringlet {

struct Fact {
  const char* name;  // "batch size"
  int64_t value;
  // A checksum, of which a person learns nothing but that it differs.
  bool fingerprint = false;
};

// kInvalidArgument, the same on every rank, where one differs from the chief;
// names the first such rank and fact. `what` is "model 'sequential'".
Status Agree(Collective* collective, const char* what,
             const std::vector<Fact>& facts);

}  // namespace ringlet

#endif  // RINGLET_CORE_AGREEMENT_H_
