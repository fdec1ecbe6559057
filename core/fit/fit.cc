#include "fit.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <new>

#include "../base/guarded.h"
#include "../base/message.h"
#include "../base/thread.h"
#include "../model/fingerprint.h"
#include "../model/model_impl.h"
#include "progress.h"
#include "run_state.h"
#include "worker_lines.h"

namespace ringlet {
namespace {

// A rank's wish to stop becomes everybody's.
Status AgreeToStop(Collective* collective, std::vector<unsigned char>* wishes,
                   FitState* fit) {
  if (collective->size() == 1) return Status();
  RINGLET_CHECK(fit->signal >= 0 && fit->signal < 64);
  const auto mine = static_cast<unsigned char>((fit->stop_training ? 1 : 0) |
                                               (fit->interrupted ? 2 : 0) |
                                               (fit->signal << 2));
  wishes->resize(collective->size());
  RINGLET_RETURN_IF_ERROR(collective->AllGather(&mine, 1, wishes->data()));
  for (const unsigned char wish : *wishes) {
    fit->stop_training |= (wish & 1) != 0;
    fit->interrupted |= (wish & 2) != 0;
    fit->signal = std::max(fit->signal, wish >> 2);
  }
  return Status();
}

void SetMetrics(const Model& model, const MetricState* states,
                const char* prefix, Logs* logs) {
  for (int i = 0; i < model.num_metrics(); ++i) {
    const double value = states[i].Result();
    // Without the sign, which machines differ in, and text shows.
    logs->Set(
        prefix + model.metric_name(i),
        std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
  }
}

// Told of each step's end; may set *stop.
using StepEnded = std::function<Status(bool* stop)>;

// One pass of TestSteps; the sums over all ranks go to `logs`, under `prefix`.
// The model's running metrics are used up. `done` becomes the steps taken.
// Where `ended` (may be null) stops it there are no logs.
Status RunEvaluation(Model* model, const Dataset& dataset, int64_t steps,
                     bool prefetch, Progress* progress, const char* prefix,
                     const StepEnded& ended, Logs* logs, int64_t* done) {
  std::unique_ptr<BatchLoader> loader;
  LoaderOptions loading;
  loading.background = prefetch;
  loading.training = false;
  RINGLET_RETURN_IF_ERROR(model->OpenLoader(dataset, loading, &loader));
  model->ResetMetrics();
  Logs running;
  Batch batch;
  for (*done = 0; (steps == 0 || *done < steps) && !batch.last; ++*done) {
    RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
    RINGLET_RETURN_IF_ERROR(model->TestStep(batch));
    bool stop = false;
    if (ended) RINGLET_RETURN_IF_ERROR(ended(&stop));
    if (stop) return Status();
    if (progress == nullptr) continue;
    SetMetrics(*model, model->metric_states(), "", &running);
    progress->Update(*done + 1, running);
  }
  if (*done < steps && model->collective()->rank() == 0) {
    Notice("warning: Your input ran out of data after %" PRId64 " of %" PRId64
           " steps of evaluation.",
           *done, steps);
  }
  std::vector<MetricState> totals(model->num_metrics());
  RINGLET_RETURN_IF_ERROR(model->ReduceMetrics(totals.data()));
  SetMetrics(*model, totals.data(), prefix, logs);
  return Status();
}

Status CheckEndless(const Dataset& dataset, int64_t steps, const char* what) {
  if (steps < 0) return InvalidArgument("%s must be >= 0", what);
  if (dataset.endless() && steps == 0) {
    return InvalidArgument("the dataset repeats without end: set %s", what);
  }
  return Status();
}

// A rank that fails alone says so to the others, or they would wait for it.
// `agreed`: all of them have this error already, or end together.
void TellOthers(Collective* collective, const Status& status, bool agreed) {
  if (status.ok() || agreed || collective->size() == 1) return;
  collective->Abort(status);
}

// `of` tells the validation's fields from the training's.
void AddDataset(const Dataset& dataset, const char* of, Fingerprint* f) {
  const auto add = [&](const char* name, const auto& value) {
    f->Add(std::string(name) + of, value);
  };
  add("the number of examples", dataset.size());
  add("the first example", dataset.first());
  add("the stride of examples", dataset.stride());
  add("the batch size", dataset.batch_size());
  add("drop_remainder", int64_t{dataset.drop_remainder()});
  add("the number of passes", dataset.passes());
  add("batches across passes", int64_t{dataset.crosses()});
  add("the shuffle's seed", dataset.shuffle_seed());
  add("the sharding policy", static_cast<int64_t>(dataset.policy()));
  add("the scale's factor", dataset.scale().factor);
  add("the scale's offset", dataset.scale().offset);
  f->AddChecksum(std::string("the sizes of the files") + of,
                 static_cast<uint64_t>(dataset.files_checksum()));
}

constexpr double kLargeInput = 100;

// Results are the same, and later.
void WarnOfThreads(int threads) {
  static std::atomic<bool> warned{false};
  const int cores = UsableCores();
  if (threads <= cores || warned.exchange(true)) return;
  Notice("warning: %d threads for %d usable core%s: this is slower than %d",
         threads, cores, cores == 1 ? "" : "s", cores);
}

// One call of Fit.
class Fitter {
 public:
  // `number` counts the fits of the model that have completed, and this one.
  Fitter(Model* model, int64_t number, const Dataset& dataset,
         const FitOptions& options)
      : model_(model),
        dataset_(dataset),
        options_(options),
        number_(number),
        lines_(*model->collective(), options.verbose, options.out) {}

  Status Run(History* history) {
    const Status status = RunAll(history);
    lines_.End(status, static_cast<int64_t>(history->epoch.size()),
               model_->iterations());
    return status;
  }

 private:
  Status RunAll(History* history) {
    const Status checked = Check();
    TellOthers(model_->collective(), checked, /*agreed=*/false);
    RINGLET_RETURN_IF_ERROR(checked);
    for (;;) {
      const Status status = TrainAll(history);
      TellOthers(model_->collective(), status, agreed_);
      const bool resumes = status.code() == Code::kPeerLost && Restores();
      if (resumes) {  // before the callbacks let go of it
        border_.Keep();
        PutWeightsBack();
      }
      for (const auto& callback : options_.callbacks) {
        const Status left = GuardedFitReturn(callback.get(), fit_, status);
        if (left.ok()) continue;
        Notice("warning: %s: %s", callback->name(), left.message());
      }
      // Who is told to stop waits for nobody.
      if (!resumes || fit_.interrupted) return status;
      Notice(
          "warning: %s; waiting for it to come back, to go on from "
          "the newest state",
          status.message());
      RINGLET_RETURN_IF_ERROR(Rejoin(status.rank()));
    }
  }

  Status Check() {
    RINGLET_RETURN_IF_ERROR(model_->status());
    if (!model_->compiled()) return InvalidArgument("Fit: call Compile first");
    RINGLET_RETURN_IF_ERROR(dataset_.status());
    if (options_.epochs < 0 || options_.initial_epoch < 0) {
      return InvalidArgument("epochs and initial_epoch must be >= 0");
    }
    if (options_.validation_freq < 1) {
      return InvalidArgument("validation_freq must be at least 1");
    }
    RINGLET_RETURN_IF_ERROR(
        CheckEndless(dataset_, options_.steps_per_epoch, "steps_per_epoch"));
    const Dataset& validation = options_.validation_data;
    if (validation.empty()) return Status();
    RINGLET_RETURN_IF_ERROR(validation.status().Annotate("validation_data"));
    return CheckEndless(validation, options_.validation_steps,
                        "validation_steps");
  }

  // Until all ranks are together again, however many are lost meanwhile.
  Status Rejoin(int lost) {
    const int64_t iterations = model_->iterations();
    for (;;) {
      const Status rejoined = model_->RejoinReplicas();
      if (rejoined.code() == Code::kDeadlineExceeded) {  // it is still lost
        return PeerLost(lost, "%s", rejoined.message());
      }
      if (rejoined.code() != Code::kPeerLost) {
        // The border does not go with another rank's weights.
        if (model_->iterations() != iterations) border_.Forget();
        return rejoined;
      }
      Notice("warning: %s, while the workers met again; waiting on",
             rejoined.message());
    }
  }

  bool Restores() const {
    for (const auto& callback : options_.callbacks) {
      if (callback->RestoresAfterLoss()) return true;
    }
    return false;
  }

  // Calls `method` of every callback.
  template <typename... Parameters, typename... Arguments>
  Status Tell(Status (Callback::*method)(FitState&, Parameters...),
              Arguments&&... arguments) {
    for (const auto& callback : options_.callbacks) {
      RINGLET_RETURN_IF_ERROR(
          Guarded<Parameters...>(callback.get(), method, fit_, arguments...)
              .Annotate("%s", callback->name()));
      // Of a Compile that was refused.
      RINGLET_RETURN_IF_ERROR(model_->status());
    }
    return Status();
  }

  Status TrainAll(History* history) {
    fit_ = FitState();
    weights_.reset();
    fit_.model = model_;
    fit_.dataset = &dataset_;
    fit_.callbacks = &options_.callbacks;
    fit_.epochs = options_.epochs;
    fit_.epoch = options_.initial_epoch;
    fit_.steps_per_epoch = options_.steps_per_epoch > 0
                               ? options_.steps_per_epoch
                               : dataset_.steps(model_->collective()->size());
    fit_.validation = ValidationOfAll();
    fit_.chief = model_->collective()->rank() == 0;
    fit_.step_metrics = model_->step_metrics();
    agreed_ = false;
    // All the memory now, so that what is too large fails before it starts.
    const int world = model_->collective()->size();
    int64_t largest = dataset_.LargestPart(world);
    if (!options_.validation_data.empty()) {
      largest = std::max(largest, options_.validation_data.LargestPart(world));
    }
    RINGLET_RETURN_IF_ERROR(model_->Reserve(largest, /*training=*/true));
    RINGLET_RETURN_IF_ERROR(TryData(dataset_));
    if (!options_.validation_data.empty()) {
      RINGLET_RETURN_IF_ERROR(
          TryData(options_.validation_data).Annotate("validation_data"));
    }
    RINGLET_RETURN_IF_ERROR(AgreeOnFit());
    lines_.Begin(fit_, dataset_);
    fit_.metrics.assign(model_->num_metrics(), MetricState());
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnSetup));
    RINGLET_RETURN_IF_ERROR(TakeUpState());
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainBegin));
    if (fit_.lost) {
      return Error(Code::kInternal,
                   "the workers are together again, but nobody holds the "
                   "state of the run: no worker's memory and no backup; start "
                   "all of them anew");
    }
    FirstBorder();
    SayWhereItGoesOn();
    // What will be trained again is not history.
    while (!history->epoch.empty() && history->epoch.back() >= fit_.epoch) {
      history->epoch.pop_back();
      history->logs.pop_back();
    }
    // An epoch that was stopped in the middle, and resumed, still ends.
    while (fit_.epoch < fit_.epochs && (!fit_.stop_training || fit_.step > 0)) {
      if (fit_.step == 0 && RanOut()) break;  // no epoch of no steps
      RINGLET_RETURN_IF_ERROR(Epoch(history));
    }
    if (options_.check_replicas_every > 0) {
      RINGLET_RETURN_IF_ERROR(CheckReplicas());
    }
    WarnOfDivergence();
    // What callbacks do to the weights now, they would do a second time.
    HoldBorder();
    KeepWeights();
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainEnd, last_));
    // Nobody has completed the fit before all have: what fails on one rank in
    // OnTrainEnd reaches the others here.
    return model_->collective()->Barrier();
  }

  Status CheckReplicas() {
    const Status status = model_->CheckReplicas();
    agreed_ = status.code() == Code::kOutOfSync;
    return status;
  }

  bool alone() const { return model_->collective()->size() == 1; }
  bool prints() const {
    return fit_.chief && options_.verbose != Verbose::kSilent;
  }

  // After a break, of the process or of the job.
  void SayWhereItGoesOn() {
    if (!prints()) return;
    const bool rejoined = fit_.in_memory;
    if (!rejoined && fit_.restored_from.empty()) return;
    const char* const from =
        rejoined ? "the memory of the workers" : fit_.restored_from.c_str();
    if (fit_.epoch >= fit_.epochs) {
      std::fprintf(options_.out, "all %" PRId64 " epochs are trained (%s)\n",
                   fit_.epochs, from);
    } else {
      std::fprintf(options_.out, "goes on at %s, from %s\n",
                   fit_.NextStep().c_str(), from);
    }
    std::fflush(options_.out);
  }

  // Values that networks do not learn from, most often because of a scale that
  // was meant as a divisor. Once a model, as far as the values are known or in
  // the chief's first batch.
  void NoteRange(const Batch& batch) {
    if (looked_at_range_) return;
    looked_at_range_ = true;
    if (!fit_.chief || number_ > 1) return;
    double ends[2] = {};
    double most = 0;
    const Scale& scale = dataset_.scale();
    // Of bytes the source knows what they may be, not what they are.
    const Source& source = *dataset_.source();
    if (source.x().dtype != DType::kUint8 &&
        source.XRange(&ends[0], &ends[1])) {
      for (const double end : ends) {
        most = std::max(most, std::fabs(end * scale.factor + scale.offset));
      }
    } else {
      const int64_t n = batch.count * model_->input_shape().elements();
      for (int64_t i = 0; i < n; ++i) {
        most = std::max(most, std::fabs(static_cast<double>(batch.x[i])));
      }
    }
    if (most <= kLargeInput) return;
    Notice(
        "warning: the training data reach %g (each value is x * scale + "
        "offset, with scale %g and offset %g); networks learn from values near "
        "1. Scale multiplies: for bytes it is 1/255 = 0.00392156862745098, not "
        "255",
        most, scale.factor, scale.offset);
  }

  // The hint once; what it has come to at the end of the fit again.
  void NoteDivergence(const Logs& logs) {
    const double* loss = logs.Find("loss");
    const bool finite = loss == nullptr || std::isfinite(*loss);
    if (!finite && diverged_ == 0) {
      diverged_ = fit_.epoch + 1;
      if (fit_.chief && !Has("terminate_on_nan")) {
        Notice("warning: the loss is %s at the end of epoch %" PRId64
               ": the training has diverged, and what follows is of no use. "
               "Try a smaller learning rate, look at the scale of the data, "
               "and add the callback TerminateOnNaN, which stops at once",
               std::isnan(*loss) ? "not a number" : "infinite", diverged_);
      }
    }
    if (finite) diverged_ = 0;
  }
  void WarnOfDivergence() const {
    if (!fit_.chief || diverged_ == 0 || fit_.epoch <= diverged_) return;
    Notice("warning: the training has diverged in epoch %" PRId64
           ": the model is of no use",
           diverged_);
  }

  bool Has(const char* callback) const {
    for (const auto& each : options_.callbacks) {
      if (std::strcmp(each->name(), callback) == 0) return true;
    }
    return false;
  }

  // All ranks take the state of the one that had gone furthest among those that
  // were in this fit when a worker was lost.
  Status TakeUpState() {
    fit_.in_memory = fit_.lost = false;
    if (alone()) return Status();
    Collective* const collective = model_->collective();
    // Has trained, and not from a start of its own now; its state is whole;
    // epoch; step.
    const int64_t lived = begun_ ? 1 : 0, whole = border_.valid() ? 1 : 0;
    RunState state(&fit_, /*live=*/true);
    if (whole != 0) RINGLET_RETURN_IF_ERROR(border_.PutBack(&state));
    const int64_t mine[4] = {lived, whole, fit_.epoch, fit_.step};
    std::vector<int64_t> all(4 * static_cast<size_t>(collective->size()));
    RINGLET_RETURN_IF_ERROR(
        GatherNumbers(collective, mine, sizeof(int64_t), 4, all.data()));
    int source = -1;
    bool any_lived = false;
    for (int r = 0; r < collective->size(); ++r) {
      const int64_t* theirs = &all[4 * static_cast<size_t>(r)];
      any_lived |= theirs[0] != 0;
      if (theirs[1] == 0) continue;
      const int64_t* best = source < 0 ? nullptr : &all[4 * size_t(source)];
      if (best == nullptr || theirs[2] > best[2] ||
          (theirs[2] == best[2] && theirs[3] > best[3])) {
        source = r;
      }
    }
    fit_.lost = any_lived && source < 0;
    fit_.in_memory = source >= 0;
    if (source < 0) return Status();
    begun_ = true;
    // Another's state may be cut off on its way; one's own, where it is the
    // same, is not changed by it.
    const int64_t* theirs = &all[4 * static_cast<size_t>(source)];
    if (!std::equal(theirs + 1, theirs + 4, mine + 1)) border_.Forget();
    RINGLET_RETURN_IF_ERROR(BroadcastState(collective, {&state}, source));
    FirstBorder();
    border_.Keep();  // callbacks may change their memory in OnTrainBegin
    return Status();
  }

  // From here on a lost worker does not cost the others what they have done.
  void FirstBorder() {
    if (alone() || !Restores()) return;
    RunState state(&fit_, /*live=*/true);
    border_.Plan(&state);
    keeps_border_ = begun_ = true;
    TakeBorder();
  }
  void TakeBorder() {
    if (keeps_border_) border_.Take();
  }
  void HoldBorder() {
    if (keeps_border_) border_.Hold();
  }
  // Callbacks may change the weights where an epoch and the training end. What
  // is done again after a loss begins with those before. Where there is no
  // memory for a copy it begins with those that there are.
  void KeepWeights() {
    if (!keeps_border_) return;
    const auto n = static_cast<size_t>(model_->num_weights());
    weights_.reset(new (std::nothrow) float[n]);
    if (weights_ != nullptr) std::copy_n(model_->weights(), n, weights_.get());
  }
  void PutWeightsBack() {
    if (weights_ == nullptr) return;
    std::copy_n(weights_.get(), model_->num_weights(), model_->weights());
  }

  // Data that do not fit the model are refused before anything was printed,
  // restored or written.
  Status TryData(const Dataset& dataset) {
    std::unique_ptr<BatchLoader> loader;
    LoaderOptions loading;
    loading.background = false;
    return model_->OpenLoader(dataset, loading, &loader);
  }

  Status AgreeOnFit() {
    Fingerprint f;
    f.Add("the number of this fit of the model", number_);
    AddDataset(dataset_, "", &f);
    f.Add("epochs", options_.epochs);
    f.Add("initial_epoch", options_.initial_epoch);
    f.Add("steps_per_epoch", fit_.steps_per_epoch);
    f.Add("steps_per_epoch as given", options_.steps_per_epoch);
    f.Add("check_replicas_every", options_.check_replicas_every);
    if (options_.validation_data.empty()) {
      f.Add("validation", "none");
    } else {
      AddDataset(options_.validation_data, " of the validation data", &f);
      f.Add("validation_steps", options_.validation_steps);
      f.Add("validation_freq", options_.validation_freq);
      std::string epochs;
      for (const int64_t epoch : options_.validation_epochs) {
        epochs += (epochs.empty() ? "" : " ") + std::to_string(epoch);
      }
      f.Add("validation_epochs", epochs);
    }
    f.Add("the number of callbacks",
          static_cast<int64_t>(options_.callbacks.size()));
    for (size_t i = 0; i < options_.callbacks.size(); ++i) {
      f.Add("callback " + std::to_string(i), options_.callbacks[i]->Describe());
    }
    const Status status = Agree(model_->collective(), "Fit", f);
    agreed_ = status.code() == Code::kInvalidArgument;
    return status;
  }

  Status Epoch(History* history) {
    if (fit_.step == 0) {
      HoldBorder();
      model_->ResetMetrics();
      for (MetricState& state : fit_.metrics) state = MetricState();
      RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnEpochBegin));
    }
    if (prints() && fit_.epochs > 1) {
      std::fprintf(options_.out, "Epoch %" PRId64 "/%" PRId64 "\n",
                   fit_.epoch + 1, fit_.epochs);
      std::fflush(options_.out);
    }
    Progress progress(prints() ? options_.verbose : Verbose::kSilent,
                      options_.out, fit_.steps_per_epoch);
    RINGLET_RETURN_IF_ERROR(Steps(&progress));
    HoldBorder();

    Logs logs;
    SetMetrics(*model_, fit_.metrics.data(), "", &logs);
    if (Validates(fit_.epoch)) RINGLET_RETURN_IF_ERROR(Validate(&logs));
    KeepWeights();
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnEpochEnd, &logs));
    progress.Finish(fit_.step, logs);
    NoteDivergence(logs);
    history->epoch.push_back(fit_.epoch);
    history->logs.push_back(logs);
    last_ = logs;
    ++fit_.epoch;
    fit_.step = 0;
    // No border before all ranks have come here: what the chief has not done at
    // the epoch's end, as to write a row, is done again.
    RINGLET_RETURN_IF_ERROR(AgreeToStop(model_->collective(), &wishes_, &fit_));
    TakeBorder();
    weights_.reset();
    return SavePoint(/*epoch_ended=*/true);
  }

  Status SavePoint(bool epoch_ended) {
    if (epoch_ended && (fit_.epoch >= fit_.epochs || fit_.stop_training)) {
      fit_.interrupted = false;
    }
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnSavePoint, epoch_ended));
    TakeBorder();
    if (!fit_.interrupted) return Status();
    agreed_ = true;
    if (fit_.signal != 0 && !Restores()) {
      return Interrupted(
          fit_.signal, "interrupted after %s: %s", fit_.LastStep().c_str(),
          fit_.kept.empty() ? "nothing was saved" : fit_.kept.c_str());
    }
    // The other ranks cannot know how the chief's save went.
    return Error(Code::kCancelled,
                 "interrupted before epoch %" PRId64 ", step %" PRId64
                 "%s: run again to go on",
                 fit_.epoch + 1, fit_.step + 1,
                 fit_.chief ? "; the state was saved" : "");
  }

  // The rest of the epoch's steps.
  Status Steps(Progress* progress) {
    if (fit_.step >= fit_.steps_per_epoch) return Status();
    std::unique_ptr<BatchLoader> loader;
    LoaderOptions loading;
    loading.start = fit_.position;
    loading.background = options_.prefetch;
    RINGLET_RETURN_IF_ERROR(model_->OpenLoader(dataset_, loading, &loader));
    Logs logs;
    Batch batch;
    while (fit_.step < fit_.steps_per_epoch && !fit_.stop_training) {
      if (RanOut()) return Status();
      RINGLET_RETURN_IF_ERROR(loader->Next(&batch));
      NoteRange(batch);
      RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainBatchBegin));
      RINGLET_RETURN_IF_ERROR(Train(batch).Annotate(
          "epoch %" PRId64 ", step %" PRId64, fit_.epoch + 1, fit_.step + 1));
      SetMetrics(*model_, fit_.metrics.data(), "", &logs);
      RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTrainBatchEnd, logs));
      progress->Update(fit_.step + 1, logs);
      ++fit_.step;
      fit_.position = batch.next;
      TakeBorder();
      const int64_t every = options_.check_replicas_every;
      if (every > 0 && model_->iterations() % every == 0) {
        RINGLET_RETURN_IF_ERROR(CheckReplicas());
      }
      RINGLET_RETURN_IF_ERROR(
          AgreeToStop(model_->collective(), &wishes_, &fit_));
      RINGLET_RETURN_IF_ERROR(SavePoint(/*epoch_ended=*/false));
    }
    return Status();
  }

  Status Train(const Batch& batch) {
    RINGLET_RETURN_IF_ERROR(model_->TrainStep(batch));
    // The weights are a step ahead of what the border holds.
    border_.Forget();
    for (size_t i = 0; i < fit_.metrics.size(); ++i) {
      fit_.metrics[i] += fit_.step_metrics[i];
    }
    return Status();
  }

  // With steps_per_epoch set, a dataset with an end is read once over all
  // epochs of this fit.
  bool RanOut() {
    if (options_.steps_per_epoch == 0 || dataset_.endless()) return false;
    const int64_t used =
        (fit_.epoch - options_.initial_epoch) * options_.steps_per_epoch +
        fit_.step;
    if (used < dataset_.steps(model_->collective()->size())) return false;
    if (fit_.chief) {
      Notice(
          "warning: Your input ran out of data; interrupting training. Make "
          "sure that the dataset can give at least `steps_per_epoch * epochs` "
          "batches (%" PRId64 "); Repeat() lets it begin again.",
          options_.steps_per_epoch * (fit_.epochs - options_.initial_epoch));
    }
    fit_.stop_training = true;
    return true;
  }

  Validation ValidationOfAll() const {
    if (options_.validation_data.empty()) return Validation::kNever;
    if (options_.validation_epochs.empty() && options_.validation_freq == 1) {
      return Validation::kAfterEveryEpoch;
    }
    // Ends at the latest where the list does, or with the second epoch.
    for (int64_t e = options_.initial_epoch; e < options_.epochs; ++e) {
      if (!Validates(e)) return Validation::kAfterSomeEpochs;
    }
    return Validation::kAfterEveryEpoch;
  }

  bool Validates(int64_t epoch) const {
    if (options_.validation_data.empty()) return false;
    const int64_t number = epoch + 1;
    const std::vector<int64_t>& listed = options_.validation_epochs;
    if (!listed.empty()) {
      return std::find(listed.begin(), listed.end(), number) != listed.end();
    }
    return number % options_.validation_freq == 0;
  }

  Status Validate(Logs* logs) {
    const int n = model_->num_metrics();
    const std::vector<MetricState> running(model_->metric_states(),
                                           model_->metric_states() + n);
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTestBegin));
    Logs test;
    int64_t done = 0;
    RINGLET_RETURN_IF_ERROR(RunEvaluation(
        model_, options_.validation_data, options_.validation_steps,
        options_.prefetch, nullptr, "",
        [this](bool* stop) {
          const Status told = Tell(&Callback::OnTestBatchEnd);
          *stop = fit_.interrupted && alone();
          return told;
        },
        &test, &done));
    std::copy(running.begin(), running.end(), model_->metric_states());
    if (fit_.interrupted && alone()) return SavePoint(/*epoch_ended=*/false);
    RINGLET_RETURN_IF_ERROR(Tell(&Callback::OnTestEnd, test));
    for (const auto& entry : test.entries()) {
      logs->Set("val_" + entry.first, entry.second);
    }
    return Status();
  }

  Model* const model_;
  const Dataset& dataset_;
  const FitOptions& options_;
  FitState fit_;
  Logs last_;
  std::vector<unsigned char> wishes_;  // of all ranks; no allocation a step
  const int64_t number_;
  WorkerLines lines_;
  bool agreed_ = false;  // the error is the same on every rank
  bool begun_ = false;   // the run has a state beyond its start
  Border border_;
  bool keeps_border_ = false;
  bool looked_at_range_ = false;
  int64_t diverged_ =
      0;  // the epoch, from 1, since which the loss is not finite
  std::unique_ptr<float[]> weights_;  // as they were before callbacks' changes
};

}  // namespace

