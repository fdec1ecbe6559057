#include "compile_config.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <utility>

#include "../base/message.h"
#include "../compute/gemm.h"

namespace ringlet {

void CompileConfig::Set(const Optimizer& asked_optimizer,
                        const CompileOptions& asked_options) {
  optimizer = asked_optimizer;
  options = asked_options;
  chosen_steps = 0;
  collective = options.collective != nullptr ? options.collective : &solo;
}

Status CompileConfig::AgreeReplicas(int asked, int64_t nanos) {
  const int workers = collective->size();
  std::vector<int64_t> rows(3 * static_cast<size_t>(workers));
  const int64_t mine[] = {asked, nanos, collective->worker()};
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(collective, mine, sizeof(int64_t), 3, rows.data()));
  std::vector<int64_t> all, times, numbers;
  for (size_t i = 0; i < rows.size(); i += 3) {
    all.push_back(rows[i]);
    times.push_back(rows[i + 1]);
    numbers.push_back(rows[i + 2]);
  }
  int64_t number = 0;
  int from = 0;
  for (int i = 0; i < workers; ++i) {
    const int r = (arrivals.reference() + i) % workers;
    const int64_t said = all[static_cast<size_t>(r)];
    if (said == 0 || said == number) continue;
    if (number != 0) {
      const Status differs =
          InvalidArgument("replicas: %" PRId64 " on rank %d, %" PRId64
                          " on rank %d; all workers of a job have as many",
                          number, from, said, r);
      return arrivals.Refuse(collective, r, differs);
    }
    number = said;
    from = r;
  }
  if (number == 0) number = workers;
  if (number < workers || number > kMostReplicas) {
    const Status wrong = InvalidArgument(
        "replicas: %" PRId64
        " for %d workers; each worker computes at least one, and there are at "
        "most %d",
        number, workers, kMostReplicas);
    return arrivals.Refuse(collective, arrivals.last_comer(), wrong);
  }
  replicas = static_cast<int>(number);
  shares = ReplicaShares(workers, replicas);
  dealt_by_speed = measures_soon = false;
  if (owns_replicas()) {
    RINGLET_RETURN_IF_ERROR(OwnReplicas());
  } else if (collective->elastic()) {
    RINGLET_RETURN_IF_ERROR(DealReplicas(std::move(numbers), std::move(times)));
  }
  own = shares.of(collective->rank());
  return Status();
}

Status CompileConfig::DealReplicas(std::vector<int64_t> numbers,
                                   std::vector<int64_t> nanos) {
  measures_soon = std::count(nanos.begin(), nanos.end(), 0) > 0;
  RINGLET_RETURN_IF_ERROR(speeds.Meet(collective, std::move(numbers), &nanos));
  std::vector<int64_t> known;
  for (const int64_t n : nanos) {
    if (n > 0) known.push_back(n);
  }
  if (known.empty()) return Status();
  const auto median =
      known.begin() + static_cast<std::ptrdiff_t>((known.size() - 1) / 2);
  std::nth_element(known.begin(), median, known.end());
  for (int64_t& n : nanos) {
    if (n <= 0) n = *median;
  }
  dealt_by_speed = shares.Deal(nanos);
  return Status();
}

Status CompileConfig::OwnReplicas() {
  std::vector<int64_t> all(static_cast<size_t>(collective->size()));
  const int64_t mine = collective->worker();
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(collective, &mine, sizeof(mine), 1, all.data()));
  for (const int64_t worker : all) {
    if (worker >= 0 && worker < replicas) continue;
    return InvalidArgument(
        "replicas: %d, but worker %" PRId64
        " is to have one of its own, as there is a quorum; leave replicas out",
        replicas, worker);
  }
  shares = ReplicaShares::Own({all.begin(), all.end()});
  return Status();
}

namespace {

// The number of the output that is meant by number `at` of a list.
Status FindOutput(const std::vector<OutputLoss>& asked, size_t at,
                  const Graph& graph, size_t* number) {
  const std::string& name = asked[at].output;
  const std::vector<int>& outputs = graph.outputs();
  *number = at;
  if (name.empty()) return Status();
  std::string known;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string own = graph.OutputName(k);
    if (own == name) {
      *number = k;
      return Status();
    }
    known += (k == 0 ? "" : ", ") + own;
  }
  return InvalidArgument("model '%s': has no output '%s'; it has %s",
                         graph.name().c_str(), name.c_str(), known.c_str());
}

}  // namespace

Status CompileConfig::SetOutputs(const std::vector<OutputLoss>& asked,
                                 const Graph& graph) {
  const size_t count = graph.outputs().size();
  if (asked.size() != count) {
    return InvalidArgument(
        "model '%s': has %zu outputs, but is compiled with losses for %zu; "
        "NoLoss stands for none",
        graph.name().c_str(), count, asked.size());
  }
  std::vector<bool> given(count, false);
  losses.assign(count, OutputLoss());
  outputs.assign(count, Output());
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    size_t k = 0;
    RINGLET_RETURN_IF_ERROR(FindOutput(asked, i, graph, &k));
    const std::string name = graph.OutputName(k);
    if (given[k]) {
      return InvalidArgument("model '%s': output '%s' is given twice",
                             graph.name().c_str(), name.c_str());
    }
    given[k] = true;
    losses[k] = asked[i];
    losses[k].output = name;
    Output& output = outputs[k];
    output.node = graph.outputs()[k];
    output.has_loss = asked[i].trains;
    output.weight = asked[i].weight;
    output.loss = asked[i].loss;
    any |= output.has_loss;
    if (!output.has_loss && !asked[i].metrics.empty()) {
      return InvalidArgument(
          "output '%s': has metrics, but no loss, which says what its targets "
          "are; a loss_weight of 0 trains nothing either",
          name.c_str());
    }
    if (!std::isfinite(output.weight)) {
      return InvalidArgument("output '%s': its loss_weight is no number",
                             name.c_str());
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
    const Status fits =
        CheckLossShape(outputs[k].loss, graph.node(outputs[k].node).output);
    if (outputs.size() == 1) RINGLET_RETURN_IF_ERROR(fits);
    RINGLET_RETURN_IF_ERROR(
        fits.Annotate("output '%s'", losses[k].output.c_str()));
  }
  return optimizer.Check();
}

Status CompileConfig::MakePool(const std::string& model) {
  RINGLET_RETURN_IF_ERROR(CheckGemmKernels());
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
// was told to take logits, which such an output is not, and it warns. Not where
// another layer takes the output, which must be there before the loss is.
void CompileConfig::ChooseLosses(const Graph& graph) {
  static std::atomic<bool> warned{false};
  std::vector<bool> taken(graph.nodes().size(), false);
  for (const GraphNode& node : graph.nodes()) {
    for (const int input : node.inputs) taken[graph.node(input).root] = true;
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
    output.takes_logits = logits && !taken[node.root];
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

Status CompileConfig::ResolveMetrics(const Graph& graph) {
  metrics.clear();
  metric_outputs.clear();
  metric_names = {"loss"};
  first_states = {0, 1};
  const auto add = [&](const std::string& name, size_t states) {
    // As Keras: a second "mean" is "mean_1".
    std::string unique = name;
    for (int i = 1;
         std::count(metric_names.begin(), metric_names.end(), unique) > 0;) {
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
  // As Keras orders them: weighted ones behind the others.
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
        metrics.push_back(resolved);
        metric_outputs.push_back(static_cast<int>(k));
        add(prefix + resolved.name,
            static_cast<size_t>(NumStates(resolved, output)));
      }
    }
  }
  return Status();
}

}  // namespace ringlet
