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
//   crashes=R@S      elastic=1; every seventh step saves the model; rank R is
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

// A rank and a step, as in "1@20"; rank -1 without the option.
struct At {
  int rank = -1;
  int64_t step = 0;
};

struct Settings {
  std::string folder;
  StrategyOptions cluster;
  bool backup = false, in_loop = false, full = false, large = false;
  At slow, error, record, save, rate, drags, wrong, crashes;
};

At ParseAt(const char* value) {
  const char* const step = std::strchr(value, '@');
  return {std::atoi(value), step == nullptr ? 0 : std::atoi(step + 1)};
}

void MakeElastic(int min_workers, int replicas, Settings* settings) {
  settings->cluster.min_workers = min_workers;
  settings->cluster.replicas = replicas;
}

void MakeRounds(int steps, Settings* settings) {
  settings->cluster.local.steps = steps;
  settings->cluster.local.overlap = true;
  settings->cluster.replicas = 4;
}

template <At Settings::*kField>
void Set(const char* value, Settings* settings) {
  settings->*kField = ParseAt(value);
}

struct Option {
  const char* name;
  void (*apply)(const char* value, Settings* settings);
};
constexpr Option kOptions[] = {
    {"timeout",
     [](const char* value, Settings* settings) {
       settings->cluster.timeout_seconds = std::atof(value);
     }},
    {"full", [](const char*, Settings* settings) { settings->full = true; }},
    {"large",
     [](const char*, Settings* settings) {
       settings->full = settings->large = true;
     }},
    {"error", Set<&Settings::error>},
    {"record", Set<&Settings::record>},
    {"save", Set<&Settings::save>},
    {"slow", Set<&Settings::slow>},
    {"rate", Set<&Settings::rate>},
    {"elastic",
     [](const char* value, Settings* settings) {
       MakeElastic(std::atoi(value), 6, settings);
     }},
    {"loop",
     [](const char* value, Settings* settings) {
       settings->in_loop = true;
       MakeElastic(std::atoi(value), 6, settings);
     }},
    {"sparse",
     [](const char* value, Settings* settings) {
       settings->cluster.local.delta = LocalUpdates::Delta::kSparse;
       MakeRounds(std::atoi(value), settings);
     }},
    {"overlap",
     [](const char* value, Settings* settings) {
       MakeRounds(std::atoi(value), settings);
     }},
    {"crashes",
     [](const char* value, Settings* settings) {
       settings->crashes = ParseAt(value);
       MakeElastic(1, 6, settings);
     }},
    {"drags",
     [](const char* value, Settings* settings) {
       settings->drags = ParseAt(value);
       MakeElastic(1, 8, settings);
     }},
    {"wrong",
     [](const char* value, Settings* settings) {
       settings->wrong = ParseAt(value);
       MakeElastic(1, 8, settings);
     }},
};

Settings ReadSettings(int argc, char** argv) {
  Settings settings;
  settings.folder = argv[1];
  settings.cluster.timeout_seconds = 5;
  settings.cluster.start_timeout_seconds = 30;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "backup") settings.backup = true;
    const size_t end = argument.find('=');
    if (end == std::string::npos) continue;
    for (const Option& option : kOptions) {
      if (argument.substr(0, end) != option.name) continue;
      option.apply(argument.c_str() + end + 1, &settings);
    }
  }
  return settings;
}

// A disk without room for another file.
class FullDisk : public WrappedDisk {
 public:
  Status Create(const std::string& path, std::unique_ptr<File>*) override {
    return OsError(ENOSPC, "%s: creating", path.c_str());
  }
};

// A disk that kills its worker in an operation.
class CrashingDisk final : public WrappedDisk {
 public:
  CrashingDisk(const Model* model, int64_t step)
      : model_(*model), step_(step) {}
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

class Worker {
 public:
  explicit Worker(const Settings& settings)
      : settings_(settings),
        strategy_(
            MultiWorkerMirroredStrategy::FromEnvironment(settings.cluster)),
        rank_(std::to_string(strategy_.worker())),
        slow_layer_(std::make_shared<SlowLayer>(Is(settings.drags) ? 12 : 3)),
        model_(MakeModel()),
        crashing_disk_(model_.get(),
                       Is(settings.crashes) ? settings.crashes.step : -1) {
    // A program may change the rate after Compile, which cannot compare it.
    if (Is(settings.rate)) model_->SetLearningRate(0.02f);
  }

