// The inside of a Model: its parts, which know each other only by what their
// constructors are given.
//
// Internal to core/. model.cc is the public face, model_compile.cc makes a
// graph a compiled model; fit/ uses the rest of it.

#ifndef RINGLET_CORE_MODEL_MODEL_IMPL_H_
#define RINGLET_CORE_MODEL_MODEL_IMPL_H_

#include <memory>
#include <vector>

#include "compile_config.h"
#include "graph.h"
#include "model.h"
#include "model_memory.h"
#include "replicas.h"
#include "step_timer.h"
#include "stepper.h"
#include "updater.h"

namespace ringlet {

struct Model::Impl {
  Impl(const char* class_name, const char* name) : graph(class_name, name) {}

  // The first error stays.
  void Fail(const Status& s) {
    if (status.ok()) status = s;
  }
  Status Usable() const;
  Status CheckMayCompile() const;
  // Each worker computes one, so a step of it is a step of the worker.
  Status CheckOneReplica() const;
  // After Graph::Complete.
  Status CheckSynchronized() const;
  // The ring may go on with other workers, in other numbers.
  Status CheckElastic() const;
  Status CheckLocal() const;
  // The replicas were dealt out anew.
  void TakeReplicas();
  // Of what `config` was set to.
  Status Compile(const std::vector<OutputLoss>& losses);
  // That, and the ranks' models become one.
  Status CompileTogether(const std::vector<OutputLoss>& losses);
  // After a worker was lost: the workers that there are, and the state of one.
  // OK too where nobody has it whole (Replicas::CheckWhole).
  // `lived`: this worker was in the run.
  Status Rejoin(bool lived);
  Status MeetOthers(bool lived);
  Status PlaceWeights();
  void MakeExchange();
  std::unique_ptr<RoundExchange> MakeRoundExchange();
  // For AsLayer; null where there are none yet.
  Status GiveWeights(std::shared_ptr<const std::vector<float>>* given) const;
  Status CheckInitialWeights() const;

  Status status;
  Status refused;  // the last Compile, if the model stayed as it was
  // Of the first Compile, until it is complete; empty: drawn.
  std::vector<float> initial_weights;
  bool compiled = false;
  // The weights are as placed: no other rank's, and nobody's who has trained.
  bool fresh = false;

  // Destroyed from the last to the first: the stepper waits for what is on its
  // way to other ranks before the memory goes.
  StepTimer timer;
  Graph graph;
  CompileConfig config;
  ModelMemory memory{&graph};
  Updater updater{&graph, &config, &memory, &timer};
  Stepper stepper{&graph, &config, &memory, &updater, &timer};
  Replicas replicas{&graph, &config, &memory, &updater};
  WeightsState weights_state{&graph, &memory};

  bool fitting = false;  // Fit runs
  // Of the pass that CheckReplicas compares in an elastic job; 0: it makes
  // none.
  int64_t check_examples = 0;
  int64_t fits = 0;  // completed
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MODEL_IMPL_H_
