// Options become RingOptions here, and are checked before the first
// connection. If this worker can never join, a Withdrawal tells the other
// workers the reason, so that they do not wait until the timeout. A setting
// that all workers must share belongs into the handshake's Identity, too.

#include "ringlet/strategy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "../../core/base/key_file.h"
#include "../../core/base/time_units.h"
#include "../../core/step/local_round.h"
#include "../cluster/address.h"
#include "../cluster/environment.h"
#include "../ring/ring_collective.h"
#include "../ring/withdrawal.h"
#include "../secure/noise.h"
#include "../transport/socket_address.h"
#include "../wire/wire_dtype.h"
#include "make_ring_options.h"
#include "mpi_collective.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// The bytes of a piece of gradients, the same on all workers. Small enough that
// several pieces are under way during the backward pass, and large enough for
// the full speed of the links.
constexpr int64_t kDefaultPack = 1 << 20;

bool IsElastic(const StrategyOptions& options) {
  return options.min_workers > 0;
}

Reduction ReductionOf(const StrategyOptions& options) {
  return IsElastic(options) ? Reduction::kExact : options.reduction;
}

Status CheckOptions(const StrategyOptions& strategy) {
  const CommunicationOptions& options = strategy.communication;
  if (strategy.min_workers < 0) {
    return InvalidArgument("min_workers must be >= 0, not %d",
                           strategy.min_workers);
  }
  if (IsElastic(strategy) &&
      options.implementation == CommunicationImplementation::kMpi) {
    return InvalidArgument(
        "min_workers with implementation MPI: its workers are the same from "
        "the start to the end: leave one of them out");
  }
  const bool local = strategy.local.enabled();
  if ((local || ReductionOf(strategy) == Reduction::kExact) &&
      options.wire_dtype != WireDtype::kFloat32) {
    return InvalidArgument(
        "wire dtype %s with %s: its sums are of integers that "
        "travel as they are: leave one of them out",
        WireDtypeName(options.wire_dtype),
        local ? "local updates" : "reduction exact");
  }
  RINGLET_RETURN_IF_ERROR(strategy.local.Check());
  if (IsElastic(strategy)) {
    RINGLET_RETURN_IF_ERROR(CheckStateOutlivesLoss(strategy.local));
  }
  if (strategy.local.quorum > 0 && !IsElastic(strategy)) {
    return InvalidArgument(
        "a quorum of %d, but the job waits for every lost worker; set "
        "\"policy\": \"shrink\" too (StrategyOptions::min_workers)",
        strategy.local.quorum);
  }
  if (!strategy.relay.empty() &&
      options.implementation == CommunicationImplementation::kMpi) {
    return InvalidArgument(
        "a relay with implementation MPI, which makes its own connections: "
        "leave one of them out");
  }
  switch (options.implementation) {
    case CommunicationImplementation::kMpi:
      if (options.wire_dtype == WireDtype::kFloat32) break;
      return InvalidArgument(
          "wire dtype %s with implementation MPI, which moves float32: use "
          "AUTO or RING",
          WireDtypeName(options.wire_dtype));
    case CommunicationImplementation::kNccl:
      return InvalidArgument(
          "communication implementation NCCL: it needs GPUs, and ringlet "
          "computes on CPUs; use AUTO or RING");
    default:
      break;
  }
  if (options.bytes_per_pack < 0) {
    return InvalidArgument("bytes_per_pack must be >= 0, not %" PRId64,
                           options.bytes_per_pack);
  }
  return Status();
}

int64_t PackOf(const CommunicationOptions& options) {
  return options.bytes_per_pack > 0 ? options.bytes_per_pack : kDefaultPack;
}

Status OpenMpi(const StrategyOptions& options,
               std::unique_ptr<Collective>* out) {
  MpiOptions mpi;
  mpi.bytes_per_pack = PackOf(options.communication);
  mpi.leave_timeout_seconds = options.start_timeout_seconds;
  return OpenMpi(mpi, out);
}

