#include "ringlet/loggers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "ringlet/files.h"
#include "trail_file.h"

namespace ringlet {
namespace {

// The destructor closes the descriptor and so releases its lock.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

unsigned char* Bytes(std::string* bytes) {
  return reinterpret_cast<unsigned char*>(&(*bytes)[0]);
}

class FileTrail final : public Trail {
 public:
  // `bytes`: the content of the file.
  FileTrail(int fd, std::string bytes, int worker, int workers, Clock* clock)
      : fd_(fd), ring_(fd, Bytes(&bytes), worker, workers, clock) {
    g_trail = &ring_;
  }
  ~FileTrail() override {
    TrailSink* own = &ring_;
    g_trail.compare_exchange_strong(own, nullptr);
    TrailEvent event;
    event.kind = TrailKind::kEnded;
    event.code = exit_code_;
    event.text = status_.ok() ? "" : status_.message();
    ring_.Record(event);
  }
  void SetResult(const Status& status, int exit_code) override {
    status_ = status;
    exit_code_ = exit_code;
  }

 private:
  const Descriptor fd_;  // has the lock
  TrailRing ring_;
  Status status_;
  int exit_code_ = 0;
};

// True for a new trail after a kill at the start, a full disk or a power cut.
bool WasNeverWritten(const std::string& bytes, off_t size) {
  return size <= static_cast<off_t>(bytes.size()) &&
         bytes.find_first_not_of('\0') == std::string::npos;
}

// Fails if `fd`, which begins with `bytes`, may not be written.
Status CheckOwn(const struct stat& info, const std::string& bytes,
                const std::string& path) {
  if (!S_ISREG(info.st_mode) ||
      (!IsTrail(bytes) && !WasNeverWritten(bytes, info.st_size))) {
    return InvalidArgument(
        "%s: exists, and is not a trail of a worker; give another folder",
        path.c_str());
  }
  if (info.st_uid != geteuid()) {
    return InvalidArgument(
        "%s: belongs to user %lu, and this process to %lu; give another folder",
        path.c_str(), static_cast<unsigned long>(info.st_uid),
        static_cast<unsigned long>(geteuid()));
  }
  TrailContent held;
  const Status parsed = ParseTrail(bytes, &held);
  if (parsed.code() != Code::kUnimplemented) return Status();
  return InvalidArgument("%s: %s; give another folder, or remove the file",
                         path.c_str(), parsed.message());
}

Status WriteAll(int fd, const std::string& bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t some =
        pwrite(fd, &bytes[done], bytes.size() - done, static_cast<off_t>(done));
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return OsError(errno, "%s: writing", path.c_str());
    done += static_cast<size_t>(some);
  }
  return Status();
}

// Writes all bytes of the file: its own content, or a trail without records. So
// a full disk is reported here. `held`: the content of the file afterwards.
Status Fill(int fd, const std::string& path, int worker, int workers,
            Clock* clock, std::string* held) {
  struct stat info;
  if (fstat(fd, &info) != 0) return OsError(errno, "%s", path.c_str());
  std::string& bytes = *held;
  bytes.assign(kTrailBytes, '\0');
  if (pread(fd, &bytes[0], bytes.size(), 0) < 0) {
    return OsError(errno, "%s: reading", path.c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckOwn(info, bytes, path));
  const bool fresh = WasNeverWritten(bytes, info.st_size);
  // A file system without permissions refuses it, which is ignored. Another
  // user that can open the file could lock it and block this worker.
  if ((info.st_mode & 077) != 0) fchmod(fd, info.st_mode & 0700);
  TrailRing(fd, Bytes(&bytes), worker, workers, clock);
  Status status = WriteAll(fd, bytes, path);
  if (status.ok() && info.st_size > static_cast<off_t>(kTrailBytes) &&
      ftruncate(fd, kTrailBytes) != 0) {
    status = OsError(errno, "%s: writing", path.c_str());
  }
  if (!status.ok() && fresh) {
    // If that fails too, the next process treats the file as new.
    static_cast<void>(ftruncate(fd, 0) == 0);
  }
  return status;
}

}  // namespace

Status Trail::Open(const std::string& folder, int worker, int workers,
                   const std::string& address, std::unique_ptr<Trail>* out,
                   Clock* clock) {
  out->reset();
  if (g_trail != nullptr) {
    return Error(Code::kAlreadyExists,
                 "%s: this process keeps a trail already, and may keep one at "
                 "a time; destroy that first",
                 folder.c_str());
  }
  RINGLET_RETURN_IF_ERROR(FileSystem::Posix()->MakeDirectory(folder));
  const std::string path =
      folder + "/worker-" + std::to_string(worker) + ".trail";
  Descriptor fd(open(path.c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                     0600));
  if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error(Code::kUnavailable,
                 "%s: another process keeps its trail there; end it, or give "
                 "another folder",
                 path.c_str());
  }
  std::string bytes;
  RINGLET_RETURN_IF_ERROR(Fill(fd.get(), path, worker, workers, clock, &bytes));
  *out = std::make_unique<FileTrail>(fd.Release(), std::move(bytes), worker,
                                     workers, clock);
  TrailEvent began;
  began.kind = TrailKind::kBegan;
  began.operation = static_cast<uint64_t>(getpid());
  began.text = address.c_str();
  RecordEvent(began);
  return Status();
}

}  // namespace ringlet
