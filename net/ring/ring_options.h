// Whether the options of a ring make sense.
//
// Internal to net/.

#ifndef RINGLET_NET_RING_RING_OPTIONS_H_
#define RINGLET_NET_RING_RING_OPTIONS_H_

#include <vector>

#include "../cluster/cluster.h"
#include "ring_collective.h"

namespace ringlet {

// kInvalidArgument says what is wrong with which; else `hosts` are the parsed
// addresses.
Status CheckRingOptions(const RingOptions& options,
                        std::vector<Address>* hosts);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_OPTIONS_H_