// The workers that mpirun has started. MPI has their addresses.
ClusterConfig ClusterOf(const Collective& mpi) {
  ClusterConfig cluster;
  cluster.world_size = mpi.size();
  cluster.worker = cluster.task_index = mpi.rank();
  cluster.is_chief = mpi.rank() == 0;
  return cluster;
}

RingImplementation RingOf(CommunicationImplementation implementation) {
  switch (implementation) {
    case CommunicationImplementation::kRing:
      return RingImplementation::kRing;
    case CommunicationImplementation::kTree:
      return RingImplementation::kTree;
    default:
      return RingImplementation::kAuto;
  }
}

// A worker that is lost while the ring forms is waited for like a worker that
// has not connected yet.
Status OpenRingPatiently(const RingOptions& options,
                         std::unique_ptr<Collective>* out,
                         std::unique_ptr<Withdrawal>* withdrawal) {
  Clock* const clock = Clock::System();
  const int64_t deadline =
      clock->MonotonicNanos() + Nanos(options.start_timeout_seconds);
  for (;;) {
    const Status status = OpenRing(options, out, withdrawal);
    if (status.code() != Code::kPeerLost ||
        clock->MonotonicNanos() >= deadline) {
      return status;
    }
    Notice("warning: %s, while the workers connected; still waiting",
           status.message());
  }
}

Status MakeKeys(const ClusterConfig& cluster, const StrategyOptions& options,
                JobKeysPtr* keys) {
  RINGLET_RETURN_IF_ERROR(FindKeys(options.key_file, keys));
  // On a different host the launcher would have a different key.
  if (*keys == nullptr && SecureStart().ok() &&
      std::all_of(cluster.addresses.begin(), cluster.addresses.end(),
                  IsLoopback)) {
    *keys = LauncherKeys();
  }
  return Status();
}

bool IsInsecure(const StrategyOptions& options) {
  const char* const insecure_variable = std::getenv("RINGLET_INSECURE");
  return options.insecure || (insecure_variable != nullptr &&
                              std::string(insecure_variable) == "1");
}

std::string WorkerFolder(const ClusterConfig& cluster,
                         const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return (slash == std::string::npos ? "" : path.substr(0, slash + 1)) +
         "workertemp_" + std::to_string(cluster.task_index);
}

}  // namespace

Status MakeRingOptions(const ClusterConfig& cluster,
                       const StrategyOptions& options, RingOptions* out) {
  RingOptions ring;
  RINGLET_RETURN_IF_ERROR(MakeKeys(cluster, options, &ring.keys));
  ring.insecure = IsInsecure(options);
  ring.relay = options.relay;
  for (const Address& address : cluster.addresses) {
    ring.addresses.push_back(ToString(address));
  }
  ring.worker = cluster.worker;
  ring.min_workers = std::max(options.min_workers, options.local.quorum);
  ring.job = options.job;
  ring.timeout_seconds = options.timeout_seconds;
  ring.start_timeout_seconds = options.start_timeout_seconds;
  ring.patience_seconds = options.patience_seconds;
  ring.implementation = RingOf(options.communication.implementation);
  ring.bytes_per_pack = PackOf(options.communication);
  ring.wire_dtype = options.communication.wire_dtype;
  *out = std::move(ring);
  return Status();
}

MultiWorkerMirroredStrategy MultiWorkerMirroredStrategy::FromEnvironment(
    const StrategyOptions& options, const Environment& environment) {
  MultiWorkerMirroredStrategy strategy;
  strategy.reduction_ = ReductionOf(options);
  strategy.local_ = options.local;
  strategy.replicas_ = options.replicas;
  const CommunicationOptions& communication = options.communication;
  if (communication.implementation == CommunicationImplementation::kMpi &&
      environment.Get("TF_CONFIG") == nullptr) {
    strategy.status_ = CheckOptions(options);
    if (!strategy.status_.ok()) return strategy;
    strategy.status_ = OpenMpi(options, &strategy.collective_);
    if (!strategy.status_.ok()) return strategy;
    strategy.cluster_ = ClusterOf(*strategy.collective_);
    return strategy;
  }
  ClusterConfig cluster;
  strategy.status_ = ClusterFromEnvironment(environment, &cluster);
  return strategy.status_.ok() ? FromCluster(cluster, options)
                               : std::move(strategy);
}

