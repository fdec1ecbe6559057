// A norm is summed in double by one thread, in the order of the weight's
// elements, so all workers get the same bits.

#include "constraints.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "../base/number_text.h"

namespace ringlet {
namespace {

constexpr double kNormEpsilon = 1e-7;  // as in Keras
constexpr int64_t kNormsAtOnce = 64;   // norms that are computed together

Constraint MakeConstraint(Constraint::Kind kind,
                          const std::vector<int64_t>& axis) {
  Constraint constraint;
  constraint.kind = kind;
  constraint.axis = axis;
  return constraint;
}

// Returns a set of axes, a bit for each.
uint32_t SummedAxes(const Constraint& constraint, const Shape& shape) {
  if (constraint.axis.empty()) return (uint32_t{1} << shape.rank()) - 1;
  uint32_t axes = 0;
  for (const int64_t axis : constraint.axis) {
    axes |= uint32_t{1} << (axis < 0 ? axis + shape.rank() : axis);
  }
  return axes;
}

// Visits the indices of some axes in order. After the last follows the first.
class AxisIterator {
 public:
  AxisIterator(const Shape& shape, uint32_t axes) {
    int64_t stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      if ((axes >> i & 1) != 0) {
        sizes_[axes_] = shape[i];
        strides_[axes_++] = stride;
        count_ *= shape[i];
      }
      stride *= shape[i];
    }
  }
  int64_t count() const { return count_; }
  int64_t offset() const { return offset_; }  // in floats
  void Next() {
    for (int i = 0; i < axes_; ++i) {
      offset_ += strides_[i];
      if (++at_[i] < sizes_[i]) return;
      offset_ -= strides_[i] * sizes_[i];
      at_[i] = 0;
    }
  }

 private:
  int axes_ = 0;  // the last axis first
  int64_t sizes_[Shape::kMaxRank] = {}, strides_[Shape::kMaxRank] = {};
  int64_t at_[Shape::kMaxRank] = {};
  int64_t count_ = 1, offset_ = 0;
};

// The factor of weights of this norm.
double FactorOf(const Constraint& c, double norm) {
  double desired = 1;
  if (c.kind != Constraint::Kind::kUnitNorm) {
    // NaN stays NaN, which std::clamp does not promise.
    const double high = norm > double{c.max_value} ? double{c.max_value} : norm;
    const double low = high < double{c.min_value} ? double{c.min_value} : high;
    const double rate = double{c.rate};
    desired = rate == 1 ? low : rate * low + (1 - rate) * norm;
  }
  return desired / (kNormEpsilon + norm);
}

// Scales `n` neighbouring columns; `rows` visits their elements.
void ScaleColumns(const Constraint& c, AxisIterator* rows, int64_t n,
                  float* weights) {
  double sums[kNormsAtOnce] = {};
  for (int64_t r = 0; r < rows->count(); ++r, rows->Next()) {
    const float* const row = weights + rows->offset();
    for (int64_t j = 0; j < n; ++j) sums[j] += double{row[j]} * double{row[j]};
  }
  for (int64_t j = 0; j < n; ++j) sums[j] = FactorOf(c, std::sqrt(sums[j]));
  for (int64_t r = 0; r < rows->count(); ++r, rows->Next()) {
    float* const row = weights + rows->offset();
    for (int64_t j = 0; j < n; ++j) {
      row[j] = static_cast<float>(row[j] * sums[j]);
    }
  }
}

// Columns are the trailing axes that are not summed, as one axis. It is cut
// into pieces of kNormsAtOnce columns, and the threads divide the pieces.
void ScaleNorms(const Constraint& c, const Shape& shape, ThreadPool* pool,
                float* weights) {
  const uint32_t summed = SummedAxes(c, shape);
  int last = shape.rank();
  int64_t columns = 1;
  while (last > 0 && (summed >> (last - 1) & 1) == 0) columns *= shape[--last];
  const uint32_t kept = ~summed & ((uint32_t{1} << last) - 1);
  const int64_t pieces = (columns + kNormsAtOnce - 1) / kNormsAtOnce;
  const int64_t all = AxisIterator(shape, kept).count() * pieces;
  pool->Run([&](int t) {
    const Range part = Split(all, pool->threads(), t);
    AxisIterator blocks(shape, kept), rows(shape, summed);
    for (int64_t i = 0; i < part.end; ++i) {
      const int64_t from = i % pieces * kNormsAtOnce;
      if (i >= part.begin) {
        ScaleColumns(c, &rows, std::min(kNormsAtOnce, columns - from),
                     weights + blocks.offset() + from);
      }
      if (from + kNormsAtOnce >= columns) blocks.Next();
    }
  });
}

}  // namespace

