// Two slots of buffers: the caller holds one while a thread fills the other. At
// most one slot is wanted at a time (wanted_), so all the thread uses between
// two changes of wanted_ (at_, indices_, raw_x_, raw_y_, batches_[wanted_]) is
// its own, and the mutex is held only to hand a slot over. An error stays in
// its slot and no further one is wanted.

#include "batch_loader.h"

#include <cinttypes>
#include <cmath>
#include <cstring>
#include <utility>

#include "../base/guarded.h"

namespace ringlet {
namespace {

// A value of the source as a double; exact for every type but large int64.
double ValueAt(DType dtype, const unsigned char* raw, int64_t i) {
  switch (dtype) {
    case DType::kUint8:
      return raw[i];
    case DType::kInt32: {
      int32_t v;
      std::memcpy(&v, raw + 4 * i, 4);
      return v;
    }
    case DType::kInt64: {
      int64_t v;
      std::memcpy(&v, raw + 8 * i, 8);
      return static_cast<double>(v);
    }
    case DType::kFloat32: {
      float v;
      std::memcpy(&v, raw + 4 * i, 4);
      return v;
    }
    case DType::kFloat64: {
      double v;
      std::memcpy(&v, raw + 8 * i, 8);
      return v;
    }
  }
  return 0;
}

Status CheckOptions(const BatchLoader::Options& o) {
  RINGLET_RETURN_IF_ERROR(o.dataset.CheckStart(o.start, o.world));
  const Source& source = *o.dataset.source();
  const std::string name = source.name();
  if (source.x().shape != o.x_shape) {
    return InvalidArgument(
        "%s: examples of shape %s, but the model takes %s; change its Input",
        name.c_str(), source.x().shape.ToString().c_str(),
        o.x_shape.ToString().c_str());
  }
  const int64_t targets = source.y().shape.elements();
  if (o.read_targets && targets != o.targets) {
    return InvalidArgument(
        "%s: labels of shape %s (%" PRId64
        " values), but the model's loss takes %" PRId64 " an example%s",
        source.y_name().c_str(), source.y().shape.ToString().c_str(), targets,
        o.targets,
        targets == 1 && !o.classes && o.targets > 1
            ? "; for class numbers use SparseCategoricalCrossentropy"
            : "");
  }
  return Status();
}

}  // namespace

Status BatchLoader::Open(const Options& options,
                         std::unique_ptr<BatchLoader>* loader) {
  RINGLET_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<BatchLoader> opened(new BatchLoader(options));
  if (options.background) {
    BatchLoader* const raw = opened.get();
    opened->wanted_ = 0;
    RINGLET_RETURN_IF_ERROR(opened->thread_.Start("for reading batches ahead",
                                                  [raw] { raw->Loop(); }));
  }
  *loader = std::move(opened);
  return Status();
}

BatchLoader::BatchLoader(const Options& options)
    : options_(options),
      x_spec_(options.dataset.source()->x()),
      y_spec_(options.dataset.source()->y()),
      at_(options.start) {
  const size_t most =
      static_cast<size_t>(options.dataset.LargestPart(options.world));
  indices_.resize(most);
  if (options.read_examples && x_spec_.dtype != DType::kFloat32) {
    raw_x_.resize(most * x_spec_.bytes());
  }
  if (options.read_targets) raw_y_.resize(most * y_spec_.bytes());
}

BatchLoader::~BatchLoader() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.Join();
}

void BatchLoader::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || wanted_ >= 0; });
    if (stop_) return;
    const int slot = wanted_;
    lock.unlock();
    const Status result = Fill(slot);
    lock.lock();
    results_[slot] = result;
    wanted_ = -1;
    changed_.notify_all();
  }
}

Status BatchLoader::Next(Batch* batch) {
  const int slot = 1 - current_;
  if (!options_.background) {
    results_[slot] = Fill(slot);
    current_ = slot;
  } else {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return wanted_ < 0; });
    if (results_[slot].ok()) {
      wanted_ = current_;
      current_ = slot;
      changed_.notify_all();
    }
  }
  RINGLET_RETURN_IF_ERROR(results_[slot]);
  *batch = batches_[slot];
  return Status();
}

