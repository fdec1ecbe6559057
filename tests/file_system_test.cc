#include "io/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "io/checkpoint.h"
#include "io/checkpoint_directory.h"
#include "some_state.h"
#include "temp_folder.h"

namespace ringlet {
namespace {

FileSystem* const files = FileSystem::Posix();

void ExpectHas(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(PosixFileSystemTest, AFileIsWrittenAndReadBack) {
  TempFolder folder;
  const std::string path = folder / "a";
  std::unique_ptr<File> file;
  ASSERT_TRUE(files->Create(path, &file).ok());
  ASSERT_TRUE(file->Preallocate(6).ok());
  int64_t size = 0;
  ASSERT_TRUE(file->Size(&size).ok());
  EXPECT_EQ(size, 6);
  ASSERT_TRUE(file->Write("abc", 3).ok());
  ASSERT_TRUE(file->Write("def", 3).ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Close().ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_TRUE(files->Open(path, &file).ok());
  char text[7] = {};
  ASSERT_TRUE(file->Read(2, text, 3).ok());
  EXPECT_STREQ(text, "cde");
  const Status past = file->Read(4, text, 5);
  EXPECT_EQ(past.code(), Code::kCorruption);
  ExpectHas(past.message(), "a: ends at offset 6, 3 bytes early");
}

TEST(PosixFileSystemTest, CreatingIsExclusiveAndFollowsNoLink) {
  TempFolder folder;
  WriteWhole(folder / "a", "mine");
  ASSERT_EQ(symlink((folder / "b").c_str(), (folder / "link").c_str()), 0);
  std::unique_ptr<File> file;
  for (const char* name : {"a", "link"}) {
    EXPECT_EQ(files->Create(folder / name, &file).code(), Code::kAlreadyExists);
  }
  EXPECT_EQ(ReadWhole(folder / "a"), "mine");
  EXPECT_EQ(files->Create(folder / "no/a", &file).code(), Code::kNotFound);
}

TEST(PosixFileSystemTest, OnlyRegularFilesAreOpened) {
  TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::unique_ptr<File> file;
  EXPECT_EQ(files->Open(folder / "fifo", &file).code(), Code::kInvalidArgument);
  EXPECT_EQ(files->Open(folder.path(), &file).code(), Code::kInvalidArgument);
  EXPECT_EQ(file, nullptr);
}

TEST(PosixFileSystemTest, FoldersAreMadeListedAndSynced) {
  TempFolder folder;
  ASSERT_TRUE(files->MakeDirectory(folder / "x/y/z").ok());
  ASSERT_TRUE(files->MakeDirectory(folder / "x/y/z").ok());
  WriteWhole(folder / "x/b", "");
  WriteWhole(folder / "x/a", "");
  EXPECT_EQ(files->MakeDirectory(folder / "x/a").code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(files->MakeDirectory(folder / "x/a/b").ok());
  std::vector<std::string> names;
  ASSERT_TRUE(files->List(folder / "x", &names).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_TRUE(files->SyncDirectory(folder / "x").ok());
  EXPECT_EQ(files->List(folder / "no", &names).code(), Code::kNotFound);
  EXPECT_EQ(files->Remove(folder / "no").code(), Code::kNotFound);
  EXPECT_EQ(files->Rename(folder / "no", folder / "x").code(), Code::kNotFound);
}

TEST(PosixFileSystemTest, ALockIsHeldOnce) {
  TempFolder folder;
  std::unique_ptr<FolderLock> first, second;
  ASSERT_TRUE(files->LockDirectory(folder.path(), &first).ok());
  EXPECT_EQ(files->LockDirectory(folder.path(), &second).code(),
            Code::kAlreadyExists);
  first.reset();
  EXPECT_TRUE(files->LockDirectory(folder.path(), &second).ok());
  EXPECT_EQ(files->LockDirectory(folder / "no", &first).code(),
            Code::kNotFound);
}

TEST(PosixFileSystemTest, PathsAreTakenApart) {
  EXPECT_EQ(FolderOf("a"), ".");
  EXPECT_EQ(FolderOf("/a"), "/");
  EXPECT_EQ(FolderOf("b/a"), "b");
  EXPECT_EQ(FileNameOf("b/a"), "a");
  EXPECT_EQ(AtomicFile::TargetOf("a.b.12-3.tmp"), "a.b");
  for (const char* name : {"a.tmp", "a.1.tmp", "a.-1.tmp", "a.1-.tmp", ".tmp",
                           "1-2.tmp", "a1-2.tmp", "a.1-2.tmpx"}) {
    EXPECT_EQ(AtomicFile::TargetOf(name), "") << name;
  }
}

TEST(AtomicFileTest, WhatIsNotCommittedLeavesNothing) {
  TempFolder folder;
  WriteWhole(folder / "a", "old");
  {
    AtomicFile file;
    ASSERT_TRUE(file.Open(files, folder / "a", 3).ok());
    ASSERT_TRUE(file.file()->Write("new", 3).ok());
  }
  EXPECT_EQ(ReadWhole(folder / "a"), "old");
  std::vector<std::string> names;
  ASSERT_TRUE(files->List(folder.path(), &names).ok());
  EXPECT_EQ(names.size(), 1u);
  AtomicFile file;
  ASSERT_TRUE(file.Open(files, folder / "a", 3).ok());
  ASSERT_TRUE(file.file()->Write("new", 3).ok());
  bool renamed = false;
  ASSERT_TRUE(file.Commit(&renamed).ok());
  EXPECT_TRUE(renamed);
  EXPECT_EQ(ReadWhole(folder / "a"), "new");
}

// What a child answers through its exit status.
enum Answer { kYes = 0, kNo = 1, kCannotTry = 2 };

Answer Ask(Answer (*question)(const std::string&), const std::string& path) {
  const pid_t child = fork();
  if (child == 0) _exit(question(path));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? static_cast<Answer>(WEXITSTATUS(status)) : kNo;
}

// Within a mount namespace of its own, so that nothing outlives it.
Answer SurvivesAFullDisk(const std::string& path) {
  if (unshare(CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", path.c_str(), "tmpfs", 0, "size=1m") != 0) {
    return kCannotTry;
  }
  SomeState state(1, 20000);  // 400 kB
  std::unique_ptr<CheckpointDirectory> checkpoints;
  CheckpointDirectoryOptions options;
  options.max_to_keep = 1;
  if (!CheckpointDirectory::Open(path, options, &checkpoints).ok()) return kNo;
  if (!checkpoints->Save({&state}, {}).ok()) return kNo;
  // Neither a larger one nor one beside another's file fits.
  SomeState large(2, 50000);
  const Status full = checkpoints->Save({&large}, {});
  if (full.code() != Code::kResourceExhausted) return kNo;
  WriteWhole(path + "/others", std::string(500000, 'x'));
  if (checkpoints->Save({&state}, {}).ok()) return kNo;
  if (!VerifyCheckpoint(checkpoints->latest()).ok()) return kNo;
  unlink((path + "/others").c_str());
  if (!checkpoints->Save({&state}, {}).ok()) return kNo;
  std::vector<std::string> names;
  const bool listed = files->List(path, &names).ok();
  return listed && names.size() == 3 && checkpoints->latest_number() == 2 ? kYes
                                                                          : kNo;
}

TEST(PosixFileSystemTest, AFullDiskKeepsTheOldCheckpoint) {
  TempFolder folder;
  const Answer answer = Ask(SurvivesAFullDisk, folder.path());
  if (answer == kCannotTry) GTEST_SKIP() << "may not mount a tmpfs";
  EXPECT_EQ(answer, kYes);
}

// Saves in a loop, and says each durable number in a pipe, until killed.
[[noreturn]] void SaveUntilKilled(const std::string& directory, int pipe) {
  std::unique_ptr<CheckpointDirectory> checkpoints;
  CheckpointDirectoryOptions options;
  options.max_to_keep = 2;
  if (!CheckpointDirectory::Open(directory, options, &checkpoints).ok()) {
    _exit(1);
  }
  for (;;) {
    const int64_t next = checkpoints->latest_number() + 1;
    SomeState state(next, 2000);
    if (!checkpoints->Save({&state}, {}, next).ok() ||
        write(pipe, &next, sizeof(next)) != sizeof(next)) {
      _exit(1);
    }
  }
}

TEST(PosixFileSystemTest, AKilledWriterLosesNothingDurable) {
  TempFolder folder;
  CheckpointDirectoryOptions options;
  options.max_to_keep = 2;
  int64_t durable = 0;
  for (int kill_number = 0; kill_number < 30; ++kill_number) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) SaveUntilKilled(folder.path(), ends[1]);
    close(ends[1]);
    // At least two saves, then a moment that differs each time.
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(read(ends[0], &durable, sizeof(durable)),
                static_cast<ssize_t>(sizeof(durable)));
    }
    usleep(static_cast<useconds_t>(kill_number * 137 % 1500));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    while (read(ends[0], &durable, sizeof(durable)) > 0) {
    }
    close(ends[0]);
    std::unique_ptr<CheckpointDirectory> checkpoints;
    const Status opened =
        CheckpointDirectory::Open(folder.path(), options, &checkpoints);
    ASSERT_TRUE(opened.ok()) << opened.message();
    const int64_t latest = checkpoints->latest_number();
    ASSERT_GE(latest, durable);
    SomeState state(0, 2000);
    ASSERT_TRUE(LoadCheckpoint(checkpoints->latest(), {&state}).ok());
    ASSERT_TRUE(state == SomeState(latest, 2000));
    std::vector<std::string> names;
    ASSERT_TRUE(files->List(folder.path(), &names).ok());
    for (const std::string& name : names) {
      ASSERT_EQ(name.find(".tmp"), std::string::npos) << name;
      ASSERT_EQ(name.find(".bad"), std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace ringlet
