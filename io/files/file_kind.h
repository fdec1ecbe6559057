// FileKind: identifies a file by its bytes, with advice for its user.
//
// For the error messages of readers that get a file of another kind, such as a
// model of Keras or PyTorch instead of safetensors or npz.

#ifndef RINGLET_IO_FILES_FILE_KIND_H_
#define RINGLET_IO_FILES_FILE_KIND_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "file_system.h"

namespace ringlet {

// The first bytes of an NPY file.
constexpr char kNpyMagic[] = "\x93NUMPY";

struct FileKind {
  static constexpr int64_t kMaxJsonBytes = 8 << 20;  // read of a JSON file
  enum class Format : uint8_t {
    kUnknown,
    kSafetensors,
    kSafetensorsIndex,
    kSealed,
    kNpz,
    kNpy,
    kKeras,
    kHdf5,
    kTorch,
    kPickle,
    kOnnx,
    kTflite,
    kGguf,
    kZip,
    kGzip,
    kIdx,
    kEvents,
    kTfRecord,
    kRun,
    kKerasJson,
    kTfjs,
    kJson,
    kCsv,
    kHtml,
    kHttp,
    kLfs,
    kText,
    kEmpty,
  };
  Format format = Format::kUnknown;
  // The format of the content of a gzip file. For other files it equals
  // `format`.
  Format content = Format::kUnknown;
  std::string what;    // "a model of Keras 3 (.keras)"; empty if unknown
  std::string advice;  // what to do with it, or ""
};

const char* FormatName(FileKind::Format format);  // "keras"

// True if `head`, at least six bytes, is the start of an ONNX model.
bool IsOnnx(const std::string& head);

// Reads at most some hundred KiB, and a JSON file whole. Fails if the file
// cannot be read.
Status FindFileKind(FileSystem* files, const std::string& path, FileKind* kind);

// Returns `error`, the error of a reader that expected one of `expected`. If
// the file is known to have another format: kInvalidArgument "m.keras: is a
// model of Keras 3 (.keras), not safetensors or npz; <advice>". With kGzip in
// `expected` the reader unpacks, so the format is the format of the content.
Status WrongKindError(FileSystem* files, const std::string& path,
                      std::initializer_list<FileKind::Format> expected,
                      const Status& error);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_FILE_KIND_H_
