// A thread or the caller reads a part, and the caller then converts it into the
// only buffer. While a batch is wanted_ the thread owns the read data (cursor_,
// read_cursor_, plan_, indices_, raw_x_, raw_y_, has_rewound_, skipped_,
// result_). Otherwise the caller owns them. The mutex is held only to hand them
// over. After an error no batch is wanted. buffer_ and ahead_ always belong to
// the thread, if there is one.

#include "dataset_loader.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <utility>

#include "../base/check.h"
#include "../base/events.h"
#include "../base/guarded.h"
#include "../base/ieee_arithmetic.h"
#include "../compute/convert.h"
#include "dataset_parts.h"
#include "input_shapes.h"
#include "replica_streams.h"
#include "value_at.h"

namespace ringlet {
namespace {

// "input 2 of ", if there are several.
std::string PartName(const char* kind, size_t i, size_t count) {
  if (count == 1) return "";
  return std::string(kind) + " " + std::to_string(i + 1) + " of ";
}

// As in Keras 3, one of the two shapes may have an additional last axis of 1.
// It does not change the values.
bool Fits(const Shape& shape, const Shape& expected) {
  const Shape& longer = shape.rank() > expected.rank() ? shape : expected;
  const Shape& shorter = shape.rank() > expected.rank() ? expected : shape;
  if (longer.rank() - shorter.rank() > 1) return false;
  for (int i = 0; i < longer.rank(); ++i) {
    if (longer[i] != (i < shorter.rank() ? shorter[i] : 1)) return false;
  }
  return true;
}

}  // namespace

Status CheckInputShapes(const Source& source,
                        const std::vector<Shape>& shapes) {
  const std::string name = source.name();
  const std::vector<ExampleSpec> inputs = source.Inputs();
  const size_t count = shapes.size();
  int64_t elements = 0;
  for (const Shape& shape : shapes) elements += shape.elements();
  if (count > 1 && inputs.size() == 1 && source.x().shape == Shape{elements}) {
    return Status();
  }
  if (inputs.size() != count) {
    return InvalidArgument(
        "%s: examples of %zu input%s, but the model takes %zu; give each its "
        "values (in RUN.json \"x\" is a list of files then, in C++ Zip)",
        name.c_str(), inputs.size(), inputs.size() == 1 ? "" : "s", count);
  }
  for (size_t i = 0; i < count; ++i) {
    if (Fits(inputs[i].shape, shapes[i])) continue;
    return InvalidArgument(
        "%s%s: examples of shape %s, but the model takes %s; change its Input",
        PartName("input", i, count).c_str(), name.c_str(),
        inputs[i].shape.ToString().c_str(), shapes[i].ToString().c_str());
  }
  return Status();
}

namespace {

Status CheckTargets(const DatasetLoader::Options& o, const Source& source) {
  const std::vector<ExampleSpec> specs = source.Targets();
  const std::string name = source.y_name();
  const size_t count = o.outputs.size();
  int64_t all = 0;
  for (const DatasetLoader::TargetsOf& t : o.outputs) all += t.count;
  if (count > 1 && specs.size() == 1 && specs[0].shape.elements() == all) {
    return Status();
  }
  if (specs.size() != count) {
    return InvalidArgument(
        "%s: labels of %zu output%s, but %zu of the model's have a loss; give "
        "each its labels (in RUN.json \"y\" is a list of files then, in C++ "
        "Zip)",
        name.c_str(), specs.size(), specs.size() == 1 ? "" : "s", count);
  }
  for (size_t i = 0; i < count; ++i) {
    const DatasetLoader::TargetsOf& expected = o.outputs[i];
    const int64_t targets = specs[i].shape.elements();
    if (targets == expected.count) continue;
    return InvalidArgument(
        "%s%s: labels of shape %s (%" PRId64
        " values), but the model's loss takes %" PRId64 " an example%s",
        PartName("target", i, count).c_str(), name.c_str(),
        specs[i].shape.ToString().c_str(), targets, expected.count,
        targets == 1 && !expected.classes && expected.count > 1
            ? "; for class numbers use SparseCategoricalCrossentropy"
            : "");
  }
  return Status();
}

Status CheckWeights(const DatasetLoader::Options& o) {
  const int64_t weights_per_example = o.dataset.parts().weights_per_example;
  for (size_t i = 0; weights_per_example > 1 && i < o.outputs.size(); ++i) {
    const int64_t rows = o.outputs[i].rows;
    if (weights_per_example == rows) continue;
    return InvalidArgument(
        "%s: sample weights of %" PRId64
        " numbers an example, but output %zu of the model's loss has %" PRId64
        " row%s (steps) an example; give one number an example%s",
        o.dataset.source()->name().c_str(), weights_per_example, i, rows,
        rows == 1 ? "" : "s", rows == 1 ? "" : ", or one for each row");
  }
  return Status();
}

Status CheckOptions(const DatasetLoader::Options& o) {
  RINGLET_RETURN_IF_ERROR(
      o.dataset.parts().CheckStart(o.start, o.cursor.world));
  const BatchCursor::Options& cursor = o.cursor;
  if (o.dataset.parts().HasReplicaStreams(cursor.world)) {
    RINGLET_RETURN_IF_ERROR(ReplicaStreams(o.dataset.parts(), cursor.world)
                                .CheckOwnExamples(cursor.rank, cursor.parts));
  }
  const Source& source = *o.dataset.source();
  const std::string name = source.name();
  RINGLET_RETURN_IF_ERROR(CheckInputShapes(source, o.x_shapes));
  if (o.read_targets) {
    RINGLET_RETURN_IF_ERROR(CheckTargets(o, source));
    RINGLET_RETURN_IF_ERROR(CheckWeights(o));
  }
  if (o.class_weight.empty() || o.dataset.parts().weights == nullptr) {
    return Status();
  }
  return InvalidArgument(
      "%s: class_weight and sample_weight cannot be used at the same time",
      name.c_str());
}

}  // namespace

Status DatasetLoader::Open(const Options& options,
                           std::unique_ptr<BatchLoader>* loader) {
  RINGLET_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<DatasetLoader> opened(new DatasetLoader(options));
  if (options.background) {
    DatasetLoader* const raw = opened.get();
    opened->wanted_ = true;
    opened->thread_ = std::make_unique<Thread>();
    RINGLET_RETURN_IF_ERROR(opened->thread_->Start("for reading batches ahead",
                                                   [raw] { raw->Loop(); }));
  }
  *loader = std::move(opened);
  return Status();
}

DatasetLoader::DatasetLoader(const Options& options)
    : options_(options),
      x_spec_(options.dataset.source()->x()),
      y_spec_(options.dataset.source()->y()),
      cursor_(options.start, options_.cursor),
      read_cursor_(cursor_),
      batch_cursor_(cursor_),
      ahead_(cursor_) {
  const auto max_examples = static_cast<size_t>(
      options.dataset.parts().LargestPart(options.cursor.world));
  indices_.resize(max_examples);
  if (options.read_examples &&
      (options.background || x_spec_.dtype != DType::kFloat32 ||
       options.x_shapes.size() > 1)) {
    raw_x_.resize(max_examples * x_spec_.bytes());
  }
  if (options.read_targets) raw_y_.resize(max_examples * y_spec_.bytes());
  const bool weighted =
      options.read_targets && (options.dataset.parts().weights != nullptr ||
                               !options.class_weight.empty());
  const int64_t weights_per_example =
      options.dataset.parts().weights_per_example;
  if (weighted)
    weights_.resize(max_examples * static_cast<size_t>(weights_per_example));
}

DatasetLoader::~DatasetLoader() {
  if (thread_ == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_->Join();
}

void DatasetLoader::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    for (bool reading = buffer_ != nullptr; reading && !stop_ && !wanted_;) {
      lock.unlock();
      reading = buffer_->ReadAhead();
      lock.lock();
    }
    changed_.wait(lock, [this] { return stop_ || wanted_; });
    if (stop_) return;
    lock.unlock();
    const Status result = Read();
    lock.lock();
    result_ = result;
    wanted_ = false;
    changed_.notify_all();
  }
}

