// Model::Impl: the parts of a Model. Each part uses only the parts that its
// constructor gets.
//
// model.cc is the public interface, model_compile.cc compiles the graph, and
// model_parts.h gives fit/ access to the parts.

#ifndef RINGLET_CORE_MODEL_MODEL_IMPL_H_
#define RINGLET_CORE_MODEL_MODEL_IMPL_H_

#include <memory>
#include <optional>
#include <vector>

#include "../exchange/compile_config.h"
#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "../graph/step_timer.h"
#include "../step/check_pass.h"
#include "../step/local_trainer.h"
#include "../step/stepper.h"
#include "../step/updater.h"
#include "replica_consistency.h"
#include "ringlet/model.h"

namespace ringlet {

// A record of the model's fits.
struct FitRecord {
  bool running = false;
  // Examples of the pass that CheckReplicas compares in an elastic job; zero if
  // no pass.
  int64_t check_examples = 0;
  int64_t completed = 0;
  // The data of the last completed fit: the seed of their order (-1 if not
  // shuffled), and the number of examples.
  int64_t order_seed = -1, order_size = 0;
};

struct Model::Impl {
  Impl(const char* class_name, const char* name) : graph(class_name, name) {}

  // Keeps the first error.
  void Fail(const Status& s) {
    if (status.ok()) status = s;
  }
  Status CheckUsable() const;
  Status CheckMayCompile() const;
  // Returns an error if a worker computes more than one replica; a step of the
  // model is then more than one step of the worker.
  Status CheckOneReplica() const;
  // Call after Graph::Complete.
  Status CheckSynchronized() const;
  // Checks the options of a job that may continue with other workers.
  Status CheckElastic() const;
  Status CheckLocal() const;
  // Applies a changed replica assignment.
  void ApplyReplicaAssignment();
  // Compiles with the settings in `config`.
  Status Compile(const std::vector<OutputLoss>& losses);
  // Compiles, and makes the ranks' models equal. `model` is the Model that owns
  // this Impl.
  Status CompileTogether(const std::vector<OutputLoss>& losses, Model* model);
  // Calls CompileOptions::restore.
  Status Restore(Model* model);
  // Forms a new view of the reachable workers after a loss. `incumbent` is true
  // if this worker was in the run, and `has_state` if it takes or gives a state
  // (Recovery::EnterView).
  Status Rejoin(bool incumbent, bool has_state);
  Status ExchangeIncumbents(bool incumbent);
  Status PlaceWeights();
  void MakeExchange();
  std::unique_ptr<RoundExchange> MakeRoundExchange();
  // Copies the weights for AsLayer; *copy is null if there are none yet.
  Status CopyWeights(std::shared_ptr<const std::vector<float>>* copy) const;
  Status CheckInitialWeights() const;

  Status status;
  Status compile_error;  // why the last Compile did not change the model
  // For the first Compile, until it is complete; empty means random weights.
  std::vector<float> initial_weights;
  bool compiled = false;
  // The weights are untrained initial weights, and not from another rank.
  bool has_untrained_weights = false;

  // The order matters: members are destroyed from the last to the first. The
  // stepper waits for its exchanges before the memory is freed.
  StepTimer timer;
  Graph graph;
  CompileConfig config;
  ModelMemory memory{&graph};
  Updater updater{&graph, &config, &memory, &timer};
  Stepper stepper{&graph, &config, &memory, &updater, &timer};
  LocalTrainer local_trainer{&graph, &config, &memory, &updater, &stepper};
  CheckPass check_pass{&graph, &config, &memory, &updater, &stepper};
  ReplicaConsistency consistency{&graph, &config, &memory, &updater};
  WeightsState weights_state{&graph, &memory};

  FitRecord record;
  std::optional<DataDescription> data_description;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MODEL_IMPL_H_
