// Model: layers in topological order, their weights, and the step.
//
// Public. Build a Sequential or a Functional, Compile it, and Fit (fit.h), or
// call the pieces of a step from a loop of your own. Builders keep the first
// error; status() and every later call that returns a Status report it.
//
// Memory is two blocks in one: what the model keeps (weights, gradients,
// optimizer slots, each one contiguous span in layer order, and state, that is
// weights that no gradient trains, behind the other weights) and what a step
// needs, placed by lifetime for a largest batch. BytesNeeded(batch) says how
// much, by running the same placement on nothing. After the first step a step
// allocates nothing.
//
// A model can be moved, so functions return one; what was taken of it (loaders,
// states, spans) stays good. A model that was moved from has no layers: its
// status() says so, as does whatever would compute, and another model can be
// assigned to it. Moving one while its Fit runs ends that Fit with this error.
//
// One thread uses a model at a time.

#ifndef RINGLET_CORE_MODEL_MODEL_H_
#define RINGLET_CORE_MODEL_MODEL_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/clock.h"
#include "../base/collective.h"
#include "../base/saveable.h"
#include "../base/status.h"
#include "../data/batch_loader.h"
#include "../layers/layers.h"
#include "local_updates.h"
#include "losses.h"
#include "memory_plan.h"
#include "metrics.h"
#include "optimizers.h"
#include "output_loss.h"

#define RINGLET_VERSION "0.1.0"

namespace ringlet {

class Logs;
struct EvaluateOptions;
struct FitOptions;
struct History;

// How the workers' gradients are summed.
enum class Reduction : uint8_t {
  kRing,   // as floats, in an order that depends on the number of workers
  kExact,  // on a grid of integers: no bit depends on who computed which part
};

struct CompileOptions {
  CompileOptions() = default;
  // So that a strategy can stand where the options stand.
  CompileOptions(Collective* c) : collective(c) {}  // NOLINT: implicit

  // Outlives the model. Null: a job of one. Compile compares the ranks' models
  // and gives all of them the chief's weights.
  Collective* collective = nullptr;
  // What went wrong where the options were made; Compile fails with it.
  Status status;
  // The same on all ranks; of several replicas only.
  Reduction reduction = Reduction::kRing;
  // Instead of sums of each step's gradients; the same on all ranks. Not with
  // gradient_accumulation_steps or use_ema, and of Fit alone.
  LocalUpdates local;
  // Replicas that the job's steps are divided among, which its workers compute,
  // each a part of them one after another: at least as many as workers. 0: as
  // the other workers ask for, or where nobody does, as many as workers. The
  // examples of a step, random numbers, statistics and metrics depend on their
  // number, and not on that of the workers.
  int replicas = 0;
  // Threads that compute, the caller's included. No bit depends on them.
  int threads = 1;
  // Of initial weights and dropout.
  uint64_t seed = 1;
  // Training keeps few of the layers' outputs and computes the others again for
  // the backward pass: the same bits in less memory and more time (see
  // PlanMemory). Without it only what costs next to nothing is computed again.
  bool recompute = false;
  // Caller's memory for everything, aligned to Arena::kAlignment and outliving
  // the model; null: the model takes its own from the heap.
  void* memory = nullptr;
  // Bytes of `memory`; without one, the most the model may take (0: no limit).
  size_t memory_bytes = 0;
  // By which workers tell how fast they are; outlives the model.
  Clock* clock = Clock::System();
};

// One weight of the model, a range of its weight span. Weights of a kind that
// is trained come first, in the order of the layers; state, which is not, in
// the same order behind them.
struct Variable {
  std::string path;  // "conv2d/kernel"
  Shape shape;
  int64_t offset = 0;  // in floats
  Regularizer regularizer;
  bool state = false;  // never trained, whatever its layer is
  // As compiled last: its place in the gradients and in the optimizer's slots,
  // in floats; -1 where it is not trained.
  int64_t gradient_offset = 0;
  // Of state that training changes, as the moving statistics of
  // BatchNormalization: its place among the changes of a step; else -1.
  int64_t change_offset = -1;
  bool trained() const { return gradient_offset >= 0; }
  int64_t size() const { return shape.elements(); }
};

// Told how long each piece of a step took. See io's trace writer.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // `what` is a layer's name or "loss", "optimizer", "all-reduce"; `phase`
  // "forward", "backward" or "step". Monotonic nanoseconds.
  virtual void Piece(const char* what, const char* phase, int64_t begin,
                     int64_t end) = 0;
  // Who is left to be told once `gone` no longer is; for observers that tell
  // others.
  virtual StepObserver* Without(const StepObserver* gone) {
    return gone == this ? nullptr : this;
  }
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // The first thing that was wrong while building and compiling, or why the
  // last Compile was refused.
  const Status& status() const;
  const char* class_name() const;  // "Sequential" or "Functional"
  const std::string& name() const;
  void set_name(const std::string& name);

