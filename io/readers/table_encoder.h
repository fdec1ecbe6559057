// TableEncoder: turns the fields of a table into numbers.
//
// Each column of values has one cell in a row: a number, or the index of a
// category. TableSource makes the values of an example of them. Without an
// encoding of the training data, categories and means are learned from the
// rows.

#ifndef RINGLET_IO_READERS_TABLE_ENCODER_H_
#define RINGLET_IO_READERS_TABLE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "csv_columns.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

// True for a text that pandas.read_csv reads as missing.
bool IsMissing(std::string_view field);

// A column is one of the file. A place is its index among the values of an
// example.
class TableEncoder {
 public:
  // `path`, `options` and `columns` outlive it.
  TableEncoder(const std::string& path, const CsvOptions& options,
               const CsvColumns& columns)
      : path_(path), options_(options), columns_(columns) {}

  // Call it when the columns have their places.
  Status Begin();
  // The cell of a field; NaN if Renumber fills it. *kept = false: the row is to
  // be left out.
  Status Encode(size_t column, std::string_view field, int64_t line,
                float* cell, bool* kept);
  // *kept = false: the row is to be left out, because its label is missing.
  Status CheckLabel(std::string_view label, int64_t line, bool* kept) const;
  // Learns from the next row that is kept.
  void Learn(const float* cells);
  // Call it after the last row. From then on Encode gives sorted indices of
  // categories, and means.
  Status Finish();
  // Gives the cells of all rows that were encoded before Finish those of after.
  void Renumber(float* cells, int64_t rows) const;

  const TableEncoding& encoding() const { return encoding_; }

 private:
  enum class OnMissing : uint8_t { kError, kDrop, kFill, kMean, kCategory };
  struct Rule {
    OnMissing missing = OnMissing::kError;
    float fill = 0;
    bool is_text = false;
    bool learns = false;  // a new category for an unknown text
    // The number of each category; learned ones in the order of the rows until
    // Finish.
    std::map<std::string, int32_t, std::less<>> numbers;
    // By learned number: 0 if a row has it, then its sorted index; -1: none.
    std::vector<int32_t> sorted;
    double sum = 0;  // of the known values of a mean
    int64_t known = 0;
  };

  Status BeginLearning();
  Status BeginKnown();
  Status FindRules(std::map<size_t, CsvOptions::MissingRule>* rules) const;
  bool IsGivenMissing(std::string_view field) const;
  Status EncodeText(size_t column, std::string_view field, int64_t line,
                    float* cell, bool* kept);
  Status EncodeNumber(size_t column, std::string_view field, int64_t line,
                      float* cell, bool* kept);
  Status EncodeMissing(const Rule& rule, size_t column, std::string_view field,
                       int64_t line, float* cell, bool* kept) const;
  Status ErrorAt(size_t column, int64_t line, std::string_view field,
                 const std::string& what) const;
  Status SortCategories(size_t place);
  Status FillMean(size_t place);
  Status CheckSize() const;
  std::string NameOf(size_t place) const;

  const std::string& path_;
  const CsvOptions& options_;
  const CsvColumns& columns_;
  TableEncoding encoding_;
  std::set<std::string, std::less<>> na_values_;  // with those of the options
  std::set<std::string, std::less<>> given_;      // of the options
  std::set<float> na_numbers_;                    // of these, the numbers
  std::vector<Rule> rules_;                       // by place
  std::vector<size_t> learning_;  // places of categories and means
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLE_ENCODER_H_
