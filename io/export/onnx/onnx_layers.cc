// Each kind of primitive has a row in kConverters.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "../../../core/base/check.h"
#include "../../../core/base/text.h"
#include "../lowering.h"
#include "onnx_converter.h"
#include "ringlet/export.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;

}  // namespace

const OnnxConverter::Row OnnxConverter::kConverters[] = {
    {Kind::kInput, &OnnxConverter::Input},
    {Kind::kIdentity, &OnnxConverter::PassThrough},
    {Kind::kReshape, &OnnxConverter::Reshape},
    {Kind::kMatMul, &OnnxConverter::MatMul},
    {Kind::kConv, &OnnxConverter::Conv},
    {Kind::kPool, &OnnxConverter::Pool},
    {Kind::kPad, &OnnxConverter::Pad},
    {Kind::kCrop, &OnnxConverter::Crop},
    {Kind::kRepeat, &OnnxConverter::Repeat},
    {Kind::kTranspose, &OnnxConverter::Transpose},
    {Kind::kActivate, &OnnxConverter::Activate},
    {Kind::kRelu, &OnnxConverter::Relu},
    {Kind::kLeakyRelu, &OnnxConverter::LeakyRelu},
    {Kind::kElu, &OnnxConverter::Elu},
    {Kind::kPRelu, &OnnxConverter::PRelu},
    {Kind::kSoftmax, &OnnxConverter::Softmax},
    {Kind::kMerge, &OnnxConverter::Merge},
    {Kind::kConcatenate, &OnnxConverter::Concatenate},
    {Kind::kAffine, &OnnxConverter::MultiplyAdd},
    {Kind::kBatchNormalize, &OnnxConverter::BatchNormalize},
    {Kind::kNormalize, &OnnxConverter::Normalize},
    {Kind::kGroupNormalize, &OnnxConverter::GroupNormalize},
    {Kind::kUnitNormalize, &OnnxConverter::UnitNormalize},
    {Kind::kRecurrence, &OnnxConverter::Recur},
    {Kind::kTakeTensor, &OnnxConverter::TakeTensor},
    {Kind::kGather, &OnnxConverter::Gather},
    {Kind::kConvTranspose, &OnnxConverter::ConvTranspose},
    {Kind::kAttend, &OnnxConverter::Attend},
    {Kind::kAddAttend, &OnnxConverter::Attend},
    {Kind::kPositions, &OnnxConverter::Positions},
    {Kind::kResize, &OnnxConverter::Resize},
    {Kind::kSpectrogram, &OnnxConverter::Spectrogram},
    {Kind::kStft, &OnnxConverter::Stft},
    {Kind::kMask, &OnnxConverter::Mask},
};

Status OnnxConverter::AddNodes() {
  RINGLET_RETURN_IF_ERROR(Lower(&model_, "ONNX", &lowering_));
  floats_ = lowering_.weights;
  values_.resize(lowering_.primitives.size());
  masked_.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    p_ = &lowering_.primitives[i];
    builder_.set_layer(p_->layer->name);
    const Row* const row =
        std::find_if(std::begin(kConverters), std::end(kConverters),
                     [&](const Row& r) { return r.kind == p_->kind; });
    RINGLET_CHECK(row != std::end(kConverters));
    values_[i] = (this->*row->convert)();
    RINGLET_CHECK(values_[i].shape == p_->output);
    if (unsupported_.empty()) continue;
    return InvalidArgument(
        "layer '%s' is %s with %s, which ONNX's operators do not have",
        p_->layer->name.c_str(), WithArticle(ClassName(*p_->layer)).c_str(),
        unsupported_.c_str());
  }
  graph_->KeepFloats(std::move(lowering_.merged));
  return Status();
}

// Keras names an output after its layer or nested model.
Status OnnxConverter::AddOutput(int node, bool softmax) {
  const int index = lowering_.of_node[static_cast<size_t>(node)];
  OnnxValue& value = values_[static_cast<size_t>(index)];
  const std::string& path = model_.layer(node).name;
  const std::string name = path.substr(0, path.find('/'));
  builder_.set_layer(name);
  int tensor = builder_.Last(&value);
  if (softmax) {
    RINGLET_RETURN_IF_ERROR(CheckLogits(lowering_.primitives, index));
    tensor = builder_.Node("Softmax", {tensor}, {{"axis", -1}});
  }
  graph_->AddOutput(name, value.shape, tensor);
  return Status();
}

