// ringlet train --watch as processes: kills, a full disk, files that are
// written meanwhile.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../support/contains.h"
#include "../support/eventually.h"
#include "../support/full_disk.h"
#include "../support/picture_folder.h"
#include "../support/program.h"
#include "../support/temp_folder.h"
#include "core/base/text.h"
#include "io/files/file_system.h"
#include "io/watch/watcher.h"
#include "io/weights/safetensors.h"

namespace ringlet {
namespace {

const char kWatchRun[] =
    R"({"model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4, 6, 1]}},
    {"class_name": "Flatten"},
    {"class_name": "Dense", "config": {"units": 64, "activation": "relu"}},
    {"class_name": "Dropout", "config": {"rate": 0.1}},
    {"class_name": "Dense", "config": {"units": 2}}]}},
  "compile": {"optimizer": "adam", "metrics": ["accuracy"],
    "loss": {"class_name": "SparseCategoricalCrossentropy",
             "config": {"from_logits": true}}},
  "data": {"train": {"directory": "frames", "scale": 0.004,
                     "class_names": ["a", "b"], "validation_split": 0.25}},
  "fit": {"batch_size": 4, "epochs": 3}})";

class ProgramWatchTest : public ProgramTest {
 protected:
  ProgramWatchTest() {
    WriteWhole(folder_ / "run.json", kWatchRun);
    std::filesystem::create_directory(folder_ / "frames");
  }

  static Strings Command(const std::string& model, const Strings& more = {},
                         const std::string& round_examples = "8") {
    Strings words = {
        "train", "run.json",         "--watch",     "--save",
        model,   "--replay",         "12",          "--scan-seconds",
        "0.01",  "--round-examples", round_examples};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The state of a model, as the file has it at the moment; round 0 if there is
  // none.
  WatchState StateOf(const std::string& model) const {
    WatchOptions options;
    options.validation_split = 0.25;
    WatchState state;
    state.settings = options.SettingsChecksum();
    LoadWatchState(PosixFiles(), folder_ / (model + ".watch"), &state)
        .IgnoreError();
    return state;
  }
  std::string RoundOfModel(const std::string& model) const {
    SafetensorsReader file;
    if (!file.Open(PosixFiles(), folder_ / model).ok()) return "";
    return file.metadata().at("watch_round");
  }
  // Waits until this many rounds have ended.
  bool EndsRounds(const std::string& model, int64_t rounds) const {
    return Eventually([&] {
      const WatchState state = StateOf(model);
      return state.round >= rounds && !state.is_open;
    });
  }
  bool Prints(const std::string& text) const {
    return Eventually([&] {
      return ReadWhole(logs_ / "out").find(text) != std::string::npos ||
             ReadWhole(logs_ / "err").find(text) != std::string::npos;
    });
  }
  int Stop() {
    kill(child_, SIGTERM);
    return Wait();
  }
  // Starts the program without the output of the one before.
  void StartWatch(const Strings& command) {
    std::filesystem::remove(logs_ / "out");
    std::filesystem::remove(logs_ / "err");
    Start(command);
  }
  // Runs until this many rounds have ended.
  void RunRounds(const Strings& command, const std::string& model,
                 int64_t rounds) {
    StartWatch(command);
    EXPECT_TRUE(Prints("watches"));
    EXPECT_TRUE(EndsRounds(model, rounds));
    EXPECT_EQ(Stop(), 75) << err_;
  }
};

TEST_F(ProgramWatchTest, Kills_AtRandomEvents_GiveTheSameBits) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 40);
  RunRounds(Command("whole"), "whole", 10);
  const std::string whole = ReadWhole(folder_ / "whole");
  ASSERT_FALSE(whole.empty());

  std::mt19937 random(1);
  for (int i = 0; i < 30; ++i) {
    const WatchState begun = StateOf("killed");
    const std::string model = RoundOfModel("killed");
    StartWatch(Command("killed", {"--threads", i % 2 == 0 ? "1" : "2"}));
    // An open round is there, or begins if there are enough examples.
    const bool trains = begun.is_open || begun.seen.size() < 80;
    switch (trains ? random() % 5 : 0) {
      case 0:
        EXPECT_TRUE(Prints("watches"));
        break;
      case 1:
        EXPECT_TRUE(Prints("Epoch 2/3"));
        break;
      case 2:
        EXPECT_TRUE(Prints("round"));
        break;
      case 3:  // the state changed
        EXPECT_TRUE(Eventually([&] {
          const WatchState now = StateOf("killed");
          return now.round != begun.round || now.is_open != begun.is_open;
        }));
        break;
      default:  // a temporary file, or the end of the round
        EXPECT_TRUE(Eventually([&] {
          std::vector<std::string> names;
          PosixFiles()->List(folder_.path(), &names).IgnoreError();
          for (const std::string& name : names) {
            if (EndsWith(name, ".tmp")) return true;
          }
          const WatchState now = StateOf("killed");
          return now.round > begun.round && !now.is_open;
        }));
    }
    kill(child_, SIGKILL);
    EXPECT_EQ(Wait(), 1000 + SIGKILL) << err_;
  }
  RunRounds(Command("killed"), "killed", 10);
  EXPECT_EQ(StateOf("killed").seen, StateOf("whole").seen);
  EXPECT_EQ(ReadWhole(folder_ / "killed"), whole);
}

