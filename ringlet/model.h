// Model: layers in topological order, their weights, and the training step.
//
// Build a Sequential or a Functional, Compile it, and Fit it (fit.h), or call
// the parts of a step from a custom training loop. status() has the first
// error, and every later call that returns a Status returns it. One thread uses
// a model at a time. docs/design.md explains a model's memory.
//
// A model can be moved; its loaders, states and spans stay valid. The model
// that was moved from has no layers: status() and every call that computes
// return an error.

#ifndef RINGLET_MODEL_H_
#define RINGLET_MODEL_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective.h"
#include "dataset.h"
#include "layers.h"
#include "local_updates.h"
#include "losses.h"
#include "metrics.h"
#include "optimizers.h"
#include "shape.h"
#include "status.h"

#define RINGLET_VERSION "0.1.0"

namespace ringlet {

// --- memory ------------------------------------------------------------------

// The memory that training with batches of one size takes, in bytes.
struct MemoryPlan {
  uint64_t weights = 0;
  // Also changes of layer state; twice for a worker with several replicas.
  uint64_t gradients = 0;
  uint64_t slots = 0;  // the optimizer's slots
  // For local updates: first weights, momentum, changes, error feedback.
  uint64_t local = 0;
  uint64_t batches = 0;      // examples and labels of this step and the next
  uint64_t activations = 0;  // the layers' outputs
  uint64_t activation_gradients = 0;
  uint64_t scratch = 0;  // memory of single layers, and the losses of examples
  // Bytes that outputs, gradients and scratch of different times share.
  uint64_t shared = 0;
  // Layers with outputs that are computed again, and multiply-adds for that of
  // an example.
  int recomputed = 0;
  int64_t recomputed_multiply_adds = 0;
  uint64_t kept() const { return weights + gradients + slots + local; }
  uint64_t total() const {
    return kept() + batches + activations + activation_gradients + scratch -
           shared;
  }
};

// --- losses of outputs -------------------------------------------------------

// The loss and the metrics of one of a model's outputs.
//
//   model.Compile(Adam(), {OutputLoss("kind", CategoricalCrossentropy(),
//                                     {Accuracy()}),
//                          OutputLoss("age", MeanSquaredError(), {}, 0.1f)});
struct OutputLoss {
  OutputLoss() = default;
  OutputLoss(std::string of, const Loss& l, std::vector<Metric> m = {},
             float w = 1)
      : output(std::move(of)), loss(l), metrics(std::move(m)), weight(w) {}

  // The output's layer; empty: the output at the same index.
  std::string output;
  Loss loss;
  bool trains = true;  // false: there is no loss, and there are no targets
  std::vector<Metric> metrics;
  float weight = 1;  // factor of this output's loss in the model's loss
};
// An output that is not trained.
inline OutputLoss NoLoss(std::string output) {
  OutputLoss none(std::move(output), Loss());
  none.trains = false;
  return none;
}

// --- the model ---------------------------------------------------------------

class Logs;
class Model;
struct EvaluateOptions;
struct FitOptions;
struct History;

// How the workers' gradients are summed.
enum class Reduction : uint8_t {
  kRing,  // as floats, in an order that depends on the number of workers
  // On an integer grid: no bit depends on which rank computed which part.
  kExact,
};

struct CompileOptions {
  CompileOptions() = default;
  // Implicit, so that a strategy can be passed in the place of options.
  CompileOptions(Collective* c) : collective(c) {}  // NOLINT: implicit

