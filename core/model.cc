#include "model.h"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "agreement.h"
#include "arena.h"
#include "clock.h"
#include "crc32c.h"
#include "flush_denormals.h"
#include "gemm.h"
#include "kernels.h"
#include "op.h"
#include "thread_pool.h"

namespace ringlet {
namespace {

// Keras's snake case of a class name: "Conv2D" -> "conv2d".
const char* DefaultName(const Layer& layer) {
  switch (layer.kind) {
    case Layer::Kind::kInput: return "input_layer";
    case Layer::Kind::kReshape: return "reshape";
    case Layer::Kind::kFlatten: return "flatten";
    case Layer::Kind::kDense: return "dense";
    case Layer::Kind::kConv2D: return "conv2d";
    case Layer::Kind::kActivation: return "activation";
    case Layer::Kind::kMaxPooling2D: return "max_pooling2d";
    case Layer::Kind::kAveragePooling2D: return "average_pooling2d";
    case Layer::Kind::kDropout: return "dropout";
    case Layer::Kind::kAdd: return "add";
    case Layer::Kind::kConcatenate: return "concatenate";
  }
  return "layer";
}

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using Block = std::unique_ptr<void, FreeDeleter>;

// Aligned memory from the heap; null where there is none.
Block AllocateBlock(size_t bytes) {
  return Block(std::aligned_alloc(Arena::kAlignment,
                                  std::max(bytes, Arena::kAlignment)));
}

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
  int root = 0;              // the node whose bytes these are
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
};

}  // namespace

struct Model::Impl final : public GradientSink {
  std::string class_name, name;
  Status status;
  std::vector<Node> nodes;
  std::set<std::string> names;         // of the nodes
  std::map<std::string, int> numbers;  // the last that a default name took
  std::vector<Variable> variables;
  int64_t num_weights = 0;
  std::vector<float> initial_weights;  // of the first Compile; empty: drawn

  bool compiled = false;
  Optimizer optimizer;
  Loss loss;       // as asked for
  Loss step_loss;  // as computed: on logits where the last activation allows
  bool loss_takes_logits = false;
  std::vector<Metric> metrics;
  std::vector<std::string> metric_names;
  std::vector<MetricState> metric_states;
  CompileOptions options;
  SoloCollective solo;
  std::unique_ptr<ThreadPool> pool;
  StepObserver* observer = nullptr;

  Block kept_block;
  KeptMemory kept;
  size_t kept_bytes = 0;
  Block step_block;
  StepMemory step;
  size_t step_bytes = 0;
  int64_t step_batch = 0;
  bool step_training = false;
  std::weak_ptr<void> lease;  // of a loader on the step's buffers

  int64_t iterations = 0;
  float learning_rate = -1;  // < 0: the schedule's

  // The step under way.
  int64_t count = 0;
  bool forward_trains = false;
  bool have_gradient_of_loss = false;
  bool have_gradients = false;
  bool apply_when_ready = false;
  bool without_activation = false;  // the output is still the loss's logits
  StepScalars scalars;
  std::vector<GradientSpan> clip_spans;
  int64_t ready = 0;        // gradients from here on are final
  int64_t started = 0;      // and from here on on their way to the others
  std::vector<Collective::Ticket> tickets;
  Status collective_status;

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
  void Compile();
  void ResolveMetrics(const std::vector<Metric>& asked);
  Status JoinReplicas();

  // --- memory -----------------------------------------------------------
  KeptMemory PlaceKept(Arena* arena) const;
  StepMemory PlaceStep(Arena* arena, int64_t batch, bool training,
                       LifetimePlan* plan,
                       std::vector<NodeMemory>* memory) const;
  size_t StepBytes(int64_t batch, bool training) const;
  void PlanNodes(int64_t batch, bool training, LifetimePlan* plan,
                 std::vector<NodeMemory>* memory) const;
  void Bind(const LifetimePlan& plan, const std::vector<NodeMemory>& memory);
  Status Reserve(int64_t batch, bool training);
  int ReplacedBy(int root) const;
  size_t LabelBytes() const;
  Status CheckLimit(size_t bytes, const char* what) const;

