// The trained model is kept exactly, whatever callbacks save and change it.

#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <functional>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/fit/fit_details.h"
#include "core/fit/interrupts.h"
#include "ringlet/fit.h"
#include "saving_fit.h"

namespace ringlet {
namespace {

// The weights and the optimizer's state, as one text.
std::string StateOf(Model* model) {
  std::vector<StateSpan> spans;
  model->weights_state()->AppendState(&spans);
  model->optimizer_state()->AppendState(&spans);
  std::string state;
  for (const StateSpan& span : spans) {
    state += span.name + "\n";
    state.append(static_cast<const char*>(span.data), span.bytes());
  }
  return state;
}

// A disk on which no file can be made in folder "c" while it is full.
// ModelCheckpoint writes to this folder.
struct Crammed final : Disk {
  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    if (is_full && path.compare(0, 2, "c/") == 0) {
      return OsError(ENOSPC, "%s: creating", path.c_str());
    }
    return Disk::Create(path, file);
  }
  bool is_full = false;
};

enum class FitEnd : uint8_t {
  kCompletes,
  kFolderIsFull,  // a full disk, the second epoch on
  kSignal,        // a signal in the second epoch
};
constexpr int64_t kEpochs = 3;

// Fills the folder, or raises the signal, in the second epoch. Records
// saved_model at the end of the fit.
class Ending final : public Callback {
 public:
  Ending(FitEnd end, Crammed* files) : end_(end), files_(*files) {}
  const char* name() const override { return "ending"; }
  Status OnTrainBatchBegin(FitState& fit) override {
    if (fit.epoch != 1 || fit.step != 1) return Status();
    files_.is_full = end_ == FitEnd::kFolderIsFull;
    if (end_ == FitEnd::kSignal) raise(SIGTERM);
    return Status();
  }
  void OnFitReturn(FitState& fit, const Status&) override {
    saved_model = fit.details->saved.path;
  }
  std::string saved_model;

 private:
  const FitEnd end_;
  Crammed& files_;
};

// Stochastic weight averaging: the final weights are the mean over the epochs.
class WeightAverager final : public Callback {
 public:
  const char* name() const override { return "averages_at_the_end"; }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    const std::vector<float> now = WeightsOf(fit.model);
    sums_.resize(now.size());
    for (size_t i = 0; i < now.size(); ++i) sums_[i] += now[i];
    ++epochs_;
    return Status();
  }
  Status OnTrainEnd(FitState& fit, const Logs&) override {
    for (size_t i = 0; i < sums_.size(); ++i) {
      fit.model->weights()[i] = sums_[i] / epochs_;
    }
    return Status();
  }

 private:
  std::vector<float> sums_;
  float epochs_ = 0;
};

// Stops the fit in step `step` of an epoch, or at the epoch's end (-1).
class StopsIn final : public Callback {
 public:
  explicit StopsIn(int64_t step) : step_(step) {}
  const char* name() const override { return "stops_in"; }
  Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
    if (fit.epoch + 1 == kEpochs && fit.step == step_) fit.stop_training = 1;
    return Status();
  }
  Status OnEpochEnd(FitState& fit, Logs*) override {
    if (fit.epoch + 2 == kEpochs && step_ < 0) fit.stop_training = 1;
    return Status();
  }

 private:
  const int64_t step_;
};

using Callbacks = std::vector<std::shared_ptr<Callback>>;

struct Saver {
  const char* name;
  std::vector<std::pair<const char*, ModelCheckpointOptions>> checkpoints;
  bool backup = false;
};

ModelCheckpointOptions EveryEpoch() { return {}; }
ModelCheckpointOptions EverySteps(int64_t steps) {
  ModelCheckpointOptions options;
  options.save_freq = steps;
  return options;
}
ModelCheckpointOptions Best() {
  ModelCheckpointOptions options;
  options.save_best_only = true;
  return options;
}
ModelCheckpointOptions WeightsOnly(ModelCheckpointOptions options) {
  options.save_weights_only = true;
  return options;
}
ModelCheckpointOptions Halved() {
  ModelCheckpointOptions options;
  options.weights = Storage::kF16;
  return options;
}

