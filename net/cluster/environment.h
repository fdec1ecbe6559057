// Environment: the interface through which ringlet reads the environment of the
// process. Tests have implementations of their own.

#ifndef RINGLET_NET_CLUSTER_ENVIRONMENT_H_
#define RINGLET_NET_CLUSTER_ENVIRONMENT_H_

#include <string>

#include "ringlet/strategy.h"

namespace ringlet {

class Environment {
 public:
  virtual ~Environment() = default;
  // The variable's value; null if it is not set. Valid until the environment
  // changes.
  virtual const char* Get(const char* name) const = 0;
  virtual std::string HostName() const = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_ENVIRONMENT_H_
