// Each layer as calls: a row of kRows for each class, what has none is refused
// by name. Weights stand as Keras has them.

#include <algorithm>
#include <cmath>

#include "c_helpers.h"
#include "c_model.h"
#include "logits.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

}  // namespace

const CModel::Row CModel::kRows[] = {
    {Kind::kInput, &CModel::Pass, 0, false},
    {Kind::kReshape, &CModel::Pass, 0, false},
    {Kind::kFlatten, &CModel::Pass, 0, false},
    {Kind::kDropout, &CModel::Pass, 0, false},
    {Kind::kSpatialDropout1D, &CModel::Pass, 0, false},
    {Kind::kSpatialDropout2D, &CModel::Pass, 0, false},
    {Kind::kGaussianNoise, &CModel::Pass, 0, false},
    {Kind::kGaussianDropout, &CModel::Pass, 0, false},
    {Kind::kAlphaDropout, &CModel::Pass, 0, false},
    {Kind::kDense, &CModel::Dense, 0, false},
    {Kind::kConv2D, &CModel::Conv, 0, false},
    {Kind::kConv1D, &CModel::Conv, 0, false},
    {Kind::kDepthwiseConv2D, &CModel::Conv, 1, false},
    {Kind::kDepthwiseConv1D, &CModel::Conv, 1, false},
    {Kind::kSeparableConv2D, &CModel::SeparableConv, 0, false},
    {Kind::kSeparableConv1D, &CModel::SeparableConv, 0, false},
    {Kind::kActivation, &CModel::Activate, 0, true},
    {Kind::kReLU, &CModel::Curve, 0, true},
    {Kind::kLeakyReLU, &CModel::Curve, 0, true},
    {Kind::kELU, &CModel::Curve, 0, true},
    {Kind::kPReLU, &CModel::PReLU, 0, true},
    {Kind::kSoftmax, &CModel::Softmax, 0, true},
    {Kind::kMaxPooling2D, &CModel::Pool, 1, false},
    {Kind::kMaxPooling1D, &CModel::Pool, 1, false},
    {Kind::kAveragePooling2D, &CModel::Pool, 0, false},
    {Kind::kAveragePooling1D, &CModel::Pool, 0, false},
    {Kind::kGlobalMaxPooling2D, &CModel::GlobalPool, 1, false},
    {Kind::kGlobalMaxPooling1D, &CModel::GlobalPool, 1, false},
    {Kind::kGlobalAveragePooling2D, &CModel::GlobalPool, 0, false},
    {Kind::kGlobalAveragePooling1D, &CModel::GlobalPool, 0, false},
    {Kind::kZeroPadding2D, &CModel::Frame, 1, false},
    {Kind::kZeroPadding1D, &CModel::Frame, 1, false},
    {Kind::kCropping2D, &CModel::Frame, 0, false},
    {Kind::kCropping1D, &CModel::Frame, 0, false},
    {Kind::kUpSampling2D, &CModel::UpSample, 0, false},
    {Kind::kUpSampling1D, &CModel::UpSample, 0, false},
    {Kind::kPermute, &CModel::Permute, 0, false},
    {Kind::kAdd, &CModel::Merge, 0, true},
    {Kind::kAverage, &CModel::Merge, 0, true},
    {Kind::kSubtract, &CModel::Merge, 1, true},
    {Kind::kMultiply, &CModel::Merge, 2, true},
    {Kind::kMaximum, &CModel::Merge, 3, true},
    {Kind::kMinimum, &CModel::Merge, 4, true},
    {Kind::kConcatenate, &CModel::Concatenate, 0, false},
    {Kind::kBatchNormalization, &CModel::BatchNormalization, 0, true},
    {Kind::kLayerNormalization, &CModel::LayerNormalization, 0, true},
    {Kind::kRescaling, &CModel::Rescaling, 0, true},
    {Kind::kNormalization, &CModel::Normalization, 0, true},
};

const CModel::Row* CModel::RowOf(int node) const {
  for (const Row& row : kRows) {
    if (row.kind == model_.layer(node).kind) return &row;
  }
  return nullptr;
}

// `kernel` and `bias` are names of the layer's weights; null: none.
void CModel::Convolve(const std::string& x, const std::string& y,
                      const char* kernel, const char* bias, const CWindow& g) {
  helpers_ |= kCConv;
  const std::string w = Weight(kernel),
                    b = bias == nullptr ? "0" : Weight(bias);
  const std::string n = Numbers(g.Numbers());
  Call("conv(%s, %s, %s, %s, %s)", x.c_str(), y.c_str(), w.c_str(), b.c_str(),
       n.c_str());
}

