// A row of kConverters for each class of layer; what has none is refused by
// name.

#include "onnx_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../core/base/check.h"
#include "logits.h"
#include "onnx_converter.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;
constexpr AxisOrder kFirst = AxisOrder::kChannelsFirst,
                    kLast = AxisOrder::kChannelsLast;

}  // namespace

const OnnxConverter::Row OnnxConverter::kConverters[] = {
    {Kind::kReshape, &OnnxConverter::Reshape, ""},
    {Kind::kFlatten, &OnnxConverter::Flatten, ""},
    {Kind::kDense, &OnnxConverter::Dense, ""},
    {Kind::kConv2D, &OnnxConverter::Conv, ""},
    {Kind::kConv1D, &OnnxConverter::Conv, ""},
    {Kind::kDepthwiseConv2D, &OnnxConverter::DepthwiseConv, ""},
    {Kind::kDepthwiseConv1D, &OnnxConverter::DepthwiseConv, ""},
    {Kind::kSeparableConv2D, &OnnxConverter::SeparableConv, ""},
    {Kind::kSeparableConv1D, &OnnxConverter::SeparableConv, ""},
    {Kind::kActivation, &OnnxConverter::Activate, ""},
    {Kind::kReLU, &OnnxConverter::ReLU, ""},
    {Kind::kLeakyReLU, &OnnxConverter::WithAlpha, "LeakyRelu"},
    {Kind::kELU, &OnnxConverter::WithAlpha, "Elu"},
    {Kind::kPReLU, &OnnxConverter::PReLU, ""},
    {Kind::kSoftmax, &OnnxConverter::Softmax, ""},
    {Kind::kMaxPooling2D, &OnnxConverter::Pool, "MaxPool"},
    {Kind::kMaxPooling1D, &OnnxConverter::Pool, "MaxPool"},
    {Kind::kAveragePooling2D, &OnnxConverter::Pool, "AveragePool"},
    {Kind::kAveragePooling1D, &OnnxConverter::Pool, "AveragePool"},
    {Kind::kGlobalAveragePooling2D, &OnnxConverter::GlobalPool,
     "GlobalAveragePool"},
    {Kind::kGlobalAveragePooling1D, &OnnxConverter::GlobalPool,
     "GlobalAveragePool"},
    {Kind::kGlobalMaxPooling2D, &OnnxConverter::GlobalPool, "GlobalMaxPool"},
    {Kind::kGlobalMaxPooling1D, &OnnxConverter::GlobalPool, "GlobalMaxPool"},
    {Kind::kZeroPadding2D, &OnnxConverter::Pad, ""},
    {Kind::kZeroPadding1D, &OnnxConverter::Pad, ""},
    {Kind::kCropping2D, &OnnxConverter::Crop, ""},
    {Kind::kCropping1D, &OnnxConverter::Crop, ""},
    {Kind::kUpSampling2D, &OnnxConverter::UpSample, ""},
    {Kind::kUpSampling1D, &OnnxConverter::UpSample, ""},
    {Kind::kPermute, &OnnxConverter::Permute, ""},
    {Kind::kDropout, &OnnxConverter::Pass, ""},
    {Kind::kSpatialDropout1D, &OnnxConverter::Pass, ""},
    {Kind::kSpatialDropout2D, &OnnxConverter::Pass, ""},
    {Kind::kGaussianNoise, &OnnxConverter::Pass, ""},
    {Kind::kGaussianDropout, &OnnxConverter::Pass, ""},
    {Kind::kAlphaDropout, &OnnxConverter::Pass, ""},
    {Kind::kAdd, &OnnxConverter::Merge, "Add"},
    {Kind::kSubtract, &OnnxConverter::Merge, "Sub"},
    {Kind::kMultiply, &OnnxConverter::Merge, "Mul"},
    {Kind::kAverage, &OnnxConverter::Merge, "Add"},
    {Kind::kMaximum, &OnnxConverter::Merge, "Max"},
    {Kind::kMinimum, &OnnxConverter::Merge, "Min"},
    {Kind::kConcatenate, &OnnxConverter::Concatenate, ""},
    {Kind::kBatchNormalization, &OnnxConverter::BatchNormalization, ""},
    {Kind::kLayerNormalization, &OnnxConverter::LayerNormalization, ""},
    {Kind::kRescaling, &OnnxConverter::Rescaling, ""},
    {Kind::kNormalization, &OnnxConverter::Normalization, ""},
};