// The source reads in the same floating-point mode as in the background thread.
Status DatasetLoader::Next(Batch* batch) {
  const IeeeArithmetic ieee;
  const PartTimer timer(EventSink::kRead);
  if (!options_.background) {
    if (result_.ok()) result_ = Read();
  } else {
    std::unique_lock<std::mutex> lock(mutex_);
    if (at_end_) {
      wanted_ = true;
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return !wanted_; });
  }
  if (result_.ok()) result_ = Convert();
  RINGLET_RETURN_IF_ERROR(result_);
  *batch = batch_;
  if (!options_.background) return Status();
  std::lock_guard<std::mutex> lock(mutex_);
  at_end_ = cursor_.at_end();
  wanted_ = !at_end_;
  changed_.notify_all();
  return Status();
}

// Reads in the types of the source. Reads x in place if it is float32 and no
// batch is read in advance.
Status DatasetLoader::Read() {
  read_cursor_ = cursor_;
  plan_ = cursor_.Plan(options_.dataset);
  cursor_.Examples(options_.dataset, plan_, indices_.data());
  void* x = nullptr;
  if (options_.read_examples) {
    x = raw_x_.empty() ? static_cast<void*>(options_.x) : raw_x_.data();
  }
  void* const y = options_.read_targets ? raw_y_.data() : nullptr;
  RINGLET_RETURN_IF_ERROR(ReadExamples(x, y));
  if (options_.augments && x != nullptr) {
    RINGLET_RETURN_IF_ERROR(CallAugment(options_.dataset.source().get(),
                                        cursor_.at(), indices_.data(),
                                        static_cast<int>(plan_.count), x));
  }
  cursor_.Advance(plan_);
  return Status();
}