  // Shapes without batch; only after an input and a layer were added. Of
  // several inputs or outputs those of the first.
  Shape input_shape() const;
  Shape output_shape() const;
  // The inputs are the first nodes. They lie one after another in a batch: all
  // examples of the first, then those of the next; so do the outputs' targets.
  int num_inputs() const;
  int num_outputs() const;
  int output_node(int k) const;
  // Of its layer, as the logs have it: "dense_1".
  std::string output_name(int k) const;
  // Keras's table: layer, output shape, parameters.
  std::string Summary() const;

  // The calls of layers as they were added, names filled in, each after its
  // inputs, of which the first are the model's. Those of a model
  // within the model stand among them, as if its layers had been added one by
  // one, with its name before theirs, "body/conv2d", and frozen where it is.
  int num_nodes() const;
  const Layer& layer(int node) const;
  // The first call of the node's layer, `node` itself unless it is shared.
  int first_call(int node) const;
  const std::vector<int>& inputs(int node) const;
  const Shape& output_shape(int node) const;

  // Checks the whole, takes the memory the model keeps and draws the initial
  // weights. The metrics' names are resolved as Keras does ("accuracy"). A
  // second call keeps the weights and forgets the optimizer's state and the
  // step under way. While a loader is open it is refused: the model stays as it
  // was, and status() says so until the next call.
  void Compile(const Optimizer& optimizer, const Loss& loss,
               const std::vector<Metric>& metrics = {},
               const CompileOptions& options = {});
  // Of several outputs, each named once. The call above gives each the same
  // loss, and as Keras takes no metrics or one for each. Names in the logs are
  // Keras's: "loss", "age_loss", "kind_accuracy".
  void Compile(const Optimizer& optimizer,
               const std::vector<OutputLoss>& losses,
               const CompileOptions& options = {});
  bool compiled() const;
  // As Keras's layer.trainable: whether a layer's weights are trained, from the
  // next Compile on. A model within this one, "body", passes it to all of its
  // layers; one of them, "body/conv2d", is trained if all the models around it
  // are too. kInvalidArgument where there is no such layer.
  Status SetTrainable(const std::string& layer, bool trainable);
  // The weights that the first Compile is to begin with, num_weights() of them,
  // instead of drawn ones.
  Status SetInitialWeights(std::vector<float> weights);

  // This model as a layer of another, by value: what becomes of either does not
  // change the other. Its weights, if it was compiled or has initial ones, are
  // what the other begins with, in place of drawn ones; not `with_weights`: the
  // other draws its own.
  //
  //   Sequential model({Input({96, 96, 3}), body.AsLayer().Trainable(false),
  //                     GlobalAveragePooling2D(), Dense(2)});
  Layer AsLayer(bool with_weights = true) const;

  // Keras's loops: see fit.h, which declares their options and results.
  Result<History> Fit(const Dataset& dataset, const FitOptions& options);
  Result<History> Fit(const Dataset& dataset);
  Result<Logs> Evaluate(const Dataset& dataset, const EvaluateOptions& options);
  Result<Logs> Evaluate(const Dataset& dataset);
  // All of the first output, then of the next.
  Result<std::vector<float>> Predict(const Dataset& dataset);

