// Replaces the readers of CSV files in a build without them.

#include "../../../core/base/left_out.h"
#include "../memory_sizes.h"
#include "ringlet/readers.h"
#include "text.h"

namespace ringlet {

Dataset CsvDataset(const std::string& path, const CsvOptions&) {
  return Dataset(LeftOut(path, "tables"));
}
Status CsvBytesInMemory(const std::string& path, const CsvOptions&, uint64_t*) {
  return LeftOut(path, "tables");
}

Dataset TextDataset(const std::string& path, const std::string&,
                    const TextVectorization&, const CsvOptions&) {
  return Dataset(LeftOut(path, "tables"));
}
Dataset OpenTexts(const std::string& path, const std::string&,
                  const CsvOptions&, std::vector<std::string>*) {
  return Dataset(LeftOut(path, "tables"));
}
Status ReadVocabulary(const std::string& path, TextVectorization*) {
  return LeftOut(path, "tables");
}
Status LearnVocabulary(const std::string& path, const std::string&,
                       const CsvOptions&, TextVectorization*) {
  return LeftOut(path, "tables");
}
std::vector<int32_t> Vectorize(const TextVectorization&, const std::string&) {
  return {};
}

}  // namespace ringlet
