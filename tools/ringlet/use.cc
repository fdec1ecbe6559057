// Flags and data of the commands that use a trained model. Where labels are not
// wanted the examples are read without: from IDX and NPY by a source of the
// array alone, from CSV by the number of columns that the model takes.

#include "use.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "core/base/message.h"
#include "core/base/text.h"
#include "io/data/readers.h"

namespace ringlet {
namespace {

Dataset OpenUnlabelled(const DataConfig& data, const Model& model) {
  if (data.has_parts()) {
    return OpenParts(data, model, /*targets=*/false).Map(data.scale);
  }
  if (!data.images.empty() && !data.in_memory) return OpenData(data, model);
  if (!data.images.empty()) return IdxDataset(data.images).Map(data.scale);
  if (!data.x.empty()) return NpyDataset(data.x).Map(data.scale);
  // One column more than the model takes is the label's, which is left out.
  DataConfig csv = data;
  csv.csv_values = model.input_shape().elements();
  return OpenData(csv, model);
}

// Names of labels are counted in their own file: with some classes missing they
// would be others than the model was trained on.
Status CheckClassNames(const Model& model, const Dataset& data) {
  const size_t names = data.source()->ClassNames().size();
  const int64_t outputs = model.output_shape().elements();
  const size_t classes = static_cast<size_t>(outputs == 1 ? 2 : outputs);
  if (names == 0 || names == classes) return Status();
  return InvalidArgument(
      "%s: its labels have %zu different names, but the model tells %zu "
      "classes "
      "apart, so which is which is not known; give class numbers",
      data.source()->y_name().c_str(), names, classes);
}

bool IsRun(const std::string& path) { return EndsWith(path, ".json"); }

}  // namespace

void UseFlags::Add(CommandLine* flags, bool labels) {
  labels_ = labels;
  init_.Add(flags,
            "where MODEL is a RUN.json: the weights to use,\n"
            "safetensors, npz or ONNX");
  flags->Text("--data", "RUN.json", &run_,
              "take the data of this file's \"data\"");
  flags->Text("--part", "NAME", &part_,
              "of it: validation (without this flag) or train");
  flags->Text("--images", "FILE", &data_.images, "IDX, plain or .gz");
  if (labels) {
    flags->Text("--labels", "FILE", &data_.labels, "of the images: IDX");
  }
  flags->Text("--x", "FILE", &data_.x, "NPY, plain or .gz");
  if (labels) flags->Text("--y", "FILE", &data_.y, "of --x: NPY");
  flags->Text("--csv", "FILE", &data_.csv, "a row an example");
  flags->Switch("--header", &header_, "its first line holds names");
  flags->Switch("--no-header", &no_header_,
                "it does not (without either: told from the line)");
  flags->Text("--label", "COLUMN", &label_,
              labels ? "of the CSV that is the label: a name, or a number\n"
                       "from 0 (the last column)"
                     : "of the CSV that is the label, where it has one: a\n"
                       "name, or a number from 0 (the last column)");
  flags->Number("--scale", "FACTOR", -1e30, 1e30, &scale_,
                "of the data (1): 0.00392156862745098 for images");
  flags->Number("--offset", "NUMBER", -1e30, 1e30, &offset_,
                "added after that (0)");
  flags->Int("--batch-size", 1, int64_t{1} << 24, &batch_size_,
             "examples at a time (32)");
  flags->Int("--threads", 1, 1024, &threads_, "that compute (1)");
}

Status UseFlags::Data(const std::string& model_path, DataConfig* data) const {
  *data = data_;
  if (header_ || no_header_) {
    if (data->csv.empty() || header_ == no_header_) {
      return InvalidArgument(
          "--header and --no-header are of a --csv, and one at a time");
    }
    data->header = header_;
  }
  if (!data->empty()) {
    if (!run_.empty()) {
      return InvalidArgument("--data and data files do not go together");
    }
    if (!data->images.empty() + !data->x.empty() + !data->csv.empty() != 1) {
      return InvalidArgument("give one of --images, --x and --csv");
    }
    if (labels_ && !data->images.empty() && data->labels.empty()) {
      return InvalidArgument("--images needs --labels");
    }
    if (labels_ && !data->x.empty() && data->y.empty()) {
      return InvalidArgument("--x needs --y");
    }
    data->scale =
        Scale(static_cast<float>(scale_), static_cast<float>(offset_));
    data->label_name = label_;
    if (!label_.empty() &&
        label_.find_first_not_of("-0123456789") == std::string::npos) {
      data->label_name.clear();
      data->label_column = std::strtol(label_.c_str(), nullptr, 10);
    }
    return Status();
  }
  const std::string run = run_.empty() && IsRun(model_path) ? model_path : run_;
  if (run.empty()) {
    return InvalidArgument(
        "no data: give --data RUN.json, --images, --x or --csv");
  }
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(run, &config));
  if (part_ != "validation" && part_ != "train") {
    return InvalidArgument("--part %s: is neither validation nor train",
                           part_.c_str());
  }
  *data = part_ == "train" ? config.train : config.validation;
  if (!data->empty()) return Status();
  return InvalidArgument("%s: data.%s: is missing", run.c_str(), part_.c_str());
}

Status UseFlags::Open(const std::string& model_path, const std::string& out,
                      std::unique_ptr<Model>* model, Dataset* batches) const {
  NoteThatAlone();
  DataConfig data;
  RINGLET_RETURN_IF_ERROR(Data(model_path, &data));
  RINGLET_RETURN_IF_ERROR(CheckNotData("--out", out, data));
  RunConfig config;
  config.fit.threads = threads_;
  if (IsRun(model_path)) {
    if (init_.path.empty()) {
      return InvalidArgument(
          "%s: is a RUN.json, whose model is not trained; give --init WEIGHTS",
          model_path.c_str());
    }
    RINGLET_RETURN_IF_ERROR(ReadRunConfig(model_path, &config));
    config.fit.threads = threads_;
  } else {
    config.saved_model = model_path;
  }
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, init_, nullptr));
  *model = std::move(config.model);
  *batches = (labels_ ? OpenData(data, **model) : OpenUnlabelled(data, **model))
                 .Batch(batch_size_);
  RINGLET_RETURN_IF_ERROR(batches->status());
  return labels_ ? CheckClassNames(**model, *batches) : Status();
}

}  // namespace ringlet