  // What training with batches of up to `batch` takes, to the byte. Zeros where
  // not compiled.
  MemoryPlan PlanMemory(int64_t batch) const;
  uint64_t BytesNeeded(int64_t batch) const {
    return PlanMemory(batch).total();
  }
  // Takes the step's memory for batches of up to `batch`; without it the
  // first step does. `training` false is enough to evaluate and predict.
  Status Reserve(int64_t batch, bool training);
  // Bytes taken now.
  uint64_t BytesUsed() const;

  // Batches of `dataset` for this model in the model's own buffers. One loader
  // at a time; while it lives a second one, Compile, and what would make the
  // model's memory grow are errors that change nothing. Labels are checked
  // against the model's classes.
  Status OpenLoader(const Dataset& dataset, const LoaderOptions& options,
                    std::unique_ptr<BatchLoader>* loader);

  // A whole step: forward, loss, metrics, backward, update. In a job of several
  // workers every rank calls it, with its part of the batch. Fit and
  // TrainingLoop alone train more replicas than there are workers: where there
  // are, this and a Forward with `training` are errors.
  Status TrainStep(const Batch& batch);
  // Forward, loss and metrics, on this rank alone.
  Status TestStep(const Batch& batch);

  // The pieces of a step, each on every rank. x is (count, input shape); the
  // result is output() until the next Forward or a Reserve that takes more. A
  // Forward drops the step under way: gradients that were not applied are lost,
  // after what the other ranks need of them is done. With `training` true, and
  // where the loss takes the input of a last softmax or sigmoid (see Compile),
  // output() holds that input until ComputeLoss.
  Status Forward(const float* x, int64_t count, bool training);
  const float* output(int k = 0) const;  // null before the first layer
  // After Forward. *loss becomes this rank's share of the step's loss: the sum
  // over its examples divided by batch.global_count, plus its share of the
  // regularization. With `training` it leaves the gradient for Backward; x and
  // what `batch` points at stay until ApplyGradients: exact sums may read them.
  Status ComputeLoss(const Batch& batch, double* loss);
  // Gradients of the loss; their sums over all ranks may be under way after it.
  Status Backward();
  // Clips, updates the weights, counts the iteration; where the optimizer
  // accumulates, only adds the gradients up but for each k-th time.
  Status ApplyGradients();

  // The metrics: "loss" first, then those of Compile. AddMetrics and
  // SumOverRanks (metrics.h) make running values of them.
  int num_metrics() const;
  const std::string& metric_name(int i) const;
  // True where a smaller value is better (loss and errors).
  bool metric_decreases(int i) const;
  // The sums that they are made of: one MetricState for most, several for some.
  int num_metric_states() const;
  // Where those of metric i begin among so many, and its value by them.
  int first_metric_state(int i) const;
  double metric_value(int i, const MetricState* states) const;
  // num_metric_states() of them: of the last TrainStep, summed over all ranks …
  const MetricState* step_metrics() const;
  // … and of this rank's examples alone, of the last TrainStep or TestStep; of
  // several replicas those of the last.
  const MetricState* rank_metrics() const;
  // After kPeerLost: waits for all ranks (Collective::Reform), and compares the
  // models as Compile does. All take weights, slots, iterations and learning
  // rate of the rank that had gone furthest among those that called this; a
  // restarted one takes part by its Compile.
  Status RejoinReplicas();
  // kOutOfSync, on every rank, where a rank's weights, optimizer slots,
  // iterations or learning rate are not those of rank 0, bit for bit.
  Status CheckReplicas();
  // What of a running fit's state single ranks have between two steps, as with
  // sparse local updates, comes to all. Every rank calls it before one saves.
  Status GatherState();

