// Flags and data of the commands that use a trained model. If a command needs
// no labels, they are not read: from IDX and NPY only the array of examples is
// opened. In a CSV file one column more than the model takes is the column of
// the label.

#include "model_and_data_flags.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "../config/open_data.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "core/data/dataset_parts.h"
#include "data_match.h"
#include "io/files/path.h"
#include "io/readers/files/picture_list.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// The number of a table's columns that give the model's values.
int64_t NumColumns(const DataConfig& data, const Model& model) {
  int64_t count = model.input_shape().elements();
  if (!data.windows.empty()) count /= data.windows.options.sequence_length;
  if (!data.table.encoding) return count;
  for (const auto& [place, column] : data.table.encoding->columns) {
    count -= column.width() - 1;
  }
  return std::max<int64_t>(count, 1);
}

// One column more than the model takes is the label's column, which is left
// out.
CsvOptions ForPrediction(const DataConfig& data, const Model& model) {
  CsvOptions table = data.table;
  // For a column of text the values are not columns; RUN.json names that
  // column.
  const bool one_column = !data.text.empty() || !data.pictures.column.empty();
  if (!one_column) table.values = NumColumns(data, model);
  // A file may have the text alone.
  if (one_column) table.has_label = false;
  table.for_prediction = true;
  return table;
}

Dataset OpenUnlabelled(const DataConfig& data, const Model& model) {
  DataConfig unlabelled = data;
  if (!data.csv.empty()) unlabelled.table = ForPrediction(data, model);
  return OpenData(unlabelled, model, /*targets=*/false);
}

// Without the classes of the training data, names of labels are numbered in
// their own file. If some classes are missing there, the numbers differ.
Status CheckClassNames(const Model& model, const Dataset& data) {
  const DataDescription* const known = model.data_description();
  if (known != nullptr && !known->classes.empty()) return Status();
  const size_t names = data.source()->Description().classes.size();
  const int64_t outputs = model.output_shape().elements();
  const size_t classes = static_cast<size_t>(outputs == 1 ? 2 : outputs);
  if (names == 0 || names == classes) return Status();
  return InvalidArgument(
      "%s: its labels have %zu different names, but the model has %zu classes, "
      "so the names cannot be matched; give class numbers",
      data.source()->y_name().c_str(), names, classes);
}

// The flags cannot describe windows of rows. A model may take windows although
// its file describes none.
Status CheckNotWindows(const Model& model, const Dataset& rows) {
  const Status& opened = rows.status();
  const Shape& input_shape = model.input_shape();
  const bool is_other = opened.ok() ? rows.source()->x().shape.elements() !=
                                          input_shape.elements()
                                    : opened.code() == Code::kInvalidArgument;
  if (input_shape.rank() != 2 || !is_other) return Status();
  const std::string error =
      opened.ok()
          ? "--csv: the model takes examples of shape " + input_shape.ToString()
          : opened.message();
  return InvalidArgument(
      "%s; if these are windows of rows, give --data RUN.json with "
      "sequence_length in \"data\"",
      error.c_str());
}

// A line is an example. It is a window if each of its values is a row.
Status CheckTakesLines(const Model& model, const DataConfig& data) {
  if (!data.windows.trained) return Status();
  const int64_t rows = data.windows.trained->sequence_length;
  const bool is_row = !data.table.training_columns.empty() && rows > 1;
  if (model.input_shape().elements() == rows && !is_row) return Status();
  return InvalidArgument(
      "--csv -: the model takes windows of %lld rows, and lines make no "
      "windows; give the rows as --csv FILE",
      static_cast<long long>(rows));
}

// "\\t" is a tab.
Status ReadCharacter(const char* flag, const std::string& text,
                     const DataConfig& data, char* value) {
  if (text.empty()) return Status();
  if (data.csv.empty()) return InvalidArgument("%s: only with --csv", flag);
  if (text != "\\t" && text.size() != 1) {
    return InvalidArgument("%s %s: must be one character", flag, text.c_str());
  }
  *value = text == "\\t" ? '\t' : text[0];
  return Status();
}

// Reads a column's number or name.
void ReadLabel(const std::string& text, CsvOptions* table) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) {
    table->label_column = number;
  } else {
    table->label_name = text;
  }
}