OnnxValue OnnxConverter::Input() {
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast,
                                graph_->AddInput(p_->layer->name, p_->output));
}

OnnxValue OnnxConverter::Reshape() {
  const auto input = static_cast<size_t>(p_->inputs[0]);
  if (p_->steps != lowering_.primitives[input].steps) {  // steps as examples
    return builder_.Reshaped(&x(), p_->output, -1);
  }
  return p_->output.rank() == 1 ? builder_.Flattened(&x())
                                : builder_.Reshaped(&x(), p_->output);
}

// --- images ------------------------------------------------------------------

OnnxValue OnnxConverter::Pool() {
  const int image = builder_.First(&x());
  if (!p_->covers_image) {
    return OnnxBuilder::MakeValue(
        p_->output, AxisOrder::kChannelsFirst,
        builder_.Node(p_->is_max ? "MaxPool" : "AveragePool", {image},
                      {{"kernel_shape", AxisInts(p_->window.size)},
                       {"strides", AxisInts(p_->window.strides)},
                       {"pads", Pads()}}));
  }
  const int y = builder_.Node(
      p_->is_max ? "GlobalMaxPool" : "GlobalAveragePool", {image});
  if (p_->output.rank() > 1) {
    return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsFirst, y);
  }
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsLast,
                                builder_.Node("Flatten", {y}, {{"axis", 1}}));
}

// ONNX Runtime (1.20) merges a border of zeros into the pool after it. The
// pool's own padding is below any number, or does not count. It does not merge
// a border of -0.
OnnxValue OnnxConverter::Pad() {
  const int64_t* const b = p_->borders;
  const OnnxInts borders = p_->axes == 1
                               ? OnnxInts{0, 0, b[2], 0, 0, b[3]}
                               : OnnxInts{0, 0, b[0], b[2], 0, 0, b[1], b[3]};
  const int image = builder_.First(&x()),
            pads = builder_.Ints("/pads", borders);
  const int zero = builder_.Scalar(-0.0f);
  return OnnxBuilder::MakeValue(p_->output, AxisOrder::kChannelsFirst,
                                builder_.Node("Pad", {image, pads, zero}));
}

OnnxValue OnnxConverter::Crop() {
  const int64_t before[2] = {p_->borders[0], p_->borders[2]};
  const OnnxInts starts = AxisInts(before);
  OnnxInts ends, along;
  for (int i = 0; i < starts.count; ++i) {
    ends.Add(starts.values[i] + p_->output[i]);
    along.Add(i + 2);
  }
  const int image = builder_.First(&x()),
            from = builder_.Ints("/starts", starts);
  const int to = builder_.Ints("/ends", ends),
            axes = builder_.Ints("/axes", along);
  return OnnxBuilder::MakeValue(
      p_->output, AxisOrder::kChannelsFirst,
      builder_.Node("Slice", {image, from, to, axes}));
}

OnnxValue OnnxConverter::Repeat() {
  std::vector<float> scales = {1, 1};
  for (const int64_t n : AxisInts(p_->window.size)) {
    scales.push_back(static_cast<float>(n));
  }
  const auto count = static_cast<int64_t>(scales.size());
  const int factors = graph_->AddFloats(p_->layer->name + "/scales", {count},
                                        scales.data(), count);
  return OnnxBuilder::MakeValue(
      p_->output, AxisOrder::kChannelsFirst,
      builder_.Node("Resize", {builder_.First(&x()), -1, factors},
                    {{"mode", "nearest"},
                     {"nearest_mode", "floor"},
                     {"coordinate_transformation_mode", "asymmetric"}}));
}

