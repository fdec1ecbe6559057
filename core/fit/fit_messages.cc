// Messages come from the chief alone, since all ranks have the same causes.
// Threads belong to one machine, so every process warns of them, once. No
// decision of the fit may depend on a message: only one rank prints it.

#include "fit_messages.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstring>

#include "../layers/layer_kind.h"
#include "fit_details.h"
#include "ringlet/compute.h"
#include "ringlet/status.h"

namespace ringlet {

void WarnOfThreads(int threads) {
  static std::atomic<bool> warned{false};
  const int cores = UsableCores();
  if (threads <= cores || warned.exchange(true)) return;
  Notice("warning: %d threads for %d usable core%s: this is slower than %d",
         threads, cores, cores == 1 ? "" : "s", cores);
}

void FitMessages::ReportNewView(const Status& status,
                                bool admits_joiner) const {
  if (admits_joiner) return Notice("note: %s", status.message());
  const Collective& collective = *model_.collective();
  if (!collective.elastic()) {
    return Notice(
        "warning: %s; waiting until it joins again, to continue from the "
        "newest state",
        status.message());
  }
  const int min_workers = collective.min_workers();
  Notice("warning: %s; continuing with the present workers%s", status.message(),
         min_workers <= 1
             ? ""
             : (", once they are " + std::to_string(min_workers) + " or more")
                   .c_str());
}

Status FitMessages::PermanentLossError(const FitState& fit,
                                       const Status& status) const {
  const std::string worker = status.rank() < 0
                                 ? "a worker"
                                 : "worker " + std::to_string(status.rank());
  const std::string kept = fit.details->saved_message.empty()
                               ? ""
                               : ": " + fit.details->saved_message;
  return PeerLost(
      status.rank(),
      "%s was lost after %s, and the job has ended%s. With the callback "
      "BackupAndRestore the other workers wait until it is started again, and "
      "continue where they were. The cause: %s",
      worker.c_str(), fit.LastStep().c_str(), kept.c_str(), status.message());
}

void FitMessages::ReportAssignment(const FitState& fit,
                                   const ReplicaAssignment& assignment) const {
  if (!prints_progress(fit)) return;
  Notice("note: from epoch %" PRId64 ", step %" PRId64
         " on the workers compute %s replicas, by their speeds",
         fit.epoch + 1, fit.step + 1, assignment.ToString().c_str());
}

void FitMessages::ReportRoundSteps(const FitState& fit, int64_t step,
                                   int64_t exchange) const {
  if (!prints_progress(fit)) return;
  Notice("note: a step takes %.3g ms, an exchange %.3g ms: rounds of %" PRId64
         " local steps (\"local_steps\": %" PRId64 " gives the same bits)",
         static_cast<double>(step) / 1e6, static_cast<double>(exchange) / 1e6,
         fit.local_steps, fit.local_steps);
}

void FitMessages::ReportLeftOut(const FitState& fit, int sampled, int late,
                                int missed) const {
  const LocalUpdates& local = model_.local_updates();
  if (!prints_progress(fit) || local.round_deadline_seconds <= 0) return;
  if (missed > 0) {
    Notice("note: epoch %" PRId64 ", step %" PRId64
           ": %d of the round's %d replicas were late, which left fewer than "
           "%d (quorum): the round was computed again, and waited for all",
           fit.epoch + 1, fit.step + 1, missed, sampled, local.quorum);
  } else if (late > 0) {
    Notice("note: epoch %" PRId64 ", step %" PRId64
           ": %d of the round's %d replicas were late, and are not in its mean",
           fit.epoch + 1, fit.step + 1, late, sampled);
  }
}

void FitMessages::ReportResume(const FitState& fit) const {
  if (!prints_progress(fit)) return;
  const bool rejoined = fit.details->in_memory();
  if (!rejoined && fit.details->restored_from.empty()) return;
  const char* const from = rejoined ? "the memory of the workers"
                                    : fit.details->restored_from.c_str();
  if (fit.epoch >= fit.epochs) {
    PrintTo(options_.out, "all %" PRId64 " epochs are trained (%s)", fit.epochs,
            from);
  } else {
    const Collective& collective = *model_.collective();
    const int workers = collective.size();
    PrintTo(options_.out, "continues at %s, from %s%s", fit.NextStep().c_str(),
            from,
            !collective.elastic() ? ""
            : workers == 1
                ? ", with this worker alone"
                : (", with " + std::to_string(workers) + " workers").c_str());
  }
}

void FitMessages::PrintEpoch(const FitState& fit) const {
  if (!prints_progress(fit) || fit.epochs <= 1) return;
  PrintTo(options_.out, "Epoch %" PRId64 "/%" PRId64, fit.epoch + 1,
          fit.epochs);
}

namespace {

constexpr double kLargeInput = 100;

// Returns the greatest magnitude in the data or, if the source does not know
// it, in the batch.
double LargestInput(const Dataset& dataset, const Batch& batch,
                    int64_t elements) {
  double ends[2] = {};
  double largest = 0;
  const Scale& scale = dataset.scale();
  const Source& source = *dataset.source();
  // For bytes the source gives the possible values, not the actual ones.
  if (source.x().dtype != DType::kUint8 && source.XRange(&ends[0], &ends[1])) {
    for (const double end : ends) {
      largest = std::max(largest, std::fabs(end * scale.factor + scale.offset));
    }
    return largest;
  }
  const int64_t n = batch.count * elements;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(batch.x[i])));
  }
  return largest;
}

