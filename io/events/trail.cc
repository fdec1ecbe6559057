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
    TrailEvent event;
    event.kind = TrailKind::kEnded;
    event.code = exit_code_;
    event.text = status_.ok() ? "" : status_.message();
    NoteEvent(event);
    g_trail = nullptr;
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

// What is there, or zeros: bytes of the disk, all of them, for a write to
// memory that no disk has room for ends the process.
Status Fill(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return OsError(errno, "%s", path.c_str());
  std::string bytes(kTrailBytes, '\0');
  ssize_t held = pread(fd, &bytes[0], bytes.size(), 0);
  if (held < 0) return OsError(errno, "%s: reading", path.c_str());
  if (!S_ISREG(info.st_mode) || (held > 0 && !IsTrail(bytes))) {
    return InvalidArgument(
        "%s: is there, and is no trail of a worker; give another folder",
        path.c_str());
  }
  if (info.st_size != static_cast<off_t>(kTrailBytes)) {
    if (ftruncate(fd, kTrailBytes) != 0) {
      return OsError(errno, "%s: writing", path.c_str());
    }
  }
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t some =
        pwrite(fd, &bytes[done], bytes.size() - done, static_cast<off_t>(done));
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return OsError(errno, "%s: writing", path.c_str());
    done += static_cast<size_t>(some);
  }
  return Status();
}

}  // namespace

Status Trail::Open(const std::string& folder, int worker, int workers,
                   const std::string& address, std::unique_ptr<Trail>* out,
                   Clock* clock) {
  RINGLET_RETURN_IF_ERROR(FileSystem::Posix()->MakeDirectory(folder));
  const std::string path =
      folder + "/worker-" + std::to_string(worker) + ".trail";
  Descriptor fd(open(path.c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                     0666));
  if (fd.get() < 0) return OsError(errno, "%s: opening", path.c_str());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error(Code::kUnavailable,
                 "%s: another process keeps its trail there; end it, or give "
                 "another folder",
                 path.c_str());
  }
  RINGLET_RETURN_IF_ERROR(Fill(fd.get(), path));
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
