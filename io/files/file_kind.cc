// Identifies a refused file, for messages only: no reader depends on the
// result. It reads a bounded number of the first and the last bytes.

#include "file_kind.h"

#include <algorithm>
#include <vector>

#include "../../core/base/crc32c.h"
#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "atomic_file.h"
#include "input_file.h"

namespace ringlet {
namespace {

using Format = FileKind::Format;

constexpr size_t kHeadBytes = 4096;
constexpr int64_t kTailBytes = 66 << 10;  // has a zip archive's names

bool HasBytesAt(const std::string& text, const char* bytes, size_t count,
                size_t at = 0) {
  return text.size() >= at + count &&
         text.compare(at, count, bytes, count) == 0;
}

unsigned ByteAt(const std::string& text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

uint64_t LoadLittleEndian(const std::string& text, size_t at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= uint64_t{ByteAt(text, at + static_cast<size_t>(i))} << (8 * i);
  }
  return value;
}

// --- archives ---------------------------------------------------------------

// Decides by the names of its files: the first name, and the names in the
// directory at its end.
Format ZipFormat(const std::string& head, const std::string& tail) {
  const std::string first =
      head.substr(std::min<size_t>(30, head.size()),
                  static_cast<size_t>(LoadLittleEndian(head, 26, 2)));
  const auto has = [&](const char* name) {
    return first.find(name) != std::string::npos ||
           tail.find(name) != std::string::npos;
  };
  if (has("model.weights.h5")) return Format::kKeras;
  if (has("/data.pkl")) return Format::kTorch;
  return has(".npy") || HasBytesAt(head, "PK\5\6", 4) ? Format::kNpz
                                                      : Format::kZip;
}

// The start of a gzip file's content (RFC 1952); empty if it is damaged.
std::string Inflated(const std::string& head) {
  const unsigned flags = ByteAt(head, 3);
  size_t at = 10;
  if ((flags & 4) != 0)
    at += 2 + static_cast<size_t>(LoadLittleEndian(head, at, 2));
  for (const unsigned text : {8u, 16u}) {  // its name, a comment
    if ((flags & text) == 0) continue;
    const size_t end = head.find('\0', at);
    if (end == std::string::npos) return "";
    at = end + 1;
  }
  if ((flags & 2) != 0) at += 2;
  if (at >= head.size()) return "";
  std::string content(kHeadBytes, '\0');
  size_t content_bytes = 0;
  bool ended = false;
  if (!InflateRaw(reinterpret_cast<const unsigned char*>(head.data()) + at,
                  head.size() - at,
                  reinterpret_cast<unsigned char*>(&content[0]), kHeadBytes,
                  &content_bytes, &ended)) {
    return "";
  }
  content.resize(content_bytes);
  return content;
}

// --- single files -----------------------------------------------------------

bool IsIdx(const std::string& head) {
  const unsigned type = ByteAt(head, 2), rank = ByteAt(head, 3);
  return head.size() >= 8 && ByteAt(head, 0) == 0 && ByteAt(head, 1) == 0 &&
         (type == 8 || type == 9 || (type >= 0xb && type <= 0xe)) &&
         rank >= 1 && rank <= 8;
}

// A record's length and its checksum, as TensorFlow writes them.
bool IsTfRecord(const std::string& head) {
  return head.size() >= 16 &&
         MaskCrc32c(Crc32c(head.data(), 8)) == LoadLittleEndian(head, 8, 4);
}

bool IsText(const std::string& head) {
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' && c != '\n' && c != '\r' && c != '\t') return false;
    if (byte == 0x7f) return false;
  }
  // The last character may be incomplete.
  return ValidUtf8Bytes(head) + 4 > head.size();
}

// True if all lines have the same number of separators.
bool IsCsv(const std::string& head) {
  for (const char separator : {',', ';', '\t'}) {
    int64_t fewest = INT64_MAX, largest = 0, lines = 0;
    for (size_t at = 0; at < head.size() && lines < 5; ++lines) {
      const size_t end = head.find('\n', at);
      if (end == std::string::npos && lines > 0) break;  // may be cut
      const size_t stop = std::min(end, head.size());
      const int64_t n =
          std::count(head.begin() + static_cast<ptrdiff_t>(at),
                     head.begin() + static_cast<ptrdiff_t>(stop), separator);
      fewest = std::min(fewest, n);
      largest = std::max(largest, n);
      at = stop + 1;
    }
    if (lines > 0 && fewest == largest && largest > 0) return true;
  }
  return false;
}

Format TextFormat(const std::string& head) {
  const size_t at = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (at == std::string::npos) return Format::kText;
  if (head[at] == '{' || head[at] == '[') return Format::kJson;
  const std::string begin = LowerAscii(head.substr(at, 14));
  if (begin == "<!doctype html" || StartsWith(begin, "<html")) {
    return Format::kHtml;
  }
  return IsCsv(head) ? Format::kCsv : Format::kText;
}

Format FormatOf(const std::string& head) {
  const struct {
    const char* bytes;
    size_t count, at;
    Format format;
  } kMagic[] = {
      {kNpyMagic, 6, 0, Format::kNpy},
      {"\x89HDF\r\n\x1a\n", 8, 0, Format::kHdf5},
      {"PK\3\4", 4, 0, Format::kZip},
      {"PK\5\6", 4, 0, Format::kZip},
      {"\x1f\x8b\x08", 3, 0, Format::kGzip},
      {"RINGSEAL", 8, 0, Format::kSealed},
      {"TFL3", 4, 4, Format::kTflite},
      {"GGUF", 4, 0, Format::kGguf},
      {"HTTP/1.", 7, 0, Format::kHttp},
      {"version https://git-lfs.", 24, 0, Format::kLfs},
      // PyTorch's number, pickled, before 1.6.
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14, 0,
       Format::kTorch},
  };
  if (head.empty()) return Format::kEmpty;
  for (const auto& magic : kMagic) {
    if (HasBytesAt(head, magic.bytes, magic.count, magic.at))
      return magic.format;
  }
  if (LoadLittleEndian(head, 0, 8) < 100 << 20 && ByteAt(head, 8) == '{') {
    return Format::kSafetensors;
  }
  if (IsTfRecord(head)) {
    return head.find("brain.Event:") != std::string::npos ? Format::kEvents
                                                          : Format::kTfRecord;
  }
  if (IsIdx(head)) return Format::kIdx;
  if (ByteAt(head, 0) == 0x80 && ByteAt(head, 1) >= 2 && ByteAt(head, 1) <= 5) {
    return Format::kPickle;
  }
  if (IsOnnx(head)) return Format::kOnnx;
  return IsText(head) ? TextFormat(head) : Format::kUnknown;
}

