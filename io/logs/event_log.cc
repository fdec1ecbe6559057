// EventLog: the file. Each line is one write at the file's end, so lines of
// several threads do not mix, and a killed process leaves whole lines.
//
// A signal handler may write a line. So a write allocates nothing and takes no
// lock, and the descriptor of the file keeps its number when the file is
// rotated.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "../../core/base/events.h"
#include "../../core/base/notice_now.h"
#include "../../core/base/same_file.h"
#include "event_lines.h"
#include "ringlet/loggers.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

int OpenToAppend(const char* path, int extra_flags) {
  return open(path,
              O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                  O_NONBLOCK | extra_flags,
              0600);
}

// Locks the file. False if another process has locked it; true also on a file
// system without locks.
bool TryLock(int fd) {
  return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

class FileEventLog final : public EventLog, private EventSink {
 public:
  // The file has `size` bytes. `incomplete` says whether its last line is.
  FileEventLog(int fd, int64_t size, bool incomplete,
               const EventLogOptions& options)
      : fd_(fd),
        path_(options.path),
        old_path_(options.path + ".1"),
        worker_(options.worker),
        max_bytes_(options.max_bytes / 2),
        clock_(options.clock),
        begin_(clock_->MonotonicNanos()),
        warning_("warning: " + path_ +
                 ": a line of the event log cannot be written; is the disk "
                 "full? The training continues\n"),
        size_(size),
        incomplete_(incomplete) {
    Event start("start");
    start.Text("version", RINGLET_VERSION).Text("run", options.run);
    start.Int("pid", getpid()).Int("index", worker_);
    start.Int("workers", options.workers).Text("address", options.address);
    start_ = start.fields();
    continued_ = start_ + ",\"continued\":true";
    Append(start_);
    g_events = this;
  }
  ~FileEventLog() override {
    EventSink* self = this;
    g_events.compare_exchange_strong(self, nullptr);
    Event end("end");
    end.Int("exit_code", exit_code_)
        .Text("status", status_.ok() ? "ok" : "error");
    if (!status_.ok()) end.Text("reason", status_.message());
    Append(end.Int("epoch", epoch).Int("step", step).fields());
    close(fd_);
  }
  void SetResult(const Status& status, int exit_code) override {
    status_ = status;
    exit_code_ = exit_code;
  }

 private:
  void Append(const std::string& fields) {
    Write(fields.data(), fields.size());
  }
  void Write(const char* fields, size_t bytes) override {
    if (stopped_) return;
    const int error = errno;
    char line[kMaxEventLine + 1];
    line[0] = '\n';
    const size_t length =
        MakeEventLine(clock_->WallNanos(), clock_->MonotonicNanos() - begin_,
                      worker_, fields, bytes, line + 1);
    const bool incomplete = incomplete_.exchange(false);
    const auto all = static_cast<int64_t>(length) + (incomplete ? 1 : 0);
    if (size_.fetch_add(all) + all > max_bytes_) Rotate(all);
    if (!stopped_) WriteLine(incomplete ? line : line + 1, all);
    errno = error;
  }
  void WriteLine(const char* line, int64_t bytes) {
    ssize_t written;
    do {
      written = write(fd_, line, static_cast<size_t>(bytes));
    } while (written < 0 && errno == EINTR);
    if (written == bytes) return RecordLostLines();
    // After a failure the file ends within a line if it did before.
    if (written > 0 || *line == '\n') incomplete_ = true;
    size_ -= bytes;
    ++lost_lines_;
    Warn();
  }
  void Warn() {
    if (!warned_.exchange(true)) NoticeNow(warning_.c_str());
  }
  void RecordLostLines() {
    const int64_t lost = lost_lines_.exchange(0);
    if (lost == 0) return;
    char fields[200];
    const int bytes = std::snprintf(
        fields, sizeof(fields),
        "\"event\":\"warning\",\"text\":\"lines of the event log could not be "
        "written\",\"lost_lines\":%lld",
        static_cast<long long>(lost));
    Write(fields, static_cast<size_t>(bytes));
  }
  // False if this name belongs to another file, such as the file of a second
  // process after this one's was moved.
  bool MoveToOld() const {
    struct stat own_file, named;
    if (lstat(path_.c_str(), &named) != 0) return errno == ENOENT;
    return fstat(fd_, &own_file) == 0 && SameFile(own_file, named) &&
           rename(path_.c_str(), old_path_.c_str()) == 0;
  }
  // The file becomes the old one. Other threads write to it until the
  // descriptor belongs to the new file. `pending` is the size of the line that
  // follows.
  void Rotate(int64_t pending) {
    if (rotating_.test_and_set()) return;
    int fd = -1;
    if (MoveToOld()) fd = OpenToAppend(path_.c_str(), O_EXCL);
    if (fd < 0 || !TryLock(fd) || dup3(fd, fd_, O_CLOEXEC) < 0) {
      stopped_ = true;  // the file must not grow
      Warn();
    }
    if (fd >= 0) close(fd);
    size_ = pending;
    if (!stopped_) Append(continued_);
    rotating_.clear();
  }

  const int fd_;
  const std::string path_, old_path_;
  const int worker_;
  const int64_t max_bytes_;  // the limit of one file
  Clock* const clock_;
  const int64_t begin_;
  const std::string warning_;
  std::string start_, continued_;  // fields of the first line of a file
  std::atomic<int64_t> size_;
  std::atomic<bool> incomplete_;  // the file ends within a line
  std::atomic<int64_t> lost_lines_{0};
  std::atomic<bool> warned_{false}, stopped_{false};
  std::atomic_flag rotating_ = ATOMIC_FLAG_INIT;
  Status status_;
  int exit_code_ = 0;
};

// Reads what decides whether lines may be appended to the file.
Status CheckFile(int fd, const std::string& path, int64_t* size,
                 bool* incomplete) {
  struct stat info;
  if (fstat(fd, &info) != 0) return OsError(errno, "%s", path.c_str());
  char head[kEventLogHeadBytes] = {}, last = '\n';
  const ssize_t got =
      S_ISREG(info.st_mode) ? pread(fd, head, sizeof(head), 0) : 0;
  *size = info.st_size;
  if (got < 0 || (*size > 0 && pread(fd, &last, 1, info.st_size - 1) < 0)) {
    return OsError(errno, "%s: reading", path.c_str());
  }
  *incomplete = last != '\n';
  const std::string begin(head, static_cast<size_t>(got));
  if (S_ISREG(info.st_mode) && (begin.empty() || IsEventLog(begin))) {
    return Status();
  }
  return InvalidArgument(
      "%s: exists, and is not an event log; give another name", path.c_str());
}

// The first rotation replaces the old file, which must be a log too. A file
// that cannot be opened is replaced, as a missing one is.
Status CheckOldFile(const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return Status();
  int64_t size = 0;
  bool incomplete = false;
  const Status status = CheckFile(fd, path, &size, &incomplete);
  close(fd);
  return status;
}

}  // namespace

Status EventLog::Open(const EventLogOptions& options,
                      std::unique_ptr<EventLog>* out) {
  out->reset();
  const char* const path = options.path.c_str();
  if (g_events != nullptr) {
    return Error(Code::kAlreadyExists,
                 "%s: this process has an event log already, and may have one "
                 "at a time; destroy that first",
                 path);
  }
  RINGLET_RETURN_IF_ERROR(CheckOldFile(options.path + ".1"));
  const int fd = OpenToAppend(path, 0);
  if (fd < 0) return OsError(errno, "%s: opening", path);
  int64_t size = 0;
  bool incomplete = false;
  Status status;
  if (!TryLock(fd)) {
    status = Error(Code::kUnavailable,
                   "%s: another process writes its event log there; end it, or "
                   "give another name",
                   path);
  }
  if (status.ok()) status = CheckFile(fd, options.path, &size, &incomplete);
  if (status.ok()) {
    *out = std::make_unique<FileEventLog>(fd, size, incomplete, options);
  } else {
    close(fd);
  }
  return status;
}

}  // namespace ringlet
