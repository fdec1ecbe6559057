// Converts each primitive to steps. Each kind has a row in kRows. The int32
// sums of a product must not overflow for any input. So a filter with too large
// weights or bias gets coarser steps (MakeFilter).

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "../../../core/base/check.h"
#include "../../../core/base/text.h"
#include "int8_model.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;

double Rounded(double x) { return std::floor(x + 0.5); }

}  // namespace

Int8Filter MakeFilter(const std::vector<double>& weights, double bias,
                      double x_scale) {
  Int8Filter filter;
  double largest = 0;
  for (const double w : weights) largest = std::max(largest, std::fabs(w));
  filter.step = largest > 0
                    ? largest / 127
                    : std::max(std::fabs(bias) / x_scale / (1 << 20), 1e-30);
  for (;; filter.step *= 2) {
    const double sum = Rounded(bias / (x_scale * filter.step));
    double all = std::fabs(sum);
    filter.weights.clear();
    for (const double w : weights) {
      filter.weights.push_back(static_cast<int8_t>(Rounded(w / filter.step)));
      all += 255.0 * std::abs(filter.weights.back());
    }
    if (!(all < INT32_MAX)) continue;
    filter.bias = static_cast<int32_t>(sum);
    return filter;
  }
}

const Int8Model::Row Int8Model::kRows[] = {
    // kind, add, keeps_quantization, in_place
    {Kind::kInput, &Int8Model::AddNothing, false, false},
    {Kind::kReshape, &Int8Model::AddNothing, true, false},
    {Kind::kAffine, &Int8Model::AddNothing, true, false},
    {Kind::kMatMul, &Int8Model::AddProduct, false, false},
    {Kind::kConv, &Int8Model::AddProduct, false, false},
    {Kind::kActivate, &Int8Model::AddLookup, false, true},
    {Kind::kRelu, &Int8Model::AddLookup, false, true},
    {Kind::kLeakyRelu, &Int8Model::AddLookup, false, true},
    {Kind::kElu, &Int8Model::AddLookup, false, true},
    {Kind::kPool, &Int8Model::AddPool, false, false},
    {Kind::kPad, &Int8Model::AddPad, true, false},
    {Kind::kCrop, &Int8Model::AddCrop, true, false},
    {Kind::kRepeat, &Int8Model::AddRepeat, true, false},
    {Kind::kTranspose, &Int8Model::AddTranspose, true, false},
    {Kind::kMerge, &Int8Model::AddMerge, false, true},
    {Kind::kConcatenate, &Int8Model::AddConcatenate, false, false},
    {Kind::kConvTranspose, &Int8Model::AddProduct, false, false},
    {Kind::kPRelu, &Int8Model::AddSlopes, false, true},
    {Kind::kGather, &Int8Model::AddGather, false, false},
    {Kind::kPositions, &Int8Model::AddPositions, false, false},
    {Kind::kSoftmax, &Int8Model::AddSoftmax, false, true},
    {Kind::kNormalize, &Int8Model::AddNormalize, false, true},
    {Kind::kAttend, &Int8Model::AddAttend, false, false},
    {Kind::kRecurrence, &Int8Model::AddRecurrence, false, false},
};

// Every primitive of a plain model has a row.
const Int8Model::Row& Int8Model::RowOf(Kind kind) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [&](const Row& row) { return row.kind == kind; });
}

// A pool of maxima keeps the quantization, since a maximum is a number of the
// input. A pool of means does not.
bool Int8Model::KeepsQuantization(const Primitive& p) {
  return RowOf(p.kind).keeps_quantization ||
         (p.kind == Kind::kPool && p.is_max);
}

// --- numbers -----------------------------------------------------------------

// The largest multiplier has 31 bits.
Int8Model::Factors Int8Model::MakeFactors(const std::vector<double>& real) {
  double largest = 0;
  for (const double factor : real)
    largest = std::max(largest, std::fabs(factor));
  int exponent = 0;
  std::frexp(largest, &exponent);
  Factors factors;
  factors.shift = std::clamp(31 - exponent, 1, 62);
  for (const double factor : real) {
    const double whole = Rounded(std::ldexp(factor, factors.shift));
    factors.multipliers.push_back(static_cast<int32_t>(
        std::clamp(whole, double{-INT32_MAX}, double{INT32_MAX})));
  }
  return factors;
}

std::vector<int> Int8Model::Ints(const CInts& numbers) {
  std::vector<int> ints;
  for (const int64_t number : numbers) {
    too_large_ |= number > INT32_MAX;
    ints.push_back(static_cast<int>(number));
  }
  return ints;
}

int Int8Model::AddBytes(std::vector<int8_t> bytes) {
  return FindOrAdd(&bytes_, std::move(bytes));
}

int Int8Model::AddWords(std::vector<int32_t> words) {
  words_.push_back(std::move(words));
  return static_cast<int>(words_.size()) - 1;
}

