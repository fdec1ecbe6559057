#include "model_path.h"

#include "ringlet/checkpoint.h"
#include "ringlet/files.h"
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
  std::string extension = name.substr(dot);
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
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

}  // namespace ringlet
