// Every descriptor is closed on exec and owned by one Descriptor. Locks are
// flock's: of the open file, so gone with the process; who locked a name must
// see that it is still that file (IsStillAt).

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "../../core/base/same_file.h"
#include "file_system.h"

namespace ringlet {

namespace {

// Calls `call` until a signal no longer interrupts it.
template <typename Call>
auto Uninterrupted(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

int OpenDescriptor(const std::string& path, int flags, mode_t mode = 0666) {
  return Uninterrupted(
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

class PosixFile final : public File {
 public:
  PosixFile(const std::string& path, int fd) : path_(path), fd_(fd) {}

  Status WriteSome(const void* data, size_t bytes, size_t* written) override {
    // Linux moves at most 2 GiB at once.
    const ssize_t n = write(fd_.get(), data, std::min<size_t>(bytes, 1 << 30));
    *written = n < 0 ? 0 : static_cast<size_t>(n);
    return n > 0 ? Status() : Failed(n == 0 ? EIO : errno, "writing");
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
    // What a C library answers where the disk's format has no such call.
    if (error == 0 || error == EOPNOTSUPP || error == ENOSYS ||
        error == EINVAL) {
      return Status();
    }
    return Failed(error, "reserving space");
  }

  Status Sync() override {
    return fsync(fd_.get()) == 0 ? Status() : Failed(errno, "syncing");
  }

  Status Size(int64_t* bytes) override {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) return Failed(errno, "asking its size");
    if (!S_ISREG(info.st_mode)) return Failed(ESPIPE, "asking its size");
    *bytes = static_cast<int64_t>(info.st_size);
    return Status();
  }

  Status Truncate(int64_t bytes) override {
    if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0) return Status();
    return OsError(errno, "%s: going back to offset %" PRId64, path_.c_str(),
                   bytes);
  }

  Status Lock(std::unique_ptr<HeldLock>* lock) override;

  Status Close() override {
    // Linux closes the descriptor even where it answers EINTR.
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
};

class PosixLock final : public HeldLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}

 private:
  Descriptor fd_;  // closing it unlocks
};

// Of a file that may stay open: a second descriptor of it.
class PosixFileLock final : public HeldLock {
 public:
  explicit PosixFileLock(Descriptor fd) : fd_(std::move(fd)) {}
  ~PosixFileLock() override { flock(fd_.get(), LOCK_UN); }

 private:
  const Descriptor fd_;
};

// Without waiting; false, with errno, where it is not locked.
bool TryLock(int fd) {
  return Uninterrupted([&] { return flock(fd, LOCK_EX | LOCK_NB); }) == 0;
}

Status PosixFile::Lock(std::unique_ptr<HeldLock>* lock) {
  lock->reset();
  Descriptor second(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (second.get() < 0) return OsError(errno, "%s: locking", path_.c_str());
  if (TryLock(second.get())) {
    *lock = std::make_unique<PosixFileLock>(std::move(second));
  } else if (errno == EWOULDBLOCK) {
    return Error(Code::kAlreadyExists, "%s: in use", path_.c_str());
  }
  return Status();
}

// The process written in a lock file; 0 where none can be read.
long HolderOf(int fd) {
  char text[32] = {};
  if (pread(fd, text, sizeof(text) - 1, 0) <= 0) return 0;
  return std::strtol(text, nullptr, 10);
}

Status HeldByAnother(const std::string& folder, long holder) {
  const std::string who =
      holder > 0 ? "process " + std::to_string(holder) : "another process";
  return Error(Code::kAlreadyExists,
               "%s: in use by %s; only one may write there. End that one or "
               "choose another directory",
               folder.c_str(), who.c_str());
}

// True where `path` still names the file that is open: who removed a folder
// took the lock's file with it.
bool IsStillAt(int fd, const std::string& path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         SameFile(opened, named);
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
    const int flags = O_RDWR | O_CREAT | O_APPEND | (append ? 0 : O_TRUNC);
    Descriptor fd(OpenDescriptor(path, flags | O_NOFOLLOW));
    const bool is_link = fd.get() < 0 && errno == ELOOP;
    if (is_link) fd = Descriptor(OpenDescriptor(path, O_RDWR | O_APPEND));
    struct stat about;
    if (is_link && (fd.get() < 0 ? errno == ELOOP
                                 : fstat(fd.get(), &about) != 0 ||
                                       S_ISREG(about.st_mode))) {
      return InvalidArgument(
          "%s: is a symbolic link, through which nothing is written; remove "
          "it, or name the file that it leads to",
          path.c_str());
    }
    if (fd.get() < 0)
      return OsError(errno, "%s: cannot be written", path.c_str());
    *file = std::make_unique<PosixFile>(path, fd.Release());
    return Status();
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return Status();
    return OsError(errno, "%s: renaming to %s", from.c_str(), to.c_str());
  }

  Status RenameNew(const std::string& from, const std::string& to) override {
    if (link(from.c_str(), to.c_str()) == 0) {
      // Left, it is one more name, which the next writer removes.
      Remove(from).IgnoreError();
      return Status();
    }
    if (errno == EEXIST) {
      return OsError(EEXIST, "%s: renaming to %s", from.c_str(), to.c_str());
    }
    // The disk's format has no second names: an empty file keeps the place.
    std::unique_ptr<File> place;
    RINGLET_RETURN_IF_ERROR(Create(to, &place));
    const Status renamed = Rename(from, to);
    if (!renamed.ok()) Remove(to).IgnoreError();
    return renamed;
  }

  Status TakeMode(const std::string& path, const std::string& of) override {
    struct stat there, here;
    if (stat(of.c_str(), &there) != 0) return Status();
    if (!S_ISREG(there.st_mode)) {
      return InvalidArgument("%s: is there, and not a regular file",
                             of.c_str());
    }
    mode_t mode = (there.st_mode & 0777) | S_IRUSR | S_IWUSR;
    // What one group may another may not, unless all may.
    if (stat(path.c_str(), &here) == 0 && here.st_gid != there.st_gid &&
        chown(path.c_str(), static_cast<uid_t>(-1), there.st_gid) != 0) {
      mode &= ~S_IRWXG | (mode & S_IRWXO) << 3;
    }
    if (chmod(path.c_str(), mode) == 0) return Status();
    // A disk's format may have no permissions.
    if (stat(path.c_str(), &here) == 0 && (here.st_mode & 077 & ~mode) == 0) {
      return Status();
    }
    return OsError(errno, "%s: permissions as of %s", path.c_str(), of.c_str());
  }

  Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return Status();
    return OsError(errno, "%s: removing", path.c_str());
  }

