#include "inspect.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "../data/element_types.h"
#include "../files/file_kind.h"
#include "../keras/compile_arguments.h"
#include "../keras/model_json.h"
#include "weights_file.h"

namespace ringlet {
namespace {

// --- elements ---------------------------------------------------------------

using Elements = std::unique_ptr<unsigned char[]>;

Status ReadElements(const WeightsFile& file, const StoredTensor& tensor,
                    Elements* elements) {
  const uint64_t bytes = static_cast<uint64_t>(tensor.shape.elements()) *
                         SizeOf(DTypeOf(tensor.storage));
  if (bytes < std::numeric_limits<size_t>::max()) {
    elements->reset(
        new (std::nothrow) unsigned char[static_cast<size_t>(bytes) + 1]);
  }
  if (*elements == nullptr) {
    return ResourceExhausted(
        "%s: no memory for the %" PRIu64 " bytes of tensor '%s'",
        file.path().c_str(), bytes, Printable(tensor.name).c_str());
  }
  return file.Read(tensor, elements->get());
}

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

double Distance(double a, double b) {
  if (std::isfinite(a) && std::isfinite(b)) return std::fabs(a - b);
  const bool alike = (std::isnan(a) && std::isnan(b)) || a == b;
  return alike ? 0 : std::numeric_limits<double>::infinity();
}

template <typename T>
void CompareElements(const T* a, const T* b, int64_t count,
                     FileDifference* difference) {
  difference->elements = count;
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) == 0) continue;
    if (difference->differing++ == 0) difference->first = i;
    difference->largest = std::max(
        difference->largest,
        Distance(static_cast<double>(a[i]), static_cast<double>(b[i])));
  }
}

// --- text -------------------------------------------------------------------

std::string Number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value,
                                 std::chars_format::general, 6)
                       .ptr;
  return std::string(digits, end);
}

std::string WithCommas(int64_t n) {
  std::string digits = std::to_string(n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return digits;
}

// Cells of a row in columns of equal width, two spaces between them.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  " + row[i] + std::string(widths[i] - row[i].size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::vector<std::string> RowOf(const TensorInfo& tensor) {
  std::vector<std::string> row = {
      Printable(tensor.name), NameOf(tensor.storage), tensor.shape.ToString()};
  if (tensor.damaged) {
    row.push_back("DAMAGED");
  } else if (!tensor.note.empty()) {
    row.push_back(tensor.note);
  } else {
    row.push_back("min " + Number(tensor.min));
    row.push_back("max " + Number(tensor.max));
    row.push_back("mean " + Number(tensor.mean));
    if (tensor.not_finite > 0) {
      row.push_back(WithCommas(tensor.not_finite) + " not finite");
    }
  }
  return row;
}

std::string TextOf(const FileDifference& d) {
  const std::string name = "'" + Printable(d.name) + "'";
  switch (d.kind) {
    case FileDifference::Kind::kValues:
      return "tensor " + name + ": " + WithCommas(d.differing) + " of " +
             WithCommas(d.elements) + " elements differ, from element " +
             std::to_string(d.first) + " on, by at most " + Number(d.largest);
    case FileDifference::Kind::kDType:
    case FileDifference::Kind::kShape:
      return "tensor " + name + ": " + NameOf(d.kind) + " " + d.a + " in A, " +
             d.b + " in B";
    case FileDifference::Kind::kOnlyInA:
    case FileDifference::Kind::kOnlyInB:
      return "tensor " + name + ": " + NameOf(d.kind);
    case FileDifference::Kind::kMetadata:
      return "metadata " + name + ": '" + Printable(d.a) + "' in A, '" +
             Printable(d.b) + "' in B";
    default:
      return "metadata " + name + ": " +
             (d.kind == FileDifference::Kind::kMetadataOnlyInA ? "only in A"
                                                               : "only in B");
  }
}

void WriteShape(const Shape& shape, JsonWriter* w) {
  w->BeginArray();
  for (int i = 0; i < shape.rank(); ++i) w->Int(shape[i]);
  w->EndArray();
}

// --- comparing --------------------------------------------------------------

class Comparer {
 public:
  Comparer(const WeightsFile& a, const WeightsFile& b, size_t most_listed,
           FileComparison* out)
      : a_(a), b_(b), most_listed_(most_listed), out_(out) {}

