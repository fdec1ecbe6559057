// The variables of one scheduler, and where they place its ranks.
//
// For resolvers.h. An error names the missing or malformed variable, and the
// scheduler that made it necessary.

#ifndef RINGLET_NET_CLUSTER_VARIABLES_H_
#define RINGLET_NET_CLUSTER_VARIABLES_H_

#include <string>
#include <vector>

#include "environment.h"

namespace ringlet {

class Variables {
 public:
  // Both arguments outlive the Variables.
  Variables(const Environment& environment, const char* scheduler)
      : environment_(environment), scheduler_(scheduler) {}

  bool Has(const char* name) const { return environment_.Get(name) != nullptr; }
  // `name` if it is set, otherwise `other`.
  const char* Pick(const char* name, const char* other) const {
    return Has(name) ? name : other;
  }

  Status String(const char* name, std::string* value) const;
  Status Int(const char* name, int low, int high, int* value) const;
  // RINGLET_PORT, or the default if it is not set or is the link of a
  // Kubernetes service.
  Status Port(int* port) const { return PortOr(8888, port); }
  Status PortOr(int default_port, int* port) const;
  // Sets this process's rank among all, and the fields that follow from it.
  Status RankOfWorld(const char* rank_name, const char* size_name,
                     ClusterConfig* config) const;

 private:
  const Environment& environment_;
  const char* const scheduler_;
};

// Gives rank r's host the next free port of that host. hosts[r] is of one rank.
Status NumberPorts(const std::vector<std::string>& hosts, int base,
                   ClusterConfig* config);

// RINGLET_HOSTS for a known world.
Status PlaceByHostList(const Variables& variables, int base,
                       ClusterConfig* config);

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_VARIABLES_H_
