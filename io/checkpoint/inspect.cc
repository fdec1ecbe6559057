// One tensor of the file is in memory at a time. A damaged tensor is reported
// and the rest is read. An error in the header or the footer is an error of
// Open.

#include "inspect.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "../../core/base/state_names.h"
#include "../../core/data/element_types.h"
#include "../../core/model/model_parts.h"
#include "../files/file_kind.h"
#include "../keras/compile_arguments.h"
#include "../readers/arrays/array_path.h"
#include "../readers/arrays/idx.h"
#include "../readers/arrays/npy_input.h"
#include "../readers/files/class_names.h"
#include "../readers/storage.h"
#include "../weights/model_metadata.h"
#include "../weights/safetensors.h"
#include "../weights/weights_file.h"
#include "data_description.h"
#include "ringlet/checkpoint.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

template <typename T>
void Summarize(const T* elements, int64_t count, TensorInfo* info) {
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(elements[i]);
    if (!std::isfinite(value)) {
      ++info->not_finite;
      continue;
    }
    info->min = finite == 0 ? value : std::min(info->min, value);
    info->max = finite == 0 ? value : std::max(info->max, value);
    sum += value;
    ++finite;
  }
  if (finite > 0) info->mean = sum / static_cast<double>(finite);
}

void SummarizeArray(const NpyArray& array, TensorInfo* info) {
  info->storage = StorageOf(array.dtype);
  info->shape = array.shape;
  WithType(array.dtype, [&](auto* type) {
    Summarize(reinterpret_cast<decltype(type)>(array.data.data()),
              array.shape.elements(), info);
  });
}

struct ModelDescription {
  std::string summary;   // "" if there is no configuration, or a damaged one
  std::string compiled;  // empty without a valid one; then no `arguments`
  CompileArguments arguments;
};

// The text that a model was trained on; empty if there is none.
std::string DescribeText(const Metadata& metadata) {
  DataDescription data;
  const auto found = metadata.find(kDataDescriptionKey);
  if (found == metadata.end() ||
      !DataDescriptionFromJson(found->second, 0, &data).ok() || !data.text) {
    return "";
  }
  const std::vector<std::string> names = ValueNames(data.columns);
  const std::vector<std::string>& tokens = data.text->vocabulary;
  return (names.empty() ? "a column" : "column '" + names[0] + "'") + ", " +
         (tokens.empty() ? "a vocabulary of which the file has only a digest"
                         : std::to_string(tokens.size() + 2) +
                               " tokens with padding and [UNK]") +
         ", " + std::to_string(data.text->output_sequence_length) +
         " numbers for each text";
}

// Describes the model in a file's metadata, with `policy` if set. Returns the
// first error, and still describes the rest.
Status DescribeModel(const Metadata& metadata, ModelDescription* description,
                     std::optional<DTypePolicy> policy = {}) {
  Status first;
  const auto model = metadata.find(kModelKey);
  if (model != metadata.end()) {
    std::unique_ptr<Model> new_model;
    first = ModelFromJson(model->second, &new_model);
    if (first.ok() && policy) {
      ModelParts(new_model.get()).mutable_graph()->SetDTypePolicy(*policy);
    }
    if (first.ok()) description->summary = new_model->Summary();
  }
  const auto compile = metadata.find(kCompileKey);
  if (compile == metadata.end()) return first;
  const Status read =
      CompileArgumentsFromJson(compile->second, &description->arguments);
  if (!read.ok()) return first.ok() ? read : first;
  description->compiled = DescribeCompile(description->arguments);
  return first;
}

// Describes an array of labels: "text, 2 different: 'cat', 'dog'". Empty for
// any other array.
std::string DescribeLabels(const std::string& path) {
  NpyInput input;
  NpyArray array;
  std::vector<std::string> names;
  if (!input.Open(path).ok() || !input.layout().is_text() ||
      !input.ReadElements(&array, &names).ok()) {
    return "";
  }
  return "text, " + std::to_string(names.size()) +
         " different: " + ListNames(names);
}

Status InspectTensor(const std::string& path, const WeightsFile& file,
                     const StoredTensor& tensor, TensorInfo* tensor_info) {
  tensor_info->name = tensor.name;
  tensor_info->storage = tensor.storage;
  tensor_info->shape = tensor.shape;
  WeightsFile::Elements elements;
  const Status read = file.Read(tensor, &elements);
  if (read.code() == Code::kInvalidArgument) {
    tensor_info->note = "not read: " + tensor.unread;
    if (!tensor.unread.empty()) return file.VerifyTensor(tensor);
    const bool npz = file.format() == WeightsFile::Format::kNpz;
    tensor_info->note = DescribeLabels(npz ? path + ":" + tensor.name : path);
    if (tensor_info->note.empty())
      tensor_info->note = "text, or numbers that are not read";
    return file.VerifyTensor(tensor);
  }
  RINGLET_RETURN_IF_ERROR(read);
  WithType(DTypeOf(tensor.storage), [&](auto* type) {
    Summarize(reinterpret_cast<decltype(type)>(elements.get()),
              tensor.shape.elements(), tensor_info);
  });
  return Status();
}

