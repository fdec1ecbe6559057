// MakeRingOptions: the options with which a strategy opens its ring.

#ifndef RINGLET_NET_STRATEGY_MAKE_RING_OPTIONS_H_
#define RINGLET_NET_STRATEGY_MAKE_RING_OPTIONS_H_

#include "../cluster/ring_options.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

// Reads the job's key. An error is the error of the key's file.
Status MakeRingOptions(const ClusterConfig& cluster,
                       const StrategyOptions& options, RingOptions* ring);

}  // namespace ringlet

#endif  // RINGLET_NET_STRATEGY_MAKE_RING_OPTIONS_H_
