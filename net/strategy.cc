#include "strategy.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "ring_collective.h"

namespace ringlet {
namespace {

// The same on both sides: small enough that several are under way at once
// while the backward pass runs, large enough for the links' full speed.
constexpr int64_t kDefaultPack = 1 << 20;

Status CheckCommunication(const CommunicationOptions& options) {
  switch (options.implementation) {
    case CommunicationImplementation::kMpi:
      return InvalidArgument(
          "communication implementation MPI: this build has no MPI; use AUTO "
          "or RING");
    case CommunicationImplementation::kNccl:
      return InvalidArgument(
          "communication implementation NCCL: it needs GPUs, and ringlet "
          "computes on CPUs; use AUTO or RING");
    default: break;
  }
  if (options.bytes_per_pack < 0) {
    return InvalidArgument("bytes_per_pack must be >= 0, not %" PRId64,
                           options.bytes_per_pack);
  }
  return Status();
}

RingImplementation RingOf(CommunicationImplementation implementation) {
  switch (implementation) {
    case CommunicationImplementation::kRing: return RingImplementation::kRing;
    case CommunicationImplementation::kTree: return RingImplementation::kTree;
    default: return RingImplementation::kAuto;
  }
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string WorkerFolder(const ClusterConfig& cluster,
                         const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return (slash == std::string::npos ? "" : path.substr(0, slash + 1)) +
         "workertemp_" + std::to_string(cluster.task_index);
}

}  // namespace

Status CommunicationImplementationFromName(const std::string& name,
                                           CommunicationImplementation* out) {
  using Implementation = CommunicationImplementation;
  const std::string lower = LowerCase(name);
  for (const auto& [known, value] :
       {std::pair<const char*, Implementation>{"auto", Implementation::kAuto},
        {"ring", Implementation::kRing},
        {"tree", Implementation::kTree},
        {"mpi", Implementation::kMpi},
        {"nccl", Implementation::kNccl}}) {
    if (lower != known) continue;
    *out = value;
    return Status();
  }
  return InvalidArgument(
      "communication implementation '%s' is none of AUTO, RING, TREE, MPI, "
      "NCCL",
      name.c_str());
}

MultiWorkerMirroredStrategy MultiWorkerMirroredStrategy::FromEnvironment(
    const StrategyOptions& options, const Environment& environment) {
  ClusterConfig cluster;
  const Status status = ClusterFromEnvironment(environment, &cluster);
  if (status.ok()) return FromCluster(cluster, options);
  MultiWorkerMirroredStrategy failed;
  failed.status_ = status;
  return failed;
}

MultiWorkerMirroredStrategy MultiWorkerMirroredStrategy::FromCluster(
    const ClusterConfig& cluster, const StrategyOptions& options) {
  MultiWorkerMirroredStrategy strategy;
  strategy.cluster_ = cluster;
  strategy.status_ = CheckCommunication(options.communication);
  if (!strategy.status_.ok() || cluster.world_size == 1) return strategy;
  RingOptions ring;
  for (const Address& address : cluster.addresses) {
    ring.addresses.push_back(ToString(address));
  }
  ring.rank = cluster.rank;
  ring.job = options.job;
  ring.timeout_seconds = options.timeout_seconds;
  ring.start_timeout_seconds = options.start_timeout_seconds;
  ring.implementation = RingOf(options.communication.implementation);
  ring.bytes_per_pack = options.communication.bytes_per_pack > 0
                            ? options.communication.bytes_per_pack
                            : kDefaultPack;
  ring.wire_dtype = options.communication.wire_dtype;
  strategy.status_ = RingCollective::Open(ring, &strategy.collective_);
  return strategy;
}

std::string WorkerPath(const ClusterConfig& cluster, const std::string& path) {
  if (cluster.is_chief) return path;
  return WorkerFolder(cluster, path) + "/" +
         path.substr(path.find_last_of('/') + 1);
}

Status RemoveWorkerTemp(const ClusterConfig& cluster,
                        const std::string& path) {
  if (cluster.is_chief) return Status();
  const std::string file = WorkerPath(cluster, path);
  if (unlink(file.c_str()) != 0 && errno != ENOENT) {
    return OsError(errno, "%s: removing", file.c_str());
  }
  const std::string folder = WorkerFolder(cluster, path);
  if (rmdir(folder.c_str()) == 0 || errno == ENOENT || errno == ENOTEMPTY ||
      errno == EEXIST) {
    return Status();
  }
  return OsError(errno, "%s: removing", folder.c_str());
}

}  // namespace ringlet
