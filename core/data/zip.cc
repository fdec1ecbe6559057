// Several datasets of one set of examples as one Source. Values are scaled
// here, part by part, so the result has the scale 1. The scale is computed in
// float32, as the loader does, so an array alone and an array in a Zip give
// the same bits.

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "../base/fnv1a.h"
#include "../base/guarded.h"
#include "../base/text.h"
#include "dataset_parts.h"
#include "ringlet/dataset.h"
#include "value_at.h"

namespace ringlet {
namespace {

// A dataset in the Zip.
struct Part {
  std::shared_ptr<Source> source;
  Scale scale;
  ExampleSpec spec;
};

// Concatenates the parts as T, each scaled. A class number is exact in float64.
template <typename T>
class Row {
 public:
  explicit Row(const std::vector<Dataset>& datasets) {
    for (const Dataset& d : datasets) {
      parts_.push_back({d.source(), d.scale(), d.source()->x()});
      elements_ += parts_.back().spec.shape.elements();
      name_ += (name_.empty() ? "" : ", ") + d.source()->name();
    }
  }
  ExampleSpec spec() const {
    return {sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64, {elements_}};
  }
  std::vector<ExampleSpec> specs() const {
    std::vector<ExampleSpec> all;
    for (const Part& part : parts_) all.push_back(part.spec);
    return all;
  }
  const std::string& name() const { return name_; }
  // The source of the only part; null if there are several.
  const Source* only() const {
    return parts_.size() == 1 ? parts_[0].source.get() : nullptr;
  }

  Status Read(const int64_t* index, int count, T* to) {
    for (const Part& part : parts_) {
      const int64_t size = part.spec.shape.elements();
      raw_.resize(std::max(raw_.size(),
                           part.spec.bytes() * static_cast<size_t>(count)));
      RINGLET_RETURN_IF_ERROR(CallRead(part.source.get(), index, count,
                                       raw_.data(), /*y=*/nullptr));
      for (int64_t example = 0; example < count; ++example) {
        T* const row = to + example * elements_;
        for (int64_t i = 0; i < size; ++i) {
          row[i] = Scaled(
              part, ValueAt(part.spec.dtype, raw_.data(), example * size + i));
        }
      }
      to += size;
    }
    return Status();
  }

  // Adds the parts' digests; false if one is not known.
  bool AddDigests(Fnv1a* hash) const {
    for (const Part& part : parts_) {
      const std::optional<uint64_t> digest = part.source->Digest();
      if (!digest) return false;
      hash->Add(HexText(*digest));
    }
    return true;
  }

  bool Range(double* least, double* largest) const {
    for (size_t k = 0; k < parts_.size(); ++k) {
      double ends[2] = {};
      if (!parts_[k].source->XRange(&ends[0], &ends[1])) return false;
      for (size_t e = 0; e < 2; ++e) {
        const double end = static_cast<double>(Scaled(parts_[k], ends[e]));
        *least = k + e == 0 ? end : std::min(*least, end);
        *largest = k + e == 0 ? end : std::max(*largest, end);
      }
    }
    return true;
  }

 private:
  // Scales in float32, as the loader does.
  static T Scaled(const Part& part, double value) {
    if (part.scale.factor == 1 && part.scale.offset == 0) {
      return static_cast<T>(value);
    }
    return static_cast<float>(value) * part.scale.factor + part.scale.offset;
  }

  std::vector<Part> parts_;
  int64_t elements_ = 0;
  std::string name_;
  std::vector<unsigned char> raw_;
};

class ZippedSource final : public Source {
 public:
  ZippedSource(const std::vector<Dataset>& x, const std::vector<Dataset>& y)
      : size_(x[0].size()), x_(x), y_(y) {}
  int64_t size() const override { return size_; }
  ExampleSpec x() const override { return x_.spec(); }
  ExampleSpec y() const override { return y_.spec(); }
  std::vector<ExampleSpec> Inputs() const override { return x_.specs(); }
  std::vector<ExampleSpec> Targets() const override { return y_.specs(); }
  std::string name() const override { return x_.name(); }
  std::string y_name() const override { return y_.name(); }
  DataDescription Description() const override {
    DataDescription zipped;
    if (const Source* const only = x_.only()) {
      DataDescription x = only->Description();
      zipped.columns = std::move(x.columns);
      zipped.encoding = std::move(x.encoding);
    }
    return zipped;
  }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    // Two loaders may read ahead at the same time, for training and validation.
    // The rows have memory for one conversion.
    std::lock_guard<std::mutex> lock(mutex_);
    if (x != nullptr) {
      RINGLET_RETURN_IF_ERROR(x_.Read(index, count, static_cast<float*>(x)));
    }
    if (y == nullptr) return Status();
    return y_.Read(index, count, static_cast<double*>(y));
  }
  bool XRange(double* least, double* largest) const override {
    return x_.Range(least, largest);
  }
  std::optional<uint64_t> Digest() const override {
    Fnv1a hash;
    if (!x_.AddDigests(&hash) || !y_.AddDigests(&hash)) return std::nullopt;
    return hash.value();
  }

 private:
  const int64_t size_;
  std::mutex mutex_;
  Row<float> x_;
  Row<double> y_;
};

Status CheckPart(const Dataset& part, const Dataset& first) {
  RINGLET_RETURN_IF_ERROR(part.Batch(1).status());
  const std::string name = part.source()->name();
  const DatasetParts& d = part.parts();
  if (d.first != 0 || d.stride != 1 || d.ordered() ||
      d.size != part.source()->size() || d.weights != nullptr ||
      d.memory != 0) {
    return InvalidArgument(
        "%s: Zip takes datasets on which only Map was called; call other "
        "methods on its result",
        name.c_str());
  }
  if (part.source()->AugmentDigest() != 0) {
    return InvalidArgument(
        "%s: Zip leaves out background noise and shifts in time; give none",
        name.c_str());
  }
  if (part.size() == first.size()) return Status();
  return InvalidArgument(
      "%s has %lld examples, but %s has %lld; they are not of one set",
      first.source()->name().c_str(), static_cast<long long>(first.size()),
      name.c_str(), static_cast<long long>(part.size()));
}

}  // namespace

Dataset Zip(const std::vector<Dataset>& x, const std::vector<Dataset>& y) {
  if (x.empty()) {
    return Dataset(
        InvalidArgument("Zip: no inputs; give at least one dataset as x"));
  }
  for (const std::vector<Dataset>* list : {&x, &y}) {
    for (const Dataset& part : *list) {
      const Status fits = CheckPart(part, x[0]);
      if (!fits.ok()) return Dataset(fits);
    }
  }
  return Dataset(std::make_shared<ZippedSource>(x, y));
}

}  // namespace ringlet
