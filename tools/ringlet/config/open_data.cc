// The order in OpenData is part of its results: weights belong to rows, windows
// are made of weighted rows, and "memory", scale and shards are of the windows.

#include "open_data.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "io/keras/keras_json.h"
#include "io/readers/arrays/array_path.h"
#include "io/sound/wav.h"
#include "timeseries_windows.h"

namespace ringlet {
namespace {

ArrayOptions ArrayOptionsOf(const DataConfig& data) {
  ArrayOptions options;
  options.in_memory = data.in_memory;
  return options;
}

// The columns and their encoding are from `table`.
Dataset OpenPart(const DataPart& part, const ArrayOptions& arrays,
                 const CsvOptions& table) {
  const std::string& path = part.path;
  if (EndsWith(path, ".csv") || EndsWith(path, ".csv.gz")) {
    CsvOptions options;
    options.has_label = false;
    options.training_columns = table.training_columns;
    options.encoding = table.encoding;
    options.in_memory = arrays.in_memory;
    return CsvDataset(path, options).Map(part.scale.value_or(Scale()));
  }
  if (HasSoundName(path)) {
    return WavDataset(path).Map(part.scale.value_or(Scale()));
  }
  const std::string file = SplitArrayPath(path).file;
  const bool npy = file != path || EndsWith(file, ".npy") ||
                   EndsWith(file, ".npy.gz") || EndsWith(file, ".npz");
  return (npy ? NpyDataset(path, arrays) : IdxDataset(path, arrays))
      .Map(part.scale.value_or(Scale()));
}

// Opens the parts of `names`, in their order.
Status OpenNamed(const char* key, const std::string& single,
                 const std::vector<DataPart>& parts,
                 const std::vector<std::string>& names,
                 const ArrayOptions& arrays, const CsvOptions& table,
                 std::vector<Dataset>* datasets) {
  if (parts.empty()) {
    DataPart only;
    only.path = single;
    datasets->push_back(OpenPart(only, arrays, table));
    return Status();
  }
  if (parts[0].name.empty()) {
    for (const DataPart& part : parts)
      datasets->push_back(OpenPart(part, arrays, table));
    return Status();
  }
  for (const DataPart& part : parts) {
    if (std::count(names.begin(), names.end(), part.name) == 0) {
      return UnknownName(key, "layer", part.name, names);
    }
  }
  for (const std::string& name : names) {
    const auto found =
        std::find_if(parts.begin(), parts.end(),
                     [&](const DataPart& part) { return part.name == name; });
    if (found == parts.end()) {
      return InvalidArgument("%s.%s: is missing", key, name.c_str());
    }
    datasets->push_back(OpenPart(*found, arrays, table));
  }
  return Status();
}

Dataset OpenParts(const DataConfig& data, const Model& model, bool targets) {
  std::vector<std::string> inputs, outputs;
  for (int i = 0; i < model.num_inputs(); ++i) {
    inputs.push_back(model.layer(i).name);
  }
  for (const OutputLoss& output : model.losses()) {
    if (output.trains) outputs.push_back(output.output);
  }
  std::vector<Dataset> x, y;
  const ArrayOptions arrays = ArrayOptionsOf(data);
  // The names of columns and the encoding belong to a single input.
  Status opened =
      OpenNamed("x", data.x, data.inputs, inputs, arrays,
                data.inputs.size() > 1 ? CsvOptions() : data.table, &x);
  if (opened.ok() && targets) {
    opened =
        OpenNamed("y", data.y, data.targets, outputs, arrays, CsvOptions(), &y);
  }
  return opened.ok() ? Zip(x, y) : Dataset(opened);
}

// Returns the examples of the files, without sample weights: rows, if there are
// windows.
Dataset OpenRows(const DataConfig& data, const Model& model, bool targets) {
  const ArrayOptions arrays = ArrayOptionsOf(data);
  if (data.has_parts()) return OpenParts(data, model, targets);
  if (!data.pictures.empty()) {
    return OpenPictures(data.pictures, data.csv, data.table, model, targets);
  }
  if (!data.text.empty()) return OpenText(data.csv, data.table, data.text);
  if (!data.csv.empty()) return CsvDataset(data.csv, data.table);
  const bool idx = !data.images.empty();
  const std::string& x = idx ? data.images : data.x;
  const std::string& y = idx ? data.labels : data.y;
  if (x.empty()) return Dataset();
  const bool has_y = targets && !y.empty();
  if (HasSoundName(x) || (has_y && HasSoundName(y))) {
    const Dataset recording = OpenPart({"", x, {}}, arrays, {});
    return has_y ? Zip({recording}, {OpenPart({"", y, {}}, arrays, {})})
                 : recording;
  }
  if (!has_y) {
    return idx ? IdxDataset(x, arrays) : NpyDataset(x, arrays);
  }
  return idx ? IdxDataset(x, y, arrays)
             : NpyDataset(x, y, data.table.classes, arrays);
}

}  // namespace

Dataset OpenData(const DataConfig& data, const Model& model, bool targets) {
  Dataset dataset = OpenRows(data, model, targets);
  if (!data.sample_weight.empty() && targets) {
    std::vector<float> weights;
    int64_t weights_per_example = 1;
    const Status read =
        ReadSampleWeights(data.sample_weight, &weights, &weights_per_example)
            .Annotate("sample_weight");
    dataset = read.ok() ? dataset.SampleWeight(std::move(weights),
                                               weights_per_example)
                        : Dataset(read);
  }
  const Shape input = model.num_inputs() == 1 ? model.input_shape() : Shape{0};
  dataset =
      OpenWindows(dataset, data.windows, data.csv, data.table, input, targets);
  if (dataset.empty()) return dataset;
  if (data.memory > 0) dataset = dataset.Memory(data.memory);
  return dataset.Map(data.scale.value_or(Scale()))
      .AutoShard(data.policy)
      .OwnExamples(data.own_examples);
}

}  // namespace ringlet
