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

// ClusterConfig: the workers of a job, and which of them this process is.
//
// The environment lists the workers. So a launcher, a cluster scheduler or two
// terminals start the same program unchanged. The first of these sources that
// is present decides:
//
// 1. TF_CONFIG, as TensorFlow reads it:
//      {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"],
//                   "evaluator": ["d:2222"]},
//       "task": {"type": "worker", "index": 0}}
//    "worker" is a list of addresses, or an object {"0": "b:2222", "1": ...}
//    with every index from 0. `index` is a number or a string of digits. Other
//    keys are ignored. Without a "cluster" an unknown key is an error, since
//    it may be a misspelt "cluster". {} means one worker alone, and the other
//    sources are not read.
// 2. torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Rank r of one host
//    has the port MASTER_PORT + 1 + r, since torchrun itself listens on
//    MASTER_PORT. All ranks are on one host if LOCAL_WORLD_SIZE is WORLD_SIZE,
//    or if it is not set and MASTER_ADDR is a loopback address. Ranks on
//    several hosts need RINGLET_HOSTS.
// 3. MPI: OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), or PMI_RANK and PMI_SIZE
//    (MPICH and relatives), and RINGLET_HOSTS. RINGLET_HOSTS may be missing if
//    OMPI_COMM_WORLD_LOCAL_SIZE or MPI_LOCALNRANKS shows that all ranks are on
//    one host. If PMI has the rank and size of Slurm, 4 decides.
// 4. Slurm (srun): SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_NODELIST. The step's
//    own SLURM_STEP_NUM_TASKS and SLURM_STEP_NODELIST replace these. Optional:
//    SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE ("2(x3),1"; else equal
//    blocks), SLURM_DISTRIBUTION (block or cyclic).
// 5. Kubernetes: a StatefulSet's pod, host name NAME-<ordinal>, with
//    RINGLET_WORLD_SIZE and RINGLET_SERVICE (the headless service); rank i is
//    at NAME-i.SERVICE.
// None: one worker alone, without an address.
//
// RINGLET_HOSTS has hosts in rank order, "a,b" or "node[01-03,7]". It has one
// for each rank, all with ports (a:2222) or all without. Or it has one for each
// machine; then all machines have the same number of consecutive ranks. A host
// without ports gives RINGLET_PORT to its first rank, the next port to the next
// rank, and so on. The default of RINGLET_PORT is 8888, or for source 2
// (torchrun) MASTER_PORT + 1. A RINGLET_PORT that Kubernetes sets for a service
// named ringlet, tcp://ADDRESS:PORT, is ignored.

constexpr int kMaxWorldSize = 1024;

struct Address {
  std::string host;  // a name in lower case, or IPv4 or IPv6 as inet_ntop
  int port = 0;      // 1..65535
  bool operator==(const Address& other) const {
    return host == other.host && port == other.port;
  }
};

// "host:port", "1.2.3.4:port" or "[v6]:port" (with a zone: "[fe80::1%eth0]").
// Names are not looked up. kInvalidArgument: the text has another form, or no
// peer could connect to the address (0.0.0.0, [::]).
Status ParseAddress(const std::string& text, Address* address);
std::string ToString(const Address& address);

struct ClusterConfig {
  // By rank: the chief, if there is one, then the workers. Empty if this
  // process is alone and has no address.
  std::vector<Address> addresses;
  int rank = 0;
  // The number of workers with the chief; 1 for an evaluator, which is a
  // cluster by itself.
  int world_size = 1;
  std::string task_type = "worker";  // or "chief" or "evaluator"
  int task_index = 0;
  // True for the process that writes checkpoints and summaries, and has the
  // initial values of all workers. It is the chief, or worker 0 if there is no
  // chief, or an evaluator.
  bool is_chief = true;
  bool is_evaluator = false;
};

// The interface through which ringlet reads environment variables.
class Environment {
 public:
  virtual ~Environment() = default;
  // The variable's value; null if it is not set. Valid until the environment
  // changes.
  virtual const char* Get(const char* name) const = 0;
  virtual std::string HostName() const = 0;

  static const Environment& Process();  // getenv and gethostname
};

// Reads the sources above. kInvalidArgument names the variable, the field and a
// remedy; *config is then unchanged.
Status ClusterFromEnvironment(const Environment& environment,
                              ClusterConfig* config);

// --- strategies --------------------------------------------------------------

// MultiWorkerMirroredStrategy: this process as a worker of a job;
// MirroredStrategy: all replicas of a job in this process.
//
// As in TensorFlow's strategy of that name, every worker has the whole model
// and computes its part of each batch. All workers apply the sum of the
// gradients. The environment lists the workers (see ClusterConfig). Without
// such a variable the job has one worker.
//
//   auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
//   model.Compile(SGD(0.001f), loss, {Accuracy()}, strategy);
//   model.Fit(data.Batch(64 * strategy.num_replicas_in_sync()), options);

// kMpi: a launcher such as mpirun has started the workers, and MPI carries
// their messages. If TF_CONFIG is not set, MPI also names the workers. It needs
// a build with -Dmpi=enabled. It has no recovery from a loss. mpirun ends the
// job, and the next start continues from the backup.
// kNccl: always refused, with an error that names it.
enum class CommunicationImplementation { kAuto, kRing, kTree, kMpi, kNccl };

// The value of a name such as "auto" or "RING", in upper or lower case.
Status CommunicationImplementationFromName(const std::string& name,
                                           CommunicationImplementation* out);

