#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "io/files/path.h"

namespace ringlet {
namespace {

FileSystem* const files = PosixFiles();

TEST(PosixFileSystemTest, File_Written_IsReadBack) {
  TempFolder folder;
  const std::string path = folder / "a";
  std::unique_ptr<File> file;
  ASSERT_OK(files->Create(path, &file));
  ASSERT_OK(file->Preallocate(6));
  int64_t size = 0;
  ASSERT_OK(file->Size(&size));
  EXPECT_EQ(size, 6);
  ASSERT_OK(file->Write("abc", 3));
  ASSERT_OK(file->Write("def", 3));
  ASSERT_OK(file->Sync());
  ASSERT_OK(file->Close());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask);
  ASSERT_OK(files->Open(path, &file));
  char text[7] = {};
  ASSERT_OK(file->Read(2, text, 3));
  EXPECT_STREQ(text, "cde");
  const Status past = file->Read(4, text, 5);
  EXPECT_EQ(past.code(), Code::kCorruption);
  EXPECT_TRUE(Contains(past.message(), "a: ends at offset 6, 3 bytes early"));
}

TEST(PosixFileSystemTest, Create_ExistingFileOrLink_IsRefused) {
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

TEST(PosixFileSystemTest, Open_FifoOrFolder_IsRefused) {
  TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::unique_ptr<File> file;
  EXPECT_EQ(files->Open(folder / "fifo", &file).code(), Code::kInvalidArgument);
  EXPECT_EQ(files->Open(folder.path(), &file).code(), Code::kInvalidArgument);
  EXPECT_EQ(file, nullptr);
}

TEST(PosixFileSystemTest, Folders_MadeAndListed_HaveTheirNames) {
  TempFolder folder;
  ASSERT_OK(files->MakeFolder(folder / "x/y/z"));
  ASSERT_OK(files->MakeFolder(folder / "x/y/z"));
  WriteWhole(folder / "x/b", "");
  WriteWhole(folder / "x/a", "");
  EXPECT_EQ(files->MakeFolder(folder / "x/a").code(), Code::kInvalidArgument);
  EXPECT_FALSE(files->MakeFolder(folder / "x/a/b").ok());
  std::vector<std::string> names;
  ASSERT_OK(files->List(folder / "x", &names));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_OK(files->SyncFolder(folder / "x"));
  EXPECT_EQ(files->List(folder / "no", &names).code(), Code::kNotFound);
  EXPECT_EQ(files->Remove(folder / "no").code(), Code::kNotFound);
  EXPECT_EQ(files->Rename(folder / "no", folder / "x").code(), Code::kNotFound);
}

TEST(PosixFileSystemTest, LockFolder_AlreadyLocked_IsRefused) {
  TempFolder folder;
  std::unique_ptr<HeldLock> first, second;
  ASSERT_OK(files->LockFolder(folder.path(), &first));
  EXPECT_EQ(files->LockFolder(folder.path(), &second).code(),
            Code::kAlreadyExists);
  first.reset();
  EXPECT_OK(files->LockFolder(folder.path(), &second));
  EXPECT_EQ(files->LockFolder(folder / "no", &first).code(), Code::kNotFound);
}

TEST(PosixFileSystemTest, LockFile_MissingOrAlreadyLocked_IsRefused) {
  TempFolder folder;
  std::unique_ptr<HeldLock> first, second;
  EXPECT_EQ(files->LockFile(folder / "a", &first).code(), Code::kNotFound);
  WriteWhole(folder / "a", "");
  ASSERT_OK(files->LockFile(folder / "a", &first));
  EXPECT_EQ(files->LockFile(folder / "a", &second).code(),
            Code::kAlreadyExists);
  first.reset();
  EXPECT_OK(files->LockFile(folder / "a", &second));
}

TEST(PosixFileSystemTest, Paths_FolderAndFileName_AreSplit) {
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

TEST(PosixFileSystemTest, Create_AnyUmask_IsTheFilesMode) {
  TempFolder folder;
  const mode_t before = umask(0);
  for (const mode_t mask : {0022u, 0077u, 0002u, 0u}) {
    umask(mask);
    const std::string path = folder / std::to_string(mask);
    AtomicFile file;
    ASSERT_OK(file.Open(PosixFiles(), path, 0));
    ASSERT_OK(file.Commit());
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0666u & ~mask) << mask;
  }
  umask(before);
}

TEST(PosixFileSystemTest, Commit_ReplacesAFile_KeepsItsMode) {
  TempFolder folder;
  const std::string path = folder / "a";
  std::unique_ptr<File> made;
  ASSERT_OK(PosixFiles()->Create(path, &made));
  for (const mode_t mode : {0600u, 0640u, 0666u, 0755u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    AtomicFile file;
    ASSERT_OK(file.Open(PosixFiles(), path, 10));
    struct stat info;
    ASSERT_EQ(stat(file.file()->path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode);  // the first byte has this mode
    ASSERT_OK(file.Commit());
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode);
  }
  // The owner can replace the file again.
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  AtomicFile file;
  ASSERT_OK(file.Open(PosixFiles(), path, 10));
  ASSERT_OK(file.Commit());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

// Replaces a file of `mode`, and returns the new file's metadata.
struct stat Replaced(const std::string& path, mode_t mode) {
  struct stat info = {};
  AtomicFile file;
  const bool done =
      chmod(path.c_str(), mode) == 0 &&
      file.Open(PosixFiles(), path, 10, /*is_private=*/true).ok() &&
      file.Commit().ok() && stat(path.c_str(), &info) == 0;
  EXPECT_TRUE(done);
  return info;
}

// Permissions of a group are no other group's.
TEST(PosixFileSystemTest, Commit_ReplacesAFile_KeepsItsGroup) {
  gid_t groups[64];
  const int count = getgroups(64, groups);
  gid_t other = geteuid() == 0 ? 100 : getegid();
  for (int i = 0; i < count; ++i) {
    if (groups[i] != getegid()) other = groups[i];
  }
  TempFolder folder;
  const std::string path = folder / "a";
  std::unique_ptr<File> made;
  ASSERT_OK(PosixFiles()->Create(path, &made));
  ASSERT_EQ(chown(path.c_str(), static_cast<uid_t>(-1), other), 0);
  for (const mode_t mode : {0640u, 0644u, 0660u}) {
    const struct stat info = Replaced(path, mode);
    EXPECT_EQ(info.st_gid, other);
    EXPECT_EQ(info.st_mode & 0777, mode);
  }
}

// The user is not in the file's group. Only root can make such a file.
TEST(PosixFileSystemTest, Commit_GroupCannotBeKept_DropsItsPermissions) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  constexpr mode_t kModes[][2] = {{0640, 0600}, {0664, 0644}, {0600, 0600}};
  for (const auto& [before, after] : kModes) {
    const std::string path = folder / "a";
    std::unique_ptr<File> made;
    ASSERT_OK(PosixFiles()->Create(path, &made));
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

// Runs `check` in a process of another user than the folder's owner, and
// returns its result. Needs root.
bool AsAnotherUser(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    const bool other =
        setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
    _exit(other && check() ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

bool Replaces(const std::string& path) {
  AtomicFile file;
  return file.Open(PosixFiles(), path, 10, /*is_private=*/true).ok() &&
         file.Commit().ok();
}

TEST(PosixFileSystemTest, CopyMode_FileOrLinkOfAnotherUser_StaysPrivate) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const std::string path = folder / "a", link = folder / "link",
                    own = folder / "own";
  WriteWhole(path, "theirs");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  ASSERT_EQ(symlink("own", link.c_str()), 0);
  EXPECT_TRUE(AsAnotherUser([&] {
    if (!Replaces(path) || ModeOf(path) != 0600) return false;
    WriteWhole(own, "public");
    if (chmod(own.c_str(), 0644) != 0) return false;
    return Replaces(link) && ModeOf(link) == 0600;
  }));
}

// In a sticky folder, as /tmp is.
TEST(AtomicFileTest, Open_TemporaryOfAnotherUser_WritesBesideIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  for (const mode_t mode : {01777u, 0777u}) {
    TempFolder folder;
    ASSERT_EQ(chmod(folder.path().c_str(), mode), 0);
    const std::string path = folder / "a", temporary = path + ".1-0.tmp";
    AtomicFile alive;  // 0600: another user cannot open it to ask for its lock
    ASSERT_OK(alive.Open(PosixFiles(), path, 4, /*is_private=*/true));
    ASSERT_OK(alive.file()->Write("mine", 4));
    WriteWhole(temporary, "left");
    ASSERT_EQ(chmod(temporary.c_str(), 0600), 0);
    EXPECT_TRUE(AsAnotherUser([&] { return Replaces(path); })) << mode;
    EXPECT_EQ(ReadWhole(temporary), "left");
    // In the sticky folder the other user's file has the name now.
    const bool was_kept = ReadWhole(alive.file()->path()) == "mine";
    EXPECT_TRUE(was_kept) << mode;
    if (mode == 0777) {
      EXPECT_OK(alive.Commit());
    }
  }
}

// A user that can open the file could lock it.
TEST(PosixFileSystemTest, LockFolder_UsualUmask_NoOtherUserCanOpenTheLock) {
  const mode_t before = umask(022);
  TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const std::string path = folder / FileSystem::kLockName;
  WriteWhole(path, "");  // older versions made it so
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  for (const bool again : {true, false}) {
    std::unique_ptr<HeldLock> lock;
    ASSERT_OK(PosixFiles()->LockFolder(folder.path(), &lock));
    EXPECT_EQ(ModeOf(path), 0600u) << again;
    lock.reset();
    unlink(path.c_str());
  }
  umask(before);
}

// A pipe or a device stays one, as /dev/null does when root saves to it.
TEST(PosixFileSystemTest, Open_ToReplaceAPipe_IsRefused) {
  TempFolder folder;
  const std::string pipe = folder / "pipe", link = folder / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(symlink("pipe", link.c_str()), 0);
  for (const std::string& path : {pipe, link}) {
    AtomicFile file;
    EXPECT_EQ(file.Open(PosixFiles(), path, 0).code(), Code::kInvalidArgument);
  }
  std::vector<std::string> names;
  ASSERT_OK(PosixFiles()->List(folder.path(), &names));
  EXPECT_EQ(names, (std::vector<std::string>{"link", "pipe"}));
  struct stat info;
  ASSERT_EQ(stat(link.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST(PosixFileSystemTest, Commit_SeveralWritersOfANewName_OneSucceeds) {
  TempFolder folder;
  const std::string path = folder / "a";
  AtomicFile first, second;
  ASSERT_OK(first.Open(PosixFiles(), path, 0));
  ASSERT_OK(second.Open(PosixFiles(), path, 0));
  ASSERT_OK(first.file()->Write("1", 1));
  ASSERT_OK(second.file()->Write("2", 1));
  ASSERT_OK(first.Commit(nullptr, /*replace=*/false));
  bool renamed = true;
  EXPECT_EQ(second.Commit(&renamed, /*replace=*/false).code(),
            Code::kAlreadyExists);
  EXPECT_FALSE(renamed);
  std::string bytes;
  ASSERT_OK(ReadWholeFile(PosixFiles(), path, 10, &bytes));
  EXPECT_EQ(bytes, "1");
}

TEST(PosixFileSystemTest, Open_MissingFile_NamesItsFolder) {
  TempFolder folder;
  std::unique_ptr<File> file;
  const Status whole = PosixFiles()->Open(folder / "none", &file);
  EXPECT_EQ(whole.code(), Code::kNotFound);
  EXPECT_EQ(std::string(whole.message()),
            folder / "none" + ": No such file or directory");
  char here[4096];
  ASSERT_NE(getcwd(here, sizeof(here)), nullptr);
  const Status relative = PosixFiles()->Open("no-such.file", &file);
  EXPECT_EQ(relative.code(), Code::kNotFound);
  EXPECT_EQ(std::string(relative.message()),
            std::string("no-such.file, from the current folder ") + here +
                ": No such file or directory");
}

TEST(AtomicFileTest, Close_NotCommitted_LeavesTheOldFileAlone) {
  TempFolder folder;
  WriteWhole(folder / "a", "old");
  {
    AtomicFile file;
    ASSERT_OK(file.Open(files, folder / "a", 3));
    ASSERT_OK(file.file()->Write("new", 3));
  }
  EXPECT_EQ(ReadWhole(folder / "a"), "old");
  std::vector<std::string> names;
  ASSERT_OK(files->List(folder.path(), &names));
  EXPECT_EQ(names.size(), 1u);
  AtomicFile file;
  ASSERT_OK(file.Open(files, folder / "a", 3));
  ASSERT_OK(file.file()->Write("new", 3));
  bool renamed = false;
  ASSERT_OK(file.Commit(&renamed));
  EXPECT_TRUE(renamed);
  EXPECT_EQ(ReadWhole(folder / "a"), "new");
}

}  // namespace
}  // namespace ringlet
