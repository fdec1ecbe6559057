// A worker of a small job. job_test starts it and kills it.
//
//   job_runner FOLDER [backup] [OPTION=VALUE]...
//
// TF_CONFIG has the job's addresses and the worker's index. R is a rank, S a
// step, N a number of workers, H a number of local steps.
//
//   OPTION           EFFECT
//   timeout=SECONDS  timeout of the ring; 5 without it
//   full=1           the disk is full: no backup can be written
//   large=1          full=1, with a model that takes a while to send
//   error=R@S        a callback of rank R returns an error at its step S
//   record=R@S       rank R cannot read its examples from its step S on
//   save=R           rank R cannot save its model at the end
//   slow=R@S         at the end of the epoch after S steps, before the epoch is
//                    logged, rank R writes FOLDER/slow and waits to be killed;
//                    not if the file exists
//   rate=R           rank R has another learning rate
//   elastic=N        an elastic job of 6 replicas, with min_workers N
//   loop=N           elastic=N, in a user-defined training loop
//   sparse=H         rounds of H local steps, sparse changes, overlap
//   overlap=H        rounds of H local steps, overlap
//   dies=R@S         elastic=1; every seventh step saves the model; rank R is
//                    killed while it saves at step S
//   drags=R          elastic, of 8 replicas, each of which takes rank R four
//                    times as long as the others
//   wrong=R@S        elastic, of 8 replicas; from step S on one bit of a
//                    gradient of rank R is wrong in each pass
//
//   FILE                            WRITTEN BY THE WORKER
//   FOLDER/step.<rank>              after every step
//   FOLDER/final.<rank>.safetensors at its end
//
//   FILE                            WRITTEN BY THE TEST
//   FOLDER/limit                    a step, after which each worker waits until
//                                   the file has a greater one or is deleted
//   FOLDER/await                    while it exists, each worker waits after
//                                   every step until a worker asks to join

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "ringlet/ringlet.h"
#include "support/one_bit_layer.h"
#include "support/slow_layer.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"
#include "support/wrapped_disk.h"

using namespace ringlet;

namespace {

// The rank and the step of "error=1@20"; rank -1 where the option is another.
struct At {
  At(const char* argument, const std::string& option) {
    if (std::strncmp(argument, (option + "=").c_str(), option.size() + 1) != 0)
      return;
    rank = std::atoi(argument + option.size() + 1);
    const char* at = std::strchr(argument, '@');
    if (at != nullptr) step = std::atoi(at + 1);
  }
  int rank = -1;
  int64_t step = 0;
};

// A disk without room for another file.
class FullDisk : public WrappedDisk {
 public:
  Status Create(const std::string& path, std::unique_ptr<File>*) override {
    return OsError(ENOSPC, "%s: creating", path.c_str());
  }
};

// A disk that kills its worker in an operation.
class DeadlyDisk final : public WrappedDisk {
 public:
  DeadlyDisk(const Model* model, int64_t step) : model_(*model), step_(step) {}
  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    if (model_.iterations() == step_) raise(SIGKILL);
    return WrappedDisk::Create(path, file);
  }

 private:
  const Model& model_;
  const int64_t step_;
};

// Points that cannot be read after `step` steps of the model.
class Damaged final : public Source {
 public:
  Damaged(std::shared_ptr<Source> whole, Model* model, int64_t step)
      : whole_(std::move(whole)), model_(model), step_(step) {}
  int64_t size() const override { return whole_->size(); }
  ExampleSpec x() const override { return whole_->x(); }
  ExampleSpec y() const override { return whole_->y(); }
  std::string name() const override { return "points"; }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    if (model_->iterations() >= step_)
      return Corruption("points: example %d is damaged",
                        static_cast<int>(*index));
    return whole_->Read(index, count, x, y);
  }

 private:
  const std::shared_ptr<Source> whole_;
  Model* const model_;
  const int64_t step_;
};