// Adds a table of all 256 values. `values` are the results as real numbers.
int Int8Model::AddTable(const Quantization& from, const Quantization& to,
                        const std::vector<float>& values) {
  std::vector<int8_t> table;
  for (int q = -128; q < 128; ++q) {
    const double value = values.empty()
                             ? from.scale * (q - from.zero_point)
                             : double{values[static_cast<size_t>(q + 128)]};
    const double y = Rounded(value / to.scale) + to.zero_point;
    table.push_back(static_cast<int8_t>(std::clamp(y, -128.0, 127.0)));
  }
  return AddBytes(std::move(table));
}

void Int8Model::AddStep(int8::Kernel kernel, std::vector<Argument> arguments,
                        const CInts& numbers) {
  steps_.push_back({kernel, std::move(arguments), Ints(numbers),
                    std::max<int64_t>(p_->steps, 1)});
}

// The geometry of a window, and what follows it in a kernel's numbers.
CInts Int8Model::Window(std::initializer_list<int64_t> more) const {
  CInts numbers = WindowOf(*p_, XShape()).Numbers();
  numbers.insert(numbers.end(), more);
  return numbers;
}

// --- primitives --------------------------------------------------------------

// Filters are the last axis of a kernel in Keras, or the second last axis of a
// kConvTranspose. Here they are the first one.
void Int8Model::AddProduct() {
  const Quantization& x = QuantizationOf(p_->inputs[0]);
  const float *const w = FloatsOf(p_->kernel), *const b = FloatsOf(p_->bias);
  const bool transposed = p_->kind == Kind::kConvTranspose;
  const auto filters = static_cast<size_t>(p_->bias->size());
  const size_t taps = static_cast<size_t>(p_->kernel->size()) / filters;
  const size_t c = transposed ? static_cast<size_t>(XShape().back()) : 1;
  std::vector<int8_t> weights;
  std::vector<int32_t> biases;
  std::vector<double> real;
  for (size_t l = 0; l < filters; ++l) {
    std::vector<double> one;
    for (size_t k = 0; k < taps; ++k) {
      one.push_back(w[(k / c * filters + l) * c + k % c]);
    }
    const Int8Filter filter = MakeFilter(one, b[l], x.scale);
    weights.insert(weights.end(), filter.weights.begin(), filter.weights.end());
    biases.push_back(filter.bias);
    real.push_back(x.scale * filter.step / QuantizationOf(node_).scale);
  }
  const Factors factors = MakeFactors(real);
  const int rows = AddBytes(std::move(weights)),
            sums = AddWords(std::move(biases)),
            multipliers = AddWords(factors.multipliers);
  AddStep(
      transposed ? int8::kConvTranspose : int8::kConv,
      {X(), Y(), Bytes(rows), Words(sums), Words(multipliers), Numbers()},
      Window({x.zero_point, QuantizationOf(node_).zero_point, factors.shift}));
}

void Int8Model::AddPool() {
  const Quantization& x = QuantizationOf(p_->inputs[0]);
  const Factors factors = MakeFactors({x.scale / QuantizationOf(node_).scale});
  AddStep(int8::kPool, {X(), Y(), Numbers()},
          Window({x.zero_point, QuantizationOf(node_).zero_point, factors.shift,
                  factors.multipliers[0]}));
}

void Int8Model::AddCopy(const Argument& x, const Argument& y, const CInts& axes,
                        int table) {
  const auto count = static_cast<int64_t>(axes.size() / 3);
  AddStep(int8::kCopy, {x, y, Int(count), Numbers(), Bytes(table)}, axes);
}

void Int8Model::AddPad() {
  AddStep(int8::kFill, {Y(), Int(YShape().elements()),
                        Int(QuantizationOf(node_).zero_point)});
  AddCopy(X(), Span(At(node_, FrameBegin(p_->borders, YShape()))),
          FrameAxes(XShape(), YShape(), /*pads=*/true));
}

void Int8Model::AddCrop() {
  AddCopy(Span(At(p_->inputs[0], FrameBegin(p_->borders, XShape()))), Y(),
          FrameAxes(XShape(), YShape(), /*pads=*/false));
}

void Int8Model::AddRepeat() {
  AddCopy(X(), Y(), RepeatAxes(XShape(), YShape()));
}

void Int8Model::AddTranspose() {
  AddCopy(X(), Y(), TransposeAxes(p_->dims, XShape(), YShape()));
}

