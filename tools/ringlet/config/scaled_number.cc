#include "scaled_number.h"

#include "core/base/text.h"

namespace ringlet {

bool ReadScaled(const std::string& text, int64_t step, int64_t* value) {
  std::string digits = text;
  size_t unit = std::string::npos;
  if (!digits.empty()) unit = std::string("KMGT").find(digits.back());
  if (unit != std::string::npos) digits.pop_back();
  *value = ParseWholeNumber(digits, INT64_MAX);
  if (*value < 1) return false;
  for (size_t i = 0; unit != std::string::npos && i <= unit; ++i) {
    if (*value > INT64_MAX / step) return false;
    *value *= step;
  }
  return true;
}

bool ReadByteCount(const std::string& text, int64_t* bytes) {
  const bool has_b = text.size() > 1 && text.back() == 'B';
  return ReadScaled(has_b ? text.substr(0, text.size() - 1) : text, 1024,
                    bytes);
}

}  // namespace ringlet
