#include "ringlet/checkpoint.h"
#include "io/readers/storage.h"
#include "io/weights/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/fake_clock.h"
#include "../../support/simulated_file_system.h"
#include "../../support/some_state.h"
#include "../../support/temp_folder.h"
#include "../../support/threads.h"
#include "core/base/crc32c.h"
#include "io/checkpoint/checkpoint_directory.h"

namespace ringlet {
namespace {

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  EXPECT_OK(PosixFiles()->List(folder, &names));
  names.erase(std::remove(names.begin(), names.end(), FileSystem::kLockName),
              names.end());
  return names;
}

// Breaks a byte of the last tensors.
void Damage(const std::string& path) {
  std::string bytes = ReadWhole(path);
  ASSERT_FALSE(bytes.empty()) << path;
  bytes[bytes.size() - 80] ^= 1;
  WriteWhole(path, bytes);
}

// --- one file ----------------------------------------------------------------

TEST(CheckpointTest, Load_SavedStateAndMetadata_AreTheSame) {
  TempFolder folder;
  const std::string path = folder / "a.safetensors";
  SomeState saved(7), read(1);
  ASSERT_OK(SaveCheckpoint(path, {&saved}, {{"epoch", "3"}}));
  LoadedCheckpoint loaded;
  ASSERT_OK(LoadCheckpoint(path, {&read}, {}, &loaded));
  EXPECT_TRUE(read == saved);
  EXPECT_EQ(read.loaded, 1);
  EXPECT_TRUE(loaded.verified);
  EXPECT_EQ(loaded.metadata.at("epoch"), "3");
  EXPECT_EQ(NamesIn(folder.path()), std::vector<std::string>{"a.safetensors"});
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(CheckpointTest, Save_SameStateTwice_GivesTheSameBytes) {
  TempFolder folder;
  SomeState state(7);
  ASSERT_OK(SaveCheckpoint(folder / "a", {&state}, {{"k", "v"}}));
  ASSERT_OK(SaveCheckpoint(folder / "b", {&state}, {{"k", "v"}}));
  EXPECT_EQ(ReadWhole(folder / "a"), ReadWhole(folder / "b"));
}

TEST(CheckpointTest, Save_AnyMachine_GivesTheSameBytes) {
  TempFolder folder;
  SomeState state(7);
  ASSERT_OK(SaveCheckpoint(folder / "a", {&state}, {{"k", "v"}}));
  const std::string bytes = ReadWhole(folder / "a");
  EXPECT_EQ(bytes.size(), 739u);
  EXPECT_EQ(Crc32c(bytes.data(), bytes.size()), 342493520u);
}

TEST(CheckpointTest, Save_AfterAKilledSave_ReplacesAndRemovesItsTemporary) {
  TempFolder folder;
  WriteWhole(folder / "a.123-4.tmp", "left");
  WriteWhole(folder / "b.123-4.tmp", "another's");
  SomeState one(1), two(2), read(0);
  ASSERT_OK(SaveCheckpoint(folder / "a", {&one}));
  ASSERT_OK(SaveCheckpoint(folder / "a", {&two}));
  ASSERT_OK(LoadCheckpoint(folder / "a", {&read}));
  EXPECT_TRUE(read == two);
  EXPECT_EQ(NamesIn(folder.path()),
            (std::vector<std::string>{"a", "b.123-4.tmp"}));
}

TEST(CheckpointTest, Save_PathIsAFolder_IsRefusedAndItsFilesStay) {
  TempFolder folder;
  WriteWhole(folder / "notes", "mine");
  SomeState state(1);
  const Status saved = SaveCheckpoint(folder.path() + "/", {&state});
  EXPECT_EQ(saved.code(), Code::kInvalidArgument);
  EXPECT_EQ(SaveCheckpoint("", {&state}).code(), Code::kInvalidArgument);
  EXPECT_EQ(NamesIn(folder.path()), std::vector<std::string>{"notes"});
}

TEST(CheckpointTest, Save_OnePathFromSeveralThreads_AllSucceed) {
  TempFolder folder;
  std::atomic<int> failed{0};
  RunThreads(4, [&](int t) {
    SomeState state(t);
    for (int i = 0; i < 25; ++i) {
      const Status saved = SaveCheckpoint(folder / "a", {&state});
      if (saved.ok()) continue;
      ++failed;
      std::fprintf(stderr, "%s\n", saved.message());
    }
  });
  EXPECT_EQ(failed, 0);
  SomeState read(0);
  EXPECT_OK(LoadCheckpoint(folder / "a", {&read}));
  EXPECT_EQ(NamesIn(folder.path()), std::vector<std::string>{"a"});
}

// A Saveable of one span, for tests of spans that do not match a file.
struct OneSpan final : Saveable {
  explicit OneSpan(const StateSpan& s) : span(s) {}
  void AppendState(std::vector<StateSpan>* spans) override {
    spans->push_back(span);
  }
  StateSpan span;
};

TEST(CheckpointTest, Load_OtherTensors_NamesTheFirstAndOverwritesNothing) {
  TempFolder folder;
  const std::string path = folder / "a";
  float values[6] = {1, 2, 3, 4, 5, 6};
  OneSpan saved({"model/x", DType::kFloat32, {2, 3}, values});
  ASSERT_OK(SaveCheckpoint(path, {&saved}));
  float other[6] = {};
  const auto load = [&](const StateSpan& span, Saveable* more = nullptr) {
    OneSpan one(span);
    Saveables state = {&one};
    if (more != nullptr) state.push_back(more);
    const Status status = LoadCheckpoint(path, state);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(other[0], 0);
    return std::string(status.message());
  };
  EXPECT_TRUE(
      Contains(load({"model/x", DType::kFloat32, {3, 2}, other}),
               "tensor 'model/x' has shape (2, 3) in the file, (3, 2) here"));
  EXPECT_TRUE(Contains(load({"model/x", DType::kInt32, {2, 3}, other}),
                       "tensor 'model/x' is F32 in the file, I32 here"));
  EXPECT_TRUE(Contains(load({"model/y", DType::kFloat32, {2, 3}, other}),
                       "has no tensor 'model/y'"));
  SomeState more;
  EXPECT_TRUE(Contains(load({"model/x", DType::kFloat32, {2, 3}, other}, &more),
                       "has no tensor 'model/dense/kernel'"));
  EXPECT_EQ(more.loaded, 0);
  const Status nothing = LoadCheckpoint(path, {});
  EXPECT_TRUE(Contains(nothing.message(),
                       "has a tensor 'model/x', which is not known"));
}

TEST(CheckpointTest, Load_DamageAnywhere_LeavesTheStateAsItWas) {
  TempFolder folder;
  const std::string path = folder / "a";
  SomeState saved(7, 40), read(1, 40);
  ASSERT_OK(SaveCheckpoint(path, {&saved}));
  const std::string whole = ReadWhole(path);
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string bytes = whole;
    bytes[at] ^= 0x10;
    WriteWhole(path, bytes);
    EXPECT_EQ(LoadCheckpoint(path, {&read}).code(), Code::kCorruption) << at;
    WriteWhole(path, whole.substr(0, at));
    EXPECT_EQ(LoadCheckpoint(path, {&read}).code(), Code::kCorruption) << at;
  }
  EXPECT_TRUE(read == SomeState(1, 40));
  EXPECT_EQ(read.loaded, 0);
}

TEST(CheckpointTest, Load_StateRefusesItsValues_Fails) {
  TempFolder folder;
  SomeState saved(7), read(1);
  ASSERT_OK(SaveCheckpoint(folder / "a", {&saved}));
  read.answer = InvalidArgument("step -1 cannot be");
  const Status status = LoadCheckpoint(folder / "a", {&read});
  EXPECT_TRUE(Contains(status.message(), "a: step -1 cannot be"));
}

TEST(CheckpointTest, Load_PlainSafetensors_NeedsAcceptUnverified) {
  TempFolder folder;
  const std::string path = folder / "a";
  float values[2] = {1, 2}, read[2] = {};
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  ASSERT_OK(writer.Plan({{"x", DType::kFloat32, {2}, values}}, {}, plain));
  std::unique_ptr<File> file;
  ASSERT_OK(PosixFiles()->Create(path, &file));
  ASSERT_OK(writer.Write(file.get()));
  OneSpan span({"x", DType::kFloat32, {2}, read});
  EXPECT_EQ(LoadCheckpoint(path, {&span}).code(), Code::kCorruption);
  LoadOptions options;
  options.accept_unverified = true;
  LoadedCheckpoint loaded;
  ASSERT_OK(LoadCheckpoint(path, {&span}, options, &loaded));
  EXPECT_FALSE(loaded.verified);
  EXPECT_EQ(read[1], 2);
}

TEST(CheckpointTest, Load_HalfPrecisionWeightsOfAWholeRun_AreNear) {
  TempFolder folder;
  SomeState saved(7);
  SaveOptions options;
  options.weights = Storage::kBF16;
  ASSERT_OK(SaveCheckpoint(folder / "a", {&saved}, {}, options));
  std::vector<float> kernel(15);
  OneSpan weights(
      {"model/dense/kernel", DType::kFloat32, {3, 5}, kernel.data()});
  EXPECT_EQ(LoadCheckpoint(folder / "a", {&weights}).code(),
            Code::kInvalidArgument);
  LoadOptions loading;
  loading.ignore_others = true;
  ASSERT_OK(LoadCheckpoint(folder / "a", {&weights}, loading));
  for (size_t i = 0; i < kernel.size(); ++i) {
    EXPECT_NEAR(kernel[i], saved.kernel[i], 0.004f * saved.kernel[i]);
  }
  EXPECT_EQ(kernel[0], 7.0f);
}

TEST(CheckpointTest, SaveAndLoad_ImpossiblePaths_AreRefused) {
  TempFolder folder;
  SomeState state;
  const Status no_folder = SaveCheckpoint(folder / "no/a", {&state});
  EXPECT_EQ(no_folder.code(), Code::kNotFound);
  EXPECT_TRUE(Contains(no_folder.message(), folder / "no"));
  EXPECT_EQ(LoadCheckpoint(folder / "a", {&state}).code(), Code::kNotFound);
  EXPECT_EQ(LoadCheckpoint(folder.path(), {&state}).code(),
            Code::kInvalidArgument);
}

// --- a directory -------------------------------------------------------------

struct OneRun {
  explicit OneRun(const std::string& d) : directory(d) {
    options.clock = &clock;
    options.warn = [this](const std::string& w) { warnings += w + "\n"; };
  }
  Status Open() {
    checkpoints.reset();
    warnings.clear();
    return CheckpointDirectory::Open(directory, options, &checkpoints);
  }
  Status Save(int64_t seed) {
    SomeState state(seed);
    clock.Advance(60);
    return checkpoints->Save({&state}, {});
  }
  // Opens it and saves states 1 to `count`.
  void Make(int count) {
    ASSERT_OK(Open());
    for (int i = 1; i <= count; ++i) ASSERT_OK(Save(i));
  }
  std::string Path(int number) const {
    return directory + "/ckpt-" + std::to_string(number) + ".safetensors";
  }
  std::string StateFile() const { return ReadWhole(directory + "/checkpoint"); }

