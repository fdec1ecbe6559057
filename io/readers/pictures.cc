// Pictures as examples. A picture is decoded and resized when it is read, or
// once at the start.

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "../../core/base/guarded.h"
#include "../../core/base/text.h"
#include "../files/input_file.h"
#include "../files/path.h"
#include "../pictures/picture.h"
#include "../pictures/resize.h"
#include "class_names.h"
#include "picture_list.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "text.h"

namespace ringlet {
namespace {

using LabelMode = ImageOptions::LabelMode;
using Subset = ImageOptions::Subset;

int ChannelsOf(ImageOptions::ColorMode mode) {
  return mode == ImageOptions::ColorMode::kGrayscale ? 1
         : mode == ImageOptions::ColorMode::kRgb     ? 3
                                                     : 4;
}

struct Pictures {
  std::string name;  // of the folder or table
  std::vector<std::string> paths;
  ExampleSpec y = {DType::kUint8, {0}};
  std::vector<unsigned char> labels;  // as y
  std::vector<std::string> classes;
  std::vector<float> weights;  // empty: none

  // Keeps the examples of `order`, in this order.
  void Select(const std::vector<size_t>& order);
};

void Pictures::Select(const std::vector<size_t>& order) {
  const size_t bytes = y.bytes();
  std::vector<std::string> new_paths;
  std::vector<unsigned char> new_labels;
  std::vector<float> new_weights;
  for (const size_t i : order) {
    new_paths.push_back(paths[i]);
    new_labels.insert(new_labels.end(), labels.data() + i * bytes,
                      labels.data() + (i + 1) * bytes);
    if (!weights.empty()) new_weights.push_back(weights[i]);
  }
  paths = std::move(new_paths);
  labels = std::move(new_labels);
  weights = std::move(new_weights);
}

class PictureSource final : public Source {
 public:
  PictureSource(Pictures pictures, const ImageOptions& options)
      : pictures_(std::move(pictures)), options_(options) {}

  // Reads all pictures, if the options request it.
  Status Open();

  int64_t size() const override {
    return static_cast<int64_t>(pictures_.paths.size());
  }
  ExampleSpec x() const override {
    return {DType::kUint8,
            {options_.height, options_.width, ChannelsOf(options_.color_mode)}};
  }
  ExampleSpec y() const override { return pictures_.y; }
  bool XRange(double* least, double* largest) const override {
    *least = 0;
    *largest = 255;
    return true;
  }
  std::vector<std::string> ClassNames() const override {
    return pictures_.classes;
  }
  std::optional<ImageResizing> Resizing() const override {
    return options_.resizing;
  }
  std::string ExamplePath(int64_t index) const override {
    return pictures_.paths[static_cast<size_t>(index)];
  }
  std::string name() const override { return pictures_.name; }
  Status Read(const int64_t* index, int count, void* x, void* y) override;
  const std::vector<float>& weights() const { return pictures_.weights; }

 private:
  Status Decode(const std::string& path, unsigned char* x) const;

  Pictures pictures_;
  const ImageOptions options_;
  std::vector<unsigned char> cache_;  // of all x; empty: read on request
};

Status PictureSource::Decode(const std::string& path, unsigned char* x) const {
  Picture picture;
  RINGLET_RETURN_IF_ERROR(
      ReadPicture(path, ChannelsOf(options_.color_mode), &picture));
  Resize(picture, options_.resizing.interpolation,
         options_.resizing.crop_to_aspect_ratio, options_.height,
         options_.width, x);
  return Status();
}

Status PictureSource::Open() {
  if (!options_.in_memory && !options_.skip_damaged) return Status();
  const size_t bytes = x().bytes();
  if (options_.in_memory) {
    const uint64_t all = uint64_t{bytes} * pictures_.paths.size();
    RINGLET_RETURN_IF_ERROR(CheckMemoryFor(pictures_.name, all));
    cache_.reserve(static_cast<size_t>(all));
  }
  std::vector<size_t> undamaged;
  std::vector<unsigned char> decoded(bytes);
  Status damage;  // the first
  for (size_t i = 0; i < pictures_.paths.size(); ++i) {
    const Status status = Decode(pictures_.paths[i], decoded.data());
    const bool is_damaged = status.code() == Code::kCorruption;
    if (!status.ok() && !(is_damaged && options_.skip_damaged)) return status;
    if (!status.ok()) {
      if (damage.ok()) damage = status;
      continue;
    }
    undamaged.push_back(i);
    if (options_.in_memory) {
      cache_.insert(cache_.end(), decoded.begin(), decoded.end());
    }
  }
  const size_t damaged = pictures_.paths.size() - undamaged.size();
  if (damaged == 0) return Status();
  if (undamaged.empty()) return damage.Annotate("no picture can be read");
  Notice(
      "note: %s: %zu of %zu pictures are damaged and left out; the first: %s",
      pictures_.name.c_str(), damaged, pictures_.paths.size(),
      damage.message());
  pictures_.Select(undamaged);
  return Status();
}

Status PictureSource::Read(const int64_t* index, int count, void* x, void* y) {
  const size_t x_bytes = this->x().bytes(), y_bytes = pictures_.y.bytes();
  auto* to_x = static_cast<unsigned char*>(x);
  auto* to_y = static_cast<unsigned char*>(y);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(index[i]);
    if (to_y != nullptr && y_bytes > 0) {
      std::memcpy(to_y, pictures_.labels.data() + at * y_bytes, y_bytes);
      to_y += y_bytes;
    }
    if (to_x == nullptr) continue;
    if (options_.in_memory) {
      std::memcpy(to_x, cache_.data() + at * x_bytes, x_bytes);
    } else {
      RINGLET_RETURN_IF_ERROR(Decode(pictures_.paths[at], to_x));
    }
    to_x += x_bytes;
  }
  return Status();
}

// --- labels ------------------------------------------------------------------

template <typename T>
void AppendLabel(T value, std::vector<unsigned char>* labels) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
  labels->insert(labels->end(), bytes, bytes + sizeof(value));
}

