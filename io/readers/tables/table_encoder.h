// TableEncoder: turns the fields of a table into numbers.
//
// Each column of values has one cell in a row: a number, or the index of a
// category. TableSource makes the values of an example from the cells of its
// row. If the options have no encoding of the training data, the encoder learns
// categories and means from the rows.

#ifndef RINGLET_IO_READERS_TABLES_TABLE_ENCODER_H_
#define RINGLET_IO_READERS_TABLES_TABLE_ENCODER_H_

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

// `column` is the index of a column in the file, and `place` its index among
// the columns of values.
class TableEncoder {
 public:
  // `path`, `options` and `columns` must outlive this object.
  TableEncoder(const std::string& path, const CsvOptions& options,
               const CsvColumns& columns)
      : path_(path), options_(options), columns_(columns) {}

  // Call it when the columns have their places.
  Status Begin();
  // Makes the cell of a field. A missing value that becomes the column's mean
  // is NaN until Renumber. *kept is false if the row must be left out. Call
  // CheckCategories for a row that is kept.
  Status Encode(size_t column, std::string_view field, int64_t line,
                float* cell, bool* kept);
  // Returns an error if a field of a row that is kept has no category.
  Status CheckCategories(const std::vector<std::string_view>& fields,
                         int64_t line, const float* cells) const;
  // *kept is false if the row must be left out for its missing label.
  Status CheckLabel(std::string_view label, int64_t line, bool* kept) const;
  // Learns from the cells of a row that is not left out.
  void Learn(const float* cells);
  // Call it after the last row. It sorts the categories, so Encode returns
  // other indices from then on. Missing values become means.
  Status Finish();
  // Changes cells that were encoded before Finish to what Encode returns now.
  void Renumber(float* cells, int64_t rows) const;

  const TableEncoding& encoding() const { return encoding_; }

 private:
  enum class OnMissing : uint8_t { kError, kDrop, kFill, kMean, kCategory };
  struct Rule {
    OnMissing missing = OnMissing::kError;
    float fill = 0;
    bool is_text = false;
    bool learns = false;  // a new category for an unknown text
    // The number of each category. Until Finish learned categories have numbers
    // in the order of their first rows.
    std::map<std::string, int32_t, std::less<>> numbers;
    // For each number before Finish: 0 if a row has this category. Finish sets
    // the index among the sorted categories. -1 if no row has the category.
    std::vector<int32_t> sorted;
    // For a mean, the sum and the count of the values that are not missing.
    double sum = 0;
    int64_t known = 0;
  };

  Status BeginLearning();
  Status BeginKnown();
  // Sets the rule of a value's column for missing values.
  void SetMissing(int64_t place, const CsvOptions::MissingRule& missing);
  Status FindRules(std::map<size_t, CsvOptions::MissingRule>* rules) const;
  bool IsGivenMissing(std::string_view field) const;
  Status EncodeText(size_t column, std::string_view field, int64_t line,
                    float* cell, bool* kept);
  Status EncodeNumber(size_t column, std::string_view field, int64_t line,
                      float* cell, bool* kept);
  Status EncodeMissing(const Rule& rule, size_t column, std::string_view field,
                       int64_t line, float* cell, bool* kept) const;
  Status ErrorAt(size_t column, int64_t line, std::string_view field,
                 const std::string& rule) const;
  Status SortCategories(size_t place);
  Status FillMean(size_t place);
  Status CheckSize() const;
  std::string DescribeColumn(size_t place) const;

  const std::string& path_;
  const CsvOptions& options_;
  const CsvColumns& columns_;
  TableEncoding encoding_;
  // na_values_: all texts that mean a missing value. given_: the texts that the
  // options name. na_numbers_: the numbers among given_.
  std::set<std::string, std::less<>> na_values_, given_;
  std::set<float> na_numbers_;
  std::vector<Rule> rules_;       // the rule of each place
  std::vector<size_t> learning_;  // places of categories and means
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_TABLE_ENCODER_H_