  const std::string directory;
  FakeClock clock;
  CheckpointDirectoryOptions options;
  std::string warnings;
  std::unique_ptr<CheckpointDirectory> checkpoints;
};

TEST(CheckpointDirectoryTest, Save_MaxToKeepOfTwo_KeepsAndListsTheNewest) {
  TempFolder folder;
  OneRun run(folder / "a/b");
  run.options.max_to_keep = 2;
  run.Make(3);
  EXPECT_EQ(NamesIn(run.directory),
            (std::vector<std::string>{"checkpoint", "ckpt-2.safetensors",
                                      "ckpt-3.safetensors"}));
  EXPECT_EQ(run.checkpoints->latest(), run.Path(3));
  EXPECT_EQ(run.StateFile(),
            "model_checkpoint_path: \"ckpt-3.safetensors\"\n"
            "all_model_checkpoint_paths: \"ckpt-2.safetensors\"\n"
            "all_model_checkpoint_paths: \"ckpt-3.safetensors\"\n"
            "all_model_checkpoint_timestamps: 1700000120\n"
            "all_model_checkpoint_timestamps: 1700000180\n"
            "last_preserved_timestamp: 1699999999\n");
  // A restart continues the numbers.
  run.Make(1);
  EXPECT_EQ(run.checkpoints->checkpoints(),
            (std::vector<std::string>{run.Path(3), run.Path(4)}));
  EXPECT_EQ(run.warnings, "");
}

TEST(CheckpointDirectoryTest, Open_NewestIsDamaged_SetsItAsideAndWarns) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.Make(3);
  Damage(run.Path(3));
  WriteWhole(run.Path(2), ReadWhole(run.Path(2)).substr(0, 100));
  ASSERT_OK(run.Open());
  EXPECT_EQ(run.checkpoints->latest(), run.Path(1));
  EXPECT_TRUE(Contains(run.warnings, run.Path(3) + ".bad"));
  EXPECT_TRUE(Contains(run.warnings, "CRC32C"));
  EXPECT_EQ(NamesIn(run.directory),
            (std::vector<std::string>{"checkpoint", "ckpt-1.safetensors",
                                      "ckpt-2.safetensors.bad",
                                      "ckpt-3.safetensors.bad"}));
  // The numbers of those files are not used again.
  ASSERT_OK(run.Save(4));
  EXPECT_EQ(run.checkpoints->latest(), run.Path(4));
}

