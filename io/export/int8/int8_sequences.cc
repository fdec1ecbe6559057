// Steps with float parameters: tokens, normalizations, attention, recurrences.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "int8_model.h"

namespace ringlet {

// --- constants ---------------------------------------------------------------

std::vector<int8_t> Int8Model::BytesOf(const float* values, int64_t count,
                                       const Quantization& q) const {
  std::vector<int8_t> bytes;
  for (int64_t i = 0; i < count; ++i) {
    const double y = std::floor(values[i] / q.scale + 0.5) + q.zero_point;
    bytes.push_back(static_cast<int8_t>(std::clamp(y, -128.0, 127.0)));
  }
  return bytes;
}

int Int8Model::AddFloats(std::vector<float> floats) {
  return PlaceIn(&floats_, std::move(floats));
}

int Int8Model::AddFloats(const Variable* v) {
  if (v == nullptr) return -1;
  const float* const first = FloatsOf(v);
  return AddFloats(std::vector<float>(first, first + v->size()));
}

void Int8Model::AddRows(const Variable* kernel, double x_scale, int* rows,
                        int* factors) {
  const float* const w = FloatsOf(kernel);
  const auto columns = static_cast<size_t>(kernel->shape[1]);
  const auto terms = static_cast<size_t>(kernel->shape[0]);
  std::vector<int8_t> all;
  std::vector<float> scales;
  for (size_t l = 0; l < columns; ++l) {
    std::vector<double> one;
    for (size_t k = 0; k < terms; ++k) {
      one.push_back(double{w[k * columns + l]});
    }
    const Int8Filter filter = MakeFilter(one, 0, x_scale);
    all.insert(all.end(), filter.weights.begin(), filter.weights.end());
    scales.push_back(static_cast<float>(filter.step * x_scale));
  }
  *rows = AddBytes(std::move(all));
  *factors = AddFloats(std::move(scales));
}

void Int8Model::AddInputScales() {
  for (int i = 0; i < num_inputs(); ++i) {
    const auto& scale = plain_.inputs[static_cast<size_t>(i)];
    if (scale.factors.empty()) continue;
    const Quantization& x = QuantizationOf(i);
    std::vector<float> factors, shifts;
    for (size_t c = 0; c < scale.factors.size(); ++c) {
      factors.push_back(static_cast<float>(scale.factors[c] / x.scale));
      shifts.push_back(
          static_cast<float>(scale.shifts[c] / x.scale + x.zero_point));
    }
    In& to = inputs_[static_cast<size_t>(i)];
    to.factors = AddFloats(std::move(factors));
    to.shifts = AddFloats(std::move(shifts));
  }
}

// --- primitives --------------------------------------------------------------

// Products with the slopes below 0.
void Int8Model::AddSlopes() {
  const Quantization &x = QuantizationOf(p_->inputs[0]),
                     &y = QuantizationOf(node_);
  const float* const slopes = FloatsOf(p_->slopes);
  const int64_t count = p_->slopes->size();
  Quantization of_slopes;
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(double{slopes[i]}));
  }
  if (largest > 0) of_slopes.scale = largest / 127;
  const Factors factors =
      FactorsOf({x.scale / y.scale, x.scale * of_slopes.scale / y.scale});
  Step step = NewStep(int8::kMerge);
  step.argument = int8::kMergeSlopes;
  step.constant = AddBytes(BytesOf(slopes, count, of_slopes));
  step.numbers = Ints(AxesOver(XShape(), p_->slopes->shape, YShape()));
  step.numbers.insert(step.numbers.end(),
                      {x.zero_point, factors.multipliers[0], 0,
                       factors.multipliers[1], y.zero_point, factors.shift});
  steps_.push_back(std::move(step));
}

void Int8Model::AddGather() {
  const Variable& table = *p_->kernel;
  Step step = NewStep(int8::kGather);
  step.bytes =
      AddBytes(BytesOf(FloatsOf(&table), table.size(), QuantizationOf(node_)));
  step.numbers = Ints({XShape().elements(), table.shape[0], table.shape[1]});
  step.x.begin = InputAt(Source(p_->inputs[0])).first_token;
  steps_.push_back(std::move(step));
}

void Int8Model::AddPositions() {
  const Shape& x = XShape();
  const int64_t n = x[x.rank() - 2] * x.back();
  AddCopy(At(p_->inputs[0]), At(node_), {x.elements() / n, 0, n, n, 1, 1}, -1);
  steps_.back().constant =
      AddBytes(BytesOf(FloatsOf(p_->kernel), n, QuantizationOf(node_)));
}

