// Messages: lines for people, on stdout and on stderr.
//
// Public. A line is written whole, by one call, and flushed as it is made:
// through a pipe it is seen at once. Where a progress bar's line is still open
// on the same terminal or file, the message begins a line of its own, and the
// bar is drawn again below it. Any thread. The buffering of stdout stays as the
// program has set it.

#ifndef RINGLET_CORE_BASE_MESSAGE_H_
#define RINGLET_CORE_BASE_MESSAGE_H_

#include <cstdio>
#include <string>

#include "status.h"

namespace ringlet {

// On stdout, with a newline behind it where the text has none at its end.
void Print(const char* format, ...) RINGLET_PRINTF(1, 2);

// On `out`, likewise.
void PrintTo(FILE* out, const char* format, ...) RINGLET_PRINTF(2, 3);

// On stderr, likewise. Never waits for a reader of stdout.
void Notice(const char* format, ...) RINGLET_PRINTF(1, 2);

// As Notice, of a text that ends in a newline, without allocating: for a
// signal's handler, and where memory has failed.
void NoticeNow(const char* text);

// Internal: a line of a bar, which is written piece by piece. One is known to a
// process, that which was written to last.
class OpenLine {
 public:
  explicit OpenLine(FILE* out) : out_(out) {}
  ~OpenLine();  // ends it
  OpenLine(const OpenLine&) = delete;
  OpenLine& operator=(const OpenLine&) = delete;

  // `ends`: `text` ends in a newline.
  void Write(const std::string& text, bool ends);

 private:
  FILE* const out_;
  bool open_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_MESSAGE_H_