// Pixels are gathered by their indices, since runtimes round a position
// differently. A border is one pixel at each side, so no operator needs the
// memory of the whole border.
OnnxValue OnnxConverter::Resize() {
  const Shape from = x().shape, to = p_->output;
  const ImageBox& box = p_->box;
  const int64_t begin[] = {box.top, box.left}, size[] = {box.height, box.width};
  const int border = box.top < 0 || box.left < 0 ? 1 : 0;
  int image = builder_.First(&x());
  if (border != 0) {
    const int pads = builder_.Ints("/pads", {0, 0, 1, 1, 0, 0, 1, 1});
    image = builder_.Node("Pad", {image, pads, builder_.Scalar(p_->fill)});
  }
  for (int i : {1, 0}) {
    std::vector<int64_t> first, second;
    std::vector<float> weights;
    for (int64_t at = 0; at < to[i]; ++at) {
      const Tap tap = MakeTap(
          at, to[i], begin[i], size[i], from[i],
          p_->nearest ? Interpolation::kNearest : Interpolation::kBilinear);
      first.push_back(tap.first + border);
      second.push_back(tap.second + border);
      weights.push_back(tap.weight);
    }
    const auto gather = [&](const char* name, const std::vector<int64_t>& at) {
      const int indices =
          graph_->AddInts(p_->layer->name + name, at.data(), to[i]);
      return builder_.Node("Gather", {image, indices}, {{"axis", i + 2}});
    };
    const int a = gather("/pixels", first);
    if (first == second) {
      image = a;
      continue;
    }
    const int b = gather("/next_pixels", second);
    const int weight = graph_->AddFloats(
        p_->layer->name + "/weights",
        i == 0 ? OnnxInts{to[i], 1} : OnnxInts{to[i]}, weights.data(), to[i]);
    const int step =
        builder_.Node("Mul", {builder_.Node("Sub", {b, a}), weight});
    image = builder_.Node("Add", {a, step});
  }
  return OnnxBuilder::MakeValue(to, AxisOrder::kChannelsFirst, image);
}

OnnxValue OnnxConverter::Transpose() {
  OnnxInts axes = {0};
  for (int i = 0; i < p_->dims.rank(); ++i) axes.Add(p_->dims[i]);
  return OnnxBuilder::MakeValue(
      p_->output, AxisOrder::kChannelsLast,
      builder_.Node("Transpose", {builder_.Last(&x())}, {{"perm", axes}}));
}

// --- single numbers ----------------------------------------------------------

// min(x, max) above the threshold, slope (x - threshold) below.
OnnxValue OnnxConverter::Relu() {
  const float max = p_->max_value, slope = p_->slope, threshold = p_->threshold;
  const AxisOrder order = x().order();
  const int x = this->x().tensor(order);
  int y;
  if (threshold != 0) {
    y = builder_.Node("ThresholdedRelu", {x}, {{"alpha", threshold}});
  } else {
    y = builder_.Node("Relu", {x});
  }
  if (!std::isinf(max)) {
    y = builder_.Node("Clip", {y, builder_.Scalar(0), builder_.Scalar(max)});
  }
  if (slope != 0) {
    const int below = builder_.Node(
        "Clip", {builder_.Node("Sub", {x, builder_.Scalar(threshold)}),
                 builder_.Scalar(std::numeric_limits<float>::lowest()),
                 builder_.Scalar(0)});
    y = builder_.Node(
        "Add", {y, builder_.Node("Mul", {below, builder_.Scalar(slope)})});
  }
  return OnnxBuilder::Like(this->x(), order, y);
}

OnnxValue OnnxConverter::WithAlpha(const char* op, float alpha) {
  const AxisOrder order = x().order();
  return OnnxBuilder::Like(
      x(), order, builder_.Node(op, {x().tensor(order)}, {{"alpha", alpha}}));
}

// The operator treats neighbouring axes as one.
OnnxValue OnnxConverter::Softmax() {
  const Shape& output = p_->output;
  const int first = p_->first_axis, end = first + p_->num_axes;
  Shape rows;
  for (int i = 0; i < output.rank(); ++i) {
    if (i > first && i < end) {
      rows[first] *= output[i];
    } else {
      rows.Append(output[i]);
    }
  }
  const bool one = rows == output;
  const int x = one ? builder_.Last(&this->x())
                    : builder_.Reshaped(&this->x(), rows).last;
  OnnxValue y = OnnxBuilder::MakeValue(
      rows, AxisOrder::kChannelsLast,
      builder_.Node("Softmax", {x}, {{"axis", first + 1}}));
  return one ? y : builder_.Reshaped(&y, output);
}

