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

// The workers of a job, and which of them this process is. The first of these
// that is present decides: TF_CONFIG, torchrun, MPI, Slurm, Kubernetes
// (docs/porting.md has the variables). Without them the process is one worker
// alone, without an address.
struct ClusterConfig {
  // The chief, if there is one, then the workers. Empty if this process is
  // alone and has no address.
  std::vector<Address> addresses;
  int worker = 0;  // the index of this process in `addresses`
  // The number of workers with the chief; 1 for an evaluator, which is a
  // cluster by itself.
  int world_size = 1;
  std::string task_type = "worker";  // or "chief" or "evaluator"
  int task_index = 0;
  // True for the process that writes shared files and has the initial values of
  // all workers: the chief, or worker 0 without a chief, or an evaluator.
  bool is_chief = true;
  bool is_evaluator = false;
};

// The environment variables and the host's name of this process.
class Environment;
const Environment& ProcessEnvironment();

// Reads the sources above. kInvalidArgument names the variable, the field and a
// remedy; *config is then unchanged.
Status ClusterFromEnvironment(const Environment& environment,
                              ClusterConfig* config);

// --- strategies --------------------------------------------------------------

// kMpi: mpirun has started the workers, and MPI carries their messages. It
// needs a build with -Dmpi=enabled and has no recovery from a loss. kNccl:
// always refused.
enum class CommunicationImplementation { kAuto, kRing, kTree, kMpi, kNccl };

struct CommunicationOptions {
  CommunicationImplementation implementation =
      CommunicationImplementation::kAuto;
  // Gradients are summed in pieces of about this size; 0: the library chooses.
  int64_t bytes_per_pack = 0;
  // The type of gradients in messages (collective.h). Training with a 16-bit
  // type is close to that with float32, not equal. Not with kTree or kMpi.
  WireDtype wire_dtype = WireDtype::kFloat32;
};

struct StrategyOptions {
  // See CompileOptions::replicas. A run keeps this number, and may continue
  // with any number of workers up to it. 0: the number of workers.
  int replicas = 0;
  CommunicationOptions communication;
  // How gradients are summed (model.h).
  Reduction reduction = Reduction::kRing;
  // For slow links: sums of weight changes once in `local.steps` steps.
  LocalUpdates local;
  // A worker that is silent for longer is lost.
  double timeout_seconds = 5;
  // The longest wait of the workers for each other at the start.
  double start_timeout_seconds = 120;
  // The longest wait for a worker that is connected but has not reached the
  // same operation. Then all end with kDeadlineExceeded. 0: no limit. Not over
  // MPI.
  double patience_seconds = 3600;
  // 0: at a loss a job with BackupAndRestore waits for the worker, and any
  // other job ends. N > 0: an elastic job of at most 64 workers. It continues
  // with at least N of them, and sums exactly (docs/membership.md). Refused
  // over MPI, with sparse or overlapped local updates, and by TrainStep and the
  // parts of a step.
  int min_workers = 0;
  // The job's name. Workers of another job are refused.
  std::string job = "ringlet";
  // The file of the job's key, which `ringlet keygen` makes. "": the key of
  // RINGLET_KEY_FILE, of systemd's credentials or of `ringlet launch`. A job
  // without a key is refused beyond loopback addresses (docs/security.md). Not
  // over MPI.
  std::string key_file;
  // "host:port" of a `ringlet relay`, for workers that cannot accept
  // connections. The list's addresses are then only names. Needs a key. "": no
  // relay. Not over MPI.
  std::string relay;
  // Allows a job without a key at any address, as RINGLET_INSECURE=1 does. Any
  // program that reaches a worker may then join, read and stop the job.
  bool insecure = false;
};

class Withdrawal;

// This process as a worker of a job. As in TensorFlow's strategy of that name,
// every worker has the whole model and computes its part of each batch; all
// apply the sum of the gradients.
//
//   auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
//   model.Compile(SGD(0.001f), loss, {Accuracy()}, strategy);
//   model.Fit(data.Batch(64 * strategy.num_replicas_in_sync()), options);
class MultiWorkerMirroredStrategy {
 public:
  // Waits until all workers are connected. status() keeps an error, and Compile
  // with this strategy fails with it.
  static MultiWorkerMirroredStrategy FromEnvironment(
      const StrategyOptions& options = {},
      const Environment& environment = ProcessEnvironment());
  static MultiWorkerMirroredStrategy FromCluster(
      const ClusterConfig& cluster, const StrategyOptions& options = {});
  // Makes the strategy of a worker that finds an error before it connects to
  // the others, such as missing data. status() is `why`. If it is permanent
  // (IsPermanent), the other workers end immediately, with this rank and the
  // reason. The destructor waits until they have it, at most 5 s, so print the
  // error first. Set job, key_file, relay and insecure in `options` as the
  // other workers do. If the job's name is unknown, set it to "": the list of
  // workers then identifies the job. FromCluster does the same after an error.
  // A connected worker reports its error by collective()->Abort(why).
  static MultiWorkerMirroredStrategy Withdrawn(const ClusterConfig& cluster,
                                               const StrategyOptions& options,
                                               const Status& why);

  const Status& status() const { return status_; }
  int num_workers() const { return cluster_.world_size; }
  // As in TensorFlow: the number of parts of a step's batch.
  int num_replicas_in_sync() const {
    return replicas_ == 0 ? num_workers() : replicas_;
  }
  // The number of this process in the list of workers, which never changes.
  int worker() const { return cluster_.worker; }
  // True for the worker that is chief as the job starts: it prints, and writes
  // files for all workers. In an elastic job the chief and the ranks may
  // change: ask FitState::chief and collective()->rank().
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
  int replicas_ = 0;  // as StrategyOptions
  ClusterConfig cluster_;
  std::unique_ptr<Collective> collective_;
  std::shared_ptr<Withdrawal> withdrawal_;  // after an error, or null
};

// As in TensorFlow: several replicas in one process, which computes them one
// after another. The result equals that of a job with this number of workers.
class MirroredStrategy {
 public:
  explicit MirroredStrategy(int replicas) : replicas_(replicas) {}
  int num_replicas_in_sync() const { return replicas_; }
  operator CompileOptions() const;  // NOLINT: implicit

 private:
  int replicas_;
};

// The path for a file that every worker of a program saves. For the chief it is
// "dir/name" itself, for another worker "dir/workertemp_<task>/name".
// RemoveWorkerTemp removes that file, and its folder if that is then empty.
std::string WorkerPath(const ClusterConfig& cluster, const std::string& path);
Status RemoveWorkerTemp(const ClusterConfig& cluster, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_STRATEGY_H_
