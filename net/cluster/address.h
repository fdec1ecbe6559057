// The workers' addresses: from texts, which may be hostile, and to texts.

#ifndef RINGLET_NET_CLUSTER_ADDRESS_H_
#define RINGLET_NET_CLUSTER_ADDRESS_H_

#include <string>
#include <vector>

#include "ringlet/status.h"
#include "ringlet/strategy.h"

namespace ringlet {

// The most workers of a job.
constexpr int kMaxWorldSize = 1024;

// Reads a name, IPv4 or IPv6 (without brackets) in the form in which Address
// holds it.
Status ParseHost(const std::string& text, std::string* host);

// Reads "host:port", "1.2.3.4:port" or "[v6]:port" (with a zone:
// "[fe80::1%eth0]"). Looks up no name. kInvalidArgument: another form, or
// 0.0.0.0 or [::].
Status ParseAddress(const std::string& text, Address* address);
std::string ToString(const Address& address);

// Returns an error if two ranks have one address.
Status CheckDistinct(const std::vector<Address>& addresses);

}  // namespace ringlet

#endif  // RINGLET_NET_CLUSTER_ADDRESS_H_
