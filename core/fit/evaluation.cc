// Evaluate and Predict, and the validation in Fit.

#include "evaluation.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <memory>

#include "../base/collective_numbers.h"
#include "../data/dataset_parts.h"
#include "../model/model_parts.h"
#include "ringlet/collective.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

void SetMetrics(const Model& model, const std::vector<MetricState>& states,
                Logs* logs) {
  for (int i = 0; i < model.num_metrics(); ++i) {
    const double value = model.metric_value(i, states.data());
    // Sets a NaN without its sign, which differs between machines and appears
    // in text.
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

Status CheckEndless(const Dataset& dataset, int64_t steps, const char* option) {
  if (steps < 0) {
    return InvalidArgument("%s is %lld; it must be 0 or more", option,
                           static_cast<long long>(steps));
  }
  if (dataset.parts().endless() && steps == 0) {
    return InvalidArgument("the dataset repeats without end: set %s", option);
  }
  return Status();
}

namespace {

// A Fit that ended while a view formed leaves no replica assignment.
Status CheckAssigned(const Model& model, const ReplicaAssignment& assignment) {
  if (assignment.workers() == model.collective()->size()) return Status();
  return PeerLost(
      -1,
      "model '%s': the workers lost each other, and have formed no view since; "
      "create the model again",
      model.name().c_str());
}

// `rows` has a row for each replica of this rank, as long as `sums`. `sums`
// become the sums over all replicas, added in their order, with the same bits
// on all ranks.
Status SumOverReplicas(Collective* collective,
                       const ReplicaAssignment& assignment,
                       std::vector<MetricState>* rows,
                       std::vector<MetricState>* sums) {
  const int ranks = collective->size();
  const size_t states = sums->size();
  rows->resize(states * static_cast<size_t>(assignment.max_per_rank()));
  std::vector<MetricState> all(rows->size() * static_cast<size_t>(ranks));
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(
      collective, rows->data(), sizeof(double), 2 * rows->size(), all.data()));
  sums->assign(states, MetricState());
  for (int r = 0; r < ranks; ++r) {
    const MetricState* row = &all[static_cast<size_t>(r) * rows->size()];
    for (int k = 0; k < assignment.range(r).count; ++k) {
      AddMetrics(row, sums);
      row += states;
    }
  }
  return Status();
}

}  // namespace

Status RunEvaluation(Model* model, const ReplicaAssignment& assignment,
                     const Dataset& dataset, const Evaluation& evaluation,
                     Logs* logs, int64_t* done) {
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.background = evaluation.prefetch;
  loading.training = false;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(dataset, loading, &loader));
  const int num_replicas = assignment.range(model->collective()->rank()).count;
  // The sums of this rank's replicas, and of each one.
  std::vector<MetricState> sums(
      static_cast<size_t>(model->num_metric_states()));
  std::vector<MetricState> rows(sums.size() *
                                static_cast<size_t>(num_replicas));
  const int64_t steps = evaluation.steps;
  Logs running;
  Batch batch;
  for (*done = 0; (steps == 0 || *done < steps) && !batch.last; ++*done) {
    MetricState* row = rows.data();
    for (int k = 0; k < num_replicas; ++k) {
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
      SumOverReplicas(model->collective(), assignment, &rows, &sums));
  SetMetrics(*model, sums, logs);
  return Status();
}

namespace {

Status EvaluateAll(Model* model, const ReplicaAssignment& assignment,
                   const Dataset& dataset, const EvaluateOptions& options,
                   Logs* logs) {
  RINGLET_RETURN_IF_ERROR(model->status());
  RINGLET_RETURN_IF_ERROR(CheckAssigned(*model, assignment));
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
      RunEvaluation(model, assignment, dataset, evaluation, logs, &done));
  progress.Finish(done, *logs);
  return Status();
}

// The layout of all ranks' predictions in `all`. The values of a replica are
// `stride` floats after the values of the previous example. The values of a
// rank are together.
struct Predicted {
  const Model& model;
  const ReplicaAssignment& assignment;
  size_t stride;
  std::vector<float> all;
};

// Appends all replicas' values of an output, in the pieces of
// DatasetParts::Plan. An example has `width` floats of this output, after
// `before` floats of earlier outputs.
void AppendOutputs(const Batch& batch, int64_t width, int64_t before,
                   const Predicted& predicted, std::vector<float>* outputs) {
  const int ranks = predicted.model.collective()->size();
  const int replicas = predicted.model.num_replicas();
  const auto max_per_rank =
      static_cast<size_t>(predicted.assignment.max_per_rank());
  const int64_t piece = (batch.global_count + replicas - 1) / replicas;
  for (int r = 0; r < ranks; ++r) {
    const ReplicaRange range = predicted.assignment.range(r);
    for (int k = 0; k < range.count; ++k) {
      const int64_t first =
          std::min(batch.global_count, piece * (range.first + k));
      const int64_t count = std::min(piece, batch.global_count - first);
      const size_t row =
          static_cast<size_t>(r) * max_per_rank + static_cast<size_t>(k);
      const float* const from =
          predicted.all.data() + predicted.stride * row + before * count;
      outputs->insert(outputs->end(), from, from + count * width);
    }
  }
}

// Predicts the outputs of the examples, one output after another.
Status PredictBatch(Model* model, const Batch& batch, float* to) {
  RINGLET_RETURN_IF_ERROR(
      model->Forward(batch.x, batch.count, /*training=*/false));
  for (int k = 0; k < model->num_outputs(); ++k) {
    const Shape& one = model->output_shape(model->output_node(k));
    to = std::copy_n(model->output(k), batch.count * one.elements(), to);
  }
  return Status();
}

// The values of each output for all examples.
using OutputValues = std::vector<std::vector<float>>;

// Returns the number of floats of all outputs of one example.
int64_t OutputWidth(const Model& model) {
  int64_t width = 0;
  for (int k = 0; k < model.num_outputs(); ++k) {
    width += model.output_shape(model.output_node(k)).elements();
  }
  return width;
}

// Computes the outputs of the examples that only this worker can read. The
// other workers do not get them.
Status PredictOwn(Model* model, BatchLoader* loader, OutputValues* outputs) {
  Batch batch;
  while (!batch.last) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(
        model->Forward(batch.x, batch.count, /*training=*/false));
    for (int k = 0; k < model->num_outputs(); ++k) {
      const Shape& one = model->output_shape(model->output_node(k));
      std::vector<float>& all = (*outputs)[static_cast<size_t>(k)];
      all.insert(all.end(), model->output(k),
                 model->output(k) + batch.count * one.elements());
    }
  }
  return Status();
}