void FitState::AppendState(std::vector<StateSpan>* spans) {
  spans->push_back({"fit/epoch", DType::kInt64, {}, &epoch});
  spans->push_back({"fit/step", DType::kInt64, {}, &step});
  spans->push_back({"fit/pass", DType::kInt64, {}, &position.pass});
  spans->push_back({"fit/used", DType::kInt64, {}, &position.used});
  spans->push_back({"fit/stop_training", DType::kUint8, {}, &stop_training});
  // A MetricState is two doubles.
  static_assert(sizeof(MetricState) == 2 * sizeof(double));
  for (size_t i = 0; i < metrics.size(); ++i) {
    spans->push_back({"metric/" + model->metric_name(static_cast<int>(i)),
                      DType::kFloat64,
                      {2},
                      &metrics[i]});
  }
}

namespace {

// Both counted from 1; of = 0: not known.
std::string StepText(int64_t epoch, int64_t step, int64_t of) {
  std::string text =
      "epoch " + std::to_string(epoch) + ", step " + std::to_string(step);
  return of > 0 ? text + " of " + std::to_string(of) : text;
}

}  // namespace

std::string FitState::LastStep() const {
  if (step > 0) return StepText(epoch + 1, step, steps_per_epoch);
  if (epoch == 0) return "no step";
  return "epoch " + std::to_string(epoch);
}

