// Each plain layer as steps: a row of kRows for each class. What must be known
// to change this file: int32 sums of a product may not overflow whatever the
// input, so a filter whose weights or bias are too large for that gets coarser
// steps (AddConv).

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "../../core/layers/layer_table.h"
#include "int8_model.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

double Rounded(double x) { return std::floor(x + 0.5); }

// One filter as int8 with steps of `step`, and its bias with those of a sum.
// Where no weight says how fine they are, the bias does.
struct Filter {
  double step = 1;
  std::vector<int8_t> weights;
  int32_t bias = 0;
};

Filter MakeFilter(const std::vector<double>& weights, double bias,
                  double x_scale) {
  Filter filter;
  double most = 0;
  for (const double w : weights) most = std::max(most, std::fabs(w));
  filter.step = most > 0
                    ? most / 127
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

}  // namespace

const Int8Model::Row Int8Model::kRows[] = {
    {Kind::kInput, &Int8Model::Nothing, 0, false, false},
    {Kind::kReshape, &Int8Model::Nothing, 0, true, false},
    {Kind::kFlatten, &Int8Model::Nothing, 0, true, false},
    {Kind::kRescaling, &Int8Model::Nothing, 0, true, false},
    {Kind::kDense, &Int8Model::Product, 0, false, false},
    {Kind::kConv2D, &Int8Model::Product, 0, false, false},
    {Kind::kConv1D, &Int8Model::Product, 0, false, false},
    {Kind::kDepthwiseConv2D, &Int8Model::Product, 1, false, false},
    {Kind::kDepthwiseConv1D, &Int8Model::Product, 1, false, false},
    {Kind::kActivation, &Int8Model::Table, 0, false, true},
    {Kind::kReLU, &Int8Model::Table, 0, false, true},
    {Kind::kLeakyReLU, &Int8Model::Table, 0, false, true},
    {Kind::kELU, &Int8Model::Table, 0, false, true},
    {Kind::kMaxPooling2D, &Int8Model::Pool, 1, true, false},
    {Kind::kMaxPooling1D, &Int8Model::Pool, 1, true, false},
    {Kind::kAveragePooling2D, &Int8Model::Pool, 0, false, false},
    {Kind::kAveragePooling1D, &Int8Model::Pool, 0, false, false},
    {Kind::kGlobalMaxPooling2D, &Int8Model::GlobalPool, 1, true, false},
    {Kind::kGlobalMaxPooling1D, &Int8Model::GlobalPool, 1, true, false},
    {Kind::kGlobalAveragePooling2D, &Int8Model::GlobalPool, 0, false, false},
    {Kind::kGlobalAveragePooling1D, &Int8Model::GlobalPool, 0, false, false},
    {Kind::kZeroPadding2D, &Int8Model::Frame, 1, true, false},
    {Kind::kZeroPadding1D, &Int8Model::Frame, 1, true, false},
    {Kind::kCropping2D, &Int8Model::Frame, 0, true, false},
    {Kind::kCropping1D, &Int8Model::Frame, 0, true, false},
    {Kind::kUpSampling2D, &Int8Model::UpSample, 0, true, false},
    {Kind::kUpSampling1D, &Int8Model::UpSample, 0, true, false},
    {Kind::kPermute, &Int8Model::Permute, 0, true, false},
    {Kind::kAdd, &Int8Model::Merge, 0, false, true},
    {Kind::kSubtract, &Int8Model::Merge, 0, false, true},
    {Kind::kMultiply, &Int8Model::Merge, 1, false, true},
    {Kind::kMaximum, &Int8Model::Merge, 2, false, true},
    {Kind::kMinimum, &Int8Model::Merge, 3, false, true},
    {Kind::kConcatenate, &Int8Model::Concatenate, 0, false, false},
};

// Plain layers have one each.
const Int8Model::Row& Int8Model::RowOf(Kind kind) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [&](const Row& row) { return row.kind == kind; });
}

// --- numbers -----------------------------------------------------------------

