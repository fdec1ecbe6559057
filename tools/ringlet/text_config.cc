#include "text_config.h"

#include <utility>

#include "io/keras/name_table.h"
#include "run_config.h"
#include "timeseries_config.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;

using Standardize = TextVectorization::Standardize;
constexpr Named<Standardize> kStandardize[] = {
    {"lower_and_strip_punctuation", Standardize::kLowerAndStripPunctuation},
    {"lower", Standardize::kLower},
    {"strip_punctuation", Standardize::kStripPunctuation},
    {"none", Standardize::kNone}};

using Split = TextVectorization::Split;
constexpr Named<Split> kSplit[] = {{"whitespace", Split::kWhitespace},
                                   {"character", Split::kCharacter}};

}  // namespace

void ReadText(const std::string& folder, FieldReader* fields,
              TextConfig* config) {
  TextVectorization* const v = &config->vectorization;
  const std::string takes = "a column's name, or its number from " +
                            AsJson(-kMaxColumn) + " to " + AsJson(kMaxColumn);
  const Json column = fields->Take("text", takes);
  if (fields->Has("text") &&
      (!ReadColumn(column, &config->column) || config->column.empty())) {
    fields->MustBe("text", takes);
  }
  if (fields->Has("vocabulary")) {
    fields->Text("vocabulary", "the path of a file", &config->vocabulary);
  }
  if (!config->vocabulary.empty()) {
    config->vocabulary = PathIn(folder, config->vocabulary);
  }
  if (fields->Has("max_tokens")) {
    fields->Int("max_tokens", 3, kMaxTokens, &v->max_tokens);
  }
  fields->Choice("standardize", kStandardize, &v->standardize);
  fields->Choice("split", kSplit, &v->split);
  if (fields->Has("output_sequence_length")) {
    fields->Int("output_sequence_length", 1, kMaxTokens,
                &v->output_sequence_length);
  }
  const bool has_length = v->output_sequence_length > 0;
  if (fields->ok() && !config->empty() && !has_length) {
    fields->Refuse("text",
                   "needs \"output_sequence_length\", the numbers of an "
                   "example");
  }
  const TextVectorization standard;
  const std::pair<const char*, bool> given[] = {
      {"vocabulary", !config->vocabulary.empty()},
      {"max_tokens", v->max_tokens > 0},
      {"standardize", v->standardize != standard.standardize},
      {"split", v->split != standard.split},
      {"output_sequence_length", has_length}};
  for (const auto& [key, is_given] : given) {
    if (!is_given || !config->empty()) continue;
    fields->Refuse(key, "needs \"text\", the column");
  }
}

Dataset OpenText(const std::string& csv, const CsvOptions& table,
                 const TextConfig& config) {
  TextVectorization vectorization = config.vectorization;
  CsvOptions options = table;
  // A file of one column has no label.
  if (options.for_prediction) options.has_label = false;
  const bool learns = config.vocabulary.empty();
  const std::string& training =
      config.training_csv.empty() ? csv : config.training_csv;
  const Status status =
      learns ? LearnVocabulary(training, config.column, config.training_table,
                               &vectorization)
             : ReadVocabulary(config.vocabulary, &vectorization);
  if (!status.ok()) return Dataset(status.Annotate("text"));
  return TextDataset(csv, config.column, vectorization, options);
}

}  // namespace ringlet
