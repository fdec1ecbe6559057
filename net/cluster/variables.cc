#include "variables.h"

#include <map>

#include "../../core/base/text.h"
#include "resolvers.h"

namespace ringlet {

Status Variables::String(const char* name, std::string* value) const {
  const char* text = environment_.Get(name);
  if (text == nullptr || *text == '\0') {
    return InvalidArgument(
        "%s is %s, but %s needs it: set it, or set TF_CONFIG ({} for one "
        "worker alone)",
        name, text == nullptr ? "not set" : "empty", scheduler_);
  }
  *value = text;
  return Status();
}

Status Variables::Int(const char* name, int low, int high, int* value) const {
  std::string text;
  RINGLET_RETURN_IF_ERROR(String(name, &text));
  const int number = ParseDigits(text, high);
  if (number < low) {
    return InvalidArgument("%s is %s, must be a number from %d to %d (%s)",
                           name, Quoted(text).c_str(), low, high, scheduler_);
  }
  *value = number;
  return Status();
}

namespace {

// Kubernetes sets RINGLET_PORT=tcp://10.0.0.7:8888 in each pod if a service is
// named ringlet. The user did not choose that port.
bool IsServiceLink(const std::string& text) {
  return StartsWith(text, "tcp://") || StartsWith(text, "udp://") ||
         StartsWith(text, "sctp://");
}

// True for "[v6]:port" and "host:port".
bool HasPort(const std::string& item) {
  return item.find(':') != std::string::npos && item.back() != ']';
}

Status MixedPortsError(const std::string& item) {
  return InvalidArgument("%s: give a port with every host or with none",
                         Quoted(item).c_str());
}

Status PlaceByAddresses(const std::vector<std::string>& items, size_t world,
                        ClusterConfig* config) {
  for (const std::string& item : items) {
    if (!HasPort(item)) return MixedPortsError(item);
    if (items.size() != world) {
      return InvalidArgument(
          "%s is one address for %zu ranks: give an address for each, or leave "
          "the ports out",
          Quoted(item).c_str(), world / items.size());
    }
    config->addresses.emplace_back();
    RINGLET_RETURN_IF_ERROR(ParseAddress(item, &config->addresses.back()));
  }
  return CheckDistinct(config->addresses);
}

Status PlaceByHosts(const std::vector<std::string>& items, size_t world,
                    int base, ClusterConfig* config) {
  std::vector<std::string> hosts;
  for (const std::string& item : items) {
    if (HasPort(item)) return MixedPortsError(item);
    const bool v6 = item[0] == '[';
    const std::string host = v6 ? item.substr(1, item.size() - 2) : item;
    hosts.insert(hosts.end(), world / items.size(), host);
  }
  return NumberPorts(hosts, base, config);
}

}  // namespace

Status Variables::PortOr(int default_port, int* port) const {
  *port = default_port;
  const char* const text = environment_.Get("RINGLET_PORT");
  if (text == nullptr || IsServiceLink(text)) return Status();
  return Int("RINGLET_PORT", 1, 65535, port);
}

Status Variables::RankOfWorld(const char* rank_name, const char* size_name,
                              ClusterConfig* config) const {
  RINGLET_RETURN_IF_ERROR(
      Int(size_name, 1, kMaxWorldSize, &config->world_size));
  RINGLET_RETURN_IF_ERROR(
      Int(rank_name, 0, kMaxWorldSize - 1, &config->worker));
  if (config->worker >= config->world_size) {
    return InvalidArgument(
        "%s is %d, but ranks count from 0 and %s is %d: correct one of them",
        rank_name, config->worker, size_name, config->world_size);
  }
  config->task_index = config->worker;
  config->is_chief = config->worker == 0;
  return Status();
}

Status NumberPorts(const std::vector<std::string>& hosts, int base,
                   ClusterConfig* config) {
  std::map<std::string, int> used;
  for (const std::string& text : hosts) {
    Address address;
    RINGLET_RETURN_IF_ERROR(ParseHost(text, &address.host));
    address.port = base + used[address.host]++;
    if (address.port > 65535) {
      return InvalidArgument(
          "the ranks of host %s would need ports above 65535 from %d on: set "
          "RINGLET_PORT to a lower one",
          Quoted(text).c_str(), base);
    }
    config->addresses.push_back(address);
  }
  return Status();
}

Status PlaceByHostList(const Variables& variables, int base,
                       ClusterConfig* config) {
  std::string list;
  RINGLET_RETURN_IF_ERROR(variables.String("RINGLET_HOSTS", &list));
  std::vector<std::string> items;
  RINGLET_RETURN_IF_ERROR(
      ExpandHostList(list, &items).Annotate("RINGLET_HOSTS"));
  const size_t world = static_cast<size_t>(config->world_size);
  if (world % items.size() != 0) {
    return InvalidArgument(
        "RINGLET_HOSTS has %zu hosts for %zu ranks: give one for each rank, "
        "or one for each machine if all have equally many",
        items.size(), world);
  }
  return (HasPort(items[0]) ? PlaceByAddresses(items, world, config)
                            : PlaceByHosts(items, world, base, config))
      .Annotate("RINGLET_HOSTS");
}

}  // namespace ringlet
