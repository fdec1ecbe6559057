#include "csv_on_disk.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <utility>

#include "../../../core/base/crc32c.h"
#include "../../files/file_version.h"

namespace ringlet {

void CsvIndex::Add(int64_t begin) {
  if (blocks_.empty() || begin - blocks_.back().begin >= kBlockBytes) {
    blocks_.push_back({begin, rows_});
  }
  ++rows_;
}

size_t CsvIndex::FindBlock(int64_t row) const {
  const auto next_block = std::upper_bound(
      blocks_.begin(), blocks_.end(), row,
      [](int64_t r, const Block& block) { return r < block.first_row; });
  return static_cast<size_t>(next_block - blocks_.begin()) - 1;
}

Status CsvOnDisk::Open(const std::string& path, const CsvOptions& options,
                       std::vector<float>* weights,
                       std::shared_ptr<Source>* source) {
  auto reader = std::make_unique<CsvReader>(path, options);
  CsvIndex index;
  uint32_t crc = 0;
  RINGLET_RETURN_IF_ERROR(reader->ReadAll([&](const CsvReader::Row& row) {
    index.Add(row.begin);
    crc = Crc32c(row.cells.data(), row.cells.size() * sizeof(float), crc);
    if (reader->reads_label()) crc = Crc32c(&row.label, sizeof(int32_t), crc);
    if (reader->has_weights()) weights->push_back(row.weight);
  }));
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file));
  RINGLET_RETURN_IF_ERROR(CheckUnchanged(file.get(), reader->version()));
  auto opened = std::make_shared<CsvOnDisk>(std::move(reader), std::move(index),
                                            crc, std::move(file));
  RINGLET_RETURN_IF_ERROR(ChecksumParts(
      opened->file_.get(), opened->version_.bytes, &opened->sample_));
  *source = std::move(opened);
  return Status();
}

CsvOnDisk::CsvOnDisk(std::unique_ptr<CsvReader> reader, CsvIndex index,
                     uint32_t crc, std::unique_ptr<File> file)
    : TableSource(reader->Describe()),
      reader_(std::move(reader)),
      version_(reader_->version()),
      index_(std::move(index)),
      crc_(crc),
      file_(std::move(file)) {}

Status CsvOnDisk::Read(const int64_t* index, int count, void* x, void* y) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* to_x = static_cast<unsigned char*>(x);
  auto* to_y = static_cast<unsigned char*>(y);
  for (int i = 0; i < count; ++i) {
    const size_t block = index_.FindBlock(index[i]);
    RINGLET_RETURN_IF_ERROR(Load(block));
    const int64_t row = index[i] - index_.FirstRow(block);
    RINGLET_RETURN_IF_ERROR(TableSource::Read(&row, 1, to_x, to_y));
    if (x != nullptr) to_x += this->x().bytes();
    if (y != nullptr) to_y += this->y().bytes();
  }
  return Status();
}

Status CsvOnDisk::Load(size_t block) {
  if (block == loaded_) return Status();
  loaded_ = SIZE_MAX;
  const Status read = ReadRows(block);
  // All records were right in the first pass.
  RINGLET_RETURN_IF_ERROR(CheckUnchanged(file_.get(), sample_, &version_));
  if (read.ok()) loaded_ = block;
  return read;
}

Status CsvOnDisk::ReadRows(size_t block) {
  constexpr size_t kPiece = 2 * CsvIndex::kBlockBytes;
  const int64_t begin = index_.Begin(block);
  RecordReader records(
      reader_->path(),
      [this, at = begin](void* data, size_t bytes, size_t* got) mutable {
        Status read;
        do {
          read = file_->ReadSome(at, data, bytes, got);
        } while (read.os_error() == EINTR);
        at += static_cast<int64_t>(*got);
        return read;
      },
      reader_->dialect(), kPiece, begin);
  Clear();
  Fields fields;
  CsvReader::Row row;
  for (int64_t rows = 0; rows < index_.RowsOf(block);) {
    bool has_row = false, kept = false;
    RINGLET_RETURN_IF_ERROR(records.Next(&fields, &has_row));
    if (!has_row) {
      return Corruption("%s: ends at offset %" PRId64
                        ", and had more rows before; copy the file",
                        reader_->path().c_str(), records.begin());
    }
    RINGLET_RETURN_IF_ERROR(
        reader_->MakeRow(fields, records.line(), &row, &kept));
    if (!kept) continue;
    AppendRow(row.cells, row.label);
    ++rows;
  }
  return Status();
}

}  // namespace ringlet