  // --- the step ---------------------------------------------------------
  Status Forward(const float* x, int64_t examples, bool training,
                 bool for_loss);
  Status ComputeLoss(const Batch& batch, bool with_gradient, double* loss_sum);
  Status Backward(bool update);
  void BackwardNode(int node);
  Status FinishReduction();
  void UpdateMetrics(const Batch& batch, double loss_sum);
  OpCall CallOf(int node);
  void Ready(int64_t begin) override;
  void StartBuckets();
  void Update(int64_t begin, int64_t end);
  void Clip();
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

// --- building -------------------------------------------------------------

std::string Model::Impl::UniqueName(const Layer& layer) {
  if (!layer.name.empty()) return layer.name;
  const std::string base = DefaultName(layer);
  if (names.count(base) == 0) return base;
  for (int& i = numbers[base];;) {
    const std::string numbered = base + "_" + std::to_string(++i);
    if (names.count(numbered) == 0) return numbered;
  }
}

int Model::Impl::AddNode(const Layer& layer, const std::vector<int>& inputs) {
  const int number = static_cast<int>(nodes.size());
  if (!status.ok()) return number;
  Node node;
  node.layer = layer;
  node.layer.name = UniqueName(layer);
  node.inputs = inputs;
  node.root = number;
  node.first_variable = static_cast<int>(variables.size());
  const char* layer_name = node.layer.name.c_str();
  if (compiled) {
    Fail(
        InvalidArgument("layer '%s': the model was compiled already; add all "
                        "layers before Compile",
                        layer_name));
    return number;
  }
  if (names.count(node.layer.name) != 0) {
    Fail(InvalidArgument("layer '%s': two layers have this name; give one "
                         "another with Name()",
                         layer_name));
    return number;
  }
  if (layer.kind == Layer::Kind::kInput) {
    if (number != 0 || !inputs.empty()) {
      Fail(InvalidArgument("layer '%s': a model has one Input, its first layer",
                           layer_name));
      return number;
    }
    for (int i = 0; i < layer.shape.rank(); ++i) {
      if (layer.shape[i] < 1 || layer.shape.elements() > (int64_t{1} << 31)) {
        Fail(InvalidArgument("layer '%s': %s is not the shape of an input",
                             layer_name, layer.shape.ToString().c_str()));
        return number;
      }
    }
    node.output = layer.shape;
    names.insert(node.layer.name);
    nodes.push_back(std::move(node));
    return number;
  }
  if (number == 0) {
    Fail(InvalidArgument("layer '%s': the first layer must be an Input",
                         layer_name));
    return number;
  }
  std::vector<Shape> shapes;
  for (int input : inputs) {
    if (input < 0 || input >= number) {
      Fail(InvalidArgument("layer '%s': input %d is not an earlier layer",
                           layer_name, input));
      return number;
    }
    shapes.push_back(nodes[input].output);
    node.needs_gradient |= nodes[input].needs_gradient;
  }
  const Status made = Op::Make(layer, shapes, &node.op);
  if (!made.ok()) {
    Fail(made.Annotate("layer '%s' (%s)", layer_name, ClassName(layer.kind)));
    return number;
  }
  node.output = node.op->output();
  if (node.op->is_view()) node.root = nodes[inputs[0]].root;
  for (const WeightSpec& weight : node.op->weights()) {
    Variable variable;
    variable.path = node.layer.name + "/" + weight.name;
    variable.shape = weight.shape;
    variable.offset = num_weights;
    variable.regularizer = weight.regularizer;
    num_weights += variable.size();
    variables.push_back(variable);
    node.needs_gradient = true;
    ++node.num_variables;
  }
  names.insert(node.layer.name);
  nodes.push_back(std::move(node));
  return number;
}

void Model::Impl::ResolveMetrics(const std::vector<Metric>& asked) {
  metrics.clear();
  metric_names = {"loss"};
  for (const Metric& metric : asked) {
    Metric resolved;
    const Status s =
        ResolveMetric(metric, loss, output_node().output, &resolved);
    if (!s.ok()) return Fail(s);
    metrics.push_back(resolved);
    // As Keras: a second "mean" is "mean_1".
    std::string unique = resolved.name;
    for (int i = 1;
         std::count(metric_names.begin(), metric_names.end(), unique) > 0;) {
      unique = resolved.name + "_" + std::to_string(i++);
    }
    metric_names.push_back(unique);
  }
  metric_states.assign(metric_names.size(), MetricState());
}

void Model::Impl::Compile() {
  Fail(options.status);
  if (!status.ok()) return;
  if (nodes.size() < 2) {
    return Fail(InvalidArgument(
        "model '%s': needs an Input and at least one layer", name.c_str()));
  }
  if (options.threads < 1 || options.threads > 1024) {
    return Fail(InvalidArgument("threads must be in 1..1024, not %d",
                                options.threads));
  }
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const bool used = std::any_of(
        nodes.begin(), nodes.end(), [&](const Node& node) {
          return std::count(node.inputs.begin(), node.inputs.end(),
                            static_cast<int>(i)) > 0;
        });
    if (!used) {
      return Fail(InvalidArgument(
          "layer '%s': nothing takes its output, and it is not the last layer",
          nodes[i].layer.name.c_str()));
    }
  }
  if (!initial_weights.empty() &&
      static_cast<int64_t>(initial_weights.size()) != num_weights) {
    return Fail(InvalidArgument(
        "model '%s': layers were added after its initial weights were set",
        name.c_str()));
  }
  Fail(optimizer.Check());
  Fail(CheckLossShape(loss, output_node().output));
  if (!status.ok()) return;
  // As TensorFlow does in a compiled step: where the output is a softmax or a
  // sigmoid, the loss takes its input, which is exact for any value.
  const Op* last = output_node().op.get();
  const Activation activation =
      last != nullptr ? last->fused_activation() : kLinear;
  step_loss = loss;
  loss_takes_logits =
      !loss.from_logits && loss.logits_activation() == activation &&
      activation != kLinear;
  if (loss_takes_logits) step_loss.from_logits = true;

