// ArraySource: examples from two arrays, x and y. Each is in memory, or stays
// in its file.

#ifndef RINGLET_IO_READERS_ARRAYS_ARRAY_SOURCE_H_
#define RINGLET_IO_READERS_ARRAYS_ARRAY_SOURCE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../../core/base/crc32c.h"
#include "../../../core/data/element_types.h"
#include "../../files/file_system.h"
#include "../../files/path.h"
#include "array_on_disk.h"
#include "ringlet/dataset.h"

namespace ringlet {

// The shape of one example: the array's shape without its first dimension.
inline Shape ExampleShape(const Shape& shape) {
  Shape rest;
  for (int i = 1; i < shape.rank(); ++i) rest.Append(shape[i]);
  return rest;
}

// An array of examples of type and shape `spec`, in memory or in a file.
struct ExampleArray {
  std::string name;  // the file's path
  ExampleSpec spec;
  std::vector<unsigned char> data;
  std::shared_ptr<ArrayOnDisk> on_disk = nullptr;  // null if `data` has them

  Status Copy(const int64_t* index, int count, void* to) const {
    if (on_disk != nullptr) return on_disk->Read(index, count, to);
    const size_t bytes = spec.bytes();
    for (int i = 0; i < count && bytes > 0; ++i) {
      std::memcpy(static_cast<unsigned char*>(to) + bytes * i,
                  data.data() + bytes * static_cast<size_t>(index[i]), bytes);
    }
    return Status();
  }
  // The least and the largest number; see Source::XRange.
  bool Range(double* least, double* largest) const;
  // Source::Digest.
  std::optional<uint64_t> Digest() const {
    if (on_disk != nullptr) return on_disk->digest();
    return Crc32c(data.data(), data.size());
  }
};

template <typename T>
bool FindRange(const std::vector<unsigned char>& data, double* least,
               double* largest) {
  T low{}, high{};
  for (size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return false;
    }
    low = at == 0 || value < low ? value : low;
    high = at == 0 || value > high ? value : high;
  }
  *least = static_cast<double>(low);
  *largest = static_cast<double>(high);
  return true;
}

inline bool ExampleArray::Range(double* least, double* largest) const {
  if (on_disk != nullptr && spec.dtype != DType::kUint8) return false;
  if (spec.dtype == DType::kUint8) {
    *least = 0;
    *largest = 255;
    return true;
  }
  bool known = false;
  WithType(spec.dtype, [&](auto* type) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    known = FindRange<T>(data, least, largest);
  });
  return known;
}

// Returns an error if the two files have different numbers of examples.
inline Status CheckPair(const std::string& x, int64_t x_count,
                        const std::string& y, int64_t y_count) {
  if (x_count == y_count) return Status();
  return InvalidArgument(
      "%s has %lld examples, but %s has %lld labels; they are not of one set",
      x.c_str(), static_cast<long long>(x_count), y.c_str(),
      static_cast<long long>(y_count));
}

class ArraySource final : public Source {
 public:
  ArraySource(int64_t size, ExampleArray x, ExampleArray y,
              std::vector<std::string> class_names = {})
      : size_(size),
        x_(std::move(x)),
        y_(std::move(y)),
        class_names_(std::move(class_names)) {}

  int64_t size() const override { return size_; }
  ExampleSpec x() const override { return x_.spec; }
  ExampleSpec y() const override { return y_.spec; }
  std::string name() const override { return FileNameOf(x_.name); }
  std::string y_name() const override { return FileNameOf(y_.name); }
  DataDescription Description() const override {
    DataDescription arrays;
    arrays.classes = class_names_;
    return arrays;
  }
  bool XRange(double* least, double* largest) const override {
    return x_.Range(least, largest);
  }
  std::optional<uint64_t> Digest() const override {
    const std::optional<uint64_t> x = x_.Digest(), y = y_.Digest();
    if (!x || !y) return std::nullopt;
    return *x << 32 | *y;
  }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    if (x != nullptr) RINGLET_RETURN_IF_ERROR(x_.Copy(index, count, x));
    return y == nullptr ? Status() : y_.Copy(index, count, y);
  }

 private:
  const int64_t size_;
  const ExampleArray x_, y_;
  const std::vector<std::string> class_names_;
};

// Returns an error if an array of this shape has no examples.
inline Status CheckHasExamples(const std::string& path, const Shape& shape) {
  if (shape.rank() > 0 && shape.elements() > 0) return Status();
  return InvalidArgument("%s: holds no examples", path.c_str());
}

// Makes the dataset of an array without labels.
inline Dataset WithoutLabels(int64_t size, ExampleArray array) {
  ExampleArray none = {array.name, {DType::kUint8, {0}}, {}, nullptr};
  return Dataset(
      std::make_shared<ArraySource>(size, std::move(array), std::move(none)));
}

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_ARRAYS_ARRAY_SOURCE_H_
