#include "ringlet/status.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

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
  struct stat of_a, of_b;
  return fstat(fileno(a), &of_a) == 0 && fstat(fileno(b), &of_b) == 0 &&
         SameFile(of_a, of_b);
}

// Returns the streams that `out` shares.
int PlacesOf(FILE* out) {
  return (SameStream(out, stdout) ? kOnStdout : 0) |
         (SameStream(out, stderr) ? kOnStderr : 0);
}

// True if the message would continue an open line.
bool EndsOpenLine(int where) {
  if ((g_open.load() & where) == 0) return false;
  g_open = 0;
  return true;
}

// Makes one call of write, whatever the stream's buffering.
void WriteLine(FILE* out, bool after_open, const char* format,
               va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) return;
  // The text needs room for a newline before it, a newline after it, and a
  // zero.
  size_t room = static_cast<size_t>(length) + 3;
  char short_line[512];
  char* line = static_cast<char*>(std::malloc(room));
  if (line == nullptr) {
    line = short_line;
    room = sizeof(short_line);
  }
  line[0] = '\n';
  std::vsnprintf(line + 1, room - 2, format, arguments);
  size_t end = 1 + std::strlen(line + 1);
  if (end == 1 || line[end - 1] != '\n') line[end++] = '\n';
  // A text that begins with a newline ends the open line itself.
  const size_t begin = after_open && line[1] != '\n' ? 0 : 1;
  std::fwrite(line + begin, 1, end - begin, out);
  std::fflush(out);
  if (line != short_line) std::free(line);
}

}  // namespace

void Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine(stdout, EndsOpenLine(kOnStdout), format, arguments);
  va_end(arguments);
}

void PrintTo(FILE* out, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine(out, EndsOpenLine(PlacesOf(out)), format, arguments);
  va_end(arguments);
}

void Notice(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine(stderr, EndsOpenLine(kOnStderr), format, arguments);
  va_end(arguments);
}

void NoticeNow(const char* text) {
  if (EndsOpenLine(kOnStderr)) (void)!write(STDERR_FILENO, "\n", 1);
  (void)!write(STDERR_FILENO, text, std::strlen(text));
}

OpenLine::~OpenLine() {
  if (open_ && EndsOpenLine(kOpen)) Write("\n", /*ends=*/true);
}

void OpenLine::Write(const std::string& text, bool ends) {
  open_ = !ends;
  g_open = ends ? 0 : kOpen | PlacesOf(out_);
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace ringlet
