// Checkpoints on real disks: killed writers, a full disk, an ext4 that is shut
// down during a run, and disks with a power cut after a save. Tests that mount
// use a mount namespace of their own, which ends with the process. They skip
// without the right to mount. RINGLET_SHUTDOWNS is the number of shutdowns of
// ext4.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "../../support/some_state.h"
#include "../../support/temp_folder.h"
#include "io/checkpoint/checkpoint_directory.h"
#include "io/files/atomic_file.h"

namespace ringlet {
namespace {

constexpr int64_t kRows = 2000;  // a state of 40 kB

FileSystem* const files = PosixFiles();

// Saves in a loop, and writes each durable number to a pipe.
class Writer {
 public:
  explicit Writer(const std::string& directory) {
    EXPECT_EQ(pipe(ends_), 0);
    child_ = fork();
    if (child_ == 0) {
      close(ends_[0]);
      SaveUntilKilled(directory, ends_[1]);
    }
    close(ends_[1]);
  }
  ~Writer() { Kill(); }
  // Waits for another file. False if the writer has ended.
  bool SeeOneSaved() {
    return read(ends_[0], &durable_, sizeof(durable_)) == sizeof(durable_);
  }
  // Returns the last number that it reported.
  int64_t Kill() {
    if (child_ == 0) return durable_;
    kill(child_, SIGKILL);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
    while (SeeOneSaved()) {
    }
    close(ends_[0]);
    child_ = 0;
    return durable_;
  }

 private:
  [[noreturn]] static void SaveUntilKilled(const std::string& directory,
                                           int to) {
    std::unique_ptr<CheckpointDirectory> checkpoints;
    CheckpointDirectoryOptions options;
    options.max_to_keep = 2;
    options.warn = [](const std::string&) {};
    if (!CheckpointDirectory::Open(directory, options, &checkpoints).ok()) {
      _exit(1);
    }
    for (;;) {
      const int64_t next = checkpoints->latest_number() + 1;
      SomeState state(next, kRows);
      if (!checkpoints->Save({&state}, {}, next).ok() ||
          write(to, &next, sizeof(next)) != sizeof(next)) {
        _exit(1);
      }
    }
  }

