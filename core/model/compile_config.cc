#include "compile_config.h"

#include <algorithm>
#include <atomic>

#include "../base/message.h"

namespace ringlet {

void CompileConfig::Set(const Optimizer& asked_optimizer,
                        const Loss& asked_loss,
                        const CompileOptions& asked_options) {
  optimizer = asked_optimizer;
  loss = asked_loss;
  options = asked_options;
  collective = options.collective != nullptr ? options.collective : &solo;
}

Status CompileConfig::Check(const Graph& graph) const {
  RINGLET_RETURN_IF_ERROR(CheckLossShape(loss, graph.output().output));
  return optimizer.Check();
}

Status CompileConfig::MakePool(const std::string& model) {
  if (pool == nullptr || pool->threads() != options.threads) {
    pool.reset(new ThreadPool(options.threads));
  }
  if (pool->status().ok()) return Status();
  const Status refused = pool->status();
  pool.reset();
  return refused.Annotate("model '%s': %d threads", model.c_str(),
                          options.threads);
}

// As Keras does over TensorFlow: where the output is a softmax or a sigmoid,
// the loss takes its input, which is exact for any value; so it does where it
// was told to take logits, which such an output is not, and it warns.
void CompileConfig::ChooseLoss(const Graph& graph) {
  const GraphNode& last = graph.output();
  const Activation activation =
      last.op != nullptr ? last.op->fused_activation() : kLinear;
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
      loss.name().c_str(), graph.name().c_str(),
      activation == kSoftmax ? "softmax" : "sigmoid", last.layer.name.c_str());
}

Status CompileConfig::ResolveMetrics(const std::vector<Metric>& asked,
                                     const Shape& output) {
  metrics.clear();
  metric_names = {"loss"};
  for (const Metric& metric : asked) {
    Metric resolved;
    RINGLET_RETURN_IF_ERROR(ResolveMetric(metric, loss, output, &resolved));
    metrics.push_back(resolved);
    // As Keras: a second "mean" is "mean_1".
    std::string unique = resolved.name;
    for (int i = 1;
         std::count(metric_names.begin(), metric_names.end(), unique) > 0;) {
      unique = resolved.name + "_" + std::to_string(i++);
    }
    metric_names.push_back(unique);
  }
  return Status();
}

}  // namespace ringlet
