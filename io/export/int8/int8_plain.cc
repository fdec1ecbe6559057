// A primitive of the model becomes one node of the plain model, or several.
// nodes_ has the last of them. A primitive that computes nothing has the node
// of its input (int8_plain_graph.h). Weights are kept by node until all are
// known, so that a normalization can be multiplied into them. A new kind of
// primitive needs a row in kRows; without one the model is refused.

#include "int8_plain.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "../../../core/base/text.h"
#include "../../../core/layers/layer_kind.h"
#include "../lowering.h"
#include "int8_plain_graph.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;
using Floats = std::vector<float>;

class PlainModelBuilder {
 public:
  PlainModelBuilder(Model* model, PlainModel* plain)
      : model_(*model), plain_(*plain) {}

  Status Build(int end);

 private:
  struct Row {
    Kind kind;
    Status (PlainModelBuilder::*convert)();
  };
  static const Row kRows[];
  struct Weights {
    Floats kernel, bias;
  };

  Status AddInput();
  Status UseNodeOfInput() { return SetNode(InputNode()); }
  Status CopyLayer();
  Status AddReshape();
  Status AddUpSampling();
  Status AddProduct();
  Status AddActivationLayer() {
    return AddActivation(InputNode(), primitive_->activation);
  }
  Status AddSoftmax();
  Status CopyLayerWithWeights();
  Status CopyRecurrence();
  Status CopyEmbedding();
  Status AddAttention();
  Status AddMerges();
  Status AddAffine();
  Status AddBatchNormalization();

  Status ConvertPrimitive();
  void AddOutputs();
  Status SetWeights();
  const Primitive& At(int index) const { return graph_.At(index); }
  // The primitive that has the node of the present primitive's first input.
  int InputWithNode() const { return graph_.WithNode(primitive_->inputs[0]); }
  std::vector<int> InputNodes() const;
  bool IsProjectionOfHeads() const;
  int AddHead(const Primitive& projection, int64_t head, float factor);
  Status Refuse(const char* why) const;
  static Status RefuseMask(const std::string& mask);
  Layer LayerWithoutActivation() const;
  Layer LayerForInference() const;
  int Add(const Layer& layer, const std::vector<int>& inputs);
  // The plain node of the present primitive's input.
  int InputNode(size_t i = 0) const {
    return nodes_[static_cast<size_t>(primitive_->inputs[i])];
  }
  // Sets the plain node of the present primitive.
  Status SetNode(int node) {
    nodes_.push_back(node);
    return Status();
  }
  Floats ValuesOf(const Variable* weight) const;
  Status AddActivation(int node, Activation activation);
  bool AloneReadsInput() const;
  Status SetInputScale(const Affine& affine);
  int AddDepthwise(int node, const Affine& affine);
  bool CanFoldInto(int index) const;
  void FoldIntoInput(const Affine& affine);
  Status RefuseSound() {
    return Refuse(
        "which int8 has only as the one layer that reads an input; export the "
        "model without int8");
  }

  Model& model_;
  const float* floats_ = nullptr;
  PlainModel& plain_;
  PlainGraph graph_;
  std::vector<int> nodes_;  // the node of each primitive
  // The weights of plain nodes, in their order.
  std::map<int, Weights> weights_;
  // The present primitive.
  int index_ = 0;
  const Primitive* primitive_ = nullptr;
};