  Status Run() {
    Dataset points = Points(300);
    if (Is(settings_.record)) {
      points = Dataset(std::make_shared<Damaged>(points.source(), model_.get(),
                                                 settings_.record.step));
    }
    RINGLET_RETURN_IF_ERROR(
        Train(model_.get(), points.Shuffle(4).Repeat().Batch(13),
              MakeFitOptions(), settings_.folder, settings_.in_loop));
    if (settings_.drags.rank >= 0) {
      WriteWhole(Path("trained." + rank_),
                 std::to_string(slow_layer_->trained()));
    }
    return SaveCheckpoint(Path("final." + rank_ + ".safetensors"),
                          {model_->weights_state(), model_->optimizer_state()});
  }

 private:
  bool Is(const At& at) const { return at.rank == strategy_.worker(); }
  std::string Path(const std::string& name) const {
    return settings_.folder + "/" + name;
  }

  std::unique_ptr<Sequential> MakeModel() const {
    if (settings_.large) return LargeModel(strategy_);
    if (settings_.wrong.rank >= 0) return TinyModelWith(one_bit_, strategy_);
    if (settings_.drags.rank >= 0) return SlowModel(slow_layer_, strategy_);
    return TinyModel(Adam(0.01f), /*dropout=*/0.2f, strategy_);
  }

  // Carries out `wrong` and `slow`, and waits for the test after each step.
  std::shared_ptr<Callback> MakeStepCallback() {
    LambdaCallbackOptions lambda;
    lambda.on_train_batch_begin = [this](int64_t) {
      if (Is(settings_.wrong) && model_->iterations() >= settings_.wrong.step) {
        one_bit_->Break();
      }
    };
    lambda.on_train_batch_end = [this](int64_t, const Logs&) {
      ReplaceWhole(Path("step." + rank_), std::to_string(model_->iterations()));
      AwaitTest(settings_.folder, model_->iterations());
    };
    lambda.on_epoch_end = [this](int64_t, const Logs&) {
      if (!Is(settings_.slow) || model_->iterations() != settings_.slow.step) {
        return;
      }
      if (Exists(Path("slow"))) return;
      WriteWhole(Path("slow"), "");
      sleep(300);
    };
    return LambdaCallback(lambda);
  }

  FitOptions MakeFitOptions() {
    FitOptions options;
    options.epochs = 4;
    options.steps_per_epoch = settings_.large ? 5 : 40;
    if (settings_.crashes.rank >= 0) {
      ModelCheckpointOptions saving;
      saving.save_freq = 7;
      saving.files = &crashing_disk_;
      options.callbacks.push_back(
          ModelCheckpoint(Path("{epoch}-{batch}.safetensors"), saving));
    }
    options.callbacks.push_back(MakeStepCallback());
    options.callbacks.push_back(StepLogger(Path("steps.csv")));
    options.callbacks.push_back(CSVLogger(Path("log.csv")));
    if (settings_.backup) {
      BackupAndRestoreOptions saving = SaveEvery(7);
      if (settings_.full) saving.files = &full_disk_;
      options.callbacks.push_back(BackupAndRestore(Path("backup"), saving));
    }
    options.callbacks.push_back(std::make_shared<FailingCallback>(
        Is(settings_.error) ? settings_.error.step : 0, Is(settings_.save)));
    return options;
  }

  const Settings settings_;
  const MultiWorkerMirroredStrategy strategy_;
  const std::string rank_;
  const std::shared_ptr<SlowLayer> slow_layer_;
  const std::shared_ptr<OneBitLayer> one_bit_ =
      std::make_shared<OneBitLayer>(/*bit=*/27);
  const std::unique_ptr<Sequential> model_;
  CrashingDisk crashing_disk_;
  FullDisk full_disk_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return ExitCode(Worker(ReadSettings(argc, argv)).Run());
}