Status OnnxConverter::AddNodes() {
  for (int node = 0; node < model_.num_nodes(); ++node) {
    layer_ = &model_.layer(node);
    name_ = layer_->name;
    x_ = model_.inputs(node);
    output_ = model_.output_shape(node);
    make_.set_layer(name_);
    OnnxValue& value = values_[static_cast<size_t>(node)];
    if (layer_->kind == Kind::kInput) {
      value = OnnxValues::Of(output_, kLast, graph_->AddInput(name_, output_));
      continue;
    }
    const Row* const row =
        std::find_if(std::begin(kConverters), std::end(kConverters),
                     [&](const Row& r) { return r.kind == layer_->kind; });
    if (row == std::end(kConverters)) {
      return InvalidArgument(
          "layer '%s' is a %s, %s", name_.c_str(), ClassName(*layer_),
          layer_->custom != nullptr
              ? "of the program's own, for which ONNX has no operators"
              : "which cannot be exported to ONNX");
    }
    value = (this->*row->convert)(row->op);
    RINGLET_CHECK(value.shape == output_);
  }
  return Status();
}

// Keras names an output after the layer that gives it, or the model that does.
Status OnnxConverter::AddOutput(int node, bool softmax) {
  OnnxValue& value = values_[static_cast<size_t>(node)];
  layer_ = &model_.layer(node);
  name_ = layer_->name.substr(0, layer_->name.find('/'));
  make_.set_layer(name_);
  int tensor = make_.Last(&value);
  if (softmax) {
    RINGLET_RETURN_IF_ERROR(CheckLogits(model_, node));
    tensor = make_.Node("Softmax", {tensor}, {{"axis", -1}});
  }
  graph_->AddOutput(name_, value.shape, tensor);
  return Status();
}

// --- images ------------------------------------------------------------------

OnnxValue OnnxConverter::Pool(const char* op) {
  const Window w = Place();
  return OnnxValues::Of(output_, kFirst,
                        make_.Node(op, {make_.First(&x())},
                                   {{"kernel_shape", w.window},
                                    {"strides", w.strides},
                                    {"pads", w.pads}}));
}

OnnxValue OnnxConverter::GlobalPool(const char* op) {
  const int y = make_.Node(op, {make_.First(&x())});
  if (layer_->keepdims) return OnnxValues::Of(output_, kFirst, y);
  return OnnxValues::Of(output_, kLast,
                        make_.Node("Flatten", {y}, {{"axis", 1}}));
}

// ONNX Runtime (1.20) puts a border of zeros into the pool behind it, which
// pads with less than any number, or counts less; of -0 it does not.
OnnxValue OnnxConverter::Pad(const char*) {
  const int64_t* const b = layer_->borders;
  const OnnxInts borders = axes() == 1
                               ? OnnxInts{0, 0, b[2], 0, 0, b[3]}
                               : OnnxInts{0, 0, b[0], b[2], 0, 0, b[1], b[3]};
  const int image = make_.First(&x()), pads = make_.Ints("/pads", borders);
  const int zero = make_.Scalar(-0.0f);
  return OnnxValues::Of(output_, kFirst,
                        make_.Node("Pad", {image, pads, zero}));
}

OnnxValue OnnxConverter::Crop(const char*) {
  const int64_t before[2] = {layer_->borders[0], layer_->borders[2]};
  const OnnxInts starts = Each(before);
  OnnxInts ends, along;
  for (int i = 0; i < starts.count; ++i) {
    ends.Add(starts.values[i] + output_[i]);
    along.Add(i + 2);
  }
  const int image = make_.First(&x()), from = make_.Ints("/starts", starts);
  const int to = make_.Ints("/ends", ends), axes = make_.Ints("/axes", along);
  return OnnxValues::Of(output_, kFirst,
                        make_.Node("Slice", {image, from, to, axes}));
}

