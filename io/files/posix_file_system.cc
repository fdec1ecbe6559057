// Every descriptor is closed on exec and owned by one Descriptor. Locks are
// flock's: they belong to the open file and end with the process. The holder of
// a lock must check that its name is still that file (IsStillAt).

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "../../core/base/fnv1a.h"
#include "../../core/base/same_file.h"
#include "file_system.h"
#include "file_version.h"
#include "open_error.h"
#include "path.h"

namespace ringlet {

namespace {

// Calls `call` until a signal no longer interrupts it.
template <typename Call>
auto CallUninterrupted(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

int OpenDescriptor(const std::string& path, int flags, mode_t mode = 0666) {
  return CallUninterrupted(
      [&] { return open(path.c_str(), flags | O_CLOEXEC, mode); });
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

// While it exists, a write of this thread to a pipe without a reader returns an
// error and raises no signal.
class NoSigpipe {
 public:
  explicit NoSigpipe(bool acts) : acts_(acts) {
    if (!acts_) return;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    if (!acts_) return;
    const int error = errno;
    const timespec now = {};
    if (error == EPIPE && !was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  const bool acts_;
  bool was_pending_ = false;
  sigset_t pipe_, before_;
};

// The random id that the kernel draws at boot; empty if it cannot be read.
std::string BootId() {
  const Descriptor fd(
      OpenDescriptor("/proc/sys/kernel/random/boot_id", O_RDONLY));
  char id[36];
  const ssize_t n = fd.get() < 0 ? 0 : read(fd.get(), id, sizeof(id));
  return {id, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

class PosixFile final : public File {
 public:
  PosixFile(const std::string& path, int fd, bool is_pipe = false)
      : path_(path), fd_(fd), is_pipe_(is_pipe) {}

  Status WriteSome(const void* data, size_t bytes, size_t* written) override {
    const NoSigpipe guard(is_pipe_);
    // Linux moves at most 2 GiB in a call.
    const ssize_t n = write(fd_.get(), data, std::min<size_t>(bytes, 1 << 30));
    *written = n < 0 ? 0 : static_cast<size_t>(n);
    return n > 0 ? Status() : Failed(n == 0 ? EIO : errno, "writing");
  }

  bool WaitWritable(int milliseconds) override {
    pollfd file = {fd_.get(), POLLOUT, 0};
    return CallUninterrupted([&] { return poll(&file, 1, milliseconds); }) > 0;
  }

  Status ReadSome(int64_t offset, void* data, size_t bytes,
                  size_t* got) override {
    const ssize_t n = pread(fd_.get(), data, std::min<size_t>(bytes, 1 << 30),
                            static_cast<off_t>(offset));
    *got = n < 0 ? 0 : static_cast<size_t>(n);
    return n >= 0 ? Status() : Failed(errno, "reading");
  }

  Status Preallocate(int64_t bytes) override {
    if (bytes <= 0) return Status();
    if (bytes > std::numeric_limits<off_t>::max()) {
      return Failed(EFBIG, "reserving space");
    }
    int error;
    do {
      error = posix_fallocate(fd_.get(), 0, static_cast<off_t>(bytes));
    } while (error == EINTR);
    // Other errors, as EPERM of some FUSE drivers, mean that the disk's format
    // cannot reserve space. Then a full disk is found as the bytes are written.
    const bool is_failure =
        error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
    return is_failure ? Failed(error, "reserving space") : Status();
  }

  Status Sync() override {
    return fsync(fd_.get()) == 0 ? Status() : Failed(errno, "syncing");
  }

  int64_t Identity() override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return 0;
    const std::string boot = BootId();
    if (boot.empty()) return 0;  // another machine may have the same numbers
    Fnv1a hash;
    hash.Add(boot);
    hash.Add(std::to_string(info.st_dev) + " " + std::to_string(info.st_ino));
    return static_cast<int64_t>(hash.value());
  }

  Status Size(int64_t* bytes) override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return Failed(errno, "asking its size");
    if (!S_ISREG(info.st_mode)) return Failed(ESPIPE, "asking its size");
    *bytes = static_cast<int64_t>(info.st_size);
    return Status();
  }

  Status Version(FileVersion* version) override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return Failed(errno, "asking its time");
    if (!S_ISREG(info.st_mode)) return Failed(ESPIPE, "asking its time");
    *version = VersionOf(info);
    return Status();
  }

  Status Truncate(int64_t bytes) override {
    if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0) return Status();
    return OsError(errno, "%s: going back to offset %" PRId64, path_.c_str(),
                   bytes);
  }

  Status Lock(std::unique_ptr<HeldLock>* lock) override;

  Status Close() override {
    // Linux closes the descriptor even if it returns EINTR.
    const bool closed = close(fd_.Release()) == 0 || errno == EINTR;
    return closed ? Status() : Failed(errno, "closing");
  }

  const std::string& path() const override { return path_; }

 private:
  Status Failed(int error, const char* doing) const {
    return OsError(error, "%s: %s", path_.c_str(), doing);
  }

  const std::string path_;
  Descriptor fd_;
  const bool is_pipe_;
};

// Unlocks explicitly, since a second descriptor of the file may stay open.
class PosixLock final : public HeldLock {
 public:
  explicit PosixLock(Descriptor fd) : fd_(std::move(fd)) {}
  ~PosixLock() override { flock(fd_.get(), LOCK_UN); }

 private:
  const Descriptor fd_;
};

// Never waits. Returns false, with errno, if the file cannot be locked.
bool TryLock(int fd) {
  return CallUninterrupted([&] { return flock(fd, LOCK_EX | LOCK_NB); }) == 0;
}

// *lock becomes null if the disk's format has no locks.
Status LockOpened(Descriptor fd, const std::string& path,
                  std::unique_ptr<HeldLock>* lock) {
  lock->reset();
  if (TryLock(fd.get())) {
    *lock = std::make_unique<PosixLock>(std::move(fd));
  } else if (errno == EWOULDBLOCK) {
    return Error(Code::kAlreadyExists,
                 "%s: is locked by another process, or twice by this one",
                 path.c_str());
  }
  return Status();
}

Status PosixFile::Lock(std::unique_ptr<HeldLock>* lock) {
  lock->reset();
  Descriptor second(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (second.get() < 0) return OsError(errno, "%s: locking", path_.c_str());
  return LockOpened(std::move(second), path_, lock);
}

// The process written in a lock file; 0 if it cannot be read.
long HolderOf(int fd) {
  char text[32] = {};
  if (pread(fd, text, sizeof(text) - 1, 0) <= 0) return 0;
  return std::strtol(text, nullptr, 10);
}

Status HeldByAnother(const std::string& folder, long holder) {
  const std::string user =
      holder > 0 ? "process " + std::to_string(holder) : "another process";
  return Error(Code::kAlreadyExists,
               "%s: in use by %s; only one may write there. End that one or "
               "choose another directory",
               folder.c_str(), user.c_str());
}

// True if `path` still names the open file. A folder that was removed took the
// lock's file with it.
bool IsStillAt(int fd, const std::string& path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         SameFile(opened, named);
}

// True if `path` leads to what this process prints to.
bool IsOwnOutput(const std::string& path) {
  constexpr std::array<int, 2> kOutputs = {STDOUT_FILENO, STDERR_FILENO};
  struct stat named, output;
  if (stat(path.c_str(), &named) != 0) return false;
  return std::any_of(kOutputs.begin(), kOutputs.end(), [&](int fd) {
    return fstat(fd, &output) == 0 && SameFile(named, output);
  });
}

// If nothing reads the pipe, this process becomes its reader too, so that rows
// wait in it for another reader. It does not become the reader of its own
// output, since its prints would then fill the pipe and block.
Status OpenPipe(const std::string& path, std::unique_ptr<File>* file) {
  Descriptor fd(OpenDescriptor(path, O_WRONLY | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENXIO) {
    fd = Descriptor(OpenDescriptor(IsOwnOutput(path) ? "/dev/null" : path,
                                   O_RDWR | O_NONBLOCK));
  }
  if (fd.get() < 0) {
    return OsError(errno, "%s: cannot be written", path.c_str());
  }
  *file = std::make_unique<PosixFile>(path, fd.Release(), /*is_pipe=*/true);
  return Status();
}

class PosixFileSystem final : public FileSystem {
 public:
  Status Create(const std::string& path, std::unique_ptr<File>* file) override {
    return OpenFile(path, kNew, "creating", file);
  }

  Status CreatePrivate(const std::string& path,
                       std::unique_ptr<File>* file) override {
    return OpenFile(path, kNew, "creating", file, 0600);
  }

  Status Open(const std::string& path, std::unique_ptr<File>* file) override {
    // A FIFO must not block the open.
    RINGLET_RETURN_IF_ERROR(
        OpenFile(path, O_RDONLY | O_NONBLOCK, "opening", file));
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      file->reset();
      return InvalidArgument("%s: not a regular file", path.c_str());
    }
    return Status();
  }

  Status OpenLog(const std::string& path, bool append,
                 std::unique_ptr<File>* file) override {
    struct stat named;
    if (stat(path.c_str(), &named) == 0 && S_ISFIFO(named.st_mode)) {
      return OpenPipe(path, file);
    }
    const int flags = O_RDWR | O_CREAT | O_APPEND | (append ? 0 : O_TRUNC);
    Descriptor fd(OpenDescriptor(path, flags | O_NOFOLLOW));
    const bool is_link = fd.get() < 0 && errno == ELOOP;
    if (is_link) fd = Descriptor(OpenDescriptor(path, O_RDWR | O_APPEND));
    struct stat about;
    if (is_link && (fd.get() < 0 ? errno == ELOOP
                                 : fstat(fd.get(), &about) != 0 ||
                                       S_ISREG(about.st_mode))) {
      return InvalidArgument(
          "%s: is a symbolic link, and ringlet does not write through links; "
          "remove it, or name its target",
          path.c_str());
    }
    if (fd.get() < 0) {
      return OsError(errno, "%s: cannot be written", path.c_str());
    }
    *file = std::make_unique<PosixFile>(path, fd.Release());
    return Status();
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return Status();
    return OsError(errno, "%s: renaming to %s", from.c_str(), to.c_str());
  }

  // Does not reserve the name with an empty file: a power cut could leave that
  // file in place of the model.
  Status RenameNew(const std::string& from, const std::string& to) override {
    if (RenameNoReplace(from, to)) return Status();
    if (errno != EEXIST && link(from.c_str(), to.c_str()) == 0) {
      // If this fails, the next writer removes the second name.
      Remove(from).IgnoreError();
      return Status();
    }
    // The system or the disk's format supports neither renameat2 nor link.
    if (errno != EEXIST) return FileSystem::RenameNew(from, to);
    return OsError(EEXIST, "%s: renaming to %s", from.c_str(), to.c_str());
  }

  Status CopyMode(const std::string& path, const std::string& source) override {
    struct stat link_info, source_info, path_info;
    if (lstat(source.c_str(), &link_info) != 0 ||
        stat(source.c_str(), &source_info) != 0) {
      return Status();
    }
    if (!S_ISREG(source_info.st_mode)) {
      return InvalidArgument("%s: exists, and is not a regular file",
                             source.c_str());
    }
    if (link_info.st_uid != geteuid() || source_info.st_uid != geteuid())
      return Status();
    mode_t mode = (source_info.st_mode & 0777) | S_IRUSR | S_IWUSR;
    // Another group gets only the permissions that all users have.
    if (stat(path.c_str(), &path_info) == 0 &&
        path_info.st_gid != source_info.st_gid &&
        chown(path.c_str(), static_cast<uid_t>(-1), source_info.st_gid) != 0) {
      mode &= ~S_IRWXG | (mode & S_IRWXO) << 3;
    }
    if (chmod(path.c_str(), mode) == 0) return Status();
    // A disk's format may have no permissions.
    if (stat(path.c_str(), &path_info) == 0 &&
        (path_info.st_mode & 077 & ~mode) == 0) {
      return Status();
    }
    return OsError(errno, "%s: permissions as of %s", path.c_str(),
                   source.c_str());
  }

  Status Remove(const std::string& path) override {
    // "d/" is an empty folder, which unlink would refuse.
    const bool folder = !path.empty() && path.back() == '/';
    const int failed = folder ? rmdir(path.c_str()) : unlink(path.c_str());
    if (failed == 0) return Status();
    return OsError(errno, "%s: removing", path.c_str());
  }

  Status SyncFolder(const std::string& path) override {
    const Descriptor fd(OpenDescriptor(path, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
    // EINVAL: a disk format that syncs names by itself.
    if (fsync(fd.get()) == 0 || errno == EINVAL) return Status();
    return OsError(errno, "%s: syncing", path.c_str());
  }

  // On FAT the name on the disk refers to the replaced file until the renamed
  // file is synced again.
  Status SyncName(const std::string& path) override {
    if (!IsFat(path)) return FileSystem::SyncName(path);
    const Descriptor fd(OpenDescriptor(path, O_RDONLY | O_NOFOLLOW));
    if (fd.get() < 0 || fsync(fd.get()) != 0) {
      return OsError(errno, "%s: syncing its name", path.c_str());
    }
    return FileSystem::SyncName(path);
  }

  Status List(const std::string& path,
              std::vector<std::string>* names) override {
    names->clear();
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return OsError(errno, "%s: listing", path.c_str());
    errno = 0;
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names->push_back(name);
    }
    const int error = errno;
    closedir(dir);
    std::sort(names->begin(), names->end());
    return error == 0 ? Status() : OsError(error, "%s: listing", path.c_str());
  }

  Status MakeFolder(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return Status();
      return InvalidArgument("%s: not a directory", path.c_str());
    }
    const std::string parent = FolderOf(path);
    if (parent != path && parent != ".") {
      RINGLET_RETURN_IF_ERROR(MakeFolder(parent));
    }
    if (mkdir(path.c_str(), 0777) == 0) return SyncFolder(parent);
    if (errno == EEXIST) return Status();
    return OsError(errno, "%s: making the directory", path.c_str());
  }

  Status LockFolder(const std::string& path,
                    std::unique_ptr<HeldLock>* lock) override {
    const std::string name = path + "/" + kLockName;
    for (int attempt = 0; attempt < 10; ++attempt) {
      Descriptor fd(OpenDescriptor(name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
      if (fd.get() < 0) return OsError(errno, "%s: locking", name.c_str());
      MakePrivate(fd.get());
      const bool locked = TryLock(fd.get());
      if (!locked && errno == EWOULDBLOCK) {
        return HeldByAnother(path, HolderOf(fd.get()));
      }
      if (!locked) return OsError(errno, "%s: locking", name.c_str());
      if (!IsStillAt(fd.get(), name)) continue;
      WriteHolder(fd.get());
      *lock = std::make_unique<PosixLock>(std::move(fd));
      return Status();
    }
    return Error(Code::kUnavailable,
                 "%s: other processes remove it again and again; try again",
                 name.c_str());
  }

  Status LockFile(const std::string& path,
                  std::unique_ptr<HeldLock>* lock) override {
    lock->reset();
    // NFS locks only files that are open to write.
    Descriptor fd(OpenDescriptor(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
    const int file = fd.get();
    RINGLET_RETURN_IF_ERROR(LockOpened(std::move(fd), path, lock));
    if (*lock == nullptr || IsStillAt(file, path)) return Status();
    lock->reset();
    return OsError(ENOENT, "%s: locking", path.c_str());
  }

 private:
  static constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;

  static Status OpenFile(const std::string& path, int flags, const char* doing,
                         std::unique_ptr<File>* file, mode_t mode = 0666) {
    const int fd = OpenDescriptor(path, flags, mode);
    if (fd < 0 && (flags & O_CREAT) == 0) return OpenError(errno, path);
    if (fd < 0) return OsError(errno, "%s: %s", path.c_str(), doing);
    *file = std::make_unique<PosixFile>(path, fd);
    return Status();
  }

  // On failure errno is EEXIST, or another error if the call is not supported.
  static bool RenameNoReplace(const std::string& from, const std::string& to) {
#ifdef SYS_renameat2
    constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE of <linux/fs.h>
    return syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                   kNoReplace) == 0;
#else
    errno = ENOSYS;
    return false;
#endif
  }

  static bool IsFat(const std::string& path) {
    struct statfs disk;
    return statfs(path.c_str(), &disk) == 0 &&
           (disk.f_type == kFat || disk.f_type == kExfat);
  }
  static constexpr decltype(statfs::f_type) kFat = 0x4d44;
  static constexpr decltype(statfs::f_type) kExfat = 0x2011bab0;

  // A user that can open the file could lock it. Files of older versions can be
  // read by all users.
  static void MakePrivate(int fd) {
    struct stat about;
    const bool others = fstat(fd, &about) == 0 && about.st_uid == geteuid() &&
                        (about.st_mode & 077) != 0;
    // fchmod fails on a disk with a format without permissions.
    if (others && fchmod(fd, 0600) != 0) errno = 0;
  }

  // Only for the message of a second process; a full disk costs no more.
  static void WriteHolder(int fd) {
    const std::string text = std::to_string(getpid()) + "\n";
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) !=
                                     static_cast<ssize_t>(text.size())) {
      errno = 0;
    }
  }
};

}  // namespace

FileSystem* PosixFiles() {
  static PosixFileSystem* const posix = new PosixFileSystem;
  return posix;
}

}  // namespace ringlet