bool HasCallback(const FitState& fit, const char* name) {
  return std::any_of(fit.callbacks->begin(), fit.callbacks->end(),
                     [&](const auto& callback) {
                       return std::strcmp(callback->name(), name) == 0;
                     });
}

}  // namespace

void FitMessages::ReportRange(const FitState& fit, const Batch& batch) {
  if (checked_range_) return;
  checked_range_ = true;
  if (!fit.chief || number_ > 1) return;
  WarnOfImageTargets(fit, batch);
  int64_t elements = 0;
  for (int i = 0; i < model_.num_inputs(); ++i) {
    elements += model_.output_shape(i).elements();
  }
  const double largest = LargestInput(*fit.dataset, batch, elements);
  if (largest <= kLargeInput) return;
  for (int i = 0; i < model_.num_nodes(); ++i) {
    const Layer& layer = model_.layer(i);
    if (layer.kind == Layer::Kind::kNormalization && layer.adapt) return;
  }
  const Scale& scale = fit.dataset->scale();
  Notice(
      "warning: the training data reach %g (each value is x * scale + "
      "offset, with scale %g and offset %g); networks learn from values near "
      "1. Scale multiplies: for bytes it is 1/255 = 0.00392156862745098, not "
      "255",
      largest, scale.factor, scale.offset);
}

// A dataset's scale changes only x. Targets keep the file's values.
void FitMessages::WarnOfImageTargets(const FitState& fit,
                                     const Batch& batch) const {
  const Source& source = *fit.dataset->source();
  const std::vector<ExampleSpec> targets = source.Targets();
  const bool images = targets.size() == 1 &&
                      targets[0].dtype == DType::kUint8 &&
                      targets[0].shape.elements() > 1;
  if (!images || model_.num_outputs() > 1 || model_.loss().takes_classes()) {
    return;
  }
  const float* const y = static_cast<const float*>(batch.y);
  const int64_t n = batch.count * targets[0].shape.elements();
  const float largest = n == 0 ? 0 : *std::max_element(y, y + n);
  if (largest <= kLargeInput) return;
  Notice(
      "warning: the targets in %s are bytes that reach %g, and a dataset's "
      "scale does not change them; networks learn from values near 1. Scale "
      "them by 1/255 too: in C++ Zip({x}, {y.Map(Scale(1 / 255.f))}), in "
      "RUN.json \"y\": {\"%s\": {\"file\": ..., \"scale\": "
      "0.00392156862745098}}",
      source.y_name().c_str(), double{largest}, model_.output_name(0).c_str());
}

void FitMessages::ReportSameOrder(const FitState& fit) const {
  if (!fit.chief || number_ != 2) return;
  Notice(
      "note: this fit shuffles the data in the same orders as the last fit, "
      "because each fit begins at the first pass of Shuffle's seed. For other "
      "orders use another seed, or one fit of all epochs");
}

void FitMessages::ReportDivergence(const FitState& fit, const Logs& logs) {
  if (fit.metrics[0].count == 0) return;  // no example was trained
  const double* loss = logs.Find("loss");
  if (loss == nullptr || std::isfinite(*loss)) {
    diverged_ = 0;
    return;
  }
  if (diverged_ != 0) return;
  diverged_ = fit.epoch + 1;
  if (!fit.chief || HasCallback(fit, "terminate_on_nan")) return;
  Notice("warning: the loss is %s at the end of epoch %" PRId64
         ": the training has diverged, and more epochs will not help. Try a "
         "smaller learning rate, look at the scale of the data, and add the "
         "callback TerminateOnNaN, which stops immediately",
         std::isnan(*loss) ? "not a number" : "infinite", diverged_);
}

void FitMessages::WarnOfDivergence(const FitState& fit) const {
  if (!fit.chief || diverged_ == 0 || fit.epoch <= diverged_) return;
  Notice("warning: the training has diverged in epoch %" PRId64
         ": the model is of no use",
         diverged_);
}

void FitMessages::WarnDataEnded(const FitState& fit) const {
  if (!fit.chief) return;
  Notice(
      "warning: Your input ran out of data; interrupting training. Make "
      "sure that the dataset can give at least `steps_per_epoch * epochs` "
      "batches (%" PRId64 "); Repeat() lets it begin again.",
      options_.steps_per_epoch * (fit.epochs - options_.initial_epoch));
}

}  // namespace ringlet