// Finds the program that a JSON file belongs to.
Format JsonFormat(FileSystem* files, const std::string& path) {
  std::string text;
  Json json;
  if (!ReadWholeFile(files, path, FileKind::kMaxJsonBytes, &text).ok()) {
    return Format::kJson;
  }
  const auto has = [&text](const char* key) {
    return text.find(key) != std::string::npos;
  };
  if (!Json::Parse(text, "", &json, /*max_depth=*/64).ok()) {  // damaged?
    return has("\"modelTopology\"") || has("\"weightsManifest\"")
               ? Format::kTfjs
           : has("\"weight_map\"") ? Format::kSafetensorsIndex
                                   : Format::kJson;
  }
  if (json["modelTopology"] || json["weightsManifest"]) return Format::kTfjs;
  if (json["weight_map"]) return Format::kSafetensorsIndex;
  if (json["model"]) return Format::kRun;
  return json["class_name"] || json["model_config"] ? Format::kKerasJson
                                                    : Format::kJson;
}

// The description and the advice for each format. '@' is replaced by the path.
const struct {
  Format format;
  const char *name, *what, *advice;
} kKinds[] = {
    {Format::kSafetensors, "safetensors", "a safetensors file",
     "ringlet inspect @ shows it"},
    {Format::kSafetensorsIndex, "safetensors-index",
     "an index of several safetensors files", "as weights: RUN.json --init @"},
    {Format::kSealed, "sealed", "a sealed file of ringlet",
     "give its key: RINGLET_KEY_FILE=FILE"},
    {Format::kNpz, "npz", "an npz archive of arrays (numpy)",
     "as data: \"x\": \"@:NAME\" of RUN.json, --x @:NAME; as weights: RUN.json "
     "--init @"},
    {Format::kNpy, "npy", "an array of numpy (NPY)",
     "as data: \"x\" or \"y\" of RUN.json, --x or --y"},
    {Format::kKeras, "keras", "a model of Keras 3 (.keras)",
     "in Python: m = keras.models.load_model(\"@\"); numpy.savez(\"w.npz\", "
     "*m.get_weights()); open(\"model.json\", \"w\").write(m.to_json()). Then "
     "\"model\": \"model.json\" in RUN.json, and --init w.npz"},
    {Format::kHdf5, "hdf5", "an HDF5 file, as Keras's .h5 and .weights.h5",
     "in Python: m = keras.models.load_model(\"@\"), or for weights alone "
     "m.load_weights(\"@\") of the model; numpy.savez(\"w.npz\", "
     "*m.get_weights()). Then --init w.npz"},
    {Format::kTorch, "torch", "a file of PyTorch (.pt, .pth)",
     "in Python: s = torch.load(\"@\", map_location=\"cpu\"), for a whole "
     "model its state_dict(); numpy.savez(\"w.npz\", **{k: v.numpy() for k, v "
     "in s.items()}). Then --init w.npz --init-layout torch"},
    {Format::kPickle, "pickle", "a pickle of Python",
     "load it in Python and write its arrays with numpy.savez(\"w.npz\", ...)"},
    {Format::kOnnx, "onnx", "a model in ONNX", "as weights: RUN.json --init @"},
    {Format::kTflite, "tflite",
     "a model of TensorFlow Lite, made for inference",
     "take the Keras model that it was converted from"},
    {Format::kGguf, "gguf", "a model of llama.cpp (GGUF), made for inference",
     "take the safetensors that it was converted from"},
    {Format::kZip, "zip", "a zip archive", "unpack it: unzip @"},
    {Format::kGzip, "gzip", "a gzip file", "unpack it: gunzip @"},
    {Format::kIdx, "idx", "an IDX file, as MNIST's",
     "as data: \"images\" or \"labels\" of RUN.json, --images or --labels"},
    {Format::kEvents, "events", "an event file of TensorBoard",
     "tensorboard --logdir shows its folder"},
    {Format::kTfRecord, "tfrecord", "a TFRecord file of TensorFlow",
     "write its examples as NPY: numpy.save(\"x.npy\", ...)"},
    {Format::kRun, "RUN.json", "a RUN.json",
     "ringlet train, summary and plan take it"},
    {Format::kKerasJson, "keras-json", "a model's configuration (Keras's JSON)",
     "ringlet summary @ shows it; name it as \"model\" of a RUN.json"},
    {Format::kTfjs, "tfjs", "a model of TensorFlow.js (model.json)",
     "name it as \"model\" of a RUN.json; as weights: RUN.json --init @"},
    {Format::kJson, "json", "a JSON text", ""},
    {Format::kCsv, "csv", "a table in text (CSV)",
     "as data: \"csv\" of RUN.json, --csv"},
    {Format::kHtml, "html", "a web page (HTML)",
     "a download that failed leaves one; fetch the file itself"},
    {Format::kHttp, "http", "a web server's answer with its header (HTTP)",
     "fetch the file without it: curl -fLo @, without -i"},
    {Format::kLfs, "git-lfs", "a pointer of Git LFS to a file",
     "fetch the file itself: git lfs pull"},
    {Format::kText, "text", "a text", ""},
    {Format::kEmpty, "empty", "an empty file", "take another copy of it"},
    {Format::kUnknown, "unknown", "", ""},
};