  Status Run() {
    CompareMetadata();
    for (const StoredTensor& tensor : a_.tensors()) {
      const StoredTensor* other = OtherOf(a_, tensor.name, b_);
      if (other == nullptr) {
        Add(Kind::kOnlyInA, tensor.name, Describe(tensor), "");
      } else {
        RINGLET_RETURN_IF_ERROR(CompareTensors(tensor, *other));
      }
    }
    for (const StoredTensor& tensor : b_.tensors()) {
      if (OtherOf(b_, tensor.name, a_) != nullptr) continue;
      Add(Kind::kOnlyInB, tensor.name, "", Describe(tensor));
    }
    return Status();
  }

 private:
  using Kind = FileDifference::Kind;

  static std::string Describe(const StoredTensor& tensor) {
    return std::string(NameOf(tensor.storage)) + " " + tensor.shape.ToString();
  }

  // The tensor of `other` that is to be `name` of `file`. A file that is not
  // ringlet's has "dense/kernel" for "model/dense/kernel".
  static const StoredTensor* OtherOf(const WeightsFile& file,
                                     const std::string& name,
                                     const WeightsFile& other) {
    const StoredTensor* found = other.Find(name);
    if (found != nullptr || file.is_ringlets() == other.is_ringlets()) {
      return found;
    }
    if (!file.is_ringlets()) return other.Find(kWeightsPrefix + name);
    return StartsWith(name, kWeightsPrefix)
               ? other.Find(WithoutPrefix(name, kWeightsPrefix))
               : nullptr;
  }

  void Add(const FileDifference& difference) {
    ++out_->count;
    if (out_->first.size() < most_listed_) out_->first.push_back(difference);
  }
  void Add(Kind kind, const std::string& name, const std::string& a,
           const std::string& b) {
    FileDifference difference;
    difference.kind = kind;
    difference.name = name;
    difference.a = a;
    difference.b = b;
    Add(difference);
  }

  // Which arrays of numpy have none of.
  void CompareMetadata() {
    for (const WeightsFile* file : {&a_, &b_}) {
      if (file->format() != WeightsFile::Format::kSafetensors) return;
    }
    for (const auto& [key, value] : a_.metadata()) {
      const auto other = b_.metadata().find(key);
      if (other == b_.metadata().end()) {
        Add(Kind::kMetadataOnlyInA, key, value, "");
      } else if (value != other->second) {
        Add(Kind::kMetadata, key, value, other->second);
      }
    }
    for (const auto& [key, value] : b_.metadata()) {
      if (a_.metadata().count(key) != 0) continue;
      Add(Kind::kMetadataOnlyInB, key, "", value);
    }
  }

  Status CompareTensors(const StoredTensor& a, const StoredTensor& b) {
    ++out_->tensors_compared;
    if (a.storage != b.storage) {
      Add(Kind::kDType, a.name, NameOf(a.storage), NameOf(b.storage));
    }
    if (a.shape != b.shape) {
      Add(Kind::kShape, a.name, a.shape.ToString(), b.shape.ToString());
      return Status();
    }
    const DType dtype = DTypeOf(a.storage);
    if (dtype != DTypeOf(b.storage)) return Status();
    Elements elements_a, elements_b;
    RINGLET_RETURN_IF_ERROR(ReadElements(a_, a, &elements_a));
    RINGLET_RETURN_IF_ERROR(ReadElements(b_, b, &elements_b));
    FileDifference difference;
    difference.name = a.name;
    WithType(dtype, [&](auto* type) {
      using Pointer = decltype(type);
      CompareElements(reinterpret_cast<Pointer>(elements_a.get()),
                      reinterpret_cast<Pointer>(elements_b.get()),
                      a.shape.elements(), &difference);
    });
    if (difference.differing > 0) Add(difference);
    return Status();
  }

  const WeightsFile& a_;
  const WeightsFile& b_;
  const size_t most_listed_;
  FileComparison* const out_;
};

}  // namespace

const char* NameOf(Verification verification) {
  switch (verification) {
    case Verification::kVerified:
      return "verified";
    case Verification::kUnverified:
      return "unverified";
    case Verification::kDamaged:
      return "damaged";
  }
  return "";
}

const char* NameOf(FileDifference::Kind kind) {
  switch (kind) {
    case FileDifference::Kind::kOnlyInA:
      return "only in A";
    case FileDifference::Kind::kOnlyInB:
      return "only in B";
    case FileDifference::Kind::kDType:
      return "dtype";
    case FileDifference::Kind::kShape:
      return "shape";
    case FileDifference::Kind::kValues:
      return "values";
    case FileDifference::Kind::kMetadataOnlyInA:
      return "metadata only in A";
    case FileDifference::Kind::kMetadataOnlyInB:
      return "metadata only in B";
    case FileDifference::Kind::kMetadata:
      return "metadata";
  }
  return "";
}