class FailingCallback final : public Callback {
 public:
  FailingCallback(int64_t step, bool at_end) : step_(step), at_end_(at_end) {}
  const char* name() const override { return "fails"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    if (at_end_ || step_ == 0 || fit.model->iterations() < step_)
      return Status();
    return Error(Code::kIo, "the sensor is gone");
  }
  Status OnTrainEnd(FitState&, const Logs&) override {
    if (!at_end_) return Status();
    return OsError(ENOSPC, "model.safetensors: writing");
  }

 private:
  const int64_t step_;
  const bool at_end_;
};

bool Exists(const std::string& file) { return access(file.c_str(), F_OK) == 0; }

// Waits while FOLDER/limit forbids the next step; five minutes at most.
void AwaitTest(const std::string& folder, int64_t step) {
  for (int i = 0; i < 300000; ++i) {
    const std::string limit = ReadWhole(folder + "/limit");
    if (limit.empty() || step < std::atoi(limit.c_str())) return;
    usleep(1000);
  }
}

std::unique_ptr<Sequential> LargeModel(const CompileOptions& options) {
  auto model = std::make_unique<Sequential>();
  model->Add(Input({2}));
  model->Add(Dense(1000, kRelu));
  model->Add(Dense(1000, kRelu));
  model->Add(Dense(3));
  model->Compile(Adam(0.001f), SparseCategoricalCrossentropy(kFromLogits),
                 {Accuracy()}, options);
  return model;
}

Status TrainInLoop(TrainingLoop* loop, const std::string& folder) {
  RINGLET_RETURN_IF_ERROR(loop->Begin());
  while (loop->HasEpoch()) {
    while (loop->HasStep()) RINGLET_RETURN_IF_ERROR(loop->Step());
    if (loop->chief()) {
      WriteWhole(folder + "/epoch." + std::to_string(loop->epoch()),
                 std::to_string(*loop->logs().Find("loss")));
    }
    RINGLET_RETURN_IF_ERROR(loop->EndEpoch());
  }
  return loop->End();
}