  const std::vector<Variable>& variables() const;
  int64_t num_weights() const;  // floats in the span
  // Floats that have gradients and slots, as compiled last.
  int64_t num_trained() const;
  float* weights();
  // Of the bits of all weights, state included, as they are now: equal on every
  // machine where these are equal, whatever the threads. A pass over the
  // weights, by the model's threads; 0 before the first Compile. Logs and
  // `ringlet verify` print it as 16 hexadecimal digits.
  uint64_t weights_digest() const;
  // num_trained() floats of the last Backward(), complete: waits for the sums
  // over the ranks. Where they failed the content is undefined, and
  // ApplyGradients says why. TrainStep may apply gradients and not keep them.
  const float* gradients() const;
  // Multiply-adds of one example, forward.
  int64_t MultiplyAdds() const;

  const Optimizer& optimizer() const;
  const Loss& loss() const;                    // of the first output
  const std::vector<Metric>& metrics() const;  // as they were resolved
  // By output, with the metrics as they were resolved.
  const std::vector<OutputLoss>& losses() const;
  // Steps, of which an optimizer that accumulates makes
  // optimizer().Updates(iterations()) updates.
  int64_t iterations() const;
  // Of the next step: the schedule's, or what SetLearningRate set.
  float LearningRate() const;
  void SetLearningRate(float learning_rate);
  Collective* collective() const;
  int num_replicas() const;  // as compiled
  int threads() const;
  uint64_t seed() const;
  const LocalUpdates& local_updates() const;  // as compiled

  // Weights as "model/<layer>/<weight>"; and the optimizer's slots,
  // iterations and learning rate as "optimizer/…".
  Saveable* weights_state();
  Saveable* optimizer_state();

  // Null: nobody watches.
  void set_observer(StepObserver* observer);
  StepObserver* observer() const;

 protected:
  Model(const char* class_name, const char* name);
  Model(Model&& other) noexcept;
  Model& operator=(Model&& other) noexcept;
  // Appends a node; inputs are numbers of earlier nodes. Returns its number.
  int AddNode(const Layer& layer, const std::vector<int>& inputs);
  int AddCall(int of, const std::vector<int>& inputs);
  void SetOutputs(const std::vector<int>& nodes);
  void Fail(const Status& status);

 private:
  friend class Fitter;    // see fit/fitter.h
  friend class Recovery;  // see fit/recovery.h
  friend class RunState;  // see fit/run_state.h
  struct Impl;
  struct Deleter {
    void operator()(Impl* impl) const;
  };
  std::unique_ptr<Impl, Deleter> impl_;
};

// Layers one after another, the first an Input.
class Sequential final : public Model {
 public:
  Sequential() : Model("Sequential", "sequential") {}
  Sequential(std::initializer_list<Layer> layers) : Sequential() {
    for (const Layer& layer : layers) Add(layer);
  }
  void Add(const Layer& layer);
};

// A graph: each call names the nodes it takes. The last one added is the
// output.
//
//   Functional model;
//   auto x = model.Add(Input({8, 8, 4}));
//   auto y = model.Add(Conv2D(4, 3).Padding(kSame), {x});
//   model.Add(Flatten(), {model.Add(Add(), {x, y})});
//
// A layer that is called again computes with the same weights, whose gradient
// is the sum over its calls:
//
//   auto a = model.Add(encoder.AsLayer(), {x});
//   auto b = model.CallAgain(a, {y});
//
// A model may have several Inputs, before all other layers, and Outputs.
class Functional final : public Model {
 public:
  using Node = int;
  Functional() : Model("Functional", "functional") {}
  Node Add(const Layer& layer, const std::vector<Node>& inputs = {}) {
    return AddNode(layer, inputs);
  }
  // The layer that gave `node`, a model too, with other inputs of that shape.
  Node CallAgain(Node node, const std::vector<Node>& inputs) {
    return AddCall(node, inputs);
  }
  // In this order; each may be taken by other layers too.
  void Outputs(const std::vector<Node>& nodes) { SetOutputs(nodes); }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MODEL_H_