TEST(CheckpointDirectoryTest, Open_NoneVerifies_IsAnErrorAndNoNewStart) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.Make(2);
  Damage(run.Path(1));
  Damage(run.Path(2));
  const std::vector<std::string> before = NamesIn(run.directory);
  for (int i = 0; i < 2; ++i) {
    const Status status = run.Open();
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_TRUE(Contains(status.message(),
                         "has 2 checkpoints, none of which can be used"));
    EXPECT_TRUE(Contains(status.message(), run.Path(2)));
    EXPECT_EQ(NamesIn(run.directory), before);
  }
  std::string path;
  EXPECT_EQ(LatestCheckpoint(run.directory, &path).code(), Code::kCorruption);
  // The result is the same if the only file was set aside.
  std::filesystem::remove(run.Path(1));
  std::filesystem::rename(run.Path(2), run.Path(2) + ".bad");
  EXPECT_EQ(run.Open().code(), Code::kCorruption);
  std::filesystem::remove(run.Path(2) + ".bad");
  EXPECT_OK(run.Open());
  EXPECT_EQ(run.checkpoints->latest(), "");
}

TEST(CheckpointDirectoryTest, Clear_OneIsDamaged_BeginsAgain) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.Make(2);
  Damage(run.Path(2));
  ASSERT_OK(run.Open());
  ASSERT_TRUE(std::filesystem::exists(run.Path(2) + ".bad"));
  ASSERT_OK(run.checkpoints->Clear());
  EXPECT_EQ(NamesIn(run.directory), std::vector<std::string>());
  EXPECT_OK(run.Open());
}