std::vector<Saver> Savers() {
  const char *one = "c/m.safetensors", *epoch_path = "c/m-{epoch}.safetensors",
             *step_path = "c/m-{epoch}-{batch}.safetensors",
             *weights = "c/m.weights.safetensors",
             *weights_of_epoch = "c/m-{epoch}.weights.safetensors";
  return {
      {"none", {}},
      {"epoch", {{one, EveryEpoch()}}},
      {"epoch, numbered", {{epoch_path, EveryEpoch()}}},
      {"steps that divide", {{one, EverySteps(3)}}},
      {"steps that do not divide", {{one, EverySteps(4)}}},
      {"steps, numbered", {{step_path, EverySteps(4)}}},
      {"steps, never", {{one, EverySteps(1000)}}},
      {"best", {{one, Best()}}},
      {"best, numbered", {{epoch_path, Best()}}},
      {"weights", {{weights, WeightsOnly(EveryEpoch())}}},
      {"weights, numbered", {{weights_of_epoch, WeightsOnly(EveryEpoch())}}},
      {"weights, steps", {{weights, WeightsOnly(EverySteps(3))}}},
      {"weights, best", {{weights, WeightsOnly(Best())}}},
      {"rounded", {{one, Halved()}}},
      {"best and epoch", {{one, Best()}, {epoch_path, EveryEpoch()}}},
      {"epoch and best", {{epoch_path, EveryEpoch()}, {one, Best()}}},
      {"weights over the model",
       {{weights, EveryEpoch()}, {weights, WeightsOnly(EveryEpoch())}}},
      {"backup", {}, true},
      {"backup and epoch", {{one, EveryEpoch()}}, true},
      {"backup and best", {{one, Best()}}, true},
  };
}

struct Changer {
  const char* name;
  Optimizer optimizer;
  std::function<std::shared_ptr<Callback>()> make;  // empty: none
};

std::vector<Changer> Changers() {
  const auto early = [](int64_t patience) {
    return [patience] {
      EarlyStoppingOptions options;
      options.monitor = "accuracy";  // which soon does not change
      options.min_delta = 1;
      options.patience = patience;
      options.restore_best_weights = true;
      return EarlyStopping(options);
    };
  };
  const auto plateau = [] {
    ReduceLROnPlateauOptions options;
    options.monitor = "loss";
    options.patience = 1;
    options.min_delta = 100;
    return ReduceLROnPlateau(options);
  };
  const auto scheduler = [] {
    return LearningRateScheduler(
        [](int64_t, float rate) { return rate * 0.5f; });
  };
  const auto stop_in = [](int64_t step) {
    return [step] { return std::make_shared<StopsIn>(step); };
  };
  Optimizer ema = Adam(0.01f), overwrites = Adam(0.01f), sums = Adam(0.01f);
  ema.use_ema = overwrites.use_ema = true;
  overwrites.ema_overwrite_frequency = 5;
  sums.gradient_accumulation_steps = 4;  // does not divide the 27 steps
  return {
      {"none", Adam(0.01f), {}},
      {"early stopping", Adam(0.01f), early(1)},
      {"early stopping that does not stop", Adam(0.01f), early(10)},
      {"use_ema", ema, {}},
      {"use_ema that overwrites", overwrites, {}},
      {"use_ema and early stopping", ema, early(10)},
      {"plateau", Adam(0.01f), plateau},
      {"scheduler", Adam(0.01f), scheduler},
      {"stop in a step", Adam(0.01f), stop_in(4)},
      {"stop at an epoch's end", Adam(0.01f), stop_in(-1)},
      {"accumulation", sums, {}},
      {"accumulation and stop", sums, stop_in(4)},
      {"averages", Adam(0.01f),
       [] { return std::make_shared<WeightAverager>(); }},
  };
}

struct Combination {
  Saver saver;
  Changer changer;
  bool named = false;       // the file of --save
  bool saves_first = true;  // the saver comes before the changer
  FitEnd end = FitEnd::kCompletes;
};

// The result of a fit of a combination.
struct Left {
  Status status;
  std::string state;  // the model's state in memory
  std::string saved_model;
};

