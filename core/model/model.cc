// The public interface of a model. Each call forwards to a part.

#include "ringlet/model.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "../base/text.h"
#include "../compute/digest.h"
#include "../data/dataset_loader.h"
#include "../data/dataset_parts.h"
#include "../layers/layer_kind.h"
#include "../objective/batch_loss.h"
#include "../objective/metric_states.h"
#include "model_impl.h"

namespace ringlet {

Model::Model(const char* class_name, const char* name)
    : impl_(new Impl(class_name, name)) {}
void Model::Deleter::operator()(Impl* impl) const { delete impl; }

Model::Model(Model&& other) noexcept
    : Model(other.class_name(), other.name().c_str()) {
  Fail(InvalidArgument("model '%s' was moved from; assign another to it",
                       other.name().c_str()));
  impl_.swap(other.impl_);
  impl_->record.running = false;
}

Model& Model::operator=(Model&& other) noexcept {
  if (this == &other) return *this;
  Model source(std::move(other));
  impl_.swap(source.impl_);
  return *this;
}

void Model::Fail(const Status& status) { impl_->Fail(status); }
const Status& Model::status() const {
  return impl_->status.ok() ? impl_->compile_error : impl_->status;
}
bool Model::compiled() const { return impl_->compiled; }

// --- the graph ------------------------------------------------------------

const std::string& Model::name() const { return impl_->graph.name(); }
const char* Model::class_name() const {
  return impl_->graph.class_name().c_str();
}
void Model::set_name(const std::string& name) { impl_->graph.set_name(name); }

int Model::AddNode(const Layer& layer, const std::vector<int>& inputs) {
  if (impl_->status.ok()) Fail(impl_->graph.Add(layer, inputs));
  return std::max(num_nodes() - 1, 0);
}

int Model::AddCall(int earlier_node, const std::vector<int>& inputs) {
  if (impl_->status.ok()) Fail(impl_->graph.AddCall(earlier_node, inputs));
  return std::max(num_nodes() - 1, 0);
}

void Model::SetOutputs(const std::vector<int>& nodes) {
  if (impl_->status.ok()) Fail(impl_->graph.SetOutputs(nodes));
}

Layer Model::AsLayer(bool with_weights) const {
  Layer layer;
  layer.kind = Layer::Kind::kModel;
  // A default name stays empty: it gets a number, as in Keras.
  if (name() != SnakeCase(class_name())) layer.name = name();
  NestedModel nested;
  nested.status = impl_->status;
  nested.class_name = class_name();
  if (nested.status.ok()) nested = impl_->graph.AsNested();
  if (nested.status.ok() && with_weights) {
    nested.status = impl_->CopyWeights(&nested.weights);
  }
  layer.model = std::make_shared<const NestedModel>(std::move(nested));
  return layer;
}

void Sequential::Add(const Layer& layer) {
  const int n = num_nodes();
  AddNode(layer, n == 0 ? std::vector<int>() : std::vector<int>{n - 1});
}

int Model::num_nodes() const { return impl_->graph.size(); }
const Layer& Model::layer(int node) const {
  return impl_->graph.node(node).layer;
}
int Model::first_call(int node) const {
  const Graph& graph = impl_->graph;
  return graph.layers()[graph.node(node).layer_index].first_node;
}
const std::vector<int>& Model::inputs(int node) const {
  return impl_->graph.node(node).inputs;
}
const Shape& Model::output_shape(int node) const {
  return impl_->graph.node(node).output;
}
Shape Model::input_shape() const {
  return num_nodes() == 0 ? Shape() : output_shape(0);
}
Shape Model::output_shape() const {
  return num_nodes() == 0 ? Shape() : impl_->graph.output().output;
}
int Model::num_inputs() const { return impl_->graph.num_inputs(); }
int Model::num_outputs() const {
  return static_cast<int>(impl_->graph.outputs().size());
}
int Model::output_node(int k) const {
  return impl_->graph.outputs()[static_cast<size_t>(k)];
}
std::string Model::output_name(int k) const {
  return impl_->graph.OutputName(static_cast<size_t>(k));
}
const std::vector<Variable>& Model::variables() const {
  return impl_->graph.variables();
}
int64_t Model::num_weights() const { return impl_->graph.num_weights(); }
int64_t Model::num_trained() const { return impl_->graph.num_trained(); }
Status Model::SetTrainable(const std::string& layer, bool trainable) {
  RINGLET_RETURN_IF_ERROR(impl_->status);
  return impl_->graph.SetTrainable(layer, trainable);
}
int64_t Model::MultiplyAdds() const { return impl_->graph.MultiplyAdds(); }

// --- the arguments of Compile ---------------------------------------------

const Optimizer& Model::optimizer() const { return impl_->config.optimizer; }
const std::vector<OutputLoss>& Model::losses() const {
  return impl_->config.losses;
}
const Loss& Model::loss() const {
  static const Loss kNone;
  return losses().empty() ? kNone : losses()[0].loss;
}
const std::vector<Metric>& Model::metrics() const {
  return impl_->config.metrics;
}
int Model::num_metrics() const {
  return static_cast<int>(impl_->config.metric_names.size());
}
const std::string& Model::metric_name(int i) const {
  return impl_->config.metric_names[i];
}
bool Model::metric_lower_is_better(int i) const {
  const size_t first = impl_->config.first_metric, at = static_cast<size_t>(i);
  return at < first || metrics()[at - first].lower_is_better();
}
Collective* Model::collective() const { return impl_->config.collective; }
int Model::num_replicas() const { return impl_->config.job_replicas.count(); }
int Model::threads() const { return impl_->config.options.threads; }
uint64_t Model::seed() const { return impl_->config.options.seed; }
const DataDescription* Model::data_description() const {
  const std::optional<DataDescription>& description = impl_->data_description;
  return description ? &*description : nullptr;
}
void Model::set_data_description(
    const std::optional<DataDescription>& description) {
  impl_->data_description = description;
}
const LocalUpdates& Model::local_updates() const {
  return impl_->config.options.local;
}

// --- memory ---------------------------------------------------------------

MemoryPlan Model::PlanMemory(int64_t batch) const {
  if (!compiled() || batch < 1) return MemoryPlan();
  return impl_->memory.Plan(batch);
}

Status Model::Reserve(int64_t batch, bool training) {
  RINGLET_RETURN_IF_ERROR(impl_->CheckUsable());
  if (batch < 1) {
    return InvalidArgument("Reserve: a batch of %" PRId64
                           " examples; it must have at least 1",
                           batch);
  }
  return impl_->stepper.Reserve(batch, training);
}

uint64_t Model::BytesUsed() const { return impl_->memory.BytesUsed(); }
float* Model::weights() { return impl_->memory.persistent().weights; }
uint64_t Model::DigestWeights() const {
  if (!impl_->compiled) return 0;
  return ComputeDigest(impl_->memory.persistent().weights, num_weights(),
                       impl_->config.pool.get());
}
const float* Model::output(int k) const {
  return impl_->memory.output(static_cast<size_t>(k));
}
Saveable* Model::weights_state() { return &impl_->weights_state; }

namespace {

// Class weights need one class for each example, as in Keras.
Status CheckClassWeight(const ClassWeights& weights, const Loss& loss,
                        const Shape& output, size_t outputs) {
  if (!weights.empty() && outputs > 1) {
    return InvalidArgument(
        "`class_weight` is only supported for Models with a single output");
  }
  for (const auto& [number, weight] : weights) {
    if (std::isfinite(weight)) continue;
    return InvalidArgument(
        "class_weight: the weight of class %lld is not a finite number",
        static_cast<long long>(number));
  }
  const int64_t targets = loss.targets(output);
  const bool one_hot = !loss.takes_classes() && output.rank() == 1;
  if (weights.empty() || targets == 1 || one_hot) return Status();
  return InvalidArgument(
      "class_weight: needs one class an example, but %s takes %lld targets of "
      "the output %s; give sample weights instead",
      loss.class_name(), static_cast<long long>(targets),
      output.ToString().c_str());
}

}  // namespace

Status Model::OpenLoader(const Dataset& dataset,
                         const LoaderOptions& loader_options,
                         std::unique_ptr<BatchLoader>* loader) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.CheckUsable());
  RINGLET_RETURN_IF_ERROR(dataset.status());
  DatasetLoader::Options options;
  options.dataset = dataset;
  options.start = loader_options.start;
  const ReplicaRange range = loader_options.training
                                 ? m.config.job_replicas.own()
                                 : m.config.job_replicas.TestAssignment().range(
                                       m.config.collective->rank());
  options.cursor.rank = range.first;
  options.cursor.parts = range.count;
  options.cursor.world = m.config.job_replicas.count();
  RINGLET_RETURN_IF_ERROR(m.memory.CheckNotLent("OpenLoader"));
  RINGLET_RETURN_IF_ERROR(
      m.stepper.Reserve(dataset.parts().LargestPart(options.cursor.world),
                        loader_options.training));
  options.lease = m.memory.Lend();
  const StepSpans& step = m.memory.step();
  options.x = step.x;
  options.y = step.y;
  for (int i = 0; i < num_inputs(); ++i) {
    options.x_shapes.push_back(output_shape(i));
  }
  for (const CompileConfig::Output& output : m.config.outputs) {
    if (!output.has_loss) continue;
    DatasetLoader::TargetsOf targets;
    targets.count = output.targets;
    targets.classes = output.loss.takes_classes();
    targets.num_classes =
        targets.classes ? output_shape(output.node).back() : 0;
    targets.ignore_class = output.loss.ignore_class;
    targets.rows = RowsOf(output.loss, output_shape(output.node));
    options.outputs.push_back(targets);
  }
  options.read_targets = loader_options.targets;
  options.read_examples = loader_options.examples;
  options.background = loader_options.background;
  options.threads = m.config.options.threads;
  options.augments = loader_options.training;
  options.cursor.round = loader_options.round;
  options.cursor.steps = loader_options.steps;
  options.class_weight = loader_options.class_weight;
  RINGLET_RETURN_IF_ERROR(CheckClassWeight(
      options.class_weight, loss(), output_shape(), m.config.outputs.size()));
  return DatasetLoader::Open(options, loader);
}