OnnxValue OnnxConverter::MultiplyAdd() {
  const struct {
    const char* op;
    const std::vector<float>& values;
    float nothing;
  } steps[] = {
      {"Sub", p_->center, 0}, {"Mul", p_->scale, 1}, {"Add", p_->offset, 0}};
  bool one = true;  // one number for all channels
  for (const auto& step : steps) one &= step.values.size() <= 1;
  AxisOrder order = x().order();
  if (!one && x().flattened > 0) order = AxisOrder::kChannelsLast;
  // OpenCV supports only these.
  if (!one && p_->output.rank() == 3) order = AxisOrder::kChannelsFirst;
  int y = builder_.Get(&x(), order);
  for (const auto& [op, values, nothing] : steps) {
    if (std::count(values.begin(), values.end(), nothing) ==
        static_cast<ptrdiff_t>(values.size())) {
      continue;
    }
    const int constant = builder_.ChannelConstant(values, x(), order);
    y = builder_.Node(op, {y, constant});
  }
  return OnnxBuilder::Like(x(), order, y);
}

// --- several inputs ----------------------------------------------------------

// Inputs with equal numbers of axes work in either order. Inputs with fewer
// axes need channels last, and leading axes of 1.
OnnxValue OnnxConverter::Merge() {
  // ONNX's operators, by value of Merge.
  constexpr const char* kOps[] = {"Add", "Sub", "Mul", "Max",
                                  "Min", "Add", "Div"};
  const char* const op = kOps[static_cast<size_t>(p_->merge)];
  const Shape& output = p_->output;
  const size_t inputs = p_->inputs.size();
  bool first = false, alike = true;
  for (size_t i = 0; i < inputs; ++i) {
    first |= x(i).first >= 0;
    alike &= x(i).shape.rank() == output.rank() &&
             x(i).flattened == x(0).flattened &&
             (output.rank() > 1 || x(i).shape == output);
  }
  const AxisOrder order =
      first && alike ? AxisOrder::kChannelsFirst : AxisOrder::kChannelsLast;
  int y = -1;
  for (size_t i = 0; i < inputs; ++i) {
    Shape wide;
    for (int k = x(i).shape.rank(); k < output.rank(); ++k) wide.Append(1);
    const bool fewer = wide.rank() > 0;
    for (int k = 0; k < x(i).shape.rank(); ++k) wide.Append(x(i).shape[k]);
    int tensor = fewer ? builder_.Reshaped(&x(i), wide).last
                       : builder_.Get(&x(i), order);
    if (i > 0 && p_->merge == ringlet::Merge::kDivide) {
      constexpr float kLeast = std::numeric_limits<float>::min();
      tensor = builder_.Node("Max", {tensor, builder_.Scalar(kLeast)});
    }
    y = i == 0 ? tensor : builder_.Node(op, {y, tensor});
  }
  if (p_->merge == ringlet::Merge::kAverage) {
    y = builder_.Node("Div", {y, builder_.Scalar(static_cast<float>(inputs))});
  }
  OnnxValue value = OnnxBuilder::MakeValue(output, order, y);
  if (order == AxisOrder::kChannelsFirst) value.flattened = x().flattened;
  return value;
}

OnnxValue OnnxConverter::Concatenate() {
  const size_t inputs = p_->inputs.size();
  bool first = false;
  for (size_t i = 0; i < inputs; ++i) first |= x(i).first >= 0;
  const AxisOrder order = first && p_->output.rank() > 1
                              ? AxisOrder::kChannelsFirst
                              : AxisOrder::kChannelsLast;
  std::vector<int> tensors;
  for (size_t i = 0; i < inputs; ++i) {
    tensors.push_back(builder_.Get(&x(i), order));
  }
  return OnnxBuilder::MakeValue(
      p_->output, order,
      graph_->AddNode("Concat", tensors.data(), tensors.size(),
                      {{"axis", OnnxBuilder::ChannelAxis(order)}},
                      p_->layer->name));
}

namespace {

// Adds the compiled model's inputs, layers and outputs, with a final softmax if
// `softmax`. The graph refers to the model's weights.
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

}  // namespace

Status ExportOnnx(Model* model, const std::string& path,
                  const ExportOnnxOptions& options) {
  RINGLET_RETURN_IF_ERROR(CheckHasWeights(*model, path));
  OnnxGraph graph;
  RINGLET_RETURN_IF_ERROR(
      AddModel(model, options.softmax, &graph).Annotate("%s", path.c_str()));
  return graph.Write(model->name(), options.metadata, options.files, path);
}

}  // namespace ringlet
