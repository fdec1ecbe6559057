// To export a class of layer, give it a row in kRows. Its function fills in a
// primitive that has the row's kind, and the node's inputs and output.

#include "lowering.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "../../core/base/text.h"
#include "../../core/layers/basic/lora.h"
#include "../../core/layers/layer_table.h"
#include "../../core/layers/op.h"
#include "../../core/model/model_parts.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;
using Floats = std::vector<float>;

class LoweringBuilder {
 public:
  LoweringBuilder(Model* model, Lowering* out)
      : model_(*model), floats_(model->weights()), out_(*out) {}

  Status Run(const char* target);

 private:
  struct Row {
    Layer::Kind layer;
    Kind kind;
    void (LoweringBuilder::*fill)(Primitive*, int argument);
    int argument;
  };
  static const Row kRows[];

  void KeepInput(Primitive*, int) {}
  void Activate(Primitive*, int);
  void MatMul(Primitive*, int);
  void Dot(Primitive*, int);
  void UnitNormalize(Primitive*, int);
  int AddMatrix(const Primitive& dot, size_t input, bool sums_rows);
  int AddPlainMatrix(const Primitive& dot, size_t input, bool sums_rows);
  void Conv(Primitive*, int depthwise);
  void SeparableConv(Primitive*, int);
  void ConvTranspose(Primitive*, int);
  void Pool(Primitive*, int max);
  void GlobalPool(Primitive*, int max);
  void DivideByCount(Primitive* mean, int mask);
  void Mask(Primitive*, int);
  void Masking(Primitive*, int);
  void PadOrCrop(Primitive*, int);
  void UpSample(Primitive*, int);
  void Permute(Primitive*, int);
  void Resize(Primitive*, int);
  void FillActivationParameters(Primitive*, int);
  void PRelu(Primitive*, int);
  void Softmax(Primitive*, int);
  void MergeInputs(Primitive*, int merge);
  void BatchNormalize(Primitive*, int);
  void LayerNormalize(Primitive*, int);
  void GroupNormalize(Primitive*, int);
  void Rescale(Primitive*, int);
  void Normalize(Primitive*, int);
  void Recur(Primitive*, int);
  void TakeTensor(Primitive*, int);
  void RepeatRow(Primitive*, int);
  void Gather(Primitive*, int);
  void Attend(Primitive*, int);
  void MultiHeadAttend(Primitive*, int);
  int Project(const Primitive& layer, int input, const char* name,
              int64_t size);
  int AddColumn(const Primitive& layer, int mask);
  void MultiplyByMask(Primitive* p, int mask);
  void MaskScores(Primitive* attend, const std::vector<int>& masks);
  std::vector<int> TakeMasks(Primitive* p) const;

  const Layer& AddStepLayer(const Layer& layer);
  bool IsRead(int node) const;
  bool IsOfAnyShape(int node, Layer::Kind kind) const;
  void SplitSteps(Primitive* p);
  int JoinSteps(const Primitive& p, const Shape& output);
  const Variable* Find(const Primitive& p, const char* weight) const;
  void MergeLoraOf(const Primitive& p, const std::string& matrix);
  const Shape& InputOf(const Primitive& p) const {
    return out_.primitives[static_cast<size_t>(p.inputs[0])].output;
  }
  void PlaceWindow(Primitive* p) const;
  int Add(Primitive p) {
    out_.primitives.push_back(std::move(p));
    return static_cast<int>(out_.primitives.size()) - 1;
  }

  const Model& model_;
  const float* const floats_;
  Lowering& out_;
};

