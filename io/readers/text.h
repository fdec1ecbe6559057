// What TextDataset and the lines of stdin do with a column of text.

#ifndef RINGLET_IO_READERS_TEXT_H_
#define RINGLET_IO_READERS_TEXT_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {

// For rows with the text as their only value: an unknown category, which is no
// limit to it. With training columns these decide which column it is.
CsvOptions TextRowOptions(const std::string& column, const CsvOptions& options);

// The numbers of texts.
class TokenNumbers {
 public:
  explicit TokenNumbers(const TextVectorization& vectorization);
  void Append(const std::string& text, std::vector<int32_t>* numbers) const;

 private:
  const TextVectorization vectorization_;
  std::unordered_map<std::string, int32_t> known_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TEXT_H_