std::string FitState::NextStep() const {
  if (steps_per_epoch > 0 && step >= steps_per_epoch) {
    return "the end of epoch " + std::to_string(epoch + 1);
  }
  return StepText(epoch + 1, step + 1, steps_per_epoch);
}

Status FitState::StateLoaded() {
  if (epoch < 0 || step < 0 || position.pass < 0 || position.used < 0) {
    return Corruption("the saved position of the fit is negative");
  }
  if (stop_training > 1) {
    return Corruption("fit/stop_training is %d", stop_training);
  }
  return Status();
}

std::vector<double> History::Values(const std::string& name) const {
  std::vector<double> values;
  for (const Logs& log : logs) {
    const double* value = log.Find(name);
    values.push_back(
        value != nullptr ? *value : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

Result<History> Model::Fit(const Dataset& dataset, const FitOptions& options) {
  History history;
  if (impl_->fitting) {
    return InvalidArgument("model '%s': a callback calls Fit, which runs",
                           impl_->name.c_str());
  }
  if (compiled()) WarnOfThreads(threads());
  impl_->fitting = true;
  const Status fitted =
      Fitter(this, impl_->fits + 1, dataset, options).Run(&history);
  impl_->fitting = false;
  RINGLET_RETURN_IF_ERROR(fitted);
  ++impl_->fits;
  return history;
}

namespace {

Status EvaluateAll(Model* model, const Dataset& dataset,
                   const EvaluateOptions& options, Logs* logs) {
  RINGLET_RETURN_IF_ERROR(model->status());
  RINGLET_RETURN_IF_ERROR(dataset.status());
  RINGLET_RETURN_IF_ERROR(CheckEndless(dataset, options.steps, "steps"));
  const Collective& collective = *model->collective();
  const int64_t steps =
      options.steps > 0 ? options.steps : dataset.steps(collective.size());
  const bool chief = collective.rank() == 0;
  Progress progress(chief ? options.verbose : Verbose::kSilent, options.out,
                    steps);
  int64_t done = 0;
  RINGLET_RETURN_IF_ERROR(RunEvaluation(model, dataset, steps, options.prefetch,
                                        &progress, "", nullptr, logs, &done));
  progress.Finish(done, *logs);
  return Status();
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
    // Rank after rank, in the pieces that Dataset::Plan cuts.
    const int64_t piece = (batch.global_count + world - 1) / world;
    for (int r = 0; r < world; ++r) {
      const int64_t first = std::min(batch.global_count, piece * r);
      const int64_t count = std::min(piece, batch.global_count - first);
      const float* from = all.data() + mine.size() * r;
      outputs->insert(outputs->end(), from, from + count * width);
    }
  }
  return Status();
}

}  // namespace

Result<Logs> Model::Evaluate(const Dataset& dataset,
                             const EvaluateOptions& options) {
  Logs logs;
  const Status status = EvaluateAll(this, dataset, options, &logs);
  TellOthers(collective(), status, /*agreed=*/false);
  RINGLET_RETURN_IF_ERROR(status);
  return logs;
}

Result<History> Model::Fit(const Dataset& dataset) {
  return Fit(dataset, FitOptions());
}

Result<Logs> Model::Evaluate(const Dataset& dataset) {
  return Evaluate(dataset, EvaluateOptions());
}

Result<std::vector<float>> Model::Predict(const Dataset& dataset) {
  std::vector<float> outputs;
  const Status status = PredictAll(this, dataset, &outputs);
  TellOthers(collective(), status, /*agreed=*/false);
  RINGLET_RETURN_IF_ERROR(status);
  return outputs;
}

}  // namespace ringlet
