// TextConfig: the fields of a RUN.json's data for a column of text.

#ifndef RINGLET_TOOLS_RINGLET_CONFIG_TEXT_CONFIG_H_
#define RINGLET_TOOLS_RINGLET_CONFIG_TEXT_CONFIG_H_

#include <optional>
#include <string>

#include "io/keras/field_reader.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"

namespace ringlet {

struct TextConfig {
  std::string column;      // "" if there is no text
  std::string vocabulary;  // a file, "" if it is learned
  TextVectorization vectorization;
  // The training data, from which the vocabulary is learned.
  struct Training {
    std::string csv, column;
    CsvOptions table;
  };
  Training training;
  // The vectorization of the model, if it was trained on a text.
  std::optional<TextVectorization> trained;
  std::string trained_column;     // its name, or its number
  std::string vocabulary_digest;  // used if `trained` has no vocabulary

  bool empty() const { return column.empty(); }
};

// Reads the fields. A vocabulary is a file in `folder`. With `of_sound` the CSV
// has paths of sound, which has an output_sequence_length too.
void ReadText(const std::string& folder, bool of_sound, FieldReader* fields,
              TextConfig* config);

// Fits `config` to a model that was trained on text. Without "text" in
// `config`, `config` gets the model's column and settings. OpenText refuses
// settings that differ.
void MatchText(const DataDescription& trained_on, TextConfig* config);

// Makes the vectorization with the vocabulary of the model or of `config`; an
// error if they differ. Without both it is learned from config.training.csv; if
// that is `csv` too, it stays empty, and TextDataset learns it.
Status OpenVocabulary(const std::string& csv, const TextConfig& config,
                      TextVectorization* vectorization);

// Opens the examples of the table: texts, and labels if `table` has them.
Dataset OpenText(const std::string& csv, const CsvOptions& table,
                 const TextConfig& config);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_CONFIG_TEXT_CONFIG_H_