bool IsRun(const std::string& path) { return EndsWith(path, ".json"); }

}  // namespace

void ModelAndDataFlags::Add(CommandLine* flags, bool labels) {
  labels_ = labels;
  init_.Add(flags,
            "if MODEL is a RUN.json: its weights, in safetensors,\n"
            "npz, ONNX, or a model.json of TensorFlow.js;\n"
            "in a folder: its newest model");
  flags->Text("--data", "RUN.json", &run_,
              "use the data of this file's \"data\"");
  flags->Text("--part", "NAME", &part_,
              "with --data: validation (default), also if it is\n"
              "split from the training data, or train");
  flags->Text("--images", "FILE", &data_.images,
              labels
                  ? "images: IDX, plain or .gz; or a folder of pictures,\n"
                    "with a folder for each class"
                  : "images: IDX, plain or .gz; or pictures (PNG, JPEG, BMP,\n"
                    "PNM): a folder, or files");
  flags->Text("--audio", "FILE", &audio_,
              labels ? "sound: a folder of WAV files, with a folder for each\n"
                       "class"
                     : "sound: a folder of WAV files, or files");
  if (labels) {
    flags->Text("--labels", "FILE", &data_.labels, "their labels: IDX");
  }
  flags->Text("--x", "FILE", &data_.x,
              "inputs: NPY, plain or .gz, or FILE.npz:NAME");
  if (labels) flags->Text("--y", "FILE", &data_.y, "their labels: likewise");
  flags->Text("--csv", "FILE", &data_.csv,
              labels ? "examples: a row each"
                     : "examples: a row each; -: lines of stdin");
  flags->Switch("--header", &header_, "the CSV's first line has names");
  flags->Switch("--no-header", &no_header_,
                "it has none (default: decided by the line)");
  flags->Text("--separator", "CHAR", &separator_,
              "the CSV's separator (default: a comma)");
  flags->Text("--decimal", "CHAR", &decimal_,
              "the CSV's decimal point (default: .)");
  flags->Text("--label", "COLUMN", &label_,
              labels ? "the CSV's column with the label: a name, or a\n"
                       "number from 0 (default: that of training, or -1,\n"
                       "the last)"
                     : "the CSV's column with the label, if it has one: a\n"
                       "name, or a number from 0 (default: that of\n"
                       "training, or -1, the last)");
  flags->Number("--scale", "FACTOR", -1e30, 1e30, &scale_,
                "multiply the data (default: as in training)");
  flags->Number("--offset", "NUMBER", -1e30, 1e30, &offset_,
                "add to the scaled data (default: as in training)");
  flags->Int("--batch-size", 1, int64_t{1} << 24, &batch_size_,
             "examples per batch (32)");
  flags->Int("--threads", 1, 1024, &threads_,
             "number of computing threads (1)");
}

std::optional<Scale> ModelAndDataFlags::GivenByFlags() const {
  if (std::isnan(scale_) && std::isnan(offset_)) return std::nullopt;
  Scale scale;
  if (!std::isnan(scale_)) scale.factor = static_cast<float>(scale_);
  if (!std::isnan(offset_)) scale.offset = static_cast<float>(offset_);
  return scale;
}

Status ModelAndDataFlags::AddPictures(DataConfig* data) const {
  const bool is_sound = !audio_.empty();
  if (!is_sound && (data->images.empty() || !HasPictures(data->images))) {
    return more_images_.empty()
               ? Status()
               : InvalidArgument(
                     "%s: is an argument too many; only pictures of --images "
                     "and files of --audio can be several",
                     more_images_[0].c_str());
  }
  const std::string path = is_sound ? audio_ : data->images;
  data->images.clear();
  PictureConfig* const files = &data->pictures;
  files->is_sound = is_sound;
  const bool folder = IsFolder(path);
  if (folder && more_images_.empty()) {
    files->directory = path;
  } else {
    files->files = {path};
    files->files.insert(files->files.end(), more_images_.begin(),
                        more_images_.end());
  }
  if (labels_ && !(folder && data->labels.empty() && more_images_.empty())) {
    return InvalidArgument(
        "--%s %s: the labels of %s are the names of folders; give one folder "
        "with a folder for each class, and no --labels",
        is_sound ? "audio" : "images", path.c_str(),
        is_sound ? "sound" : "pictures");
  }
  files->options.in_memory = false;  // each is used once
  return Status();
}

