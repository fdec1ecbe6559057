// Functions that the resolvers of ringlet/strategy.h share.
//
// Texts here are from the environment: hostile.

#ifndef RINGLET_NET_CLUSTER_RESOLVERS_H_
#define RINGLET_NET_CLUSTER_RESOLVERS_H_

#include <string>
#include <vector>

#include "address.h"
#include "environment.h"

namespace ringlet {

// 'text' for a message: cut at 60 bytes, anything but printable ASCII as '?'.
std::string Quoted(const std::string& text);

// Reads 0..limit, in decimal digits only; -1 if the text is anything else.
int ParseDigits(const std::string& text, int limit);

// "a,node[01-03,7]-x,[::1]:2222" one by one; brackets as in Slurm's hostlist,
// several in a name too. At most kMaxWorldSize.
Status ExpandHostList(const std::string& text, std::vector<std::string>* items);

// Each reads the variables for which ClusterFromEnvironment calls it.
Status ResolveTfConfig(const std::string& text, ClusterConfig* config);
Status ResolveSlurm(const Environment& environment, ClusterConfig* config);

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_RESOLVERS_H_