Status BatchLoader::Fill(int slot) {
  const Dataset& dataset = options_.dataset;
  const BatchPlan plan = dataset.Plan(at_, options_.rank, options_.world);
  for (int64_t i = 0; i < plan.count; ++i) {
    indices_[i] =
        dataset.ExampleAt(at_, plan.first + i, options_.rank, options_.world);
  }
  float* x = options_.read_examples ? options_.x[slot] : nullptr;
  void* to =
      x == nullptr || raw_x_.empty() ? static_cast<void*>(x) : raw_x_.data();
  RINGLET_RETURN_IF_ERROR(GuardedRead(
      dataset.source().get(), indices_.data(), static_cast<int>(plan.count), to,
      options_.read_targets ? raw_y_.data() : nullptr));
  if (x != nullptr) RINGLET_RETURN_IF_ERROR(ConvertX(plan.count, x));
  void* y = options_.read_targets ? options_.y[slot] : nullptr;
  if (y != nullptr) {
    RINGLET_RETURN_IF_ERROR(ConvertTargets(plan.count, y));
  }
  batches_[slot] = {plan.count, plan.global_count, x, y, plan.next, plan.last};
  at_ = plan.next;
  return Status();
}

Status BatchLoader::ConvertX(int64_t count, float* x) {
  const Scale& scale = options_.dataset.scale();
  const float factor = scale.factor, offset = scale.offset;
  const int64_t size = x_spec_.shape.elements(), n = count * size;
  // The common one: images. A scale is monotone, so its ends tell of all.
  if (x_spec_.dtype == DType::kUint8 && std::isfinite(0 * factor + offset) &&
      std::isfinite(255 * factor + offset)) {
    const unsigned char* raw = raw_x_.data();
    for (int64_t i = 0; i < n; ++i) {
      x[i] = static_cast<float>(raw[i]) * factor + offset;
    }
    return Status();
  }
  const unsigned char* raw = raw_x_.data();
  for (int64_t i = 0; i < n; ++i) {
    const double value =
        raw_x_.empty() ? double{x[i]} : ValueAt(x_spec_.dtype, raw, i);
    x[i] = static_cast<float>(value) * factor + offset;
    if (std::isfinite(x[i])) continue;
    const std::string name = options_.dataset.source()->name();
    if (!std::isfinite(value)) {
      return Corruption("%s: example %" PRId64 ", value %" PRId64
                        " is %f; remove or replace it",
                        name.c_str(), indices_[i / size], i % size, value);
    }
    return Corruption("%s: example %" PRId64 ", value %" PRId64
                      " is %g, which times %g plus %g is no float32; remove "
                      "or replace it, or mend the scale",
                      name.c_str(), indices_[i / size], i % size, value,
                      double{factor}, double{offset});
  }
  return Status();
}

Status BatchLoader::ConvertTargets(int64_t count, void* y) {
  const int64_t size = y_spec_.shape.elements();
  const auto where = [&](int64_t i) {
    return options_.dataset.source()->y_name() + ": example " +
           std::to_string(indices_[i / size]);
  };
  for (int64_t i = 0; i < count * size; ++i) {
    const double value = ValueAt(y_spec_.dtype, raw_y_.data(), i);
    if (!options_.classes) {
      const float target = static_cast<float>(value);
      if (!std::isfinite(target)) {
        return Corruption("%s: target %g (value %" PRId64
                          ") is no float32; remove or replace it",
                          where(i).c_str(), value, i % size);
      }
      static_cast<float*>(y)[i] = target;
      continue;
    }
    const double limit = options_.num_classes > 0
                             ? static_cast<double>(options_.num_classes)
                             : 2147483648.0;
    if (!(value >= 0 && value < limit) || value != std::floor(value)) {
      return Corruption(
          "%s: label %g is not a class number from 0 to %.0f; give the "
          "model's last layer more units or mend the labels",
          where(i).c_str(), value, limit - 1);
    }
    static_cast<int32_t*>(y)[i] = static_cast<int32_t>(value);
  }
  return Status();
}

}  // namespace ringlet