Status DatasetLoader::Convert() {
  float* const x = options_.read_examples ? options_.x : nullptr;
  void* const y = options_.read_targets ? options_.y : nullptr;
  if (x != nullptr) {
    RINGLET_RETURN_IF_ERROR(options_.x_shapes.size() > 1
                                ? ConvertInputs(plan_.count, x)
                                : ConvertX(plan_.count, x));
  }
  if (y != nullptr) RINGLET_RETURN_IF_ERROR(ConvertTargets(plan_.count, y));
  FillWeights(plan_.count, y);
  ExampleWeights weights;
  if (!weights_.empty()) {
    weights = {weights_.data(), options_.dataset.parts().weights_per_example};
  }
  batch_ = {plan_.count, plan_.global_count, x,         y,
            weights,     plan_.next,         plan_.last};
  batch_cursor_ = read_cursor_;
  return Status();
}

// Returns the class as Keras's class_weight_to_sample_weights finds it: the
// number nearest to a single value, or the index of the largest of several.
int64_t DatasetLoader::ClassOf(const void* y, int64_t i) const {
  const TargetsOf& targets = options_.outputs[0];
  if (targets.classes) return static_cast<const int32_t*>(y)[i];
  const int64_t n = targets.count;
  const float* const t = static_cast<const float*>(y) + i * n;
  if (n > 1) return std::max_element(t, t + n) - t;
  const double nearest = std::nearbyint(double{t[0]});
  return std::fabs(nearest) < 1e9 ? static_cast<int64_t>(nearest) : -1;
}

void DatasetLoader::FillWeights(int64_t count, const void* y) {
  std::vector<float>& weights = weights_;
  if (weights.empty()) return;
  const std::vector<float>* const own = options_.dataset.parts().weights.get();
  const int64_t weights_per_example =
      options_.dataset.parts().weights_per_example;
  for (int64_t i = 0; i < count; ++i) {
    const auto slot = static_cast<size_t>(i);
    if (own != nullptr) {
      std::copy_n(own->begin() + indices_[slot] * weights_per_example,
                  weights_per_example,
                  weights.begin() + i * weights_per_example);
      continue;
    }
    const auto found = options_.class_weight.find(ClassOf(y, i));
    weights[slot] = found == options_.class_weight.end() ? 1 : found->second;
  }
}

Status DatasetLoader::ConvertX(int64_t count, float* x) {
  const Scale& scale = options_.dataset.scale();
  const float factor = scale.factor, offset = scale.offset;
  const int64_t size = x_spec_.shape.elements(), n = count * size;
  // The common types have vector loops. A scale is monotone, so if both ends of
  // the bytes stay finite all values do. Floats with a NaN go through the loop
  // below, which finds it.
  const unsigned char* const raw = raw_x_.data();
  if (x_spec_.dtype == DType::kUint8 && std::isfinite(0 * factor + offset) &&
      std::isfinite(255 * factor + offset)) {
    BytesToFloats(raw, n, factor, offset, x);
    return Status();
  }
  if (x_spec_.dtype == DType::kFloat32 && !raw_x_.empty() &&
      ScaleFloats(raw, n, factor, offset, x)) {
    return Status();
  }
  for (int64_t i = 0; i < n; ++i) {
    const double value =
        raw_x_.empty() ? double{x[i]} : ValueAt(x_spec_.dtype, raw, i);
    x[i] = static_cast<float>(value) * factor + offset;
    if (std::isfinite(x[i])) continue;
    return CheckValue(value, x[i], i / size, i % size);
  }
  return Status();
}