struct CommunicationOptions {
  CommunicationImplementation implementation =
      CommunicationImplementation::kAuto;
  // Gradients are summed in pieces of about this size; 0: the library chooses.
  int64_t bytes_per_pack = 0;
  // The type of gradients in messages (collective.h). A 16-bit type
  // halves the bytes, if the network is the limit. Training is then close to
  // that with float32, not equal to the bit. Not with kTree or kMpi.
  WireDtype wire_dtype = WireDtype::kFloat32;
};

struct StrategyOptions {
  // The number of replicas; each step's batch is divided among them. 0: the
  // number of workers. A worker computes one or more replicas. Examples, random
  // numbers, statistics and metrics follow from this number. So a run keeps it,
  // and may continue with any number of workers up to it.
  int replicas = 0;
  CommunicationOptions communication;
  // How gradients are summed (model.h).
  Reduction reduction = Reduction::kRing;
  // For slow links: sums of weight changes once in `local.steps` steps, instead
  // of each step's gradients (local_updates.h).
  LocalUpdates local;
  // A worker that is silent for longer is lost.
  double timeout_seconds = 5;
  // The longest wait of the workers for each other at the start.
  double start_timeout_seconds = 120;
  // The longest wait for a worker that is connected but has not reached the
  // same operation. Then all workers end with kDeadlineExceeded. 0: no limit.
  // After timeout_seconds a line on stderr names the awaited worker. Not over
  // MPI.
  double patience_seconds = 3600;
  // 0: a job needs all its workers, and waits for a lost one. Greater: the job
  // is elastic. Fit continues without lost workers, as long as at least
  // min_workers are present. A restarted or late worker joins between two
  // steps. Sums are exact then. If `replicas` is 0, there are as many as
  // workers in the list, so the trained bits are those of a run without losses.
  // A loss may cost the steps since the last check
  // (FitOptions::check_replicas_every). At most 64 workers. Not over MPI, not
  // with sparse changes or overlap, and not if the program calls the parts of a
  // step itself instead of TrainingLoop.
  int min_workers = 0;
  // The job's name. Workers of another job are refused.
  std::string job = "ringlet";
  // The file of the job's key, which `ringlet keygen` makes. A worker without
  // the key can neither join the job, nor read or stop it. "": the file that
  // RINGLET_KEY_FILE names, or ringlet.key among systemd's credentials, or the
  // key that `ringlet launch` made. A job without a key is refused if an
  // address is not a loopback address. See docs/security.md. Not over MPI.
  std::string key_file;
  // "host:port" of a `ringlet relay`, for workers that cannot accept
  // connections. All workers reach each other only through it, and the list's
  // addresses are only names. Such a job needs a key, so the relay sees only
  // sealed bytes. "": no relay. Not over MPI.
  std::string relay;
  // Allows a job without a key at any address. Any program that reaches a
  // worker may then join, read and stop the job. RINGLET_INSECURE=1 allows it
  // too.
  bool insecure = false;
};

class Withdrawal;

class MultiWorkerMirroredStrategy {
 public:
  // Waits until all workers are connected. status() keeps an error, and Compile
  // with this strategy fails with it.
  static MultiWorkerMirroredStrategy FromEnvironment(
      const StrategyOptions& options = {},
      const Environment& environment = Environment::Process());
  static MultiWorkerMirroredStrategy FromCluster(
      const ClusterConfig& cluster, const StrategyOptions& options = {});
  // For a worker that finds an error before it connects to the others, such as
  // missing data or invalid options. status() is `why`. If the same start would
  // fail again (IsPermanent), the other workers end immediately, with this rank
  // and the reason. This object sends them the reason while it lives. Its
  // destructor waits until they have it, at most 5 s. So print the error first:
  //
  //   return ExitCode(why);  // the strategy lives until after it
  //
  // Set job, key_file, relay and insecure in `options` as the other workers do.
  // If the program could not read the job's name, set it to "": then the list
  // of workers alone identifies the job. (A relay finds the other workers by
  // the name.)
  //
  // FromCluster does the same after an error. A worker that has connected to
  // the others reports its error by collective()->Abort(why), as Compile and
  // Fit do.
  static MultiWorkerMirroredStrategy Withdrawn(const ClusterConfig& cluster,
                                               const StrategyOptions& options,
                                               const Status& why);

  const Status& status() const { return status_; }
  int num_workers() const { return cluster_.world_size; }
  // As in TensorFlow: the number of parts of a step's batch.
  int num_replicas_in_sync() const {
    return replicas_ == 0 ? num_workers() : replicas_;
  }
  int rank() const { return cluster_.rank; }
  // True for the worker that prints, and writes files for all workers.
  bool is_chief() const { return cluster_.is_chief; }
  const ClusterConfig& cluster() const { return cluster_; }
  // Lives as long as the strategy. Null for a worker alone, and after an error.
  Collective* collective() const { return collective_.get(); }

  // A strategy can be passed in the place of Compile's options. It outlives the
  // model.
  operator CompileOptions() const {  // NOLINT: implicit
    CompileOptions options(collective_.get());
    options.status = status_;
    options.reduction = reduction_;
    options.local = local_;
    options.replicas = replicas_;
    return options;
  }

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
// after another. The result is that of as many workers.
class MirroredStrategy {
 public:
  explicit MirroredStrategy(int replicas) : replicas_(replicas) {}
  int num_replicas_in_sync() const { return replicas_; }
  operator CompileOptions() const {  // NOLINT: implicit
    CompileOptions options;
    options.replicas = replicas_;
    if (replicas_ < 1) {
      options.status = InvalidArgument(
          "MirroredStrategy: %d replicas; there is at least one", replicas_);
    }
    return options;
  }

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