std::string WithPath(std::string text, const std::string& path) {
  for (size_t at = 0; (at = text.find('@', at)) != std::string::npos;) {
    text.replace(at, 1, path);
    at += path.size();
  }
  return text;
}

void Describe(Format format, const std::string& path, FileKind* kind) {
  kind->format = kind->content = format;
  for (const auto& entry : kKinds) {
    if (entry.format != format) continue;
    kind->what = entry.what;
    kind->advice = WithPath(entry.advice, path);
  }
}

// Compressed IDX, NPY and CSV can be read; of other files describes the
// content.
void DescribeGzip(const std::string& head, const std::string& path,
                  FileKind* kind) {
  Describe(Format::kGzip, path, kind);
  const std::string content = Inflated(head);
  if (content.empty()) return;
  FileKind inner;
  Describe(FormatOf(content), path, &inner);
  if (inner.what.empty()) return;
  kind->content = inner.format;
  kind->what += " of " + inner.what;
  if (inner.format == Format::kIdx || inner.format == Format::kNpy ||
      inner.format == Format::kCsv) {
    kind->advice = inner.advice;
  }
}

}  // namespace

// A protocol buffer that begins with ir_version, followed by one of the strings
// or the graph of an ONNX model. Zeros there are not a field: they may be the
// length of a safetensors header of more than a MB.
bool IsOnnx(const std::string& head) {
  const unsigned next = ByteAt(head, 2);
  const bool zeros =
      ByteAt(head, 3) == 0 && ByteAt(head, 4) == 0 && ByteAt(head, 5) == 0;
  return !zeros && ByteAt(head, 0) == 0x08 && ByteAt(head, 1) >= 1 &&
         ByteAt(head, 1) <= 20 &&
         (next == 0x12 || next == 0x1a || next == 0x22 || next == 0x3a);
}