// The power is cut at each operation of Clear. Then there is a whole checkpoint
// or no file, never only a damaged one.
TEST(CheckpointDirectoryTest,
     Clear_PowerCutAtAnyOperation_LeavesAGoodOneOrNone) {
  for (int64_t operation = 1;; ++operation) {
    bool cleared = false;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      SimulatedFileSystem files;
      OneRun run("d");
      run.options.files = &files;
      run.Make(2);
      files.Content(run.Path(2))->resize(100);
      ASSERT_OK(run.Open());
      ASSERT_OK(files.SyncFolder("d"));
      files.HaltAfter(operation);
      run.checkpoints->Clear().IgnoreError();
      cleared = !files.halted();
      files.CutPower(seed);
      const Status opened = run.Open();
      ASSERT_OK(opened) << operation << " " << seed;
    }
    if (cleared) break;
  }
}

TEST(CheckpointDirectoryTest,
     Open_StateFileIsWrongOrMissing_FindsTheCheckpoints) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.options.max_to_keep = 3;
  run.Make(3);
  for (const char* text :
       {"", "garbage", "model_checkpoint_path: \"ckpt-9.safetensors\"\n",
        "all_model_checkpoint_paths: \"../../x\"\n"
        "all_model_checkpoint_timestamps: 1e400\n"}) {
    WriteWhole(run.directory + "/checkpoint", text);
    ASSERT_OK(run.Open());
    EXPECT_EQ(run.checkpoints->latest(), run.Path(3)) << text;
    EXPECT_EQ(run.checkpoints->checkpoints().size(), 3u) << text;
  }
  EXPECT_NE(run.warnings, "");
  std::filesystem::remove(run.directory + "/checkpoint");
  ASSERT_OK(run.Open());
  EXPECT_EQ(run.checkpoints->checkpoints().size(), 3u);
  EXPECT_EQ(run.warnings, "");
}