// Over the last axis.
void Int8Model::AddSoftmax() {
  const int64_t width = YShape().back();
  Step step = NewStep(int8::kSoftmax);
  step.numbers = Ints(
      {YShape().elements() / width, width, QuantizationOf(node_).zero_point});
  step.factors = {static_cast<float>(QuantizationOf(p_->inputs[0]).scale),
                  FactorTo(node_)};
  steps_.push_back(std::move(step));
}

// A normalization does not depend on the scale of its input, except for
// epsilon.
void Int8Model::AddNormalize() {
  const Shape& x = XShape();
  int64_t width = 1;
  for (int i = 1; i <= p_->num_axes; ++i) width *= x[x.rank() - i];
  const double scale = QuantizationOf(p_->inputs[0]).scale;
  Step step = NewStep(int8::kNormalize);
  step.numbers =
      Ints({x.elements() / width, width, QuantizationOf(node_).zero_point});
  // The least one is above the error of a variance of equal numbers.
  constexpr double kLeast = 1e-6, kLargest = std::numeric_limits<float>::max();
  step.factors = {static_cast<float>(std::clamp(
                      double{p_->epsilon} / scale / scale, kLeast, kLargest)),
                  FactorTo(node_)};
  step.floats = AddFloats(p_->gamma);
  step.floats2 = AddFloats(p_->beta);
  steps_.push_back(std::move(step));
}

void Int8Model::AddAttend() {
  const Quantization &q = QuantizationOf(p_->inputs[0]),
                     &k = QuantizationOf(p_->inputs[1]),
                     &v = QuantizationOf(p_->inputs[2]);
  const float trained = p_->gamma != nullptr ? *FloatsOf(p_->gamma) : 1;
  Step step = NewStep(int8::kAttend);
  step.x2 = At(p_->inputs[1]);
  step.x3 = At(p_->inputs[2]);
  step.numbers = Ints({XShape()[0], XShape(1)[0], XShape()[1], YShape()[1],
                       p_->causal, q.zero_point, k.zero_point, v.zero_point,
                       QuantizationOf(node_).zero_point});
  step.factors = {
      static_cast<float>(q.scale * k.scale * double{p_->factor * trained}),
      static_cast<float>(v.scale / QuantizationOf(node_).scale)};
  constexpr int64_t kMostTerms = INT32_MAX / (255 * 255);
  too_large_ |= XShape()[1] > kMostTerms;
  num_floats_ = std::max(num_floats_, static_cast<size_t>(XShape(1)[0]));
  steps_.push_back(std::move(step));
}

// The input of a product with the state has as many levels as int32 sums allow.
void Int8Model::AddRecurrence() {
  const Quantization &x = QuantizationOf(p_->inputs[0]),
                     &y = QuantizationOf(node_);
  const int64_t units = YShape().back(), features = XShape()[1],
                states = StatesOf(p_->cell) * units;
  Step step = NewStep(int8::kRecur);
  AddRows(p_->kernel, x.scale, &step.bytes, &step.floats);
  AddRows(p_->recurrent_kernel, 1, &step.bytes2, &step.floats2);
  step.floats3 = AddFloats(p_->bias);
  const std::vector<int8_t>& r = bytes_[static_cast<size_t>(step.bytes2)];
  int64_t largest = 1;
  for (size_t i = 0; i < r.size(); i += static_cast<size_t>(units)) {
    int64_t sum = 0;
    for (int64_t k = 0; k < units; ++k) {
      sum += std::abs(r[i + static_cast<size_t>(k)]);
    }
    largest = std::max(largest, sum);
  }
  step.argument =
      static_cast<int>(std::min<int64_t>(INT16_MAX, INT32_MAX / largest));
  step.numbers =
      Ints({XShape()[0], features, states, p_->backwards, p_->all_steps,
            p_->reversed, x.zero_point, y.zero_point});
  step.factors = {FactorTo(node_)};
  PlaceIn(&functions_, p_->activation);
  PlaceIn(&functions_, GateOf(*p_));
  num_floats_ = std::max(
      num_floats_, static_cast<size_t>(GatesOf(p_->cell) * units + states));
  num_state_ =
      std::max(num_state_, static_cast<size_t>(std::max(units, features)));
  steps_.push_back(std::move(step));
}

}  // namespace ringlet
