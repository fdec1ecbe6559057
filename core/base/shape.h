// Shapes and element types.
//
// Public. A Shape is a plain value of at most eight dimensions. Where a layer
// or a data set speaks of the shape of one example, the batch dimension is left
// out, as in Keras's Input(shape).

#ifndef RINGLET_CORE_BASE_SHAPE_H_
#define RINGLET_CORE_BASE_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace ringlet {

enum class DType : uint8_t { kFloat32, kUint8, kInt32, kInt64, kFloat64 };

constexpr size_t SizeOf(DType dtype) {
  return dtype == DType::kUint8                               ? 1
         : dtype == DType::kInt64 || dtype == DType::kFloat64 ? 8
                                                              : 4;
}

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
  void Append(int64_t dim);  // aborts where there are kMaxRank already

  // The product of the dimensions; 1 for a scalar.
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }

  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i) {
      if (dims_[i] != other.dims_[i]) return false;
    }
    return true;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

  // "(28, 28, 1)"; "(10,)"; "()".
  std::string ToString() const {
    std::string s = "(";
    for (int i = 0; i < rank_; ++i) {
      s += std::to_string(dims_[i]);
      if (i + 1 < rank_) s += ", ";
    }
    return s + (rank_ == 1 ? ",)" : ")");
  }

 private:
  int rank_ = 0;
  int64_t dims_[kMaxRank] = {};
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_SHAPE_H_
