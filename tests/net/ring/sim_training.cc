#include "sim_training.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "../../support/tiny_model.h"
#include "core/base/fnv1a.h"
#include "core/fit/fit_details.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace sim {
namespace {

constexpr int kEpochs = 3;

// A clock that advances with each call. For every third worker it advances four
// times as far, as if this worker were slow.
class Pace final : public Clock {
 public:
  explicit Pace(const Collective* collective)
      : nanos_(collective != nullptr && collective->worker() % 3 == 2
                   ? 4000000
                   : 1000000) {}
  int64_t MonotonicNanos() override { return now_ += nanos_; }
  int64_t WallNanos() override { return now_; }

 private:
  const int64_t nanos_;
  int64_t now_ = 0;
};

CompileOptions Options(const Training& training, Collective* collective,
                       Clock* clock) {
  CompileOptions options(collective);
  options.clock = clock;
  options.reduction = Reduction::kExact;
  options.replicas = training.replicas;
  options.local.steps = training.local_steps;
  options.local.participation = training.participation;
  if (training.floats) options.local.delta = LocalUpdates::Delta::kFloat32;
  return options;
}

// Each optimizer keeps a different state between two steps.
Optimizer OptimizerOf(const Training& training) {
  Optimizer optimizer = Adam(0.01f);
  switch (training.optimizer) {
    case 1:
      optimizer.UseEma(/*momentum=*/0.9f, /*overwrite_frequency=*/4);
      break;
    case 2:
      optimizer.GradientAccumulationSteps(3);
      break;
    case 3:
      optimizer = SGD(0.05f, /*momentum=*/0.9f);
      optimizer.ClipNorm(0.5f);
      break;
    default:
      break;
  }
  return optimizer;
}

uint64_t With(const Logs& logs, const char* loss, uint64_t digest) {
  Fnv1a hash;
  const double* const value = logs.Find(loss);
  hash.Add(value, value == nullptr ? 0 : sizeof(*value));
  return hash.value() ^ digest;
}

class ProgressReporter final : public Callback {
 public:
  explicit ProgressReporter(const Trainee& trainee) : trainee_(trainee) {}
  const char* name() const override { return "tells"; }
  Status OnTrainBegin(FitState& fit) override {
    if (trainee_.resumes != nullptr && !fit.details->restored_from.empty()) {
      trainee_.resumes(fit.details->restored_from);
    }
    return Status();
  }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (trainee_.begins != nullptr) trainee_.begins(fit.model->iterations());
    return Status();
  }
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override {
    trainee_.ends(fit.model->iterations(),
                  With(logs, "loss", fit.model->DigestWeights()));
    return Status();
  }
  Status OnEpochEnd(FitState& fit, Logs* logs) override {
    trainee_.ends(-1 - fit.epoch, With(*logs, "val_loss", 0));
    return Status();
  }
  void OnFitReturn(FitState&, const Status& status) override {
    if (trainee_.hears != nullptr && status.code() == Code::kPeerLost &&
        std::strstr(status.message(), "that machine is at fault") != nullptr) {
      trainee_.hears();
    }
  }

 private:
  const Trainee& trainee_;
};

// Between steps the program evaluates, and sums a number over the ranks.
Status TrainInLoop(Model* model, TrainingLoop* loop) {
  EvaluateOptions quiet;
  quiet.verbose = Verbose::kSilent;
  RINGLET_RETURN_IF_ERROR(loop->Begin());
  while (loop->HasEpoch()) {
    while (loop->HasStep()) {
      RINGLET_RETURN_IF_ERROR(loop->Step());
      if (loop->step() % 4 != 2) continue;
      loop->CloseData();
      RINGLET_RETURN_IF_ERROR(
          model->Evaluate(Points(20).Batch(10), quiet).status());
    }
    double one = 1;
    RINGLET_RETURN_IF_ERROR(SumOverRanks(model->collective(), &one, 1));
    RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
  }
  return loop->End();
}

void AddCallbacks(FitOptions* fit) {
  EarlyStoppingOptions stops;
  stops.monitor = "val_accuracy";
  stops.patience = kEpochs;
  stops.restore_best_weights = true;
  fit->callbacks.push_back(EarlyStopping(stops));
  ReduceLROnPlateauOptions reduces;
  reduces.min_delta = 1;
  reduces.patience = 1;
  fit->callbacks.push_back(ReduceLROnPlateau(reduces));
}

FitOptions FitWith(const Training& training, const Trainee& trainee) {
  FitOptions fit = Quiet(kEpochs);
  if (training.repeats) fit.steps_per_epoch = 6;
  fit.check_replicas_every = training.check_every;
  fit.validation_data = Points(61).Batch(100);
  if (trainee.disk != nullptr && training.save_freq >= 0) {
    BackupAndRestoreOptions backup;
    backup.save_freq = training.save_freq;
    backup.save_before_preemption = false;
    backup.background = false;  // another thread has no virtual time
    backup.files = trainee.disk;
    backup.clock = trainee.clock;
    fit.callbacks.push_back(BackupAndRestore("backup", backup));
  }
  if (training.callbacks) AddCallbacks(&fit);
  // Before ModelCheckpoint: a save compares the workers, and may find a wrong
  // step.
  fit.callbacks.push_back(std::make_shared<ProgressReporter>(trainee));
  if (trainee.disk != nullptr && training.model_freq >= 0) {
    ModelCheckpointOptions saves;
    saves.save_weights_only = true;
    saves.save_freq = training.model_freq;
    saves.files = trainee.disk;
    fit.callbacks.push_back(ModelCheckpoint("m.weights.safetensors", saves));
  }
  return fit;
}

}  // namespace

Status Train(const Training& training, const Trainee& trainee) {
  Pace pace(trainee.collective);
  Sequential model({Input({2}), Dense(training.wide ? 520 : 16, kRelu),
                    Dropout(0.2f), BatchNormalization(0.9f),
                    Custom(trainee.layer), Dense(3)});
  model.Compile(OptimizerOf(training),
                SparseCategoricalCrossentropy(kFromLogits), {Accuracy()},
                Options(training, trainee.collective, &pace));
  const FitOptions fit = FitWith(training, trainee);
  const Dataset data = training.repeats
                           ? Points(91).Shuffle(3).Repeat().Batch(40)
                           : Points(203).Shuffle(3).Batch(40);
  Status status;
  if (!training.in_loop) {
    status = model.Fit(data, fit).status();
  } else {
    TrainingLoop loop(&model, data, fit);
    do {
      status = TrainInLoop(&model, &loop);
    } while (loop.Recover(&status));
  }
  if (status.ok()) trainee.ends(0, model.DigestWeights());
  return status;
}

const Digests& Undisturbed(const Training& training) {
  static std::map<decltype(training.Key()), Digests> runs;
  Digests& run = runs[training.Key()];
  if (!run.empty()) return run;
  Training alone = training;
  alone.in_loop = false;
  Trainee trainee;
  trainee.layer = std::make_shared<OneBitLayer>(0);
  trainee.ends = [&](int64_t step, uint64_t digest) { run[step] = digest; };
  const Status status = Train(alone, trainee);
  if (!status.ok()) std::printf("undisturbed: %s\n", status.message());
  return run;
}

}  // namespace sim
}  // namespace ringlet
