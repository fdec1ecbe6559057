// Compile: makes a model with weights from a graph.

#include <algorithm>
#include <cinttypes>
#include <memory>

#include "../base/collective_numbers.h"
#include "../exchange/delta_exchange.h"
#include "../exchange/exact_exchange.h"
#include "../exchange/participation.h"
#include "../exchange/sparse_exchange.h"
#include "../step/local_round.h"
#include "model_impl.h"

namespace ringlet {

Status Model::Impl::CheckUsable() const {
  RINGLET_RETURN_IF_ERROR(status);
  if (compiled) return Status();
  return InvalidArgument("model '%s': call Compile first",
                         graph.name().c_str());
}

Status Model::Impl::CheckOneReplica() const {
  const int workers = config.collective->size();
  if (config.local()) {
    return InvalidArgument(
        "model '%s': local updates are made by Fit, not in a user-defined "
        "training loop",
        graph.name().c_str());
  }
  if (config.job_replicas.count() == workers) return Status();
  return InvalidArgument(
      "model '%s': a user-defined training loop that calls the parts of a step "
      "itself needs one worker for each replica, but there are %d replicas and "
      "%d worker%s; use Fit or a TrainingLoop (ringlet/fit.h)",
      graph.name().c_str(), config.job_replicas.count(), workers,
      workers == 1 ? "" : "s");
}

Status Model::Impl::CheckSynchronized() const {
  const int workers = config.collective->size();
  for (const GraphNode& node : graph.nodes()) {
    if (config.job_replicas.count() == workers &&
        !config.collective->elastic()) {
      break;
    }
    if (node.op == nullptr || !node.op->synchronizes()) continue;
    return InvalidArgument(
        "layer '%s' (%s): is synchronized, so all replicas compute it at the "
        "same time, but %d workers %s %d of them one after another; start "
        "as many workers%s, or leave `synchronized` out",
        node.layer.name.c_str(), ClassName(node.layer), workers,
        config.collective->elastic() ? "or fewer compute" : "compute",
        config.job_replicas.count(),
        config.collective->elastic() ? ", which must all stay" : "");
  }
  return Status();
}

Status Model::Impl::CheckLocal() const {
  if (!config.local()) return Status();
  const char* const name = graph.name().c_str();
  RINGLET_RETURN_IF_ERROR(
      config.options.local.Check().Annotate("model '%s'", name));
  if (config.collective->elastic()) {
    RINGLET_RETURN_IF_ERROR(CheckStateOutlivesLoss(config.options.local)
                                .Annotate("model '%s'", name));
  }
  if (config.optimizer.accumulates() || config.optimizer.use_ema) {
    return InvalidArgument(
        "model '%s': %s with local updates: their optimizer starts again in "
        "each round: leave one of them out",
        name,
        config.optimizer.use_ema ? "use_ema" : "gradient_accumulation_steps");
  }
  for (const GraphNode& node : graph.nodes()) {
    if (node.op == nullptr || !node.op->synchronizes()) continue;
    return InvalidArgument(
        "layer '%s' (%s): is synchronized, but with local updates the "
        "replicas' steps are not; leave `synchronized` out",
        node.layer.name.c_str(), ClassName(node.layer));
  }
  return Status();
}

Status Model::Impl::CheckElastic() const {
  if (!config.collective->elastic()) return Status();
  if (config.collective->worker() >= kMaxElasticWorkers) {
    return InvalidArgument(
        "model '%s': this is worker %d of an elastic job: its workers may "
        "leave and join, and such a job has at most %d workers",
        graph.name().c_str(), config.collective->worker(), kMaxElasticWorkers);
  }
  if (config.exact() || config.local()) return Status();
  return InvalidArgument(
      "model '%s': workers may leave this job and join it, so its gradients "
      "must be summed with reduction exact: then no bit depends on which "
      "workers take part",
      graph.name().c_str());
}

Status Model::Impl::CheckMayCompile() const {
  RINGLET_RETURN_IF_ERROR(memory.CheckNotLent("Compile"));
  if (!record.running) return Status();
  return InvalidArgument(
      "model '%s': Compile while Fit runs; compile it before or after",
      graph.name().c_str());
}

// The weights are from the last Compile, from SetInitialWeights, or random.
Status Model::Impl::PlaceWeights() {
  ModelMemory::Options options;
  options.memory = config.options.memory;
  options.memory_bytes = options.memory != nullptr
                             ? config.options.memory_bytes
                             : config.options.memory_limit;
  options.threads = config.options.threads;
  options.recompute = config.options.recompute;
  options.num_slots = config.optimizer.num_slots();
  options.first_slot = ClassOf(config.optimizer).slots(config.optimizer).first;
  options.exact = config.exact();
  // In an elastic job a worker may get several replicas later.
  options.sums =
      config.job_replicas.own().count > 1 ||
      (config.collective->elastic() && config.job_replicas.count() > 1);
  if (config.local()) {
    const LocalUpdates& local = config.options.local;
    options.sums = !local.sparse();
    options.local_replicas =
        config.collective->elastic() && !config.owns_replicas()
            ? config.job_replicas.count()
            : config.job_replicas.own().count;
    options.all_replicas = config.job_replicas.count();
    options.errors = local.sparse();
    options.starts = local.overlap;
  }
  options.label_bytes = sizeof(float) * static_cast<size_t>(config.targets());
  RINGLET_RETURN_IF_ERROR(memory.AllocatePersistent(options));
  if (compiled && !has_untrained_weights) return Status();
  if (!initial_weights.empty()) {
    std::copy(initial_weights.begin(), initial_weights.end(),
              memory.persistent().weights);
  } else {
    graph.DrawWeights(config.options.seed, memory.persistent().weights);
  }
  has_untrained_weights = true;
  return Status();
}

Status Model::Impl::CheckInitialWeights() const {
  if (initial_weights.empty() ||
      static_cast<int64_t>(initial_weights.size()) == graph.num_weights()) {
    return Status();
  }
  return InvalidArgument(
      "model '%s': layers were added after its initial weights were set",
      graph.name().c_str());
}

Status Model::Impl::CopyWeights(
    std::shared_ptr<const std::vector<float>>* copy) const {
  RINGLET_RETURN_IF_ERROR(CheckInitialWeights());
  std::vector<float> weights = initial_weights;
  if (compiled) {
    const float* const begin = memory.persistent().weights;
    weights.assign(begin, begin + graph.num_weights());
  }
  if (weights.empty()) return Status();
  *copy = std::make_shared<const std::vector<float>>(std::move(weights));
  return Status();
}

Status Model::Impl::Compile(const std::vector<OutputLoss>& losses) {
  RINGLET_RETURN_IF_ERROR(status);
  RINGLET_RETURN_IF_ERROR(config.options.status);
  RINGLET_RETURN_IF_ERROR(config.AgreeReplicas(config.options.replicas));
  const int threads = config.options.threads;
  if (threads < 1 || threads > 1024) {
    return InvalidArgument("threads must be in 1..1024, not %d", threads);
  }
  RINGLET_RETURN_IF_ERROR(CheckInitialWeights());
  RINGLET_RETURN_IF_ERROR(graph.CheckWhole());
  RINGLET_RETURN_IF_ERROR(config.SetOutputs(losses, graph));
  if (config.options.dtype_policy) {
    graph.SetDTypePolicy(*config.options.dtype_policy);
  }
  RINGLET_RETURN_IF_ERROR(graph.Complete(config.Losses()));
  Status checked = config.Check(graph);
  if (checked.ok()) checked = CheckSynchronized();
  if (checked.ok()) checked = CheckElastic();
  if (checked.ok()) checked = CheckLocal();
  if (checked.ok()) config.ChooseLosses(graph);
  if (checked.ok()) checked = config.MakePool(graph.name());
  if (checked.ok()) checked = PlaceWeights();
  if (!checked.ok() && compiled) graph.RestoreTrainedLayers();
  RINGLET_RETURN_IF_ERROR(checked);
  updater.Reset();
  MakeExchange();
  compiled = true;
  RINGLET_RETURN_IF_ERROR(config.ResolveMetrics(graph));
  stepper.report().Reset();
  return Status();
}

Status Model::Impl::Restore(Model* model) {
  const std::function<Status(Model*)>& restore = config.options.restore;
  if (restore != nullptr) RINGLET_RETURN_IF_ERROR(restore(model));
  consistency.SetLoaded(restore != nullptr);
  return Status();
}

Status Model::Impl::CompileTogether(const std::vector<OutputLoss>& losses,
                                    Model* model) {
  Collective* const c = config.collective;
  config.number = c->compiles() + 1;
  Status result;
  do {
    if (!result.ok()) result = c->Reform();
    if (result.ok()) {
      result = ExchangeIncumbents(/*incumbent=*/config.number > 1);
    }
    if (result.ok()) {
      result = Compile(losses);
      if (result.ok()) result = Restore(model);
      // Without the abort the other workers would wait for this rank's
      // fingerprint.
      if (!result.ok()) config.joining.AbortOthers(c, result);
    }
    if (result.ok()) result = consistency.Join(/*has_state=*/false);
    // An elastic job continues without the lost worker.
  } while (result.code() == Code::kPeerLost && c->elastic());
  RINGLET_RETURN_IF_ERROR(result);
  c->CountCompile();
  has_untrained_weights = false;
  initial_weights = {};
  graph.FreeNestedWeights();
  return Status();
}

Status Model::Impl::ExchangeIncumbents(bool incumbent) {
  const Status exchanged =
      config.joining.ExchangeIncumbents(config.collective, incumbent);
  if (exchanged.ok() || exchanged.code() == Code::kPeerLost ||
      !config.collective->elastic()) {
    return exchanged;
  }
  // A joining worker failed before the exchange in which it would have found
  // that it is joining.
  return PeerLost(-1, "%s", exchanged.message());
}

Status Model::Impl::Rejoin(bool incumbent, bool has_state) {
  Collective* const c = config.collective;
  RINGLET_RETURN_IF_ERROR(CheckUsable());
  consistency.LeaveView();
  local_trainer.Abandon();  // ends the round of the view that has ended
  RINGLET_RETURN_IF_ERROR(c->Reform());
  RINGLET_RETURN_IF_ERROR(ExchangeIncumbents(incumbent));
  const Status agreed = config.AgreeReplicas(
      config.job_replicas.count(),
      config.job_replicas.throughput().NanosPerReplica(c->worker()));
  // A lost peer is not an error of the model: after it a new view forms, with a
  // new assignment.
  if (!agreed.ok() && agreed.code() != Code::kPeerLost) Fail(agreed);
  RINGLET_RETURN_IF_ERROR(agreed);
  ApplyReplicaAssignment();
  return consistency.Join(has_state);
}

void Model::Impl::ApplyReplicaAssignment() {
  MakeExchange();
  stepper.report().Reset();
}

std::unique_ptr<RoundExchange> Model::Impl::MakeRoundExchange() {
  const PersistentSpans& spans = memory.persistent();
  const int64_t numbers = graph.num_trained() + graph.num_changes();
  if (config.options.local.sparse()) {
    return MakeSparseExchange(
        config.collective, config.job_replicas.assignment(),
        config.job_replicas.count(), graph,
        {spans.gradients, spans.contributions, numbers, spans.errors}, &timer);
  }
  return MakeDeltaExchange(
      config.collective,
      MaxSampled(config.options.local, config.job_replicas.count()),
      config.options.local.delta, MakeGridLayout(graph), graph.num_changes(),
      {spans.gradients, spans.sums, spans.contributions, numbers}, &timer);
}

void Model::Impl::MakeExchange() {
  PersistentSpans spans = memory.persistent();
  if (config.local()) {
    std::unique_ptr<RoundExchange> rounds = MakeRoundExchange();
    local_trainer.SetExchange(rounds.get());
    return stepper.SetExchange(std::move(rounds));
  }
  local_trainer.SetExchange(nullptr);
  if (config.job_replicas.own().count == 1) spans.sums = nullptr;
  std::unique_ptr<GradientExchange> exchange =
      config.exact() && config.job_replicas.count() > 1
          ? MakeExactExchange(config.collective, config.job_replicas.count(),
                              MakeGridLayout(graph),
                              {spans.gradients, spans.sums, spans.scales},
                              graph.num_changes(), &timer)
          : MakeGradientExchange(config.collective, config.job_replicas.count(),
                                 spans, graph.num_trained(),
                                 graph.num_changes(), &timer);
  stepper.SetExchange(std::move(exchange));
}

void Model::Compile(const Optimizer& optimizer, const Loss& loss,
                    const std::vector<Metric>& metrics,
                    const CompileOptions& options) {
  const auto count = static_cast<size_t>(num_outputs());
  std::vector<OutputLoss> losses(std::max<size_t>(count, 1));
  for (OutputLoss& each : losses) each.loss = loss;
  if (count <= 1) {
    losses[0].metrics = metrics;
  } else if (metrics.size() == count) {
    for (size_t k = 0; k < count; ++k) losses[k].metrics = {metrics[k]};
  } else if (!metrics.empty()) {
    Fail(InvalidArgument(
        "For a model with multiple outputs, when providing the `metrics` "
        "argument as a list, it should have as many entries as the model has "
        "outputs: %zu, and not %zu",
        count, metrics.size()));
  }
  Compile(optimizer, losses, options);
}

void Model::Compile(const Optimizer& optimizer,
                    const std::vector<OutputLoss>& losses,
                    const CompileOptions& options) {
  Impl& m = *impl_;
  m.compile_error = m.CheckMayCompile();
  if (!m.compile_error.ok()) return;
  m.local_trainer.Abandon();  // before config has another collective
  m.config.Set(optimizer, options);
  m.Fail(m.CompileTogether(losses, this));
  m.config.options.restore = nullptr;
}

Status Model::SetInitialWeights(std::vector<float> weights) {
  Impl& m = *impl_;
  RINGLET_RETURN_IF_ERROR(m.status);
  if (m.compiled) {
    return InvalidArgument(
        "model '%s' was compiled and has its weights; initial ones are set "
        "before",
        name().c_str());
  }
  if (static_cast<int64_t>(weights.size()) != num_weights()) {
    return InvalidArgument("model '%s' has %" PRId64 " weights, not %zu",
                           name().c_str(), num_weights(), weights.size());
  }
  m.initial_weights = std::move(weights);
  return Status();
}

}  // namespace ringlet