// Each restart continues the round at its step.
TEST_F(ProgramWatchTest, Signals_InRounds_GiveTheSameBits) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 8);
  const Strings epochs = {"--epochs", "400"};
  RunRounds(Command("whole", epochs), "whole", 2);
  bool continued = false;
  for (int i = 0; i < 6; ++i) {
    StartWatch(Command("stopped", epochs));
    if (!StateOf("stopped").seen.empty() && StateOf("stopped").round == 2) {
      EXPECT_TRUE(Prints("watches"));
    } else {
      EXPECT_TRUE(Prints(i % 2 == 0 ? "Epoch" : "loss"));
    }
    EXPECT_EQ(Stop(), 75) << err_;
    continued |= CountOccurrences(out_, "continues at epoch") > 0;
  }
  EXPECT_TRUE(continued);
  RunRounds(Command("stopped", epochs), "stopped", 2);
  EXPECT_EQ(ReadWhole(folder_ / "stopped"), ReadWhole(folder_ / "whole"));
  for (const std::string& name : Files()) {
    EXPECT_EQ(name.find(".round-"), std::string::npos) << name;
  }
}

// The model is larger than the limit, the state is not.
TEST_F(ProgramWatchTest, FullDisk_LastModelStays_UntilThereIsSpace) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  const std::string before = ReadWhole(folder_ / "m");
  WriteClasses(folder_ / "frames/a", {"more"}, 8);
  {
    const FullDisk full(8192);
    StartWatch(Command("m"));
  }
  EXPECT_TRUE(Prints("warning: "));
  EXPECT_TRUE(Prints("this is tried again"));
  EXPECT_EQ(ReadWhole(folder_ / "m"), before);
  const rlimit free = {RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(prlimit(child_, RLIMIT_FSIZE, &free, nullptr), 0);
  EXPECT_TRUE(EndsRounds("m", 2));
  EXPECT_EQ(Stop(), 75);
  EXPECT_EQ(Lines(err_)[0].find("warning: m"), 0u) << err_;
  EXPECT_EQ(CountOccurrences(err_, "this is tried again"), 1) << err_;
  EXPECT_NE(ReadWhole(folder_ / "m"), before);
}

TEST_F(ProgramWatchTest, File_HalfWritten_IsTakenWhenItIsWhole) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  const std::string picture = GrayPgm(4, 6, 30);
  const std::string half = folder_ / "frames/b/half.pgm";
  WriteWhole(half, picture.substr(0, picture.size() / 2));
  StartWatch(Command("m", {}, "1"));
  EXPECT_TRUE(Prints("frames/b/half.pgm"));
  EXPECT_EQ(StateOf("m").round, 1);
  // Another picture is removed as soon as it is there.
  WriteWhole(folder_ / "frames/a/gone.pgm", picture);
  std::filesystem::remove(folder_ / "frames/a/gone.pgm");
  WriteWhole(half, picture);
  EXPECT_TRUE(Eventually([&] {
    return StateOf("m").IsSeen(
        ExampleKey("b/half.pgm", static_cast<int64_t>(picture.size())));
  }));
  EXPECT_EQ(Stop(), 75);
  EXPECT_TRUE(
      Contains(err_, "it is left out until it changes (such files: 1)"));
}