using Is = Layer::Kind;
const LoweringBuilder::Row LoweringBuilder::kRows[] = {
    {Is::kInput, Kind::kInput, &LoweringBuilder::KeepInput, 0},
    {Is::kReshape, Kind::kReshape, &LoweringBuilder::KeepInput, 0},
    {Is::kFlatten, Kind::kReshape, &LoweringBuilder::KeepInput, 0},
    {Is::kDropout, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kSpatialDropout1D, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kSpatialDropout2D, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kGaussianNoise, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kGaussianDropout, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kAlphaDropout, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomFlip, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomTranslation, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomRotation, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomZoom, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomContrast, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomBrightness, Kind::kIdentity, &LoweringBuilder::KeepInput, 0},
    {Is::kRandomCrop, Kind::kResize, &LoweringBuilder::Resize, 0},
    {Is::kCenterCrop, Kind::kResize, &LoweringBuilder::Resize, 0},
    {Is::kResizing, Kind::kResize, &LoweringBuilder::Resize, 0},
    {Is::kDense, Kind::kMatMul, &LoweringBuilder::MatMul, 0},
    {Is::kConv2D, Kind::kConv, &LoweringBuilder::Conv, 0},
    {Is::kConv1D, Kind::kConv, &LoweringBuilder::Conv, 0},
    {Is::kDepthwiseConv2D, Kind::kConv, &LoweringBuilder::Conv, 1},
    {Is::kDepthwiseConv1D, Kind::kConv, &LoweringBuilder::Conv, 1},
    {Is::kSeparableConv2D, Kind::kMatMul, &LoweringBuilder::SeparableConv, 0},
    {Is::kSeparableConv1D, Kind::kMatMul, &LoweringBuilder::SeparableConv, 0},
    {Is::kConv2DTranspose, Kind::kConvTranspose,
     &LoweringBuilder::ConvTranspose, 0},
    {Is::kConv1DTranspose, Kind::kConvTranspose,
     &LoweringBuilder::ConvTranspose, 0},
    {Is::kActivation, Kind::kActivate, &LoweringBuilder::Activate, 0},
    {Is::kReLU, Kind::kRelu, &LoweringBuilder::FillActivationParameters, 0},
    {Is::kLeakyReLU, Kind::kLeakyRelu,
     &LoweringBuilder::FillActivationParameters, 0},
    {Is::kELU, Kind::kElu, &LoweringBuilder::FillActivationParameters, 0},
    {Is::kPReLU, Kind::kPRelu, &LoweringBuilder::PRelu, 0},
    {Is::kSoftmax, Kind::kSoftmax, &LoweringBuilder::Softmax, 0},
    {Is::kMaxPooling2D, Kind::kPool, &LoweringBuilder::Pool, 1},
    {Is::kMaxPooling1D, Kind::kPool, &LoweringBuilder::Pool, 1},
    {Is::kAveragePooling2D, Kind::kPool, &LoweringBuilder::Pool, 0},
    {Is::kAveragePooling1D, Kind::kPool, &LoweringBuilder::Pool, 0},
    {Is::kGlobalMaxPooling2D, Kind::kPool, &LoweringBuilder::GlobalPool, 1},
    {Is::kGlobalMaxPooling1D, Kind::kPool, &LoweringBuilder::GlobalPool, 1},
    {Is::kGlobalAveragePooling2D, Kind::kPool, &LoweringBuilder::GlobalPool, 0},
    {Is::kGlobalAveragePooling1D, Kind::kPool, &LoweringBuilder::GlobalPool, 0},
    {Is::kZeroPadding2D, Kind::kPad, &LoweringBuilder::PadOrCrop, 0},
    {Is::kZeroPadding1D, Kind::kPad, &LoweringBuilder::PadOrCrop, 0},
    {Is::kCropping2D, Kind::kCrop, &LoweringBuilder::PadOrCrop, 0},
    {Is::kCropping1D, Kind::kCrop, &LoweringBuilder::PadOrCrop, 0},
    {Is::kUpSampling2D, Kind::kRepeat, &LoweringBuilder::UpSample, 0},
    {Is::kUpSampling1D, Kind::kRepeat, &LoweringBuilder::UpSample, 0},
    {Is::kPermute, Kind::kTranspose, &LoweringBuilder::Permute, 0},
    {Is::kAdd, Kind::kMerge, &LoweringBuilder::MergeInputs,
     static_cast<int>(Merge::kAdd)},
    {Is::kAverage, Kind::kMerge, &LoweringBuilder::MergeInputs,
     static_cast<int>(Merge::kAverage)},
    {Is::kSubtract, Kind::kMerge, &LoweringBuilder::MergeInputs,
     static_cast<int>(Merge::kSubtract)},
    {Is::kMultiply, Kind::kMerge, &LoweringBuilder::MergeInputs,
     static_cast<int>(Merge::kMultiply)},
    {Is::kMaximum, Kind::kMerge, &LoweringBuilder::MergeInputs,
     static_cast<int>(Merge::kMaximum)},
    {Is::kMinimum, Kind::kMerge, &LoweringBuilder::MergeInputs,
     static_cast<int>(Merge::kMinimum)},
    {Is::kConcatenate, Kind::kConcatenate, &LoweringBuilder::KeepInput, 0},
    {Is::kBatchNormalization, Kind::kBatchNormalize,
     &LoweringBuilder::BatchNormalize, 0},
    {Is::kLayerNormalization, Kind::kNormalize,
     &LoweringBuilder::LayerNormalize, 0},
    {Is::kGroupNormalization, Kind::kGroupNormalize,
     &LoweringBuilder::GroupNormalize, 0},
    {Is::kUnitNormalization, Kind::kUnitNormalize,
     &LoweringBuilder::UnitNormalize, 0},
    {Is::kRescaling, Kind::kAffine, &LoweringBuilder::Rescale, 0},
    {Is::kNormalization, Kind::kAffine, &LoweringBuilder::Normalize, 0},
    {Is::kSimpleRNN, Kind::kRecurrence, &LoweringBuilder::Recur, 0},
    {Is::kLSTM, Kind::kRecurrence, &LoweringBuilder::Recur, 0},
    {Is::kGRU, Kind::kRecurrence, &LoweringBuilder::Recur, 0},
    {Is::kRecurrentOutput, Kind::kTakeTensor, &LoweringBuilder::TakeTensor, 0},
    {Is::kRepeatVector, Kind::kRepeat, &LoweringBuilder::RepeatRow, 0},
    {Is::kEmbedding, Kind::kGather, &LoweringBuilder::Gather, 0},
    {Is::kPositionEmbedding, Kind::kPositions, &LoweringBuilder::Gather, 0},
    {Is::kAttention, Kind::kAttend, &LoweringBuilder::Attend, 0},
    {Is::kAdditiveAttention, Kind::kAddAttend, &LoweringBuilder::Attend, 0},
    {Is::kMultiHeadAttention, Kind::kMatMul, &LoweringBuilder::MultiHeadAttend,
     0},
    {Is::kMelSpectrogram, Kind::kSpectrogram, &LoweringBuilder::KeepInput, 0},
    {Is::kMFCC, Kind::kSpectrogram, &LoweringBuilder::KeepInput, 0},
    {Is::kSTFTSpectrogram, Kind::kStft, &LoweringBuilder::KeepInput, 0},
    {Is::kDot, Kind::kReshape, &LoweringBuilder::Dot, 0},
    {Is::kMask, Kind::kMask, &LoweringBuilder::Mask, 0},
    {Is::kMasking, Kind::kMerge, &LoweringBuilder::Masking, 0},
};