Status DatasetLoader::CheckValue(double value, float scaled, int64_t example,
                                 int64_t number) const {
  if (std::isfinite(scaled)) return Status();
  const Scale& scale = options_.dataset.scale();
  const std::string name = options_.dataset.source()->name();
  if (!std::isfinite(value)) {
    return Corruption("%s: example %" PRId64 ", value %" PRId64
                      " is %f; remove or replace it",
                      name.c_str(), indices_[example], number, value);
  }
  return Corruption(
      "%s: example %" PRId64 ", value %" PRId64
      " is %g, which times %g plus %g is not a finite float32; remove "
      "or replace it, or correct the scale",
      name.c_str(), indices_[example], number, value, double{scale.factor},
      double{scale.offset});
}

// Converts rows of all inputs' values to the rows of each input.
Status DatasetLoader::ConvertInputs(int64_t count, float* x) {
  const Scale& scale = options_.dataset.scale();
  const int64_t row = x_spec_.shape.elements();
  int64_t first = 0;
  for (const Shape& shape : options_.x_shapes) {
    const int64_t size = shape.elements();
    for (int64_t example = 0; example < count; ++example) {
      for (int64_t i = first; i < first + size; ++i, ++x) {
        const double value =
            ValueAt(x_spec_.dtype, raw_x_.data(), example * row + i);
        *x = static_cast<float>(value) * scale.factor + scale.offset;
        RINGLET_RETURN_IF_ERROR(CheckValue(value, *x, example, i));
      }
    }
    first += size;
  }
  return Status();
}

// Converts the targets of each output.
Status DatasetLoader::ConvertTargets(int64_t count, void* y) {
  int64_t first = 0;
  for (const TargetsOf& targets : options_.outputs) {
    RINGLET_RETURN_IF_ERROR(ConvertTargets(
        targets, first, count, static_cast<float*>(y) + first * count));
    first += targets.count;
  }
  return Status();
}

Status DatasetLoader::ConvertTargets(const TargetsOf& targets, int64_t first,
                                     int64_t count, void* y) {
  const int64_t size = targets.count, row = y_spec_.shape.elements();
  const auto where = [&](int64_t i) {
    return options_.dataset.source()->y_name() + ": example " +
           std::to_string(indices_[i / size]);
  };
  if (y_spec_.dtype == DType::kFloat32 && !targets.classes && size == row &&
      ScaleFloats(raw_y_.data(), count * size, 1, -0.0f,
                  static_cast<float*>(y))) {
    return Status();
  }
  for (int64_t i = 0; i < count * size; ++i) {
    const double value = ValueAt(y_spec_.dtype, raw_y_.data(),
                                 i / size * row + first + i % size);
    if (!targets.classes) {
      const float target = static_cast<float>(value);
      if (!std::isfinite(target)) {
        return Corruption("%s: target %g (value %" PRId64
                          ") is not a finite float32; remove or replace it",
                          where(i).c_str(), value, first + i % size);
      }
      static_cast<float*>(y)[i] = target;
      continue;
    }
    const double limit = targets.num_classes > 0
                             ? static_cast<double>(targets.num_classes)
                             : 2147483648.0;
    const bool ignored = targets.ignore_class && value == *targets.ignore_class;
    if (!ignored &&
        (!(value >= 0 && value < limit) || value != std::floor(value))) {
      return Corruption(
          "%s: label %g is not a class number from 0 to %.0f; give the "
          "model's last layer more units, correct the labels, or leave them "
          "out by the loss's ignore_class",
          where(i).c_str(), value, limit - 1);
    }
    static_cast<int32_t*>(y)[i] = static_cast<int32_t>(value);
  }
  return Status();
}

}  // namespace ringlet
