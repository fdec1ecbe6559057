// An OK Status has no record, so a success allocates nothing. An error's
// record and its message are one allocation; if that fails, the error is a
// static record of its code, which is never written or freed. A new Code needs
// a name in CodeName, a static record, and an exit code in ExitCodeOf if it is
// not 1.

#include "ringlet/status.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "named.h"

namespace ringlet {

// A record from the heap is followed in memory by its message.
struct Status::Record {
  std::atomic<int> references;  // 0 marks a static record, never freed
  Code code;
  int os_error;
  int rank;
  const char* message;
};

constexpr Named<Code> kCodes[] = {
    {"OK", Code::kOk},
    {"INVALID_ARGUMENT", Code::kInvalidArgument},
    {"NOT_FOUND", Code::kNotFound},
    {"ALREADY_EXISTS", Code::kAlreadyExists},
    {"CORRUPTION", Code::kCorruption},
    {"RESOURCE_EXHAUSTED", Code::kResourceExhausted},
    {"UNAVAILABLE", Code::kUnavailable},
    {"PEER_LOST", Code::kPeerLost},
    {"DEADLINE_EXCEEDED", Code::kDeadlineExceeded},
    {"CANCELLED", Code::kCancelled},
    {"INTERRUPTED", Code::kInterrupted},
    {"UNIMPLEMENTED", Code::kUnimplemented},
    {"IO", Code::kIo},
    {"INTERNAL", Code::kInternal},
    {"OUT_OF_SYNC", Code::kOutOfSync},
};

const char* CodeName(Code code) { return NameIn(kCodes, code, "UNKNOWN"); }

struct StatusBuilder {
  using Record = Status::Record;

  // The record for an error without memory for its own record. It is never
  // written, so any thread may use it.
  static Record* Static(Code code);

  // Message: the formatted text, then `suffix` (may be "").
  static Status Make(Code code, int os_error, int rank, const char* suffix,
                     const char* format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int text = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    const size_t text_bytes = text < 0 ? 0 : static_cast<size_t>(text);
    const size_t suffix_bytes = std::strlen(suffix);
    void* memory = std::malloc(sizeof(Record) + text_bytes + suffix_bytes + 1);
    if (memory == nullptr) return Status(Static(code));
    char* message = static_cast<char*>(memory) + sizeof(Record);
    std::vsnprintf(message, text_bytes + 1, format, arguments);
    std::memcpy(message + text_bytes, suffix, suffix_bytes + 1);
    return Status(new (memory) Record{{1}, code, os_error, rank, message});
  }
};

namespace {

constexpr char kNoMemory[] = "(no memory left for the details of this error)";

Code CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EINVAL:
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
      return Code::kInvalidArgument;
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return Code::kResourceExhausted;
    case EAGAIN:
    case EINTR:
      return Code::kUnavailable;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    default:
      return Code::kIo;
  }
}

// strerror_r of POSIX, and of GNU. Unlike strerror it works in any thread.
[[maybe_unused]] const char* TextOf(int failed, const char* buffer) {
  return failed == 0 ? buffer : "unknown error";
}
[[maybe_unused]] const char* TextOf(const char* text, const char*) {
  return text;
}

}  // namespace

StatusBuilder::Record* StatusBuilder::Static(Code code) {
#define RINGLET_RECORD(code) \
  { {0}, Code::code, 0, -1, kNoMemory }
  static Record records[] = {
      RINGLET_RECORD(kOk),
      RINGLET_RECORD(kInvalidArgument),
      RINGLET_RECORD(kNotFound),
      RINGLET_RECORD(kAlreadyExists),
      RINGLET_RECORD(kCorruption),
      RINGLET_RECORD(kResourceExhausted),
      RINGLET_RECORD(kUnavailable),
      RINGLET_RECORD(kPeerLost),
      RINGLET_RECORD(kDeadlineExceeded),
      RINGLET_RECORD(kCancelled),
      RINGLET_RECORD(kInterrupted),
      RINGLET_RECORD(kUnimplemented),
      RINGLET_RECORD(kIo),
      RINGLET_RECORD(kInternal),
      RINGLET_RECORD(kOutOfSync),
  };
#undef RINGLET_RECORD
  static_assert(sizeof(records) / sizeof(records[0]) ==
                static_cast<size_t>(kLastCode) + 1);
  for (Record& record : records) {
    if (record.code == code) return &record;
  }
  return &records[static_cast<int>(Code::kInternal)];
}

