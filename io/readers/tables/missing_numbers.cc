#include "missing_numbers.h"

#include <cmath>
#include <string>

#include "csv_records.h"

namespace ringlet {

// If the decimal point of the table is unknown, a text with a comma is of a
// table with decimal commas.
std::vector<float> MissingNumbers(const TableEncoding& encoding) {
  const char point = encoding.decimal;
  std::vector<float> numbers;
  for (const std::string& text : encoding.na_values) {
    float number = 0;
    const bool is_number = point != '\0' ? ParseNumber(text, &number, point)
                                         : ParseNumber(text, &number) ||
                                               ParseNumber(text, &number, ',');
    if (is_number && !std::isnan(number)) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace ringlet