// Gives each picture the label of its class's number, in the form of the mode.
Status SetLabels(LabelMode mode, const std::vector<int32_t>& numbers,
                 Pictures* pictures) {
  const auto classes = static_cast<int64_t>(pictures->classes.size());
  pictures->labels.clear();
  switch (mode) {
    case LabelMode::kNone:
      return Status();
    case LabelMode::kInt:
      pictures->y = {DType::kInt32, {}};
      for (const int32_t number : numbers) {
        AppendLabel(number, &pictures->labels);
      }
      return Status();
    case LabelMode::kBinary:
      if (classes != 2) {
        return InvalidArgument(
            "%s: label_mode \"binary\" is for two classes, but there are "
            "%" PRId64,
            pictures->name.c_str(), classes);
      }
      pictures->y = {DType::kFloat32, {}};
      for (const int32_t number : numbers) {
        AppendLabel(static_cast<float>(number), &pictures->labels);
      }
      return Status();
    case LabelMode::kCategorical:
      pictures->y = {DType::kFloat32, {classes}};
      RINGLET_RETURN_IF_ERROR(CheckMemoryFor(
          pictures->name, uint64_t{pictures->y.bytes()} * numbers.size()));
      for (const int32_t number : numbers) {
        for (int64_t c = 0; c < classes; ++c) {
          AppendLabel(c == number ? 1.0f : 0.0f, &pictures->labels);
        }
      }
      return Status();
  }
  return Status();
}

// --- datasets ----------------------------------------------------------------

Status SelectSubset(const ImageOptions& options, Pictures* pictures) {
  if (options.subset == Subset::kAll) return Status();
  const double split = options.validation_split;
  if (!(split > 0 && split < 1)) {
    return InvalidArgument(
        "validation_split: is %g; a subset needs one between 0 and 1", split);
  }
  const size_t count = pictures->paths.size();
  const auto validation =
      static_cast<size_t>(split * static_cast<double>(count));
  std::vector<size_t> order = NumpyShuffled(options.seed, count);
  const auto end = order.end() - static_cast<ptrdiff_t>(validation);
  if (validation == 0 || validation == count) {
    return InvalidArgument(
        "%s: validation_split: %g of %zu pictures leaves "
        "none to %s",
        pictures->name.c_str(), split, count,
        validation == 0 ? "validate" : "train");
  }
  options.subset == Subset::kTraining ? order.erase(end, order.end())
                                      : order.erase(order.begin(), end);
  pictures->Select(order);
  return Status();
}

Status CheckOptions(const ImageOptions& options) {
  const int64_t height = options.height, width = options.width;
  if (height < 1 || width < 1 || height > kMaxPictureSide ||
      width > kMaxPictureSide || height * width > kMaxPixels) {
    return InvalidArgument(
        "image_size: is %" PRId64 " x %" PRId64
        "; both must be from 1 to %d, and their product at most %" PRId64,
        height, width, kMaxPictureSide, int64_t{kMaxPixels});
  }
  if (options.subset == Subset::kAll && options.validation_split != 0) {
    return InvalidArgument(
        "validation_split: is %g without a subset; give the subset, training "
        "or validation, or leave it out",
        options.validation_split);
  }
  std::set<std::string> classes;
  for (const std::string& name : options.class_names) {
    if (classes.insert(name).second) continue;
    return InvalidArgument(
        "class_names: has '%s' twice; give each class one number",
        Printable(name).c_str());
  }
  return Status();
}

