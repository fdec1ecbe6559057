#include "trail.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "../files/file_system.h"
#include "trail_file.h"

namespace ringlet {
namespace {

// Closed, and its lock let go of, with its owner.
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

class MappedTrail final : public Trail {
 public:
  MappedTrail(unsigned char* memory, int fd, int worker, int workers,
              Clock* clock)
      : memory_(memory), fd_(fd), ring_(memory, worker, workers, clock) {
    g_trail = &ring_;
  }
  ~MappedTrail() override {
    TrailSink* own = &ring_;
    g_trail.compare_exchange_strong(own, nullptr);
    TrailEvent event;
    event.kind = TrailKind::kEnded;
    event.code = exit_code_;
    event.text = status_.ok() ? "" : status_.message();
    ring_.Note(event);
    munmap(memory_, kTrailBytes);
  }
  void Ends(const Status& status, int exit_code) override {
    status_ = status;
    exit_code_ = exit_code;
  }

 private:
  unsigned char* const memory_;
  const Descriptor fd_;  // has the lock
  TrailRing ring_;
  Status status_;
  int exit_code_ = 0;
};

// What a process that was killed at once, a full disk or a loss of power leaves
// of a file that was to become a trail.
bool WasNeverWritten(const std::string& bytes, off_t size) {
  return size <= static_cast<off_t>(bytes.size()) &&
         bytes.find_first_not_of('\0') == std::string::npos;
}

// That `fd`, which begins with `bytes`, may be written.
Status CheckOwn(const struct stat& info, const std::string& bytes,
                const std::string& path) {
  if (!S_ISREG(info.st_mode) ||
      (!IsTrail(bytes) && !WasNeverWritten(bytes, info.st_size))) {
    return InvalidArgument(
        "%s: is there, and is no trail of a worker; give another folder",
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

// What is there, or a trail without records: bytes of the disk, all of them,
// for a write to memory that no disk has room for ends the process.
Status Fill(int fd, const std::string& path, int worker, int workers,
            Clock* clock) {
  struct stat info;
  if (fstat(fd, &info) != 0) return OsError(errno, "%s", path.c_str());
  std::string bytes(kTrailBytes, '\0');
  if (pread(fd, &bytes[0], bytes.size(), 0) < 0) {
    return OsError(errno, "%s: reading", path.c_str());
  }
  RINGLET_RETURN_IF_ERROR(CheckOwn(info, bytes, path));
  const bool fresh = WasNeverWritten(bytes, info.st_size);
  // A file system that knows no permissions refuses it, and goes on.
  if ((info.st_mode & 022) != 0) fchmod(fd, info.st_mode & 0755);
  TrailRing(reinterpret_cast<unsigned char*>(&bytes[0]), worker, workers,
            clock);
  Status status = WriteAll(fd, bytes, path);
  if (status.ok() && info.st_size > static_cast<off_t>(kTrailBytes) &&
      ftruncate(fd, kTrailBytes) != 0) {
    status = OsError(errno, "%s: writing", path.c_str());
  }
  if (!status.ok() && fresh) {
    // Where that fails too the next process takes what is there for new.
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
                     0644));
  if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error(Code::kUnavailable,
                 "%s: another process keeps its trail there; end it, or give "
                 "another folder",
                 path.c_str());
  }
  RINGLET_RETURN_IF_ERROR(Fill(fd.get(), path, worker, workers, clock));
  void* const memory = mmap(nullptr, kTrailBytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return OsError(errno, "%s: mapping it", path.c_str());
  }
  *out = std::make_unique<MappedTrail>(static_cast<unsigned char*>(memory),
                                       fd.Release(), worker, workers, clock);
  TrailEvent began;
  began.kind = TrailKind::kBegan;
  began.operation = static_cast<uint64_t>(getpid());
  began.text = address.c_str();
  NoteEvent(began);
  return Status();
}

}  // namespace ringlet
