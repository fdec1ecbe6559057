// OpenLine: the line of a progress bar, which is written in pieces. A process
// has one: the last that was written to.
//
// Messages begin a new line before they write (ringlet/status.h).

#ifndef RINGLET_CORE_BASE_OPEN_LINE_H_
#define RINGLET_CORE_BASE_OPEN_LINE_H_

#include <cstdio>
#include <string>

namespace ringlet {

class OpenLine {
 public:
  explicit OpenLine(FILE* out) : out_(out) {}
  ~OpenLine();  // ends the line
  OpenLine(const OpenLine&) = delete;
  OpenLine& operator=(const OpenLine&) = delete;

  // Writes `text`. `ends` is true if `text` ends in a newline.
  void Write(const std::string& text, bool ends);

 private:
  FILE* const out_;
  bool open_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_OPEN_LINE_H_
