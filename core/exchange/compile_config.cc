// An output has three losses: `loss` as asked for, `step_loss` for training,
// which takes logits if the last activation permits, and `output_loss` for
// outputs that were computed anyway. ResolveMetrics has the order of Keras's
// logs. It decides the names and the places of the metrics' sums, which the
// ranks exchange.

#include "compile_config.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <utility>

#include "../compute/gemm.h"
#include "../layers/layer_kind.h"
#include "../objective/batch_loss.h"
#include "../objective/metric_states.h"
#include "ringlet/status.h"

namespace ringlet {

void CompileConfig::Set(const Optimizer& asked_optimizer,
                        const CompileOptions& asked_options) {
  optimizer = asked_optimizer;
  options = asked_options;
  chosen_steps = 0;
  collective = options.collective != nullptr ? options.collective : &solo;
}

Status CompileConfig::AgreeReplicas(int requested, int64_t nanos) {
  return job_replicas.Agree(collective, joining, owns_replicas(), requested,
                            nanos);
}

namespace {

// Finds the index of the output that output_losses[at] refers to: by its name,
// or by its place `at` if it has no name.
Status FindOutput(const std::vector<OutputLoss>& output_losses, size_t at,
                  const Graph& graph, size_t* number) {
  const std::string& name = output_losses[at].output;
  const std::vector<int>& outputs = graph.outputs();
  *number = at;
  if (name.empty()) return Status();
  std::string known;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string output_name = graph.OutputName(k);
    if (output_name == name) {
      *number = k;
      return Status();
    }
    known += (k == 0 ? "" : ", ") + output_name;
  }
  return InvalidArgument("model '%s': has no output '%s'; it has %s",
                         graph.name().c_str(), name.c_str(), known.c_str());
}

// True if the layer has weights and an `activation` argument.
bool TakesActivation(Layer::Kind kind) {
  return kind == Layer::Kind::kDense || kind == Layer::Kind::kConv2D ||
         kind == Layer::Kind::kConv1D ||
         kind == Layer::Kind::kDepthwiseConv2D ||
         kind == Layer::Kind::kDepthwiseConv1D ||
         kind == Layer::Kind::kSeparableConv2D ||
         kind == Layer::Kind::kSeparableConv1D ||
         kind == Layer::Kind::kConv2DTranspose ||
         kind == Layer::Kind::kConv1DTranspose;
}

// Warns, once in a process, of a loss that takes probabilities from a layer
// without an activation. Such a loss clips its input to [0, 1], so a value
// outside has no gradient.
void WarnOfLinearOutput(const Loss& loss, const Layer& layer,
                        const std::string& model) {
  static std::atomic<bool> warned{false};
  if (!loss.takes_probabilities() || !TakesActivation(layer.kind) ||
      layer.activation != kLinear || warned.exchange(true)) {
    return;
  }
  Notice(
      "warning: `%s` takes probabilities, but the output of model '%s' is that "
      "of layer '%s', which has no activation and gives any numbers; the model "
      "may not learn. Give the loss `from_logits=True`, or the layer softmax "
      "or sigmoid",
      loss.name().c_str(), model.c_str(), layer.name.c_str());
}

}  // namespace

Status CompileConfig::SetOutputs(const std::vector<OutputLoss>& output_losses,
                                 const Graph& graph) {
  const size_t count = graph.outputs().size();
  if (output_losses.size() != count) {
    return InvalidArgument(
        "model '%s': has %zu outputs, but is compiled with losses for %zu; "
        "NoLoss means no loss",
        graph.name().c_str(), count, output_losses.size());
  }
  std::vector<bool> has_entry(count, false);
  losses.assign(count, OutputLoss());
  outputs.assign(count, Output());
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    size_t k = 0;
    RINGLET_RETURN_IF_ERROR(FindOutput(output_losses, i, graph, &k));
    const std::string name = graph.OutputName(k);
    if (has_entry[k]) {
      return InvalidArgument("model '%s': output '%s' is given twice",
                             graph.name().c_str(), name.c_str());
    }
    has_entry[k] = true;
    losses[k] = output_losses[i];
    losses[k].output = name;
    Output& output = outputs[k];
    output.node = graph.outputs()[k];
    output.has_loss = output_losses[i].trains;
    output.weight = output_losses[i].weight;
    output.loss = output_losses[i].loss;
    any |= output.has_loss;
    if (!output.has_loss && !output_losses[i].metrics.empty()) {
      return InvalidArgument(
          "output '%s': has metrics, but no loss, which defines the form of "
          "its targets; give it a loss, with loss_weight 0 to train nothing",
          name.c_str());
    }
    if (!std::isfinite(output.weight)) {
      return InvalidArgument(
          "output '%s': its loss_weight is not a finite number", name.c_str());
    }
  }
  if (any) return Status();
  return InvalidArgument("model '%s': no output has a loss",
                         graph.name().c_str());
}

std::vector<bool> CompileConfig::Losses() const {
  std::vector<bool> all;
  for (const Output& output : outputs) all.push_back(output.has_loss);
  return all;
}

