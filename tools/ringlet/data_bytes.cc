#include "data_bytes.h"

#include <string>
#include <vector>

#include "core/base/text.h"
#include "io/readers/array_path.h"
#include "io/readers/memory_sizes.h"

namespace ringlet {
namespace {

bool IsNamed(const std::string& path, const std::string& end) {
  return EndsWith(path, end) || EndsWith(path, end + ".gz");
}

CsvOptions Unlabelled() {
  CsvOptions options;
  options.has_label = false;
  return options;
}

// Adds the bytes of a part. The file's name decides its form.
Status AddFile(const std::string& path, uint64_t* bytes) {
  if (path.empty()) return Status();
  uint64_t own = 0;
  const std::string file = SplitArrayPath(path).file;
  const bool npy =
      file != path || IsNamed(file, ".npy") || EndsWith(file, ".npz");
  const Status status = IsNamed(path, ".csv")
                            ? CsvBytesInMemory(path, Unlabelled(), &own)
                        : npy ? NpyBytesInMemory(path, &own)
                              : IdxBytesInMemory(path, &own);
  *bytes += own;
  return status;
}

Status AddParts(const std::vector<DataPart>& parts, uint64_t* bytes) {
  for (const DataPart& part : parts) {
    RINGLET_RETURN_IF_ERROR(AddFile(part.path, bytes));
  }
  return Status();
}

// Adds the bytes of a file with its form in the RUN.json.
Status AddForm(Status (*of)(const std::string&, uint64_t*),
               const std::string& path, uint64_t* bytes) {
  uint64_t own = 0;
  if (!path.empty()) RINGLET_RETURN_IF_ERROR(of(path, &own));
  *bytes += own;
  return Status();
}

}  // namespace

Status DataBytes(const DataConfig& data, uint64_t* bytes) {
  *bytes = 0;
  if (data.has_parts()) {
    RINGLET_RETURN_IF_ERROR(AddParts(data.inputs, bytes));
    RINGLET_RETURN_IF_ERROR(AddParts(data.targets, bytes));
    RINGLET_RETURN_IF_ERROR(AddFile(data.x, bytes));
    RINGLET_RETURN_IF_ERROR(AddFile(data.y, bytes));
  } else {
    RINGLET_RETURN_IF_ERROR(AddForm(NpyBytesInMemory, data.x, bytes));
    RINGLET_RETURN_IF_ERROR(AddForm(NpyBytesInMemory, data.y, bytes));
  }
  if (data.in_memory) {
    RINGLET_RETURN_IF_ERROR(AddForm(IdxBytesInMemory, data.images, bytes));
  }
  RINGLET_RETURN_IF_ERROR(AddForm(IdxBytesInMemory, data.labels, bytes));
  RINGLET_RETURN_IF_ERROR(AddForm(NpyBytesInMemory, data.sample_weight, bytes));
  if (data.csv.empty()) return Status();
  uint64_t table = 0;
  RINGLET_RETURN_IF_ERROR(CsvBytesInMemory(data.csv, data.table, &table));
  *bytes += table;
  return Status();
}

}  // namespace ringlet