TEST_F(ProgramWatchTest, Rounds_FilesStayOnDisk_GiveTheSameBits) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 12);
  RunRounds(Command("whole"), "whole", 3);
  WriteWhole(folder_ / "run.json", Replaced(kWatchRun, "\"scale\"",
                                            "\"in_memory\": false, \"scale\""));
  RunRounds(Command("m", {"--threads", "2"}), "m", 3);
  EXPECT_EQ(ReadWhole(folder_ / "m"), ReadWhole(folder_ / "whole"));
}

// A removed file is in no round. The folder may be away for a while.
TEST_F(ProgramWatchTest, Folder_FilesRemovedAndAway_GoesOn) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  std::filesystem::remove(folder_ / "frames/a/100.pgm");
  std::filesystem::remove(folder_ / "frames/b/103.pgm");
  WriteClasses(folder_ / "frames/b", {"more"}, 8);
  StartWatch(Command("m"));
  EXPECT_TRUE(EndsRounds("m", 2));
  std::filesystem::rename(folder_ / "frames", folder_ / "away");
  EXPECT_TRUE(Prints("the folder is not there"));
  WriteClasses(folder_ / "away/a", {"even more"}, 8);
  std::filesystem::rename(folder_ / "away", folder_ / "frames");
  EXPECT_TRUE(EndsRounds("m", 3));
  EXPECT_EQ(Stop(), 75);
  EXPECT_EQ(CountOccurrences(err_, "the folder is not there"), 1) << err_;
  EXPECT_EQ(StateOf("m").seen.size(), 24u);
}

// The pictures are not suspected: one warning, and the round is made when the
// file is whole.
TEST_F(ProgramWatchTest, Model_DamagedMeanwhile_IsTriedAgain) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  WriteWhole(folder_ / "m.round-my photos", "mine");
  std::filesystem::create_directory(folder_ / "m.round-x");
  WriteWhole(folder_ / "m.round-x/note", "mine");
  StartWatch(Command("m"));
  EXPECT_TRUE(EndsRounds("m", 1));
  const std::string model = ReadWhole(folder_ / "m");
  WriteWhole(folder_ / "m", model.substr(0, model.size() / 2));
  WriteClasses(folder_ / "frames/b", {"more"}, 8);
  EXPECT_TRUE(Prints("this is tried again"));
  WriteWhole(folder_ / "m", model);
  EXPECT_TRUE(EndsRounds("m", 2));
  EXPECT_EQ(Stop(), 75);
  EXPECT_FALSE(Contains(err_, "such files"));
  EXPECT_EQ(ReadWhole(folder_ / "m.round-x/note"), "mine");
}

// The model's disk may be unmounted for a while. No round begins with the model
// of RUN.json instead.
TEST_F(ProgramWatchTest, Model_MissingMeanwhileOrAtTheStart_IsAwaited) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  StartWatch(Command("m"));
  EXPECT_TRUE(EndsRounds("m", 1));
  std::filesystem::rename(folder_ / "m", folder_ / "away");
  WriteClasses(folder_ / "frames/b", {"more"}, 8);
  EXPECT_TRUE(Prints("m: is missing, but earlier rounds trained it"));
  EXPECT_EQ(Stop(), 75);
  StartWatch(Command("m"));
  EXPECT_TRUE(Prints("m: is missing, but earlier rounds trained it"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m"));
  std::filesystem::rename(folder_ / "away", folder_ / "m");
  EXPECT_TRUE(EndsRounds("m", 2));
  EXPECT_EQ(Stop(), 75);
  EXPECT_EQ(CountOccurrences(out_, "val_loss none"), 0) << out_;
  EXPECT_EQ(RoundOfModel("m").substr(0, 2), "2 ");
}

// An empty mount point looks like a first start.
TEST_F(ProgramWatchTest, ModelAndState_Missing_AreNotedAtTheStart) {
  const std::string note = "neither the model nor m.watch is there yet";
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  EXPECT_TRUE(Contains(err_, note));
  RunRounds(Command("m"), "m", 1);
  EXPECT_FALSE(Contains(err_, note));
}

// The replay has only files that can be read.
TEST_F(ProgramWatchTest, Replay_DamagedFiles_AreNotCounted) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  EXPECT_TRUE(Contains(out_, "new, 0 replayed, "));
  const std::string counted = out_.substr(out_.find("round 1: ") + 9);
  const int trained = std::atoi(counted.c_str());
  for (int i = 100; i < 104; ++i) {
    WriteWhole(folder_ / ("frames/a/" + std::to_string(i) + ".pgm"),
               std::string(GrayPgm(4, 6, 0).size(), '\0'));
  }
  WriteClasses(folder_ / "frames/b", {"more"}, 8);
  RunRounds(Command("m"), "m", 2);
  const size_t replayed = out_.find("new, ") + 5;
  EXPECT_LT(std::atoi(out_.c_str() + replayed), trained) << out_;
}