// These layers work on the last axis of any shape, or on all numbers in their
// order. So they compute all steps of a TimeDistributed together. A layer with
// several inputs does so only if all inputs have the output's shape.
constexpr Is kOfAnyShape[] = {Is::kDense,   Is::kActivation, Is::kReLU,
                              Is::kDropout, Is::kLeakyReLU,  Is::kELU,
                              Is::kFlatten, Is::kReshape,    Is::kAdd,
                              Is::kAverage, Is::kSubtract,   Is::kMultiply,
                              Is::kMaximum, Is::kMinimum,    Is::kConcatenate};

bool LoweringBuilder::IsRead(int node) const {
  for (int reader = node + 1; reader < model_.num_nodes(); ++reader) {
    // A BatchNormalization needs the mask only for the statistics of training.
    if (model_.layer(reader).kind == Is::kBatchNormalization) continue;
    const std::vector<int>& inputs = model_.inputs(reader);
    if (std::find(inputs.begin(), inputs.end(), node) != inputs.end()) {
      return true;
    }
  }
  return false;
}

bool LoweringBuilder::IsOfAnyShape(int node, Layer::Kind kind) const {
  if (std::find(std::begin(kOfAnyShape), std::end(kOfAnyShape), kind) ==
      std::end(kOfAnyShape)) {
    return false;
  }
  const std::vector<int>& inputs = model_.inputs(node);
  return kind == Is::kConcatenate || inputs.size() == 1 ||
         std::all_of(inputs.begin(), inputs.end(), [&](int input) {
           return model_.output_shape(input) == model_.output_shape(node);
         });
}

// --- products ----------------------------------------------------------------

const Variable* LoweringBuilder::Find(const Primitive& p,
                                      const char* weight) const {
  return FindWeight(model_, *p.layer, weight);
}

// Merges the LoRA of a layer into its matrix of this name.
void LoweringBuilder::MergeLoraOf(const Primitive& p,
                                  const std::string& matrix) {
  if (p.layer->lora_rank == 0) return;
  const Variable* const w = Find(p, matrix.c_str());
  const Variable* const a = Find(p, ("lora_" + matrix + "_a").c_str());
  const Variable* const b = Find(p, ("lora_" + matrix + "_b").c_str());
  if (out_.merged.empty()) {
    out_.merged.assign(floats_, floats_ + model_.num_weights());
    out_.weights = out_.merged.data();
  }
  const Floats merged = MergeLora(*p.layer, w->shape, floats_ + w->offset,
                                  floats_ + a->offset, floats_ + b->offset);
  std::copy(merged.begin(), merged.end(),
            out_.merged.begin() + static_cast<ptrdiff_t>(w->offset));
}

void LoweringBuilder::PlaceWindow(Primitive* p) const {
  const Layer& layer = *p->layer;
  const Shape& x = InputOf(*p);
  const int lines = p->axes == 1 ? 1 : 0;  // a line has no height
  for (int i = lines; i < 2; ++i) {
    Primitive::Window& w = p->window;
    w.size[i] = layer.window[i];
    w.strides[i] = layer.strides[i];
    w.dilation[i] = layer.dilation[i];
    const int64_t extent = (w.size[i] - 1) * w.dilation[i] + 1;
    if (layer.padding == kCausal) w.before[i] = extent - 1;
    if (layer.padding != kSame) continue;
    const int64_t covered = (p->output[i - lines] - 1) * w.strides[i] + extent;
    const int64_t pad = std::max<int64_t>(covered - x[i - lines], 0);
    w.before[i] = pad / 2;
    w.after[i] = pad - pad / 2;
  }
}

