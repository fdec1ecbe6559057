// Looking into files: what they hold, and how two differ.
//
// Internal to io/ and tools/. For safetensors files, of ringlet and plain ones,
// and for numpy's npz and npy; of files of another kind it is said what they
// are, by their bytes. Text is for people, one line a tensor, with control
// bytes shown as '?' and long metadata cut; JSON is for programs and holds all.
// One tensor is in memory at a time (of each file).

#ifndef RINGLET_IO_CHECKPOINT_INSPECT_H_
#define RINGLET_IO_CHECKPOINT_INSPECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/shape.h"
#include "../../core/base/status.h"
#include "../files/file_system.h"
#include "safetensors.h"

namespace ringlet {

struct TensorInfo {
  std::string name;
  Storage storage = Storage::kF32;
  Shape shape;
  bool damaged = false;  // its checksum differs; the rest is then not known
  // Of the elements that are finite; 0 where there are none.
  double min = 0, max = 0, mean = 0;
  int64_t not_finite = 0;  // how many are NaN or infinite
  // What the numbers alone do not tell: "the schedule CosineDecay" of a
  // learning rate of -1; "" where nothing.
  std::string note;
};

enum class Verification : uint8_t {
  kVerified,    // every byte, by checksums
  kUnverified,  // a plain file: it has none
  kDamaged,     // a checksum differs
};
const char* NameOf(Verification verification);  // "verified" …

struct FileInfo {
  std::string path;
  int64_t bytes = 0;    // of what is sealed, where it is
  bool sealed = false;  // and was opened with the key (SealedFiles)
  std::string format;   // "safetensors", "npz", "npy", or "keras", "csv" …
  // Of other formats than the first three: what it is, and what to do with it.
  std::string what, advice;
  Verification verification = Verification::kUnverified;
  std::string damage;  // the first; "" where none
  Metadata metadata;
  // Of a model's file: Keras's table of its layers, and in a line how it is
  // compiled ("" where it is not).
  std::string summary, compiled;
  std::vector<TensorInfo> tensors;  // in the order of their bytes
};

// A tensor that is damaged does not end it; a file that cannot be opened, whose
// header or footer is damaged, or of no known kind is an error.
Status InspectFile(const std::string& path, FileInfo* info,
                   FileSystem* files = FileSystem::Posix());
std::string ToText(const FileInfo& info);
std::string ToJson(const FileInfo& info);

// Of a saved model, from its header alone: FileInfo's `summary` and `compiled`.
Status SummarizeModelFile(const std::string& path, std::string* summary,
                          std::string* compiled,
                          FileSystem* files = FileSystem::Posix());

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
  std::string name;  // of the tensor, or the metadata's key
  std::string a, b;  // dtype, shape or metadata; "" where not there
  // kValues: elements whose bits differ, of how many, the first of them, and
  // the largest |a - b| (infinite where one alone is not a finite number).
  int64_t differing = 0, elements = 0, first = 0;
  double largest = 0;
};
const char* NameOf(FileDifference::Kind kind);  // "only in A" …

struct FileComparison {
  static constexpr size_t kMostListed = 20;
  std::string path_a, path_b;
  int64_t tensors_compared = 0;       // that both have
  int64_t count = 0;                  // of all differences
  std::vector<FileDifference> first;  // the first of them: metadata, tensors
  bool same() const { return count == 0; }
};

// Tensors by name, whatever their order. Values are compared where the shapes
// are equal, F16 and BF16 as float32, also where the dtype differs between
// these. kCorruption where a file is damaged.
Status CompareFiles(const std::string& path_a, const std::string& path_b,
                    FileComparison* comparison,
                    size_t most_listed = FileComparison::kMostListed,
                    FileSystem* files = FileSystem::Posix());
std::string ToText(const FileComparison& comparison);
std::string ToJson(const FileComparison& comparison);

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_INSPECT_H_
