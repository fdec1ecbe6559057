// CsvOnDisk: the examples of a CSV file that is too large for the memory.
//
// The file is divided into blocks of about 4 KiB, each of whole rows. To read a
// row, its whole block is read from the file.

#ifndef RINGLET_IO_READERS_TABLES_CSV_ON_DISK_H_
#define RINGLET_IO_READERS_TABLES_CSV_ON_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../../files/file_system.h"
#include "csv_reader.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"
#include "table_source.h"

namespace ringlet {

// The blocks of a file, and their rows.
class CsvIndex {
 public:
  static constexpr int64_t kBlockBytes = 4 << 10;

  // Adds the next row. `begin` is the offset of its record in the file.
  void Add(int64_t begin);
  int64_t rows() const { return rows_; }
  size_t bytes() const { return blocks_.size() * sizeof(Block); }

  size_t FindBlock(int64_t row) const;
  int64_t Begin(size_t block) const { return blocks_[block].begin; }
  int64_t FirstRow(size_t block) const { return blocks_[block].first_row; }
  int64_t RowsOf(size_t block) const {
    return (block + 1 < blocks_.size() ? FirstRow(block + 1) : rows_) -
           FirstRow(block);
  }

 private:
  struct Block {
    int64_t begin, first_row;
  };
  std::vector<Block> blocks_;
  int64_t rows_ = 0;
};

class CsvOnDisk final : public TableSource {
 public:
  static Status Open(const std::string& path, const CsvOptions& options,
                     std::vector<float>* weights,
                     std::shared_ptr<Source>* source);

  CsvOnDisk(std::unique_ptr<CsvReader> reader, CsvIndex index, uint32_t crc,
            std::unique_ptr<File> file);
  int64_t size() const override { return index_.rows(); }
  bool XRange(double* /*least*/, double* /*largest*/) const override {
    return false;
  }
  // The digest of the rows as the pass encoded them. Encoding and ClassNames
  // give their present encoding.
  std::optional<uint64_t> Digest() const override { return crc_; }
  Status Read(const int64_t* index, int count, void* x, void* y) override;

 private:
  Status Load(size_t block);
  Status ReadRows(size_t block);

  std::mutex mutex_;
  const std::unique_ptr<CsvReader> reader_;
  FileVersion version_;
  uint32_t sample_ = 0;  // see ChecksumParts
  const CsvIndex index_;
  const uint32_t crc_;
  const std::unique_ptr<File> file_;
  size_t loaded_ = SIZE_MAX;  // the block of the rows in memory
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_CSV_ON_DISK_H_
