// Evaluate and Predict, and the validation within Fit.

#include "evaluation.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <memory>

#include "../base/collective.h"
#include "../base/message.h"
#include "fit.h"

namespace ringlet {

void SetMetrics(const Model& model, const std::vector<MetricState>& states,
                Logs* logs) {
  for (int i = 0; i < model.num_metrics(); ++i) {
    const double value = states[i].Result();
    // Without the sign, which machines differ in, and text shows.
    logs->Set(
        model.metric_name(i),
        std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
  }
}

Status CheckEndless(const Dataset& dataset, int64_t steps, const char* what) {
  if (steps < 0) return InvalidArgument("%s must be >= 0", what);
  if (dataset.endless() && steps == 0) {
    return InvalidArgument("the dataset repeats without end: set %s", what);
  }
  return Status();
}

Status RunEvaluation(Model* model, const Dataset& dataset,
                     const Evaluation& evaluation, Logs* logs, int64_t* done) {
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.background = evaluation.prefetch;
  loading.training = false;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(dataset, loading, &loader));
  std::vector<MetricState> sums(model->num_metrics());
  const int64_t steps = evaluation.steps;
  Logs running;
  Batch batch;
  for (*done = 0; (steps == 0 || *done < steps) && !batch.last; ++*done) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(model->TestStep(batch));
    AddMetrics(model->rank_metrics(), &sums);
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
  RINGLET_RETURN_IF_ERROR(SumOverRanks(model->collective(), &sums));
  SetMetrics(*model, sums, logs);
  return Status();
}

namespace {

Status EvaluateAll(Model* model, const Dataset& dataset,
                   const EvaluateOptions& options, Logs* logs) {
  RINGLET_RETURN_IF_ERROR(model->status());
  RINGLET_RETURN_IF_ERROR(dataset.status());
  RINGLET_RETURN_IF_ERROR(CheckEndless(dataset, options.steps, "steps"));
  const Collective& collective = *model->collective();
  Evaluation evaluation;
  evaluation.steps =
      options.steps > 0 ? options.steps : dataset.steps(collective.size());
  evaluation.prefetch = options.prefetch;
  const bool chief = collective.rank() == 0;
  Progress progress(chief ? options.verbose : Verbose::kSilent, options.out,
                    evaluation.steps);
  evaluation.progress = &progress;
  int64_t done = 0;
  RINGLET_RETURN_IF_ERROR(
      RunEvaluation(model, dataset, evaluation, logs, &done));
  progress.Finish(done, *logs);
  return Status();
}

// Appends all ranks' outputs of a batch, rank after rank, in the pieces that
// Dataset::Plan cuts. Those of a rank are `stride` floats behind those of the
// rank before, `width` floats an example.
void AppendOutputs(const Batch& batch, int world, int64_t width, size_t stride,
                   const std::vector<float>& all, std::vector<float>* outputs) {
  const int64_t piece = (batch.global_count + world - 1) / world;
  for (int r = 0; r < world; ++r) {
    const int64_t first = std::min(batch.global_count, piece * r);
    const int64_t count = std::min(piece, batch.global_count - first);
    const float* from = all.data() + stride * r;
    outputs->insert(outputs->end(), from, from + count * width);
  }
}

Status PredictAll(Model* model, const Dataset& data,
                  std::vector<float>* outputs) {
  RINGLET_RETURN_IF_ERROR(model->status());
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
  const int world = collective->size();
  const int64_t width = model->output_shape().elements();
  std::vector<float> mine(dataset.LargestPart(world) * width);
  std::vector<float> all(mine.size() * world);
  Batch batch;
  while (!batch.last) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(
        model->Forward(batch.x, batch.count, /*training=*/false));
    std::copy_n(model->output(), batch.count * width, mine.data());
    RINGLET_RETURN_IF_ERROR(GatherNumbers(
        collective, mine.data(), sizeof(float), mine.size(), all.data()));
    AppendOutputs(batch, world, width, mine.size(), all, outputs);
  }
  return Status();
}

}  // namespace

Result<Logs> Model::Evaluate(const Dataset& dataset,
                             const EvaluateOptions& options) {
  Logs logs;
  const Status status = EvaluateAll(this, dataset, options, &logs);
  AbortOthers(collective(), status);
  RINGLET_RETURN_IF_ERROR(status);
  return logs;
}

Result<Logs> Model::Evaluate(const Dataset& dataset) {
  return Evaluate(dataset, EvaluateOptions());
}

Result<std::vector<float>> Model::Predict(const Dataset& dataset) {
  std::vector<float> outputs;
  const Status status = PredictAll(this, dataset, &outputs);
  AbortOthers(collective(), status);
  RINGLET_RETURN_IF_ERROR(status);
  return outputs;
}

}  // namespace ringlet
