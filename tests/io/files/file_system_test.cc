#include "io/files/file_system.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/temp_folder.h"

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
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask);
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
  std::unique_ptr<HeldLock> first, second;
  ASSERT_TRUE(files->LockDirectory(folder.path(), &first).ok());
  EXPECT_EQ(files->LockDirectory(folder.path(), &second).code(),
            Code::kAlreadyExists);
  first.reset();
  EXPECT_TRUE(files->LockDirectory(folder.path(), &second).ok());
  EXPECT_EQ(files->LockDirectory(folder / "no", &first).code(),
            Code::kNotFound);
}

TEST(PosixFileSystemTest, AFilesLockIsHeldOnceAndOnlyOfAFileThatIsThere) {
  TempFolder folder;
  std::unique_ptr<HeldLock> first, second;
  EXPECT_EQ(files->LockFile(folder / "a", &first).code(), Code::kNotFound);
  WriteWhole(folder / "a", "");
  ASSERT_TRUE(files->LockFile(folder / "a", &first).ok());
  EXPECT_EQ(files->LockFile(folder / "a", &second).code(),
            Code::kAlreadyExists);
  first.reset();
  EXPECT_TRUE(files->LockFile(folder / "a", &second).ok());
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

TEST(PosixFileSystemTest, TheUmaskSaysWhoMayReadAFile) {
  TempFolder folder;
  const mode_t before = umask(0);
  for (const mode_t mask : {0022u, 0077u, 0002u, 0u}) {
    umask(mask);
    const std::string path = folder / std::to_string(mask);
    AtomicFile file;
    ASSERT_TRUE(file.Open(FileSystem::Posix(), path, 0).ok());
    ASSERT_TRUE(file.Commit().ok());
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask) << mask;
  }
  umask(before);
}

TEST(PosixFileSystemTest, AReplacedFileHandsOnItsMode) {
  TempFolder folder;
  const std::string path = folder / "a";
  std::unique_ptr<File> made;
  ASSERT_TRUE(FileSystem::Posix()->Create(path, &made).ok());
  for (const mode_t mode : {0600u, 0640u, 0666u, 0755u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    AtomicFile file;
    ASSERT_TRUE(file.Open(FileSystem::Posix(), path, 10).ok());
    struct stat info;
    ASSERT_EQ(stat(file.file()->path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode);  // from its first byte on
    ASSERT_TRUE(file.Commit().ok());
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode);
  }
  // Its owner's to replace again.
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  AtomicFile file;
  ASSERT_TRUE(file.Open(FileSystem::Posix(), path, 10).ok());
  ASSERT_TRUE(file.Commit().ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

// What a file of `mode` is once it was replaced.
struct stat Replaced(const std::string& path, mode_t mode) {
  struct stat info = {};
  AtomicFile file;
  const bool done = chmod(path.c_str(), mode) == 0 &&
                    file.Open(FileSystem::Posix(), path, 10, true).ok() &&
                    file.Commit().ok() && stat(path.c_str(), &info) == 0;
  EXPECT_TRUE(done);
  return info;
}

// Permissions of a group are no other group's.
TEST(PosixFileSystemTest, AReplacedFileHandsOnItsGroup) {
  gid_t groups[64];
  const int count = getgroups(64, groups);
  gid_t other = geteuid() == 0 ? 100 : getegid();
  for (int i = 0; i < count; ++i) {
    if (groups[i] != getegid()) other = groups[i];
  }
  TempFolder folder;
  const std::string path = folder / "a";
  std::unique_ptr<File> made;
  ASSERT_TRUE(FileSystem::Posix()->Create(path, &made).ok());
  ASSERT_EQ(chown(path.c_str(), static_cast<uid_t>(-1), other), 0);
  for (const mode_t mode : {0640u, 0644u, 0660u}) {
    const struct stat info = Replaced(path, mode);
    EXPECT_EQ(info.st_gid, other);
    EXPECT_EQ(info.st_mode & 0777, mode);
  }
}

// Only root can show it: a user whose group it is not.
TEST(PosixFileSystemTest, AGroupThatCannotBeGivenTakesItsPermissionsAlong) {
  if (geteuid() != 0) return;
  TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  constexpr mode_t kModes[][2] = {{0640, 0600}, {0664, 0644}, {0600, 0600}};
  for (const auto& [before, after] : kModes) {
    const std::string path = folder / "a";
    std::unique_ptr<File> made;
    ASSERT_TRUE(FileSystem::Posix()->Create(path, &made).ok());
    ASSERT_EQ(chown(path.c_str(), 65534, 100), 0);
    const pid_t child = fork();
    if (child == 0) {
      const bool nobody = setgroups(0, nullptr) == 0 && setgid(65534) == 0 &&
                          setuid(65534) == 0;
      const struct stat info = Replaced(path, before);
      _exit(nobody && info.st_gid == 65534 && (info.st_mode & 0777) == after
                ? 0
                : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << std::oct << before;
    ASSERT_EQ(unlink(path.c_str()), 0);
  }
}

// Where root saves to /dev/null the device stays one.
TEST(PosixFileSystemTest, OnlyAFileIsReplaced) {
  TempFolder folder;
  const std::string pipe = folder / "pipe", link = folder / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(symlink("pipe", link.c_str()), 0);
  for (const std::string& path : {pipe, link}) {
    AtomicFile file;
    EXPECT_EQ(file.Open(FileSystem::Posix(), path, 0).code(),
              Code::kInvalidArgument);
  }
  std::vector<std::string> names;
  ASSERT_TRUE(FileSystem::Posix()->List(folder.path(), &names).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"link", "pipe"}));
  struct stat info;
  ASSERT_EQ(stat(link.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST(PosixFileSystemTest, ANewNameIsTakenByOneOfSeveralWriters) {
  TempFolder folder;
  const std::string path = folder / "a";
  AtomicFile first, second;
  ASSERT_TRUE(first.Open(FileSystem::Posix(), path, 0).ok());
  ASSERT_TRUE(second.Open(FileSystem::Posix(), path, 0).ok());
  ASSERT_TRUE(first.file()->Write("1", 1).ok());
  ASSERT_TRUE(second.file()->Write("2", 1).ok());
  ASSERT_TRUE(first.Commit(nullptr, /*replace=*/false).ok());
  bool renamed = true;
  EXPECT_EQ(second.Commit(&renamed, /*replace=*/false).code(),
            Code::kAlreadyExists);
  EXPECT_FALSE(renamed);
  std::string bytes;
  ASSERT_TRUE(ReadWholeFile(FileSystem::Posix(), path, 10, &bytes).ok());
  EXPECT_EQ(bytes, "1");
}

TEST(PosixFileSystemTest, WhatIsNotThereIsNamedWithItsFolder) {
  TempFolder folder;
  std::unique_ptr<File> file;
  const Status whole = FileSystem::Posix()->Open(folder / "none", &file);
  EXPECT_EQ(whole.code(), Code::kNotFound);
  EXPECT_EQ(std::string(whole.message()),
            folder / "none" + ": No such file or directory");
  char here[4096];
  ASSERT_NE(getcwd(here, sizeof(here)), nullptr);
  const Status relative = FileSystem::Posix()->Open("no-such.file", &file);
  EXPECT_EQ(relative.code(), Code::kNotFound);
  EXPECT_EQ(std::string(relative.message()),
            std::string("no-such.file, from the current folder ") + here +
                ": No such file or directory");
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

}  // namespace
}  // namespace ringlet