const PlainModelBuilder::Row PlainModelBuilder::kRows[] = {
    {Kind::kInput, &PlainModelBuilder::AddInput},
    {Kind::kIdentity, &PlainModelBuilder::UseNodeOfInput},
    {Kind::kReshape, &PlainModelBuilder::AddReshape},
    {Kind::kMatMul, &PlainModelBuilder::AddProduct},
    {Kind::kConv, &PlainModelBuilder::AddProduct},
    {Kind::kPool, &PlainModelBuilder::CopyLayer},
    {Kind::kPad, &PlainModelBuilder::CopyLayer},
    {Kind::kCrop, &PlainModelBuilder::CopyLayer},
    {Kind::kRepeat, &PlainModelBuilder::AddUpSampling},
    {Kind::kTranspose, &PlainModelBuilder::CopyLayer},
    {Kind::kActivate, &PlainModelBuilder::AddActivationLayer},
    {Kind::kRelu, &PlainModelBuilder::CopyLayer},
    {Kind::kLeakyRelu, &PlainModelBuilder::CopyLayer},
    {Kind::kElu, &PlainModelBuilder::CopyLayer},
    {Kind::kSoftmax, &PlainModelBuilder::AddSoftmax},
    {Kind::kMerge, &PlainModelBuilder::AddMerges},
    {Kind::kConcatenate, &PlainModelBuilder::CopyLayer},
    {Kind::kAffine, &PlainModelBuilder::AddAffine},
    {Kind::kBatchNormalize, &PlainModelBuilder::AddBatchNormalization},
    {Kind::kConvTranspose, &PlainModelBuilder::AddProduct},
    {Kind::kPRelu, &PlainModelBuilder::CopyLayerWithWeights},
    {Kind::kNormalize, &PlainModelBuilder::CopyLayerWithWeights},
    {Kind::kRecurrence, &PlainModelBuilder::CopyRecurrence},
    {Kind::kPositions, &PlainModelBuilder::CopyLayerWithWeights},
    {Kind::kGather, &PlainModelBuilder::CopyEmbedding},
    {Kind::kAttend, &PlainModelBuilder::AddAttention},
    {Kind::kSpectrogram, &PlainModelBuilder::RefuseSound},
    {Kind::kStft, &PlainModelBuilder::RefuseSound},
};

// --- nodes -------------------------------------------------------------------

Status PlainModelBuilder::Refuse(const char* why) const {
  return InvalidArgument(
      "layer '%s' is %s, %s", primitive_->layer->name.c_str(),
      WithArticle(ClassName(*primitive_->layer)).c_str(), why);
}

// `mask` is the name of a mask, "NAME/mask" of layer NAME.
Status PlainModelBuilder::RefuseMask(const std::string& mask) {
  return InvalidArgument(
      "layer '%s' makes a mask, and int8 has none; export the model without "
      "int8, or train it without the mask on sequences of one length",
      mask.substr(0, mask.rfind('/')).c_str());
}

// Returns the layer without its name and what only training uses.
Layer PlainModelBuilder::LayerForInference() const {
  Layer layer = *primitive_->layer;
  const Layer plain;
  layer.name.clear();
  layer.settings.reset();
  layer.trainable = true;
  layer.dropout = layer.recurrent_dropout = 0;
  layer.lora_rank = layer.lora_alpha = 0;
  layer.kernel_regularizer = layer.bias_regularizer = plain.kernel_regularizer;
  layer.depthwise_regularizer = layer.pointwise_regularizer =
      plain.kernel_regularizer;
  layer.kernel_constraint = layer.bias_constraint = plain.kernel_constraint;
  layer.depthwise_constraint = layer.pointwise_constraint =
      plain.kernel_constraint;
  return layer;
}

// LayerForInference() with a bias, and without an activation.
Layer PlainModelBuilder::LayerWithoutActivation() const {
  Layer layer = LayerForInference();
  layer.use_bias = true;
  layer.activation = kLinear;
  layer.fill_value = 0;  // for a kPad; a kAffine adds it
  return layer;
}

// A layer for each step becomes a TimeDistributed again.
int PlainModelBuilder::Add(const Layer& layer, const std::vector<int>& inputs) {
  const int node = plain_.model.Add(
      primitive_->steps == 0 ? layer : TimeDistributed(layer), inputs);
  if (!plain_.model.status().ok()) return 0;
  if (layer.kind != Layer::Kind::kInput &&
      layer.kind != Layer::Kind::kReshape &&
      layer.kind != Layer::Kind::kFlatten) {
    plain_.nodes.push_back(node);
  }
  return node;
}