// Fills `info` for an open file of weights.
Status InspectWeights(const WeightsFile& file, FileInfo* info) {
  const WeightsFile::Format format = file.format();
  info->format = format == WeightsFile::Format::kNpz    ? "npz"
                 : file.is_onnx()                       ? "onnx"
                 : format == WeightsFile::Format::kNpy  ? "npy"
                 : format == WeightsFile::Format::kTfjs ? "tfjs"
                                                        : "safetensors";
  info->metadata = file.metadata();
  info->verification =
      file.verifiable() ? Verification::kVerified : Verification::kUnverified;
  ModelDescription model;
  // The error names a damaged part; the other parts are still described.
  DescribeModel(info->metadata, &model).IgnoreError();
  info->summary = model.summary;
  info->compiled = model.compiled;
  info->text = DescribeText(info->metadata);
  for (const StoredTensor& tensor : file.tensors()) {
    TensorInfo tensor_info;
    const Status read = InspectTensor(info->path, file, tensor, &tensor_info);
    if (read.code() == Code::kCorruption) {
      tensor_info.damaged = true;
      info->verification = Verification::kDamaged;
      if (info->damage.empty()) info->damage = read.message();
    } else {
      RINGLET_RETURN_IF_ERROR(read);
    }
    // A rate below 0 was never set, so the compiled rate is used.
    if (tensor_info.name == kLearningRateName && tensor_info.max < 0 &&
        !model.compiled.empty()) {
      const bool constant = model.arguments.optimizer.learning_rate.kind ==
                            LearningRate::Kind::kConstant;
      tensor_info.note =
          std::string(constant ? "as compiled, " : "the schedule ") +
          DescribeRate(model.arguments.optimizer);
    }
    info->tensors.push_back(tensor_info);
  }
  return Status();
}

// Fills `info` for an array of an npz, or a field of an npy.
Status InspectArray(const ArrayPath& array_path, FileInfo* info) {
  NpyInput input;
  RINGLET_RETURN_IF_ERROR(input.Open(info->path));
  info->format = input.is_npz() ? "npz" : "npy";
  TensorInfo tensor_info;
  tensor_info.name = array_path.name;
  tensor_info.shape = input.layout().shape;
  tensor_info.storage = input.layout().storage();
  if (input.is_npz()) info->verification = Verification::kVerified;
  if (input.layout().is_text()) {
    tensor_info.note = DescribeLabels(info->path);
    if (tensor_info.note.empty()) tensor_info.note = "text";
    RINGLET_RETURN_IF_ERROR(input.Verify());
  } else {
    NpyArray array;
    RINGLET_RETURN_IF_ERROR(input.ReadElements(&array, nullptr));
    SummarizeArray(array, &tensor_info);
  }
  info->tensors.push_back(tensor_info);
  info->advice =
      "as data: \"x\" or \"y\": \"" + info->path + "\" of RUN.json, --x or --y";
  return Status();
}

// Fills `info` for a file of data that FindFileKind has found, also a
// compressed one.
Status InspectData(FileKind::Format format, FileInfo* info) {
  TensorInfo tensor_info;
  tensor_info.name = "arr_0";
  NpyArray array;
  if (format == FileKind::Format::kIdx) {
    RINGLET_RETURN_IF_ERROR(ReadIdx(info->path, &array));
    SummarizeArray(array, &tensor_info);
  } else {
    NpyInput input;
    RINGLET_RETURN_IF_ERROR(input.Open(info->path));
    tensor_info.note = DescribeLabels(info->path);
    if (tensor_info.note.empty()) {
      RINGLET_RETURN_IF_ERROR(input.ReadElements(&array, nullptr));
      SummarizeArray(array, &tensor_info);
    } else {
      tensor_info.storage = input.layout().storage();
      tensor_info.shape = input.layout().shape;
    }
  }
  info->tensors.push_back(tensor_info);
  return Status();
}

}  // namespace

Status InspectFile(const std::string& path, FileInfo* info, FileSystem* files) {
  *info = FileInfo();
  info->path = path;
  const ArrayPath array_path = SplitArrayPath(path);
  std::unique_ptr<File> sized;
  RINGLET_RETURN_IF_ERROR(files->Open(array_path.file, &sized));
  RINGLET_RETURN_IF_ERROR(sized->Size(&info->bytes));
  info->sealed = sized->sealed();
  if (!array_path.name.empty()) return InspectArray(array_path, info);
  WeightsFile file;
  const Status opened = file.Open(files, path);
  FileKind kind;
  using Format = FileKind::Format;
  const Status found = FindFileKind(files, path, &kind);
  if (opened.ok()) {
    const bool data =
        kind.format == Format::kNpz || kind.format == Format::kNpy;
    if (data) info->advice = kind.advice;
    return InspectWeights(file, info);
  }
  RINGLET_RETURN_IF_ERROR(found);
  for (const Format damaged :
       {Format::kUnknown, Format::kText, Format::kEmpty, Format::kSafetensors,
        Format::kNpz, Format::kNpy, Format::kSafetensorsIndex, Format::kOnnx,
        Format::kTfjs}) {
    if (kind.format == damaged) return opened;
  }
  info->format = FormatName(kind.format);
  info->what = kind.what;
  info->advice = kind.advice;
  if (kind.content != Format::kIdx && kind.content != Format::kNpy) {
    return Status();
  }
  return InspectData(kind.content, info);
}

Status SummarizeModelFile(const std::string& path, std::string* summary,
                          std::string* compiled, FileSystem* files,
                          std::optional<DTypePolicy> policy) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(WrongKindError(
      files, path, {FileKind::Format::kSafetensors}, file.Open(files, path)));
  if (file.metadata().count(kModelKey) == 0) {
    return InvalidArgument(
        "%s: holds weights, but no model's configuration; ringlet inspect "
        "shows them",
        path.c_str());
  }
  ModelDescription model;
  RINGLET_RETURN_IF_ERROR(DescribeModel(file.metadata(), &model, policy)
                              .Annotate("%s", path.c_str()));
  *summary = model.summary;
  *compiled = model.compiled;
  return Status();
}

}  // namespace ringlet