OnnxValue OnnxConverter::UpSample(const char*) {
  std::vector<float> scales = {1, 1};
  for (const int64_t n : Each(layer_->window)) {
    scales.push_back(static_cast<float>(n));
  }
  const auto count = static_cast<int64_t>(scales.size());
  const int factors =
      graph_->AddFloats(name_ + "/scales", {count}, scales.data(), count);
  return OnnxValues::Of(
      output_, kFirst,
      make_.Node("Resize", {make_.First(&x()), -1, factors},
                 {{"mode", "nearest"},
                  {"nearest_mode", "floor"},
                  {"coordinate_transformation_mode", "asymmetric"}}));
}

OnnxValue OnnxConverter::Permute(const char*) {
  OnnxInts axes = {0};
  for (int i = 0; i < layer_->shape.rank(); ++i) axes.Add(layer_->shape[i]);
  return OnnxValues::Of(
      output_, kLast,
      make_.Node("Transpose", {make_.Last(&x())}, {{"perm", axes}}));
}

// --- single numbers ----------------------------------------------------------

// min(x, max) above the threshold, slope (x - threshold) below.
OnnxValue OnnxConverter::ReLU(const char*) {
  const float max = layer_->max_value, slope = layer_->negative_slope,
              threshold = layer_->threshold;
  const AxisOrder order = x().order();
  const int x = this->x().tensor(order);
  int y;
  if (threshold != 0) {
    y = make_.Node("ThresholdedRelu", {x}, {{"alpha", threshold}});
  } else {
    y = make_.Node("Relu", {x});
  }
  if (!std::isinf(max)) {
    y = make_.Node("Clip", {y, make_.Scalar(0), make_.Scalar(max)});
  }
  if (slope != 0) {
    const int below =
        make_.Node("Clip", {make_.Node("Sub", {x, make_.Scalar(threshold)}),
                            make_.Scalar(std::numeric_limits<float>::lowest()),
                            make_.Scalar(0)});
    y = make_.Node("Add", {y, make_.Node("Mul", {below, make_.Scalar(slope)})});
  }
  return OnnxValues::Like(this->x(), order, y);
}

OnnxValue OnnxConverter::WithAlpha(const char* op) {
  const AxisOrder order = x().order();
  const float alpha =
      layer_->kind == Kind::kELU ? layer_->alpha : layer_->negative_slope;
  return OnnxValues::Like(
      x(), order, make_.Node(op, {x().tensor(order)}, {{"alpha", alpha}}));
}

// Over neighbouring axes: they are one for the operator.
OnnxValue OnnxConverter::Softmax(const char*) {
  const int first = FirstSoftmaxAxis(*layer_, output_.rank()),
            end = first + static_cast<int>(layer_->axes.size());
  Shape rows;
  for (int i = 0; i < output_.rank(); ++i) {
    if (i > first && i < end) {
      rows[first] *= output_[i];
    } else {
      rows.Append(output_[i]);
    }
  }
  const bool one = rows == output_;
  const int x =
      one ? make_.Last(&this->x()) : make_.Reshaped(&this->x(), rows).last;
  OnnxValue y = OnnxValues::Of(
      rows, kLast, make_.Node("Softmax", {x}, {{"axis", first + 1}}));
  return one ? y : make_.Reshaped(&y, output_);
}

