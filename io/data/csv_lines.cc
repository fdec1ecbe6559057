#include "csv_lines.h"

#include <charconv>
#include <cinttypes>
#include <cmath>

namespace ringlet {
namespace {

constexpr size_t kLongestLine = 16 << 20;  // bytes

}  // namespace

Status LineReader::Next(std::string* line, bool* more) {
  line->clear();
  *more = true;
  for (;;) {
    const size_t end = buffer_.find('\n', at_);
    if (end != std::string::npos) {
      line->append(buffer_, at_, end - at_);
      at_ = end + 1;
      break;
    }
    line->append(buffer_, at_, std::string::npos);
    if (line->size() > kLongestLine) {
      return Corruption("%s: line %" PRId64 " is longer than %zu bytes",
                        file_->path().c_str(), number_ + 1, kLongestLine);
    }
    buffer_.resize(64 << 10);
    at_ = 0;
    size_t got = 0;
    RINGLET_RETURN_IF_ERROR(file_->ReadSome(&buffer_[0], buffer_.size(), &got));
    buffer_.resize(got);
    if (got > 0) continue;
    if (line->empty()) {
      *more = false;
      return Status();
    }
    break;
  }
  ++number_;
  if (number_ == 1 && line->compare(0, 3, "\xEF\xBB\xBF") == 0) {
    line->erase(0, 3);  // a byte order mark
  }
  if (!line->empty() && line->back() == '\r') line->pop_back();
  return Status();
}

std::string_view Trim(std::string_view field) {
  const auto outside = [](char c) { return c == ' ' || c == '\t' || c == '"'; };
  while (!field.empty() && outside(field.front())) field.remove_prefix(1);
  while (!field.empty() && outside(field.back())) field.remove_suffix(1);
  return field;
}

void SplitFields(std::string_view line, char separator,
                 std::vector<std::string_view>* fields) {
  fields->clear();
  for (;;) {
    const size_t end = line.find(separator);
    fields->push_back(Trim(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

bool ParseNumber(std::string_view field, float* value) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') {
    field.remove_prefix(1);
  }
  const char* const end = field.data() + field.size();
  auto parsed = std::from_chars(field.data(), end, *value);
  if (parsed.ec == std::errc::result_out_of_range) {
    // Too small or too large; a float64 tells.
    double wide = 0;
    parsed = std::from_chars(field.data(), end, wide);
    if (std::fabs(wide) > 1) return false;
    *value = static_cast<float>(wide);
  }
  return parsed.ec == std::errc() && parsed.ptr == end;
}

bool IsNumber(std::string_view field) {
  float value;
  if (ParseNumber(field, &value)) return true;
  double wide;
  const char* const end = field.data() + field.size();
  return std::from_chars(field.data(), end, wide).ptr == end && !field.empty();
}

}  // namespace ringlet
