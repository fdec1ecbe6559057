// The public face of a model: each call is one of a part's.

#include "model.h"

#include <algorithm>
#include <cinttypes>

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
  impl_->fitting = false;
}

Model& Model::operator=(Model&& other) noexcept {
  if (this == &other) return *this;
  Model taken(std::move(other));
  impl_.swap(taken.impl_);
  return *this;
}

void Model::Fail(const Status& status) { impl_->Fail(status); }
const Status& Model::status() const {
  return impl_->status.ok() ? impl_->refused : impl_->status;
}
bool Model::compiled() const { return impl_->compiled; }

// --- the graph ------------------------------------------------------------

const std::string& Model::name() const { return impl_->graph.name(); }
const char* Model::class_name() const {
  return impl_->graph.class_name().c_str();
}
void Model::set_name(const std::string& name) { impl_->graph.set_name(name); }

int Model::AddNode(const Layer& layer, const std::vector<int>& inputs) {
  const int number = num_nodes();
  if (impl_->status.ok()) Fail(impl_->graph.Add(layer, inputs));
  return number;
}

void Sequential::Add(const Layer& layer) {
  const int n = num_nodes();
  AddNode(layer, n == 0 ? std::vector<int>() : std::vector<int>{n - 1});
}

int Model::num_nodes() const { return impl_->graph.size(); }
const Layer& Model::layer(int node) const {
  return impl_->graph.node(node).layer;
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

// --- what Compile was told ------------------------------------------------

const Optimizer& Model::optimizer() const { return impl_->config.optimizer; }
const Loss& Model::loss() const { return impl_->config.loss; }
const std::vector<Metric>& Model::metrics() const {
  return impl_->config.metrics;
}
int Model::num_metrics() const {
  return static_cast<int>(impl_->config.metric_names.size());
}
const std::string& Model::metric_name(int i) const {
  return impl_->config.metric_names[i];
}
bool Model::metric_decreases(int i) const {
  return i == 0 || metrics()[i - 1].decreases();
}
Collective* Model::collective() const { return impl_->config.collective; }
int Model::threads() const { return impl_->config.options.threads; }
uint64_t Model::seed() const { return impl_->config.options.seed; }

// --- memory ---------------------------------------------------------------

MemoryPlan Model::PlanMemory(int64_t batch) const {
  if (!compiled() || batch < 1) return MemoryPlan();
  return impl_->memory.Plan(batch);
}

Status Model::Reserve(int64_t batch, bool training) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  if (batch < 1) return InvalidArgument("a batch of %" PRId64, batch);
  return impl_->stepper.Reserve(batch, training);
}

size_t Model::BytesUsed() const { return impl_->memory.BytesUsed(); }
float* Model::weights() { return impl_->memory.kept().weights; }
const float* Model::output() const { return impl_->memory.output(); }
Saveable* Model::weights_state() { return &impl_->weights_state; }

Status Model::OpenLoader(const Dataset& dataset,
                         const LoaderOptions& loader_options,
                         std::unique_ptr<BatchLoader>* loader) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.Usable());
  RINGLET_RETURN_IF_ERROR(dataset.status());
  BatchLoader::Options options;
  options.dataset = dataset;
  options.start = loader_options.start;
  options.rank = collective()->rank();
  options.world = collective()->size();
  RINGLET_RETURN_IF_ERROR(m.memory.CheckNotLent("OpenLoader"));
  RINGLET_RETURN_IF_ERROR(m.stepper.Reserve(dataset.LargestPart(options.world),
                                            loader_options.training));
  options.lease = m.memory.Lend();
  const StepSpans& step = m.memory.step();
  for (int slot = 0; slot < 2; ++slot) {
    options.x[slot] = step.x[slot];
    options.y[slot] = step.y[slot];
  }
  const Shape output = output_shape();
  options.x_shape = input_shape();
  options.targets = loss().targets(output);
  options.classes = loss().takes_classes();
  options.num_classes = options.classes ? output.back() : 0;
  options.read_targets = loader_options.targets;
  options.read_examples = loader_options.examples;
  options.background = loader_options.background;
  return BatchLoader::Open(options, loader);
}

// --- a step ---------------------------------------------------------------

Status Model::TrainStep(const Batch& batch) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  bool taken = false;  // for nobody has a note
  return impl_->stepper.Train(batch, &taken);
}

Status Model::TestStep(const Batch& batch) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  return impl_->stepper.Test(batch);
}

Status Model::Forward(const float* x, int64_t count, bool training) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  return impl_->stepper.Forward(x, count, training, /*for_loss=*/training);
}

Status Model::ComputeLoss(const Batch& batch, double* loss) {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  return impl_->stepper.ComputeLoss(batch, loss);
}

Status Model::Backward() { return impl_->stepper.Backward(/*update=*/false); }
Status Model::ApplyGradients() { return impl_->stepper.Apply(); }

const float* Model::gradients() const {
  (void)impl_->stepper.FinishGradients();  // ApplyGradients reports it
  return impl_->memory.kept().gradients;
}

int64_t Model::iterations() const { return impl_->updater.iterations(); }
float Model::LearningRate() const { return impl_->updater.LearningRate(); }
void Model::SetLearningRate(float learning_rate) {
  impl_->updater.SetLearningRate(learning_rate);
}
Saveable* Model::optimizer_state() { return &impl_->updater; }

const MetricState* Model::step_metrics() const {
  return impl_->stepper.report().sums();
}
const MetricState* Model::rank_metrics() const {
  return impl_->stepper.report().mine();
}

void Model::set_observer(StepObserver* observer) {
  impl_->timer.observer = observer;
}
StepObserver* Model::observer() const { return impl_->timer.observer; }

// --- replicas -------------------------------------------------------------

Status Model::RejoinReplicas() {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  impl_->stepper.Drop();  // of the ring that is no more
  RINGLET_RETURN_IF_ERROR(collective()->Reform());
  return impl_->replicas.Join(/*lived=*/true);
}

Status Model::CheckReplicas() { return impl_->replicas.Check(); }

}  // namespace ringlet