void CModel::CallPool(const CWindow& g) {
  helpers_ |= kCPool;
  const std::string n = Numbers(g.Numbers());
  Call("pool(%s, %s, %s)", X().c_str(), Y().c_str(), n.c_str());
}

// --- layers ------------------------------------------------------------------

void CModel::Dense(int) {
  const Shape& x = XShape();
  Convolve(X(), Y(), "kernel", "bias",
           PointWindow({1, x.elements() / x.back(), x.back()}, layer_->units));
  Activated(layer_->activation);
}

// A depthwise kernel is that of as many groups as channels.
void CModel::Conv(int depthwise) {
  CWindow g = PlaceWindow(*layer_, XShape(), YShape());
  g.last = depthwise != 0 ? g.from[2] : layer_->groups;
  Convolve(X(), Y(), "kernel", "bias", g);
  Activated(layer_->activation);
}

void CModel::SeparableConv(int) {
  CWindow g = PlaceWindow(*layer_, XShape(), YShape());
  g.last = g.from[2];
  g.to[2] = g.from[2] * layer_->depth_multiplier;
  const std::string middle = NewBuffer(g.to.elements());
  Convolve(X(), middle, "depthwise_kernel", nullptr, g);
  Convolve(middle, Y(), "pointwise_kernel", "bias",
           PointWindow(g.to, layer_->units));
  Activated(layer_->activation);
}

void CModel::Pool(int max) {
  CWindow g = PlaceWindow(*layer_, XShape(), YShape());
  g.last = max;
  CallPool(g);
}

void CModel::GlobalPool(int max) { CallPool(WholeWindow(XShape(), max != 0)); }

void CModel::Frame(int pads) {
  const int64_t first = FrameBegin(*layer_, pads != 0 ? YShape() : XShape());
  const std::string at = " + " + std::to_string(first);
  if (pads != 0) {
    helpers_ |= kCZero;
    Call("zero(%s, %lld)", Y().c_str(),
         static_cast<long long>(YShape().elements()));
  }
  Copy(pads != 0 ? X() : X() + at, pads != 0 ? Y() + at : Y(),
       FrameAxes(XShape(), YShape(), pads != 0));
}

void CModel::UpSample(int) { Copy(X(), Y(), UpSampleAxes(XShape(), YShape())); }

void CModel::Permute(int) {
  Copy(X(), Y(), PermuteAxes(*layer_, XShape(), YShape()));
}

void CModel::Activate(int) {
  if (X() != Y()) Copy(X(), Y(), {YShape().elements(), 1, 1});
  Activated(layer_->activation);
}

// ReLU, LeakyReLU, ELU.
void CModel::Curve(int) {
  if (X() != Y()) Copy(X(), Y(), {YShape().elements(), 1, 1});
  const std::string slope = CNumber(layer_->negative_slope) + " * ",
                    threshold = CNumber(layer_->threshold),
                    max = CNumber(layer_->max_value);
  if (layer_->kind == Kind::kELU) {
    return Each("x > 0 ? x : " + CNumber(layer_->alpha) + " * (expf(x) - 1)");
  }
  if (layer_->kind == Kind::kLeakyReLU)
    return Each("x > 0 ? x : " + slope + "x");
  const std::string above = std::isinf(layer_->max_value)
                                ? "x"
                                : "(x > " + max + " ? " + max + " : x)";
  const std::string below =
      layer_->negative_slope == 0 ? "0" : slope + "(x - " + threshold + ")";
  Each("x > " + threshold + " ? " + above + " : " + below);
}

// An operation of x and the slopes.
void CModel::PReLU(int) {
  helpers_ |= kCMerge;
  const Shape& y = YShape();
  CInts axes = AxesOver(XShape(), Find("alpha")->shape, y);
  const std::string n = Numbers(axes), slopes = Weight("alpha");
  Call("merge(5, %s, %s, %s, %d, %s)", X().c_str(), slopes.c_str(), Y().c_str(),
       static_cast<int>(axes.size() / 3), n.c_str());
}