  if (pool == nullptr || pool->threads() != options.threads) {
    pool.reset(new ThreadPool(options.threads));
  }
  if (!pool->status().ok()) {
    const Status refused = pool->status();
    pool.reset();
    return Fail(refused.Annotate("model '%s': %d threads", name.c_str(),
                                 options.threads));
  }
  Arena counting;
  PlaceKept(&counting);
  const size_t bytes = counting.used();
  const Status fits = CheckLimit(bytes, "weights, gradients and slots");
  if (!fits.ok()) return Fail(fits);
  Block block;
  if (options.memory == nullptr) {
    block = AllocateBlock(bytes);
    if (block == nullptr) {
      return Fail(ResourceExhausted(
          "model '%s': no memory for %zu bytes of weights, gradients and "
          "optimizer slots",
          name.c_str(), bytes));
    }
  }
  Arena arena(options.memory != nullptr ? options.memory : block.get(),
              bytes);
  const KeptMemory placed = PlaceKept(&arena);
  const float* old_weights = compiled ? kept.weights : nullptr;
  if (old_weights != nullptr) {
    std::memmove(placed.weights, old_weights, num_weights * sizeof(float));
  } else if (!initial_weights.empty()) {
    std::copy(initial_weights.begin(), initial_weights.end(), placed.weights);
    initial_weights = {};
  } else {
    for (size_t i = 0; i < variables.size(); ++i) {
      const Node* owner = nullptr;
      for (const Node& node : nodes) {
        const int index = static_cast<int>(i) - node.first_variable;
        if (index >= 0 && index < node.num_variables) owner = &node;
      }
      const WeightSpec& spec =
          owner->op->weights()[i - owner->first_variable];
      Initialize(spec.initializer, spec.shape, options.seed, i,
                 placed.weights + variables[i].offset);
    }
  }
  std::fill_n(placed.gradients, num_weights, 0.0f);
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    std::fill_n(placed.slots[s], num_weights, 0.0f);
  }
  kept = placed;
  kept_bytes = bytes;
  kept_block = std::move(block);
  step_block.reset();
  step_batch = 0;
  iterations = 0;
  learning_rate = -1;
  const size_t bucket = collective()->bucket_bytes() / sizeof(float);
  tickets.clear();
  tickets.reserve(num_weights / bucket + 2);
  for (Node& node : nodes) {
    node.weights.clear();
    node.d_weights.clear();
    for (int v = 0; v < node.num_variables; ++v) {
      const int64_t offset = variables[node.first_variable + v].offset;
      node.weights.push_back(kept.weights + offset);
      node.d_weights.push_back(kept.gradients + offset);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].replaced_by = ReplacedBy(static_cast<int>(i));
  }
  compiled = true;
}

// All ranks have the same model, and begin with the chief's weights.
Status Model::Impl::JoinReplicas() {
  if (collective()->size() == 1) return Status();
  uint32_t layers = 0;
  for (const Variable& v : variables) {
    const std::string text = v.path + v.shape.ToString();
    layers = Crc32c(text.data(), text.size(), layers);
  }
  const std::string what = "model '" + name + "'";
  RINGLET_RETURN_IF_ERROR(
      Agree(collective(), what.c_str(),
            {{"the number of weights", num_weights},
             {"layers", layers, true},
             {"the number of metrics", static_cast<int64_t>(metrics.size())},
             {"the loss", static_cast<int64_t>(loss.kind)},
             {"the optimizer", static_cast<int64_t>(optimizer.kind)}}));
  return BroadcastNumbers(collective(), kept.weights, sizeof(float),
                          static_cast<size_t>(num_weights), 0);
}

// --- memory ---------------------------------------------------------------

KeptMemory Model::Impl::PlaceKept(Arena* arena) const {
  KeptMemory kept;
  const size_t n = static_cast<size_t>(num_weights);
  kept.weights = arena->Allocate<float>(n);
  kept.gradients = arena->Allocate<float>(n);
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    kept.slots[s] = arena->Allocate<float>(n);
  }
  return kept;
}

size_t Model::Impl::LabelBytes() const {
  return sizeof(float) *
         static_cast<size_t>(loss.targets(nodes.back().output));
}

// The node that writes the gradient of `root` over its output; -1: none.
int Model::Impl::ReplacedBy(int root) const {
  const Node& made = nodes[root];
  if (made.op == nullptr || !made.needs_gradient || made.root != root ||
      nodes.back().root == root) {
    return -1;
  }
  const Activation activation = made.op->fused_activation();
  if (activation == kSoftmax) return -1;
  if (activation == kLinear && made.op->keeps_output()) return -1;
  int taker = -1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op == nullptr || nodes[i].op->is_view()) continue;
    for (int input : nodes[i].inputs) {
      if (nodes[input].root != root) continue;
      if (taker >= 0) return -1;
      taker = static_cast<int>(i);
    }
  }
  return taker >= 0 && nodes[taker].op->replaces_input() ? taker : -1;
}

// Time runs 0..n-1 through the forward pass, n at the loss, and 2n - i at the
// backward pass of node i.
void Model::Impl::PlanNodes(int64_t batch, bool training, LifetimePlan* plan,
                            std::vector<NodeMemory>* memory) const {
  const int n = static_cast<int>(nodes.size());
  const int threads = options.threads;
  memory->assign(n, NodeMemory());
  const auto bytes_of = [&](int node) {
    return static_cast<size_t>(batch * nodes[node].output.elements()) *
           sizeof(float);
  };
  // The last time each root's output is read, and the first its gradient is
  // written.
  std::vector<int> last_read(n, 0), first_written(n, 2 * n + 1);
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[i];
    last_read[node.root] = std::max(last_read[node.root], i);
    if (node.op == nullptr || node.op->is_view()) continue;
    const bool backward = training && node.needs_gradient;
    for (int input : node.inputs) {
      int& last = last_read[nodes[input].root];
      last = std::max(last, i);
      if (backward && node.op->keeps_input()) last = std::max(last, 2 * n - i);
    }
    if (backward && node.op->keeps_output()) {
      last_read[i] = std::max(last_read[i], 2 * n - i);
    }
  }
  for (int i = 0; i < n && training; ++i) {
    if (nodes[i].replaced_by >= 0) last_read[i] = 2 * n - i;
  }
  const int output_root = nodes[n - 1].root;
  last_read[output_root] = 2 * n + 1;  // the caller reads it after the step
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[i];
    if (node.op == nullptr || node.root != i) continue;
    NodeMemory& m = (*memory)[i];
    m.y = plan->Add(bytes_of(i), i, last_read[i]);
    const size_t scratch = node.op->forward_scratch(batch, threads);
    if (scratch > 0) {
      m.forward_scratch = plan->Add(scratch * sizeof(float), i, i);
    }
  }
  if (!training) return;
  first_written[output_root] = n;
  for (int i = n - 1; i >= 0; --i) {
    const Node& node = nodes[i];
    NodeMemory& m = (*memory)[i];
    m.extra_dx.assign(node.inputs.size(), -1);
    if (node.op == nullptr || node.op->is_view() || !node.needs_gradient) {
      continue;
    }
    const size_t scratch = node.op->backward_scratch(batch, threads);
    if (scratch > 0) {
      m.backward_scratch =
          plan->Add(scratch * sizeof(float), 2 * n - i, 2 * n - i);
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int root = nodes[node.inputs[k]].root;
      if (!nodes[root].needs_gradient) continue;
      int& first = first_written[root];
      if (first > 2 * n) {
        first = 2 * n - i;
      } else {
        m.extra_dx[k] =
            plan->Add(bytes_of(root), 2 * n - i, 2 * n - i);
      }
    }
  }
  for (int i = 0; i < n; ++i) {
    const Node& node = nodes[i];
    if (node.op == nullptr || node.root != i || !node.needs_gradient) continue;
    if (node.replaced_by >= 0) {
      (*memory)[i].dy = (*memory)[i].y;
      continue;
    }
    // A node that nobody takes gets a gradient of zero.
    const int first = std::min(first_written[i], 2 * n - i);
    (*memory)[i].dy = plan->Add(bytes_of(i), first, 2 * n - i);
  }
}