// For examples that all workers can read: each worker computes its replicas'
// parts, and every worker gets the outputs of all examples.
Status PredictTogether(Model* model, const ReplicaAssignment& assignment,
                       const Dataset& dataset, BatchLoader* loader,
                       OutputValues* outputs) {
  Collective* const collective = model->collective();
  // The memory that the model has reserved limits a replica's part. All
  // replicas together have no limit.
  const auto largest = static_cast<uint64_t>(
      dataset.parts().LargestPart(model->num_replicas()) * OutputWidth(*model));
  const auto max_replicas = static_cast<size_t>(assignment.max_per_rank());
  const uint64_t floats =
      largest * max_replicas * static_cast<uint64_t>(collective->size());
  constexpr uint64_t kMax = PTRDIFF_MAX / sizeof(float) / 4;
  if (largest > kMax || floats > kMax) {
    return ResourceExhausted(
        "Predict: no memory for the outputs of a batch of %" PRId64
        " examples, %" PRIu64 " numbers; take a smaller batch",
        dataset.batch_size(), floats);
  }
  const auto stride = static_cast<size_t>(largest);
  std::vector<float> own_outputs(stride * max_replicas);
  Predicted predicted = {*model, assignment, stride, {}};
  predicted.all.resize(own_outputs.size() *
                       static_cast<size_t>(collective->size()));
  Batch batch;
  while (!batch.last) {
    for (int k = 0; k < assignment.range(collective->rank()).count; ++k) {
      RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
      RINGLET_RETURN_IF_ERROR(PredictBatch(
          model, batch, &own_outputs[stride * static_cast<size_t>(k)]));
    }
    RINGLET_RETURN_IF_ERROR(AllGatherNumbers(collective, own_outputs.data(),
                                             sizeof(float), own_outputs.size(),
                                             predicted.all.data()));
    int64_t before = 0;
    for (int k = 0; k < model->num_outputs(); ++k) {
      const Shape& one = model->output_shape(model->output_node(k));
      AppendOutputs(batch, one.elements(), before, predicted,
                    &(*outputs)[static_cast<size_t>(k)]);
      before += one.elements();
    }
  }
  return Status();
}

Status PredictAll(Model* model, const ReplicaAssignment& assignment,
                  const Dataset& data, std::vector<float>* outputs) {
  RINGLET_RETURN_IF_ERROR(model->status());
  RINGLET_RETURN_IF_ERROR(CheckAssigned(*model, assignment));
  RINGLET_RETURN_IF_ERROR(data.status());
  const bool has_own_examples = !data.parts().own_example_counts.empty();
  // An evaluation has each example once, in order, with any policy.
  const Dataset dataset =
      has_own_examples ? data : data.AutoShard(AutoShardPolicy::kData);
  if (dataset.parts().endless()) {
    return InvalidArgument("Predict: the dataset repeats without end");
  }
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.targets = false;
  loading.training = false;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(dataset, loading, &loader));
  OutputValues by_output(static_cast<size_t>(model->num_outputs()));
  RINGLET_RETURN_IF_ERROR(has_own_examples
                              ? PredictOwn(model, loader.get(), &by_output)
                              : PredictTogether(model, assignment, dataset,
                                                loader.get(), &by_output));
  outputs->swap(by_output[0]);
  for (size_t k = 1; k < by_output.size(); ++k) {
    outputs->insert(outputs->end(), by_output[k].begin(), by_output[k].end());
  }
  return Status();
}

}  // namespace

Result<Logs> Model::Evaluate(const Dataset& dataset,
                             const EvaluateOptions& options) {
  Logs logs;
  Status status = ModelParts(this).graph().CheckAdapted();
  if (status.ok()) {
    status = EvaluateAll(
        this, ModelParts(this).config().job_replicas.TestAssignment(), dataset,
        options, &logs);
  }
  AbortOthers(collective(), status);
  RINGLET_RETURN_IF_ERROR(status);
  return logs;
}

Result<Logs> Model::Evaluate(const Dataset& dataset) {
  return Evaluate(dataset, EvaluateOptions());
}

Result<std::vector<float>> Model::Predict(const Dataset& dataset) {
  std::vector<float> outputs;
  Status status = ModelParts(this).graph().CheckAdapted();
  if (status.ok()) {
    status = PredictAll(this,
                        ModelParts(this).config().job_replicas.TestAssignment(),
                        dataset, &outputs);
  }
  AbortOthers(collective(), status);
  RINGLET_RETURN_IF_ERROR(status);
  return outputs;
}

}  // namespace ringlet