// The card is mounted late.
TEST_F(ProgramWatchTest, Folder_MissingAtTheStart_IsAwaited) {
  std::filesystem::remove(folder_ / "frames");
  StartWatch(Command("m"));
  EXPECT_TRUE(Prints("frames: the folder is not there"));
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  EXPECT_TRUE(EndsRounds("m", 1));
  EXPECT_EQ(Stop(), 75);
  EXPECT_EQ(CountOccurrences(err_, "the folder is not there"), 1) << err_;
}

// After a power cut files may have their length, and zeros.
TEST_F(ProgramWatchTest, OpenRound_AllPicturesDamaged_NextOneTrains) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  StartWatch(Command("m", {"--epochs", "1000000"}));
  EXPECT_TRUE(Prints("Epoch 1/"));
  kill(child_, SIGKILL);
  EXPECT_EQ(Wait(), 1000 + SIGKILL);
  ASSERT_TRUE(StateOf("m").is_open);
  const std::string zeros(GrayPgm(4, 6, 0).size(), '\0');
  for (const char* const name : {"a", "b"}) {
    for (int i = 100; i < 104; ++i) {
      WriteWhole(folder_ / ("frames/" + std::string(name) + "/" +
                            std::to_string(i) + ".pgm"),
                 zeros);
    }
  }
  StartWatch(Command("m"));
  EXPECT_TRUE(Prints("round 1: no example to hold out is left"));
  WriteClasses(folder_ / "frames/a", {"more"}, 8);
  EXPECT_TRUE(EndsRounds("m", 2));
  EXPECT_EQ(Stop(), 75);
  EXPECT_EQ(CountOccurrences(err_, "it is left out until it changes"), 8)
      << err_;
  EXPECT_EQ(StateOf("m").seen.size(), 8u);
}

TEST_F(ProgramWatchTest, Model_OfOtherLayers_IsRefused) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  const auto refuse = [&](const std::string& from, const std::string& to,
                          const std::string& text) {
    WriteWhole(folder_ / "run.json", Replaced(kWatchRun, from, to));
    ExpectError(Command("m"), 2, {text, "in m, which --watch trains further"});
  };
  refuse("\"units\": 64", "\"units\": 32", "units: is 32, but 64");
  refuse("0.1", "0.2", "rate: is 0.2, but 0.1");
  refuse(R"({"class_name": "Flatten"},)",
         R"({"class_name": "Flatten"}, {"class_name": "Flatten"},)",
         "a list of 6, but a list of 5");
  // Initial weights are another matter.
  WriteWhole(folder_ / "run.json",
             Replaced(kWatchRun, "\"units\": 64",
                      "\"kernel_initializer\": \"zeros\", \"units\": 64"));
  RunRounds(Command("m"), "m", 1);
}

TEST_F(ProgramWatchTest, PlainTrain_OfAWatchedModel_IsRefused) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  StartWatch(Command("m"));
  EXPECT_TRUE(Prints("watches"));
  const pid_t watch = child_;
  EXPECT_EQ(Run({"train", "run.json", "--save", "m"}), 1);
  EXPECT_TRUE(Contains(err_, "a running `train --watch` replaces this model"));
  child_ = watch;
  EXPECT_EQ(Stop(), 75);
  EXPECT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
}