void LoweringBuilder::MatMul(Primitive* p, int) {
  MergeLoraOf(*p, "kernel");
  p->kernel = Find(*p, "kernel");
  p->bias = Find(*p, "bias");
  p->activation = p->layer->activation;
}

// The product of two matrices. The summed axis is the last axis of the first
// matrix, and the first axis of the second.
void LoweringBuilder::Dot(Primitive* p, int) {
  Primitive product = *p;
  product.kind = Kind::kMatMul;
  product.inputs = {AddMatrix(*p, 0, /*sums_rows=*/false),
                    AddMatrix(*p, 1, /*sums_rows=*/true)};
  const auto shape_of = [&](size_t input) {
    return out_.primitives[static_cast<size_t>(product.inputs[input])].output;
  };
  product.output = {shape_of(0)[0], shape_of(1)[1]};
  p->inputs = {Add(std::move(product))};
}

// Adds an input of a Dot as a matrix, which is summed over its rows or columns.
// The rows are normalized while the summed axis is last.
int LoweringBuilder::AddMatrix(const Primitive& dot, size_t input,
                               bool sums_rows) {
  if (dot.layer->normalize) {
    Primitive unit = dot;
    unit.kind = Kind::kUnitNormalize;
    unit.num_axes = 1;
    unit.epsilon = 1e-14f;
    unit.inputs = {AddPlainMatrix(dot, input, /*sums_rows=*/false)};
    unit.output = InputOf(unit);
    const int normalized = Add(std::move(unit));
    if (!sums_rows) return normalized;
    Primitive p = dot;
    p.kind = Kind::kTranspose;
    p.dims = {2, 1};
    p.inputs = {normalized};
    p.output = {InputOf(p)[1], InputOf(p)[0]};
    return Add(std::move(p));
  }
  return AddPlainMatrix(dot, input, sums_rows);
}

int LoweringBuilder::AddPlainMatrix(const Primitive& dot, size_t input,
                                    bool sums_rows) {
  Primitive p = dot;
  p.inputs = {dot.inputs[input]};
  const Shape x = InputOf(p);
  const std::vector<int64_t>& axes = dot.layer->axes;
  const int64_t axis = input == 0 ? axes[0] : axes.back();
  const bool is_first = axis == 1 || axis == -2;
  if (x.rank() == 1) {
    p.output = sums_rows ? Shape{x[0], 1} : Shape{1, x[0]};
  } else if (is_first == sums_rows) {
    return p.inputs[0];
  } else {
    p.kind = Kind::kTranspose;
    p.dims = {2, 1};
    p.output = {x[1], x[0]};
  }
  return Add(std::move(p));
}

void LoweringBuilder::Conv(Primitive* p, int depthwise) {
  MatMul(p, 0);
  PlaceWindow(p);
  p->depthwise = depthwise != 0;
  p->groups = p->depthwise ? InputOf(*p).back() : p->layer->groups;
}

void LoweringBuilder::ConvTranspose(Primitive* p, int) {
  const Shape& x = InputOf(*p);
  MatMul(p, 0);
  const int lines = p->axes == 1 ? 1 : 0;  // a line has no height
  for (int i = lines; i < 2; ++i) {
    Primitive::Window& w = p->window;
    w.size[i] = p->layer->window[i];
    w.strides[i] = p->layer->strides[i];
    w.dilation[i] = p->layer->dilation[i];
    const int64_t covered =
        (x[i - lines] - 1) * w.strides[i] + (w.size[i] - 1) * w.dilation[i] + 1;
    const int64_t pad = covered - p->output[i - lines];
    w.before[i] = std::max<int64_t>(pad, 0) / 2;
    w.after[i] = pad - w.before[i];
  }
}

// Adds a depthwise convolution, then a product over its channels.
void LoweringBuilder::SeparableConv(Primitive* p, int) {
  Primitive first = *p;
  first.kind = Kind::kConv;
  first.kernel = Find(*p, "depthwise_kernel");
  first.depthwise = true;
  first.groups = InputOf(*p).back();
  first.output[first.output.rank() - 1] =
      first.groups * p->layer->depth_multiplier;
  PlaceWindow(&first);
  p->inputs = {Add(std::move(first))};
  p->kernel = Find(*p, "pointwise_kernel");
  p->bias = Find(*p, "bias");
  p->activation = p->layer->activation;
}

