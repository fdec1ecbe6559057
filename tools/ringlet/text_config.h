// TextConfig: the fields of a RUN.json's data for a column of text.

#ifndef RINGLET_TOOLS_RINGLET_TEXT_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_TEXT_CONFIG_H_

#include <string>

#include "io/keras/field_reader.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {

struct TextConfig {
  std::string column;      // "": there is no text
  std::string vocabulary;  // a file; "": it is learned
  TextVectorization vectorization;
  // The training data, from which it is learned.
  std::string training_csv;
  CsvOptions training_table;

  bool empty() const { return column.empty(); }
};

// Reads the fields. A vocabulary is a file in `folder`.
void ReadText(const std::string& folder, FieldReader* fields,
              TextConfig* config);

// The examples of the table: texts, and labels if `table` has them.
Dataset OpenText(const std::string& csv, const CsvOptions& table,
                 const TextConfig& config);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_TEXT_CONFIG_H_
