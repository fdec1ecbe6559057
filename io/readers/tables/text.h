// Columns of text: of words, or of pictures' paths.

#ifndef RINGLET_IO_READERS_TABLES_TEXT_H_
#define RINGLET_IO_READERS_TABLES_TEXT_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {

// Options for a table with the text as its only value. It counts as an unknown
// category, so any text is accepted. Training columns come before `column`.
CsvOptions TextRowOptions(const std::string& column, const CsvOptions& options);

// Turns texts into numbers as TextVectorization describes.
class TextEncoder {
 public:
  explicit TextEncoder(const TextVectorization& vectorization);
  int32_t Find(const std::string& token) const;
  void Append(const std::string& text, std::vector<int32_t>* numbers) const;

 private:
  const TextVectorization vectorization_;
  std::unordered_map<std::string, int32_t> known_;
};

// Opens the rows of a CsvDataset with `column` as its only value, and its
// texts. An error is in the dataset.
Dataset OpenTexts(const std::string& path, const std::string& column,
                  const CsvOptions& options, std::vector<std::string>* texts);

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_TEXT_H_