// Neighbouring axes are one; what is not last is turned, and back.
void CModel::Softmax(int) {
  helpers_ |= kCSoftmax;
  const Shape& x = XShape();
  const int first = FirstSoftmaxAxis(*layer_, x.rank()),
            end = first + static_cast<int>(layer_->axes.size());
  int64_t count = 1, inner = 1;
  for (int i = first; i < x.rank(); ++i) (i < end ? count : inner) *= x[i];
  const int64_t all = count * inner, outer = x.elements() / all;
  std::string rows = Y();
  if (inner > 1) {
    rows = NewBuffer(x.elements());
    Copy(X(), rows, {outer, all, all, count, inner, 1, inner, 1, count});
  } else if (X() != Y()) {
    Copy(X(), Y(), {x.elements(), 1, 1});
  }
  Call("softmax(%s, %lld, %lld)", rows.c_str(),
       static_cast<long long>(outer * inner), static_cast<long long>(count));
  if (inner == 1) return;
  Copy(rows, Y(), {outer, all, all, count, 1, inner, inner, count, 1});
}

void CModel::Merge(int operation) {
  helpers_ |= kCMerge;
  for (size_t i = 1; i < inputs_.size(); ++i) {
    const CInts axes =
        AxesOver(i == 1 ? XShape(0) : YShape(), XShape(i), YShape());
    const std::string n = Numbers(axes);
    Call("merge(%d, %s, %s, %s, %zu, %s)", operation,
         i == 1 ? X().c_str() : Y().c_str(), X(i).c_str(), Y().c_str(),
         axes.size() / 3, n.c_str());
  }
  if (layer_->kind == Kind::kAverage) {
    Each("x / " + std::to_string(inputs_.size()));
  }
}

void CModel::Concatenate(int) {
  const int64_t width = YShape().back(), rows = YShape().elements() / width;
  int64_t at = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int64_t n = XShape(i).back();
    Copy(X(i), Y() + " + " + std::to_string(at), {rows, n, width, n, 1, 1});
    at += n;
  }
}

// (x - minus) * times + plus.
void CModel::Affine(const std::vector<float>& minus,
                    const std::vector<float>& times,
                    const std::vector<float>& plus) {
  helpers_ |= kCAffine;
  const int64_t width = YShape().back();
  const auto each = [&](const std::vector<float>& values) {
    return Values(
        values.size() == 1
            ? std::vector<float>(static_cast<size_t>(width), values[0])
            : values);
  };
  const std::string a = each(minus), b = each(times), c = each(plus);
  Call("affine(%s, %s, %lld, %lld, %s, %s, %s)", X().c_str(), Y().c_str(),
       static_cast<long long>(YShape().elements() / width),
       static_cast<long long>(width), a.c_str(), b.c_str(), c.c_str());
}

void CModel::Rescaling(int) { Affine({}, layer_->scales, layer_->offsets); }

void CModel::Normalization(int) {
  constexpr double kLeast = 1e-7;  // deviation, as in Keras
  std::vector<float> times = layer_->variances;
  for (float& t : times) {
    const double deviation = std::max(std::sqrt(double{t}), kLeast);
    t = static_cast<float>(layer_->invert ? deviation : 1 / deviation);
  }
  if (layer_->invert) return Affine({}, times, layer_->means);
  Affine(layer_->means, times, {});
}

void CModel::BatchNormalization(int) {
  const auto values = [&](const char* weight) {
    const Variable* const v = Find(weight);
    if (v == nullptr) return std::vector<float>();
    const float* const first = floats_ + v->offset;
    return std::vector<float>(first, first + v->size());
  };
  const std::vector<float> gamma = values("gamma");
  std::vector<float> times = values("moving_variance");
  for (size_t c = 0; c < times.size(); ++c) {
    const double variance = double{times[c]} + double{layer_->epsilon};
    times[c] = static_cast<float>(1 / std::sqrt(variance)) *
               (gamma.empty() ? 1 : gamma[c]);
  }
  Affine(values("moving_mean"), times, values("beta"));
}

void CModel::LayerNormalization(int) {
  helpers_ |= kCNormalize;
  const Shape& x = XShape();
  int64_t width = 1;
  for (size_t i = 1; i <= layer_->axes.size(); ++i) {
    width *= x[x.rank() - static_cast<int>(i)];
  }
  const std::string gamma = Weight("gamma"), beta = Weight("beta");
  Call("normalize(%s, %s, %lld, %lld, %s, %s, %s)", X().c_str(), Y().c_str(),
       static_cast<long long>(x.elements() / width),
       static_cast<long long>(width), CNumber(layer_->epsilon).c_str(),
       gamma.c_str(), beta.c_str());
}

}  // namespace ringlet
