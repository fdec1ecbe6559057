// The order in Resolve decides which scheduler wins, as docs/porting.md lists
// it: TF_CONFIG, torchrun, Open MPI, PMI, Slurm, Kubernetes. A scheduler is
// recognized by one variable; a missing other one is then an error and not a
// job of one worker.

#include "ringlet/strategy.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "../../core/base/text.h"
#include "environment.h"
#include "resolvers.h"
#include "variables.h"

namespace ringlet {

namespace {

class OwnEnvironment final : public Environment {
 public:
  const char* Get(const char* name) const override { return std::getenv(name); }
  std::string HostName() const override {
    char name[256] = "";
    if (gethostname(name, sizeof(name) - 1) != 0) return "";
    return name;
  }
};

// `host` is from ParseHost. "127.example.org" is a name, of any address.
bool IsLoopbackName(const std::string& host) {
  in_addr address;
  return host == "localhost" || host == "::1" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 &&
          StartsWith(host, "127."));
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
  RINGLET_RETURN_IF_ERROR(variables.PortOr(port + 1, &port));
  if (variables.Has("RINGLET_HOSTS")) {
    return PlaceByHostList(variables, port, config);
  }
  int local = IsLoopbackName(host) ? config->world_size : 1;
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
  RINGLET_RETURN_IF_ERROR(variables.Port(&port));
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
        "RINGLET_HOSTS is not set, but %s started %d ranks and does not give "
        "their hosts; list these in rank order, RINGLET_HOSTS=a,b,...",
        names.scheduler, config->world_size);
  }
  return NumberPorts(
      std::vector<std::string>(static_cast<size_t>(local), "127.0.0.1"), port,
      config);
}

Status ResolveKubernetes(const Environment& environment,
                         ClusterConfig* config) {
  const Variables variables(environment, "a Kubernetes StatefulSet");
  RINGLET_RETURN_IF_ERROR(variables.Int("RINGLET_WORLD_SIZE", 1, kMaxWorldSize,
                                        &config->world_size));
  std::string service;
  RINGLET_RETURN_IF_ERROR(variables.String("RINGLET_SERVICE", &service));
  int port = 0;
  RINGLET_RETURN_IF_ERROR(variables.Port(&port));
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
  config->worker = config->task_index = ordinal;
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

// srun may use PMI for its tasks. Then only Slurm has their addresses.
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

const Environment& ProcessEnvironment() {
  static const OwnEnvironment environment;
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
