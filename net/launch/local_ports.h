// Free TCP ports of this machine, for workers that are about to start.

#ifndef RINGLET_NET_LAUNCH_LOCAL_PORTS_H_
#define RINGLET_NET_LAUNCH_LOCAL_PORTS_H_

#include <vector>

#include "ringlet/status.h"

namespace ringlet {

// Finds `count` ports on 127.0.0.1 that were free at the same time. They are
// below the range that the kernel gives to outgoing connections: no connection
// may take a worker's port while the worker is down.
Status FindLocalPorts(int count, std::vector<int>* ports);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_LOCAL_PORTS_H_