std::string ModelAndDataFlags::RunOf(const std::string& model_path) const {
  if (!data_.empty() || !audio_.empty()) return "";
  return run_.empty() && IsRun(model_path) ? model_path : run_;
}

Status ModelAndDataFlags::Choose(const std::string& model_path,
                                 const std::string& part,
                                 Choice* choice) const {
  DataConfig* const data = &choice->data;
  *data = data_;
  choice->part = part;
  if (header_ || no_header_) {
    if (data->csv.empty() || header_ == no_header_) {
      return InvalidArgument(
          "give --header or --no-header, and only with --csv");
    }
    data->table.header = header_;
  }
  if (!data->empty() || !audio_.empty()) {
    if (!run_.empty()) {
      return InvalidArgument("--data and data files do not go together");
    }
    if (!data->images.empty() + !audio_.empty() + !data->x.empty() +
            !data->csv.empty() !=
        1) {
      return InvalidArgument("give one of --images, --audio, --x and --csv");
    }
    RINGLET_RETURN_IF_ERROR(AddPictures(data));
    if (labels_ && !data->images.empty() && data->labels.empty()) {
      return InvalidArgument("--images needs --labels");
    }
    RINGLET_RETURN_IF_ERROR(ReadCharacter("--separator", separator_, *data,
                                          &data->table.separator));
    RINGLET_RETURN_IF_ERROR(
        ReadCharacter("--decimal", decimal_, *data, &data->table.decimal));
    data->scale = GivenByFlags();
    ReadLabel(label_, &data->table);
    return Status();
  }
  const std::string run = RunOf(model_path);
  if (run.empty()) {
    return InvalidArgument(
        "no data: give --data RUN.json, --images, --audio, --x or --csv");
  }
  if (GivenByFlags()) {
    return InvalidArgument(
        "--scale and --offset go with --images, --audio, --x or --csv; "
        "RUN.json has its own");
  }
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(run, &config));
  if (part != "validation" && part != "train") {
    return InvalidArgument("--part %s: is neither validation nor train",
                           part.c_str());
  }
  *data = part == "train" ? config.train : config.validation;
  if (config.validation.empty() && config.fit.validation_split > 0) {
    *data = config.train;
    choice->split = config.fit.validation_split;
  }
  if (!data->empty()) return Status();
  return InvalidArgument("%s: data.%s: is missing", run.c_str(), part.c_str());
}

// Checks a scale that flags give. The scale of a RUN.json is not checked: its
// author may have a reason for it.
Status ModelAndDataFlags::CheckScale(const DataDescription& trained_on) const {
  const std::optional<Scale> scale = GivenByFlags();
  const Scale& trained_scale = trained_on.scale;
  if (!scale || SameScale(*scale, trained_scale)) return Status();
  return InvalidArgument(
      "the model was trained on x * %s + %s; leave --scale and --offset out",
      ShortestText(trained_scale.factor).c_str(),
      ShortestText(trained_scale.offset).c_str());
}

Status ModelAndDataFlags::OpenModel(const std::string& model_path,
                                    const std::string& out,
                                    std::unique_ptr<Model>* model,
                                    Choice* choice) const {
  PrintIgnoredJob();
  InitFlags init = init_;
  RINGLET_RETURN_IF_ERROR(init.ChooseNewest());
  RINGLET_RETURN_IF_ERROR(Choose(model_path, part_, choice));
  RINGLET_RETURN_IF_ERROR(
      CheckNotData(labels_ ? "--report" : "--out", out, choice->data));
  RINGLET_RETURN_IF_ERROR(
      CheckNotRead("--out", out, {model_path, init.path, run_}));
  RunConfig config;
  config.fit.threads = threads_;
  if (IsRun(model_path)) {
    if (init.path.empty()) {
      return InvalidArgument(
          "%s: is a RUN.json, without a trained model; give --init WEIGHTS",
          model_path.c_str());
    }
    RINGLET_RETURN_IF_ERROR(ReadRunConfig(model_path, &config));
    config.fit.threads = threads_;
  } else {
    config.saved_model = model_path;
  }
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, init, nullptr));
  *model = std::move(config.model);
  RINGLET_RETURN_IF_ERROR(CopyDescriptionOfInitFile(init, model->get()));
  if (const DataDescription* trained_on = (*model)->data_description()) {
    RINGLET_RETURN_IF_ERROR(CheckScale(*trained_on));
    MatchData(*trained_on, &choice->data);
  }
  // A RUN.json names its own column of weights.
  choice->data.table.weights_as_in_training = labels_ && !data_.csv.empty();
  return Status();
}