Dataset MakeDataset(const ImageOptions& options, Pictures pictures) {
  Status status = CheckOptions(options);
  if (status.ok()) status = SelectSubset(options, &pictures);
  if (!status.ok()) return Dataset(status);
  const auto source =
      std::make_shared<PictureSource>(std::move(pictures), options);
  status = source->Open();
  if (!status.ok()) return Dataset(status);
  const Dataset dataset(source);
  return source->weights().empty() ? dataset
                                   : dataset.SampleWeight(source->weights());
}

// Takes the labels of the rows of a table.
Status TakeLabels(const ImageOptions& options, const Dataset& rows,
                  Pictures* pictures) {
  Source* const source = rows.source().get();
  const auto count = static_cast<size_t>(source->size());
  pictures->y = source->y();
  pictures->classes = source->ClassNames();
  pictures->labels.resize(pictures->y.bytes() * count);
  for (size_t i = 0; i < count && !pictures->labels.empty(); ++i) {
    const auto row = static_cast<int64_t>(i);
    RINGLET_RETURN_IF_ERROR(
        CallRead(source, &row, 1, nullptr,
                 pictures->labels.data() + i * pictures->y.bytes()));
  }
  if (options.label_mode == LabelMode::kInt || pictures->labels.empty()) {
    return Status();
  }
  if (pictures->classes.empty()) {
    return InvalidArgument(
        "%s: the labels are numbers; only for names label_mode can be another "
        "than \"int\"",
        pictures->name.c_str());
  }
  std::vector<int32_t> numbers(count);
  std::memcpy(numbers.data(), pictures->labels.data(), count * sizeof(int32_t));
  return SetLabels(options.label_mode, numbers, pictures);
}

// `learned`: the classes are the folders. Of two subsets one has the notes.
void PrintClasses(const std::string& directory, bool learned,
                  const PictureList& list) {
  if (list.classes.empty()) return;
  if (learned) PrintClassNames(directory, list.classes);
  std::vector<bool> is_there(list.classes.size());
  for (const int32_t label : list.labels) {
    is_there[static_cast<size_t>(label)] = true;
  }
  PrintMissingClasses(directory, list.classes, is_there);
}

}  // namespace

Dataset ImageDatasetFromDirectory(const std::string& directory,
                                  const ImageOptions& options) {
  PictureList list;
  const bool labelled = options.label_mode != LabelMode::kNone;
  Status status = ListPictures(directory, labelled, options.class_names, &list);
  if (status.ok() && options.subset != Subset::kValidation) {
    PrintClasses(directory, options.class_names.empty(), list);
  }
  Pictures pictures;
  pictures.name = directory;
  pictures.paths = std::move(list.paths);
  pictures.classes = std::move(list.classes);
  if (status.ok()) {
    status = SetLabels(options.label_mode, list.labels, &pictures);
  }
  return status.ok() ? MakeDataset(options, std::move(pictures))
                     : Dataset(status);
}

Dataset ImageDataset(const std::vector<std::string>& paths,
                     const ImageOptions& options) {
  if (paths.empty())
    return Dataset(
        InvalidArgument("no pictures are given; give at least one path"));
  Pictures pictures;
  pictures.name = paths.size() == 1 ? paths[0] : "pictures";
  pictures.paths = paths;
  return MakeDataset(options, std::move(pictures));
}

Dataset ImageDatasetFromCsv(const std::string& path, const std::string& column,
                            const ImageOptions& options,
                            const CsvOptions& table) {
  CsvOptions rows = table;
  if (!options.class_names.empty()) rows.classes = options.class_names;
  if (options.label_mode == LabelMode::kNone) rows.for_prediction = true;
  Pictures pictures;
  pictures.name = FileNameOf(path);
  const Dataset opened = OpenTexts(path, column, rows, &pictures.paths);
  Status status = opened.status();
  if (opened.source() != nullptr) {
    status = TakeLabels(options, opened, &pictures);
    const auto* const weights = opened.sample_weight();
    if (weights != nullptr) pictures.weights = *weights;
  }
  for (std::string& each : pictures.paths) {
    if (!each.empty()) each = PathIn(FolderOf(path), each);
  }
  return status.ok() ? MakeDataset(options, std::move(pictures))
                     : Dataset(status);
}

}  // namespace ringlet