Status::Status(const Status& other) : record_(other.record_) {
  if (record_ != nullptr && record_->references.load() != 0) {
    record_->references.fetch_add(1);
  }
}

Status::~Status() {
  if (record_ == nullptr || record_->references.load() == 0) return;
  if (record_->references.fetch_sub(1) == 1) std::free(record_);
}

Code Status::code() const { return ok() ? Code::kOk : record_->code; }
const char* Status::message() const { return ok() ? "" : record_->message; }
int Status::os_error() const { return ok() ? 0 : record_->os_error; }
int Status::rank() const { return ok() ? -1 : record_->rank; }

Status Status::Annotate(const char* format, ...) const {
  if (ok()) return *this;
  va_list arguments;
  va_start(arguments, format);
  Status prefix =
      StatusBuilder::Make(code(), os_error(), rank(), "", format, arguments);
  va_end(arguments);
  Status joined = Error(code(), "%s: %s", prefix.message(), message());
  if (joined.record_->references.load() != 0) {
    joined.record_->os_error = os_error();
    joined.record_->rank = rank();
  }
  return joined;
}

#define RINGLET_MAKE(code, os_error, rank, suffix)                          \
  va_list arguments;                                                        \
  va_start(arguments, format);                                              \
  Status status =                                                           \
      StatusBuilder::Make(code, os_error, rank, suffix, format, arguments); \
  va_end(arguments);                                                        \
  return status

Status Error(Code code, const char* format, ...) {
  RINGLET_MAKE(code, 0, -1, "");
}
Status InvalidArgument(const char* format, ...) {
  RINGLET_MAKE(Code::kInvalidArgument, 0, -1, "");
}
Status NotFound(const char* format, ...) {
  RINGLET_MAKE(Code::kNotFound, 0, -1, "");
}
Status Corruption(const char* format, ...) {
  RINGLET_MAKE(Code::kCorruption, 0, -1, "");
}
Status ResourceExhausted(const char* format, ...) {
  RINGLET_MAKE(Code::kResourceExhausted, 0, -1, "");
}
Status PeerLost(int rank, const char* format, ...) {
  RINGLET_MAKE(Code::kPeerLost, 0, rank, "");
}
Status Interrupted(int signal, const char* format, ...) {
  RINGLET_MAKE(Code::kInterrupted, signal, -1, "");
}

Status OsError(int error_number, const char* format, ...) {
  char buffer[96] = "", suffix[128];
  std::snprintf(
      suffix, sizeof(suffix), ": %s%s",
      TextOf(strerror_r(error_number, buffer, sizeof(buffer)), buffer),
      error_number == EMFILE
          ? "; raise this process's limit of open files (ulimit -n)"
          : "");
  RINGLET_MAKE(CodeOfErrno(error_number), error_number, -1, suffix);
}

void AbortWithError(const Status& status) {
  std::fflush(stdout);
  Notice("error: %s", status.ok() ? "a Result was made of a Status that is OK"
                                  : status.message());
  std::abort();
}

bool IsPermanent(const Status& status) {
  return status.code() == Code::kCorruption ||
         status.code() == Code::kNotFound || status.os_error() == EACCES ||
         ExitCodeOf(status) == 2;
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return 0;
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
      return 2;
    case Code::kOutOfSync:
      return 3;
    case Code::kPeerLost:
    case Code::kCancelled:
      return 75;
    case Code::kInterrupted:
      return 128 + status.os_error();
    default:
      return 1;
  }
}

int ExitCode(const Status& status) {
  if (status.ok()) return 0;
  std::fflush(stdout);
  Notice("error: %s", status.message());
  return ExitCodeOf(status);
}

}  // namespace ringlet