Left FitOf(const Combination& c, FitEnd end, Crammed* files, Disk* backups) {
  Callbacks saves, changes;
  for (auto [path, options] : c.saver.checkpoints) {
    options.files = files;
    options.monitor = "loss";
    saves.push_back(ModelCheckpoint(path, options));
  }
  if (c.changer.make) changes.push_back(c.changer.make());
  if (c.saver.backup) {
    BackupAndRestoreOptions backup;
    backup.files = backups;
    backup.background = false;
    saves.push_back(BackupAndRestore("b", backup));
  }
  SaveWhenTrainedOptions options;
  options.files = files;
  options.fallback_folder = "e";
  options.metadata = {{"run", "1"}};
  options.keep_others = options.skip_if_saved = !c.named;
  const auto ending = std::make_shared<Ending>(end, files);
  FitOptions fit = Quiet(kEpochs);
  fit.callbacks = {ending};
  for (const Callbacks* next :
       {c.saves_first ? &saves : &changes, c.saves_first ? &changes : &saves}) {
    fit.callbacks.insert(fit.callbacks.end(), next->begin(), next->end());
  }
  fit.callbacks.push_back(SaveWhenTrained("m.safetensors", options));
  auto model = TinyModel(c.changer.optimizer, /*dropout=*/0.2f);
  testing::internal::CaptureStderr();
  Left left;
  left.status = model->Fit(Data(), fit).status();
  testing::internal::GetCapturedStderr();
  left.state = StateOf(model.get());
  left.saved_model = ending->saved_model;
  return left;
}

// Returns true if the file has exactly this state of the model and its
// optimizer.
bool Has(const std::string& path, const std::string& state, Disk* files) {
  SafetensorsReader file;
  if (!file.Open(files, path).ok()) return false;
  if (file.metadata().count("compile") == 0) return false;  // weights alone
  std::unique_ptr<Model> model;
  const Status loaded = LoadModel(path, &model, {}, files);
  EXPECT_OK(loaded);
  return loaded.ok() && StateOf(model.get()) == state;
}

// The number of ModelCheckpoint's files that have this state.
int CheckpointsThatHave(const std::string& state, Disk* files) {
  int count = 0;
  for (const std::string& path : files->Paths()) {
    if (path.compare(0, 2, "c/") == 0 && Has(path, state, files)) ++count;
  }
  return count;
}

void MakeFolders(Crammed* files) {
  for (const char* folder : {"c", "e"}) {
    ASSERT_OK(files->MakeFolder(folder));
  }
}

// Increments *twice for a run with a second file, and *failed for a run with a
// failed last save.
void CheckCompleted(const Combination& c, Crammed* files, const Left& left,
                    int* twice, int* failed) {
  if (!left.status.ok()) {
    ++*failed;
    EXPECT_EQ(c.end, FitEnd::kFolderIsFull) << left.status.message();
    EXPECT_EQ(ExitCodeOf(left.status), 1);
    EXPECT_TRUE(Contains(left.status,
                         "the model is in " + left.saved_model + " instead: "));
  }
  EXPECT_TRUE(Has(left.saved_model, left.state, files)) << left.saved_model;
  const int checkpoints = CheckpointsThatHave(left.state, files);
  const bool own = files->Content("m.safetensors") != nullptr;
  // Without --save there is no second file of the same state.
  if (!c.named && left.status.ok()) {
    EXPECT_EQ(own, left.saved_model == "m.safetensors");
    if (own) {
      EXPECT_EQ(checkpoints, 0);
    }
  }
  if (c.named) {
    EXPECT_TRUE(own);
  }
  if (own && !c.saver.checkpoints.empty()) ++*twice;
}

void CheckInterrupted(const Combination& c, Crammed* files, Disk* backups,
                      const Left& left) {
  const std::string path = "m-interrupted.safetensors";
  if (!c.saver.backup) {
    EXPECT_EQ(left.status.code(), Code::kInterrupted) << left.status.message();
    EXPECT_EQ(left.saved_model, path);
    EXPECT_TRUE(Has(path, left.state, files));
    return;
  }
  EXPECT_EQ(left.status.code(), Code::kCancelled) << left.status.message();
  EXPECT_EQ(files->Content(path), nullptr);
  // The same command resumes the fit and ends with the same model.
  const Left resumed = FitOf(c, FitEnd::kCompletes, files, backups);
  ASSERT_OK(resumed.status);
  EXPECT_TRUE(Has(resumed.saved_model, resumed.state, files));
  Crammed other;
  Disk none;
  MakeFolders(&other);
  Combination undisturbed = c;
  undisturbed.saver.backup = false;
  // The callback of this test has no state in the backup.
  if (std::string(c.changer.name) == "averages") return;
  EXPECT_EQ(FitOf(undisturbed, FitEnd::kCompletes, &other, &none).state,
            resumed.state);
}

