// Labels and paths are parallel lists: Select changes both, and the weights.
// The order of the files is a part of the results, since batches are by index,
// so it must be the same on every worker. A file that changes while it is read
// on request is an error, since a second epoch would train on other numbers.

#include "labelled_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <set>
#include <utility>

#include "../../../core/base/fnv1a.h"
#include "../../../core/base/guarded.h"
#include "../../../core/base/text.h"
#include "../../../core/data/dataset_parts.h"
#include "../../files/file_version.h"
#include "../../files/input_file.h"
#include "../../files/path.h"
#include "../tables/text.h"
#include "class_names.h"

namespace ringlet {
namespace {

using LabelMode = LabelledFilesOptions::LabelMode;
using Subset = LabelledFilesOptions::Subset;

// --- labels ------------------------------------------------------------------

template <typename T>
void AppendLabel(T value, std::vector<unsigned char>* labels) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
  labels->insert(labels->end(), bytes, bytes + sizeof(value));
}

// Gives each file the label of its class's number, in the form of the mode.
Status SetLabels(LabelMode mode, const std::vector<int32_t>& numbers,
                 LabelledFiles* files) {
  const auto classes = static_cast<int64_t>(files->classes.size());
  files->labels.clear();
  if (mode == LabelMode::kNone) return Status();
  if (mode == LabelMode::kBinary && classes != 2) {
    return InvalidArgument(
        "%s: label_mode \"binary\" is for two classes, but there are "
        "%" PRId64,
        files->name.c_str(), classes);
  }
  files->y.dtype = mode == LabelMode::kInt ? DType::kInt32 : DType::kFloat32;
  files->y.shape = mode == LabelMode::kCategorical ? Shape{classes} : Shape();
  RINGLET_RETURN_IF_ERROR(
      CheckMemoryFor(files->name, uint64_t{files->y.bytes()} * numbers.size()));
  for (const int32_t number : numbers) {
    if (mode == LabelMode::kInt) AppendLabel(number, &files->labels);
    if (mode == LabelMode::kBinary) {
      AppendLabel(static_cast<float>(number), &files->labels);
    }
    for (int64_t c = 0; mode == LabelMode::kCategorical && c < classes; ++c) {
      AppendLabel(c == number ? 1.0f : 0.0f, &files->labels);
    }
  }
  return Status();
}

// Reads the labels of the rows of a table.
Status ReadLabels(const LabelledFilesOptions& options, const Dataset& rows,
                  LabelledFiles* files) {
  Source* const source = rows.source().get();
  const auto count = static_cast<size_t>(source->size());
  files->y = source->y();
  files->classes = source->Description().classes;
  files->labels.resize(files->y.bytes() * count);
  for (size_t i = 0; i < count && !files->labels.empty(); ++i) {
    const auto row = static_cast<int64_t>(i);
    RINGLET_RETURN_IF_ERROR(CallRead(
        source, &row, 1, nullptr, files->labels.data() + i * files->y.bytes()));
  }
  if (options.label_mode == LabelMode::kInt || files->labels.empty()) {
    return Status();
  }
  if (files->classes.empty()) {
    return InvalidArgument(
        "%s: the labels are numbers; only for names label_mode can be another "
        "than \"int\"",
        files->name.c_str());
  }
  std::vector<int32_t> numbers(count);
  std::memcpy(numbers.data(), files->labels.data(), count * sizeof(int32_t));
  return SetLabels(options.label_mode, numbers, files);
}

// `learned` is true if the classes are the folders. Only one of two subsets
// prints the notes.
void PrintClasses(const std::string& directory, bool learned,
                  const FileList& list) {
  if (list.classes.empty()) return;
  if (learned) PrintClassNames(directory, list.classes);
  std::vector<bool> is_there(list.classes.size());
  for (const int32_t label : list.labels) {
    is_there[static_cast<size_t>(label)] = true;
  }
  PrintMissingClasses(directory, list.classes, is_there);
}

Status CheckOptions(const LabelledFilesOptions& options) {
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

}  // namespace

void LabelledFiles::Select(const std::vector<size_t>& order) {
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

Status LabelledFilesSource::Open() {
  RINGLET_RETURN_IF_ERROR(DecodeAll());
  if (!in_memory_) {
    versions_ = std::vector<std::atomic<uint64_t>>(files_.paths.size());
  }
  return Status();
}

Status LabelledFilesSource::DecodeAll() {
  if (!in_memory_ && !skip_damaged_) return Status();
  const size_t bytes = x().bytes();
  if (in_memory_) {
    const uint64_t all = uint64_t{bytes} * files_.paths.size();
    RINGLET_RETURN_IF_ERROR(CheckMemoryFor(files_.name, all));
    cache_.reserve(static_cast<size_t>(all));
  }
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(files_.name, bytes));
  std::vector<size_t> readable;
  std::vector<unsigned char> decoded(bytes);
  Status damage;  // the first
  for (size_t i = 0; i < files_.paths.size(); ++i) {
    const Status status = Decode(files_.paths[i], decoded.data());
    const bool is_damaged =
        status.code() == Code::kCorruption ||
        (files_.may_be_gone && status.code() == Code::kNotFound);
    if (!status.ok() && !(is_damaged && skip_damaged_)) return status;
    if (!status.ok()) {
      if (damage.ok()) damage = status;
      continue;
    }
    readable.push_back(i);
    if (in_memory_) {
      cache_.insert(cache_.end(), decoded.begin(), decoded.end());
    }
  }
  const size_t damaged = files_.paths.size() - readable.size();
  if (damaged == 0) return Status();
  if (readable.empty())
    return damage.Annotate("none of the %s can be read", noun_);
  Notice("note: %s: %zu of %zu %s are damaged and left out; the first: %s",
         files_.name.c_str(), damaged, files_.paths.size(), noun_,
         damage.message());
  files_.Select(readable);
  return Status();
}

Status LabelledFilesSource::Reread(size_t at, unsigned char* x) {
  const std::string& path = files_.paths[at];
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    const FileVersion version = VersionOf(info);
    Fnv1a hash;
    hash.Add(std::to_string(version.bytes) + " " +
             std::to_string(version.written_ns));
    const uint64_t now = std::max<uint64_t>(hash.value(), 1);
    const uint64_t before = versions_[at].exchange(now);
    if (before != 0 && before != now) {
      return Corruption(
          "%s: was changed while it is in use; start again, and leave the file "
          "alone until the end (a copy is safe)",
          path.c_str());
    }
  }
  return Decode(path, x);
}

