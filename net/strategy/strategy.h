// MultiWorkerMirroredStrategy: this process as a worker of a job;
// MirroredStrategy: all replicas of a job in this process.
//
// Public. What TensorFlow's strategy of that name is: every worker has the
// whole model, takes its part of each batch, and all apply the sum of the
// gradients. Who takes part is read from the environment
// (net/cluster/cluster.h: TF_CONFIG and others); without any, it is one worker
// alone.
//
//   auto strategy = MultiWorkerMirroredStrategy::FromEnvironment();
//   model.Compile(SGD(0.001f), loss, {Accuracy()}, strategy);
//   model.Fit(data.Batch(64 * strategy.num_replicas_in_sync()), options);

#ifndef RINGLET_NET_STRATEGY_STRATEGY_H_
#define RINGLET_NET_STRATEGY_STRATEGY_H_

#include <memory>
#include <string>

#include "../../core/base/collective.h"
#include "../../core/base/status.h"
#include "../../core/model/model.h"
#include "../cluster/cluster.h"

namespace ringlet {

// kMpi: a launcher such as mpirun has started the workers, and MPI moves what
// they say; where TF_CONFIG is not set it says who takes part. Needs a build
// with -Dmpi=enabled, and knows neither lost workers nor Reform: mpirun ends
// the job, and its next start goes on from the backup. kNccl is known so that a
// configuration that names it is refused with the reason.
enum class CommunicationImplementation { kAuto, kRing, kTree, kMpi, kNccl };

// "auto", "RING", …, in any case, as TensorFlow takes them.
Status CommunicationImplementationFromName(const std::string& name,
                                           CommunicationImplementation* out);

struct CommunicationOptions {
  CommunicationImplementation implementation =
      CommunicationImplementation::kAuto;
  // Gradients are summed in pieces of about this size; 0: chosen for you.
  int64_t bytes_per_pack = 0;
  // What gradients are while they travel (core/base/collective.h). Half the
  // bytes, where the network is the limit; training then follows the float32
  // run closely, not to the bit. Not with kTree or kMpi.
  WireDtype wire_dtype = WireDtype::kFloat32;
};

struct StrategyOptions {
  // Replicas that each step is divided among; 0: as many as workers. A worker
  // computes one or more of them. Examples, random numbers, statistics and
  // metrics follow from their number, whoever computes them, so a run keeps it
  // and may go on with any number of workers up to it.
  int replicas = 0;
  CommunicationOptions communication;
  // How gradients are summed (core/model/model.h).
  Reduction reduction = Reduction::kRing;
  // For slow links: what is summed instead, once in `local.steps` steps
  // (core/model/local_updates.h).
  LocalUpdates local;
  // A worker that is silent for longer is lost. Seconds.
  double timeout_seconds = 5;
  // How long the workers wait for each other at the start.
  double start_timeout_seconds = 120;
  // How long a worker waits for one that is there and does not come, before it
  // gives up with kDeadlineExceeded and all end; 0: for ever. What it waits for
  // is told on stderr from timeout_seconds on. Not over MPI.
  double patience_seconds = 3600;
  // 0: a job needs all its workers; one that is lost is waited for. Else it is
  // elastic: Fit goes on with those that are there, as long as they are so
  // many, and one that comes back or comes late is let in between two steps.
  // Sums are exact then, and the replicas, where `replicas` is 0, as many as
  // the workers of the list, so that the trained bits are those of a run in
  // which nobody was lost. Of up to 64 workers; not over MPI, and not in a
  // training loop of one's own that spells its steps out (training_loop.h).
  int min_workers = 0;
  // Workers of another job are refused.
  std::string job = "ringlet";
  // The file of the job's key, as `ringlet keygen` makes one: a worker without
  // it can neither join the job, nor read or stop it. "": RINGLET_KEY_FILE, or
  // ringlet.key among systemd's credentials, or what `ringlet launch` made. A
  // job without a key is refused where an address is not a loopback one. See
  // docs/security.md. Not over MPI.
  std::string key_file;
  // "host:port" of a `ringlet relay`, for workers that can only dial out: all
  // of them reach each other by it alone, and the list's addresses are names.
  // Of a job with a key; the relay sees sealed bytes. "": none. Not over MPI.
  std::string relay;
  // Such a job is taken, and whoever reaches a worker may join, read and stop
  // it. RINGLET_INSECURE=1 says so too.
  bool insecure = false;
};

class Withdrawal;

class MultiWorkerMirroredStrategy {
 public:
  // Waits until all workers are there. What goes wrong is kept in status(),
  // and Compile of a model with this strategy fails with it.
  static MultiWorkerMirroredStrategy FromEnvironment(
      const StrategyOptions& options = {},
      const Environment& environment = Environment::Process());
  static MultiWorkerMirroredStrategy FromCluster(
      const ClusterConfig& cluster, const StrategyOptions& options = {});
  // For a program that finds before it meets the others that this worker cannot
  // take part: its data are missing, its options make no sense. status() is
  // `why`. Where the same start would fail again (IsPermanent) the others,
  // which wait for this worker, end at once with rank and reason; they are told
  // while this lives, and its end waits for it, at most 5 s. So print the error
  // first:
  //
  //   return ExitCode(why);  // the strategy lives until after it
  //
  // Of the options the job's name counts; "" where the program could not read
  // it: then the list of workers alone says who the others are. (At a relay the
  // name leads to them.)
  //
  // The same happens where FromCluster fails. One that has met the others tells
  // them by collective()->Abort(why), as Compile and Fit do.
  static MultiWorkerMirroredStrategy Withdrawn(const ClusterConfig& cluster,
                                               const StrategyOptions& options,
                                               const Status& why);

  const Status& status() const { return status_; }
  int num_workers() const { return cluster_.world_size; }
  // As TensorFlow has it: what a step's batch is divided among.
  int num_replicas_in_sync() const {
    return replicas_ == 0 ? num_workers() : replicas_;
  }
  int rank() const { return cluster_.rank; }
  // The one that prints, and writes files that all share.
  bool is_chief() const { return cluster_.is_chief; }
  const ClusterConfig& cluster() const { return cluster_; }
  // Lives as long as the strategy; null where it is alone, or not OK.
  Collective* collective() const { return collective_.get(); }

  // So that a strategy can stand where Compile's options stand. The strategy
  // outlives the model.
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

// As TensorFlow's: replicas in one process, which computes them one after
// another. What they train is what as many workers would.
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

// Where a worker that is not the chief writes a file that every worker of a
// program saves: "dir/workertemp_<task>/name" beside the chief's "dir/name".
// RemoveWorkerTemp removes it, and its folder where that is empty then.
std::string WorkerPath(const ClusterConfig& cluster, const std::string& path);
Status RemoveWorkerTemp(const ClusterConfig& cluster, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_NET_STRATEGY_STRATEGY_H_