const char* FormatName(FileKind::Format format) {
  for (const auto& entry : kKinds) {
    if (entry.format == format) return entry.name;
  }
  return "";
}

Status FindFileKind(FileSystem* files, const std::string& path,
                    FileKind* kind) {
  *kind = FileKind();
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  int64_t size = 0;
  RINGLET_RETURN_IF_ERROR(file->Size(&size));
  std::string head, tail;
  RINGLET_RETURN_IF_ERROR(ReadUpTo(file.get(), 0, kHeadBytes, &head));
  Format format = FormatOf(head);
  if (format == Format::kGzip) {
    DescribeGzip(head, path, kind);
    return Status();
  }
  if (format == Format::kZip) {
    const int64_t from = std::max<int64_t>(0, size - kTailBytes);
    RINGLET_RETURN_IF_ERROR(
        ReadUpTo(file.get(), from, static_cast<size_t>(size - from), &tail));
    format = ZipFormat(head, tail);
  }
  if (format == Format::kJson) format = JsonFormat(files, path);
  Describe(format, path, kind);
  return Status();
}

Status WrongKindError(FileSystem* files, const std::string& path,
                      std::initializer_list<FileKind::Format> expected,
                      const Status& error) {
  FileKind kind;
  if (error.ok() || !FindFileKind(files, path, &kind).ok()) return error;
  const bool unpacks = std::find(expected.begin(), expected.end(),
                                 Format::kGzip) != expected.end();
  const bool packed = kind.format == Format::kGzip && !unpacks;
  // There is no better error for unknown or empty content, nor for gzip, which
  // may be a damaged file of a wanted format.
  for (const Format format :
       {Format::kUnknown, Format::kEmpty, Format::kGzip}) {
    if (kind.content == format && !packed) return error;
  }
  const bool may_be_text =
      std::any_of(expected.begin(), expected.end(), [](Format format) {
        return format == Format::kCsv || format == Format::kRun ||
               format == Format::kKerasJson || format == Format::kJson;
      });
  if (kind.content == Format::kText && may_be_text && !packed) return error;
  std::string names;
  for (const Format format : expected) {
    if (format == Format::kGzip) continue;
    if (kind.content == format && !packed) return error;
    if (format == Format::kSafetensorsIndex) continue;  // named as safetensors
    names += (names.empty() ? "" : " or ") + std::string(FormatName(format));
  }
  return InvalidArgument("%s: is %s, not %s%s%s", path.c_str(),
                         kind.what.c_str(), names.c_str(),
                         kind.advice.empty() ? "" : "; ", kind.advice.c_str());
}

}  // namespace ringlet