  // Outlives the model. Null: a job of one worker. Compile compares the ranks'
  // models and gives all of them the chief's weights.
  Collective* collective = nullptr;
  // The strategy's error, or OK. Compile fails with it.
  Status status;
  // The same on all ranks. Used only with several replicas.
  Reduction reduction = Reduction::kRing;
  // Replaces the sums of each step's gradients. The same on all ranks. Only for
  // Fit, and not with gradient_accumulation_steps or use_ema.
  LocalUpdates local;
  // The parts of a step's batch; each worker computes one or more. Random
  // numbers, statistics and metrics depend on it, and not on the number of
  // workers. 0: the number that the other workers give, or else the number of
  // workers.
  int replicas = 0;
  // Threads that compute, including the caller's thread. No bit depends on
  // their number.
  int threads = 1;
  // The seed of the initial weights and of dropout.
  uint64_t seed = 1;
  // Keeps few of the layers' outputs and computes the others again, with the
  // same bits, in less memory and more time (see PlanMemory).
  bool recompute = false;
  // The caller's memory for everything, aligned to 64 bytes; outlives the
  // model. Null: the heap.
  void* memory = nullptr;
  size_t memory_bytes = 0;  // the size of `memory`
  // Without `memory`: the most that the model may allocate. 0: no limit.
  size_t memory_limit = 0;
  // Measures the workers' speeds. Outlives the model.
  Clock* clock = Clock::System();
  // Loads the state that this worker begins with (LoadWeights, LoadCheckpoint).
  // Compile may call it several times, before the workers compare their states
  // (kOutOfSync). A worker that joins a run gets the run's state instead.
  std::function<Status(Model*)> restore;
};

// One weight, a range of the model's weight span: first the trainable weights
// in the order of the layers, then the layers' state.
struct Variable {
  std::string path;  // "conv2d/kernel"
  Shape shape;
  int64_t offset = 0;  // a number of floats
  Regularizer regularizer;
  Constraint constraint;
  // Never trained, even in a trainable layer, such as moving means.
  bool is_layer_state = false;
  // After Compile: its offset in the gradients and slots; -1: not trained.
  int64_t gradient_offset = 0;
  // For layer state that training changes: its offset in a step's changes.
  int64_t change_offset = -1;
  bool trained() const { return gradient_offset >= 0; }
  int64_t size() const { return shape.elements(); }
};

// Receives the time of each part of a step. See Trace in loggers.h.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // `what` is a layer's name, "loss", "optimizer" or "all-reduce". `phase` is
  // "forward", "backward" or "step". Times are monotonic nanoseconds.
  virtual void OnPart(const char* what, const char* phase, int64_t begin,
                      int64_t end) = 0;
  // The observer that remains without `gone`; for those that forward to others.
  virtual StepObserver* Without(const StepObserver* gone) {
    return gone == this ? nullptr : this;
  }
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // The first error of building and compiling, or of the last Compile.
  const Status& status() const;
  const char* class_name() const;  // "Sequential" or "Functional"
  const std::string& name() const;
  void set_name(const std::string& name);

  // The shape of one example of the first input or output. Call them after an
  // input and a layer were added.
  Shape input_shape() const;
  Shape output_shape() const;
  // A batch has all examples of the first input, then those of the next; so
  // have the outputs' targets.
  int num_inputs() const;
  int num_outputs() const;
  int output_node(int k) const;
  // The name in the logs: that of its layer, such as "dense_1".
  std::string output_name(int k) const;
  // Keras's table: layer, output shape, parameters.
  std::string Summary() const;

  // The calls of layers in the order of Add, the inputs first. Those of a
  // nested model are in the same list, as "body/conv2d".
  int num_nodes() const;
  const Layer& layer(int node) const;
  // The first call of the node's layer; `node` itself unless the layer is
  // shared.
  int first_call(int node) const;
  const std::vector<int>& inputs(int node) const;
  const Shape& output_shape(int node) const;

  // Checks the model, allocates the memory of weights and optimizer, and
  // initializes the weights. Metrics' names are resolved as in Keras
  // ("accuracy"). A second call keeps the weights and resets the optimizer's
  // state; with an open loader it is refused.
  void Compile(const Optimizer& optimizer, const Loss& loss,
               const std::vector<Metric>& metrics = {},
               const CompileOptions& options = {});
  // For several outputs, each named once. The call above gives each output the
  // same loss, and as in Keras no metrics, or one each. Names in the logs are
  // Keras's: "loss", "age_loss", "kind_accuracy".
  void Compile(const Optimizer& optimizer,
               const std::vector<OutputLoss>& losses,
               const CompileOptions& options = {});
  bool compiled() const;
  // As Keras's layer.trainable, from the next Compile on. A nested model,
  // "body", passes it to its layers; "body/conv2d" is trained if all models
  // around it are trainable too.
  Status SetTrainable(const std::string& layer, bool trainable);
  // As Keras's layer.adapt: mean and variance of each channel of the scaled
  // examples, for every Normalization without them, on an input of the model.
  // Fit calls it with its dataset. In a job all ranks pass the same examples.
  // After an error no layer has changed.
  Status Adapt(const Dataset& dataset);
  // Sets num_weights() weights for the first Compile, instead of random ones.
  Status SetInitialWeights(std::vector<float> weights);

