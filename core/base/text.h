// Small functions on text, and text for messages.

#ifndef RINGLET_CORE_BASE_TEXT_H_
#define RINGLET_CORE_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

inline bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

inline bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

// Whatever the locale, unlike std::isdigit.
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// `text` without `prefix` or `suffix`; unchanged if it has none.
inline std::string WithoutPrefix(const std::string& text,
                                 std::string_view prefix) {
  return StartsWith(text, prefix) ? text.substr(prefix.size()) : text;
}
inline std::string WithoutSuffix(const std::string& text,
                                 std::string_view suffix) {
  return EndsWith(text, suffix) ? text.substr(0, text.size() - suffix.size())
                                : text;
}

// Takes the next line off *text; false if *text is empty. The last line may
// lack its end.
bool TakeLine(std::string_view* text, std::string* line, char end = '\n');

// The parts of a short text between the separators: one more than these.
std::vector<std::string> SplitAt(std::string_view text, char separator);

// `text` with its letters of ASCII in lower case.
std::string LowerAscii(std::string text);

// The length of the beginning of `text` that is valid UTF-8 (RFC 3629): the
// offset of the first byte that belongs to no character, or text.size().
size_t ValidUtf8Bytes(const std::string& text);

// All of `text` as a decimal number from 0 to `max`; -1 if it is not one.
int64_t ParseWholeNumber(std::string_view text, int64_t max);

// "1,234,567". `number` is not negative.
std::string WithCommas(int64_t number);

// Returns the text that printf would write.
std::string FormatText(const char* format, ...) RINGLET_PRINTF(1, 2);

// "1.5 GB", in powers of 1000.
std::string BytesText(uint64_t bytes);
// "1.4 GiB", in powers of 1024.
std::string BinaryBytesText(double bytes);

// 16 hexadecimal digits.
std::string HexText(uint64_t number);

// The form of `text` in a message: its first 100 bytes, then "..." if there are
// more. Control bytes become '?'.
std::string Printable(const std::string& text);

// The Keras name of an object of a class: "Conv2D" -> "conv2d", "MyLayer" ->
// "my_layer".
std::string SnakeCase(const std::string& class_name);

// The name of a class of layer in a sentence: "a Dense", "an Embedding", "an
// LSTM".
std::string WithArticle(const std::string& class_name);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_TEXT_H_
