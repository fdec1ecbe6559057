// Collective operations on numbers, between ranks of different byte orders.

#ifndef RINGLET_CORE_BASE_COLLECTIVE_NUMBERS_H_
#define RINGLET_CORE_BASE_COLLECTIVE_NUMBERS_H_

#include <cstddef>

#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

// Broadcast and AllGather for `count` numbers of `element_bytes` each, between
// ranks of different byte orders. AllReduce handles byte order itself.
Status BroadcastNumbers(Collective* collective, void* data,
                        size_t element_bytes, size_t count, int root);
Status AllGatherNumbers(Collective* collective, const void* in,
                        size_t element_bytes, size_t count, void* out);

// Aborts if `status` is an error and there are other ranks, which would
// otherwise wait for this one.
void AbortOthers(Collective* collective, const Status& status);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_COLLECTIVE_NUMBERS_H_
