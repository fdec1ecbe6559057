#include "model_path.h"
#include "../files/file_system.h"

#include "../../core/base/text.h"
#include "../files/file_kind.h"
#include "../files/path.h"
#include "ringlet/checkpoint.h"
#include "ringlet/status.h"

namespace ringlet {

std::string ForeignEnding(const std::string& path) {
  constexpr const char* kOthers[] = {
      ".keras", ".h5",     ".hdf5", ".pt",   ".pth", ".ckpt", ".onnx",
      ".pb",    ".tflite", ".npz",  ".npy",  ".pkl", ".bin",  ".gguf",
      ".mat",   ".zip",    ".gz",   ".json", ".csv"};
  const std::string name = FileNameOf(path);
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return "";
  const std::string extension = LowerAscii(name.substr(dot));
  for (const char* other : kOthers) {
    if (extension == other) return extension;
  }
  return "";
}

Status CheckModelName(const std::string& path) {
  const std::string ending = ForeignEnding(path);
  if (ending.empty()) return Status();
  return InvalidArgument(
      "The filepath provided must end in `.safetensors`, the format of the "
      "file; `%s` is another program's. Received: filepath=%s",
      ending.c_str(), path.c_str());
}

Status CheckReplaceable(FileSystem* files, const std::string& path) {
  if (EndsWith(path, ".safetensors")) return Status();
  FileKind kind;
  if (!FindFileKind(files, path, &kind).ok()) return Status();  // there is none
  switch (kind.format) {
    case FileKind::Format::kUnknown:
    case FileKind::Format::kSafetensors:
    case FileKind::Format::kSealed:
    case FileKind::Format::kEmpty:
      return Status();
    default:
      return InvalidArgument(
          "%s: is %s, which a model would replace; give the model another "
          "filepath",
          path.c_str(),
          kind.what.empty() ? FormatName(kind.format) : kind.what.c_str());
  }
}

}  // namespace ringlet