Floats PlainModelBuilder::ValuesOf(const Variable* v) const {
  if (v == nullptr) return Floats();
  return Floats(floats_ + v->offset, floats_ + v->offset + v->size());
}

std::vector<int> PlainModelBuilder::InputNodes() const {
  std::vector<int> nodes;
  for (size_t i = 0; i < primitive_->inputs.size(); ++i) {
    nodes.push_back(InputNode(i));
  }
  return nodes;
}

// --- primitives --------------------------------------------------------------

Status PlainModelBuilder::AddInput() {
  const auto front_end = plain_.front_ends.find(index_);
  return SetNode(Add(Input(front_end == plain_.front_ends.end()
                               ? primitive_->output
                               : front_end->second.op->output()),
                     {}));
}

Status PlainModelBuilder::CopyLayer() {
  return SetNode(Add(LayerWithoutActivation(), InputNodes()));
}

// The reshapes around the primitives of a TimeDistributed are parts of it.
Status PlainModelBuilder::AddReshape() {
  if ((primitive_->steps != 0) != (At(primitive_->inputs[0]).steps != 0))
    return UseNodeOfInput();
  return SetNode(Add(Reshape(primitive_->output), {InputNode()}));
}

Status PlainModelBuilder::AddUpSampling() {
  const int64_t* const size = primitive_->window.size;
  return SetNode(Add(primitive_->axes == 1 ? UpSampling1D(size[1])
                                           : UpSampling2D(size[0], size[1]),
                     {InputNode()}));
}

Status PlainModelBuilder::AddActivation(int node, Activation activation) {
  if (activation == kLinear) return SetNode(node);
  if (activation != kSoftmax && activation != kLogSoftmax) {
    return SetNode(Add(ActivationLayer(activation), {node}));
  }
  const int output = graph_.OnlyReadByOutput(index_);
  if (output >= 0) {
    plain_.outputs[static_cast<size_t>(output)].end = activation;
    return SetNode(node);
  }
  if (activation == kSoftmax) return SetNode(Add(Softmax(), {node}));
  return Refuse(
      "with a log_softmax that is not the model's end; int8 has none");
}

// The two products of a SeparableConv become layers of their own.
Status PlainModelBuilder::AddProduct() {
  if (IsProjectionOfHeads()) return UseNodeOfInput();
  Layer layer = LayerWithoutActivation();
  if (primitive_->kind == Kind::kMatMul) {
    layer = Dense(primitive_->output.back());
  } else if (primitive_->depthwise) {
    layer.kind = primitive_->axes == 1 ? Layer::Kind::kDepthwiseConv1D
                                       : Layer::Kind::kDepthwiseConv2D;
  }
  const int node = Add(layer, {InputNode()});
  Weights& weights = weights_[node];
  weights = {ValuesOf(primitive_->kernel), ValuesOf(primitive_->bias)};
  weights.bias.resize(static_cast<size_t>(primitive_->output.back()));
  return AddActivation(node, primitive_->activation);
}

// A softmax over other axes becomes one over the last axis of the transposed
// rows.
Status PlainModelBuilder::AddSoftmax() {
  const Shape shape = primitive_->output;
  const int first = primitive_->first_axis, end = first + primitive_->num_axes;
  if (primitive_->num_axes == 1 && end == shape.rank()) {
    return AddActivation(InputNode(), kSoftmax);
  }
  int64_t count = 1, inner = 1;
  for (int i = first; i < shape.rank(); ++i) {
    (i < end ? count : inner) *= shape[i];
  }
  const Shape rows = {shape.elements() / count / inner, count, inner};
  int node = Add(Permute({1, 3, 2}), {Add(Reshape(rows), {InputNode()})});
  node = Add(Permute({1, 3, 2}), {Add(Softmax(), {node})});
  return SetNode(Add(Reshape(shape), {node}));
}

