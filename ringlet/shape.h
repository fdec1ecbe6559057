// Shapes and element types, and the named spans of state that are saved.

#ifndef RINGLET_SHAPE_H_
#define RINGLET_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "status.h"

namespace ringlet {

// --- shapes ------------------------------------------------------------------

enum class DType : uint8_t { kFloat32, kUint8, kInt32, kInt64, kFloat64 };

constexpr size_t SizeOf(DType dtype) {
  return dtype == DType::kUint8                               ? 1
         : dtype == DType::kInt64 || dtype == DType::kFloat64 ? 8
                                                              : 4;
}

// How a resized image computes its new pixels from the pixels of the image.
enum class Interpolation : uint8_t { kNearest, kBilinear, kArea };

// At most eight dimensions. An example's shape omits the batch, as in Keras.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) {
    for (int64_t d : dims) Append(d);
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  int64_t back() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  void Append(int64_t dim);  // aborts if there are kMaxRank already

  // The product of the dimensions; 1 for a scalar.
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }

  bool operator==(const Shape& other) const;
  bool operator!=(const Shape& other) const { return !(*this == other); }

  // "(28, 28, 1)"; "(10,)"; "()".
  std::string ToString() const;

 private:
  int rank_ = 0;
  int64_t dims_[kMaxRank] = {};
};

// --- state -------------------------------------------------------------------

class Collective;

// One tensor of state. `data` has bytes() bytes in native byte order, until its
// owner changes its shape or is destroyed.
struct StateSpan {
  std::string name;  // "model/dense/kernel", "callback/early_stopping/wait"
  DType dtype = DType::kFloat32;
  Shape shape;
  void* data = nullptr;
  bool optional = false;  // becomes zeros if a file lacks it
  size_t bytes() const {
    return SizeOf(dtype) * static_cast<size_t>(shape.elements());
  }
};

// A span's type in a file, little-endian. kF16 and kBF16 are float32 in memory.
enum class Storage : uint8_t { kF32, kF64, kI32, kI64, kU8, kF16, kBF16 };

// The entries of a file besides its spans: a text by each name.
using Metadata = std::map<std::string, std::string>;

// Named spans of state that a checkpoint can have.
class Saveable {
 public:
  virtual ~Saveable() = default;
  // Appends the spans, in a fixed order with fixed shapes.
  virtual void AppendState(std::vector<StateSpan>* spans) = 0;
  // Checks and applies the values of a file, once they are in the spans.
  virtual Status StateLoaded() { return Status(); }
};

// All ranks get the state of rank `root`. Names, shapes and order must be equal
// on all ranks. After an error a rank's state may be mixed.
Status BroadcastState(Collective* collective,
                      const std::vector<Saveable*>& state, int root);

}  // namespace ringlet

#endif  // RINGLET_SHAPE_H_