  // A copy of this model as a layer of another, with its weights or random
  // ones.
  //
  //   Sequential model({Input({96, 96, 3}), body.AsLayer().Trainable(false),
  //                     GlobalAveragePooling2D(), Dense(2)});
  Layer AsLayer(bool with_weights = true) const;

  // The loops of Keras (fit.h).
  Result<History> Fit(const Dataset& dataset, const FitOptions& options);
  Result<History> Fit(const Dataset& dataset);
  Result<Logs> Evaluate(const Dataset& dataset, const EvaluateOptions& options);
  Result<Logs> Evaluate(const Dataset& dataset);
  // All results of the first output, then all of the next.
  Result<std::vector<float>> Predict(const Dataset& dataset);

  // The exact memory for batches of up to `batch`. Zeros before Compile.
  MemoryPlan PlanMemory(int64_t batch) const;
  uint64_t BytesNeeded(int64_t batch) const {
    return PlanMemory(batch).total();
  }
  // Allocates the step's memory for batches of up to `batch`. Otherwise the
  // first step allocates it. `training` false is enough to evaluate and
  // predict.
  Status Reserve(int64_t batch, bool training);
  // The bytes that the model has allocated.
  uint64_t BytesUsed() const;

  // Opens a loader that reads batches of `dataset` into the model's buffers.
  // While it is open, a second loader, Compile, and calls that need more memory
  // are errors that change nothing.
  Status OpenLoader(const Dataset& dataset, const LoaderOptions& options,
                    std::unique_ptr<BatchLoader>* loader);

  // A whole step: forward, loss, metrics, backward, update. Every rank of a job
  // calls it with its part of the batch. Refused with more replicas than
  // workers: use Fit or TrainingLoop.
  Status TrainStep(const Batch& batch);
  // Forward, loss and metrics, on this rank only.
  Status TestStep(const Batch& batch);

  // The parts of a step; every rank calls them. x has the shape (count, input
  // shape). The result is output() until the next Forward, or a Reserve of more
  // memory. Gradients that were not applied are dropped. With `training` true
  // and a loss on the input of a last softmax or sigmoid, output() is that
  // input until ComputeLoss.
  Status Forward(const float* x, int64_t count, bool training);
  // Null before the first Forward, after Compile, and after a failed Reserve.
  const float* output(int k = 0) const;
  // *loss becomes this rank's part of the step's loss: the sum over its
  // examples divided by batch.global_count, plus its part of the
  // regularization. x and the data of `batch` must not change until
  // ApplyGradients.
  Status ComputeLoss(const Batch& batch, double* loss);
  // Computes the gradients; their sums over all ranks may complete later.
  Status Backward();
  // Clips the gradients, updates the weights and counts the iteration; an
  // optimizer that accumulates updates in each k-th call.
  Status ApplyGradients();

  // "loss" first, then the metrics of Compile. AddMetrics and SumOverRanks
  // (metrics.h) compute running values.
  int num_metrics() const;
  const std::string& metric_name(int i) const;
  // True if a smaller value is better (loss and errors).
  bool metric_lower_is_better(int i) const;
  // MetricStates of all metrics; most have one, some several.
  int num_metric_states() const;
  double metric_value(int i, const MetricState* states) const;
  // The states of the last TrainStep, summed over all ranks.
  const MetricState* step_metrics() const;
  // The states of this rank's examples in the last TrainStep or TestStep; of
  // several replicas, those of the last.
  const MetricState* rank_metrics() const;
  // kOutOfSync, on every rank, if the weights, optimizer slots, iterations or
  // learning rate of a rank differ from those of rank 0 in any bit. In an
  // elastic Fit with FitOptions::cross_check only the faulty ranks get it,
  // without a majority all; the others get kPeerLost, and their Fit continues.
  Status CheckReplicas();

  const std::vector<Variable>& variables() const;
  int64_t num_weights() const;  // floats in the span
  // Floats with gradients and slots since the last Compile.
  int64_t num_trained() const;
  float* weights();
  // A digest of the bits of all weights with state, the same on every machine.
  // 0 before the first Compile.
  uint64_t DigestWeights() const;
  // The num_trained() floats of the last Backward(). Waits for the sums over
  // the ranks; if they failed, the content is undefined. TrainStep may keep
  // none.
  const float* gradients() const;
  // Multiply-adds of one example, forward.
  int64_t MultiplyAdds() const;