Constraint MaxNorm(float max_value, const std::vector<int64_t>& axis) {
  Constraint constraint = MakeConstraint(Constraint::Kind::kMaxNorm, axis);
  constraint.max_value = max_value;
  return constraint;
}
Constraint NonNeg() { return MakeConstraint(Constraint::Kind::kNonNeg, {}); }
Constraint UnitNorm(const std::vector<int64_t>& axis) {
  return MakeConstraint(Constraint::Kind::kUnitNorm, axis);
}
Constraint MinMaxNorm(float min_value, float max_value, float rate,
                      const std::vector<int64_t>& axis) {
  Constraint constraint = MakeConstraint(Constraint::Kind::kMinMaxNorm, axis);
  constraint.min_value = min_value;
  constraint.max_value = max_value;
  constraint.rate = rate;
  return constraint;
}

Status CheckConstraint(const Constraint& c, const Shape& shape) {
  if (c.empty()) return Status();
  const char* const name = ConstraintName(c.kind);
  if (!(c.min_value >= 0 && c.max_value >= c.min_value &&
        std::isfinite(c.max_value))) {
    return InvalidArgument(
        "the constraint %s needs 0 <= min_value <= max_value, not %g and %g",
        name, c.min_value, c.max_value);
  }
  if (!(c.rate >= 0 && c.rate <= 1)) {
    return InvalidArgument("the constraint %s has the rate %g, not 0 to 1",
                           name, c.rate);
  }
  for (const int64_t axis : c.axis) {
    if (axis >= -shape.rank() && axis < shape.rank()) continue;
    return InvalidArgument("the constraint %s has the axis %" PRId64
                           ", but the weight's shape is %s",
                           name, axis, shape.ToString().c_str());
  }
  return Status();
}

void Constrain(const Constraint& c, const Shape& shape, ThreadPool* pool,
               float* weights) {
  if (c.empty()) return;
  if (c.kind != Constraint::Kind::kNonNeg)
    return ScaleNorms(c, shape, pool, weights);
  pool->Run([&](int t) {
    const Range part = Split(shape.elements(), pool->threads(), t, 1024);
    for (int64_t i = part.begin; i < part.end; ++i) {
      if (weights[i] < 0) weights[i] = 0;
    }
  });
}

const char* ConstraintName(Constraint::Kind kind) {
  switch (kind) {
    case Constraint::Kind::kNone:
      break;
    case Constraint::Kind::kMaxNorm:
      return "MaxNorm";
    case Constraint::Kind::kNonNeg:
      return "NonNeg";
    case Constraint::Kind::kUnitNorm:
      return "UnitNorm";
    case Constraint::Kind::kMinMaxNorm:
      return "MinMaxNorm";
  }
  return "none";
}

std::string ConstraintText(const Constraint& c) {
  if (c.empty()) return "";
  std::string text = ConstraintName(c.kind);
  if (c.kind == Constraint::Kind::kNonNeg) return text;
  if (c.kind == Constraint::Kind::kMinMaxNorm) {
    text +=
        " min " + ShortestText(c.min_value) + " rate " + ShortestText(c.rate);
  }
  if (c.kind != Constraint::Kind::kUnitNorm)
    text += " max " + ShortestText(c.max_value);
  text += " axis";
  for (const int64_t axis : c.axis) text += " " + std::to_string(axis);
  return c.axis.empty() ? text + " all" : text;
}

}  // namespace ringlet