// --- images ------------------------------------------------------------------

void LoweringBuilder::Pool(Primitive* p, int max) {
  PlaceWindow(p);
  p->is_max = max != 0;
}

void LoweringBuilder::GlobalPool(Primitive* p, int max) {
  const Shape& x = InputOf(*p);
  for (int i = 0; i < p->axes; ++i) p->window.size[2 - p->axes + i] = x[i];
  p->covers_image = true;
  p->is_max = max != 0;
  const std::vector<int> masks = TakeMasks(p);
  if (!masks.empty()) DivideByCount(p, masks[0]);
}

// A mean of the steps that count is the mean of the products with the mask,
// divided by the mean of the mask.
void LoweringBuilder::DivideByCount(Primitive* mean, int mask) {
  Primitive products = *mean, share = *mean;
  products.output = InputOf(*mean);
  MultiplyByMask(&products, mask);
  share.inputs = {products.inputs[1]};
  share.output[share.output.rank() - 1] = 1;
  mean->inputs = {Add(std::move(products))};
  const int sum = Add(*mean);
  mean->kind = Kind::kMerge;
  mean->merge = Merge::kDivide;
  mean->inputs = {sum, Add(std::move(share))};
}

void LoweringBuilder::PadOrCrop(Primitive* p, int) {
  std::copy_n(p->layer->borders, 4, p->borders);
}

void LoweringBuilder::UpSample(Primitive* p, int) {
  for (int i = p->axes == 1 ? 1 : 0; i < 2; ++i) {
    p->window.size[i] = p->layer->window[i];
  }
}

// Resizes the box. If this is not necessary, the box is cut out of the image,
// or its border is added. A border with a value other than 0 is added to the
// image minus this value.
void LoweringBuilder::Resize(Primitive* p, int) {
  const Layer& layer = *p->layer;
  const Shape& x = InputOf(*p);
  const ImageBox box = BoxOf(layer, x);
  const Shape part = {box.height, box.width, x[2]};
  const float fill = box.top < 0 || box.left < 0 ? layer.fill_value : 0;
  if (part != p->output) {
    p->nearest = layer.interpolation == Interpolation::kNearest;
    p->box = box;
    p->fill = fill;
    return;
  }
  std::vector<Primitive> steps;
  const auto add = [&](Kind kind, const Shape& output) {
    steps.push_back(*p);
    steps.back().kind = kind;
    steps.back().output = output;
    return &steps.back();
  };
  const auto add_number = [&](const Shape& output, float number) {
    Primitive* const affine = add(Kind::kAffine, output);
    affine->scale = {1};
    affine->offset = {number};
  };
  if (part != x) {
    if (fill != 0) add_number(x, -fill);
    const bool pads = part.elements() > x.elements();
    int64_t* const borders =
        add(pads ? Kind::kPad : Kind::kCrop, part)->borders;
    borders[0] = std::abs(box.top);
    borders[1] = std::abs(part[0] - x[0]) - borders[0];
    borders[2] = std::abs(box.left);
    borders[3] = std::abs(part[1] - x[1]) - borders[2];
    if (fill != 0) add_number(part, fill);
  }
  if (steps.empty()) add(Kind::kIdentity, x);
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    steps[i + 1].inputs = {Add(steps[i])};
  }
  *p = steps.back();
}

void LoweringBuilder::Permute(Primitive* p, int) { p->dims = p->layer->shape; }

// --- single numbers ----------------------------------------------------------

void LoweringBuilder::Activate(Primitive* p, int) {
  p->activation = p->layer->activation;
  if (p->activation == kLinear) p->kind = Kind::kIdentity;
}

void LoweringBuilder::FillActivationParameters(Primitive* p, int) {
  p->max_value = p->layer->max_value;
  p->slope = p->layer->negative_slope;
  p->threshold = p->layer->threshold;
  p->alpha = p->layer->alpha;
}

void LoweringBuilder::PRelu(Primitive* p, int) {
  p->slopes = Find(*p, "alpha");
}

void LoweringBuilder::Softmax(Primitive* p, int) {
  const int rank = p->output.rank();
  p->first_axis = rank;
  for (const int64_t axis : p->layer->axes) {
    const auto index = static_cast<int>(axis < 0 ? axis + rank : axis - 1);
    p->first_axis = std::min(p->first_axis, index);
  }
  p->num_axes = static_cast<int>(p->layer->axes.size());
}

void LoweringBuilder::MergeInputs(Primitive* p, int merge) {
  p->merge = static_cast<Merge>(merge);
}

// --- masks -------------------------------------------------------------------

void LoweringBuilder::Mask(Primitive* p, int) {
  p->fill = p->layer->mask_zero ? 0 : p->layer->mask_value;
}

