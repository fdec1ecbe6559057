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
  // Includes changes of layer state, twice for a worker with several replicas.
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
  // The number of layers with outputs that are computed again, and the
  // multiply-adds of one example for that.
  int recomputed = 0;
  int64_t recomputed_multiply_adds = 0;
  // Outputs that the backward pass reads as bfloat16, and their bytes.
  int packed = 0;
  uint64_t packed_bytes = 0;
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
  OutputLoss(std::string output, const Loss& loss,
             std::vector<Metric> metrics = {}, float weight = 1)
      : output(std::move(output)),
        loss(loss),
        metrics(std::move(metrics)),
        weight(weight) {}

  // The output's layer; empty means the output at the same index.
  std::string output;
  Loss loss;
  bool trains = true;  // if false, it has no loss and no targets
  std::vector<Metric> metrics;
  float weight = 1;  // in the model's loss
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
  // Lets a Collective stand in the place of options, as a strategy does.
  CompileOptions(Collective* c) : collective(c) {}  // NOLINT: implicit

  // Outlives the model; null is a job of one worker. Compile compares the
  // models and gives all ranks the chief's weights.
  Collective* collective = nullptr;
  // The strategy's error fails Compile.
  Status status;
  // The same on all ranks. Used only with several replicas.
  Reduction reduction = Reduction::kRing;
  // Replaces sums of gradients, in Fit; the same on all ranks. Not with
  // gradient_accumulation_steps or use_ema.
  LocalUpdates local;
  // The number of parts of a step's batch; each worker computes one or more
  // parts. Random numbers, statistics and metrics depend on this number, not on
  // the workers. Zero means the number that other workers have given, or the
  // number of workers if none has given one.
  int replicas = 0;
  // Includes the caller's thread. No bit depends on their number.
  int threads = 1;
  // The seed of the initial weights and of dropout.
  uint64_t seed = 1;
  // Computes outputs again, with the same bits and less memory (PlanMemory).
  bool recompute = false;
  // If set, all layers get this policy in the place of their own.
  std::optional<DTypePolicy> dtype_policy;
  // Memory of the caller for the model, aligned to 64 bytes. It outlives the
  // model. Null means memory of the heap.
  void* memory = nullptr;
  size_t memory_bytes = 0;
  // The most bytes to allocate if `memory` is null. Zero means no limit.
  size_t memory_limit = 0;
  // Measures the workers' speeds. Outlives the model.
  Clock* clock = Clock::System();
  // Loads this worker's first state (LoadWeights, LoadCheckpoint). Compile may
  // call it several times, before the workers compare states (kOutOfSync). A
  // joining worker gets the run's state instead.
  std::function<Status(Model*)> restore;
};

// A range of the weight span: first the trainable weights in the order of the
// layers, then the layers' state.
struct Variable {
  std::string path;  // "conv2d/kernel"
  Shape shape;
  int64_t offset = 0;  // a number of floats
  Regularizer regularizer;
  Constraint constraint;
  // True if the variable is never trained, such as a moving mean.
  bool is_layer_state = false;
  // The variable's offset in gradients and slots after Compile; -1 if it is not
  // trained.
  int64_t gradient_offset = 0;
  // The offset in a step's changes, for state that training changes.
  int64_t change_offset = -1;
  bool trained() const { return gradient_offset >= 0; }
  int64_t size() const { return shape.elements(); }
};

