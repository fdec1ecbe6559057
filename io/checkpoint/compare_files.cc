// Elements are equal if their bytes are, so -0 and 0 differ, and so do two
// NaNs with different bits. `largest` is by value: it may be 0 with differing
// elements. Both files come from elsewhere, so each tensor is checked by
// WeightsFile before its memory is taken.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/data/element_types.h"
#include "../weights/weights_file.h"
#include "inspect.h"

namespace ringlet {
namespace {

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
    return std::string(StorageName(tensor.storage)) + " " +
           tensor.shape.ToString();
  }

  // The tensor of `other` that corresponds to `name` of `file`. Files of other
  // programs have "dense/kernel" for "model/dense/kernel".
  static const StoredTensor* OtherOf(const WeightsFile& file,
                                     const std::string& name,
                                     const WeightsFile& other) {
    const StoredTensor* found = other.Find(name);
    if (found != nullptr || file.is_from_ringlet() == other.is_from_ringlet()) {
      return found;
    }
    if (!file.is_from_ringlet()) return other.Find(kWeightsPrefix + name);
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

  // Only safetensors files have metadata.
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
      Add(Kind::kDType, a.name, StorageName(a.storage), StorageName(b.storage));
    }
    if (a.shape != b.shape) {
      Add(Kind::kShape, a.name, a.shape.ToString(), b.shape.ToString());
      return Status();
    }
    const DType dtype = DTypeOf(a.storage);
    if (dtype != DTypeOf(b.storage)) return Status();
    WeightsFile::Elements elements_a, elements_b;
    RINGLET_RETURN_IF_ERROR(a_.Read(a, &elements_a));
    RINGLET_RETURN_IF_ERROR(b_.Read(b, &elements_b));
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

}  // namespace ringlet