// (x - minus) * times + plus, each for all channels or for each; null: none.
OnnxValue OnnxConverter::Affine(const std::vector<float>* minus,
                                const std::vector<float>* times,
                                const std::vector<float>* plus) {
  const struct {
    const char* op;
    const std::vector<float>* values;
    float nothing;
  } steps[] = {{"Sub", minus, 0}, {"Mul", times, 1}, {"Add", plus, 0}};
  bool one = true;  // for all channels
  for (const auto& step : steps) {
    one &= step.values == nullptr || step.values->size() == 1;
  }
  AxisOrder order = x().order();
  if (!one && x().flattened > 0) order = kLast;
  if (!one && output_.rank() == 3) order = kFirst;  // OpenCV takes no others
  int y = make_.Get(&x(), order);
  for (const auto& [op, values, nothing] : steps) {
    if (values == nullptr ||
        std::count(values->begin(), values->end(), nothing) ==
            static_cast<ptrdiff_t>(values->size())) {
      continue;
    }
    const int constant = make_.OfChannels(*values, x(), order);
    y = make_.Node(op, {y, constant});
  }
  return OnnxValues::Like(x(), order, y);
}

OnnxValue OnnxConverter::Rescaling(const char*) {
  return Affine(nullptr, &layer_->scales, &layer_->offsets);
}

OnnxValue OnnxConverter::Normalization(const char*) {
  constexpr double kLeast = 1e-7;  // deviation, as in Keras
  const bool invert = layer_->invert;
  std::vector<float> times = layer_->variances;
  for (float& t : times) {
    const double deviation = std::max(std::sqrt(double{t}), kLeast);
    t = static_cast<float>(invert ? deviation : 1 / deviation);
  }
  return invert ? Affine(nullptr, &times, &layer_->means)
                : Affine(&layer_->means, &times, nullptr);
}

// --- several inputs ----------------------------------------------------------

// Inputs of as many axes meet in either order, those of fewer need channels
// last, and axes of one before their own.
OnnxValue OnnxConverter::Merge(const char* op) {
  bool first = false, alike = true;
  for (size_t i = 0; i < x_.size(); ++i) {
    first |= x(i).first >= 0;
    alike &= x(i).shape.rank() == output_.rank() &&
             x(i).flattened == x(0).flattened &&
             (output_.rank() > 1 || x(i).shape == output_);
  }
  const AxisOrder order = first && alike ? kFirst : kLast;
  int y = -1;
  for (size_t i = 0; i < x_.size(); ++i) {
    Shape wide;
    for (int k = x(i).shape.rank(); k < output_.rank(); ++k) wide.Append(1);
    const bool fewer = wide.rank() > 0;
    for (int k = 0; k < x(i).shape.rank(); ++k) wide.Append(x(i).shape[k]);
    const int tensor =
        fewer ? make_.Reshaped(&x(i), wide).last : make_.Get(&x(i), order);
    y = i == 0 ? tensor : make_.Node(op, {y, tensor});
  }
  if (layer_->kind == Kind::kAverage) {
    y = make_.Node("Div", {y, make_.Scalar(static_cast<float>(x_.size()))});
  }
  OnnxValue value = OnnxValues::Of(output_, order, y);
  if (order == kFirst) value.flattened = x().flattened;
  return value;
}

OnnxValue OnnxConverter::Concatenate(const char*) {
  bool first = false;
  for (size_t i = 0; i < x_.size(); ++i) first |= x(i).first >= 0;
  const AxisOrder order = first && output_.rank() > 1 ? kFirst : kLast;
  std::vector<int> tensors;
  for (size_t i = 0; i < x_.size(); ++i) {
    tensors.push_back(make_.Get(&x(i), order));
  }
  return OnnxValues::Of(
      output_, order,
      graph_->AddNode("Concat", tensors.data(), tensors.size(),
                      {{"axis", OnnxValues::ChannelAxis(order)}}, name_));
}

Status AddModel(Model* model, bool softmax, OnnxGraph* graph) {
  OnnxConverter converter(model, graph);
  RINGLET_RETURN_IF_ERROR(converter.AddNodes());
  if (softmax && model->num_outputs() > 1) {
    return InvalidArgument(
        "a softmax can be put behind one output, and this model has %d",
        model->num_outputs());
  }
  for (int k = 0; k < model->num_outputs(); ++k) {
    RINGLET_RETURN_IF_ERROR(
        converter.AddOutput(model->output_node(k), softmax));
  }
  return Status();
}

}  // namespace ringlet