// Receives the time of each part of a step. See Trace in loggers.h.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // `what` is a layer, "loss", "optimizer" or "all-reduce", and `phase`
  // "forward", "backward" or "step". Times are monotonic nanoseconds.
  virtual void OnPart(const char* what, const char* phase, int64_t begin,
                      int64_t end) = 0;
  // Returns the observer that remains when `gone` is removed. Overridden by
  // observers that forward to other observers.
  virtual StepObserver* Without(const StepObserver* gone) {
    return gone == this ? nullptr : this;
  }
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // The first error of building, or of the last Compile.
  const Status& status() const;
  const char* class_name() const;  // "Sequential" or "Functional"
  const std::string& name() const;
  void set_name(const std::string& name);

  // One example's shape of the first input or output, once there is a layer.
  Shape input_shape() const;
  Shape output_shape() const;
  // A batch has the first input of all examples, then the second input of all
  // examples, and so on. The targets have the same layout.
  int num_inputs() const;
  int num_outputs() const;
  int output_node(int k) const;
  // The name of output k in the logs: its layer's name, such as "dense_1".
  std::string output_name(int k) const;
  // Keras's table: layer, output shape, parameters.
  std::string Summary() const;

  // Calls of layers in the order of Add, inputs first, with the calls of nested
  // models, as "body/conv2d".
  int num_nodes() const;
  const Layer& layer(int node) const;
  // The layer's first node; `node` itself unless the layer is shared.
  int first_call(int node) const;
  const std::vector<int>& inputs(int node) const;
  const Shape& output_shape(int node) const;

  // Checks the model, allocates weights and optimizer, and initializes the
  // weights. Metrics have Keras's names ("accuracy"). A second call keeps the
  // weights and resets the optimizer; with an open loader it is refused.
  void Compile(const Optimizer& optimizer, const Loss& loss,
               const std::vector<Metric>& metrics = {},
               const CompileOptions& options = {});
  // For several outputs; `losses` names each output once. The Compile above
  // gives all outputs the same loss. As in Keras it takes no metrics then, or
  // one metric for each output. Names in the logs are Keras's: "loss",
  // "age_loss", "kind_accuracy".
  void Compile(const Optimizer& optimizer,
               const std::vector<OutputLoss>& losses,
               const CompileOptions& options = {});
  bool compiled() const;
  // As Keras's layer.trainable, from the next Compile on. A nested model,
  // "body", passes it on; "body/conv2d" is trained if all models around it are.
  Status SetTrainable(const std::string& layer, bool trainable);
  // As Keras's layer.adapt: mean and variance of each channel of the scaled
  // examples, for every Normalization without them on an input. Fit calls it.
  // All ranks pass the same examples. After an error no layer has changed.
  Status Adapt(const Dataset& dataset);
  // Sets the num_weights() weights with which the first Compile begins, in
  // place of random weights.
  Status SetInitialWeights(std::vector<float> weights);

  // A copy of this model as a layer of another model, with the weights of this
  // model or with random weights.
  //
  //   Sequential model({Input({96, 96, 3}), body.AsLayer().Trainable(false),
  //                     GlobalAveragePooling2D(), Dense(2)});
  Layer AsLayer(bool with_weights = true) const;

  // The loops of Keras (fit.h).
  Result<History> Fit(const Dataset& dataset, const FitOptions& options);
  Result<History> Fit(const Dataset& dataset);
  Result<Logs> Evaluate(const Dataset& dataset, const EvaluateOptions& options);
  Result<Logs> Evaluate(const Dataset& dataset);
  // Returns the first output of all examples, then the second output of all
  // examples, and so on.
  Result<std::vector<float>> Predict(const Dataset& dataset);

  // The exact memory for batches of up to `batch` examples; zeros before
  // Compile.
  MemoryPlan PlanMemory(int64_t batch) const;
  uint64_t BytesNeeded(int64_t batch) const {
    return PlanMemory(batch).total();
  }
  // Allocates the step's memory. Without this call the first step does.
  // `training` is not needed to evaluate and predict.
  Status Reserve(int64_t batch, bool training);
  // The bytes that the model has allocated.
  uint64_t BytesUsed() const;

  // Reads batches into the model's buffers. While it is open, a second loader,
  // Compile, and a need of more memory are errors that change nothing.
  Status OpenLoader(const Dataset& dataset, const LoaderOptions& options,
                    std::unique_ptr<BatchLoader>* loader);

  // Forward, loss, metrics, backward, update, on every rank with its part of
  // the batch. With more replicas than workers use Fit or TrainingLoop.
  Status TrainStep(const Batch& batch);
  // Forward, loss and metrics, on this rank only.
  Status TestStep(const Batch& batch);

  // The parts of a step; every rank calls them. x is (count, input shape).
  // output() stays until the next Forward, or a larger Reserve. Gradients that
  // were not applied are dropped. In training, with a loss on the input of a
  // last softmax or sigmoid, output() is that input until ComputeLoss.
  Status Forward(const float* x, int64_t count, bool training);
  // Null before the first Forward, after Compile, and after a failed Reserve.
  const float* output(int k = 0) const;
  // This rank's part of the loss: the sum over its examples divided by
  // batch.global_count, plus its regularization. x and the data of `batch` must
  // not change until ApplyGradients.
  Status ComputeLoss(const Batch& batch, double* loss);
  // Sums over all ranks may complete later.
  Status Backward();
  // Clips the gradients, updates the weights and counts the step. An optimizer
  // that accumulates k gradients updates in every k-th call.
  Status ApplyGradients();

  // "loss" first, then the metrics of Compile. For running values see
  // metrics.h.
  int num_metrics() const;
  const std::string& metric_name(int i) const;
  bool metric_lower_is_better(int i) const;
  int num_metric_states() const;
  double metric_value(int i, const MetricState* states) const;
  // The states of the last TrainStep, summed over all ranks.
  const MetricState* step_metrics() const;
  // The states of this rank in the last step. If the rank computes several
  // replicas: the states of its last replica.
  const MetricState* rank_metrics() const;
  // kOutOfSync, on every rank, if weights, slots, iterations or learning rate
  // of any rank differ in any bit. With FitOptions::cross_check in an elastic
  // Fit, only faulty ranks get kOutOfSync, or all ranks if there is no
  // majority. The other ranks get kPeerLost, and their Fit continues.
  Status CheckReplicas();

  const std::vector<Variable>& variables() const;
  int64_t num_weights() const;  // floats in the span
  // The floats with gradients and slots since the last Compile.
  int64_t num_trained() const;
  float* weights();
  // A digest of all weights with state, the same on every machine. 0 before
  // the first Compile.
  uint64_t DigestWeights() const;
  // The num_trained() gradients of the last Backward(), after their sum over
  // the ranks. Undefined after an error, and after TrainStep, which may not
  // keep them.
  const float* gradients() const;
  // The multiply-adds of one example in the forward pass.
  int64_t MultiplyAdds() const;

  const Optimizer& optimizer() const;
  const Loss& loss() const;                    // the first output's loss
  const std::vector<Metric>& metrics() const;  // resolved for the loss
  // The loss of each output, in order, with resolved metrics.
  const std::vector<OutputLoss>& losses() const;
  // The number of steps; see Optimizer::Updates.
  int64_t iterations() const;
  // The next step's learning rate, by the schedule or SetLearningRate.
  float LearningRate() const;
  void SetLearningRate(float learning_rate);
  Collective* collective() const;
  int num_replicas() const;  // set by Compile
  int threads() const;
  uint64_t seed() const;
  const LocalUpdates& local_updates() const;  // set by Compile

  // "model/<layer>/<weight>", and slots, iterations and learning rate as
  // "optimizer/…".
  Saveable* weights_state();
  Saveable* optimizer_state();

  // The description of the training data, or null. SaveModel writes it,
  // LoadModel reads it, and Fit keeps it. Names that are not UTF-8 or take over
  // 128 KiB, and a scale that is not finite, are not saved.
  const DataDescription* data_description() const;
  void set_data_description(const std::optional<DataDescription>& description);

  // Replaces the observer; null removes it.
  void set_observer(StepObserver* observer);
  StepObserver* observer() const;

 protected:
  Model(const char* class_name, const char* name);
  Model(Model&& other) noexcept;
  Model& operator=(Model&& other) noexcept;
  // Returns the node's number; `inputs` are earlier ones.
  int AddNode(const Layer& layer, const std::vector<int>& inputs);
  int AddCall(int earlier_node, const std::vector<int>& inputs);
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
// A model may have several Inputs, first, and several Outputs.
class Functional final : public Model {
 public:
  using Node = int;
  Functional() : Model("Functional", "functional") {}
  Node Add(const Layer& layer, const std::vector<Node>& inputs = {}) {
    return AddNode(layer, inputs);
  }
  Node CallAgain(Node node, const std::vector<Node>& inputs) {
    return AddCall(node, inputs);
  }
  // Sets the outputs, in this order. Other layers may read these outputs too.
  void Outputs(const std::vector<Node>& nodes) { SetOutputs(nodes); }
};

// --- LoRA for a model --------------------------------------------------------

struct LoraOptions {
  int64_t rank = 4;
  int64_t alpha = 0;  // zero keeps a layer's alpha, or means the rank
  // Dense and Embedding layers, as "dense" or "body/dense". Empty means all.
  std::vector<std::string> layers;
};

// A copy with LoRA, without weights, and with all other layers frozen, as
// KerasHub's enable_lora. After Compile, load the weights of `model` with
// LoadWeights. LoRA's initial values change no output.
Status EnableLora(const Model& model, const LoraOptions& options,
                  std::unique_ptr<Model>* tuned);

}  // namespace ringlet

#endif  // RINGLET_MODEL_H_
