#include "data_match.h"

#include <string>
#include <utility>
#include <vector>

#include "../config/timeseries_targets.h"
#include "core/base/number_text.h"
#include "io/checkpoint/data_description.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

std::string TextOf(const Scale& scale) {
  return "x * " + ShortestText(scale.factor) + " + " +
         ShortestText(scale.offset);
}

void PrintIfNotSaved(const std::string& file, const char* contents,
                     const std::vector<std::string>& names) {
  if (CanBeSaved(names)) return;
  Notice(
      "note: %s: the model does not keep the names of the %s, which are not "
      "UTF-8 or take more than 128 KiB",
      file.c_str(), contents);
}

}  // namespace

bool SameScale(const Scale& a, const Scale& b) {
  return a.factor == b.factor && a.offset == b.offset;
}

// The scale of a part comes before the scale of the data.
std::optional<Scale> GivenScale(const DataConfig& data) {
  if (data.inputs.size() != 1 || !data.inputs[0].scale) return data.scale;
  const Scale part = *data.inputs[0].scale;
  const Scale all = data.scale.value_or(Scale());
  return Scale(part.factor * all.factor, part.offset * all.factor + all.offset);
}

void MatchData(const DataDescription& trained_on, DataConfig* data) {
  if (data->inputs.size() > 1) return;
  data->table.training_columns = trained_on.columns;
  data->table.classes = trained_on.classes;
  if (!trained_on.encoding.empty()) {
    data->table.encoding = trained_on.encoding;
  }
  const bool columns = !data->table.take.empty() || !data->table.drop.empty() ||
                       !data->table.categorical.empty();
  if (!data->csv.empty() && !columns && data->windows.empty()) {
    MatchText(trained_on, &data->text);
  }
  if (data->text.empty()) {
    MatchWindows(trained_on, !data->csv.empty(), &data->windows);
    if (data->windows.trained_on_columns()) data->table.has_label = false;
  }
  if (!data->pictures.empty()) MatchPictures(trained_on, &data->pictures);
  const std::optional<Scale> scale = GivenScale(*data);
  if (!scale) {
    data->scale = trained_on.scale;
  } else if (!SameScale(*scale, trained_on.scale)) {
    Notice(
        "warning: the data become %s, but the model was trained on %s; without "
        "\"scale\" and \"offset\" in RUN.json they are as in training",
        TextOf(*scale).c_str(), TextOf(trained_on.scale).c_str());
  }
}

std::optional<DataDescription> DescribeData(const DataConfig& data,
                                            const Source& source,
                                            const DataDescription* before) {
  if (data.inputs.size() > 1) return std::nullopt;
  DataDescription description = source.Description();
  description.scale = GivenScale(data).value_or(Scale());
  const std::string& group = data.windows.group;
  description.group = data.csv.empty() ? group.substr(group.rfind('/') + 1)
                                       : GroupColumn(data.windows, source);
  if (description.text &&
      !CanBeSaved(description.text->vocabulary, kMaxVocabularyBytes)) {
    Notice(
        "note: %s: the model does not keep the vocabulary, which is not UTF-8 "
        "or takes more than %zu KiB, but a digest of it; evaluate and predict "
        "need --data RUN.json",
        source.name().c_str(), kMaxVocabularyBytes >> 10);
  }
  PrintIfNotSaved(source.name(), "columns", ValueNames(description.columns));
  PrintIfNotSaved(source.name(), "classes", description.classes);
  if (before == nullptr) return description;
  if (description.columns.empty()) {
    description.columns = before->columns;
    if (description.encoding.empty()) description.encoding = before->encoding;
    description.text = before->text;
    description.vocabulary_digest = before->vocabulary_digest;
  }
  if (description.classes.empty()) description.classes = before->classes;
  if (!description.windows) {
    description.windows = before->windows;
    description.group = before->group;
  }
  if (!description.resizing) description.resizing = before->resizing;
  if (description.sampling_rate == 0) {
    description.sampling_rate = before->sampling_rate;
  }
  return description;
}

}  // namespace ringlet
