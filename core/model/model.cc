#include "model.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "../base/message.h"
#include "model_impl.h"

namespace ringlet {
// --- building -------------------------------------------------------------

std::string Model::Impl::UniqueName(const Layer& layer) {
  if (!layer.name.empty()) return layer.name;
  const std::string base = SnakeCase(ClassName(layer));
  if (names.count(base) == 0) return base;
  for (int& i = numbers[base];;) {
    const std::string numbered = base + "_" + std::to_string(++i);
    if (names.count(numbered) == 0) return numbered;
  }
}

Status Model::Impl::CheckNewNode(const Layer& layer,
                                 const std::vector<int>& inputs) const {
  const int number = static_cast<int>(nodes.size());
  if (compiled) {
    return InvalidArgument(
        "the model was compiled already; add all layers "
        "before Compile");
  }
  if (names.count(layer.name) != 0) {
    return InvalidArgument(
        "two layers have this name; give one another with "
        "Name()");
  }
  if (layer.kind != Layer::Kind::kInput) {
    if (number == 0) {
      return InvalidArgument("the first layer must be an Input");
    }
    for (int input : inputs) {
      if (input >= 0 && input < number) continue;
      return InvalidArgument("input %d is not an earlier layer", input);
    }
    return Status();
  }
  if (number != 0 || !inputs.empty()) {
    return InvalidArgument("a model has one Input, its first layer");
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  int64_t elements = 1;
  for (int i = 0; i < layer.shape.rank(); ++i) {
    if (layer.shape[i] < 1 || elements > kMost / layer.shape[i]) {
      return InvalidArgument("%s is not the shape of an input",
                             layer.shape.ToString().c_str());
    }
    elements *= layer.shape[i];
  }
  return Status();
}

// Makes the op of a node whose inputs are known, and its variables.
Status Model::Impl::MakeOp(Node* node) {
  std::vector<Shape> shapes;
  for (int input : node->inputs) {
    shapes.push_back(nodes[input].output);
    node->needs_gradient |= nodes[input].needs_gradient;
  }
  RINGLET_RETURN_IF_ERROR(Op::Make(node->layer, shapes, &node->op));
  node->output = node->op->output();
  may_fail |= node->op->may_fail();
  if (node->op->is_view()) node->root = nodes[node->inputs[0]].root;
  for (const WeightSpec& weight : node->op->weights()) {
    Variable variable;
    variable.path = node->layer.name + "/" + weight.name;
    variable.shape = weight.shape;
    variable.offset = num_weights;
    variable.regularizer = weight.regularizer;
    num_weights += variable.size();
    variables.push_back(variable);
    node->needs_gradient = true;
    ++node->num_variables;
  }
  return Status();
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
  node.output = layer.shape;  // an Input's
  const char* layer_name = node.layer.name.c_str();
  const Status may = CheckNewNode(node.layer, inputs);
  if (!may.ok()) {
    Fail(may.Annotate("layer '%s'", layer_name));
    return number;
  }
  if (layer.kind != Layer::Kind::kInput) {
    const Status made = MakeOp(&node);
    if (!made.ok()) {
      Fail(made.Annotate("layer '%s' (%s)", layer_name, ClassName(layer)));
      return number;
    }
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
  step_states = step_metrics = metric_states;
  rank_states.assign(metric_names.size() * collective()->size(), MetricState());
}

// Every layer's output is taken, and the loss fits the last one's.
void Model::Impl::CheckGraph() {
  if (nodes.size() < 2) {
    return Fail(InvalidArgument(
        "model '%s': needs an Input and at least one layer", name.c_str()));
  }
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const bool used =
        std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
          return std::count(node.inputs.begin(), node.inputs.end(),
                            static_cast<int>(i)) > 0;
        });
    if (!used) {
      return Fail(InvalidArgument(
          "layer '%s': nothing takes its output, and it is not the last layer",
          nodes[i].layer.name.c_str()));
    }
  }
  Fail(CheckLossShape(loss, output_node().output));
}