TEST(CheckpointDirectoryTest, Save_FilesOfOthersInTheFolder_LeavesThem) {
  TempFolder folder;
  OneRun run(folder.path());
  for (const char* name :
       {"ckpt-0.safetensors", "ckpt-01.safetensors", "ckpt-x.safetensors",
        "ckpt-1.safetensors.old", "notes.1-2.tmp", "ckpt-5.tmp", "other.bad",
        "ckpt-99999999999999999999.safetensors",
        "ckpt-9223372036854775807.safetensors"}) {
    WriteWhole(folder / name, "mine");
  }
  const size_t before = NamesIn(folder.path()).size();
  WriteWhole(folder / "ckpt-4.safetensors.77-0.tmp", "left by a kill");
  WriteWhole(folder / "checkpoint.77-1.tmp", "left by a kill");
  run.options.max_to_keep = 1;
  run.Make(2);
  EXPECT_EQ(run.checkpoints->latest(), run.Path(2));
  EXPECT_EQ(NamesIn(folder.path()).size(), before + 2);
}

TEST(CheckpointDirectoryTest, Save_KeepEveryNHours_OneOfEachPeriodStays) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.options.max_to_keep = 1;
  run.options.keep_checkpoint_every_n_hours = 1;
  ASSERT_OK(run.Open());
  for (int i = 1; i <= 9; ++i) {
    run.clock.Advance(19 * 60);  // Save takes a minute: one every 20 minutes
    ASSERT_OK(run.Save(i));
    if (i == 5) {
      ASSERT_OK(run.Open());  // the rule goes on after a restart
    }
  }
  // The first sweep of one that is an hour after the start, and so on.
  EXPECT_EQ(
      NamesIn(run.directory),
      (std::vector<std::string>{"checkpoint", "ckpt-3.safetensors",
                                "ckpt-6.safetensors", "ckpt-9.safetensors"}));
  EXPECT_EQ(run.checkpoints->checkpoints(),
            std::vector<std::string>{run.Path(9)});
  // Without the list any file may be one that was preserved, so all files stay.
  WriteWhole(run.directory + "/checkpoint", "garbage");
  run.Make(1);
  EXPECT_EQ(NamesIn(run.directory).size(), 4u);
  EXPECT_EQ(run.checkpoints->latest(), run.Path(10));
}

TEST(CheckpointDirectoryTest, Open_ClockWasSetBack_Warns) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.Make(2);
  run.clock.Advance(-3600);
  ASSERT_OK(run.Open());
  EXPECT_TRUE(Contains(run.warnings, "the clock was set back by"));
  EXPECT_EQ(run.checkpoints->checkpoints().size(), 2u);
}

TEST(CheckpointDirectoryTest, Save_ChosenNumber_IsRefusedBelowTheLatest) {
  TempFolder folder;
  OneRun run(folder / "d");
  run.Make(1);
  SomeState state(5);
  ASSERT_OK(run.checkpoints->Save({&state}, {}, 10));
  EXPECT_EQ(run.checkpoints->latest(), run.Path(10));
  EXPECT_EQ(run.checkpoints->Save({&state}, {}, 9).code(),
            Code::kInvalidArgument);
  ASSERT_OK(run.checkpoints->Save({&state}, {}, 10));
  ASSERT_OK(run.Save(11));
  EXPECT_EQ(run.checkpoints->latest(), run.Path(11));
  EXPECT_EQ(run.checkpoints->checkpoints().size(), 3u);
}

