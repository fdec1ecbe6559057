#include "cluster.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "../../core/base/text.h"
#include "resolvers.h"

namespace ringlet {

namespace {

constexpr int kDefaultPort = 8888;  // of TensorFlow's Slurm resolver

class ProcessEnvironment final : public Environment {
 public:
  const char* Get(const char* name) const override { return std::getenv(name); }
  std::string HostName() const override {
    char name[256] = "";
    if (gethostname(name, sizeof(name) - 1) != 0) return "";
    return name;
  }
};

// One scheduler's variables. Missing and malformed ones are named, together
// with the scheduler that made them needed.
class Variables {
 public:
  Variables(const Environment& environment, const char* scheduler)
      : environment_(environment), scheduler_(scheduler) {}

  bool Has(const char* name) const { return environment_.Get(name) != nullptr; }
  // The first that is set, else the last.
  const char* Pick(const char* name, const char* other) const {
    return Has(name) ? name : other;
  }

  Status String(const char* name, std::string* value) const {
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

  Status Int(const char* name, int low, int high, int* value) const {
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

  Status Port(int otherwise, int* port) const {
    *port = otherwise;
    return Has("RINGLET_PORT") ? Int("RINGLET_PORT", 1, 65535, port) : Status();
  }

  Status RankOfWorld(const char* rank_name, const char* size_name,
                     ClusterConfig* config) const {
    RINGLET_RETURN_IF_ERROR(
        Int(size_name, 1, kMaxWorldSize, &config->world_size));
    RINGLET_RETURN_IF_ERROR(
        Int(rank_name, 0, kMaxWorldSize - 1, &config->rank));
    if (config->rank >= config->world_size) {
      return InvalidArgument(
          "%s is %d, but ranks count from 0 and %s is %d: correct one of them",
          rank_name, config->rank, size_name, config->world_size);
    }
    config->task_index = config->rank;
    config->is_chief = config->rank == 0;
    return Status();
  }

 private:
  const Environment& environment_;
  const char* scheduler_;
};

// Gives rank r's host the next free port of that host. hosts[r] is of one rank.
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

// RINGLET_HOSTS for a known world.
Status PlaceByHostList(const Variables& variables, int base,
                       ClusterConfig* config) {
  std::string text;
  RINGLET_RETURN_IF_ERROR(variables.String("RINGLET_HOSTS", &text));
  std::vector<std::string> items;
  RINGLET_RETURN_IF_ERROR(
      ExpandHostList(text, &items).Annotate("RINGLET_HOSTS"));
  const size_t world = static_cast<size_t>(config->world_size);
  if (world % items.size() != 0) {
    return InvalidArgument(
        "RINGLET_HOSTS has %zu hosts for %zu ranks: give one for each rank, "
        "or one for each machine if all have equally many",
        items.size(), world);
  }
  const size_t each = world / items.size();
  // With a port: "[v6]:port" or "host:port".
  const auto has_port = [](const std::string& item) {
    return item.find(':') != std::string::npos && item.back() != ']';
  };
  std::vector<std::string> hosts;
  for (const std::string& item : items) {
    if (has_port(item) != has_port(items[0])) {
      return InvalidArgument(
          "RINGLET_HOSTS: %s: give a port with every host or with none",
          Quoted(item).c_str());
    }
    if (has_port(item)) {
      if (each != 1) {
        return InvalidArgument(
            "RINGLET_HOSTS: %s is one address for %zu ranks: give an address "
            "for each, or leave the ports out",
            Quoted(item).c_str(), each);
      }
      config->addresses.emplace_back();
      RINGLET_RETURN_IF_ERROR(ParseAddress(item, &config->addresses.back())
                                  .Annotate("RINGLET_HOSTS"));
      continue;
    }
    const bool v6 = item[0] == '[';
    const std::string host = v6 ? item.substr(1, item.size() - 2) : item;
    hosts.insert(hosts.end(), each, host);
  }
  RINGLET_RETURN_IF_ERROR(
      NumberPorts(hosts, base, config).Annotate("RINGLET_HOSTS"));
  return CheckDistinct(config->addresses).Annotate("RINGLET_HOSTS");
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || StartsWith(host, "127.");
}

Status ResolveTorchrun(const Environment& environment, ClusterConfig* config) {
  const Variables variables(environment, "torchrun");
  RINGLET_RETURN_IF_ERROR(variables.RankOfWorld("RANK", "WORLD_SIZE", config));
  std::string master;
  RINGLET_RETURN_IF_ERROR(variables.String("MASTER_ADDR", &master));
  std::string host;
  RINGLET_RETURN_IF_ERROR(ParseHost(master, &host).Annotate("MASTER_ADDR"));
  int port = 0;
  RINGLET_RETURN_IF_ERROR(variables.Int("MASTER_PORT", 1, 65534, &port));
  RINGLET_RETURN_IF_ERROR(variables.Port(port + 1, &port));
  if (variables.Has("RINGLET_HOSTS")) {
    return PlaceByHostList(variables, port, config);
  }
  int local = IsLoopback(host) ? config->world_size : 1;
  if (variables.Has("LOCAL_WORLD_SIZE")) {
    RINGLET_RETURN_IF_ERROR(
        variables.Int("LOCAL_WORLD_SIZE", 1, kMaxWorldSize, &local));
  }
  if (local != config->world_size) {
    return InvalidArgument(
        "RINGLET_HOSTS is not set, but the %d ranks of torchrun run on several "
        "hosts and MASTER_ADDR names only the first: list them in rank order, "
        "RINGLET_HOSTS=%s,...",
        config->world_size, host.c_str());
  }
  return NumberPorts(std::vector<std::string>(
                         static_cast<size_t>(config->world_size), host),
                     port, config)
      .Annotate("MASTER_PORT");
}

struct MpiNames {
  const char* scheduler;
  const char* rank;
  const char* size;
  const char* local_size;
};
constexpr MpiNames kOpenMpi = {"mpirun", "OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr MpiNames kPmi = {"mpiexec", "PMI_RANK", "PMI_SIZE",
                           "MPI_LOCALNRANKS"};

Status ResolveMpi(const Environment& environment, const MpiNames& names,
                  ClusterConfig* config) {
  const Variables variables(environment, names.scheduler);
  RINGLET_RETURN_IF_ERROR(
      variables.RankOfWorld(names.rank, names.size, config));
  int port = 0;
  RINGLET_RETURN_IF_ERROR(variables.Port(kDefaultPort, &port));
  if (variables.Has("RINGLET_HOSTS")) {
    return PlaceByHostList(variables, port, config);
  }
  int local = 1;
  if (variables.Has(names.local_size)) {
    RINGLET_RETURN_IF_ERROR(
        variables.Int(names.local_size, 1, kMaxWorldSize, &local));
  }
  if (local != config->world_size) {
    return InvalidArgument(
        "RINGLET_HOSTS is not set, but %s started %d ranks and does not say "
        "where: list their hosts in rank order, RINGLET_HOSTS=a,b,...",
        names.scheduler, config->world_size);
  }
  return NumberPorts(
      std::vector<std::string>(static_cast<size_t>(local), "127.0.0.1"), port,
      config);
}

// "2(x3),1" -> 2, 2, 2, 1.
Status ExpandCounts(const char* name, const std::string& text, int nodes,
                    int world, std::vector<int>* counts) {
  const Status malformed = InvalidArgument(
      "%s is %s, must hold for each node its number of tasks, as in 2(x3),1",
      name, Quoted(text).c_str());
  size_t start = 0;
  while (start <= text.size()) {
    size_t comma = text.find(',', start);
    if (comma == std::string::npos) comma = text.size();
    std::string count = text.substr(start, comma - start);
    start = comma + 1;
    int times = 1;
    const size_t open = count.find("(x");
    if (open != std::string::npos) {
      if (count.back() != ')') return malformed;
      times = ParseDigits(count.substr(open + 2, count.size() - open - 3),
                          kMaxWorldSize);
      count.resize(open);
    }
    const int tasks = ParseDigits(count, kMaxWorldSize);
    if (tasks < 1 || times < 1) return malformed;
    if (counts->size() + static_cast<size_t>(times) > kMaxWorldSize) {
      return malformed;
    }
    counts->insert(counts->end(), static_cast<size_t>(times), tasks);
  }
  int sum = 0;
  for (int tasks : *counts) sum += tasks;
  if (static_cast<int>(counts->size()) == nodes && sum == world) {
    return Status();
  }
  return InvalidArgument(
      "%s is %s, %d tasks on %zu nodes, but this job has %d tasks on %d nodes: "
      "start the workers with srun, so that each step has its own values",
      name, Quoted(text).c_str(), sum, counts->size(), world, nodes);
}

Status SlurmCounts(const Variables& variables, int nodes, int world,
                   std::vector<int>* counts) {
  const char* name =
      variables.Pick("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  if (variables.Has(name)) {
    std::string text;
    RINGLET_RETURN_IF_ERROR(variables.String(name, &text));
    return ExpandCounts(name, text, nodes, world, counts);
  }
  if (nodes > world) {
    return InvalidArgument(
        "SLURM_NTASKS is %d, fewer than the %d nodes of SLURM_JOB_NODELIST: "
        "set SLURM_TASKS_PER_NODE, or start the workers with srun",
        world, nodes);
  }
  for (int node = 0; node < nodes; ++node) {
    counts->push_back(world / nodes + (node < world % nodes ? 1 : 0));
  }
  return Status();
}

Status ResolveSlurm(const Environment& environment, ClusterConfig* config) {
  const Variables variables(environment, "Slurm");
  RINGLET_RETURN_IF_ERROR(variables.RankOfWorld(
      "SLURM_PROCID", variables.Pick("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
      config));
  const char* list_name =
      variables.Pick("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  std::string list;
  RINGLET_RETURN_IF_ERROR(variables.String(list_name, &list));
  std::vector<std::string> nodes;
  RINGLET_RETURN_IF_ERROR(
      ExpandHostList(list, &nodes).Annotate("%s", list_name));
  std::vector<int> counts;
  RINGLET_RETURN_IF_ERROR(SlurmCounts(variables, static_cast<int>(nodes.size()),
                                      config->world_size, &counts));
  bool cyclic = false;
  if (variables.Has("SLURM_DISTRIBUTION")) {
    std::string text;
    RINGLET_RETURN_IF_ERROR(variables.String("SLURM_DISTRIBUTION", &text));
    const std::string kind = text.substr(0, text.find_first_of(":,"));
    cyclic = kind == "cyclic";
    if (!cyclic && kind != "block") {
      return InvalidArgument(
          "SLURM_DISTRIBUTION is %s; ringlet knows where a rank runs for block "
          "and cyclic only: use srun --distribution=block, or set TF_CONFIG",
          Quoted(text).c_str());
    }
  }
  std::vector<std::string> hosts;
  if (cyclic) {
    for (int round = 0; hosts.size() < static_cast<size_t>(config->world_size);
         ++round) {
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (counts[i] > round) hosts.push_back(nodes[i]);
      }
    }
  } else {
    for (size_t i = 0; i < nodes.size(); ++i) {
      hosts.insert(hosts.end(), static_cast<size_t>(counts[i]), nodes[i]);
    }
  }
  int port = 0;
  RINGLET_RETURN_IF_ERROR(variables.Port(kDefaultPort, &port));
  return NumberPorts(hosts, port, config).Annotate("%s", list_name);
}

Status ResolveKubernetes(const Environment& environment,
                         ClusterConfig* config) {
  const Variables variables(environment, "a Kubernetes StatefulSet");
  RINGLET_RETURN_IF_ERROR(variables.Int("RINGLET_WORLD_SIZE", 1, kMaxWorldSize,
                                        &config->world_size));
  std::string service;
  RINGLET_RETURN_IF_ERROR(variables.String("RINGLET_SERVICE", &service));
  int port = 0;
  RINGLET_RETURN_IF_ERROR(variables.Port(kDefaultPort, &port));
  const std::string full = environment.HostName();
  const std::string pod = full.substr(0, full.find('.'));
  const size_t dash = pod.rfind('-');
  const int ordinal = dash == std::string::npos || dash == 0
                          ? -1
                          : ParseDigits(pod.substr(dash + 1), 2000000000);
  if (ordinal < 0) {
    return InvalidArgument(
        "host name %s does not end in -<ordinal> as a StatefulSet's pods do "
        "(RINGLET_WORLD_SIZE and RINGLET_SERVICE are set): run as a "
        "StatefulSet, or set TF_CONFIG",
        Quoted(full).c_str());
  }
  if (ordinal >= config->world_size) {
    return InvalidArgument(
        "host name %s: ordinal %d, but RINGLET_WORLD_SIZE is %d and ordinals "
        "count from 0: set it to the StatefulSet's replicas",
        Quoted(full).c_str(), ordinal, config->world_size);
  }
  config->rank = config->task_index = ordinal;
  config->is_chief = ordinal == 0;
  for (int i = 0; i < config->world_size; ++i) {
    Address address;
    RINGLET_RETURN_IF_ERROR(
        ParseHost(pod.substr(0, dash + 1) + std::to_string(i) + "." + service,
                  &address.host)
            .Annotate("RINGLET_SERVICE"));
    address.port = port;
    config->addresses.push_back(address);
  }
  return Status();
}

bool SameText(const char* a, const char* b) {
  return a != nullptr && b != nullptr && std::strcmp(a, b) == 0;
}

// srun may speak PMI to its tasks; only Slurm knows then where they run.
bool IsPmiOfSlurm(const Environment& environment) {
  return environment.Get("RINGLET_HOSTS") == nullptr &&
         SameText(environment.Get("PMI_RANK"),
                  environment.Get("SLURM_PROCID")) &&
         (SameText(environment.Get("PMI_SIZE"),
                   environment.Get("SLURM_NTASKS")) ||
          SameText(environment.Get("PMI_SIZE"),
                   environment.Get("SLURM_STEP_NUM_TASKS")));
}

Status Resolve(const Environment& environment, ClusterConfig* config) {
  const auto has = [&](const char* name) {
    return environment.Get(name) != nullptr;
  };
  if (has("TF_CONFIG")) {
    return ResolveTfConfig(environment.Get("TF_CONFIG"), config);
  }
  if (has("MASTER_ADDR") || (has("RANK") && has("WORLD_SIZE"))) {
    return ResolveTorchrun(environment, config);
  }
  if (has(kOpenMpi.rank) || has(kOpenMpi.size)) {
    return ResolveMpi(environment, kOpenMpi, config);
  }
  if ((has(kPmi.rank) || has(kPmi.size)) && !IsPmiOfSlurm(environment)) {
    return ResolveMpi(environment, kPmi, config);
  }
  if (has("SLURM_PROCID")) return ResolveSlurm(environment, config);
  if (has("RINGLET_WORLD_SIZE") || has("RINGLET_SERVICE")) {
    return ResolveKubernetes(environment, config);
  }
  return Status();
}

}  // namespace

const Environment& Environment::Process() {
  static const ProcessEnvironment environment;
  return environment;
}

Status ClusterFromEnvironment(const Environment& environment,
                              ClusterConfig* config) {
  ClusterConfig resolved;
  RINGLET_RETURN_IF_ERROR(Resolve(environment, &resolved));
  *config = resolved;
  return Status();
}

}  // namespace ringlet
