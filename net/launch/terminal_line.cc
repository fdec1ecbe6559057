#include "terminal_line.h"

#include <utility>

namespace ringlet {
namespace {

constexpr char kErase[] = "\r\x1b[K";
constexpr char kPlainText[] = "\x1b[0m";

// The bytes of the escape sequence that begins there.
size_t EscapeBytes(const std::string& text, size_t at) {
  size_t end = at + 1;
  if (end < text.size() && text[end] == '[') {
    ++end;
    while (end < text.size() && (text[end] < 0x40 || text[end] > 0x7e)) ++end;
  }
  return (end < text.size() ? end + 1 : end) - at;
}

}  // namespace

void TerminalLine::Feed(const char* data, size_t bytes, size_t max_line_bytes,
                        std::vector<std::string>* lines) {
  for (size_t i = 0; i < bytes; ++i) {
    const char c = data[i];
    if (c == '\n') {
      lines->push_back(std::move(text_));
      text_.clear();
      returned_ = false;
    } else if (c == '\r') {
      returned_ = true;      // the end of the line, where a line feed follows
    } else if (c != '\b') {  // '\b' before a carriage return has no effect
      if (returned_) text_.clear();
      returned_ = false;
      text_ += c;
      if (text_.size() == max_line_bytes) {
        lines->push_back(std::move(text_));
        text_.clear();
      }
    }
  }
  changed_ = true;
}

void TerminalLine::End(std::vector<std::string>* lines) {
  if (text_.empty()) return;
  lines->push_back(std::move(text_));
  text_.clear();
  returned_ = false;
}

std::string TerminalLine::Erase() {
  changed_ = true;
  return std::exchange(drawn_, false) ? kErase : "";
}

std::string TerminalLine::Draw(const std::string& prefix, int columns) {
  if (!changed_) return "";
  std::string out = Erase();
  changed_ = false;
  drawn_ = !text_.empty();
  if (drawn_) out += CutToColumns(prefix + text_, columns);
  return out;
}

std::string CutToColumns(const std::string& text, int columns) {
  std::string out;
  int used = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      const size_t n = EscapeBytes(text, i);
      out.append(text, i, n);
      i += n;
      continue;
    }
    const bool continues = (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
    if (!continues && ++used > columns) return out + kPlainText;
    out += text[i++];
  }
  return out;
}

}  // namespace ringlet