  const Optimizer& optimizer() const;
  const Loss& loss() const;                    // the first output's loss
  const std::vector<Metric>& metrics() const;  // resolved for the loss
  // One for each output, in order, with resolved metrics.
  const std::vector<OutputLoss>& losses() const;
  // The number of steps; see Optimizer::Updates.
  int64_t iterations() const;
  // The learning rate of the next step: that of the schedule or of
  // SetLearningRate.
  float LearningRate() const;
  void SetLearningRate(float learning_rate);
  Collective* collective() const;
  int num_replicas() const;  // set by Compile
  int threads() const;
  uint64_t seed() const;
  const LocalUpdates& local_updates() const;  // set by Compile

  // Weights as "model/<layer>/<weight>", and the optimizer's slots, iterations
  // and learning rate as "optimizer/…".
  Saveable* weights_state();
  Saveable* optimizer_state();

  // The training data; null: unknown. SaveModel writes it, LoadModel reads it,
  // and Fit does not change it. Names that are not UTF-8 or take over 128 KiB,
  // and a scale that is not finite, are not saved.
  const DataDescription* data_description() const;
  void set_data_description(const std::optional<DataDescription>& description);

  // Null: no observer.
  void set_observer(StepObserver* observer);
  StepObserver* observer() const;

 protected:
  Model(const char* class_name, const char* name);
  Model(Model&& other) noexcept;
  Model& operator=(Model&& other) noexcept;
  // Appends a node and returns its number; `inputs` are numbers of earlier
  // nodes.
  int AddNode(const Layer& layer, const std::vector<int>& inputs);
  int AddCall(int of, const std::vector<int>& inputs);
  void SetOutputs(const std::vector<int>& nodes);
  void Fail(const Status& status);

 private:
  friend class ModelParts;         // core/model/model_parts.h, internal
  friend class SimulatedReplicas;  // core/exchange/availability.h, for tests
  struct Impl;
  struct Deleter {
    void operator()(Impl* impl) const;
  };
  std::unique_ptr<Impl, Deleter> impl_;
};

// Layers in a sequence. The first is an Input.
class Sequential final : public Model {
 public:
  Sequential() : Model("Sequential", "sequential") {}
  Sequential(std::initializer_list<Layer> layers) : Sequential() {
    for (const Layer& layer : layers) Add(layer);
  }
  void Add(const Layer& layer);
};

// A graph: each call names its input nodes. The last node is the output.
//
//   Functional model;
//   auto x = model.Add(Input({8, 8, 4}));
//   auto y = model.Add(Conv2D(4, 3).Padding(kSame), {x});
//   model.Add(Flatten(), {model.Add(Add(), {x, y})});
//
// A second call of a layer uses the same weights; their gradients are added:
//
//   auto a = model.Add(encoder.AsLayer(), {x});
//   auto b = model.CallAgain(a, {y});
//
// A model may have several Inputs, before all other layers, and several
// Outputs.
class Functional final : public Model {
 public:
  using Node = int;
  Functional() : Model("Functional", "functional") {}
  Node Add(const Layer& layer, const std::vector<Node>& inputs = {}) {
    return AddNode(layer, inputs);
  }
  // Calls the layer or nested model of `node` again, with inputs of that shape.
  Node CallAgain(Node node, const std::vector<Node>& inputs) {
    return AddCall(node, inputs);
  }
  // Sets the outputs, in this order. Other layers may read them too.
  void Outputs(const std::vector<Node>& nodes) { SetOutputs(nodes); }
};

// --- LoRA for a model --------------------------------------------------------

struct LoraOptions {
  int64_t rank = 4;
  int64_t alpha = 0;  // 0: the alpha of a layer that has LoRA, else the rank
  // Dense and Embedding layers by name, as "dense" or "body/dense". Empty: all.
  std::vector<std::string> layers;
};

// Makes a copy of a model with LoRA, without weights, and freezes all other
// layers, as KerasHub's enable_lora. After Compile, LoadWeights loads the
// weights of the first model: the matrices of LoRA keep their initial values,
// which change no output.
Status EnableLora(const Model& model, const LoraOptions& options,
                  std::unique_ptr<Model>* tuned);

}  // namespace ringlet

#endif  // RINGLET_MODEL_H_