  Status SyncDirectory(const std::string& path) override {
    const Descriptor fd(OpenDescriptor(path, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
    // EINVAL: a disk format that syncs names by itself.
    if (fsync(fd.get()) == 0 || errno == EINVAL) return Status();
    return OsError(errno, "%s: syncing", path.c_str());
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

  Status MakeDirectory(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return Status();
      return InvalidArgument("%s: not a directory", path.c_str());
    }
    const std::string parent = FolderOf(path);
    if (parent != path && parent != ".") {
      RINGLET_RETURN_IF_ERROR(MakeDirectory(parent));
    }
    if (mkdir(path.c_str(), 0777) == 0) return SyncDirectory(parent);
    if (errno == EEXIST) return Status();
    return OsError(errno, "%s: making the directory", path.c_str());
  }

  Status LockDirectory(const std::string& path,
                       std::unique_ptr<HeldLock>* lock) override {
    const std::string name = path + "/" + kLockName;
    for (int attempt = 0; attempt < 10; ++attempt) {
      Descriptor fd(OpenDescriptor(name, O_RDWR | O_CREAT | O_NOFOLLOW));
      if (fd.get() < 0) return OsError(errno, "%s: locking", name.c_str());
      const bool locked = TryLock(fd.get());
      if (!locked && errno == EWOULDBLOCK) {
        return HeldByAnother(path, HolderOf(fd.get()));
      }
      if (!locked) return OsError(errno, "%s: locking", name.c_str());
      if (!IsStillAt(fd.get(), name)) continue;
      WriteHolder(fd.get());
      *lock = std::make_unique<PosixLock>(fd.Release());
      return Status();
    }
    return Error(Code::kUnavailable, "%s: removed again and again",
                 name.c_str());
  }

  Status LockFile(const std::string& path,
                  std::unique_ptr<HeldLock>* lock) override {
    lock->reset();
    // Open to write too: NFS wants it.
    Descriptor fd(OpenDescriptor(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
    if (!TryLock(fd.get())) {
      if (errno != EWOULDBLOCK) return Status();
      return Error(Code::kAlreadyExists, "%s: in use", path.c_str());
    }
    if (!IsStillAt(fd.get(), path)) {
      return OsError(ENOENT, "%s: locking", path.c_str());
    }
    *lock = std::make_unique<PosixLock>(fd.Release());
    return Status();
  }

 private:
  static constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;

  static Status OpenFile(const std::string& path, int flags, const char* doing,
                         std::unique_ptr<File>* file, mode_t mode = 0666) {
    const int fd = OpenDescriptor(path, flags, mode);
    if (fd < 0 && (flags & O_CREAT) == 0) return CannotOpen(errno, path);
    if (fd < 0) return OsError(errno, "%s: %s", path.c_str(), doing);
    *file = std::make_unique<PosixFile>(path, fd);
    return Status();
  }

  // Only for the message of who comes second; a full disk costs no more.
  static void WriteHolder(int fd) {
    const std::string text = std::to_string(getpid()) + "\n";
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) !=
                                     static_cast<ssize_t>(text.size())) {
      errno = 0;
    }
  }
};

}  // namespace

FileSystem* FileSystem::Posix() {
  static PosixFileSystem* const posix = new PosixFileSystem;
  return posix;
}

}  // namespace ringlet
