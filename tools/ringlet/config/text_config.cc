// The vocabulary has three sources: the trained model, a file, or the training
// data. With a trained model the other sources must agree with it, token by
// token or by its digest. Only the column may differ, since another file may
// have the text elsewhere.

#include "text_config.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "column_fields.h"
#include "core/base/text.h"
#include "io/checkpoint/data_description.h"
#include "io/files/path.h"
#include "io/keras/text_names.h"
#include "run_config.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;

bool IsNumber(const std::string& column) {
  return column.find_first_not_of("-0123456789") == std::string::npos;
}

Status IsNot(const char* key, const std::string& value,
             const std::string& trained) {
  return InvalidArgument(
      "%s: is %s, but the model was trained with %s; give that, or leave "
      "\"text\" and the fields of it out",
      key, value.c_str(), trained.c_str());
}

// Checks that the fields of RUN.json equal the fields of the model's training.
// Only the column may differ, as in validation.
Status CheckTextAsTrained(const TextConfig& config) {
  const TextVectorization& vectorization = config.vectorization;
  const TextVectorization& trained = *config.trained;
  const auto size = static_cast<int64_t>(trained.vocabulary.size()) + 2;
  if (vectorization.standardize != trained.standardize) {
    return IsNot("standardize",
                 AsJson(FirstName(kStandardize, vectorization.standardize)),
                 AsJson(FirstName(kStandardize, trained.standardize)));
  }
  if (vectorization.split != trained.split) {
    return IsNot("split", AsJson(FirstName(kSplit, vectorization.split)),
                 AsJson(FirstName(kSplit, trained.split)));
  }
  if (vectorization.output_sequence_length != trained.output_sequence_length) {
    return IsNot("output_sequence_length",
                 AsJson(vectorization.output_sequence_length),
                 AsJson(trained.output_sequence_length));
  }
  if (vectorization.max_tokens == 0 || size <= vectorization.max_tokens)
    return Status();
  return IsNot("max_tokens", AsJson(vectorization.max_tokens),
               AsJson(size) + " tokens");
}

// `vocabulary` is RUN.json's.
Status CheckVocabulary(const TextConfig& config,
                       const std::vector<std::string>& vocabulary) {
  const std::vector<std::string>& trained = config.trained->vocabulary;
  const bool is_same =
      trained.empty() ? VocabularyDigest(vocabulary) == config.vocabulary_digest
                      : vocabulary == trained;
  if (is_same) return Status();
  const std::string from =
      config.vocabulary.empty() ? config.training.csv : config.vocabulary;
  if (trained.empty()) {
    return InvalidArgument(
        "vocabulary: %s has another (%zu tokens with padding and [UNK]) than "
        "the model, which keeps only a digest of its own; give that of the "
        "training",
        from.c_str(), vocabulary.size() + 2);
  }
  const auto ends = std::mismatch(
      vocabulary.begin(),
      vocabulary.begin() + std::min(vocabulary.size(), trained.size()),
      trained.begin());
  const auto name = [](const std::vector<std::string>& tokens, auto token) {
    return token == tokens.end() ? "its end" : "'" + Printable(*token) + "'";
  };
  return InvalidArgument(
      "vocabulary: %s is not the model's: token %td is %s, and there %s; leave "
      "\"vocabulary\" out for the model's own",
      from.c_str(), ends.first - vocabulary.begin() + 1,
      name(vocabulary, ends.first).c_str(), name(trained, ends.second).c_str());
}

}  // namespace

void ReadText(const std::string& folder, bool of_sound, FieldReader* fields,
              TextConfig* config) {
  TextVectorization* const v = &config->vectorization;
  ReadColumnField("text", ColumnTakes(), fields, &config->column);
  if (fields->MarkOptional("vocabulary")) {
    ReadPath("vocabulary", folder, fields, &config->vocabulary);
  }
  fields->IntOrNull("max_tokens", 3, kMaxTokens, &v->max_tokens);
  fields->Choice("standardize", kStandardize, &v->standardize);
  fields->Choice("split", kSplit, &v->split);
  fields->IntOrNull("output_sequence_length", 1, kMaxTokens,
                    &v->output_sequence_length);
  const TextVectorization standard;
  const std::pair<const char*, bool> given[] = {
      {"vocabulary", !config->vocabulary.empty()},
      {"max_tokens", v->max_tokens > 0},
      {"standardize", v->standardize != standard.standardize},
      {"split", v->split != standard.split},
      {"output_sequence_length", v->output_sequence_length > 0 && !of_sound}};
  for (const auto& [key, is_given] : given) {
    if (!is_given || !config->empty()) continue;
    fields->Refuse(key, "needs \"text\", the column");
  }
}

void MatchText(const DataDescription& trained_on, TextConfig* config) {
  if (!trained_on.text) return;
  const std::vector<TableColumn>& columns = trained_on.columns;
  const auto found =
      std::find_if(columns.begin(), columns.end(),
                   [](const TableColumn& column) { return column.value == 0; });
  if (found == columns.end()) return;
  config->trained = trained_on.text;
  config->trained_column = found->name.empty()
                               ? std::to_string(found - columns.begin())
                               : found->name;
  config->vocabulary_digest = trained_on.vocabulary_digest;
  if (!config->empty()) return;
  config->column = config->trained_column;
  config->vectorization = *trained_on.text;
}

Status OpenVocabulary(const std::string& csv, const TextConfig& config,
                      TextVectorization* vectorization) {
  *vectorization = config.vectorization;
  const std::vector<std::string> none;
  const std::vector<std::string>& trained =
      config.trained ? config.trained->vocabulary : none;
  if (config.trained) RINGLET_RETURN_IF_ERROR(CheckTextAsTrained(config));
  if (config.vocabulary.empty() && !trained.empty()) {
    vectorization->vocabulary = trained;
    return Status();
  }
  if (config.vocabulary.empty() && config.trained &&
      config.training.csv.empty()) {
    return InvalidArgument(
        "vocabulary: the model keeps only a digest of it; give --data RUN.json "
        "with the vocabulary of the training");
  }
  if (config.vocabulary.empty() && !config.trained &&
      csv == config.training.csv && config.column == config.training.column) {
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(
      config.vocabulary.empty()
          ? LearnVocabulary(config.training.csv, config.training.column,
                            config.training.table, vectorization)
          : ReadVocabulary(config.vocabulary, vectorization));
  return config.trained ? CheckVocabulary(config, vectorization->vocabulary)
                        : Status();
}

Dataset OpenText(const std::string& csv, const CsvOptions& table,
                 const TextConfig& config) {
  TextVectorization vectorization;
  const Status status = OpenVocabulary(csv, config, &vectorization);
  if (!status.ok()) return Dataset(status.Annotate("text"));
  CsvOptions options = table;
  // For a number the model's columns decide: in a different file the same
  // column may have a different number.
  const bool as_trained =
      config.column == config.trained_column || IsNumber(config.column);
  if (!config.trained || !as_trained) options.training_columns.clear();
  return TextDataset(csv, config.column, vectorization, options);
}

}  // namespace ringlet