// --- a step ---------------------------------------------------------------

Status Model::TrainStep(const Batch& batch) {
  RINGLET_RETURN_IF_ERROR(impl_->CheckUsable());
  RINGLET_RETURN_IF_ERROR(impl_->graph.CheckAdapted());
  RINGLET_RETURN_IF_ERROR(impl_->CheckOneReplica());
  impl_->config.WarnOfLinearOutputs(impl_->graph);
  bool applied = false;  // no rank has a request
  return impl_->stepper.Train(batch, nullptr, &applied);
}

Status Model::TestStep(const Batch& batch) {
  RINGLET_RETURN_IF_ERROR(impl_->CheckUsable());
  RINGLET_RETURN_IF_ERROR(impl_->graph.CheckAdapted());
  return impl_->stepper.Test(batch);
}

Status Model::Forward(const float* x, int64_t count, bool training) {
  RINGLET_RETURN_IF_ERROR(impl_->CheckUsable());
  RINGLET_RETURN_IF_ERROR(impl_->graph.CheckAdapted());
  if (training) RINGLET_RETURN_IF_ERROR(impl_->CheckOneReplica());
  return impl_->stepper.Forward(x, count, training, /*for_loss=*/training);
}

Status Model::ComputeLoss(const Batch& batch, double* loss) {
  RINGLET_RETURN_IF_ERROR(impl_->CheckUsable());
  RINGLET_RETURN_IF_ERROR(impl_->graph.CheckAdapted());
  return impl_->stepper.ComputeLoss(batch, loss);
}