MultiWorkerMirroredStrategy MultiWorkerMirroredStrategy::FromCluster(
    const ClusterConfig& cluster, const StrategyOptions& options) {
  MultiWorkerMirroredStrategy strategy;
  strategy.reduction_ = ReductionOf(options);
  strategy.local_ = options.local;
  strategy.replicas_ = options.replicas;
  if (IsElastic(options) && options.replicas == 0) {
    strategy.replicas_ = cluster.world_size;
  }
  strategy.cluster_ = cluster;
  strategy.status_ = CheckOptions(options);
  if (strategy.status_.ok() && options.local.quorum > 0 &&
      cluster.world_size > 1 && strategy.replicas_ != cluster.world_size) {
    strategy.status_ = InvalidArgument(
        "%d replicas for %d workers, but with a quorum each worker has its own "
        "replica: leave replicas out",
        strategy.replicas_, cluster.world_size);
  }
  const bool mpi =
      options.communication.implementation == CommunicationImplementation::kMpi;
  if (!strategy.status_.ok()) {
    return Withdrawn(cluster, options, strategy.status_);
  }
  if (cluster.world_size == 1 && !mpi) return strategy;
  if (mpi) {
    strategy.status_ = OpenMpi(options, &strategy.collective_);
    if (!strategy.status_.ok()) return strategy;
    const Collective& world = *strategy.collective_;
    if (world.rank() == cluster.worker && world.size() == cluster.world_size) {
      return strategy;
    }
    strategy.status_ = InvalidArgument(
        "this process is worker %d of %d by its configuration (TF_CONFIG), and "
        "rank %d of %d by MPI: start it with mpirun -n %d, and leave TF_CONFIG "
        "unset",
        cluster.worker, cluster.world_size, world.rank(), world.size(),
        cluster.world_size);
    return strategy;
  }
  RingOptions ring;
  strategy.status_ = MakeRingOptions(cluster, options, &ring);
  if (!strategy.status_.ok())
    return strategy;  // other workers would not accept it
  std::unique_ptr<Withdrawal> withdrawal;
  strategy.status_ =
      OpenRingPatiently(ring, &strategy.collective_, &withdrawal);
  strategy.withdrawal_ = std::move(withdrawal);
  return strategy;
}

MultiWorkerMirroredStrategy MultiWorkerMirroredStrategy::Withdrawn(
    const ClusterConfig& cluster, const StrategyOptions& options,
    const Status& why) {
  MultiWorkerMirroredStrategy strategy;
  strategy.cluster_ = cluster;
  strategy.status_ = why;
  const bool mpi =
      options.communication.implementation == CommunicationImplementation::kMpi;
  // mpirun ends all ranks if one fails. An evaluator is not a rank of the job.
  RingOptions ring;
  if (IsPermanent(why) && !mpi && cluster.world_size > 1 &&
      MakeRingOptions(cluster, options, &ring).ok()) {
    strategy.withdrawal_ = Withdrawal::Begin(ring, why);
  }
  return strategy;
}

std::string WorkerPath(const ClusterConfig& cluster, const std::string& path) {
  if (cluster.is_chief) return path;
  return WorkerFolder(cluster, path) + "/" +
         path.substr(path.find_last_of('/') + 1);
}

Status RemoveWorkerTemp(const ClusterConfig& cluster, const std::string& path) {
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

MultiWorkerMirroredStrategy::operator CompileOptions() const {
  CompileOptions options(collective_.get());
  options.status = status_;
  options.reduction = reduction_;
  options.local = local_;
  options.replicas = replicas_;
  return options;
}

MirroredStrategy::operator CompileOptions() const {
  CompileOptions options;
  options.replicas = replicas_;
  if (replicas_ < 1) {
    options.status = InvalidArgument(
        "MirroredStrategy: %d replicas; there is at least one", replicas_);
  }
  return options;
}

}  // namespace ringlet