void LoweringBuilder::Masking(Primitive* p, int) {
  Primitive mask = *p;
  mask.kind = Kind::kMask;
  mask.fill = p->layer->mask_value;
  mask.output = Shape();
  for (int i = 0; i + 1 < p->output.rank(); ++i) {
    mask.output.Append(p->output[i]);
  }
  MultiplyByMask(p, Add(std::move(mask)));
}

// Removes the masks from the inputs. Returns the mask of each input, -1 for an
// input without one.
std::vector<int> LoweringBuilder::TakeMasks(Primitive* p) const {
  std::vector<int> masks;
  if (p->layer->masked_inputs == 0) return masks;
  const auto inputs =
      static_cast<ptrdiff_t>(p->inputs.size() - CountMasks(*p->layer));
  auto next = p->inputs.begin() + inputs;
  for (int i = 0; i < 3; ++i) {
    const bool masked = (p->layer->masked_inputs >> i & 1) != 0;
    masks.push_back(masked ? *next++ : -1);
  }
  p->inputs.resize(static_cast<size_t>(inputs));
  return masks;
}

// Adds a mask with an additional last axis of 1.
int LoweringBuilder::AddColumn(const Primitive& layer, int mask) {
  Primitive column = layer;
  column.kind = Kind::kReshape;
  column.inputs = {mask};
  column.output = InputOf(column);
  column.output.Append(1);
  return Add(std::move(column));
}

void LoweringBuilder::MultiplyByMask(Primitive* p, int mask) {
  p->kind = Kind::kMerge;
  p->merge = Merge::kMultiply;
  p->inputs = {p->inputs[0], AddColumn(*p, mask)};
}

// `masks` has the masks of queries, values and keys.
void LoweringBuilder::MaskScores(Primitive* attend,
                                 const std::vector<int>& masks) {
  if (masks.empty()) return;
  const auto multiply = [&](int a, int b, const Shape& output) {
    if (a < 0 || b < 0) return std::max(a, b);
    Primitive p;
    p.kind = Kind::kMerge;
    p.merge = Merge::kMultiply;
    p.layer = attend->layer;
    p.inputs = {a, b};
    p.output = output;
    return Add(std::move(p));
  };
  const auto steps_of = [&](size_t input) {
    return out_.primitives[static_cast<size_t>(attend->inputs[input])]
        .output[0];
  };
  int mask = multiply(masks[1], masks[2], {steps_of(1)});
  if (mask >= 0) {  // a row of (1, values)
    Primitive row = *attend;
    row.kind = Kind::kReshape;
    row.inputs = {mask};
    row.output = {1, steps_of(1)};
    mask = Add(std::move(row));
  }
  const int column = masks[0] < 0 ? -1 : AddColumn(*attend, masks[0]);
  mask = multiply(column, mask, {steps_of(0), steps_of(1)});
  attend->masked = true;
  attend->inputs.push_back(mask);
}

// --- normalizations ----------------------------------------------------------

void LoweringBuilder::BatchNormalize(Primitive* p, int) {
  TakeMasks(p);
  p->gamma = Find(*p, "gamma");
  p->beta = Find(*p, "beta");
  p->mean = Find(*p, "moving_mean");
  p->variance = Find(*p, "moving_variance");
  p->epsilon = p->layer->epsilon;
}

void LoweringBuilder::LayerNormalize(Primitive* p, int) {
  p->gamma = Find(*p, "gamma");
  p->beta = Find(*p, "beta");
  p->num_axes = static_cast<int>(p->layer->axes.size());
  p->epsilon = p->layer->epsilon;
}

void LoweringBuilder::UnitNormalize(Primitive* p, int) {
  p->num_axes = static_cast<int>(p->layer->axes.size());
  p->epsilon = 1e-12f;
}

void LoweringBuilder::GroupNormalize(Primitive* p, int) {
  LayerNormalize(p, 0);
  const int64_t groups = p->layer->groups;
  p->groups = groups == -1 ? InputOf(*p).back() : groups;
}

void LoweringBuilder::Rescale(Primitive* p, int) {
  p->scale = p->layer->scales;
  p->offset = p->layer->offsets;
}

void LoweringBuilder::Normalize(Primitive* p, int) {
  constexpr double kMin = 1e-7;  // least deviation, as in Keras
  const bool invert = p->layer->invert;
  for (const float variance : p->layer->variances) {
    const double deviation = std::max(std::sqrt(double{variance}), kMin);
    p->scale.push_back(static_cast<float>(invert ? deviation : 1 / deviation));
  }
  (invert ? p->offset : p->center) = p->layer->means;
}

// --- recurrences -------------------------------------------------------------

