// Describes the content of files, and compares two files.
//
// Reads safetensors files, ringlet's and plain ones, ONNX models, and numpy's
// npz, npy and IDX files. Files of another kind are only identified, by their
// bytes. The text form is for users: a line for each tensor, control bytes as
// '?', long metadata cut. The JSON form is complete, for programs. One tensor
// of each file is in memory at a time.

#ifndef RINGLET_IO_CHECKPOINT_INSPECT_H_
#define RINGLET_IO_CHECKPOINT_INSPECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "../weights/safetensors.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

struct TensorInfo {
  std::string name;
  Storage storage = Storage::kF32;
  Shape shape;
  bool damaged = false;  // its checksum differs; the values below are unknown
  // Over the finite elements; 0 if there are none.
  double min = 0, max = 0, mean = 0;
  int64_t not_finite = 0;  // how many are NaN or infinite
  // The meaning of a special value: "the schedule CosineDecay" for a learning
  // rate of -1. Empty if the value has no special meaning.
  std::string note;
};

enum class Verification : uint8_t {
  kVerified,    // every byte, by checksums
  kUnverified,  // a plain file: it has none
  kDamaged,     // a checksum differs
};
const char* VerificationName(Verification verification);  // such as "verified"

struct FileInfo {
  std::string path;
  int64_t bytes = 0;    // the bytes of the plain text if it is sealed
  bool sealed = false;  // encrypted, and opened with the key (SealedFiles)
  std::string
      format;  // "safetensors", "npz", "npy", or another's name: "keras"
  // For formats other than the first three: a description. Advice, also for
  // arrays as data.
  std::string what, advice;
  Verification verification = Verification::kUnverified;
  std::string damage;  // the first; empty if there is none
  Metadata metadata;
  // For a model's file: Keras's table of its layers, and a line with optimizer,
  // loss and metrics ("" if it is not compiled).
  std::string summary, compiled;
  std::string text;  // a line with the text that the model was trained on
  std::vector<TensorInfo> tensors;  // the tensors, in the order of their bytes
};

// `path` may name an array of an npz or a field of an npy: "a.npz:x". Continues
// after a damaged tensor. A file that cannot be opened, with a damaged header
// or footer, or of no known kind is an error.
Status InspectFile(const std::string& path, FileInfo* info,
                   FileSystem* files = PosixFiles());
std::string ToText(const FileInfo& info);
std::string ToJson(const FileInfo& info);

// Sets FileInfo's `summary` and `compiled` of a saved model. Reads its header
// only. If set, `policy` holds for all layers.
Status SummarizeModelFile(const std::string& path, std::string* summary,
                          std::string* compiled,
                          FileSystem* files = PosixFiles(),
                          std::optional<DTypePolicy> policy = {});

struct FileDifference {
  enum class Kind : uint8_t {
    kOnlyInA,
    kOnlyInB,
    kDType,
    kShape,
    kValues,
    kMetadataOnlyInA,
    kMetadataOnlyInB,
    kMetadata,
  };
  Kind kind = Kind::kValues;
  std::string name;  // the tensor's name, or the metadata's key
  std::string a, b;  // dtype, shape or metadata; empty if missing
  // kValues: the number of elements with different bits, the number of all
  // elements, and the index of the first different one.
  int64_t differing = 0, elements = 0, first = 0;
  // The largest |a - b|; infinite if only one of a and b is finite.
  double largest = 0;
};
const char* DifferenceName(FileDifference::Kind kind);  // such as "only in A"

struct FileComparison {
  static constexpr size_t kMaxListed = 20;
  std::string path_a, path_b;
  int64_t tensors_compared = 0;       // tensors that both have
  int64_t count = 0;                  // the number of all differences
  std::vector<FileDifference> first;  // the first of them: metadata, tensors
  bool same() const { return count == 0; }
};

// Compares tensors by name, in any order. Values are compared if the shapes are
// equal. F16 and BF16 are compared as float32, also with another of these
// types. kCorruption if a file is damaged.
Status CompareFiles(const std::string& path_a, const std::string& path_b,
                    FileComparison* comparison,
                    size_t most_listed = FileComparison::kMaxListed,
                    FileSystem* files = PosixFiles());
std::string ToText(const FileComparison& comparison);
std::string ToJson(const FileComparison& comparison);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_INSPECT_H_
