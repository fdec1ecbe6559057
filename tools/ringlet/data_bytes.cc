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
                        : npy ? NpyBytesInMemory(path, {}, &own)
                              : IdxBytesInMemory(path, {}, &own);
  *bytes += own;
  return status;
}

Status AddParts(const std::vector<DataPart>& parts, uint64_t* bytes) {
  for (const DataPart& part : parts) {
    RINGLET_RETURN_IF_ERROR(AddFile(part.path, bytes));
  }
  return Status();
}

using BytesOf = Status (*)(const std::string&, const ArrayOptions&, uint64_t*);

// Adds the bytes of files with their form in the RUN.json.
Status AddPair(BytesOf bytes_of, const std::string& x, const std::string& y,
               bool in_memory, uint64_t* bytes) {
  ArrayOptions options;
  uint64_t own = 0;
  if (!x.empty() && in_memory) {
    RINGLET_RETURN_IF_ERROR(bytes_of(x, options, &own));
    *bytes += own;
  }
  options.in_memory = in_memory;
  if (y.empty()) return Status();
  RINGLET_RETURN_IF_ERROR(bytes_of(y, options, &own));
  *bytes += own;
  return Status();
}

}  // namespace

Status DataBytes(const DataConfig& data, uint64_t* bytes) {
  *bytes = 0;
  if (!data.has_parts()) {
    RINGLET_RETURN_IF_ERROR(
        AddPair(NpyBytesInMemory, data.x, data.y, data.in_memory, bytes));
  } else if (data.in_memory) {
    RINGLET_RETURN_IF_ERROR(AddParts(data.inputs, bytes));
    RINGLET_RETURN_IF_ERROR(AddParts(data.targets, bytes));
    RINGLET_RETURN_IF_ERROR(AddFile(data.x, bytes));
    RINGLET_RETURN_IF_ERROR(AddFile(data.y, bytes));
  }
  RINGLET_RETURN_IF_ERROR(AddPair(IdxBytesInMemory, data.images, data.labels,
                                  data.in_memory, bytes));
  RINGLET_RETURN_IF_ERROR(AddPair(NpyBytesInMemory, data.sample_weight, "",
                                  /*in_memory=*/true, bytes));
  if (data.csv.empty()) return Status();
  uint64_t table = 0;
  RINGLET_RETURN_IF_ERROR(CsvBytesInMemory(data.csv, data.table, &table));
  *bytes += table;
  return Status();
}

}  // namespace ringlet
