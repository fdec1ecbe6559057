// A primitive of the model becomes a node of the plain model (`nodes_`), or has
// that of its input if it computes nothing. Weights are kept by node until all
// are known, so that a normalization can be multiplied into them.

#include "int8_plain.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "../../../core/base/text.h"
#include "../../../core/layers/layer_kind.h"
#include "../c/c_sound.h"
#include "../lowering.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;
using Floats = std::vector<float>;

class Builder {
 public:
  Builder(Model* model, PlainModel* plain)
      : model_(*model), floats_(model->weights()), plain_(*plain) {}

  Status Run();

 private:
  struct Row {
    Kind kind;
    Status (Builder::*convert)();
  };
  static const Row kRows[];
  struct Weights {
    Floats kernel, bias;
  };

  Status AddInput();
  Status PassThrough() { return SetNode(InputNode()); }
  Status Copy();
  Status View();
  Status Repeat();
  Status MatMulOrConv();
  Status Activate() {
    return AddActivation(InputNode(), primitive_->activation);
  }
  Status AddSoftmax();
  Status CopyWithWeights();
  Status Recur();
  Status Embed();
  Status Attend();
  Status MergeInputs();
  Status MultiplyAdd();
  Status BatchNormalize();

  const Primitive& At(int index) const {
    return lowering_.primitives[static_cast<size_t>(index)];
  }
  int last() const { return static_cast<int>(lowering_.primitives.size()) - 1; }
  int Root(int index) const;
  int Source(int index) const;
  int RootOfOutput(int k) const {
    const auto node = static_cast<size_t>(model_.output_node(k));
    return Root(lowering_.of_node[node]);
  }
  PlainModel::Output* OutputOf(int index);
  void AddOutputs();
  bool IsProjection() const;
  int AddHead(const Primitive& projection, int64_t head, float factor);
  Status Refuse(const char* why) const;
  Layer LinearLayer() const;
  Layer InferenceLayer() const;
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
  Floats Values(const Variable* weight) const;
  Status AddActivation(int node, Activation activation);
  bool ScalesInput() const;
  Status ScaleInput(const Affine& affine);
  int AddAffine(int node, const Affine& affine);
  bool Folds(int index) const;
  void Fold(const Affine& affine);
  void CountReads();
  Status FindFrontEnds();
  Status RefuseSound() {
    return Refuse(
        "which int8 has only as the one layer that reads an input; export the "
        "model without int8");
  }

  Model& model_;
  const float* floats_;
  PlainModel& plain_;
  Lowering lowering_;
  std::vector<int> nodes_, reads_;  // by primitive
  // A front end, or between it and its input: such a primitive has the input's
  // node.
  std::vector<bool> in_front_end_;
  // The weights of plain nodes, in their order.
  std::map<int, Weights> weights_;
  // The present primitive.
  int index_ = 0;
  const Primitive* primitive_ = nullptr;
};

const Builder::Row Builder::kRows[] = {
    {Kind::kInput, &Builder::AddInput},
    {Kind::kIdentity, &Builder::PassThrough},
    {Kind::kReshape, &Builder::View},
    {Kind::kMatMul, &Builder::MatMulOrConv},
    {Kind::kConv, &Builder::MatMulOrConv},
    {Kind::kPool, &Builder::Copy},
    {Kind::kPad, &Builder::Copy},
    {Kind::kCrop, &Builder::Copy},
    {Kind::kRepeat, &Builder::Repeat},
    {Kind::kTranspose, &Builder::Copy},
    {Kind::kActivate, &Builder::Activate},
    {Kind::kRelu, &Builder::Copy},
    {Kind::kLeakyRelu, &Builder::Copy},
    {Kind::kElu, &Builder::Copy},
    {Kind::kSoftmax, &Builder::AddSoftmax},
    {Kind::kMerge, &Builder::MergeInputs},
    {Kind::kConcatenate, &Builder::Copy},
    {Kind::kAffine, &Builder::MultiplyAdd},
    {Kind::kBatchNormalize, &Builder::BatchNormalize},
    {Kind::kConvTranspose, &Builder::MatMulOrConv},
    {Kind::kPRelu, &Builder::CopyWithWeights},
    {Kind::kNormalize, &Builder::CopyWithWeights},
    {Kind::kRecurrence, &Builder::Recur},
    {Kind::kPositions, &Builder::CopyWithWeights},
    {Kind::kGather, &Builder::Embed},
    {Kind::kAttend, &Builder::Attend},
    {Kind::kSpectrogram, &Builder::RefuseSound},
    {Kind::kStft, &Builder::RefuseSound},
};

// --- nodes -------------------------------------------------------------------

