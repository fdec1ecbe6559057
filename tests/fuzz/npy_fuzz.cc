// Fuzz entry: reads any bytes as the NPY file of both x and y, and as a header
// that may have a field named "x".

#include <string>
#include <vector>

#include "fuzz_file.h"
#include "io/readers/arrays/npy_layout.h"
#include "ringlet/readers.h"

namespace {

using namespace ringlet;

void CheckField(const uint8_t* data, size_t size) {
  NpyLayout layout;
  const std::string header(reinterpret_cast<const char*>(data), size);
  const auto most = static_cast<int64_t>(size);
  if (!ParseNpyDictionary("file", header, most, &layout, "x").ok()) return;
  RINGLET_CHECK(layout.stored_bytes() <= most);
  std::vector<double> elements(static_cast<size_t>(layout.shape.elements()) +
                               1);
  std::vector<std::string> names;
  const Status decoded =
      layout.is_text()
          ? DecodeClassNumbers("file", layout, data,
                               reinterpret_cast<int32_t*>(elements.data()),
                               &names)
          : DecodeNumbers("file", layout, data, elements.data());
  decoded.IgnoreError();
}

// A number that is too large is found when it is read.
void CheckOnDisk(const std::string& path) {
  ArrayOptions options;
  options.in_memory = false;
  const Dataset data = NpyDataset(path, path, {}, options);
  if (!data.Batch(1).status().ok()) return;
  Source* const source = data.source().get();
  std::string x(source->x().bytes(), '\0'), y(source->y().bytes(), '\0');
  const int64_t last = source->size() - 1;
  source->Read(&last, 1, x.data(), y.data()).IgnoreError();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const FuzzFile file(data, size);
  CheckDataset(NpyDataset(file.path(), file.path()));
  CheckOnDisk(file.path());
  CheckField(data, size);
  return 0;
}
