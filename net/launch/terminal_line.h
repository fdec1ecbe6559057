// TerminalLine: the line that a worker has begun and not ended, such as a
// progress bar, on a terminal to which other workers and the launcher write
// lines.
//
// Pure. Text that a carriage return makes obsolete is dropped, so a bar that is
// drawn thousands of times is one line. The line is the last on the terminal:
// it is erased before any other line, and drawn again.

#ifndef RINGLET_NET_LAUNCH_TERMINAL_LINE_H_
#define RINGLET_NET_LAUNCH_TERMINAL_LINE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ringlet {

class TerminalLine {
 public:
  // Takes what the worker wrote; lines that it ended are appended to `lines`.
  // A line of more than `max_line_bytes` bytes is cut in pieces.
  void Feed(const char* data, size_t bytes, size_t max_line_bytes,
            std::vector<std::string>* lines);
  // Ends the line that has begun, at the end of its worker.
  void End(std::vector<std::string>* lines);

  // The text to write before another line: "" if no line is drawn.
  std::string Erase();
  // The text that draws the line, at most `columns` wide; empty if the present
  // line is drawn.
  std::string Draw(const std::string& prefix, int columns);

 private:
  std::string text_;
  bool returned_ = false;  // the last character was a carriage return
  bool changed_ = false;   // true if it changed since it was drawn
  bool drawn_ = false;
};

// At most `columns` of the text: escape sequences take none, a character of
// UTF-8 takes one.
std::string CutToColumns(const std::string& text, int columns);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_TERMINAL_LINE_H_