StepMemory Model::Impl::PlaceStep(Arena* arena, int64_t batch, bool training,
                                  LifetimePlan* plan,
                                  std::vector<NodeMemory>* memory) const {
  StepMemory step;
  const size_t examples = static_cast<size_t>(batch);
  for (int slot = 0; slot < 2; ++slot) {
    step.x[slot] = arena->Allocate<float>(
        examples * static_cast<size_t>(nodes[0].output.elements()));
    step.y[slot] = arena->Allocate<unsigned char>(examples * LabelBytes());
  }
  step.per_example = arena->Allocate<float>(examples);
  PlanNodes(batch, training, plan, memory);
  step.planned = arena->Allocate<unsigned char>(plan->Place());
  return step;
}

size_t Model::Impl::StepBytes(int64_t batch, bool training) const {
  LifetimePlan plan;
  std::vector<NodeMemory> memory;
  Arena counting;
  PlaceStep(&counting, batch, training, &plan, &memory);
  return counting.used();
}

Status Model::Impl::CheckLimit(size_t bytes, const char* what) const {
  if (options.memory_bytes == 0 && options.memory == nullptr) return Status();
  if (bytes <= options.memory_bytes) return Status();
  return ResourceExhausted(
      "model '%s': %s take %zu bytes, but only %zu were given; give more "
      "memory, a smaller batch or fewer units",
      name.c_str(), what, bytes, options.memory_bytes);
}

Status Model::Impl::Reserve(int64_t batch, bool training) {
  if (batch <= step_batch && (step_training || !training)) return Status();
  if (!lease.expired()) {
    return InvalidArgument(
        "model '%s': a step of %" PRId64 " examples%s needs more memory than "
        "the open loader has seen to; close it first",
        name.c_str(), batch, training ? " with training" : "");
  }
  batch = std::max(batch, step_batch);
  training = training || step_training;
  // What some examples take says whether the sizes of a batch can be counted.
  constexpr int64_t kSome = 64;
  if (batch >= kSome &&
      batch / kSome >=
          static_cast<int64_t>(PTRDIFF_MAX / StepBytes(kSome, training))) {
    return ResourceExhausted(
        "model '%s': no memory holds a step of batch "
        "%" PRId64 "; use a smaller batch",
        name.c_str(), batch);
  }
  const size_t bytes = StepBytes(batch, training);
  RINGLET_RETURN_IF_ERROR(CheckLimit(
      kept_bytes + bytes,
      training ? "training" : "evaluation"));
  step_block.reset();
  step_batch = 0;
  void* place = nullptr;
  if (options.memory != nullptr) {
    place = static_cast<unsigned char*>(options.memory) + kept_bytes;
  } else {
    step_block = AllocateBlock(bytes);
    place = step_block.get();
    if (place == nullptr) {
      return ResourceExhausted(
          "model '%s': no memory for the %zu bytes of a step of batch %" PRId64
          "; use a smaller batch",
          name.c_str(), bytes, batch);
    }
  }
  Arena arena(place, bytes);
  LifetimePlan plan;
  std::vector<NodeMemory> memory;
  step = PlaceStep(&arena, batch, training, &plan, &memory);
  step_bytes = bytes;
  step_batch = batch;
  step_training = training;
  Bind(plan, memory);
  return Status();
}

// Writes the places into the nodes.
void Model::Impl::Bind(const LifetimePlan& plan,
                       const std::vector<NodeMemory>& memory) {
  const auto at = [&](int buffer) {
    return buffer < 0 ? nullptr
                      : reinterpret_cast<float*>(step.planned +
                                                 plan.offset(buffer));
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    const NodeMemory& root = memory[node.root];
    node.y = at(root.y);
    node.dy = at(root.dy);
    node.forward_scratch = at(memory[i].forward_scratch);
    node.backward_scratch = at(memory[i].backward_scratch);
    node.x.assign(node.inputs.size(), nullptr);
    node.dx.assign(node.inputs.size(), nullptr);
    node.extra_dx.assign(node.inputs.size(), nullptr);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      node.x[k] = nodes[node.inputs[k]].y;
      if (!step_training) continue;
      node.extra_dx[k] = at(memory[i].extra_dx[k]);
      node.dx[k] = node.extra_dx[k] != nullptr ? node.extra_dx[k]
                                               : nodes[node.inputs[k]].dy;
    }
  }
}

// --- the step -------------------------------------------------------------

void Model::Impl::Observe(const char* what, const char* phase,
                          int64_t begin) const {
  if (observer != nullptr) observer->Piece(what, phase, begin, Now());
}