Status LabelledFilesSource::Read(const int64_t* index, int count, void* x,
                                 void* y) {
  const size_t x_bytes = this->x().bytes(), y_bytes = files_.y.bytes();
  auto* to_x = static_cast<unsigned char*>(x);
  auto* to_y = static_cast<unsigned char*>(y);
  for (int i = 0; i < count; ++i) {
    const auto example = static_cast<size_t>(index[i]);
    if (to_y != nullptr && y_bytes > 0) {
      std::memcpy(to_y, files_.labels.data() + example * y_bytes, y_bytes);
      to_y += y_bytes;
    }
    if (to_x == nullptr) continue;
    if (in_memory_) {
      std::memcpy(to_x, cache_.data() + example * x_bytes, x_bytes);
    } else {
      RINGLET_RETURN_IF_ERROR(Reread(example, to_x));
    }
    to_x += x_bytes;
  }
  return Status();
}

Status SelectSubset(const MediaKind& kind, const LabelledFilesOptions& options,
                    LabelledFiles* files) {
  RINGLET_RETURN_IF_ERROR(CheckOptions(options));
  if (options.subset == Subset::kAll) return Status();
  const double split = options.validation_split;
  if (!(split > 0 && split < 1)) {
    return InvalidArgument(
        "validation_split: is %g; a subset needs one between 0 and 1", split);
  }
  const size_t count = files->paths.size();
  const auto validation =
      static_cast<size_t>(split * static_cast<double>(count));
  std::vector<size_t> order = NumpyShuffled(options.seed, count);
  const auto end = order.end() - static_cast<ptrdiff_t>(validation);
  if (validation == 0 || validation == count) {
    return InvalidArgument(
        "%s: validation_split: %g of %zu %s leaves none to %s",
        files->name.c_str(), split, count, kind.noun,
        validation == 0 ? "validate" : "train");
  }
  options.subset == Subset::kTraining ? order.erase(end, order.end())
                                      : order.erase(order.begin(), end);
  files->Select(order);
  return Status();
}

Result<LabelledFiles> FilesOfFolder(const MediaKind& kind,
                                    const std::string& directory,
                                    const LabelledFilesOptions& options,
                                    const std::string& except) {
  FileList list;
  const bool labelled = options.label_mode != LabelMode::kNone;
  RINGLET_RETURN_IF_ERROR(
      ListFiles(kind, directory, labelled, options.class_names, &list, except));
  if (options.subset != Subset::kValidation) {
    PrintClasses(directory, options.class_names.empty(), list);
  }
  return FilesOfList(list, directory, options);
}

Result<LabelledFiles> FilesOfCsv(const std::string& path,
                                 const std::string& column,
                                 const LabelledFilesOptions& options,
                                 const CsvOptions& table) {
  LabelledFiles files;
  CsvOptions rows = table;
  if (!options.class_names.empty()) rows.classes = options.class_names;
  if (options.label_mode == LabelMode::kNone) rows.for_prediction = true;
  files.name = FileNameOf(path);
  const Dataset opened = OpenTexts(path, column, rows, &files.paths);
  if (opened.source() == nullptr) return opened.status();
  RINGLET_RETURN_IF_ERROR(ReadLabels(options, opened, &files));
  const auto& weights = opened.parts().weights;
  if (weights != nullptr) files.weights = *weights;
  for (std::string& file_path : files.paths) {
    if (!file_path.empty()) file_path = PathIn(FolderOf(path), file_path);
  }
  return files;
}

Result<LabelledFiles> FilesOfPaths(const MediaKind& kind,
                                   const std::vector<std::string>& paths) {
  if (paths.empty()) return InvalidArgument("no %s are given", kind.noun);
  LabelledFiles files;
  files.name = paths.size() == 1 ? paths[0] : kind.noun;
  files.paths = paths;
  return files;
}

Result<LabelledFiles> FilesOfList(const FileList& list, const std::string& name,
                                  const LabelledFilesOptions& options) {
  LabelledFiles files;
  files.name = name;
  files.paths = list.paths;
  files.classes = list.classes;
  RINGLET_RETURN_IF_ERROR(SetLabels(options.label_mode, list.labels, &files));
  return files;
}

Dataset MakeDataset(const std::shared_ptr<LabelledFilesSource>& source) {
  const Status status = source->Open();
  if (!status.ok()) return Dataset(status);
  const Dataset dataset(source);
  return source->weights().empty() ? dataset
                                   : dataset.SampleWeight(source->weights());
}

}  // namespace ringlet
