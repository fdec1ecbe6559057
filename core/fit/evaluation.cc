// Evaluate and Predict, and the validation within Fit.

#include "evaluation.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <memory>

#include "../base/collective.h"
#include "../base/message.h"
#include "../model/model_impl.h"
#include "fit.h"

namespace ringlet {

void SetMetrics(const Model& model, const std::vector<MetricState>& states,
                Logs* logs) {
  for (int i = 0; i < model.num_metrics(); ++i) {
    const double value = model.metric_value(i, states.data());
    // Without the sign, which machines differ in, and text shows.
    logs->Set(
        model.metric_name(i),
        std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
  }
}

void SetEpochMetrics(const Model& model, const std::vector<MetricState>& states,
                     Logs* logs) {
  SetMetrics(model, states, logs);
  for (int i = 0; states[0].count == 0 && i < model.num_metrics(); ++i) {
    logs->Set(model.metric_name(i), std::numeric_limits<double>::quiet_NaN());
  }
}

Status CheckEndless(const Dataset& dataset, int64_t steps, const char* what) {
  if (steps < 0) return InvalidArgument("%s must be >= 0", what);
  if (dataset.endless() && steps == 0) {
    return InvalidArgument("the dataset repeats without end: set %s", what);
  }
  return Status();
}

namespace {

// A Fit that ended while the workers met anew leaves nothing dealt out.
Status CheckDealt(const Model& model, const ReplicaShares& shares) {
  if (shares.workers() == model.collective()->size()) return Status();
  return PeerLost(
      -1,
      "model '%s': the workers lost each other, and have not agreed since on "
      "who computes what; make the model anew",
      model.name().c_str());
}

// `rows`, of the own replicas, each as long as `sums`, become the sums over all
// replicas, added in their order: the same bits on all ranks.
Status SumOverReplicas(Collective* collective, const ReplicaShares& shares,
                       std::vector<MetricState>* rows,
                       std::vector<MetricState>* sums) {
  const int ranks = collective->size();
  const size_t states = sums->size();
  rows->resize(states * static_cast<size_t>(shares.most()));
  std::vector<MetricState> all(rows->size() * static_cast<size_t>(ranks));
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  RINGLET_RETURN_IF_ERROR(GatherNumbers(
      collective, rows->data(), sizeof(double), 2 * rows->size(), all.data()));
  sums->assign(states, MetricState());
  for (int r = 0; r < ranks; ++r) {
    const MetricState* row = &all[static_cast<size_t>(r) * rows->size()];
    for (int k = 0; k < shares.of(r).count; ++k) {
      AddMetrics(row, sums);
      row += states;
    }
  }
  return Status();
}

}  // namespace

Status RunEvaluation(Model* model, const ReplicaShares& shares,
                     const Dataset& dataset, const Evaluation& evaluation,
                     Logs* logs, int64_t* done) {
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.background = evaluation.prefetch;
  loading.training = false;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(dataset, loading, &loader));
  const int own = shares.of(model->collective()->rank()).count;
  std::vector<MetricState> sums(
      static_cast<size_t>(model->num_metric_states()));  // of the own
  std::vector<MetricState> rows(sums.size() * static_cast<size_t>(own));
  const int64_t steps = evaluation.steps;
  Logs running;
  Batch batch;
  for (*done = 0; (steps == 0 || *done < steps) && !batch.last; ++*done) {
    MetricState* row = rows.data();
    for (int k = 0; k < own; ++k) {
      RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
      RINGLET_RETURN_IF_ERROR(model->TestStep(batch));
      AddMetrics(model->rank_metrics(), &sums);
      for (size_t i = 0; i < sums.size(); ++i) {
        *row++ += model->rank_metrics()[i];
      }
    }
    bool stop = false;
    if (evaluation.step_ended) {
      RINGLET_RETURN_IF_ERROR(evaluation.step_ended(&stop));
    }
    if (stop) return Status();
    if (evaluation.progress == nullptr) continue;
    SetMetrics(*model, sums, &running);
    evaluation.progress->Update(*done + 1, running);
  }
  if (*done < steps && model->collective()->rank() == 0) {
    Notice("warning: Your input ran out of data after %" PRId64 " of %" PRId64
           " steps of evaluation.",
           *done, steps);
  }
  RINGLET_RETURN_IF_ERROR(
      SumOverReplicas(model->collective(), shares, &rows, &sums));
  SetMetrics(*model, sums, logs);
  return Status();
}

namespace {

Status EvaluateAll(Model* model, const ReplicaShares& shares,
                   const Dataset& dataset, const EvaluateOptions& options,
                   Logs* logs) {
  RINGLET_RETURN_IF_ERROR(model->status());
  RINGLET_RETURN_IF_ERROR(CheckDealt(*model, shares));
  RINGLET_RETURN_IF_ERROR(dataset.status());
  RINGLET_RETURN_IF_ERROR(CheckEndless(dataset, options.steps, "steps"));
  const Collective& collective = *model->collective();
  Evaluation evaluation;
  evaluation.steps =
      options.steps > 0 ? options.steps : dataset.steps(model->num_replicas());
  evaluation.prefetch = options.prefetch;
  const bool chief = collective.rank() == 0;
  Progress progress(chief ? options.verbose : Verbose::kSilent, options.out,
                    evaluation.steps);
  evaluation.progress = &progress;
  int64_t done = 0;
  RINGLET_RETURN_IF_ERROR(
      RunEvaluation(model, shares, dataset, evaluation, logs, &done));
  progress.Finish(done, *logs);
  return Status();
}

// How the values that the ranks predict lie in `all`: those of a replica
// `stride` floats behind those of the one before, a rank's together.
struct Predicted {
  const Model& model;
  const ReplicaShares& shares;
  size_t stride;
  std::vector<float> all;
};

// Appends all replicas' values of an output, one after another, in the pieces
// that Dataset::Plan cuts: `width` floats an example, and of outputs before
// this one `before`.
void AppendOutputs(const Batch& batch, int64_t width, int64_t before,
                   const Predicted& predicted, std::vector<float>* outputs) {
  const int ranks = predicted.model.collective()->size();
  const int replicas = predicted.model.num_replicas();
  const auto most = static_cast<size_t>(predicted.shares.most());
  const int64_t piece = (batch.global_count + replicas - 1) / replicas;
  for (int r = 0; r < ranks; ++r) {
    const ReplicaRange range = predicted.shares.of(r);
    for (int k = 0; k < range.count; ++k) {
      const int64_t first =
          std::min(batch.global_count, piece * (range.first + k));
      const int64_t count = std::min(piece, batch.global_count - first);
      const size_t row = static_cast<size_t>(r) * most + static_cast<size_t>(k);
      const float* const from =
          predicted.all.data() + predicted.stride * row + before * count;
      outputs->insert(outputs->end(), from, from + count * width);
    }
  }
}

// The examples' values of every output, one output after another.
Status PredictBatch(Model* model, const Batch& batch, float* to) {
  RINGLET_RETURN_IF_ERROR(
      model->Forward(batch.x, batch.count, /*training=*/false));
  for (int k = 0; k < model->num_outputs(); ++k) {
    const Shape& one = model->output_shape(model->output_node(k));
    to = std::copy_n(model->output(k), batch.count * one.elements(), to);
  }
  return Status();
}

Status PredictAll(Model* model, const ReplicaShares& shares,
                  const Dataset& data, std::vector<float>* outputs) {
  RINGLET_RETURN_IF_ERROR(model->status());
  RINGLET_RETURN_IF_ERROR(CheckDealt(*model, shares));
  RINGLET_RETURN_IF_ERROR(data.status());
  // Each example once, in order, whatever the policy.
  const Dataset dataset = data.AutoShard(AutoShardPolicy::kData);
  if (dataset.endless()) {
    return InvalidArgument("Predict: the dataset repeats without end");
  }
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.targets = false;
  loading.training = false;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(dataset, loading, &loader));
  Collective* const collective = model->collective();
  int64_t width = 0;  // of all outputs
  const int num_outputs = model->num_outputs();
  for (int k = 0; k < num_outputs; ++k) {
    width += model->output_shape(model->output_node(k)).elements();
  }
  std::vector<std::vector<float>> of(static_cast<size_t>(num_outputs));
  // Bounded by the memory that the model has reserved for a replica's part; all
  // replicas' together by nothing.
  const auto largest =
      static_cast<uint64_t>(dataset.LargestPart(model->num_replicas()) * width);
  const auto most = static_cast<size_t>(shares.most());
  const uint64_t floats =
      largest * most * static_cast<uint64_t>(collective->size());
  constexpr uint64_t kMost = PTRDIFF_MAX / sizeof(float) / 4;
  if (largest > kMost || floats > kMost) {
    return ResourceExhausted(
        "Predict: no memory for the outputs of a batch of %" PRId64
        " examples, %" PRIu64 " numbers; take a smaller batch",
        dataset.batch_size(), floats);
  }
  const auto stride = static_cast<size_t>(largest);
  std::vector<float> mine(stride * most);
  Predicted predicted = {*model, shares, stride, {}};
  predicted.all.resize(mine.size() * static_cast<size_t>(collective->size()));
  Batch batch;
  while (!batch.last) {
    for (int k = 0; k < shares.of(collective->rank()).count; ++k) {
      RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
      RINGLET_RETURN_IF_ERROR(
          PredictBatch(model, batch, &mine[stride * static_cast<size_t>(k)]));
    }
    RINGLET_RETURN_IF_ERROR(GatherNumbers(collective, mine.data(),
                                          sizeof(float), mine.size(),
                                          predicted.all.data()));
    int64_t before = 0;
    for (int k = 0; k < num_outputs; ++k) {
      const Shape& one = model->output_shape(model->output_node(k));
      AppendOutputs(batch, one.elements(), before, predicted,
                    &of[static_cast<size_t>(k)]);
      before += one.elements();
    }
  }
  outputs->swap(of[0]);
  for (size_t k = 1; k < of.size(); ++k) {
    outputs->insert(outputs->end(), of[k].begin(), of[k].end());
  }
  return Status();
}

}  // namespace

Result<Logs> Model::Evaluate(const Dataset& dataset,
                             const EvaluateOptions& options) {
  Logs logs;
  const Status status =
      EvaluateAll(this, impl_->config.TestShares(), dataset, options, &logs);
  AbortOthers(collective(), status);
  RINGLET_RETURN_IF_ERROR(status);
  return logs;
}

Result<Logs> Model::Evaluate(const Dataset& dataset) {
  return Evaluate(dataset, EvaluateOptions());
}

Result<std::vector<float>> Model::Predict(const Dataset& dataset) {
  std::vector<float> outputs;
  const Status status =
      PredictAll(this, impl_->config.TestShares(), dataset, &outputs);
  AbortOthers(collective(), status);
  RINGLET_RETURN_IF_ERROR(status);
  return outputs;
}

}  // namespace ringlet