// The largest has 31 bits.
Int8Model::Factors Int8Model::FactorsOf(const std::vector<double>& real) {
  double most = 0;
  for (const double factor : real) most = std::max(most, std::fabs(factor));
  int exponent = 0;
  std::frexp(most, &exponent);
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

// What is there already, as a shared layer's, is not there twice.
int Int8Model::AddBytes(std::vector<int8_t> bytes) {
  const auto same = std::find(bytes_.begin(), bytes_.end(), bytes);
  const auto at = static_cast<int>(same - bytes_.begin());
  if (same == bytes_.end()) bytes_.push_back(std::move(bytes));
  return at;
}

int Int8Model::AddWords(std::vector<int32_t> words) {
  words_.push_back(std::move(words));
  return static_cast<int>(words_.size()) - 1;
}

// Of all 256 values; `values`: what each stands for in the end.
int Int8Model::AddTable(const Meaning& from, const Meaning& to,
                        const std::vector<float>& values) {
  std::vector<int8_t> table;
  for (int q = -128; q < 128; ++q) {
    const double value = values.empty()
                             ? from.scale * (q - from.zero)
                             : double{values[static_cast<size_t>(q + 128)]};
    const double y = Rounded(value / to.scale) + to.zero;
    table.push_back(static_cast<int8_t>(std::clamp(y, -128.0, 127.0)));
  }
  return AddBytes(std::move(table));
}

Int8Model::Step Int8Model::NewStep(int8::Kernel kernel) const {
  Step step;
  step.kernel = kernel;
  if (!in_.empty()) step.x = At(in_[0]);
  step.y = At(node_);
  return step;
}

// --- layers ------------------------------------------------------------------

// Filters of Keras are the last axis of a kernel; here they are the first.
void Int8Model::AddConv(const CWindow& window) {
  const std::string path = layer_->name + "/kernel";
  const std::vector<Variable>& all = plain_.model.variables();
  const auto kernel =
      std::find_if(all.begin(), all.end(),
                   [&](const Variable& v) { return v.path == path; });
  const float* const w = plain_.model.weights() + kernel->offset;
  const float* const b = plain_.model.weights() + (kernel + 1)->offset;
  const auto filters = static_cast<size_t>((kernel + 1)->size());
  const size_t taps = static_cast<size_t>(kernel->size()) / filters;
  Step step = NewStep(int8::kConv);
  std::vector<int8_t> weights;
  std::vector<int32_t> biases;
  std::vector<double> real;
  for (size_t l = 0; l < filters; ++l) {
    std::vector<double> one;
    for (size_t k = 0; k < taps; ++k) one.push_back(w[k * filters + l]);
    const Filter filter = MakeFilter(one, b[l], Of(in_[0]).scale);
    weights.insert(weights.end(), filter.weights.begin(), filter.weights.end());
    biases.push_back(filter.bias);
    real.push_back(Of(in_[0]).scale * filter.step / Of(node_).scale);
  }
  const Factors factors = FactorsOf(real);
  step.numbers = Ints(window.Numbers());
  step.numbers.insert(step.numbers.end(),
                      {Of(in_[0]).zero, Of(node_).zero, factors.shift});
  step.bytes = AddBytes(std::move(weights));
  step.words = AddWords(std::move(biases));
  step.words2 = AddWords(factors.multipliers);
  steps_.push_back(std::move(step));
}

void Int8Model::Product(int depthwise) {
  const Shape& x = XShape();
  if (layer_->kind == Kind::kDense) {
    return AddConv(
        PointWindow({1, x.elements() / x.back(), x.back()}, layer_->units));
  }
  CWindow window = PlaceWindow(*layer_, x, YShape());
  window.last = depthwise != 0 ? window.from[2] : layer_->groups;
  AddConv(window);
}

void Int8Model::AddPool(const CWindow& window) {
  Step step = NewStep(int8::kPool);
  const Factors factors = FactorsOf({Of(in_[0]).scale / Of(node_).scale});
  step.numbers = Ints(window.Numbers());
  step.numbers.insert(
      step.numbers.end(),
      {Of(in_[0]).zero, Of(node_).zero, factors.shift, factors.multipliers[0]});
  steps_.push_back(std::move(step));
}

void Int8Model::Pool(int max) {
  CWindow window = PlaceWindow(*layer_, XShape(), YShape());
  window.last = max;
  AddPool(window);
}

void Int8Model::GlobalPool(int max) {
  AddPool(WholeWindow(XShape(), max != 0));
}

void Int8Model::AddCopy(const Place& x, const Place& y, const CInts& axes,
                        int table) {
  Step step = NewStep(int8::kCopy);
  step.x = x;
  step.y = y;
  step.bytes = table;
  step.numbers = Ints(axes);
  steps_.push_back(std::move(step));
}

void Int8Model::Frame(int pads) {
  const int64_t first = FrameBegin(*layer_, pads != 0 ? YShape() : XShape());
  if (pads != 0) {
    Step step = NewStep(int8::kFill);
    step.numbers = Ints({YShape().elements()});
    step.what = Of(node_).zero;
    steps_.push_back(std::move(step));
  }
  AddCopy(At(in_[0], pads != 0 ? 0 : first), At(node_, pads != 0 ? first : 0),
          FrameAxes(XShape(), YShape(), pads != 0), -1);
}

void Int8Model::UpSample(int) {
  AddCopy(At(in_[0]), At(node_), UpSampleAxes(XShape(), YShape()), -1);
}

void Int8Model::Permute(int) {
  AddCopy(At(in_[0]), At(node_), PermuteAxes(*layer_, XShape(), YShape()), -1);
}

// What the layer makes of 256 numbers.
void Int8Model::Table(int) {
  std::vector<float> values;
  for (int q = -128; q < 128; ++q) {
    values.push_back(
        static_cast<float>(Of(in_[0]).scale * (q - Of(in_[0]).zero)));
  }
  Sequential one({Input({256}), *layer_});
  one.Compile(SGD(), MeanSquaredError());
  RINGLET_CHECK(one.Forward(values.data(), 1, /*training=*/false).ok());
  values.assign(one.output(), one.output() + 256);
  Step step = NewStep(int8::kMap);
  step.bytes = AddTable(Of(in_[0]), Of(node_), values);
  step.what = static_cast<int>(YShape().elements());
  steps_.push_back(std::move(step));
}

void Int8Model::Merge(int what) {
  const Meaning &a = Of(in_[0]), &b = Of(in_[1]), &y = Of(node_);
  const double of_b = b.scale / y.scale;
  const Factors factors =
      what == 1 ? FactorsOf({a.scale * of_b, 0})
                : FactorsOf({a.scale / y.scale,
                             layer_->kind == Kind::kSubtract ? -of_b : of_b});
  Step step = NewStep(int8::kMerge);
  step.x2 = At(in_[1]);
  step.what = what;
  step.numbers = Ints(AxesOver(XShape(0), XShape(1), YShape()));
  step.numbers.insert(step.numbers.end(),
                      {a.zero, factors.multipliers[0], b.zero,
                       factors.multipliers[1], y.zero, factors.shift});
  steps_.push_back(std::move(step));
}

void Int8Model::Concatenate(int) {
  const int64_t width = YShape().back(), rows = YShape().elements() / width;
  int64_t at = 0;
  for (size_t i = 0; i < in_.size(); ++i) {
    const int64_t n = XShape(i).back();
    AddCopy(At(in_[i]), At(node_, at), {rows, n, width, n, 1, 1},
            AddTable(Of(in_[i]), Of(node_), {}));
    at += n;
  }
}

Status Int8Model::AddSteps() {
  for (node_ = 0; node_ <= last(); ++node_) {
    too_large_ |= YShape().elements() > INT32_MAX;
    if (kinds_[static_cast<size_t>(node_)].is_view) continue;
    layer_ = &plain_.model.layer(node_);
    in_ = plain_.model.inputs(node_);
    const Row& row = RowOf(layer_->kind);
    (this->*row.add)(row.what);
  }
  arena_bytes_ = slots_->Place(1);
  if (!too_large_ && arena_bytes_ <= INT32_MAX) return Status();
  return InvalidArgument(
      "an output of a layer has more than %d numbers, which C's int does not "
      "count",
      INT32_MAX);
}

}  // namespace ringlet