// Weights are in the order of the layer's weights.
Status PlainModelBuilder::CopyLayerWithWeights() {
  const int node = Add(LayerForInference(), InputNodes());
  Floats& all = weights_[node].kernel;
  for (const Variable* v :
       {primitive_->kernel, primitive_->recurrent_kernel, primitive_->bias,
        primitive_->slopes, primitive_->gamma, primitive_->beta}) {
    const Floats values = ValuesOf(v);
    all.insert(all.end(), values.begin(), values.end());
  }
  return SetNode(node);
}

Status PlainModelBuilder::CopyRecurrence() {
  if (primitive_->last_states == 0 && primitive_->inputs.size() == 1)
    return CopyLayerWithWeights();
  return Refuse(
      "with return_state or an initial state; int8 has neither, so export the "
      "model without int8");
}

// Tokens stay whole numbers. So they are the model's input, and no other layer
// reads it.
Status PlainModelBuilder::CopyEmbedding() {
  const int source = graph_.BehindViews(primitive_->inputs[0]);
  if (At(source).kind != Kind::kInput) {
    return Refuse(
        "of tokens that another layer computes; in int8 they are the model's "
        "input");
  }
  const std::string mask = primitive_->layer->name + "/mask";
  for (const Primitive& p : graph_.lowering().primitives) {
    if (IsView(p) || p.kind == Kind::kGather) continue;
    if (p.kind == Kind::kMask) {
      if (p.layer->name == mask) return RefuseMask(mask);
      continue;  // of another Embedding, which has the error
    }
    for (const int input : p.inputs) {
      if (graph_.BehindViews(input) != source) continue;
      primitive_ = &p;
      return Refuse(
          "which reads the tokens of an Embedding; int8 has them "
          "for Embeddings only");
    }
  }
  return CopyLayerWithWeights();
}

// --- attention ---------------------------------------------------------------

// True for the projections of a MultiHeadAttention before its kAttend.
bool PlainModelBuilder::IsProjectionOfHeads() const {
  if (primitive_->layer->kind != Layer::Kind::kMultiHeadAttention) return false;
  for (int i = index_ + 1; i <= std::min(index_ + 3, graph_.last()); ++i) {
    if (At(i).kind == Kind::kAttend && At(i).layer == primitive_->layer)
      return true;
  }
  return false;
}

// Adds the columns of one head of a projection, as a Dense.
int PlainModelBuilder::AddHead(const Primitive& projection, int64_t head,
                               float factor) {
  const auto width = static_cast<size_t>(projection.output.back()),
             size = width / static_cast<size_t>(primitive_->heads),
             first = size * static_cast<size_t>(head);
  const int node = Add(Dense(static_cast<int64_t>(size)),
                       {nodes_[static_cast<size_t>(projection.inputs[0])]});
  Floats kernel = ValuesOf(projection.kernel), bias = ValuesOf(projection.bias);
  bias.resize(width);
  Weights& weights = weights_[node];
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (i % width - first < size) weights.kernel.push_back(kernel[i] * factor);
  }
  for (size_t i = first; i < first + size; ++i) {
    weights.bias.push_back(bias[i] * factor);
  }
  return node;
}

// Each head of a MultiHeadAttention becomes an Attention. The factor of the
// scores is part of its queries.
Status PlainModelBuilder::AddAttention() {
  Layer layer = Attention();
  layer.use_causal_mask = primitive_->causal;
  layer.use_scale = primitive_->gamma != nullptr;
  const auto add = [&](int query, int key, int value) {
    const int node = Add(layer, {query, value, key});
    weights_[node].kernel = ValuesOf(primitive_->gamma);
    return node;
  };
  if (primitive_->layer->kind != Layer::Kind::kMultiHeadAttention) {
    return SetNode(add(InputNode(0), InputNode(1), InputNode(2)));
  }
  std::vector<int> heads;
  for (int64_t h = 0; h < primitive_->heads; ++h) {
    const int query = AddHead(At(primitive_->inputs[0]), h, primitive_->factor),
              key = AddHead(At(primitive_->inputs[1]), h, 1),
              value = AddHead(At(primitive_->inputs[2]), h, 1);
    heads.push_back(add(query, key, value));
  }
  return SetNode(heads.size() == 1 ? heads[0] : Add(Concatenate(), heads));
}

