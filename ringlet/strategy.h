// MultiWorkerMirroredStrategy: this process as a worker of a job.
// ClusterConfig: the workers of a job, as the environment lists them.

#ifndef RINGLET_STRATEGY_H_
#define RINGLET_STRATEGY_H_

#include <memory>
#include <string>
#include <vector>

#include "collective.h"
#include "model.h"
#include "status.h"

namespace ringlet {

// --- the cluster -------------------------------------------------------------

struct Address {
  std::string host;  // a name in lower case, or IPv4 or IPv6 as inet_ntop
  int port = 0;      // 1..65535
  bool operator==(const Address& other) const {
    return host == other.host && port == other.port;
  }
};

// The workers of a job, and the index of this worker. They come from the first
// of these sources that is set: TF_CONFIG, torchrun, MPI, Slurm, Kubernetes
// (docs/porting.md). Without them the process is one worker alone.
struct ClusterConfig {
  // The chief, if any, then the workers. Empty for a worker alone.
  std::vector<Address> addresses;
  int worker = 0;  // the index of this process in `addresses`
  // The number of workers with the chief; 1 for an evaluator.
  int world_size = 1;
  std::string task_type = "worker";  // or "chief" or "evaluator"
  int task_index = 0;
  // True if this process writes shared files and has the initial values: it is
  // the chief, worker 0 of a list without a chief, or an evaluator.
  bool is_chief = true;
  bool is_evaluator = false;
  bool has_evaluator = false;  // TF_CONFIG lists an evaluator in "cluster"
};

// The environment variables and the host's name of this process.
class Environment;
const Environment& ProcessEnvironment();

// kInvalidArgument names the variable, the field and a remedy.
Status ClusterFromEnvironment(const Environment& environment,
                              ClusterConfig* config);

// --- strategies --------------------------------------------------------------

// kMpi needs mpirun and a build with -Dmpi=enabled, and does not recover from a
// loss. kNccl is refused.
enum class CommunicationImplementation { kAuto, kRing, kTree, kMpi, kNccl };

struct CommunicationOptions {
  CommunicationImplementation implementation =
      CommunicationImplementation::kAuto;
  // Gradients are summed in pieces of about this number of bytes. Zero means 1
  // MiB.
  int64_t bytes_per_pack = 0;
  // The type of gradients in messages. 16-bit types round them, and are not
  // available with kTree or kMpi.
  WireDtype wire_dtype = WireDtype::kFloat32;
};

struct StrategyOptions {
  // See CompileOptions::replicas. A run keeps this number, with any number of
  // workers up to it. Zero means the number of workers.
  int replicas = 0;
  CommunicationOptions communication;
  // How gradients are summed (model.h).
  Reduction reduction = Reduction::kRing;
  // Trains by local updates, for slow links (local_updates.h).
  LocalUpdates local;
  // A worker that is silent for longer is lost. From 0.1 to 3600, and the same
  // on every worker. MPI ignores it.
  double timeout_seconds = 5;
  // The longest wait of the workers for each other at the start.
  double start_timeout_seconds = 120;
  // The longest wait for a connected worker that does not reach the same
  // operation. After this time all workers end with kDeadlineExceeded. Zero
  // means no limit. MPI ignores it.
  double patience_seconds = 3600;
  // If not zero, the job is elastic: it has up to 64 workers, continues while
  // at least min_workers are left, and sums exactly (docs/membership.md). If
  // zero, a job with BackupAndRestore waits for a lost worker, and another job
  // ends. An elastic job cannot use MPI, sparse or overlapped local updates,
  // TrainStep or the parts of a step.
  int min_workers = 0;
  // Workers of another job are refused.
  std::string job = "ringlet";
  // The job's key file, which `ringlet keygen` makes. If empty, the key of
  // RINGLET_KEY_FILE, of systemd's credentials or of `ringlet launch`. Needed
  // beyond loopback addresses (docs/security.md). Not over MPI.
  std::string key_file;
  // "host:port" of a `ringlet relay`, for workers that cannot accept
  // connections; their addresses are then only names. Needs a key. Not over
  // MPI.
  std::string relay;
  // Allows a job without a key at any address, as RINGLET_INSECURE=1. Any
  // program may then join, read and stop the job.
  bool insecure = false;
};

class Withdrawal;

// This process as a worker of a job. As in TensorFlow, every worker has the
// whole model and computes its part of each batch; all apply the sum of the
// gradients.
//
//   auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
//   model.Compile(SGD(0.001f), loss, {Accuracy()}, strategy);
//   model.Fit(data.Batch(64 * strategy.num_replicas_in_sync()), options);
class MultiWorkerMirroredStrategy {
 public:
  // Waits until all workers are connected. Compile fails with an error of
  // status().
  static MultiWorkerMirroredStrategy FromEnvironment(
      const StrategyOptions& options = {},
      const Environment& environment = ProcessEnvironment());
  static MultiWorkerMirroredStrategy FromCluster(
      const ClusterConfig& cluster, const StrategyOptions& options = {});
  // The strategy of a worker that finds an error before it connects to the
  // other workers, such as missing data. status() is `why`. If it is permanent
  // (IsPermanent), the other workers end immediately, with this rank and the
  // reason. The destructor waits until they have it, at most 5 s, so print the
  // error first. `options` has the other workers' job, key_file, relay and
  // insecure; with an unknown job "" the list of workers identifies the job.
  // FromCluster does the same after an error. A connected worker calls
  // collective()->Abort(why).
  static MultiWorkerMirroredStrategy Withdrawn(const ClusterConfig& cluster,
                                               const StrategyOptions& options,
                                               const Status& why);

  const Status& status() const { return status_; }
  int num_workers() const { return cluster_.world_size; }
  // The number of parts of a step's batch, as in TensorFlow.
  int num_replicas_in_sync() const {
    return replicas_ == 0 ? num_workers() : replicas_;
  }
  // The number of this process in the list of workers, which never changes.
  int worker() const { return cluster_.worker; }
  // True for the chief at the job's start, which prints, and writes files for
  // all. In an elastic job ask FitState::chief and collective()->rank().
  bool is_chief() const { return cluster_.is_chief; }
  const ClusterConfig& cluster() const { return cluster_; }
  // Lives as long as the strategy. Null for a worker alone, and after an error.
  Collective* collective() const { return collective_.get(); }

  // A strategy can be passed in the place of Compile's options. It outlives the
  // model.
  operator CompileOptions() const;  // NOLINT: implicit

 private:
  Status status_;
  Reduction reduction_ = Reduction::kRing;
  LocalUpdates local_;
  int replicas_ = 0;  // as in StrategyOptions
  ClusterConfig cluster_;
  std::unique_ptr<Collective> collective_;
  std::shared_ptr<Withdrawal> withdrawal_;  // not null only after an error
};

// As in TensorFlow: several replicas in one process, which computes them in
// turn. The result equals the result of a job with this number of workers.
class MirroredStrategy {
 public:
  explicit MirroredStrategy(int replicas) : replicas_(replicas) {}
  int num_replicas_in_sync() const { return replicas_; }
  operator CompileOptions() const;  // NOLINT: implicit

 private:
  int replicas_;
};

// A path for a file that every worker saves: for the chief "dir/name" itself,
// for any other worker "dir/workertemp_<task>/name". RemoveWorkerTemp removes
// that file, and its folder if that is then empty.
std::string WorkerPath(const ClusterConfig& cluster, const std::string& path);
Status RemoveWorkerTemp(const ClusterConfig& cluster, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_STRATEGY_H_