// Primitives without a node in the plain model have that of their root.
int Builder::Root(int index) const {
  while (At(index).kind == Kind::kIdentity ||
         in_front_end_[static_cast<size_t>(index)]) {
    index = At(index).inputs[0];
  }
  return index;
}

// The primitive that computed the numbers of this one.
int Builder::Source(int index) const {
  while (IsView(At(index))) index = At(index).inputs[0];
  return index;
}

Status Builder::Refuse(const char* why) const {
  return InvalidArgument(
      "layer '%s' is %s, %s", primitive_->layer->name.c_str(),
      WithArticle(ClassName(*primitive_->layer)).c_str(), why);
}

// Returns the layer without its name and what only training uses.
Layer Builder::InferenceLayer() const {
  Layer layer = *primitive_->layer;
  const Layer plain;
  layer.name.clear();
  layer.settings = 0;
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

// InferenceLayer() with a bias, and without an activation.
Layer Builder::LinearLayer() const {
  Layer layer = InferenceLayer();
  layer.use_bias = true;
  layer.activation = kLinear;
  layer.fill_value = 0;  // a kPad's; a kAffine adds it
  return layer;
}

// A layer for each step becomes a TimeDistributed again.
int Builder::Add(const Layer& layer, const std::vector<int>& inputs) {
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

Floats Builder::Values(const Variable* v) const {
  if (v == nullptr) return Floats();
  return Floats(floats_ + v->offset, floats_ + v->offset + v->size());
}

// --- primitives --------------------------------------------------------------

Status Builder::AddInput() {
  const auto front_end = plain_.front_ends.find(index_);
  return SetNode(Add(Input(front_end == plain_.front_ends.end()
                               ? primitive_->output
                               : front_end->second.op->output()),
                     {}));
}

Status Builder::Copy() {
  std::vector<int> inputs;
  for (size_t i = 0; i < primitive_->inputs.size(); ++i)
    inputs.push_back(InputNode(i));
  return SetNode(Add(LinearLayer(), inputs));
}

// The reshapes around the primitives of a TimeDistributed are parts of it.
Status Builder::View() {
  if ((primitive_->steps != 0) != (At(primitive_->inputs[0]).steps != 0))
    return PassThrough();
  return SetNode(Add(Reshape(primitive_->output), {InputNode()}));
}

Status Builder::Repeat() {
  const int64_t* const size = primitive_->window.size;
  return SetNode(Add(primitive_->axes == 1 ? UpSampling1D(size[1])
                                           : UpSampling2D(size[0], size[1]),
                     {InputNode()}));
}

// The output of this primitive, if no other primitive reads it.
PlainModel::Output* Builder::OutputOf(int index) {
  if (reads_[static_cast<size_t>(index)] != 1) return nullptr;
  for (int k = 0; k < model_.num_outputs(); ++k) {
    if (RootOfOutput(k) == index)
      return &plain_.outputs[static_cast<size_t>(k)];
  }
  return nullptr;
}

Status Builder::AddActivation(int node, Activation activation) {
  if (activation == kLinear) return SetNode(node);
  if (activation != kSoftmax && activation != kLogSoftmax) {
    return SetNode(Add(ActivationLayer(activation), {node}));
  }
  if (PlainModel::Output* const output = OutputOf(index_)) {
    output->end = activation;
    return SetNode(node);
  }
  if (activation == kSoftmax) return SetNode(Add(Softmax(), {node}));
  return Refuse(
      "with a log_softmax that is not the model's end; int8 has none");
}

// The two products of a SeparableConv become layers of their own.
Status Builder::MatMulOrConv() {
  if (IsProjection()) return PassThrough();
  Layer layer = LinearLayer();
  if (primitive_->kind == Kind::kMatMul) {
    layer = Dense(primitive_->output.back());
  } else if (primitive_->depthwise) {
    layer.kind = primitive_->axes == 1 ? Layer::Kind::kDepthwiseConv1D
                                       : Layer::Kind::kDepthwiseConv2D;
  }
  const int node = Add(layer, {InputNode()});
  Weights& weights = weights_[node];
  weights = {Values(primitive_->kernel), Values(primitive_->bias)};
  weights.bias.resize(static_cast<size_t>(primitive_->output.back()));
  return AddActivation(node, primitive_->activation);
}

// A softmax over other axes becomes one over the last axis of the transposed
// rows.
Status Builder::AddSoftmax() {
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

// Weights are in the order of the layer's.
Status Builder::CopyWithWeights() {
  std::vector<int> inputs;
  for (size_t i = 0; i < primitive_->inputs.size(); ++i)
    inputs.push_back(InputNode(i));
  const int node = Add(InferenceLayer(), inputs);
  Floats& all = weights_[node].kernel;
  for (const Variable* v :
       {primitive_->kernel, primitive_->recurrent_kernel, primitive_->bias,
        primitive_->slopes, primitive_->gamma, primitive_->beta}) {
    const Floats values = Values(v);
    all.insert(all.end(), values.begin(), values.end());
  }
  return SetNode(node);
}

Status Builder::Recur() {
  if (primitive_->last_states == 0 && primitive_->inputs.size() == 1)
    return CopyWithWeights();
  return Refuse(
      "with return_state or an initial state; int8 has neither, so export the "
      "model without int8");
}

// Tokens stay whole numbers. So they are the model's input, and no other layer
// reads it.
Status Builder::Embed() {
  const int source = Source(primitive_->inputs[0]);
  if (At(source).kind != Kind::kInput) {
    return Refuse(
        "of tokens that another layer computes; in int8 they are the model's "
        "input");
  }
  for (const Primitive& p : lowering_.primitives) {
    if (IsView(p) || p.kind == Kind::kGather) continue;
    for (const int input : p.inputs) {
      if (Source(input) != source) continue;
      primitive_ = &p;
      return Refuse(
          "which reads the tokens of an Embedding; int8 has them "
          "for Embeddings only");
    }
  }
  return CopyWithWeights();
}

// --- attention ---------------------------------------------------------------

// True for the projections of a MultiHeadAttention before its kAttend.
bool Builder::IsProjection() const {
  if (primitive_->layer->kind != Layer::Kind::kMultiHeadAttention) return false;
  for (int i = index_ + 1; i <= std::min(index_ + 3, last()); ++i) {
    if (At(i).kind == Kind::kAttend && At(i).layer == primitive_->layer)
      return true;
  }
  return false;
}

// Adds the columns of one head of a projection, as a Dense.
int Builder::AddHead(const Primitive& projection, int64_t head, float factor) {
  const auto width = static_cast<size_t>(projection.output.back()),
             size = width / static_cast<size_t>(primitive_->heads),
             first = size * static_cast<size_t>(head);
  const int node = Add(Dense(static_cast<int64_t>(size)),
                       {nodes_[static_cast<size_t>(projection.inputs[0])]});
  Floats kernel = Values(projection.kernel), bias = Values(projection.bias);
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
Status Builder::Attend() {
  Layer layer = Attention();
  layer.use_causal_mask = primitive_->causal;
  layer.use_scale = primitive_->gamma != nullptr;
  const auto add = [&](int query, int key, int value) {
    const int node = Add(layer, {query, value, key});
    weights_[node].kernel = Values(primitive_->gamma);
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
Status Builder::MergeInputs() {
  const bool average = primitive_->merge == Merge::kAverage;
  const size_t inputs = primitive_->inputs.size();
  Layer two = LinearLayer();
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

// True if the primitive is the only one that reads an input of the model.
bool Builder::ScalesInput() const {
  const int root = Root(primitive_->inputs[0]);
  return At(root).kind == Kind::kInput &&
         reads_[static_cast<size_t>(root)] == 1;
}

// Channels of the input may have other ranges, so the conversion to int8
// includes their normalization.
Status Builder::ScaleInput(const Affine& affine) {
  const auto width = static_cast<size_t>(primitive_->output.back());
  PlainModel::InputScale& scale =
      plain_.inputs[static_cast<size_t>(Root(primitive_->inputs[0]))];
  for (size_t c = 0; c < width; ++c) {
    scale.factors.push_back(static_cast<float>(NumberAt(affine.scale, c)));
    scale.shifts.push_back(ShiftAt(affine, c));
  }
  return PassThrough();
}

// (x - minus) times + plus, as a depthwise convolution with one tap.
int Builder::AddAffine(int node, const Affine& affine) {
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
Status Builder::MultiplyAdd() {
  const auto nothing = [](const Floats& values) {
    return std::all_of(values.begin(), values.end(),
                       [](float v) { return v == 0; });
  };
  const Affine affine = AffineOf(*primitive_, floats_);
  const bool factor = affine.scale.size() == 1 && affine.scale[0] > 0 &&
                      nothing(affine.center) && nothing(affine.offset);
  if (factor) return SetNode(Add(Rescaling(affine.scale[0]), {InputNode()}));
  if (ScalesInput()) return ScaleInput(affine);
  return SetNode(AddAffine(InputNode(), affine));
}

// True for a product without an activation that exactly one primitive reads.
bool Builder::Folds(int index) const {
  const Kind kind = At(index).kind;
  return (kind == Kind::kMatMul || kind == Kind::kConv) &&
         weights_.count(nodes_[static_cast<size_t>(index)]) != 0 &&
         reads_[static_cast<size_t>(index)] == 1 &&
         At(index).activation == kLinear;
}

void Builder::Fold(const Affine& affine) {
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

Status Builder::BatchNormalize() {
  const Affine affine = AffineOf(*primitive_, floats_);
  if (ScalesInput()) return ScaleInput(affine);
  if (!Folds(Root(primitive_->inputs[0])))
    return SetNode(AddAffine(InputNode(), affine));
  Fold(affine);
  return SetNode(InputNode());
}

// --- the model ---------------------------------------------------------------

void Builder::CountReads() {
  reads_.assign(lowering_.primitives.size(), 0);
  for (int k = 0; k < model_.num_outputs(); ++k) {
    ++reads_[static_cast<size_t>(RootOfOutput(k))];
  }
  for (const Primitive& p : lowering_.primitives) {
    const auto at = static_cast<size_t>(&p - lowering_.primitives.data());
    if (p.kind == Kind::kIdentity || in_front_end_[at]) continue;
    for (const int input : p.inputs) {
      ++reads_[static_cast<size_t>(Root(input))];
    }
  }
}

// Each primitive from the input to a front end is read once.
Status Builder::FindFrontEnds() {
  for (int index = 0; index <= last(); ++index) {
    const Primitive& p = At(index);
    if (!IsSound(p) || p.steps != 0) continue;
    std::vector<int> before;
    bool alone = true;
    int at = p.inputs[0];
    for (; IsView(At(at)); at = At(at).inputs[0]) {
      before.push_back(at);
      alone = alone && At(at).steps == 0 &&
              (At(at).kind == Kind::kIdentity ||
               reads_[static_cast<size_t>(at)] == 1);
    }
    if (!alone || At(at).kind != Kind::kInput ||
        reads_[static_cast<size_t>(at)] != 1) {
      continue;
    }
    std::unique_ptr<Op> op;
    const Shape& samples = At(p.inputs[0]).output;
    RINGLET_RETURN_IF_ERROR(Op::Make(*p.layer, {samples}, &op));
    plain_.front_ends[at] = {*p.layer, samples, std::move(op)};
    before.push_back(index);
    for (const int each : before) {
      in_front_end_[static_cast<size_t>(each)] = true;
    }
  }
  return Status();
}

// An output is a node that computes, and no other output; else a Rescaling
// follows.
void Builder::AddOutputs() {
  std::set<int> taken;
  for (int k = 0; k < model_.num_outputs(); ++k) {
    int node = nodes_[static_cast<size_t>(RootOfOutput(k))];
    const bool computes = std::find(plain_.nodes.begin(), plain_.nodes.end(),
                                    node) != plain_.nodes.end();
    if (!computes || !taken.insert(node).second) {
      node = Add(Rescaling(1), {node});
    }
    plain_.outputs[static_cast<size_t>(k)].node = node;
  }
}

Status Builder::Run() {
  RINGLET_RETURN_IF_ERROR(Lower(&model_, "C", &lowering_));
  floats_ = lowering_.weights;
  plain_.inputs.resize(static_cast<size_t>(model_.num_inputs()));
  plain_.outputs.resize(static_cast<size_t>(model_.num_outputs()));
  in_front_end_.assign(lowering_.primitives.size(), false);
  CountReads();
  RINGLET_RETURN_IF_ERROR(FindFrontEnds());
  CountReads();
  for (index_ = 0; index_ <= last(); ++index_) {
    primitive_ = &At(index_);
    if (in_front_end_[static_cast<size_t>(index_)]) {
      RINGLET_RETURN_IF_ERROR(PassThrough());
      continue;
    }
    const Row* const row =
        std::find_if(std::begin(kRows), std::end(kRows),
                     [&](const Row& r) { return r.kind == primitive_->kind; });
    if (row == std::end(kRows)) return Refuse("which has no int8 form");
    RINGLET_RETURN_IF_ERROR((this->*row->convert)());
    RINGLET_RETURN_IF_ERROR(plain_.model.status());
  }
  AddOutputs();
  Floats all;
  for (const auto& [node, weights] : weights_) {
    all.insert(all.end(), weights.kernel.begin(), weights.kernel.end());
    all.insert(all.end(), weights.bias.begin(), weights.bias.end());
  }
  plain_.model.Outputs(plain_.nodes);
  RINGLET_RETURN_IF_ERROR(plain_.model.SetInitialWeights(std::move(all)));
  plain_.model.Compile(SGD(), MeanSquaredError());
  return plain_.model.status();
}

}  // namespace

Status MakePlain(Model* model, PlainModel* plain) {
  return Builder(model, plain).Run();
}

}  // namespace ringlet