std::vector<Combination> Combinations() {
  std::vector<Combination> all;
  for (const Saver& saver : Savers()) {
    for (const Changer& changer : Changers()) {
      for (const FitEnd end :
           {FitEnd::kCompletes, FitEnd::kFolderIsFull, FitEnd::kSignal}) {
        for (const bool named : {false, true}) {
          for (const bool first : {false, true}) {
            if (first && !changer.make) continue;  // no changer, so no order
            all.push_back({saver, changer, named, first, end});
          }
        }
      }
    }
  }
  return all;
}

// The file that is reported has exactly the model that training ends with. If
// its ModelCheckpoint failed, the error of the fit names the file.
TEST(SaveWhenTrainedTest, TrainedModel_AnyCallbacks_IsKeptExactly) {
  ResetSignals();
  int twice = 0, failed = 0, stopped = 0;
  const std::vector<Combination> all = Combinations();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!RunsCase(i)) continue;
    const Combination& c = all[i];
    SCOPED_TRACE(std::string(c.saver.name) + " / " + c.changer.name +
                 (c.named ? " / --save" : "") +
                 (c.saves_first ? " / saves first" : "") + " / end " +
                 std::to_string(static_cast<int>(c.end)));
    Crammed files;
    Disk backups;
    MakeFolders(&files);
    const Left left = FitOf(c, c.end, &files, &backups);
    const bool has_stopped = c.end == FitEnd::kSignal && !left.status.ok();
    if (has_stopped) {
      ++stopped;
      CheckInterrupted(c, &files, &backups, left);
    } else {
      CheckCompleted(c, &files, left, &twice, &failed);
    }
  }
  EXPECT_GE(all.size(), 1000u);
  const int least = RunsAllCases() ? 100 : 20;
  EXPECT_GE(twice, least);
  EXPECT_GE(failed, least);
  EXPECT_GE(stopped, least);
}

// --- several workers ---------------------------------------------------------

// A signal to one rank ends all with it, in one step, and the chief saves.
TEST(SaveWhenTrainedTest, Interrupt_SignalToOneRank_AllRanksEndInOneStep) {
  for (const int stopping_rank : {0, 2}) {
    Disk files;
    Status ended[3];
    testing::internal::CaptureStderr();
    RunRanks(3, [&](Collective* collective) {
      const int rank = collective->rank();
      class FitInterrupter final : public Callback {
       public:
        explicit FitInterrupter(bool is) : is_(is) {}
        const char* name() const override { return "interrupts the fit"; }
        Status OnTrainBatchEnd(FitState& fit, const Logs&) override {
          if (!is_ || fit.step != 3) return Status();
          fit.interrupted = true;
          fit.signal = SIGTERM;
          return Status();
        }

       private:
        const bool is_;
      };
      CompileOptions compile;
      compile.collective = collective;
      auto model = TinyModel(SGD(0.1f), 0, compile);
      SaveWhenTrainedOptions saving;
      saving.files = &files;
      FitOptions options = Quiet(2);
      // The other workers need no path.
      options.callbacks = {
          std::make_shared<FitInterrupter>(rank == stopping_rank),
          SaveWhenTrained(rank == 0 ? "m.safetensors" : "", saving)};
      ended[rank] = model->Fit(Data(), options).status();
    });
    testing::internal::GetCapturedStderr();
    for (const Status& status : ended) {
      EXPECT_EQ(status.code(), Code::kInterrupted) << status.message();
      EXPECT_EQ(ExitCode(status), 128 + SIGTERM);
      EXPECT_TRUE(Contains(status, "epoch 1, step 4 of 9"));
    }
    int64_t iterations = 0;
    Loaded("m-interrupted.safetensors", &files, &iterations);
    EXPECT_EQ(iterations, 4);
  }
}

