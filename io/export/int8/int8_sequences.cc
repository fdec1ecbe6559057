// Steps with float parameters: tokens, normalizations, attention, recurrences.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "../../../core/base/text.h"
#include "int8_model.h"

namespace ringlet {

// --- constants ---------------------------------------------------------------

std::vector<int8_t> Int8Model::QuantizeToBytes(const float* values,
                                               int64_t count,
                                               const Quantization& q) const {
  std::vector<int8_t> bytes;
  for (int64_t i = 0; i < count; ++i) {
    const double y = std::floor(values[i] / q.scale + 0.5) + q.zero_point;
    bytes.push_back(static_cast<int8_t>(std::clamp(y, -128.0, 127.0)));
  }
  return bytes;
}

int Int8Model::AddFloats(std::vector<float> floats) {
  return FindOrAdd(&floats_, std::move(floats));
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
      MakeFactors({x.scale / y.scale, x.scale * of_slopes.scale / y.scale});
  AddMergeStep(int8::kMergeSlopes,
               Bytes(AddBytes(QuantizeToBytes(slopes, count, of_slopes))),
               p_->slopes->shape, 0, factors);
}

void Int8Model::AddGather() {
  const Variable& table = *p_->kernel;
  const int rows = AddBytes(
      QuantizeToBytes(FloatsOf(&table), table.size(), QuantizationOf(node_)));
  BufferSpan tokens = At(p_->inputs[0]);
  tokens.begin = InputAt(Source(p_->inputs[0])).first_token;
  AddStep(int8::kGather,
          {Span(tokens), Y(), Int(XShape().elements()), Bytes(rows),
           Int(table.shape[0]), Int(table.shape[1])});
}

void Int8Model::AddPositions() {
  const Shape& x = XShape();
  const int64_t n = x[x.rank() - 2] * x.back();
  const int rows =
      AddBytes(QuantizeToBytes(FloatsOf(p_->kernel), n, QuantizationOf(node_)));
  AddCopy(Bytes(rows), Y(), {x.elements() / n, 0, n, n, 1, 1});
}

// Over the last axis.
void Int8Model::AddSoftmax() {
  const int64_t width = YShape().back();
  const double scale = QuantizationOf(p_->inputs[0]).scale;
  AddStep(int8::kSoftmax,
          {X(), Y(), Int(YShape().elements() / width), Int(width),
           Float(static_cast<float>(scale)), Float(FactorTo(node_)),
           Int(QuantizationOf(node_).zero_point)});
}

// A normalization does not depend on the scale of its input, except for
// epsilon.
void Int8Model::AddNormalize() {
  const Shape& x = XShape();
  int64_t width = 1;
  for (int i = 1; i <= p_->num_axes; ++i) width *= x[x.rank() - i];
  const double scale = QuantizationOf(p_->inputs[0]).scale;
  // The least one is above the error of a variance of equal numbers.
  constexpr double kLeast = 1e-6, kLargest = std::numeric_limits<float>::max();
  const auto epsilon = static_cast<float>(
      std::clamp(double{p_->epsilon} / scale / scale, kLeast, kLargest));
  const int gamma = AddFloats(p_->gamma), beta = AddFloats(p_->beta);
  AddStep(int8::kNormalize,
          {X(), Y(), Int(x.elements() / width), Int(width), Float(epsilon),
           Floats(gamma), Floats(beta), Float(FactorTo(node_)),
           Int(QuantizationOf(node_).zero_point)});
}

void Int8Model::AddAttend() {
  const Quantization &q = QuantizationOf(p_->inputs[0]),
                     &k = QuantizationOf(p_->inputs[1]),
                     &v = QuantizationOf(p_->inputs[2]);
  const float trained = p_->gamma != nullptr ? *FloatsOf(p_->gamma) : 1;
  const auto scale =
      static_cast<float>(q.scale * k.scale * double{p_->factor * trained});
  const auto factor = static_cast<float>(v.scale / QuantizationOf(node_).scale);
  AddStep(
      int8::kAttend,
      {X(), X(1), X(2), Y(), Numbers(), Float(scale), Float(factor), Scratch()},
      {XShape()[0], XShape(1)[0], XShape()[1], YShape()[1], p_->causal,
       q.zero_point, k.zero_point, v.zero_point,
       QuantizationOf(node_).zero_point});
  constexpr int64_t kMostTerms = INT32_MAX / (255 * 255);
  too_large_ |= XShape()[1] > kMostTerms;
  num_floats_ = std::max(num_floats_, static_cast<size_t>(XShape(1)[0]));
}

// The input of a product with the state has as many levels as int32 sums allow.
void Int8Model::AddRecurrence() {
  const Quantization &x = QuantizationOf(p_->inputs[0]),
                     &y = QuantizationOf(node_);
  const int64_t units = YShape().back(), features = XShape()[1],
                states = StatesOf(p_->cell) * units;
  int rows[2], factors[2];
  AddRows(p_->kernel, x.scale, &rows[0], &factors[0]);
  AddRows(p_->recurrent_kernel, 1, &rows[1], &factors[1]);
  const std::vector<int8_t>& r = bytes_[static_cast<size_t>(rows[1])];
  int64_t largest = 1;
  for (size_t i = 0; i < r.size(); i += static_cast<size_t>(units)) {
    int64_t sum = 0;
    for (int64_t k = 0; k < units; ++k) {
      sum += std::abs(r[i + static_cast<size_t>(k)]);
    }
    largest = std::max(largest, sum);
  }
  const auto levels =
      static_cast<int>(std::min<int64_t>(INT16_MAX, INT32_MAX / largest));
  const int bias = AddFloats(p_->bias),
            each = FindOrAdd(&functions_, p_->activation),
            gate = FindOrAdd(&functions_, GateOf(*p_));
  const auto data = [](const auto& all, int i) {
    return i < 0 ? nullptr : all[static_cast<size_t>(i)].data();
  };
  const std::string number = std::to_string(steps_.size());
  const Argument cell = {"&r" + number, {}, Argument::kCell},
                 next = {int8::StepName(p_->cell)};
  AddStep(int8::kRecur,
          {X(), Y(), cell, next, Numbers(), Float(FactorTo(node_)), Scratch()},
          {XShape()[0], features, states, p_->backwards, p_->all_steps,
           p_->reversed, x.zero_point, y.zero_point});
  int8::Recurrence& of_step = steps_.back().cell;
  of_step.cell = p_->cell;
  of_step.w = data(bytes_, rows[0]);
  of_step.r = r.data();
  of_step.w_factors = data(floats_, factors[0]);
  of_step.r_factors = data(floats_, factors[1]);
  of_step.b = data(floats_, bias);
  of_step.units = static_cast<int>(units);
  of_step.gates = static_cast<int>(GatesOf(p_->cell));
  of_step.levels = levels;
  of_step.activation = p_->activation;
  of_step.gate = GateOf(*p_);
  steps_.back().cell_text = FormatText(
      "  static const cell r%s = {w%d, w%d, f%d, f%d, %s, %d, %d, %d, each%d, "
      "each%d, state};\n",
      number.c_str(), rows[0], rows[1], factors[0], factors[1],
      Floats(bias).text.c_str(), of_step.units, of_step.gates, levels, each,
      gate);
  num_floats_ = std::max(
      num_floats_, static_cast<size_t>(GatesOf(p_->cell) * units + states));
  num_state_ =
      std::max(num_state_, static_cast<size_t>(std::max(units, features)));
}

}  // namespace ringlet