Status ModelAndDataFlags::OpenForLines(const std::string& model_path,
                                       std::unique_ptr<Model>* model,
                                       DataConfig* data) const {
  Choice choice;
  RINGLET_RETURN_IF_ERROR(OpenModel(model_path, "", model, &choice));
  *data = std::move(choice.data);
  RINGLET_RETURN_IF_ERROR(CheckTakesLines(**model, *data));
  data->windows = TimeseriesConfig();  // a line is a whole example
  data->table = ForPrediction(*data, **model);
  return Status();
}

Status ModelAndDataFlags::Open(const std::string& model_path,
                               const std::string& out,
                               std::unique_ptr<Model>* model,
                               Dataset* batches) const {
  Choice choice;
  RINGLET_RETURN_IF_ERROR(OpenModel(model_path, out, model, &choice));
  return OpenBatches(choice, **model, batches);
}

Status ModelAndDataFlags::OpenBatches(Choice choice, const Model& model,
                                      Dataset* batches) const {
  LeaveOutChanges(&choice.data.pictures);
  const bool needs_y = labels_ && !choice.data.windows.trained_on_columns();
  if (needs_y && !data_.x.empty() && data_.y.empty()) {
    return InvalidArgument("--x needs --y");
  }
  // A split counts the rows of the training, which had labels.
  Dataset train = labels_ || choice.split > 0
                      ? OpenData(choice.data, model)
                      : OpenUnlabelled(choice.data, model);
  if (choice.split > 0) {
    Dataset validation;
    RINGLET_RETURN_IF_ERROR(Split(choice.split, &train, &validation));
    if (choice.part == "validation") train = validation;
  }
  *batches = train.Batch(batch_size_);
  if (!data_.csv.empty() && choice.data.windows.empty()) {
    RINGLET_RETURN_IF_ERROR(CheckNotWindows(model, *batches));
  }
  RINGLET_RETURN_IF_ERROR(batches->status());
  if (choice.data.table.weights_as_in_training &&
      batches->parts().weights != nullptr) {
    Notice(
        "note: %s: its column of sample weights weighs the loss, as in "
        "training",
        data_.csv.c_str());
  }
  return labels_ ? CheckClassNames(model, *batches) : Status();
}

Status ModelAndDataFlags::OpenNormal(const std::string& model_path,
                                     const std::string& file,
                                     const std::string& out, const Model& model,
                                     Dataset* batches) const {
  if (file.empty() && RunOf(model_path).empty()) {
    return InvalidArgument(
        "--threshold-quantile needs normal examples: give --threshold-data "
        "FILE, or --data RUN.json");
  }
  Choice choice;
  RINGLET_RETURN_IF_ERROR(
      Choose(model_path, file.empty() ? "train" : part_, &choice));
  DataConfig& data = choice.data;
  if (!data.pictures.files.empty()) {
    data.pictures.directory = data.pictures.files[0];
    data.pictures.files.clear();
  }
  const bool folder = !data.pictures.directory.empty();
  std::string* const path = folder                 ? &data.pictures.directory
                            : !data.csv.empty()    ? &data.csv
                            : !data.x.empty()      ? &data.x
                            : !data.images.empty() ? &data.images
                                                   : nullptr;
  if (!file.empty() && path == nullptr) {
    return InvalidArgument(
        "--threshold-data: the data have several files; leave it out for "
        "data.train");
  }
  if (!file.empty()) {
    *path = file;
    choice.split = 0;  // takes the whole file
  }
  RINGLET_RETURN_IF_ERROR(CheckNotData("--out", out, data));
  if (const DataDescription* trained_on = model.data_description()) {
    MatchData(*trained_on, &data);
  }
  return OpenBatches(choice, model, batches);
}

}  // namespace ringlet
