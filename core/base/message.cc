// Print and Notice of ringlet/status.h, NoticeNow and OpenLine.

#include "ringlet/status.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "events.h"
#include "notice_now.h"
#include "open_line.h"
#include "same_file.h"

namespace ringlet {
namespace {

// The state of the process: whether a bar's line is open, and on which streams
// messages would continue it. A signal handler reads it.
enum : int { kOpen = 1, kOnStdout = 2, kOnStderr = 4 };
std::atomic<int> g_open{0};
static_assert(std::atomic<int>::is_always_lock_free);

bool SameStream(FILE* a, FILE* b) {
  struct stat info_a, info_b;
  return fstat(fileno(a), &info_a) == 0 && fstat(fileno(b), &info_b) == 0 &&
         SameFile(info_a, info_b);
}

// Returns the streams that `out` shares.
int SharedStreams(FILE* out) {
  return (SameStream(out, stdout) ? kOnStdout : 0) |
         (SameStream(out, stderr) ? kOnStderr : 0);
}

// Forgets an open line. True if there was one, which the message would
// continue.
bool CloseOpenLine(int where) {
  if ((g_open.load() & where) == 0) return false;
  g_open = 0;
  return true;
}

// True if systemd's journal reads stderr: JOURNAL_STREAM then has the numbers
// of stderr's device and file (systemd.exec(5)).
bool JournalReadsStderr() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  unsigned long long device = 0, file = 0;
  struct stat own;
  return stream != nullptr &&
         std::sscanf(stream, "%llu:%llu", &device, &file) == 2 &&
         fstat(STDERR_FILENO, &own) == 0 && own.st_dev == device &&
         own.st_ino == file;
}

// The journal's mark of the message's level (sd-daemon(3)).
const char* LevelMark(const char* message) {
  const auto begins = [message](const char* word) {
    return std::strncmp(message, word, std::strlen(word)) == 0;
  };
  return begins("error") ? "<3>" : begins("warning") ? "<4>" : "<5>";
}

// Makes one call of write, whatever the stream's buffering.
void WriteLine(FILE* out, bool after_open, bool marks_level, const char* format,
               va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) return;
  // The text needs room for a newline and a mark before it, a newline after it,
  // and a zero.
  constexpr size_t kMark = 3, kBefore = 1 + kMark;
  size_t room = static_cast<size_t>(length) + kBefore + 2;
  char short_line[512];
  char* line = static_cast<char*>(std::malloc(room));
  if (line == nullptr) {
    line = short_line;
    room = sizeof(short_line);
  }
  char* const text = line + kBefore;
  std::vsnprintf(text, room - kBefore - 1, format, arguments);
  char* end = text + std::strlen(text);
  if (end == text || end[-1] != '\n') *end++ = '\n';
  char* begin = text;
  if (marks_level) {
    begin -= kMark;
    std::memcpy(begin, LevelMark(text), kMark);
  }
  // A text that begins with a newline ends the open line itself.
  if (after_open && text[0] != '\n') *--begin = '\n';
  std::fwrite(begin, 1, static_cast<size_t>(end - begin), out);
  std::fflush(out);
  if (line != short_line) std::free(line);
}

// Notes may come with every few steps.
void RecordNotice(const char* format, va_list arguments) {
  char text[Event::kMaxText];
  std::vsnprintf(text, sizeof(text), format, arguments);
  if (std::strncmp(text, "note:", 5) == 0) return;
  const bool warns = LevelMark(text)[1] != '5';
  RecordEvent(Event(warns ? "warning" : "notice").Text("text", text));
}

}  // namespace

void Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine(stdout, CloseOpenLine(kOnStdout), /*marks_level=*/false, format,
            arguments);
  va_end(arguments);
}

void PrintTo(FILE* out, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine(out, CloseOpenLine(SharedStreams(out)), /*marks_level=*/false,
            format, arguments);
  va_end(arguments);
}

void Notice(const char* format, ...) {
  va_list arguments;
  if (g_events != nullptr) {
    va_start(arguments, format);
    RecordNotice(format, arguments);
    va_end(arguments);
  }
  va_start(arguments, format);
  WriteLine(stderr, CloseOpenLine(kOnStderr), JournalReadsStderr(), format,
            arguments);
  va_end(arguments);
}

void NoticeNow(const char* text) {
  if (CloseOpenLine(kOnStderr)) (void)!write(STDERR_FILENO, "\n", 1);
  (void)!write(STDERR_FILENO, text, std::strlen(text));
}

OpenLine::~OpenLine() {
  if (open_ && CloseOpenLine(kOpen)) Write("\n", /*ends=*/true);
}

void OpenLine::Write(const std::string& text, bool ends) {
  open_ = !ends;
  g_open = ends ? 0 : kOpen | SharedStreams(out_);
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace ringlet