Status CompileConfig::Check(const Graph& graph) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].has_loss) continue;
    const GraphNode& node = graph.node(outputs[k].node);
    Status fits = CheckLossShape(outputs[k].loss, node.output);
    if (fits.ok() && node.mask_maker >= 0 &&
        outputs[k].loss.custom != nullptr) {
      fits = InvalidArgument(
          "%s: the output has the mask of layer '%s', and a user-defined loss "
          "takes none; leave out the mask, or give masked steps the weight 0",
          outputs[k].loss.class_name(),
          graph.node(node.mask_maker).layer.name.c_str());
    }
    if (outputs.size() == 1) RINGLET_RETURN_IF_ERROR(fits);
    RINGLET_RETURN_IF_ERROR(
        fits.Annotate("output '%s'", losses[k].output.c_str()));
  }
  return optimizer.Check();
}

Status CompileConfig::MakePool(const std::string& model) {
  RINGLET_RETURN_IF_ERROR(CheckKernelsVariable());
  if (pool == nullptr || pool->threads() != options.threads) {
    pool.reset(new ThreadPool(options.threads));
  }
  if (pool->status().ok()) return Status();
  const Status refused = pool->status();
  pool.reset();
  return refused.Annotate("model '%s': %d threads", model.c_str(),
                          options.threads);
}

// As Keras does with TensorFlow: if the output is a softmax or a sigmoid, the
// loss takes the input of this activation (the logits), which is exact for any
// value. With from_logits = true there is a warning, since the output is not
// logits, and the loss takes them just the same. If another layer reads the
// output, the output is computed anyway, and the loss takes it instead.
void CompileConfig::ChooseLosses(const Graph& graph) {
  static std::atomic<bool> warned{false};
  std::vector<bool> is_read(graph.nodes().size(), false);
  for (const GraphNode& node : graph.nodes()) {
    for (const int input : node.inputs) is_read[graph.node(input).root] = true;
  }
  takes_logits = false;
  int64_t targets = 0;
  for (Output& output : outputs) {
    const GraphNode& node = graph.node(output.node);
    output.first_target = targets;
    output.targets = output.has_loss ? output.loss.targets(node.output) : 0;
    targets += output.targets;
    const Activation activation = node.op->fused_activation();
    output.step_loss = output.output_loss = output.loss;
    const bool logits = output.has_loss && activation != kLinear &&
                        output.loss.logits_activation() == activation;
    output.takes_logits = logits && !is_read[node.root];
    takes_logits |= output.takes_logits;
    if (!logits) continue;
    output.step_loss.from_logits = output.takes_logits;
    output.output_loss.from_logits = false;
    if (!output.loss.from_logits || warned.exchange(true)) continue;
    Notice(
        "warning: `%s` received `from_logits=True`, but the output of "
        "model '%s' was produced by the %s activation of layer '%s' and "
        "thus does not represent logits. Was this intended? The loss "
        "takes that activation's input",
        output.loss.name().c_str(), graph.name().c_str(),
        activation == kSoftmax ? "softmax" : "sigmoid",
        node.layer.name.c_str());
  }
}

void CompileConfig::WarnOfLinearOutputs(const Graph& graph) const {
  for (const Output& output : outputs) {
    if (!output.has_loss) continue;
    const int root = graph.node(output.node).root;
    WarnOfLinearOutput(output.loss, graph.node(root).layer, graph.name());
  }
}

Status CompileConfig::ResolveMetrics(const Graph& graph) {
  metrics.clear();
  metric_outputs.clear();
  metric_names = {"loss"};
  first_states = {0, 1};
  const auto is_used = [this](const std::string& name) {
    return std::count(metric_names.begin(), metric_names.end(), name) > 0;
  };
  const auto add = [&](const std::string& name, size_t states) {
    // Keras names a second "mean" "mean_1".
    std::string unique = name;
    for (int i = 1; is_used(unique);) {
      unique = name + "_" + std::to_string(i++);
    }
    metric_names.push_back(unique);
    first_states.push_back(first_states.back() + states);
  };
  const std::vector<bool> with_loss = Losses();
  const bool several = std::count(with_loss.begin(), with_loss.end(), true) > 1;
  for (size_t k = 0; k < outputs.size() && several; ++k) {
    if (with_loss[k]) add(losses[k].output + "_loss", 1);
  }
  first_metric = metric_names.size();
  // As in Keras, weighted metrics come after the metrics without weights.
  for (const bool weighted : {false, true}) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Shape& output = graph.node(outputs[k].node).output;
      const std::string prefix =
          outputs.size() > 1 ? losses[k].output + "_" : "";
      for (Metric& metric : losses[k].metrics) {
        if (metric.weighted != weighted) continue;
        Metric resolved;
        RINGLET_RETURN_IF_ERROR(
            ResolveMetric(metric, outputs[k].loss, output, &resolved));
        metric = resolved;
        for (const Metric& logged : LoggedMetrics(resolved, output)) {
          metrics.push_back(logged);
          metric_outputs.push_back(static_cast<int>(k));
          // Keras gives this prefix to a weighted metric if its name is used.
          const char* const second =
              weighted && is_used(prefix + logged.name) ? "weighted_" : "";
          add(prefix + second + logged.name,
              static_cast<size_t>(NumStates(logged, output)));
        }
      }
    }
  }
  return Status();
}

}  // namespace ringlet
