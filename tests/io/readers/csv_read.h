// Tables that are read from texts, for the tests of CSV files.

#ifndef RINGLET_TESTS_IO_READERS_CSV_READ_H_
#define RINGLET_TESTS_IO_READERS_CSV_READ_H_

#include "ringlet/readers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "io/readers/tables/csv_records.h"
#include "ringlet/dataset.h"

namespace ringlet {

struct CsvTable {
  std::vector<float> x, y;
  bool operator==(const CsvTable& o) const { return x == o.x && y == o.y; }
};

inline CsvTable ReadFileTable(const std::string& path,
                              const CsvOptions& options) {
  CsvTable table;
  const Dataset d = CsvDataset(path, options);
  const Status status = d.Batch(1).status();
  EXPECT_OK(status);
  if (status.ok()) ReadAll(d.source().get(), &table.x, &table.y);
  return table;
}

inline CsvTable Read(const std::string& text, const CsvOptions& options = {}) {
  const DataFiles files;
  return ReadFileTable(files.Write("a.csv", text), options);
}

inline void ExpectRefused(const std::string& text, const CsvOptions& options,
                          Code code, const std::string& where) {
  SCOPED_TRACE(text.substr(0, 80));
  const DataFiles files;
  const std::string path = files.Write("a.csv", text);
  ExpectError(CsvDataset(path, options).status(), code, path, where);
  const std::string packed = files.Write("a.csv.gz", Gzip(text));
  ExpectError(CsvDataset(packed, options).status(), code, packed, where);
}

// The text that reading `text` prints on stderr, behind the path.
inline std::string NoteOf(const std::string& text, const CsvOptions& options,
                          CsvTable* table,
                          std::vector<std::string>* names = nullptr) {
  const DataFiles files;
  const std::string path = files.Write("a.csv", text);
  testing::internal::CaptureStderr();
  const Dataset d = CsvDataset(path, options);
  const std::string printed = testing::internal::GetCapturedStderr();
  const Status status = d.Batch(1).status();
  EXPECT_OK(status);
  *table = CsvTable();
  if (!status.ok()) return printed;
  if (names != nullptr) *names = d.source()->Description().classes;
  if (d.source()->y().dtype == DType::kInt32) {
    std::vector<int32_t> classes;
    ReadAll(d.source().get(), &table->x, &classes);
    table->y.assign(classes.begin(), classes.end());
  } else {
    ReadAll(d.source().get(), &table->x, &table->y);
  }
  const size_t at = printed.find("a.csv: ");
  return at == std::string::npos ? printed : printed.substr(at + 7);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_READERS_CSV_READ_H_
