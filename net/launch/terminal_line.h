// TerminalLine: the line that a worker has begun and not ended, such as a
// progress bar, on a terminal that others write lines to.
//
// Internal to net/. Pure. What a carriage return makes obsolete is dropped, so
// that a bar of thousands of drawings is one line. The line stands last on the
// terminal: it is erased before any other line is written, and drawn again.

#ifndef RINGLET_NET_LAUNCH_TERMINAL_LINE_H_
#define RINGLET_NET_LAUNCH_TERMINAL_LINE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ringlet {

class TerminalLine {
 public:
  // Takes what the worker wrote; lines that it ended are appended to `lines`.
  // One of more than `most` bytes is cut in pieces.
  void Feed(const char* data, size_t bytes, size_t most,
            std::vector<std::string>* lines);
  // What is begun becomes a line, at the end of its worker.
  void End(std::vector<std::string>* lines);

  // What to write before another line: "" where none is drawn.
  std::string Erase();
  // What draws it, at most `columns` wide: "" where it is drawn as it is.
  std::string Draw(const std::string& prefix, int columns);

 private:
  std::string text_;
  bool returned_ = false;  // a carriage return came, and nothing after it
  bool changed_ = false;   // since it was drawn
  bool drawn_ = false;
};

// At most `columns` of the text: escape sequences take none, a character of
// UTF-8 takes one.
std::string CutToColumns(const std::string& text, int columns);

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_TERMINAL_LINE_H_