void LoweringBuilder::Recur(Primitive* p, int) {
  const Layer& layer = *p->layer;
  MatMul(p, 0);
  p->masked = layer.masked_inputs != 0;
  p->zero_masked = layer.zero_output_for_mask;
  p->recurrent_kernel = Find(*p, "recurrent_kernel");
  p->gate_activation = layer.recurrent_activation;
  p->backwards = layer.go_backwards;
  p->all_steps = layer.return_sequences;
  p->reversed = p->backwards && p->all_steps && !layer.keeps_order;
  if (layer.return_state) p->last_states = layer.kind == Is::kLSTM ? 2 : 1;
  if (layer.kind == Is::kLSTM) p->cell = Cell::kLstm;
  if (layer.kind != Is::kGRU) return;
  p->cell = layer.reset_after ? Cell::kGruAfter : Cell::kGruBefore;
}

void LoweringBuilder::TakeTensor(Primitive* p, int) {
  p->tensor = p->layer->tensor;
}

// Adds a line of one step, repeated.
void LoweringBuilder::RepeatRow(Primitive* p, int) {
  Primitive line = *p;
  line.kind = Kind::kReshape;
  line.output = {1, p->output[1]};
  p->inputs = {Add(std::move(line))};
  p->axes = 1;
  p->window.size[1] = p->layer->repeats;
}

void LoweringBuilder::Gather(Primitive* p, int) {
  MergeLoraOf(*p, "embeddings");
  p->kernel = Find(*p, "embeddings");
}

// The inputs of the layer are query, value and perhaps key.
void LoweringBuilder::Attend(Primitive* p, int) {
  const std::vector<int> masks = TakeMasks(p), inputs = p->inputs;
  p->inputs = {inputs[0], inputs.back(), inputs[1]};
  p->causal = p->layer->use_causal_mask;
  p->gamma = Find(*p, "scale");
  MaskScores(p, masks);
  if (masks.empty() || masks[0] < 0) return;
  p->inputs = {Add(*p)};
  MultiplyByMask(p, masks[0]);  // masked queries have zeros
}

// Projections of the inputs, a kAttend, and a projection of its output.
void LoweringBuilder::MultiHeadAttend(Primitive* p, int) {
  const Layer& layer = *p->layer;
  const int64_t heads = layer.num_heads, key = layer.key_dim,
                value = layer.value_dim > 0 ? layer.value_dim : key;
  const std::vector<int> masks = TakeMasks(p);
  Primitive attend = *p;
  attend.kind = Kind::kAttend;
  attend.inputs = {Project(*p, p->inputs[0], "query", heads * key),
                   Project(*p, p->inputs.back(), "key", heads * key),
                   Project(*p, p->inputs[1], "value", heads * value)};
  attend.output = {p->output[0], heads * value};
  attend.heads = heads;
  attend.factor = 1 / std::sqrt(static_cast<float>(key));
  attend.causal = layer.use_causal_mask;
  MaskScores(&attend, masks);
  p->inputs = {Add(std::move(attend))};
  p->kernel = Find(*p, "attention_output_kernel");
  p->bias = Find(*p, "attention_output_bias");
}

int LoweringBuilder::Project(const Primitive& layer, int input,
                             const char* name, int64_t size) {
  Primitive p = layer;
  p.inputs = {input};
  p.output = {InputOf(p)[0], size};
  p.kernel = Find(p, (std::string(name) + "_kernel").c_str());
  p.bias = Find(p, (std::string(name) + "_bias").c_str());
  return Add(std::move(p));
}

// --- the layer of a TimeDistributed ------------------------------------------

// The layer itself, or the layer that it applies, with its name.
const Layer& LoweringBuilder::AddStepLayer(const Layer& layer) {
  if (layer.kind != Is::kTimeDistributed) return layer;
  out_.layers.push_back(*layer.layer);
  out_.layers.back().name = layer.name;
  return out_.layers.back();
}

Shape WithoutFirst(const Shape& shape) {
  Shape rest;
  for (int i = 1; i < shape.rank(); ++i) rest.Append(shape[i]);
  return rest;
}

// Makes *p a primitive of one step.
void LoweringBuilder::SplitSteps(Primitive* p) {
  p->steps = InputOf(*p)[0];
  Primitive step = *p;
  step.kind = Kind::kReshape;
  step.output = WithoutFirst(InputOf(*p));
  p->inputs = {Add(std::move(step))};
  p->output = WithoutFirst(p->output);
}

int LoweringBuilder::JoinSteps(const Primitive& p, const Shape& output) {
  Primitive all;
  all.kind = Kind::kReshape;
  all.layer = p.layer;
  all.output = output;
  all.inputs = {Add(p)};
  return Add(std::move(all));
}

// --- the model ---------------------------------------------------------------

