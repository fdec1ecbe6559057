// Status and Result: how everything in ringlet reports failure.
//
// Public. No exceptions are thrown anywhere in the library; those of a
// program's own callbacks, sources and layers become a Status where it calls
// them. A Status is one pointer, null when all is well, so returning OK costs
// nothing; an error owns a reference-counted record with a code, a message, the
// OS (errno) or libuv number, and for the failure of a peer its rank. Where the
// memory for a record cannot be had, a static record of the code stands in, so
// reporting a failure never fails. Copying and reading are safe from any
// thread.
//
// Codes answer "what should the caller do next?".

#ifndef RINGLET_CORE_BASE_STATUS_H_
#define RINGLET_CORE_BASE_STATUS_H_

#include <cstdint>
#include <optional>
#include <utility>

#if defined(__GNUC__)
#define RINGLET_PRINTF(format_index, first_argument) \
  __attribute__((format(printf, format_index, first_argument)))
#else
#define RINGLET_PRINTF(format_index, first_argument)
#endif

namespace ringlet {

enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument,    // fix the input: a flag, a field, a shape
  kNotFound,           // the named file, layer or member is not there
  kAlreadyExists,      // held by another: a lock, a port, an index
  kCorruption,         // look at the data: damaged or of another format
  kResourceExhausted,  // free memory, disk or descriptors
  kUnavailable,        // try again
  kPeerLost,           // recover from the loss of rank()
  kDeadlineExceeded,   // wait longer or give up
  kCancelled,          // the caller itself asked to stop
  kInterrupted,        // a signal ended it, os_error() its number
  kUnimplemented,      // not built in
  kIo,                 // the OS refused a read or write: see os_error()
  kInternal,           // a bug in ringlet, or an exception of a user's code
  kOutOfSync,          // go on from a backup: the workers' weights differ
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
  // What was wrong, where, and what to do. "" when OK. Lives as long as this.
  const char* message() const;
  // errno or a (negative) libuv number; 0 where neither is known.
  int os_error() const;
  // The rank that was lost, for kPeerLost; -1 otherwise.
  int rank() const;

  // The same error with "<prefix>: " before its message, so that each level
  // adds where it was. OK stays OK.
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
// The system's words for an errno; any thread may ask for them, unlike
// strerror.
class ErrnoText {
 public:
  explicit ErrnoText(int error_number);
  ErrnoText(const ErrnoText&) = delete;
  ErrnoText& operator=(const ErrnoText&) = delete;
  const char* c_str() const { return text_; }

 private:
  char buffer_[96] = "";
  const char* text_;
};
// From errno: the code that fits it, and ": <its text>" after the message.
Status OsError(int error_number, const char* format, ...) RINGLET_PRINTF(2, 3);

// Whether the same start would meet the same error again, so that neither a
// restart nor patience helps: the configuration, an input file.
bool IsPermanent(const Status& status);

// With what a program of this outcome ends; what supervisors go by:
//    0  done
//    1  failed: another start may succeed (no room, a port in use, a worker
//       that does not come), or the data are damaged
//    2  wrong usage, configuration or input: the same start fails again
//       (kInvalidArgument, kUnimplemented)
//    3  a machine computes other numbers than the others, or the workers'
//       weights differ (kOutOfSync), and the message says which: what is saved
//       was made while they were alike; look at that machine before the next
//       start, which goes on from the last backup
//   75  stopped or a worker was lost: the same start goes on (kCancelled,
//       kPeerLost; EX_TEMPFAIL)
//  128  + the signal that ended it, as a shell has it (kInterrupted)
int ExitCodeOf(const Status& status);
// The same, for main to return; prints "error: <message>" on stderr where there
// is one.
int ExitCode(const Status& status);

// Prints "error: <message>" on stderr and aborts.
[[noreturn]] void EndWithError(const Status& status);

// A value or the error that stands in its place. T need only be movable.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit
    if (status_.ok()) EndWithError(status_);  // neither value nor error
  }

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // Of an error: prints its message on stderr and aborts.
  T& value() & {
    if (!ok()) EndWithError(status_);
    return *value_;
  }
  const T& value() const& {
    if (!ok()) EndWithError(status_);
    return *value_;
  }
  T value() && {
    if (!ok()) EndWithError(status_);
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

}  // namespace ringlet

#define RINGLET_CONCAT_(a, b) a##b
#define RINGLET_CONCAT(a, b) RINGLET_CONCAT_(a, b)

// Returns from the enclosing function where `expression` is not OK.
#define RINGLET_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    ::ringlet::Status ringlet_status_ = (expression);  \
    if (!ringlet_status_.ok()) return ringlet_status_; \
  } while (0)

#endif  // RINGLET_CORE_BASE_STATUS_H_