namespace {

// What a model's file says of itself; nothing where that is damaged.
void DescribeModel(FileInfo* info, CompileArguments* compiled,
                   bool* is_compiled) {
  const auto model = info->metadata.find("model");
  std::unique_ptr<Model> made;
  if (model != info->metadata.end() &&
      ModelFromJson(model->second, &made).ok()) {
    info->summary = made->Summary();
  }
  const auto compile = info->metadata.find("compile");
  *is_compiled = compile != info->metadata.end() &&
                 CompileArgumentsFromJson(compile->second, compiled).ok();
  if (*is_compiled) info->compiled = DescribeCompile(*compiled);
}

Status InspectTensor(const WeightsFile& file, const StoredTensor& tensor,
                     TensorInfo* made) {
  made->name = tensor.name;
  made->storage = tensor.storage;
  made->shape = tensor.shape;
  Elements elements;
  const Status read = ReadElements(file, tensor, &elements);
  if (read.code() == Code::kInvalidArgument) {
    made->note = "text, or numbers that are not read";
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(read);
  WithType(DTypeOf(tensor.storage), [&](auto* type) {
    Summarize(reinterpret_cast<decltype(type)>(elements.get()),
              tensor.shape.elements(), made);
  });
  return Status();
}

// Of a file of weights, which is open.
Status InspectWeights(const WeightsFile& file, FileInfo* info) {
  const WeightsFile::Format format = file.format();
  info->format = format == WeightsFile::Format::kNpz   ? "npz"
                 : format == WeightsFile::Format::kNpy ? "npy"
                                                       : "safetensors";
  info->metadata = file.metadata();
  info->verification =
      file.verifiable() ? Verification::kVerified : Verification::kUnverified;
  CompileArguments compiled;
  bool is_compiled = false;
  DescribeModel(info, &compiled, &is_compiled);
  for (const StoredTensor& tensor : file.tensors()) {
    TensorInfo made;
    const Status read = InspectTensor(file, tensor, &made);
    if (read.code() == Code::kCorruption) {
      made.damaged = true;
      info->verification = Verification::kDamaged;
      if (info->damage.empty()) info->damage = read.message();
    } else {
      RINGLET_RETURN_IF_ERROR(read);
    }
    // Less than 0: nobody has set it, so the compiled one counts.
    if (made.name == kLearningRateName && made.max < 0 && is_compiled) {
      const bool constant = compiled.optimizer.learning_rate.kind ==
                            LearningRate::Kind::kConstant;
      made.note = std::string(constant ? "as compiled, " : "the schedule ") +
                  DescribeRate(compiled.optimizer);
    }
    info->tensors.push_back(made);
  }
  return Status();
}

}  // namespace

Status InspectFile(const std::string& path, FileInfo* info, FileSystem* files) {
  *info = FileInfo();
  info->path = path;
  std::unique_ptr<File> sized;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &sized));
  RINGLET_RETURN_IF_ERROR(sized->Size(&info->bytes));
  WeightsFile file;
  const Status opened = file.Open(files, path);
  if (opened.ok()) return InspectWeights(file, info);
  FileKind kind;
  using Format = FileKind::Format;
  RINGLET_RETURN_IF_ERROR(FindFileKind(files, path, &kind));
  for (const Format damaged :
       {Format::kUnknown, Format::kText, Format::kEmpty, Format::kSafetensors,
        Format::kNpz, Format::kNpy}) {
    if (kind.format == damaged) return opened;
  }
  info->format = NameOf(kind.format);
  info->what = kind.what;
  info->advice = kind.advice;
  return Status();
}

Status SummarizeModelFile(const std::string& path, std::string* summary,
                          std::string* compiled, FileSystem* files) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(OtherKind(
      files, path, {FileKind::Format::kSafetensors}, file.Open(files, path)));
  const auto model = file.metadata().find("model");
  if (model == file.metadata().end()) {
    return InvalidArgument(
        "%s: holds weights, but no model's configuration; ringlet inspect "
        "shows them",
        path.c_str());
  }
  std::unique_ptr<Model> made;
  RINGLET_RETURN_IF_ERROR(
      ModelFromJson(model->second, &made).Annotate("%s", path.c_str()));
  *summary = made->Summary();
  compiled->clear();
  const auto compile = file.metadata().find("compile");
  if (compile == file.metadata().end()) return Status();
  CompileArguments arguments;
  RINGLET_RETURN_IF_ERROR(CompileArgumentsFromJson(compile->second, &arguments)
                              .Annotate("%s", path.c_str()));
  *compiled = DescribeCompile(arguments);
  return Status();
}

