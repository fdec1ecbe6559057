// Lines, fields and numbers of a CSV file.
//
// Internal to io/data/.

#ifndef RINGLET_IO_DATA_CSV_LINES_H_
#define RINGLET_IO_DATA_CSV_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../../core/base/status.h"
#include "../files/input_file.h"

namespace ringlet {

// Lines of a file, without their ends.
class LineReader {
 public:
  explicit LineReader(InputFile* file) : file_(file) {}

  // *more is false at the end of the file.
  Status Next(std::string* line, bool* more);
  int64_t number() const { return number_; }  // of the last line, from 1

 private:
  InputFile* const file_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

using Fields = std::vector<std::string_view>;

// Without blanks and quotes around it.
std::string_view Trim(std::string_view field);
// Each trimmed.
void SplitFields(std::string_view line, char separator, Fields* fields);
// The whole of `field` as a float32; a float64 too small for it becomes zero.
// False where it is no number, or too large.
bool ParseNumber(std::string_view field, float* value);
// A number of any size, also one that fits no float32.
bool IsNumber(std::string_view field);

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_CSV_LINES_H_
