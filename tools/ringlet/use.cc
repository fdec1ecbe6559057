#include "use.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/message.h"
#include "core/base/text.h"
#include "io/data/idx.h"
#include "io/data/npy.h"

namespace ringlet {
namespace {

// An array of examples without labels.
template <typename Array>
class ArraySource final : public Source {
 public:
  ArraySource(const std::string& name, Array array)
      : name_(name), array_(std::move(array)) {
    x_.dtype = array_.dtype;
    for (int i = 1; i < array_.shape.rank(); ++i) {
      x_.shape.Append(array_.shape[i]);
    }
  }
  int64_t size() const override { return array_.shape[0]; }
  ExampleSpec x() const override { return x_; }
  ExampleSpec y() const override { return {DType::kUint8, {0}}; }
  Status Read(const int64_t* index, int count, void* x, void*) override {
    if (x == nullptr) return Status();
    const size_t bytes = x_.bytes();
    for (int i = 0; i < count; ++i) {
      std::copy_n(array_.data.data() + static_cast<size_t>(index[i]) * bytes,
                  bytes, static_cast<unsigned char*>(x) + i * bytes);
    }
    return Status();
  }
  std::string name() const override { return name_; }

 private:
  const std::string name_;
  const Array array_;
  ExampleSpec x_;
};

template <typename Array>
Dataset Unlabelled(const std::string& path,
                   Status (*read)(const std::string&, Array*)) {
  Array array;
  const Status status = read(path, &array);
  if (!status.ok()) return Dataset(status);
  if (array.shape.rank() < 1 || array.shape[0] < 1) {
    return Dataset(InvalidArgument("%s: holds no examples", path.c_str()));
  }
  return Dataset(std::make_shared<ArraySource<Array>>(path, std::move(array)));
}

Dataset OpenUnlabelled(const DataConfig& data, const Model& model) {
  if (!data.images.empty() && !data.in_memory) return OpenData(data);
  if (!data.images.empty()) {
    return Unlabelled<IdxArray>(data.images, ReadIdx).Map(data.scale);
  }
  if (!data.x.empty()) {
    return Unlabelled<NpyArray>(data.x, ReadNpy).Map(data.scale);
  }
  // One column more than the model takes is the label's, which is left out.
  DataConfig csv = data;
  csv.csv_values = model.input_shape().elements();
  return OpenData(csv);
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
            "safetensors or npz");
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
  const char* job = std::getenv("TF_CONFIG");
  if (job != nullptr && *job != '\0') {
    Notice(
        "note: TF_CONFIG is set, but this command works alone, on all "
        "the data");
  }
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
  *batches = (labels_ ? OpenData(data) : OpenUnlabelled(data, **model))
                 .Batch(batch_size_);
  RINGLET_RETURN_IF_ERROR(batches->status());
  return labels_ ? CheckClassNames(**model, *batches) : Status();
}

}  // namespace ringlet