std::vector<float> Int8Model::ComputeResults(const Layer& layer,
                                             const std::vector<float>& values) {
  constexpr size_t kMost = 4096;
  std::vector<float> part(std::min(values.size(), kMost)), results;
  Sequential one({Input({static_cast<int64_t>(part.size())}), layer});
  one.Compile(SGD(), MeanSquaredError());
  for (size_t at = 0; at < values.size(); at += part.size()) {
    const size_t count = std::min(part.size(), values.size() - at);
    std::copy_n(values.data() + at, count, part.data());
    RINGLET_CHECK(one.Forward(part.data(), 1, /*training=*/false).ok());
    results.insert(results.end(), one.output(), one.output() + count);
  }
  return results;
}

// Adds a table of the layer's results for 256 numbers.
void Int8Model::AddLookup() {
  if (p_->activation == kSoftmax) return AddSoftmax();
  const Quantization& x = QuantizationOf(p_->inputs[0]);
  std::vector<float> values;
  for (int q = -128; q < 128; ++q) {
    values.push_back(static_cast<float>(x.scale * (q - x.zero_point)));
  }
  values = ComputeResults(*p_->layer, values);
  AddStep(int8::kMap, {X(), Y(), Int(YShape().elements()),
                       Bytes(AddTable(x, QuantizationOf(node_), values))});
}

// Merges the input with `b`, an input or a constant.
void Int8Model::AddMergeStep(int8::MergeOperation operation, const Argument& b,
                             const Shape& b_shape, int b_zero,
                             const Factors& factors) {
  CInts numbers = AxesOver(XShape(), b_shape, YShape());
  const auto axes = static_cast<int64_t>(numbers.size() / 3);
  numbers.insert(numbers.end(),
                 {QuantizationOf(p_->inputs[0]).zero_point,
                  factors.multipliers[0], b_zero, factors.multipliers[1],
                  QuantizationOf(node_).zero_point, factors.shift});
  AddStep(int8::kMerge, {Int(operation), X(), b, Y(), Int(axes), Numbers()},
          numbers);
}

void Int8Model::AddMerge() {
  using Op = ringlet::Merge;
  const Quantization &a = QuantizationOf(p_->inputs[0]),
                     &b = QuantizationOf(p_->inputs[1]),
                     &y = QuantizationOf(node_);
  const double of_b = b.scale / y.scale;
  const Factors factors =
      p_->merge == Op::kMultiply
          ? MakeFactors({a.scale * of_b, 0})
          : MakeFactors(
                {a.scale / y.scale, p_->merge == Op::kSubtract ? -of_b : of_b});
  AddMergeStep(p_->merge == Op::kMultiply  ? int8::kMergeMultiply
               : p_->merge == Op::kMaximum ? int8::kMergeLarger
               : p_->merge == Op::kMinimum ? int8::kMergeSmaller
                                           : int8::kMergeAdd,
               X(1), XShape(1), b.zero_point, factors);
}

void Int8Model::AddConcatenate() {
  const int64_t width = YShape().back(), rows = YShape().elements() / width;
  int64_t at = 0;
  for (size_t i = 0; i < p_->inputs.size(); ++i) {
    const int x = p_->inputs[i];
    const int64_t n = XShape(i).back();
    AddCopy(X(i), Span(At(node_, at)), {rows, n, width, n, 1, 1},
            AddTable(QuantizationOf(x), QuantizationOf(node_), {}));
    at += n;
  }
}

// Checks the new steps and constants of a primitive.
Status Int8Model::CheckFinite(size_t first_step, size_t first_floats) const {
  const auto finite = [](const std::vector<float>& floats) {
    return std::all_of(floats.begin(), floats.end(),
                       [](float f) { return std::isfinite(f); });
  };
  bool all = true;
  for (size_t i = first_step; i < steps_.size(); ++i) {
    for (const Argument& a : steps_[i].arguments) {
      all &= std::isfinite(a.value.As<float>());
    }
  }
  for (size_t i = first_floats; i < floats_.size(); ++i) {
    all &= finite(floats_[i]);
  }
  if (all) return Status();
  return InvalidArgument(
      "the scale of %s's numbers is not a finite float32: its input or its "
      "weights are too large or too small for int8; scale the data",
      WithArticle(ClassName(*p_->layer)).c_str());
}

Status Int8Model::AddSteps() {
  for (node_ = 0; node_ <= last(); ++node_) {
    p_ = &PrimitiveAt(node_);
    too_large_ |=
        YShape().elements() > INT32_MAX / std::max<int64_t>(p_->steps, 1);
    if (kinds_[static_cast<size_t>(node_)].is_view) continue;
    const size_t steps = steps_.size(), floats = floats_.size();
    (this->*RowOf(p_->kind).add)();
    RINGLET_RETURN_IF_ERROR(CheckFinite(steps, floats));
  }
  AddInputScales();
  arena_bytes_ = slots_->Place(1);
  if (!too_large_ && arena_bytes_ <= INT32_MAX) return Status();
  return InvalidArgument(
      "an output of a layer has more than %d numbers, which C's int does not "
      "count",
      INT32_MAX);
}

}  // namespace ringlet
