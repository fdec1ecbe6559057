#include "text.h"

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>

namespace ringlet {
namespace {

std::string InUnits(double bytes, double step, const char* const (&units)[5]) {
  int unit = 0;
  for (; bytes >= step && unit < 4; ++unit) bytes /= step;
  return FormatText("%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes,
                    units[unit]);
}

}  // namespace

std::string FormatText(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int bytes = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(bytes < 0 ? 0 : bytes), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string BytesText(uint64_t bytes) {
  return InUnits(static_cast<double>(bytes), 1000,
                 {"bytes", "kB", "MB", "GB", "TB"});
}

std::string BinaryBytesText(double bytes) {
  return InUnits(bytes, 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

bool TakeLine(std::string_view* text, std::string* line, char end) {
  if (text->empty()) return false;
  const size_t bytes = std::min(text->find(end), text->size());
  line->assign(text->substr(0, bytes));
  text->remove_prefix(std::min(bytes + 1, text->size()));
  return true;
}

std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string LowerAscii(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// The continuation bytes after this first byte; 4 if none may begin with it.
static size_t ContinuationBytes(unsigned char first) {
  if (first < 0x80) return 0;
  if (first < 0xC2) return 4;
  if (first < 0xE0) return 1;
  if (first < 0xF0) return 2;
  return first < 0xF5 ? 3 : 4;
}

size_t ValidUtf8Bytes(const std::string& text) {
  const size_t size = text.size();
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(i < size ? text[i] : 0);
  };
  for (size_t at = 0; at < size;) {
    const unsigned char first = byte(at);
    const size_t continuation_bytes = ContinuationBytes(first);
    // The second byte's range excludes overlong forms, surrogates and numbers
    // beyond U+10FFFF.
    const unsigned char low = first == 0xE0   ? 0xA0
                              : first == 0xF0 ? 0x90
                                              : 0x80;
    const unsigned char high = first == 0xED   ? 0x9F
                               : first == 0xF4 ? 0x8F
                                               : 0xBF;
    if (continuation_bytes > 3) return at;
    if (continuation_bytes > 0 && (byte(at + 1) < low || byte(at + 1) > high))
      return at;
    for (size_t i = 2; i <= continuation_bytes; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    }
    at += continuation_bytes + 1;
  }
  return size;
}

int64_t ParseWholeNumber(std::string_view text, int64_t max) {
  const char* const end = text.data() + text.size();
  int64_t value = 0;
  const auto [last, error] = std::from_chars(text.data(), end, value);
  const bool is_whole_text = error == std::errc() && last == end;
  return is_whole_text && value >= 0 && value <= max ? value : -1;
}

std::string HexText(uint64_t number) {
  std::string text(16, '0');
  for (size_t i = text.size(); i > 0; number >>= 4) {
    text[--i] = "0123456789abcdef"[number & 15];
  }
  return text;
}

std::string WithCommas(int64_t number) {
  std::string digits = std::to_string(number);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return digits;
}

std::string Printable(const std::string& text) {
  constexpr size_t kMax = 100;
  std::string shown = text.substr(0, kMax);
  for (char& c : shown) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return text.size() > kMax ? shown + "..." : shown;
}

// For ASCII, whatever the locale. Adds an underscore before a capital that
// begins a word, as "Layer" in "MyLayer", or follows small letters.
std::string SnakeCase(const std::string& class_name) {
  const auto upper = [&](size_t i) {
    return i < class_name.size() && class_name[i] >= 'A' &&
           class_name[i] <= 'Z';
  };
  const auto lower = [&](size_t i) {
    return i < class_name.size() && class_name[i] >= 'a' &&
           class_name[i] <= 'z';
  };
  std::string text;
  for (size_t i = 0; i < class_name.size(); ++i) {
    if (upper(i) && i > 0 && (lower(i - 1) || lower(i + 1))) text += '_';
    text += static_cast<char>(class_name[i] + (upper(i) ? 'a' - 'A' : 0));
  }
  return text;
}

// Capitals are read one by one: "LSTM" and "MFCC" begin with a vowel's sound,
// "UnitNormalization" does not.
std::string WithArticle(const std::string& class_name) {
  const bool vowel = class_name.find_first_of("AEIO") == 0 ||
                     StartsWith(class_name, "Up") || class_name == "LSTM" ||
                     class_name == "MFCC";
  return (vowel ? "an " : "a ") + class_name;
}

}  // namespace ringlet