Status Train(Model* model, const Dataset& data, const FitOptions& options,
             const std::string& folder, bool in_loop) {
  if (!in_loop) return model->Fit(data, options).status();
  TrainingLoop loop(model, data, options);
  Status status;
  do {
    status = TrainInLoop(&loop, folder);
  } while (loop.Recover(&status));
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1];
  StrategyOptions cluster;
  cluster.timeout_seconds = 5;
  bool backup = false, in_loop = false;
  At slow("", ""), full("", ""), large("", ""), error("", ""), record("", ""),
      save("", ""), rate("", ""), drags("", ""), wrong("", ""), dies("", "");
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "backup") == 0) backup = true;
    if (std::strncmp(argv[i], "timeout=", 8) == 0)
      cluster.timeout_seconds = std::atof(argv[i] + 8);
    if (At(argv[i], "loop").rank >= 0) in_loop = true;
    if (At(argv[i], "dies").rank >= 0) dies = At(argv[i], "dies");
    if (At(argv[i], "elastic").rank >= 0 || At(argv[i], "loop").rank >= 0 ||
        dies.rank >= 0) {
      cluster.min_workers =
          dies.rank >= 0 ? 1 : std::atoi(std::strchr(argv[i], '=') + 1);
      cluster.replicas = 6;
    }
    for (const char* const name : {"sparse", "overlap"}) {
      if (At(argv[i], name).rank < 0) continue;
      cluster.local.steps = At(argv[i], name).rank;
      cluster.local.overlap = true;
      if (name[0] == 's') {
        cluster.local.delta = LocalUpdates::Delta::kSparse;
      }
      cluster.replicas = 4;
    }
    if (At(argv[i], "wrong").rank >= 0) wrong = At(argv[i], "wrong");
    if (At(argv[i], "drags").rank >= 0) drags = At(argv[i], "drags");
    if (wrong.rank >= 0 || drags.rank >= 0) {
      cluster.min_workers = 1;
      cluster.replicas = 8;
    }
    if (At(argv[i], "full").rank >= 0) full = At(argv[i], "full");
    if (At(argv[i], "large").rank >= 0) full = large = At(argv[i], "large");
    if (At(argv[i], "slow").rank >= 0) slow = At(argv[i], "slow");
    if (At(argv[i], "error").rank >= 0) error = At(argv[i], "error");
    if (At(argv[i], "record").rank >= 0) record = At(argv[i], "record");
    if (At(argv[i], "save").rank >= 0) save = At(argv[i], "save");
    if (At(argv[i], "rate").rank >= 0) rate = At(argv[i], "rate");
  }
  cluster.start_timeout_seconds = 30;
  const auto strategy = MultiWorkerMirroredStrategy::FromEnvironment(cluster);
  const std::string rank = std::to_string(strategy.worker());
  const int own = strategy.worker();
  const auto slow_layer =
      std::make_shared<SlowLayer>(drags.rank == own ? 12 : 3);
  const auto one_bit = std::make_shared<OneBitLayer>(/*bit=*/27);
  auto model = large.rank >= 0   ? LargeModel(strategy)
               : wrong.rank >= 0 ? TinyModelWith(one_bit, strategy)
               : drags.rank >= 0
                   ? SlowModel(slow_layer, strategy)
                   : TinyModel(Adam(0.01f), /*dropout=*/0.2f, strategy);
  // A program may change the rate after Compile, which cannot compare it.
  if (rate.rank == own) model->SetLearningRate(0.02f);

  FitOptions options;
  options.epochs = 4;
  options.steps_per_epoch = large.rank >= 0 ? 5 : 40;
  LambdaCallbackOptions lambda;
  lambda.on_train_batch_begin = [&](int64_t) {
    if (wrong.rank == own && model->iterations() >= wrong.step) {
      one_bit->Break();
    }
  };
  lambda.on_train_batch_end = [&](int64_t, const Logs&) {
    ReplaceWhole(folder + "/step." + rank, std::to_string(model->iterations()));
    AwaitTest(folder, model->iterations());
  };
  lambda.on_epoch_end = [&](int64_t, const Logs&) {
    if (slow.rank != own || model->iterations() != slow.step) return;
    if (Exists(folder + "/slow")) return;
    WriteWhole(folder + "/slow", "");
    sleep(300);
  };
  options.callbacks = {LambdaCallback(lambda),
                       StepLogger(folder + "/steps.csv"),
                       CSVLogger(folder + "/log.csv")};
  DeadlyDisk deadly_disk(model.get(), dies.rank == own ? dies.step : -1);
  if (dies.rank >= 0) {
    ModelCheckpointOptions saving;
    saving.save_freq = 7;
    saving.files = &deadly_disk;
    options.callbacks.insert(
        options.callbacks.begin(),
        ModelCheckpoint(folder + "/{epoch}-{batch}.safetensors", saving));
  }
  FullDisk full_disk;
  if (backup) {
    BackupAndRestoreOptions saving = SaveEvery(7);
    if (full.rank >= 0) saving.files = &full_disk;
    options.callbacks.push_back(BackupAndRestore(folder + "/backup", saving));
  }
  options.callbacks.push_back(std::make_shared<FailingCallback>(
      error.rank == own ? error.step : 0, save.rank == own));
  Dataset points = Points(300);
  if (record.rank == own)
    points = Dataset(
        std::make_shared<Damaged>(points.source(), model.get(), record.step));
  const Status trained =
      Train(model.get(), points.Shuffle(4).Repeat().Batch(13), options, folder,
            in_loop);
  if (!trained.ok()) return ExitCode(trained);
  if (drags.rank >= 0) {
    WriteWhole(folder + "/trained." + rank,
               std::to_string(slow_layer->trained()));
  }
  return ExitCode(
      SaveCheckpoint(folder + "/final." + rank + ".safetensors",
                     {model->weights_state(), model->optimizer_state()}));
}