OpCall Model::Impl::CallOf(int i) {
  Node& node = nodes[i];
  OpCall call;
  call.batch = count;
  call.x = node.x.data();
  call.y = node.y;
  call.weights = node.weights.data();
  call.scratch = node.forward_scratch;
  call.without_activation = without_activation && &node == &output_node();
  call.seed = options.seed + node.layer.seed * 0x9E3779B97F4A7C15u + i;
  call.counter =
      static_cast<uint64_t>(iterations) *
          static_cast<uint64_t>(collective()->size()) +
      static_cast<uint64_t>(collective()->rank());
  call.pool = pool.get();
  call.dy = node.dy;
  call.dx = node.dx.data();
  call.d_weights = node.d_weights.data();
  if (node.num_variables > 0) {
    call.weight_offset = variables[node.first_variable].offset;
  }
  call.sink = this;
  return call;
}

Status Model::Impl::Forward(const float* x, int64_t examples, bool training,
                            bool for_loss) {
  RINGLET_RETURN_IF_ERROR(Usable());
  if (examples < 0) {
    return InvalidArgument("a batch of %" PRId64 " examples", examples);
  }
  RINGLET_RETURN_IF_ERROR(Reserve(std::max<int64_t>(examples, 1), training));
  const FlushDenormals flush;
  count = examples;
  forward_trains = training;
  without_activation = for_loss && loss_takes_logits;
  have_gradient_of_loss = have_gradients = false;
  // The input and views of it are the caller's bytes; nothing writes to them.
  for (Node& node : nodes) {
    if (node.root == 0) node.y = const_cast<float*>(x);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      node.x[k] = nodes[node.inputs[k]].y;
    }
  }
  for (size_t i = 1; i < nodes.size() && count > 0; ++i) {
    const int64_t begin = Now();
    OpCall call = CallOf(static_cast<int>(i));
    call.training = training;
    nodes[i].op->Forward(call);
    Observe(nodes[i].layer.name.c_str(), "forward", begin);
  }
  return Status();
}

Status Model::Forward(const float* x, int64_t count, bool training) {
  return impl_->Forward(x, count, training, training);
}

const float* Model::output() const { return impl_->nodes.back().y; }

double Model::Impl::Penalty() const {
  double penalty = 0;
  for (const Variable& v : variables) {
    if (v.regularizer.l1 == 0 && v.regularizer.l2 == 0) continue;
    penalty += RegularizationPenalty(v.regularizer, v.size(),
                                     kept.weights + v.offset);
  }
  return penalty;
}

// The sum of the examples' losses; with a gradient, also that of
// sum / global_count.
Status Model::Impl::ComputeLoss(const Batch& batch, bool with_gradient,
                                double* loss_sum) {
  if (batch.count != count || batch.global_count < 1) {
    return InvalidArgument("loss of %" PRId64 " examples of %" PRId64
                           " after a forward pass of %" PRId64,
                           batch.count, batch.global_count, count);
  }
  const int64_t begin = Now();
  Node& last = output_node();
  float* gradient =
      with_gradient && last.needs_gradient ? last.dy : nullptr;
  *loss_sum = 0;
  if (count > 0) {
    ringlet::ComputeLoss(without_activation ? step_loss : loss, last.output,
                         count, last.y, batch.y,
                         1.0f / static_cast<float>(batch.global_count),
                         step.per_example, gradient);
    for (int64_t i = 0; i < count; ++i) *loss_sum += step.per_example[i];
    if (without_activation) {
      const int64_t width = last.output.back();
      BiasActivation(last.op->fused_activation(), nullptr,
                     count * last.output.elements() / width, width, last.y);
    }
  }
  have_gradient_of_loss = with_gradient;
  Observe("loss", "forward", begin);
  return Status();
}

Status Model::ComputeLoss(const Batch& batch, double* loss) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  if (m.have_gradient_of_loss) {
    return InvalidArgument("ComputeLoss needs a Forward before it");
  }
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, m.forward_trains, loss));
  *loss = *loss / static_cast<double>(batch.global_count) +
          m.Penalty() / m.collective()->size();
  return Status();
}

void Model::Impl::BackwardNode(int i) {
  Node& node = nodes[i];
  if (node.op == nullptr || node.op->is_view() || !node.needs_gradient) return;
  const int64_t begin = Now();
  OpCall call = CallOf(i);
  call.training = true;
  call.scratch = node.backward_scratch;
  if (node.replaced_by >= 0) call.without_activation = true;
  const Node& input = nodes[nodes[node.inputs[0]].root];
  if (input.replaced_by == i) call.x_activation = input.op->fused_activation();
  node.op->Backward(call);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.extra_dx[k] == nullptr) continue;
    const Node& to = nodes[node.inputs[k]];
    AddTo(node.extra_dx[k], count * to.output.elements(), to.dy);
  }
  Observe(node.layer.name.c_str(), "backward", begin);
}

Status Model::Impl::Backward(bool update) {
  if (!have_gradient_of_loss) {
    return InvalidArgument(
        "Backward needs Forward(training) and ComputeLoss before it");
  }
  const FlushDenormals flush;
  have_gradient_of_loss = false;
  apply_when_ready = update;
  ready = started = num_weights;
  tickets.clear();
  collective_status = Status();
  if (count == 0) {
    std::fill_n(kept.gradients, num_weights, 0.0f);
    Ready(0);
  } else {
    for (int i = static_cast<int>(nodes.size()) - 1; i > 0; --i) {
      BackwardNode(i);
    }
  }
  RINGLET_CHECK(ready == 0 || num_weights == 0);
  have_gradients = true;
  return collective_status;
}

Status Model::Backward() { return impl_->Backward(/*update=*/false); }

