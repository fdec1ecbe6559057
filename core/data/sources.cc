#include <algorithm>
#include <cstring>

#include "../base/guarded.h"
#include "ringlet/dataset.h"

namespace ringlet {
namespace {

class MemorySourceImpl final : public Source {
 public:
  MemorySourceImpl(const ExampleSpec& x_spec, const void* x,
                   const ExampleSpec& y_spec, const void* y, int64_t count)
      : x_spec_(x_spec),
        y_spec_(y_spec),
        x_(static_cast<const unsigned char*>(x)),
        y_(static_cast<const unsigned char*>(y)),
        count_(count) {
    if (y == nullptr) y_spec_ = {DType::kFloat32, {0}};
  }
  int64_t size() const override { return count_; }
  ExampleSpec x() const override { return x_spec_; }
  ExampleSpec y() const override { return y_spec_; }
  std::string name() const override { return "memory"; }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    if (x != nullptr) Copy(index, count, x_, x_spec_.bytes(), x);
    if (y_ != nullptr && y != nullptr) {
      Copy(index, count, y_, y_spec_.bytes(), y);
    }
    return Status();
  }

 private:
  static void Copy(const int64_t* index, int count, const unsigned char* from,
                   size_t bytes, void* to) {
    for (int i = 0; i < count; ++i) {
      std::memcpy(static_cast<unsigned char*>(to) + bytes * i,
                  from + bytes * static_cast<size_t>(index[i]), bytes);
    }
  }

  const ExampleSpec x_spec_;
  ExampleSpec y_spec_;
  const unsigned char* const x_;
  const unsigned char* const y_;
  const int64_t count_;
};

class ConcatenatedSource final : public Source {
 public:
  explicit ConcatenatedSource(const std::vector<std::shared_ptr<Source>>& parts)
      : parts_(parts) {
    for (const auto& part : parts) {
      starts_.push_back(size_);
      size_ += part->size();
    }
  }
  int64_t size() const override { return size_; }
  ExampleSpec x() const override { return parts_[0]->x(); }
  ExampleSpec y() const override { return parts_[0]->y(); }
  std::string name() const override { return parts_[0]->name() + ", …"; }
  std::string y_name() const override { return parts_[0]->y_name() + ", …"; }
  std::vector<int64_t> FileStarts() const override { return starts_; }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    for (int i = 0; i < count; ++i) {
      const auto after =
          std::upper_bound(starts_.begin(), starts_.end(), index[i]);
      const size_t part = static_cast<size_t>(after - starts_.begin()) - 1;
      const int64_t inner = index[i] - starts_[part];
      void* to_y = y == nullptr
                       ? nullptr
                       : static_cast<unsigned char*>(y) + this->y().bytes() * i;
      void* to_x = x == nullptr
                       ? nullptr
                       : static_cast<unsigned char*>(x) + this->x().bytes() * i;
      RINGLET_RETURN_IF_ERROR(
          CallRead(parts_[part].get(), &inner, 1, to_x, to_y));
    }
    return Status();
  }
  bool XRange(double* least, double* largest) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      double low = 0, high = 0;
      if (!parts_[i]->XRange(&low, &high)) return false;
      *least = i == 0 ? low : std::min(*least, low);
      *largest = i == 0 ? high : std::max(*largest, high);
    }
    return true;
  }

 private:
  const std::vector<std::shared_ptr<Source>> parts_;
  std::vector<int64_t> starts_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<Source> MemorySource(const ExampleSpec& x_spec, const void* x,
                                     const ExampleSpec& y_spec, const void* y,
                                     int64_t count) {
  return std::make_shared<MemorySourceImpl>(x_spec, x, y_spec, y, count);
}

Dataset Concatenate(const std::vector<std::shared_ptr<Source>>& sources) {
  if (sources.empty()) {
    return Dataset(
        InvalidArgument("Concatenate: no sources; give at least one"));
  }
  const ExampleSpec x = sources[0]->x(), y = sources[0]->y();
  for (const auto& s : sources) {
    if (s->AugmentDigest() != 0) {
      return Dataset(InvalidArgument(
          "Concatenate: %s has background noise or shifts in time, which would "
          "be left out; give none",
          s->name().c_str()));
    }
    if (s->x().dtype != x.dtype || s->x().shape != x.shape ||
        s->y().dtype != y.dtype || s->y().shape != y.shape) {
      return Dataset(
          InvalidArgument("Concatenate: %s and %s differ in type or shape",
                          sources[0]->name().c_str(), s->name().c_str()));
    }
  }
  return Dataset(std::make_shared<ConcatenatedSource>(sources));
}

}  // namespace ringlet