// As Keras does over TensorFlow: where the output is a softmax or a sigmoid,
// the loss takes its input, which is exact for any value; so it does where it
// was told to take logits, which such an output is not, and it warns.
void Model::Impl::ChooseStepLoss() {
  const Op* last = output_node().op.get();
  const Activation activation =
      last != nullptr ? last->fused_activation() : kLinear;
  step_loss = output_loss = loss;
  loss_takes_logits =
      loss.logits_activation() == activation && activation != kLinear;
  if (!loss_takes_logits) return;
  step_loss.from_logits = true;
  output_loss.from_logits = false;
  static std::atomic<bool> warned{false};
  if (!loss.from_logits || warned.exchange(true)) return;
  Notice(
      "warning: `%s` received `from_logits=True`, but the output of "
      "model '%s' was produced by the %s activation of layer '%s' and "
      "thus does not represent logits. Was this intended? The loss "
      "takes that activation's input",
      loss.name().c_str(), name.c_str(),
      activation == kSoftmax ? "softmax" : "sigmoid",
      output_node().layer.name.c_str());
}

void Model::Impl::MakePool() {
  if (pool == nullptr || pool->threads() != options.threads) {
    pool.reset(new ThreadPool(options.threads));
  }
  if (pool->status().ok()) return;
  const Status refused = pool->status();
  pool.reset();
  Fail(refused.Annotate("model '%s': %d threads", name.c_str(),
                        options.threads));
}

// The weights that the variables' initializers give for this seed.
void Model::Impl::DrawWeights(float* weights) const {
  for (const Node& node : nodes) {
    for (int v = 0; v < node.num_variables; ++v) {
      const WeightSpec& spec = node.op->weights()[v];
      const int variable = node.first_variable + v;
      Initialize(spec.initializer, spec.shape, options.seed, variable,
                 weights + variables[variable].offset);
    }
  }
}

// Weights, gradients (unwritten: a process alone may never touch them, see
// Take) and slots of zero, in memory for this optimizer.
// The weights are those of the last Compile, those set before the first, or
// drawn.
void Model::Impl::PlaceWeights() {
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
  ReleaseStep();
  ReleaseKept();
  Arena arena(options.memory != nullptr ? options.memory : block.get(), bytes);
  const KeptMemory placed = PlaceKept(&arena);
  if (compiled) {
    // The memory of the old and of the new options may be one.
    std::memmove(placed.weights, kept.weights, num_weights * sizeof(float));
  } else if (!initial_weights.empty()) {
    std::copy(initial_weights.begin(), initial_weights.end(), placed.weights);
    initial_weights = {};
  } else {
    DrawWeights(placed.weights);
  }
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    std::fill_n(placed.slots[s], num_weights, 0.0f);
  }
  kept = placed;
  kept_bytes = bytes;
  kept_block = std::move(block);
}

void Model::Impl::Compile() {
  Fail(options.status);
  if (options.threads < 1 || options.threads > 1024) {
    Fail(
        InvalidArgument("threads must be in 1..1024, not %d", options.threads));
  }
  if (!initial_weights.empty() &&
      static_cast<int64_t>(initial_weights.size()) != num_weights) {
    Fail(InvalidArgument(
        "model '%s': layers were added after its initial weights were set",
        name.c_str()));
  }
  if (status.ok()) CheckGraph();
  Fail(optimizer.Check());
  if (status.ok()) MakePool();
  if (status.ok()) PlaceWeights();
  if (!status.ok()) return;
  ChooseStepLoss();
  step_training = false;
  iterations = 0;
  learning_rate = -1;
  const size_t bucket = collective()->bucket_bytes() / sizeof(float);
  tickets.clear();
  tickets.reserve(num_weights / bucket + 2);
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    node.replaced_by = ReplacedBy(static_cast<int>(i));
    node.weights.clear();
    node.d_weights.clear();
    for (int v = 0; v < node.num_variables; ++v) {
      const int64_t offset = variables[node.first_variable + v].offset;
      node.weights.push_back(kept.weights + offset);
      node.d_weights.push_back(kept.gradients + offset);
    }
  }
  compiled = true;
}

// --- saveable views -------------------------------------------------------

void Model::Impl::WeightsState::AppendState(std::vector<StateSpan>* spans) {
  for (const Variable& v : impl->variables) {
    spans->push_back({kWeightsPrefix + v.path, DType::kFloat32, v.shape,
                      impl->kept.weights + v.offset});
  }
}

void Model::Impl::OptimizerState::AppendState(std::vector<StateSpan>* spans) {
  for (int s = 0; s < impl->optimizer.num_slots(); ++s) {
    for (const Variable& v : impl->variables) {
      spans->push_back({std::string(kOptimizerPrefix) +
                            impl->optimizer.slot_name(s) + "/" + v.path,
                        DType::kFloat32, v.shape,
                        impl->kept.slots[s] + v.offset});
    }
  }
  spans->push_back(
      {"optimizer/iterations", DType::kInt64, {}, &impl->iterations});
  spans->push_back(
      {kLearningRateName, DType::kFloat32, {}, &impl->learning_rate});
  if (!impl->optimizer.accumulates()) return;
  impl->saved_accumulation = impl->optimizer.gradient_accumulation_steps;
  spans->push_back({"optimizer/gradient_accumulation_steps",
                    DType::kInt64,
                    {},
                    &impl->saved_accumulation});
}