Status Model::Backward() {
  return impl_->stepper.Backward(/*update_when_final=*/false);
}
Status Model::ApplyGradients() { return impl_->stepper.Apply(); }

const float* Model::gradients() const {
  (void)impl_->stepper.FinishGradients();  // ApplyGradients reports it
  return impl_->memory.persistent().gradients;
}

int64_t Model::iterations() const { return impl_->updater.iterations(); }
float Model::LearningRate() const { return impl_->updater.LearningRate(); }
void Model::SetLearningRate(float learning_rate) {
  impl_->updater.SetLearningRate(learning_rate);
}
Saveable* Model::optimizer_state() { return &impl_->updater; }

int Model::num_metric_states() const {
  const std::vector<size_t>& first = impl_->config.first_states;
  return first.empty() ? 0 : static_cast<int>(first.back());
}
double Model::metric_value(int i, const MetricState* states) const {
  const size_t before = impl_->config.first_metric, at = static_cast<size_t>(i);
  const size_t first = impl_->config.first_states[at];
  if (at < before) return states[first].Result();
  const size_t count = impl_->config.first_states[at + 1] - first;
  return MetricResult(metrics()[at - before], states + first,
                      static_cast<int>(count));
}

const MetricState* Model::step_metrics() const {
  return impl_->stepper.report().sums();
}
const MetricState* Model::rank_metrics() const {
  return impl_->stepper.report().own_states();
}

void Model::set_observer(StepObserver* observer) {
  impl_->timer.observer = observer;
}
StepObserver* Model::observer() const { return impl_->timer.observer; }

// --- replicas -------------------------------------------------------------

Status Model::CheckReplicas() {
  Impl& m = *impl_;
  const Collective& c = *m.config.collective;
  if (m.record.check_examples == 0 || !c.elastic() || c.size() == 1) {
    return m.consistency.Check();
  }
  return m.consistency.CrossCheck(
      m.check_pass.Compute(m.record.check_examples));
}

void SimulatedReplicas::Set(Availability availability, Model* model) {
  model->impl_->config.availability = std::move(availability);
}

}  // namespace ringlet
