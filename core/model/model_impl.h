// The inside of a Model, shared by model.cc (building, the public face),
// model_memory.cc (places in memory), model_step.cc (a step) and
// model_summary.cc. Not installed.

#ifndef RINGLET_CORE_MODEL_MODEL_IMPL_H_
#define RINGLET_CORE_MODEL_MODEL_IMPL_H_

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../base/arena.h"
#include "../base/clock.h"
#include "../base/thread_pool.h"
#include "../layers/op.h"
#include "fingerprint.h"
#include "gradients.h"
#include "model.h"
#include "optimizer_table.h"

namespace ringlet {

struct Model::Impl final : public GradientSink {
  struct FreeDeleter {
    void operator()(void* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<void, FreeDeleter>;
  ~Impl() override {
    DropGradients();
    ReleaseStep();
    ReleaseKept();
  }
  // Aligned memory from the heap; null where there is none.
  static Block AllocateBlock(size_t bytes);

  // What a step needs for one node.
  struct NodeMemory {
    // Numbers in the LifetimePlan; -1 where none. `y` and `dy` are kept by the
    // root of a chain of views.
    int y = -1, dy = -1, forward_scratch = -1, backward_scratch = -1;
    std::vector<int> extra_dx;  // one for each input; -1: written directly
  };

  struct Node {
    Layer layer;
    std::vector<int> inputs;
    std::unique_ptr<Op> op;  // null for an input
    Shape output;
    int root = 0;                 // the node whose bytes these are
    bool needs_gradient = false;  // has weights, or comes after one that has
    // The number of the only node that takes this root's bytes, if that one
    // writes the gradient over them; else -1.
    int replaced_by = -1;
    int first_variable = 0;
    int num_variables = 0;

    // Places in the step's memory.
    float* y = nullptr;
    float* dy = nullptr;
    float* forward_scratch = nullptr;
    float* backward_scratch = nullptr;
    std::vector<const float*> x;
    std::vector<float*> dx;
    std::vector<float*> extra_dx;  // null: dx is the input's dy itself
    std::vector<float*> weights;
    std::vector<float*> d_weights;
  };

  // What the model keeps, in one arena.
  struct KeptMemory {
    float* weights = nullptr;
    float* gradients = nullptr;
    float* slots[8] = {};
  };

  // What a step needs besides the planned buffers.
  struct StepMemory {
    float* x[2] = {};
    void* y[2] = {};
    float* per_example = nullptr;
    unsigned char* planned = nullptr;
    size_t planned_bytes = 0;
  };

  // A planned buffer as AddressSanitizer is told of it.
  struct Watched {
    enum class What : uint8_t { kOutput, kForwardScratch, kBackwardScratch };
    const float* at;
    What what;
    int node;         // whose output's size or whose scratch
    int first, last;  // when it lives
  };

  std::string class_name, name;
  Status status;
  Status refused;  // the last Compile, if the model stayed as it was
  std::vector<Node> nodes;
  std::set<std::string> names;         // of the nodes
  std::map<std::string, int> numbers;  // the last that a default name took
  std::vector<Variable> variables;
  int64_t num_weights = 0;
  std::vector<float> initial_weights;  // of the first Compile; empty: drawn

  bool may_fail = false;  // a layer's Backward

  bool compiled = false;
  Optimizer optimizer;
  Loss loss;         // as asked for
  Loss step_loss;    // as computed: on logits where the last activation allows
  Loss output_loss;  // of what output() holds
  bool loss_takes_logits = false;
  std::vector<Metric> metrics;
  std::vector<std::string> metric_names;
  std::vector<MetricState> metric_states;
  std::vector<MetricState> step_states;   // this rank's part of a step
  std::vector<MetricState> rank_states;   // the same of all ranks
  std::vector<MetricState> step_metrics;  // their sums
  CompileOptions options;
  SoloCollective solo;
  std::unique_ptr<ThreadPool> pool;
  StepObserver* observer = nullptr;

  Block kept_block;
  KeptMemory kept;
  size_t kept_bytes = 0;
  std::shared_ptr<void> step_block;  // shared with an open loader
  StepMemory step;
  size_t step_bytes = 0;
  int64_t step_batch = 0;
  bool step_training = false;
  std::vector<Watched> watched;  // empty where nothing is poisoned
  std::weak_ptr<void> lease;     // of a loader on the step's buffers

  int64_t iterations = 0;          // steps, whether each updates or not
  int64_t saved_accumulation = 0;  // gradient_accumulation_steps, as saved
  int64_t fits = 0;                // completed
  bool fitting = false;            // Fit runs
  float learning_rate = -1;        // < 0: the schedule's
  bool torn = false;  // another rank's state has arrived in part only

  // The step under way.
  int64_t count = 0;
  bool forward_trains = false;
  bool have_output = false;  // for a loss to be computed of
  bool have_gradient_of_loss = false;
  bool have_gradients = false;
  bool apply_when_ready = false;
  bool without_activation = false;  // the output is still the loss's logits
  StepScalars scalars;
  bool step_updates = false;  // or only adds to the sums of gradients
  std::vector<GradientSpan> clip_spans;
  int64_t ready = 0;    // gradients from here on are final
  int64_t started = 0;  // and from here on on their way to the others
  std::vector<Collective::Ticket> tickets;  // the gradients are not ours yet
  Collective::Ticket metrics_ticket = 0;    // of the step's metrics
  Status collective_status;                 // of this step's reductions

  Collective* collective() {
    return options.collective != nullptr ? options.collective : &solo;
  }
  Node& output_node() { return nodes.back(); }
  Status Usable() const {
    RINGLET_RETURN_IF_ERROR(status);
    if (compiled) return Status();
    return InvalidArgument("model '%s': call Compile first", name.c_str());
  }

  // --- building ---------------------------------------------------------
  void Fail(const Status& s) {
    if (status.ok()) status = s;
  }
  std::string UniqueName(const Layer& layer);
  int AddNode(const Layer& layer, const std::vector<int>& inputs);
  Status CheckNewNode(const Layer& layer, const std::vector<int>& inputs) const;
  Status MakeOp(Node* node);
  void Compile();
  void CheckGraph();
  void ChooseStepLoss();
  void MakePool();
  void PlaceWeights();
  void DrawWeights(float* weights) const;
  void ResolveMetrics(const std::vector<Metric>& asked);

  // --- replicas (model_replicas.cc) --------------------------------------
  Fingerprint MakeFingerprint();
  int64_t Age(bool lived) const;
  uint32_t SlotsDigest(uint32_t digest) const;  // goes on from `digest`
  // Compares the ranks' models, and gives all of them the state of one.
  Status JoinReplicas(bool lived);

  // --- memory -----------------------------------------------------------
  KeptMemory PlaceKept(Arena* arena) const;
  StepMemory PlaceStep(Arena* arena, int64_t batch, bool training,
                       LifetimePlan* plan,
                       std::vector<NodeMemory>* memory) const;
  size_t StepBytes(int64_t batch, bool training) const;
  void PlanForward(int64_t batch, bool training, LifetimePlan* plan,
                   std::vector<NodeMemory>* memory) const;
  void PlanBackward(int64_t batch, LifetimePlan* plan,
                    std::vector<NodeMemory>* memory) const;
  std::vector<int> LastReads(bool training) const;
  size_t OutputBytes(int node, int64_t batch) const;
  void Bind(const LifetimePlan& plan, const std::vector<NodeMemory>& memory);
  void CheckScratch() const;
  void Watch(const LifetimePlan& plan, const std::vector<NodeMemory>& memory);
  size_t WatchedBytes(const Watched& buffer) const;
  void ShowOnly(int time) const;
  void PoisonSlack() const;
  void ReleaseStep();
  void ReleaseKept();
  Status Reserve(int64_t batch, bool training);
  int ReplacedBy(int root) const;
  size_t LabelBytes() const;
  Status CheckLimit(size_t bytes, const char* what) const;
  Status FitLimit(int64_t* batch, bool* training) const;
  Status CheckNotLent(const char* call) const;

  // --- the step ---------------------------------------------------------
  Status Forward(const float* x, int64_t examples, bool training,
                 bool for_loss);
  Status ComputeLoss(const Batch& batch, bool with_gradient, double* loss_sum);
  Status Backward(bool update);
  Status Run(void (Op::*pass)(const OpCall&) const, int node, OpCall call);
  Status BackwardNode(int node);
  Status FinishReduction();
  void DropGradients();
  Status UpdateMetrics(const Batch& batch, double loss_sum);
  Status StartStepMetrics();
  Status FinishStepMetrics();
  OpCall CallOf(int node);
  void Ready(int64_t begin) override;
  void Take(int64_t begin, const float* gradients) override;
  void StartBuckets();
  float LearningRate() const {
    return learning_rate >= 0
               ? learning_rate
               : optimizer.learning_rate.At(optimizer.Updates(iterations));
  }
  void PrepareUpdate();
  void Update(int64_t begin, int64_t end, const float* gradients);
  void UpdatePart(const Variable& v, int64_t from, int64_t to,
                  const float* gradients);
  void Clip();
  // The sums of gradients from a weight on; null where every step updates.
  float* SumsOfGradients(int64_t from) const {
    return optimizer.accumulates()
               ? kept.slots[optimizer.num_slots() - 1] + from
               : nullptr;
  }
  double Penalty() const;
  void Observe(const char* what, const char* phase, int64_t begin) const;
  int64_t Now() const {
    return observer == nullptr ? 0 : Clock::System()->MonotonicNanos();
  }

  // --- saveable views ---------------------------------------------------
  struct WeightsState final : public Saveable {
    explicit WeightsState(Impl* i) : impl(i) {}
    void AppendState(std::vector<StateSpan>* spans) override;
    Impl* impl;
  } weights_state{this};
  struct OptimizerState final : public Saveable {
    explicit OptimizerState(Impl* i) : impl(i) {}
    void AppendState(std::vector<StateSpan>* spans) override;
    Status StateLoaded() override;
    Impl* impl;
  } optimizer_state{this};
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MODEL_IMPL_H_