Status LoweringBuilder::Run(const char* target) {
  out_.weights = floats_;
  for (int node = 0; node < model_.num_nodes(); ++node) {
    const Layer& layer = AddStepLayer(model_.layer(node));
    if (layer.kind == Is::kMask && !IsRead(node)) {  // only a loss reads it
      out_.of_node.push_back(-1);
      continue;
    }
    const Row* const row =
        std::find_if(std::begin(kRows), std::end(kRows),
                     [&](const Row& r) { return r.layer == layer.kind; });
    const bool of_onnx_alone =
        layer.kind == Is::kAdditiveAttention && std::string(target) != "ONNX";
    if (row == std::end(kRows) || of_onnx_alone) {
      return InvalidArgument(
          "layer '%s' is %s, %swhich cannot be exported to %s",
          layer.name.c_str(), WithArticle(ClassName(layer)).c_str(),
          layer.custom != nullptr ? "a user-defined layer, " : "", target);
    }
    Primitive p;
    p.kind = row->kind;
    p.layer = &layer;
    p.output = model_.output_shape(node);
    p.axes = ClassOf(layer).axes;
    for (const int input : model_.inputs(node)) {
      p.inputs.push_back(out_.of_node[static_cast<size_t>(input)]);
    }
    const bool splits =
        &layer != &model_.layer(node) && !IsOfAnyShape(node, layer.kind);
    if (splits && p.inputs.size() > 1) {
      return InvalidArgument(
          "layer '%s' is a TimeDistributed of a %s with several inputs, which "
          "cannot be exported to %s",
          layer.name.c_str(), ClassName(layer), target);
    }
    if (splits) SplitSteps(&p);
    (this->*row->fill)(&p, row->argument);
    out_.of_node.push_back(splits ? JoinSteps(p, model_.output_shape(node))
                                  : Add(std::move(p)));
  }
  return Status();
}

}  // namespace

Status Lower(Model* model, const char* target, Lowering* lowering) {
  return LoweringBuilder(model, lowering).Run(target);
}

const Variable* FindWeight(const Model& model, const Layer& layer,
                           const std::string& name) {
  for (const Variable& v : model.variables()) {
    if (v.path == layer.name + "/" + name) return &v;
  }
  return nullptr;
}

Affine MakeAffine(const Primitive& p, const float* weights) {
  if (p.kind == Kind::kAffine) return {p.center, p.scale, p.offset};
  const auto values = [&](const Variable* v) {
    if (v == nullptr) return Floats();
    const float* const first = weights + v->offset;
    return Floats(first, first + v->size());
  };
  const Floats gamma = values(p.gamma);
  Floats scale = values(p.variance);
  for (size_t c = 0; c < scale.size(); ++c) {
    const double variance = double{scale[c]} + double{p.epsilon};
    scale[c] = static_cast<float>(1 / std::sqrt(variance)) *
               (gamma.empty() ? 1 : gamma[c]);
  }
  return {values(p.mean), std::move(scale), values(p.beta)};
}

int64_t GatesOf(Cell cell) {
  if (cell == Cell::kSimple) return 1;
  return cell == Cell::kLstm ? 4 : 3;
}

int64_t StatesOf(Cell cell) { return cell == Cell::kSimple ? 1 : 2; }

Activation GateOf(const Primitive& p) {
  return p.cell == Cell::kSimple ? p.activation : p.gate_activation;
}

bool IsView(const Primitive& p) {
  return p.kind == Kind::kIdentity || p.kind == Kind::kReshape;
}

Status CheckLogits(const Primitives& primitives, int index) {
  const auto at = [&](int i) -> const Primitive& {
    return primitives[static_cast<size_t>(i)];
  };
  int root = index;
  while (IsView(at(root))) root = at(root).inputs[0];
  const char* const name = at(root).layer->name.c_str();
  const Activation last = at(root).activation;
  if (at(root).kind == Kind::kSoftmax) {
    return InvalidArgument(
        "a softmax is to follow logits, but layer '%s' is one; leave --softmax "
        "out",
        name);
  }
  if (last == kSoftmax || last == kLogSoftmax || last == kSigmoid) {
    return InvalidArgument(
        "a softmax is to follow logits, but layer '%s' has the activation "
        "'%s'; leave --softmax out",
        name, ActivationName(last));
  }
  if (at(index).output.back() >= 2) return Status();
  return InvalidArgument(
      "a softmax is to follow logits, but layer '%s' gives one number; leave "
      "--softmax out",
      name);
}

Status CheckHasWeights(const Model& model, const std::string& path) {
  RINGLET_RETURN_IF_ERROR(model.status().Annotate("%s", path.c_str()));
  RINGLET_RETURN_IF_ERROR(
      ModelParts(&model).graph().CheckAdapted().Annotate("%s", path.c_str()));
  if (model.compiled()) return Status();
  return InvalidArgument(
      "%s: model '%s' has no weights yet: call Compile first", path.c_str(),
      model.name().c_str());
}

}  // namespace ringlet