void Model::Impl::Ready(int64_t begin) {
  const int64_t end = ready;
  ready = begin;
  if (apply_when_ready) return Update(begin, end);
  if (collective()->size() > 1) StartBuckets();
}

// Buckets are cut at fixed places, so that all ranks start the same ones
// whatever their layers report.
void Model::Impl::StartBuckets() {
  const int64_t bucket =
      static_cast<int64_t>(collective()->bucket_bytes() / sizeof(float));
  while (collective_status.ok() && started > 0) {
    const int64_t begin = std::max<int64_t>(0, started - bucket);
    if (begin < ready) return;
    Collective::Ticket ticket = 0;
    collective_status = collective()->StartAllReduce(
        kept.gradients + begin, static_cast<size_t>(started - begin), &ticket);
    if (!collective_status.ok()) return;
    tickets.push_back(ticket);
    started = begin;
  }
}

// All of them, before any weight changes: a step happens for all or for none.
Status Model::Impl::FinishReduction() {
  if (tickets.empty()) return collective_status;
  const int64_t begin = Now();
  Status first = collective_status;
  for (Collective::Ticket ticket : tickets) {
    const Status s = collective()->Wait(ticket);
    if (first.ok()) first = s;
  }
  tickets.clear();
  Observe("all-reduce", "step", begin);
  return first;
}

// The optimizer over weights [begin, end), variable by variable.
void Model::Impl::Update(int64_t begin, int64_t end) {
  if (begin >= end) return;
  const int64_t started_at = Now();
  pool->Run([&](int t) {
    const Range part = Split(end - begin, pool->threads(), t, 1024);
    for (const Variable& v : variables) {
      const int64_t from = std::max(begin + part.begin, v.offset);
      const int64_t to = std::min(begin + part.end, v.offset + v.size());
      if (from >= to) continue;
      float* slots[8] = {};
      for (int s = 0; s < optimizer.num_slots(); ++s) {
        slots[s] = kept.slots[s] + from;
      }
      // Clip has added the regularizers' part already.
      UpdateRange(optimizer, scalars,
                  optimizer.clips() ? Regularizer() : v.regularizer, to - from,
                  kept.weights + from, kept.gradients + from, slots);
    }
  });
  Observe("optimizer", "step", started_at);
}

void Model::Impl::Clip() {
  // Keras clips the gradient of the whole loss, penalties included.
  clip_spans.clear();
  for (const Variable& v : variables) {
    float* gradient = kept.gradients + v.offset;
    AddRegularizationGradient(v.regularizer, v.size(),
                              kept.weights + v.offset, gradient);
    clip_spans.push_back({gradient, v.size()});
  }
  ClipGradients(optimizer, clip_spans.data(), clip_spans.size());
}

Status Model::ApplyGradients() {
  Impl& m = *impl_;
  if (!m.have_gradients) {
    return InvalidArgument("ApplyGradients needs Backward before it");
  }
  const FlushDenormals flush;
  m.have_gradients = false;
  RINGLET_RETURN_IF_ERROR(m.FinishReduction());
  if (!m.apply_when_ready) {
    m.scalars = PrepareStep(m.optimizer, LearningRate(), m.iterations);
    if (m.optimizer.clips()) m.Clip();
    m.Update(0, m.num_weights);
  }
  ++m.iterations;
  return Status();
}

void Model::Impl::UpdateMetrics(const Batch& batch, double loss_sum) {
  const double examples = static_cast<double>(count);
  metric_states[0].total += loss_sum + Penalty() * examples;
  metric_states[0].count += examples;
  for (size_t i = 0; i < metrics.size(); ++i) {
    UpdateMetric(metrics[i], output_node().output, count, output_node().y,
                 batch.y, &metric_states[i + 1]);
  }
}

Status Model::TrainStep(const Batch& batch) {
  Impl& m = *impl_;
  double loss_sum = 0;
  m.collective()->SetStep(static_cast<uint64_t>(m.iterations) + 1);
  RINGLET_RETURN_IF_ERROR(m.Forward(batch.x, batch.count, true, true));
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, true, &loss_sum));
  m.UpdateMetrics(batch, loss_sum);
  // Alone and without a look at the whole gradient, each range of weights is
  // updated while it is in cache.
  const bool at_once = m.collective()->size() == 1 && !m.optimizer.clips();
  if (at_once) {
    m.scalars = PrepareStep(m.optimizer, LearningRate(), m.iterations);
  }
  RINGLET_RETURN_IF_ERROR(m.Backward(at_once));
  return ApplyGradients();
}

Status Model::TestStep(const Batch& batch) {
  Impl& m = *impl_;
  double loss_sum = 0;
  RINGLET_RETURN_IF_ERROR(m.Forward(batch.x, batch.count, false, true));
  RINGLET_RETURN_IF_ERROR(m.ComputeLoss(batch, false, &loss_sum));
  m.UpdateMetrics(batch, loss_sum);
  return Status();
}

Status Model::OpenLoader(const Dataset& dataset,
                         const LoaderOptions& loader_options,
                         std::unique_ptr<BatchLoader>* loader) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  RINGLET_RETURN_IF_ERROR(dataset.status());
  BatchLoader::Options options;
  options.dataset = dataset;
  options.start = loader_options.start;
  options.rank = m.collective()->rank();
  options.world = m.collective()->size();
  RINGLET_RETURN_IF_ERROR(m.Reserve(dataset.LargestPart(options.world),
                                    loader_options.training));
  if (!m.lease.expired()) {
    return InvalidArgument("model '%s': close the other loader first",
                           m.name.c_str());
  }
  options.lease = std::make_shared<int>(0);
  m.lease = options.lease;
  for (int slot = 0; slot < 2; ++slot) {
    options.x[slot] = m.step.x[slot];
    options.y[slot] = m.step.y[slot];
  }
  const Shape& output = m.output_node().output;
  options.x_shape = m.nodes[0].output;
  options.targets = m.loss.targets(output);
  options.classes = m.loss.takes_classes();
  options.num_classes = options.classes ? output.back() : 0;
  options.read_targets = loader_options.targets;
  options.background = loader_options.background;
  return BatchLoader::Open(options, loader);
}

