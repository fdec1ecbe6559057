// The check of a ring's options.

#ifndef RINGLET_NET_RING_CHECK_RING_OPTIONS_H_
#define RINGLET_NET_RING_CHECK_RING_OPTIONS_H_

#include <vector>

#include "../cluster/ring_options.h"
#include "ringlet/strategy.h"

namespace ringlet {

// kInvalidArgument names the wrong option and its fault. Otherwise `hosts` are
// the parsed addresses.
Status CheckRingOptions(const RingOptions& options,
                        std::vector<Address>* hosts);

}  // namespace ringlet

#endif  // RINGLET_NET_RING_CHECK_RING_OPTIONS_H_
