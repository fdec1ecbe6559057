// Compile: from a graph to a model with weights.

#include <algorithm>
#include <cinttypes>
#include <memory>

#include "model_impl.h"

namespace ringlet {

Status Model::Impl::Usable() const {
  RINGLET_RETURN_IF_ERROR(status);
  if (compiled) return Status();
  return InvalidArgument("model '%s': call Compile first",
                         graph.name().c_str());
}

Status Model::Impl::CheckMayCompile() const {
  RINGLET_RETURN_IF_ERROR(memory.CheckNotLent("Compile"));
  if (!fitting) return Status();
  return InvalidArgument(
      "model '%s': Compile while Fit runs; compile it before or after",
      graph.name().c_str());
}

// The weights are those of the last Compile, those set before the first, or
// drawn.
Status Model::Impl::PlaceWeights() {
  ModelMemory::Options options;
  options.memory = config.options.memory;
  options.memory_bytes = config.options.memory_bytes;
  options.threads = config.options.threads;
  options.num_slots = config.optimizer.num_slots();
  options.label_bytes =
      sizeof(float) *
      static_cast<size_t>(config.loss.targets(graph.output().output));
  RINGLET_RETURN_IF_ERROR(memory.TakeKept(options));
  if (compiled) return Status();
  if (!initial_weights.empty()) {
    std::copy(initial_weights.begin(), initial_weights.end(),
              memory.kept().weights);
    initial_weights = {};
  } else {
    graph.DrawWeights(config.options.seed, memory.kept().weights);
  }
  return Status();
}

Status Model::Impl::Compile(const std::vector<Metric>& metrics) {
  RINGLET_RETURN_IF_ERROR(status);
  RINGLET_RETURN_IF_ERROR(config.options.status);
  const int threads = config.options.threads;
  if (threads < 1 || threads > 1024) {
    return InvalidArgument("threads must be in 1..1024, not %d", threads);
  }
  if (!initial_weights.empty() &&
      static_cast<int64_t>(initial_weights.size()) != graph.num_weights()) {
    return InvalidArgument(
        "model '%s': layers were added after its initial weights were set",
        graph.name().c_str());
  }
  RINGLET_RETURN_IF_ERROR(graph.Complete());
  Status placed = config.Check(graph);
  if (placed.ok()) placed = config.MakePool(graph.name());
  if (placed.ok()) placed = PlaceWeights();
  if (!placed.ok() && compiled) graph.KeepTrained();
  RINGLET_RETURN_IF_ERROR(placed);
  config.ChooseLoss(graph);
  updater.Reset();
  stepper.SetExchange(MakeGradientExchange(
      config.collective, memory.kept().gradients, graph.num_trained(), &timer));
  compiled = true;
  RINGLET_RETURN_IF_ERROR(
      config.ResolveMetrics(metrics, graph.output().output));
  stepper.report().Reset();
  return Status();
}

void Model::Compile(const Optimizer& optimizer, const Loss& loss,
                    const std::vector<Metric>& metrics,
                    const CompileOptions& options) {
  Impl& m = *impl_;
  m.refused = m.CheckMayCompile();
  if (!m.refused.ok()) return;
  m.stepper.Drop();  // while the collective that sums is known
  m.config.Set(optimizer, loss, options);
  m.Fail(m.Compile(metrics));
  if (m.status.ok()) {
    m.Fail(m.replicas.Join(/*lived=*/false));
  } else {  // or they would wait for this rank's fingerprint
    m.config.collective->Abort(m.status);
  }
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