TEST(CheckpointDirectoryTest, Open_InUseInThisProcess_IsRefusedByItsName) {
  TempFolder folder;
  OneRun run(folder / "d"), second(folder / "d");
  run.Make(1);
  const Status status = second.Open();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_TRUE(Contains(status.message(), folder / "d: in use by process " +
                                             std::to_string(getpid())));
  run.checkpoints.reset();
  EXPECT_OK(second.Open());
}

TEST(CheckpointDirectoryTest,
     Open_InUseByAnotherProcess_IsRefusedUntilThatEnds) {
  TempFolder folder;
  int ready[2], wait[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(wait), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(wait[1]);
    OneRun first(folder / "d");
    const char byte = first.Open().ok() && first.Save(1).ok() ? 'y' : 'n';
    char none;
    const bool sent = write(ready[1], &byte, 1) == 1;
    _exit(sent && read(wait[0], &none, 1) == 0 ? 0 : 1);
  }
  close(wait[0]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  OneRun second(folder / "d");
  const Status status = second.Open();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_TRUE(Contains(status.message(), folder / "d: in use by process " +
                                             std::to_string(child)));
  // Looking is allowed all the while.
  std::string path;
  EXPECT_OK(LatestCheckpoint(folder / "d", &path));
  EXPECT_EQ(path, second.Path(1));
  close(wait[1]);
  int exit_status = 0;
  ASSERT_EQ(waitpid(child, &exit_status, 0), child);
  EXPECT_EQ(exit_status, 0);
  EXPECT_OK(second.Open());
  EXPECT_EQ(second.checkpoints->latest(), second.Path(1));
  for (const int fd : {ready[0], ready[1]}) close(fd);
}

TEST(CheckpointDirectoryTest,
     LatestCheckpoint_RemovedWhileListed_FindsTheNewerOne) {
  class Overtaken final : public SimulatedFileSystem {
   public:
    Status List(const std::string& path,
                std::vector<std::string>* names) override {
      const Status listed = SimulatedFileSystem::List(path, names);
      if (saves_to_come > 0 && !saving_) {
        saving_ = true;
        --saves_to_come;
        save();
        saving_ = false;
      }
      return listed;
    }
    std::function<void()> save;
    int saves_to_come = 0;

   private:
    bool saving_ = false;
  } files;
  OneRun run("d");
  run.options.files = &files;
  run.options.max_to_keep = 1;
  run.Make(1);
  files.save = [&run] { EXPECT_OK(run.Save(2)); };
  files.saves_to_come = 2;
  std::string path;
  EXPECT_OK(LatestCheckpoint("d", &path, "ckpt", &files));
  EXPECT_EQ(path, run.Path(3));
}

TEST(CheckpointDirectoryTest, Open_WrongOptionsOrPath_IsRefused) {
  TempFolder folder;
  const auto code = [&](const std::string& directory,
                        const CheckpointDirectoryOptions& options) {
    std::unique_ptr<CheckpointDirectory> opened;
    return CheckpointDirectory::Open(directory, options, &opened).code();
  };
  CheckpointDirectoryOptions options;
  EXPECT_EQ(code("", options), Code::kInvalidArgument);
  options.max_to_keep = -1;
  EXPECT_EQ(code(folder / "d", options), Code::kInvalidArgument);
  options.max_to_keep = 0;
  options.checkpoint_name = "a/b";
  EXPECT_EQ(code(folder / "d", options), Code::kInvalidArgument);
  options.checkpoint_name = "";
  EXPECT_EQ(code(folder / "d", options), Code::kInvalidArgument);
  options.checkpoint_name = "ckpt";
  WriteWhole(folder / "file", "");
  EXPECT_EQ(code(folder / "file", options), Code::kInvalidArgument);
  std::string path = "x";
  EXPECT_OK(LatestCheckpoint(folder / "none", &path));
  EXPECT_EQ(path, "");
}

// --- the manager -------------------------------------------------------------

TEST(CheckpointManagerTest, RestoreOrInitialize_SecondRun_RestoresTheLatest) {
  TempFolder folder;
  int initialized = 0;
  CheckpointManagerOptions options;
  options.metadata = {{"epoch", "4"}};
  options.init_fn = [&] {
    ++initialized;
    return Status();
  };
  SomeState state(1);
  std::string path;
  {
    CheckpointManager manager({&state}, folder / "d", options);
    ASSERT_OK(manager.RestoreOrInitialize(&path));
    EXPECT_EQ(path, "");
    EXPECT_EQ(initialized, 1);
    EXPECT_EQ(manager.latest_checkpoint(), "");
    for (int i = 1; i <= 7; ++i) {
      state.Fill(i);
      ASSERT_OK(manager.Save(&path));
    }
    EXPECT_EQ(path, folder / "d/ckpt-7.safetensors");
    EXPECT_EQ(manager.latest_checkpoint(), path);
    EXPECT_EQ(manager.checkpoints().size(), 5u);  // max_to_keep
  }
  SomeState restored(0);
  CheckpointManager manager({&restored}, folder / "d", options);
  ASSERT_OK(manager.RestoreOrInitialize(&path));
  EXPECT_EQ(path, folder / "d/ckpt-7.safetensors");
  EXPECT_TRUE(restored == state);
  EXPECT_EQ(manager.restored_metadata().at("epoch"), "4");
  EXPECT_EQ(initialized, 1);
}

TEST(CheckpointManagerTest, Save_CheckpointInterval_SavesOnlyWhenItHasPassed) {
  TempFolder folder;
  SomeState state(0);
  CheckpointManagerOptions options;
  options.step_counter = &state.step;
  options.checkpoint_interval = 10;
  std::string saved;
  const auto steps_saved = [&](CheckpointManager* manager, int from, int to,
                               bool check_interval) {
    std::vector<int> steps;
    for (int i = from; i <= to; ++i) {
      state.step = i;
      EXPECT_OK(manager->Save(&saved, check_interval));
      if (!saved.empty()) steps.push_back(i);
    }
    return steps;
  };
  {
    CheckpointManager manager({&state}, folder / "d", options);
    EXPECT_EQ(steps_saved(&manager, 3, 25, true),
              (std::vector<int>{3, 13, 23}));
    // Without the check: unless the step is the same.
    EXPECT_EQ(steps_saved(&manager, 23, 24, false), std::vector<int>{24});
  }
  CheckpointManager manager({&state}, folder / "d", options);
  state.step = 0;
  ASSERT_OK(manager.RestoreOrInitialize());
  EXPECT_EQ(state.step, 24);
  EXPECT_EQ(steps_saved(&manager, 24, 50, true), (std::vector<int>{34, 44}));
}

TEST(CheckpointManagerTest,
     Manager_WrongOptionsOrDirectoryInUse_KeepsTheError) {
  TempFolder folder;
  SomeState state;
  CheckpointManagerOptions options;
  options.checkpoint_interval = 3;
  CheckpointManager no_counter({&state}, folder / "d", options);
  EXPECT_TRUE(Contains(no_counter.status().message(),
                       "`step_counter` should be passed"));
  EXPECT_EQ(no_counter.Save().code(), Code::kInvalidArgument);
  EXPECT_EQ(no_counter.RestoreOrInitialize().code(), Code::kInvalidArgument);
  EXPECT_EQ(no_counter.latest_checkpoint(), "");
  CheckpointManager first({&state}, folder / "d");
  CheckpointManager second({&state}, folder / "d");
  EXPECT_OK(first.status());
  EXPECT_EQ(second.Save().code(), Code::kAlreadyExists);
}

TEST(CheckpointManagerTest, RestoreOrInitialize_OtherModel_IsRefused) {
  TempFolder folder;
  SomeState state(1, 3), other(2, 4);
  ASSERT_OK(CheckpointManager({&state}, folder / "d").Save());
  CheckpointManager manager({&other}, folder / "d");
  const Status status = manager.RestoreOrInitialize();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(
      status.message(),
      "tensor 'model/dense/kernel' has shape (3, 5) in the file, (4, 5) "
      "here"));
  EXPECT_TRUE(other == SomeState(2, 4));
}

}  // namespace
}  // namespace ringlet