// --- saveable views -------------------------------------------------------

void Model::Impl::WeightsState::AppendState(std::vector<StateSpan>* spans) {
  for (const Variable& v : impl->variables) {
    spans->push_back({"model/" + v.path, DType::kFloat32, v.shape,
                      impl->kept.weights + v.offset});
  }
}

void Model::Impl::OptimizerState::AppendState(std::vector<StateSpan>* spans) {
  for (int s = 0; s < impl->optimizer.num_slots(); ++s) {
    for (const Variable& v : impl->variables) {
      spans->push_back({std::string("optimizer/") +
                            impl->optimizer.slot_name(s) + "/" + v.path,
                        DType::kFloat32, v.shape,
                        impl->kept.slots[s] + v.offset});
    }
  }
  spans->push_back(
      {"optimizer/iterations", DType::kInt64, {}, &impl->iterations});
  spans->push_back(
      {"optimizer/learning_rate", DType::kFloat32, {}, &impl->learning_rate});
}

Status Model::Impl::OptimizerState::StateLoaded() {
  if (impl->iterations < 0) {
    return Corruption("optimizer/iterations is %" PRId64, impl->iterations);
  }
  return Status();
}

// --- the public face ------------------------------------------------------

Model::Model(const char* class_name, const char* name) : impl_(new Impl) {
  impl_->class_name = class_name;
  impl_->name = name;
}
void Model::Deleter::operator()(Impl* impl) const { delete impl; }

const Status& Model::status() const { return impl_->status; }
const std::string& Model::name() const { return impl_->name; }
const char* Model::class_name() const { return impl_->class_name.c_str(); }
void Model::set_name(const std::string& name) { impl_->name = name; }

Shape Model::input_shape() const {
  return impl_->nodes.empty() ? Shape() : impl_->nodes[0].output;
}
Shape Model::output_shape() const {
  return impl_->nodes.empty() ? Shape() : impl_->nodes.back().output;
}

void Model::Compile(const Optimizer& optimizer, const Loss& loss,
                    const std::vector<Metric>& metrics,
                    const CompileOptions& options) {
  Impl& m = *impl_;
  // The memory of the old and of the new options may be one: keep the weights.
  m.optimizer = optimizer;
  m.loss = loss;
  m.options = options;
  m.Compile();
  if (m.status.ok()) m.ResolveMetrics(metrics);
  if (m.status.ok()) m.Fail(m.JoinReplicas());
}

bool Model::compiled() const { return impl_->compiled; }

Status Model::SetInitialWeights(std::vector<float> weights) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.status);
  if (m.compiled) {
    return InvalidArgument(
        "model '%s' was compiled and has its weights; initial ones are set "
        "before",
        m.name.c_str());
  }
  if (static_cast<int64_t>(weights.size()) != m.num_weights) {
    return InvalidArgument("model '%s' has %" PRId64 " weights, not %zu",
                           m.name.c_str(), m.num_weights, weights.size());
  }
  m.initial_weights = std::move(weights);
  return Status();
}

MemoryPlan Model::PlanMemory(int64_t batch) const {
  MemoryPlan sizes;
  if (!impl_->compiled || batch < 1) return sizes;
  sizes.weights = sizes.gradients =
      Arena::RoundUp(static_cast<size_t>(num_weights()) * sizeof(float));
  sizes.slots = sizes.weights * static_cast<size_t>(optimizer().num_slots());
  RINGLET_CHECK(sizes.kept() == impl_->kept_bytes);

  LifetimePlan plan;
  std::vector<NodeMemory> memory;
  Arena counting;
  impl_->PlaceStep(&counting, batch, true, &plan, &memory);
  const auto bytes = [&plan](int buffer) {
    return buffer < 0 ? 0 : plan.bytes(buffer);
  };
  size_t losses = Arena::RoundUp(static_cast<size_t>(batch) * sizeof(float));
  for (const NodeMemory& m : memory) {
    sizes.activations += bytes(m.y);
    if (m.dy != m.y) sizes.activation_gradients += bytes(m.dy);
    for (const int dx : m.extra_dx) sizes.activation_gradients += bytes(dx);
    sizes.scratch += bytes(m.forward_scratch) + bytes(m.backward_scratch);
  }
  const size_t planned =
      sizes.activations + sizes.activation_gradients + sizes.scratch;
  const size_t placed = plan.Place();
  sizes.batches = counting.used() - losses - Arena::RoundUp(placed);
  sizes.scratch += losses;
  sizes.shared = planned - placed;
  return sizes;
}

Status Model::Reserve(int64_t batch, bool training) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  if (batch < 1) return InvalidArgument("a batch of %" PRId64, batch);
  return impl_->Reserve(batch, training);
}

size_t Model::BytesUsed() const {
  return impl_->kept_bytes + (impl_->step_batch > 0 ? impl_->step_bytes : 0);
}

void Model::ResetMetrics() {
  for (MetricState& state : impl_->metric_states) state = MetricState();
}
int Model::num_metrics() const {
  return static_cast<int>(impl_->metric_names.size());
}
const std::string& Model::metric_name(int i) const {
  return impl_->metric_names[i];
}
bool Model::metric_decreases(int i) const {
  return i == 0 || impl_->metrics[i - 1].decreases();
}
MetricState* Model::metric_states() { return impl_->metric_states.data(); }
double Model::metric_value(int i) const {
  return impl_->metric_states[i].Result();
}

