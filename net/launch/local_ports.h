// Free TCP ports of this machine, for workers that are about to start.
//
// Internal to net/.

#ifndef RINGLET_NET_LAUNCH_LOCAL_PORTS_H_
#define RINGLET_NET_LAUNCH_LOCAL_PORTS_H_

#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

// `count` ports on 127.0.0.1 that were free at once, from below the range that
// the kernel gives to outgoing connections: a worker's port must not be taken
// by a connection (or by a connection to itself) while the worker is down.
Status FindLocalPorts(int count, std::vector<int>* ports);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_LOCAL_PORTS_H_
