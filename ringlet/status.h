// Status and Result: how ringlet reports errors. Print and Notice: lines for
// users.

#ifndef RINGLET_STATUS_H_
#define RINGLET_STATUS_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#if defined(__GNUC__)
#define RINGLET_PRINTF(format_index, first_argument) \
  __attribute__((format(printf, format_index, first_argument)))
#else
#define RINGLET_PRINTF(format_index, first_argument)
#endif

namespace ringlet {

// --- status ------------------------------------------------------------------

// The library throws no exceptions. Exceptions of user-defined layers,
// callbacks and the like become a Status. A Status has a code, a message, and
// perhaps the number of an OS (errno) or libuv error. If a worker is lost, it
// has the worker's rank. Making an error cannot fail, even without memory.
// Copying and reading are safe from any thread.
//
// The code answers the question: "what should the caller do next?"
enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument,    // fix the input: a flag, a field, a shape
  kNotFound,           // the named file, layer or member does not exist
  kAlreadyExists,      // another process has it: a lock, a port, an index
  kCorruption,         // look at the data: damaged or of another format
  kResourceExhausted,  // free memory, disk or descriptors
  kUnavailable,        // try again
  kPeerLost,           // recover from the loss of rank()
  kDeadlineExceeded,   // wait longer or give up
  kCancelled,          // the caller asked to stop
  kInterrupted,        // a signal ended it; os_error() is its number
  kUnimplemented,      // not built in
  kIo,                 // the OS refused a read or write: see os_error()
  kInternal,           // a bug in ringlet, or an exception of user-defined code
  kOutOfSync,          // resume from a backup: the workers' weights differ
};
constexpr Code kLastCode = Code::kOutOfSync;

// "INVALID_ARGUMENT" and so on; static storage.
const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(const Status& other);
  Status(Status&& other) noexcept : record_(other.record_) {
    other.record_ = nullptr;
  }
  Status& operator=(Status other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~Status();

  bool ok() const { return record_ == nullptr; }
  Code code() const;
  // The error, its place, and what to do; empty for OK. Valid as long as this
  // Status.
  const char* message() const;
  // errno or a (negative) libuv number; the signal of kInterrupted; or zero.
  int os_error() const;
  // The lost rank for kPeerLost, otherwise -1.
  int rank() const;

  // This error with "<prefix>: " before its message; OK stays OK.
  Status Annotate(const char* format, ...) const RINGLET_PRINTF(2, 3);

  void IgnoreError() const {}

 private:
  struct Record;
  friend struct StatusBuilder;
  explicit Status(Record* record) : record_(record) {}
  Record* record_ = nullptr;
};

// Makers. The message is printf-formatted and may be of any length.
Status Error(Code code, const char* format, ...) RINGLET_PRINTF(2, 3);
Status InvalidArgument(const char* format, ...) RINGLET_PRINTF(1, 2);
Status NotFound(const char* format, ...) RINGLET_PRINTF(1, 2);
Status Corruption(const char* format, ...) RINGLET_PRINTF(1, 2);
Status ResourceExhausted(const char* format, ...) RINGLET_PRINTF(1, 2);
Status PeerLost(int rank, const char* format, ...) RINGLET_PRINTF(2, 3);
Status Interrupted(int signal, const char* format, ...) RINGLET_PRINTF(2, 3);
// From errno: the matching code, with ": <its text>" after the message.
Status OsError(int error_number, const char* format, ...) RINGLET_PRINTF(2, 3);

// True if a restart does not help: the configuration is wrong, or a file is
// wrong, missing, damaged or not accessible.
bool IsPermanent(const Status& status);

// The exit code of a program with this outcome, for supervisors:
//    0  done
//    1  failed: another start may succeed (no room, a port in use, a worker
//       that does not come), or the data are damaged
//    2  wrong usage, configuration or input: the same start fails again
//       (kInvalidArgument, kUnimplemented)
//    3  a machine computes different numbers from the job, or the workers'
//       weights differ (kOutOfSync). Check the machine that the message names
//       before the next start, which resumes from the last backup
//   75  stopped, or a worker was lost: the same start continues the run
//       (kCancelled, kPeerLost; EX_TEMPFAIL)
//  128  + the signal that ended it, as in a shell (kInterrupted)
int ExitCodeOf(const Status& status);
// Prints "error: <message>" on stderr and returns ExitCodeOf, as main's result.
int ExitCode(const Status& status);

// Prints "error: <message>" on stderr and aborts.
[[noreturn]] void AbortWithError(const Status& status);

// A value, or the error in its place. T need only be movable.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit
    if (status_.ok()) AbortWithError(status_);  // neither value nor error
  }

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // On an error: prints its message on stderr and aborts.
  T& value() & {
    if (!ok()) AbortWithError(status_);
    return *value_;
  }
  const T& value() const& {
    if (!ok()) AbortWithError(status_);
    return *value_;
  }
  T value() && {
    if (!ok()) AbortWithError(status_);
    return std::move(*value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

template <typename T>
int ExitCode(const Result<T>& result) {
  return ExitCode(result.status());
}

// --- messages ----------------------------------------------------------------

// A line for users is written by one call and flushed. An open progress bar on
// the same terminal or file is drawn again below it. Any thread may call.

// Writes to stdout, or `out`; adds a newline if the text has none at its end.
void Print(const char* format, ...) RINGLET_PRINTF(1, 2);
void PrintTo(FILE* out, const char* format, ...) RINGLET_PRINTF(2, 3);
// Writes to stderr as Print does. Never waits for a reader of stdout.
void Notice(const char* format, ...) RINGLET_PRINTF(1, 2);

}  // namespace ringlet

// Returns from the enclosing function if `expression` is not OK.
#define RINGLET_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    ::ringlet::Status ringlet_status_ = (expression);  \
    if (!ringlet_status_.ok()) return ringlet_status_; \
  } while (0)

#endif  // RINGLET_STATUS_H_