// Merges two inputs at a time.
Status PlainModelBuilder::AddMerges() {
  const bool average = primitive_->merge == Merge::kAverage;
  const size_t inputs = primitive_->inputs.size();
  Layer two = LayerWithoutActivation();
  if (average) two.kind = Layer::Kind::kAdd;
  int node = InputNode();
  for (size_t i = 1; i < inputs; ++i) node = Add(two, {node, InputNode(i)});
  if (!average) return SetNode(node);
  return SetNode(Add(Rescaling(1.0f / static_cast<float>(inputs)), {node}));
}

// The number of channel c; one number is of all channels, and none is 0.
double NumberAt(const Floats& values, size_t c) {
  return values.empty() ? 0 : double{values[values.size() == 1 ? 0 : c]};
}

float ShiftAt(const Affine& affine, size_t c) {
  return static_cast<float>(NumberAt(affine.offset, c) -
                            NumberAt(affine.center, c) *
                                NumberAt(affine.scale, c));
}

// True if the present primitive reads an input of the model, and no other
// primitive reads this input.
bool PlainModelBuilder::AloneReadsInput() const {
  const int input = InputWithNode();
  return At(input).kind == Kind::kInput && graph_.Reads(input) == 1;
}

// Channels of the input may have other ranges, so the conversion to int8
// includes their normalization.
Status PlainModelBuilder::SetInputScale(const Affine& affine) {
  const auto width = static_cast<size_t>(primitive_->output.back());
  PlainModel::InputScale& scale =
      plain_.inputs[static_cast<size_t>(InputWithNode())];
  for (size_t c = 0; c < width; ++c) {
    scale.factors.push_back(static_cast<float>(NumberAt(affine.scale, c)));
    scale.shifts.push_back(ShiftAt(affine, c));
  }
  return UseNodeOfInput();
}

// (x - minus) times + plus, as a depthwise convolution with one tap.
int PlainModelBuilder::AddDepthwise(int node, const Affine& affine) {
  const Shape shape = primitive_->output;
  const auto width = static_cast<size_t>(shape.back());
  Weights weights;
  for (size_t c = 0; c < width; ++c) {
    weights.kernel.push_back(static_cast<float>(NumberAt(affine.scale, c)));
    weights.bias.push_back(ShiftAt(affine, c));
  }
  if (shape.rank() != 3) {
    const Shape image = {1, shape.elements() / shape.back(), shape.back()};
    node = Add(Reshape(image), {node});
  }
  node = Add(DepthwiseConv2D(1), {node});
  weights_[node] = std::move(weights);
  return shape.rank() == 3 ? node : Add(Reshape(shape), {node});
}

// One factor > 0 changes only the meaning of numbers.
Status PlainModelBuilder::AddAffine() {
  const auto nothing = [](const Floats& values) {
    return std::all_of(values.begin(), values.end(),
                       [](float v) { return v == 0; });
  };
  const Affine affine = MakeAffine(*primitive_, floats_);
  const bool factor = affine.scale.size() == 1 && affine.scale[0] > 0 &&
                      nothing(affine.center) && nothing(affine.offset);
  if (factor) return SetNode(Add(Rescaling(affine.scale[0]), {InputNode()}));
  if (AloneReadsInput()) return SetInputScale(affine);
  return SetNode(AddDepthwise(InputNode(), affine));
}

// True for a product without an activation that exactly one primitive reads.
bool PlainModelBuilder::CanFoldInto(int index) const {
  const Kind kind = At(index).kind;
  return (kind == Kind::kMatMul || kind == Kind::kConv) &&
         weights_.count(nodes_[static_cast<size_t>(index)]) != 0 &&
         graph_.Reads(index) == 1 && At(index).activation == kLinear;
}