std::string ToText(const FileInfo& info) {
  std::string text = info.path + ": " + WithCommas(info.bytes) + " bytes, ";
  if (!info.what.empty()) {
    text += info.what + "\n";
    return info.advice.empty() ? text : text + info.advice + "\n";
  }
  const size_t count = info.tensors.size();
  if (info.format != "safetensors") text += info.format + ", ";
  text += std::to_string(count) + (count == 1 ? " tensor, " : " tensors, ") +
          NameOf(info.verification) + "\n";
  if (!info.damage.empty()) text += info.damage + "\n";
  if (!info.metadata.empty()) text += "metadata:\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : info.metadata) {
    rows.push_back({Printable(key), Printable(value)});
  }
  text += Table(rows) + info.summary;
  if (!info.compiled.empty()) text += "compiled: " + info.compiled + "\n";
  if (!info.tensors.empty()) text += "tensors:\n";
  rows.clear();
  for (const TensorInfo& tensor : info.tensors) rows.push_back(RowOf(tensor));
  return text + Table(rows);
}

std::string ToJson(const FileInfo& info) {
  JsonWriter w;
  w.BeginObject().Key("path").String(info.path).Key("bytes").Int(info.bytes);
  w.Key("format").String(info.format);
  if (!info.what.empty()) {
    w.Key("what").String(info.what).Key("advice").String(info.advice);
    return w.EndObject().text();
  }
  w.Key("verification").String(NameOf(info.verification));
  if (!info.damage.empty()) w.Key("damage").String(info.damage);
  w.Key("metadata").BeginObject();
  for (const auto& [key, value] : info.metadata) w.Key(key).String(value);
  w.EndObject().Key("tensors").BeginArray();
  for (const TensorInfo& tensor : info.tensors) {
    w.BeginObject().Key("name").String(tensor.name);
    w.Key("dtype").String(NameOf(tensor.storage)).Key("shape");
    WriteShape(tensor.shape, &w);
    if (tensor.damaged) {
      w.Key("damaged").Bool(true);
    } else {
      w.Key("min").Number(tensor.min).Key("max").Number(tensor.max);
      w.Key("mean").Number(tensor.mean);
      w.Key("not_finite").Int(tensor.not_finite);
      if (!tensor.note.empty()) w.Key("note").String(tensor.note);
    }
    w.EndObject();
  }
  return w.EndArray().EndObject().text();
}

Status CompareFiles(const std::string& path_a, const std::string& path_b,
                    FileComparison* comparison, size_t most_listed,
                    FileSystem* files) {
  *comparison = FileComparison();
  comparison->path_a = path_a;
  comparison->path_b = path_b;
  WeightsFile a, b;
  RINGLET_RETURN_IF_ERROR(a.Open(files, path_a));
  RINGLET_RETURN_IF_ERROR(b.Open(files, path_b));
  return Comparer(a, b, most_listed, comparison).Run();
}

std::string ToText(const FileComparison& comparison) {
  std::string text =
      "A: " + comparison.path_a + "\nB: " + comparison.path_b + "\n";
  for (const FileDifference& difference : comparison.first) {
    text += TextOf(difference) + "\n";
  }
  const auto listed = static_cast<int64_t>(comparison.first.size());
  if (comparison.count > listed) {
    text +=
        "and " + WithCommas(comparison.count - listed) + " more differences\n";
  }
  if (!comparison.same()) return text;
  return text + "no difference in metadata and " +
         WithCommas(comparison.tensors_compared) + " tensors\n";
}

std::string ToJson(const FileComparison& comparison) {
  JsonWriter w;
  w.BeginObject().Key("a").String(comparison.path_a);
  w.Key("b").String(comparison.path_b).Key("same").Bool(comparison.same());
  w.Key("tensors_compared").Int(comparison.tensors_compared);
  w.Key("count").Int(comparison.count).Key("first").BeginArray();
  for (const FileDifference& d : comparison.first) {
    w.BeginObject().Key("kind").String(NameOf(d.kind));
    w.Key("name").String(d.name);
    if (d.kind == FileDifference::Kind::kValues) {
      w.Key("differing").Int(d.differing).Key("elements").Int(d.elements);
      w.Key("first").Int(d.first).Key("largest").Number(d.largest);
    } else {
      w.Key("a").String(d.a).Key("b").String(d.b);
    }
    w.EndObject();
  }
  return w.EndArray().EndObject().text();
}

}  // namespace ringlet