TEST_F(ProgramWatchTest, Folder_OfNoClass_IsNoted) {
  WriteClasses(folder_ / "frames", {"a", "b", "c"}, 4);
  RunRounds(Command("m"), "m", 1);
  EXPECT_TRUE(Contains(err_, "frames/c: is none of \"class_names\""));
}

TEST_F(ProgramWatchTest, SecondProcess_IsRefused) {
  StartWatch(Command("m"));
  EXPECT_TRUE(Prints("watches"));
  const pid_t first = child_;
  EXPECT_EQ(Run(Command("m")), 1);
  EXPECT_TRUE(Contains(err_, "m.watch.lock"));
  child_ = first;
  EXPECT_EQ(Stop(), 75);
}

TEST_F(ProgramWatchTest, Model_OfTheDesk_IsTrainedFurther) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 8);
  ASSERT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_;
  RunRounds(Command("m"), "m", 2);
  EXPECT_FALSE(Contains(out_, "val_loss none"));
  EXPECT_EQ(Run({"evaluate", "m", "--data", "run.json"}), 0) << err_;
}

TEST_F(ProgramWatchTest, Sample_Watched_PrintsTheLinesOfItsPage) {
  const std::string source = EnvironmentOr("RINGLET_SOURCE", ".");
  StartWatch({"train", source + "/samples/watch.json", "--watch", "--save", "m",
              "--round-examples", "40", "--scan-seconds", "0.01"});
  EXPECT_TRUE(Prints("round 3: "));
  EXPECT_EQ(Stop(), 75) << err_;
  const std::string page = ReadWhole(source + "/docs/watch.md");
  int rounds = 0;
  for (const std::string& line : Lines(out_)) {
    if (line.find("round ") != 0) continue;
    ++rounds;
    EXPECT_TRUE(Contains(page, line + "\n"));
  }
  EXPECT_EQ(rounds, 3);
}

TEST_F(ProgramWatchTest, WrongRuns_AreRefused) {
  const auto refuse = [&](const std::string& from, const std::string& to,
                          const std::string& text) {
    WriteWhole(folder_ / "run.json", Replaced(kWatchRun, from, to));
    ExpectError(Command("m"), 2, {text});
  };
  refuse(R"(, "validation_split": 0.25)", "", "has no \"validation_split\"");
  refuse(R"("class_names": ["a", "b"], )", "", "has no \"class_names\"");
  refuse(R"("directory": "frames")", R"("x": "x.npy", "y": "y.npy")", "");
  refuse(R"("epochs": 3})",
         R"("epochs": 3}, "callbacks": [{"class_name": "BackupAndRestore",
             "config": {"backup_dir": "b"}}])",
         "BackupAndRestore");
  WriteWhole(folder_ / "run.json", kWatchRun);
  ExpectError({"train", "run.json", "--watch"}, 2, {"needs --save"});
  ExpectError({"train", "run.json", "--replay", "4"}, 2, {"needs --watch"});
  ExpectError(Command("m", {"--log-steps", "s"}), 2, {"--log-steps"});
}

TEST_F(ProgramWatchTest, MoreClassesThanOutputs_AreRefused) {
  WriteWhole(folder_ / "run.json",
             Replaced(kWatchRun, R"(["a", "b"])", R"(["a", "b", "c"])"));
  EXPECT_EQ(Run(Command("m")), 2);
  EXPECT_TRUE(
      Contains(err_, "class_names: are 3, which the model cannot learn"));
}

TEST_F(ProgramWatchTest, OtherSeed_StateIsRefused) {
  WriteClasses(folder_ / "frames", {"a", "b"}, 4);
  RunRounds(Command("m"), "m", 1);
  WriteWhole(folder_ / "run.json", Replaced(kWatchRun, "0.25", "0.3"));
  EXPECT_EQ(Run(Command("m")), 2);
  EXPECT_TRUE(Contains(err_, "another seed or validation_split"));
}

}  // namespace
}  // namespace ringlet