Status Model::ReduceMetrics(MetricState* totals) {
  Impl& m = *impl_;
  const size_t n = m.metric_states.size();
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  std::copy(m.metric_states.begin(), m.metric_states.end(), totals);
  return SumOverRanks(m.collective(), &totals[0].total, 2 * n);
}

Status Model::RejoinReplicas() {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  RINGLET_RETURN_IF_ERROR(collective()->Reform());
  return impl_->JoinReplicas();
}

Status Model::CheckReplicas() {
  Impl& m = *impl_;
  if (m.collective()->size() == 1) return Status();
  const std::string what = "model '" + m.name + "' after " +
                           std::to_string(m.iterations) + " steps";
  const uint32_t digest =
      Crc32c(m.kept.weights, m.num_weights * sizeof(float));
  return Agree(m.collective(), what.c_str(), {{"weights", digest, true}});
}

const std::vector<Variable>& Model::variables() const {
  return impl_->variables;
}
int64_t Model::num_weights() const { return impl_->num_weights; }
float* Model::weights() { return impl_->kept.weights; }
const float* Model::gradients() const { return impl_->kept.gradients; }

int64_t Model::MultiplyAdds() const {
  int64_t sum = 0;
  for (const Node& node : impl_->nodes) {
    if (node.op != nullptr) sum += node.op->multiply_adds();
  }
  return sum;
}

const Optimizer& Model::optimizer() const { return impl_->optimizer; }
const Loss& Model::loss() const { return impl_->loss; }
const std::vector<Metric>& Model::metrics() const { return impl_->metrics; }
int64_t Model::iterations() const { return impl_->iterations; }
float Model::LearningRate() const {
  return impl_->learning_rate >= 0
             ? impl_->learning_rate
             : impl_->optimizer.learning_rate.At(impl_->iterations);
}
void Model::SetLearningRate(float learning_rate) {
  impl_->learning_rate = learning_rate;
}
Collective* Model::collective() const { return impl_->collective(); }
int Model::threads() const { return impl_->options.threads; }
uint64_t Model::seed() const { return impl_->options.seed; }
Saveable* Model::weights_state() { return &impl_->weights_state; }
Saveable* Model::optimizer_state() { return &impl_->optimizer_state; }
void Model::set_observer(StepObserver* observer) {
  impl_->observer = observer;
}

namespace {

std::string WithCommas(int64_t n) {
  std::string digits = std::to_string(n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(i, ",");
  }
  return digits;
}

// Keras's readable size: "10.58 MB".
std::string ReadableSize(int64_t bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s", value, units[unit]);
  return text;
}

// `text` cut or filled to `width` columns, on the left or the right.
std::string Cell(const std::string& text, size_t width, bool right) {
  if (text.size() > width) return text.substr(0, width - 1) + "…";
  const std::string fill(width - text.size(), ' ');
  return right ? fill + text : text + fill;
}

std::string Line(const char* left, const char* dash, const char* middle,
                 const char* right) {
  std::string line = left;
  const int widths[] = {33, 24, 15};
  for (int column = 0; column < 3; ++column) {
    for (int i = 0; i < widths[column]; ++i) line += dash;
    line += column < 2 ? middle : right;
  }
  return line + "\n";
}

std::string Row(const char* bar, const std::string& a, const std::string& b,
                const std::string& c) {
  return std::string(bar) + " " + Cell(a, 31, false) + " " + bar + " " +
         Cell(b, 22, false) + " " + bar + " " + Cell(c, 13, true) + " " + bar +
         "\n";
}

// "(None, 26, 26, 32)"
std::string WithBatch(const Shape& shape) {
  std::string s = "(None";
  for (int i = 0; i < shape.rank(); ++i) s += ", " + std::to_string(shape[i]);
  return s + ")";
}

}  // namespace

std::string Model::Summary() const {
  const Impl& m = *impl_;
  std::string s = "Model: \"" + m.name + "\"\n";
  s += Line("┏", "━", "┳", "┓");
  s += Row("┃", "Layer (type)", "Output Shape", "Param #");
  s += Line("┡", "━", "╇", "┩");
  bool first = true;
  for (const Node& node : m.nodes) {
    // As Keras: the table of a Sequential begins after its Input.
    if (node.op == nullptr && m.class_name == "Sequential") continue;
    if (!first) s += Line("├", "─", "┼", "┤");
    first = false;
    int64_t parameters = 0;
    for (int v = 0; v < node.num_variables; ++v) {
      parameters += m.variables[node.first_variable + v].size();
    }
    s += Row("│",
             node.layer.name + " (" + ClassName(node.layer.kind) + ")",
             WithBatch(node.output), WithCommas(parameters));
  }
  s += Line("└", "─", "┴", "┘");
  const std::string total =
      WithCommas(m.num_weights) + " (" +
      ReadableSize(m.num_weights * int64_t{sizeof(float)}) + ")\n";
  return s + " Total params: " + total + " Trainable params: " + total +
         " Non-trainable params: 0 (0.00 B)\n";
}

int Model::AddNode(const Layer& layer, const std::vector<int>& inputs) {
  return impl_->AddNode(layer, inputs);
}
int Model::num_nodes() const { return static_cast<int>(impl_->nodes.size()); }
const Layer& Model::layer(int node) const { return impl_->nodes[node].layer; }
const std::vector<int>& Model::inputs(int node) const {
  return impl_->nodes[node].inputs;
}
const Shape& Model::output_shape(int node) const {
  return impl_->nodes[node].output;
}

void Sequential::Add(const Layer& layer) {
  const int n = num_nodes();
  AddNode(layer, n == 0 ? std::vector<int>() : std::vector<int>{n - 1});
}

}  // namespace ringlet