// Every rank notes what the chief has saved, which is on the chief's disk.
TEST(SaveWhenTrainedTest, Loss_ModelCheckpointIsCurrent_ItIsOnTheSaversDisk) {
  for (const int lost : {0, 1}) {
    Disk disks[2];
    std::string kept[2];
    RunRanks(2, [&](Collective* collective) {
      const int rank = collective->rank();
      CompileOptions compile;
      compile.collective = collective;
      auto model = TinyModel(SGD(0.1f), 0, compile);
      ModelCheckpointOptions checkpoint;
      checkpoint.files = &disks[rank];
      SaveWhenTrainedOptions saving;
      saving.files = &disks[rank];
      const auto saves = SaveWhenTrained("m.safetensors", saving);
      // The worker is lost as its last save returns.
      class LossAfterSave final : public Callback {
       public:
        LossAfterSave(int lost, Callback* saves, std::string* kept)
            : lost_(lost), saves_(*saves), kept_(*kept) {}
        const char* name() const override { return "loses"; }
        Status OnEpochEnd(FitState& fit, Logs*) override {
          if (fit.model->collective()->rank() == lost_) return Status();
          saves_.OnFitReturn(fit, PeerLost(lost_, "lost"));
          kept_ = fit.details->saved_message;
          return Status();
        }

       private:
        const int lost_;
        Callback& saves_;
        std::string& kept_;
      };
      FitOptions options = Quiet(1);
      options.callbacks = {
          ModelCheckpoint("c.safetensors", checkpoint), saves,
          std::make_shared<LossAfterSave>(lost, saves.get(), &kept[rank])};
      EXPECT_OK(model->Fit(Data(), options).status());
    });
    const int saver = 1 - lost;
    const std::string file =
        saver == 0 ? "c.safetensors" : "m-interrupted.safetensors";
    EXPECT_EQ(kept[saver], "the model so far is in " + file);
    int64_t iterations = 0;
    Loaded(file, &disks[saver], &iterations);
    EXPECT_EQ(iterations, 9);
  }
}

// Weights that the type has exactly are not rounded: the first case trains with
// a rate of 0 from zeros.
TEST(SaveWhenTrainedTest, End_RoundedCheckpoint_ExactFileOnlyWhereItDiffers) {
  for (const Storage storage : {Storage::kF16, Storage::kBF16}) {
    for (const bool rounds : {false, true}) {
      Disk files;
      ModelCheckpointOptions checkpoint;
      SaveWhenTrainedOptions options;
      checkpoint.files = options.files = &files;
      checkpoint.weights = storage;
      options.skip_if_saved = true;
      FitOptions fit = Quiet(1);
      fit.callbacks = {ModelCheckpoint("c.safetensors", checkpoint),
                       SaveWhenTrained("m.safetensors", options)};
      const auto model = TinyModel(SGD(rounds ? 0.1f : 0.0f));
      const int64_t n = model->num_weights();
      // One weight is the smallest number of F16.
      for (int64_t i = 0; i < n; ++i) {
        const bool tiny = storage == Storage::kF16 && i == 1;
        model->weights()[i] = tiny ? std::ldexp(1.0f, -24)
                                   : static_cast<float>(i % 5 - 2) * 0.25f;
      }
      testing::internal::CaptureStderr();
      EXPECT_OK(model->Fit(Data(), fit));
      const std::string printed = testing::internal::GetCapturedStderr();
      EXPECT_EQ(files.Content("m.safetensors") != nullptr, rounds);
      EXPECT_EQ(printed.find("note: the weights in c.safetensors are rounded; "
                             "the exact model is in m.safetensors") !=
                    std::string::npos,
                rounds)
          << printed;
    }
  }
}

// The other rank ends before the second fit begins.
TEST(SaveWhenTrainedTest, Fit_LossAsASecondOneBegins_NothingIsSaved) {
  Disk files;
  RunRanks(2, [&](Collective* collective) {
    CompileOptions compile;
    compile.collective = collective;
    auto model = TinyModel(SGD(0.1f), 0, compile);
    SaveWhenTrainedOptions options;
    options.files = &files;
    const auto saves = SaveWhenTrained(
        collective->rank() == 0 ? "m.safetensors" : "", options);
    FitOptions fit = Quiet(1);
    fit.callbacks = {saves};
    EXPECT_OK(model->Fit(Data(), fit));
    if (collective->rank() == 1) return;
    // Makes the calls of Fitter::Recover for a loss before OnSetup.
    FitState state;
    state.model = model.get();
    state.callbacks = &fit.callbacks;
    saves->OnFitReturn(state, PeerLost(1, "lost"));
    EXPECT_EQ(state.details->saved_message, "");
  });
  EXPECT_EQ(files.Paths(), std::vector<std::string>{"m.safetensors"});
}

}  // namespace
}  // namespace ringlet
