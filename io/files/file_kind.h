// FileKind: what a file is, told from its bytes, and what can be done with it.
//
// Internal to io/ and tools/. For those who gave a file to a reader of another
// kind: a model of Keras or PyTorch where safetensors or npz is read.

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
  enum class Format : uint8_t {
    kUnknown,
    kSafetensors,
    kSealed,
    kNpz,
    kNpy,
    kKeras,
    kHdf5,
    kTorch,
    kPickle,
    kOnnx,
    kTflite,
    kZip,
    kGzip,
    kIdx,
    kEvents,
    kTfRecord,
    kRun,
    kKerasJson,
    kJson,
    kCsv,
    kText,
    kEmpty,
  };
  Format format = Format::kUnknown;
  Format content = Format::kUnknown;  // of a gzip file's content, else `format`
  std::string what;    // "a model of Keras 3 (.keras)"; "" where not known
  std::string advice;  // what to do with it, or ""
};

const char* NameOf(FileKind::Format format);  // "keras"

// Whether a file that begins so, with six bytes or more, is a model in ONNX.
bool IsOnnx(const std::string& head);

// Reads at most some hundred KiB. An error: the file cannot be read.
Status FindFileKind(FileSystem* files, const std::string& path, FileKind* kind);

// `error`, a reader's that did not find what it reads, or where the file is
// known to be none of `wanted`: kInvalidArgument "m.keras: is a model of Keras
// 3 (.keras), not safetensors or npz; <advice>". kGzip among them: the reader
// unpacks, and the content is what counts.
Status OtherKind(FileSystem* files, const std::string& path,
                 std::initializer_list<FileKind::Format> wanted,
                 const Status& error);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_FILE_KIND_H_