void PlainModelBuilder::FoldIntoInput(const Affine& affine) {
  Weights& weights = weights_[InputNode()];
  const size_t width = weights.bias.size();
  for (size_t i = 0; i < weights.kernel.size(); ++i) {
    weights.kernel[i] *= affine.scale[i % width];
  }
  for (size_t c = 0; c < width; ++c) {
    weights.bias[c] = (weights.bias[c] - affine.center[c]) * affine.scale[c] +
                      (affine.offset.empty() ? 0 : affine.offset[c]);
  }
}

Status PlainModelBuilder::AddBatchNormalization() {
  const Affine affine = MakeAffine(*primitive_, floats_);
  if (AloneReadsInput()) return SetInputScale(affine);
  if (!CanFoldInto(InputWithNode())) {
    return SetNode(AddDepthwise(InputNode(), affine));
  }
  FoldIntoInput(affine);
  return SetNode(InputNode());
}

// --- the model ---------------------------------------------------------------

// An output is a node that computes, and is not also another output. Otherwise
// a Rescaling follows.
void PlainModelBuilder::AddOutputs() {
  std::set<int> taken;
  for (int k = 0; k < graph_.num_outputs(); ++k) {
    int node = nodes_[static_cast<size_t>(graph_.WithNodeOfOutput(k))];
    const bool computes = std::find(plain_.nodes.begin(), plain_.nodes.end(),
                                    node) != plain_.nodes.end();
    if (!computes || !taken.insert(node).second) {
      node = Add(Rescaling(1), {node});
    }
    plain_.outputs[static_cast<size_t>(k)].node = node;
  }
}

Status PlainModelBuilder::ConvertPrimitive() {
  if (graph_.IsInFrontEnd(index_)) return UseNodeOfInput();
  const Row* const row =
      std::find_if(std::begin(kRows), std::end(kRows),
                   [&](const Row& r) { return r.kind == primitive_->kind; });
  const bool is_dot = primitive_->layer->kind == Layer::Kind::kDot;
  if (primitive_->kind == Kind::kMask) {
    return RefuseMask(primitive_->layer->name);
  }
  if (row == std::end(kRows) || is_dot) {
    return Refuse("which has no int8 form; export the model without int8");
  }
  RINGLET_RETURN_IF_ERROR((this->*row->convert)());
  return plain_.model.status();
}

// Gives the plain model the weights of its nodes, which are in its order.
Status PlainModelBuilder::SetWeights() {
  Floats all;
  for (const auto& [node, weights] : weights_) {
    all.insert(all.end(), weights.kernel.begin(), weights.kernel.end());
    all.insert(all.end(), weights.bias.begin(), weights.bias.end());
  }
  return plain_.model.SetInitialWeights(std::move(all));
}

Status PlainModelBuilder::Build(int end) {
  RINGLET_RETURN_IF_ERROR(graph_.Make(&model_, end, &plain_.front_ends));
  floats_ = graph_.lowering().weights;
  plain_.inputs.resize(static_cast<size_t>(model_.num_inputs()));
  plain_.outputs.resize(static_cast<size_t>(graph_.num_outputs()));
  for (index_ = 0; index_ <= graph_.last(); ++index_) {
    primitive_ = &At(index_);
    RINGLET_RETURN_IF_ERROR(ConvertPrimitive());
  }
  AddOutputs();
  plain_.model.Outputs(plain_.nodes);
  RINGLET_RETURN_IF_ERROR(SetWeights());
  plain_.model.Compile(SGD(), MeanSquaredError());
  return plain_.model.status();
}

}  // namespace

Status MakePlain(Model* model, int end, PlainModel* plain) {
  return PlainModelBuilder(model, plain).Build(end);
}

}  // namespace ringlet