Status Model::Impl::OptimizerState::StateLoaded() {
  if (impl->iterations < 0) {
    return Corruption("optimizer/iterations is %" PRId64, impl->iterations);
  }
  // The sums under way, and what iterations stands for, go with the number.
  const int steps = impl->optimizer.gradient_accumulation_steps;
  if (impl->optimizer.accumulates() && impl->saved_accumulation != steps) {
    return InvalidArgument(
        "the optimizer's state was saved with gradient_accumulation_steps "
        "%" PRId64 ", here it is %d; go on with the number it was saved with",
        impl->saved_accumulation, steps);
  }
  return Status();
}

// --- the public face ------------------------------------------------------

Model::Model(const char* class_name, const char* name) : impl_(new Impl) {
  impl_->class_name = class_name;
  impl_->name = name;
}
void Model::Deleter::operator()(Impl* impl) const { delete impl; }

Model::Model(Model&& other) noexcept
    : Model(other.class_name(), other.name().c_str()) {
  Fail(InvalidArgument("model '%s' was moved from; assign another to it",
                       other.name().c_str()));
  impl_.swap(other.impl_);
  impl_->fitting = false;
}

Model& Model::operator=(Model&& other) noexcept {
  if (this == &other) return *this;
  Model taken(std::move(other));
  impl_.swap(taken.impl_);
  return *this;
}

const Status& Model::status() const {
  return impl_->status.ok() ? impl_->refused : impl_->status;
}
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
  m.refused = m.CheckNotLent("Compile");
  if (m.refused.ok() && m.fitting) {
    m.refused = InvalidArgument(
        "model '%s': Compile while Fit runs; compile it before or after",
        m.name.c_str());
  }
  if (!m.refused.ok()) return;
  m.DropGradients();  // while the collective that sums them is known
  m.optimizer = optimizer;
  m.loss = loss;
  m.options = options;
  m.Compile();
  if (m.status.ok()) m.ResolveMetrics(metrics);
  if (m.status.ok()) {
    m.Fail(m.JoinReplicas(/*lived=*/false));
  } else {  // or they would wait for this rank's fingerprint
    m.collective()->Abort(m.status);
  }
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

const MetricState* Model::step_metrics() const {
  return impl_->step_metrics.data();
}

Status Model::ReduceMetrics(MetricState* totals) {
  Impl& m = *impl_;
  const size_t n = m.metric_states.size();
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  std::copy(m.metric_states.begin(), m.metric_states.end(), totals);
  return SumOverRanks(m.collective(), &totals[0].total, 2 * n);
}

const std::vector<Variable>& Model::variables() const {
  return impl_->variables;
}
int64_t Model::num_weights() const { return impl_->num_weights; }
float* Model::weights() { return impl_->kept.weights; }
const float* Model::gradients() const {
  (void)impl_->FinishReduction();  // ApplyGradients reports it
  return impl_->kept.gradients;
}

int64_t Model::MultiplyAdds() const {
  int64_t sum = 0;
  for (const Impl::Node& node : impl_->nodes) {
    if (node.op != nullptr) sum += node.op->multiply_adds();
  }
  return sum;
}

const Optimizer& Model::optimizer() const { return impl_->optimizer; }
const Loss& Model::loss() const { return impl_->loss; }
const std::vector<Metric>& Model::metrics() const { return impl_->metrics; }
int64_t Model::iterations() const { return impl_->iterations; }
float Model::LearningRate() const { return impl_->LearningRate(); }
void Model::SetLearningRate(float learning_rate) {
  impl_->learning_rate = learning_rate;
}
Collective* Model::collective() const { return impl_->collective(); }
int Model::threads() const { return impl_->options.threads; }
uint64_t Model::seed() const { return impl_->options.seed; }
Saveable* Model::weights_state() { return &impl_->weights_state; }
Saveable* Model::optimizer_state() { return &impl_->optimizer_state; }
void Model::set_observer(StepObserver* observer) { impl_->observer = observer; }
StepObserver* Model::observer() const { return impl_->observer; }

void Model::Fail(const Status& status) { impl_->Fail(status); }
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
