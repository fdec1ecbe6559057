#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../files/file_kind.h"
#include "../memory_sizes.h"
#include "csv_on_disk.h"
#include "csv_reader.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "table_source.h"

namespace ringlet {
namespace {

template <typename T>
void Append(const T* values, size_t count, std::vector<unsigned char>* bytes) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(values);
  bytes->insert(bytes->end(), begin, begin + count * sizeof(T));
}

// Reads the whole table.
Status ReadTable(const std::string& path, const CsvOptions& options,
                 const CsvPass* pass, std::vector<float>* weights,
                 std::shared_ptr<Source>* source) {
  CsvReader reader(path, options);
  if (pass != nullptr && pass->is_silent) reader.set_silent();
  std::vector<unsigned char> cells, labels;
  RINGLET_RETURN_IF_ERROR(reader.ReadAll([&](const CsvReader::Row& row) {
    Append(row.cells.data(), row.cells.size(), &cells);
    if (reader.reads_label()) Append(&row.label, 1, &labels);
    if (reader.has_weights()) weights->push_back(row.weight);
    if (pass != nullptr) pass->take(row.text);
  }));
  // A vector of bytes is aligned as a vector of floats.
  reader.Renumber(reinterpret_cast<float*>(cells.data()),
                  reinterpret_cast<int32_t*>(labels.data()));
  Table table = reader.Describe();
  table.rows = reader.rows();
  table.cells = std::move(cells);
  table.y.data = std::move(labels);
  *source = std::make_shared<TableSource>(std::move(table));
  return Status();
}

}  // namespace

Status CsvBytesInMemory(const std::string& path, const CsvOptions& options,
                        uint64_t* bytes) {
  CsvReader reader(path, options);
  CsvIndex index;
  *bytes = 0;
  RINGLET_RETURN_IF_ERROR(reader.ReadAll([&](const CsvReader::Row& row) {
    index.Add(row.begin);
    if (reader.has_weights()) *bytes += sizeof(row.weight);
    if (!options.in_memory) return;
    *bytes += row.cells.size() * sizeof(row.cells[0]);
    if (reader.reads_label()) *bytes += sizeof(row.label);
  }));
  if (!options.in_memory) *bytes += index.bytes();
  return Status();
}

Dataset CsvDataset(const std::string& path, const CsvOptions& options) {
  return OpenCsv(path, options, nullptr);
}

Dataset OpenCsv(const std::string& path, const CsvOptions& options,
                const CsvPass* pass) {
  std::shared_ptr<Source> source;
  std::vector<float> weights;
  const Status status = options.in_memory
                            ? ReadTable(path, options, pass, &weights, &source)
                            : CsvOnDisk::Open(path, options, &weights, &source);
  if (status.ok()) {
    const Dataset dataset(std::move(source));
    return weights.empty() ? dataset : dataset.SampleWeight(std::move(weights));
  }
  return Dataset(WrongKindError(
      PosixFiles(), path, {FileKind::Format::kCsv, FileKind::Format::kGzip},
      status));
}

}  // namespace ringlet