  int ends_[2];
  pid_t child_ = 0;
  int64_t durable_ = 0;
};

// Returns a difference between the disk and the durable files; "" if there is
// none.
std::string WhatIsWrong(const std::string& directory, int64_t durable) {
  std::unique_ptr<CheckpointDirectory> checkpoints;
  const Status opened = CheckpointDirectory::Open(directory, {}, &checkpoints);
  if (!opened.ok()) return opened.message();
  const int64_t latest = checkpoints->latest_number();
  if (latest < durable) {
    return "checkpoint " + std::to_string(durable) + " is lost";
  }
  SomeState state(-1, kRows);
  if (latest > 0) {
    const Status loaded = LoadCheckpoint(checkpoints->latest(), {&state});
    if (!loaded.ok()) return loaded.message();
    if (!(state == SomeState(latest, kRows))) return "another state";
  }
  std::vector<std::string> names;
  const Status listed = files->List(directory, &names);
  if (!listed.ok()) return listed.message();
  for (const std::string& name : names) {
    if (name.find(".tmp") != std::string::npos ||
        name.find(".bad") != std::string::npos) {
      return name + " is there";
    }
  }
  return "";
}

TEST(RealDiskTest, Save_WriterKilled_LosesNothingDurable) {
  TempFolder folder;
  for (int kill_number = 0; kill_number < 30; ++kill_number) {
    Writer writer(folder.path());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(writer.SeeOneSaved());
    usleep(static_cast<useconds_t>(kill_number * 137 % 1500));
    ASSERT_EQ(WhatIsWrong(folder.path(), writer.Kill()), "");
  }
}

// --- what needs to mount -----------------------------------------------------

// A child process returns its answer as exit status; details are on stderr.
enum Answer { kFine = 0, kWrong = 1, kMayNot = 2 };

void ExpectFine(Answer (*question)(const std::string&)) {
  TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const bool alone =
        unshare(CLONE_NEWNS) == 0 &&
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    _exit(alone ? question(folder.path()) : kMayNot);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMayNot)
    GTEST_SKIP() << "may not mount, or not shut down";
  EXPECT_EQ(WEXITSTATUS(status), kFine);
}

Answer Wrong(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return kWrong;
}

Answer SurvivesAFullDisk(const std::string& path) {
  if (mount("none", path.c_str(), "tmpfs", 0, "size=1m") != 0) {
    return kMayNot;
  }
  SomeState state(1, 20000), large(2, 50000);  // 400 kB, 1 MB
  std::unique_ptr<CheckpointDirectory> checkpoints;
  CheckpointDirectoryOptions options;
  options.max_to_keep = 1;
  if (!CheckpointDirectory::Open(path, options, &checkpoints).ok() ||
      !checkpoints->Save({&state}, {}).ok()) {
    return Wrong("the first save");
  }
  // A larger file does not fit, nor one beside another's file.
  WriteWhole(path + "/others", std::string(500000, 'x'));
  for (SomeState* next : {&large, &state}) {
    const Status full = checkpoints->Save({next}, {});
    if (full.code() != Code::kResourceExhausted) return Wrong(full.message());
  }
  if (!VerifyCheckpoint(checkpoints->latest()).ok())
    return Wrong("the old one");
  unlink((path + "/others").c_str());
  const Status again = checkpoints->Save({&state}, {});
  if (!again.ok()) return Wrong(again.message());
  std::vector<std::string> names;
  if (!files->List(path, &names).ok() || names.size() != 3 ||
      checkpoints->latest_number() != 2) {
    return Wrong("what is left");
  }
  return kFine;
}

TEST(RealDiskTest, Save_DiskIsFull_KeepsTheOldCheckpoint) {
  ExpectFine(SurvivesAFullDisk);
}

bool Shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Ends the disk without writing its journal, as a power cut does.
bool ShutDown(const std::string& disk) {
  constexpr unsigned long kShutdown = _IOR('X', 125, uint32_t);
  uint32_t without_flush = 2;
  const int fd = open(disk.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = fd >= 0 && ioctl(fd, kShutdown, &without_flush) == 0;
  if (fd >= 0) close(fd);
  return done;
}

Answer SurvivesShutdowns(const std::string& folder) {
  const std::string image = folder + "/image", disk = folder + "/disk";
  const std::string mount_disk = "mount -o loop " + image + " " + disk;
  if (!Shell("mkdir " + disk + " && truncate -s 16M " + image +
             " && mkfs.ext4 -q -F " + image) ||
      !Shell(mount_disk)) {
    return kMayNot;
  }
  const int shutdowns =
      std::atoi(EnvironmentOr("RINGLET_SHUTDOWNS", "10").c_str());
  std::mt19937 random(1);
  const std::string directory = disk + "/d";
  for (int i = 0; i < shutdowns; ++i) {
    Writer writer(directory);
    if (!writer.SeeOneSaved()) return Wrong("the writer ended");
    usleep(static_cast<useconds_t>(random() % 20000));
    if (!ShutDown(disk)) {
      // qemu-user does not have this ioctl.
      return errno == ENOTTY || errno == ENOSYS ? kMayNot
                                                : Wrong("EXT4_IOC_SHUTDOWN");
    }
    const int64_t durable = writer.Kill();
    if (!Shell("umount " + disk) || !Shell(mount_disk)) {
      return Wrong("mounting again");
    }
    const std::string wrong = WhatIsWrong(directory, durable);
    if (!wrong.empty()) return Wrong(wrong);
  }
  std::printf("%d shutdowns of ext4\n", shutdowns);
  std::fflush(stdout);
  return Shell("umount " + disk) ? kFine : Wrong("umount");
}

TEST(RealDiskTest, Save_Ext4ShutDown_LosesNothingDurable) {
  ExpectFine(SurvivesShutdowns);
}

// Commits a file with this content. Returns false if that failed.
bool Replace(const std::string& path, const std::string& content,
             bool replace) {
  AtomicFile file;
  return file.Open(files, path, static_cast<int64_t>(content.size())).ok() &&
         file.file()->Write(content.data(), content.size()).ok() &&
         file.Commit(nullptr, replace).ok();
}

// Copies the disk's image without unmounting it, as a power cut would leave it.
// Then checks the files in the copy.
Answer KeepsWhatWasCommitted(const std::string& folder,
                             const std::string& make) {
  const std::string image = folder + "/image", disk = folder + "/disk",
                    cut = folder + "/cut", after = folder + "/after";
  if (!Shell("mkdir " + disk + " " + after + " && truncate -s 16M " + image +
             " && " + make + " " + image) ||
      !Shell("mount -o loop " + image + " " + disk)) {
    return kMayNot;
  }
  constexpr int kSaves = 12;
  for (int i = 0; i < kSaves; ++i) {
    const std::string content(30000 + 1000 * i, static_cast<char>('a' + i));
    const std::string name = "/new" + std::to_string(i);
    if (!Replace(disk + "/m", content, /*replace=*/true) ||
        !Replace(disk + name, content, /*replace=*/false)) {
      return Wrong("a save");
    }
    if (Replace(disk + name, "other", /*replace=*/false)) {
      return Wrong("a file was replaced");
    }
    if (!Shell("cp " + image + " " + cut) ||
        !Shell("mount -o loop " + cut + " " + after)) {
      return Wrong("mounting the copy");
    }
    const bool same = ReadWhole(after + "/m") == content &&
                      ReadWhole(after + name) == content;
    if (!Shell("umount " + after)) return Wrong("umount");
    if (!same) return Wrong("save " + std::to_string(i) + " is lost");
  }
  return Shell("umount " + disk) ? kFine : Wrong("umount");
}

Answer KeepsOnExt4(const std::string& folder) {
  return KeepsWhatWasCommitted(folder, "mkfs.ext4 -q -F");
}
Answer KeepsOnVfat(const std::string& folder) {
  return KeepsWhatWasCommitted(folder, "mkfs.vfat");
}
Answer KeepsOnExfat(const std::string& folder) {
  return KeepsWhatWasCommitted(folder, "mkfs.exfat");
}

TEST(RealDiskTest, Commit_PowerCutOnExt4_TheNewFileIsThere) {
  ExpectFine(KeepsOnExt4);
}
TEST(RealDiskTest, Commit_PowerCutOnVfat_TheNewFileIsThere) {
  ExpectFine(KeepsOnVfat);
}
TEST(RealDiskTest, Commit_PowerCutOnExfat_TheNewFileIsThere) {
  ExpectFine(KeepsOnExfat);
}

}  // namespace
}  // namespace ringlet
