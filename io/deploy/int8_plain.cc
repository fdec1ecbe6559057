// What must be known to change this file: a node of the model becomes one of
// the plain model (`nodes_`), or that of its input where it computes nothing.
// Weights are kept by node, so that a normalization can be multiplied into
// them, until all are known.

#include "int8_plain.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../core/layers/layer_table.h"
#include "logits.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;
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
  Status Pass();
  Status Copy();
  Status Product();
  Status Separable();
  Status Activate();
  Status EndSoftmax();
  Status Merge();
  Status Normalize();
  Status Rescale();
  Status BatchNormalize();

  bool IsPassed(int node) const;
  int Root(int node) const;
  Status Refuse(const char* why) const;
  Layer Bare() const;
  int Add(const Layer& layer, const std::vector<int>& inputs);
  int x(size_t i = 0) const { return nodes_[static_cast<size_t>(in_[i])]; }
  Status Give(int node) {
    nodes_.push_back(node);
    return Status();
  }
  Floats Find(const char* weight) const;
  Status AddActivation(int node, Activation activation);
  int AddAffine(int node, const Floats& minus, const Floats& times,
                const Floats& plus);
  bool Folds(int node) const;
  void Fold(const Floats& mean, const Floats& times, const Floats& beta);

  Model& model_;
  const float* const floats_;
  PlainModel& plain_;
  std::vector<int> nodes_, reads_;
  std::vector<Shape> shapes_;
  std::map<int, Weights> weights_;  // of plain nodes, in the order of these
  // The node at work.
  int node_ = 0;
  const Layer* layer_ = nullptr;
  std::vector<int> in_;
};

const Builder::Row Builder::kRows[] = {
    {Kind::kInput, &Builder::AddInput},
    {Kind::kReshape, &Builder::Copy},
    {Kind::kFlatten, &Builder::Copy},
    {Kind::kDropout, &Builder::Pass},
    {Kind::kSpatialDropout1D, &Builder::Pass},
    {Kind::kSpatialDropout2D, &Builder::Pass},
    {Kind::kGaussianNoise, &Builder::Pass},
    {Kind::kGaussianDropout, &Builder::Pass},
    {Kind::kAlphaDropout, &Builder::Pass},
    {Kind::kDense, &Builder::Product},
    {Kind::kConv2D, &Builder::Product},
    {Kind::kConv1D, &Builder::Product},
    {Kind::kDepthwiseConv2D, &Builder::Product},
    {Kind::kDepthwiseConv1D, &Builder::Product},
    {Kind::kSeparableConv2D, &Builder::Separable},
    {Kind::kSeparableConv1D, &Builder::Separable},
    {Kind::kActivation, &Builder::Activate},
    {Kind::kReLU, &Builder::Copy},
    {Kind::kLeakyReLU, &Builder::Copy},
    {Kind::kELU, &Builder::Copy},
    {Kind::kSoftmax, &Builder::EndSoftmax},
    {Kind::kMaxPooling2D, &Builder::Copy},
    {Kind::kMaxPooling1D, &Builder::Copy},
    {Kind::kAveragePooling2D, &Builder::Copy},
    {Kind::kAveragePooling1D, &Builder::Copy},
    {Kind::kGlobalMaxPooling2D, &Builder::Copy},
    {Kind::kGlobalMaxPooling1D, &Builder::Copy},
    {Kind::kGlobalAveragePooling2D, &Builder::Copy},
    {Kind::kGlobalAveragePooling1D, &Builder::Copy},
    {Kind::kZeroPadding2D, &Builder::Copy},
    {Kind::kZeroPadding1D, &Builder::Copy},
    {Kind::kCropping2D, &Builder::Copy},
    {Kind::kCropping1D, &Builder::Copy},
    {Kind::kUpSampling2D, &Builder::Copy},
    {Kind::kUpSampling1D, &Builder::Copy},
    {Kind::kPermute, &Builder::Copy},
    {Kind::kAdd, &Builder::Merge},
    {Kind::kAverage, &Builder::Merge},
    {Kind::kSubtract, &Builder::Merge},
    {Kind::kMultiply, &Builder::Merge},
    {Kind::kMaximum, &Builder::Merge},
    {Kind::kMinimum, &Builder::Merge},
    {Kind::kConcatenate, &Builder::Copy},
    {Kind::kBatchNormalization, &Builder::BatchNormalize},
    {Kind::kRescaling, &Builder::Rescale},
    {Kind::kNormalization, &Builder::Normalize},
};

// --- nodes -------------------------------------------------------------------

// Unlike reshapes, which have a node.
bool Builder::IsPassed(int node) const {
  const Kind kind = model_.layer(node).kind;
  return GivesItsInput(model_.layer(node)) && kind != Kind::kReshape &&
         kind != Kind::kFlatten;
}

int Builder::Root(int node) const {
  while (IsPassed(node)) node = model_.inputs(node)[0];
  return node;
}

Status Builder::Refuse(const char* why) const {
  return InvalidArgument("layer '%s' is a %s, %s", layer_->name.c_str(),
                         ClassName(*layer_), why);
}

// The layer without what its weights and its name are.
Layer Builder::Bare() const {
  Layer bare = *layer_;
  const Layer plain;
  bare.name.clear();
  bare.settings = 0;
  bare.trainable = bare.use_bias = true;
  bare.activation = kLinear;
  bare.kernel_regularizer = bare.bias_regularizer = plain.kernel_regularizer;
  bare.depthwise_regularizer = bare.pointwise_regularizer =
      plain.kernel_regularizer;
  return bare;
}

int Builder::Add(const Layer& layer, const std::vector<int>& inputs) {
  const int node = plain_.model.Add(layer, inputs);
  if (!plain_.model.status().ok()) return 0;
  if (layer.kind != Kind::kInput && layer.kind != Kind::kReshape &&
      layer.kind != Kind::kFlatten) {
    plain_.nodes.push_back(node);
  }
  return node;
}

Floats Builder::Find(const char* weight) const {
  const std::string path = layer_->name + "/" + weight;
  for (const Variable& v : model_.variables()) {
    if (v.path != path) continue;
    return Floats(floats_ + v.offset, floats_ + v.offset + v.size());
  }
  return Floats();
}

// --- layers ------------------------------------------------------------------

Status Builder::AddInput() {
  return Give(Add(Input(model_.output_shape(node_)), {}));
}

Status Builder::Pass() { return Give(x()); }

Status Builder::Copy() {
  std::vector<int> inputs;
  for (size_t i = 0; i < in_.size(); ++i) inputs.push_back(x(i));
  return Give(Add(Bare(), inputs));
}

Status Builder::AddActivation(int node, Activation activation) {
  if (activation == kLinear) return Give(node);
  if (activation != kSoftmax && activation != kLogSoftmax) {
    return Give(Add(ActivationLayer(activation), {node}));
  }
  if (Root(model_.num_nodes() - 1) != node_) {
    return Refuse("whose softmax is not the model's end; int8 has none");
  }
  plain_.end = activation;
  return Give(node);
}

Status Builder::Product() {
  const int node = Add(Bare(), {x()});
  Weights& weights = weights_[node];
  weights.kernel = Find("kernel");
  weights.bias = Find("bias");
  const Layer& l = *layer_;
  const bool depthwise =
      l.kind == Kind::kDepthwiseConv2D || l.kind == Kind::kDepthwiseConv1D;
  const int64_t width =
      depthwise ? model_.output_shape(in_[0]).back() * l.depth_multiplier
                : l.units;
  weights.bias.resize(static_cast<size_t>(width));
  return AddActivation(node, l.activation);
}

Status Builder::Separable() {
  const bool line = layer_->kind == Kind::kSeparableConv1D;
  Layer depthwise = Bare();
  depthwise.kind = line ? Kind::kDepthwiseConv1D : Kind::kDepthwiseConv2D;
  const int middle = Add(depthwise, {x()});
  const int64_t channels =
      model_.output_shape(in_[0]).back() * layer_->depth_multiplier;
  weights_[middle] = {Find("depthwise_kernel"),
                      Floats(static_cast<size_t>(channels))};
  const int node = Add(Dense(layer_->units), {middle});
  Weights& weights = weights_[node];
  weights = {Find("pointwise_kernel"), Find("bias")};
  weights.bias.resize(static_cast<size_t>(layer_->units));
  return AddActivation(node, layer_->activation);
}

Status Builder::Activate() { return AddActivation(x(), layer_->activation); }

Status Builder::EndSoftmax() {
  const int rank = model_.output_shape(node_).rank();
  if (FirstSoftmaxAxis(*layer_, rank) != rank - 1) {
    return Refuse("whose axis is not the last one; int8 has no such softmax");
  }
  return AddActivation(x(), kSoftmax);
}

// Of two at a time.
Status Builder::Merge() {
  const bool average = layer_->kind == Kind::kAverage;
  Layer two = Bare();
  if (average) two.kind = Kind::kAdd;
  int node = x();
  for (size_t i = 1; i < in_.size(); ++i) node = Add(two, {node, x(i)});
  if (!average) return Give(node);
  return Give(Add(Rescaling(1.0f / static_cast<float>(in_.size())), {node}));
}

// (x - minus) times + plus: a depthwise convolution of points.
int Builder::AddAffine(int node, const Floats& minus, const Floats& times,
                       const Floats& plus) {
  const Shape shape = model_.output_shape(in_[0]);
  const auto width = static_cast<size_t>(shape.back());
  const auto at = [](const Floats& values, size_t c) {
    return values.empty() ? 0 : double{values[values.size() == 1 ? 0 : c]};
  };
  Weights weights;
  for (size_t c = 0; c < width; ++c) {
    const double factor = at(times, c);
    weights.kernel.push_back(static_cast<float>(factor));
    weights.bias.push_back(
        static_cast<float>(at(plus, c) - at(minus, c) * factor));
  }
  if (shape.rank() != 3) {
    const Shape image = {1, shape.elements() / shape.back(), shape.back()};
    node = Add(Reshape(image), {node});
  }
  node = Add(DepthwiseConv2D(1), {node});
  weights_[node] = std::move(weights);
  return shape.rank() == 3 ? node : Add(Reshape(shape), {node});
}

Status Builder::Rescale() {
  const Floats &times = layer_->scales, &plus = layer_->offsets;
  const bool factor =
      times.size() == 1 && times[0] > 0 &&
      std::all_of(plus.begin(), plus.end(), [](float p) { return p == 0; });
  return Give(factor ? Add(Rescaling(times[0]), {x()})
                     : AddAffine(x(), {}, times, plus));
}

Status Builder::Normalize() {
  constexpr double kLeast = 1e-7;  // deviation, as in Keras
  Floats times = layer_->variances;
  for (float& t : times) {
    const double deviation = std::max(std::sqrt(double{t}), kLeast);
    t = static_cast<float>(layer_->invert ? deviation : 1 / deviation);
  }
  return Give(layer_->invert ? AddAffine(x(), {}, times, layer_->means)
                             : AddAffine(x(), layer_->means, times, {}));
}

// Whether nobody else reads what a product gives, which has no activation.
bool Builder::Folds(int node) const {
  return weights_.count(nodes_[static_cast<size_t>(node)]) != 0 &&
         reads_[static_cast<size_t>(node)] == 1 &&
         model_.layer(node).activation == kLinear;
}

void Builder::Fold(const Floats& mean, const Floats& times,
                   const Floats& beta) {
  Weights& weights = weights_[x()];
  const size_t width = weights.bias.size();
  for (size_t i = 0; i < weights.kernel.size(); ++i) {
    weights.kernel[i] *= times[i % width];
  }
  for (size_t c = 0; c < width; ++c) {
    weights.bias[c] =
        (weights.bias[c] - mean[c]) * times[c] + (beta.empty() ? 0 : beta[c]);
  }
}

Status Builder::BatchNormalize() {
  const Floats gamma = Find("gamma"), mean = Find("moving_mean"),
               beta = Find("beta");
  Floats times = Find("moving_variance");
  for (size_t c = 0; c < times.size(); ++c) {
    const double variance = double{times[c]} + double{layer_->epsilon};
    times[c] = static_cast<float>(1 / std::sqrt(variance)) *
               (gamma.empty() ? 1 : gamma[c]);
  }
  if (!Folds(Root(in_[0]))) return Give(AddAffine(x(), mean, times, beta));
  Fold(mean, times, beta);
  return Give(x());
}

// --- the whole ---------------------------------------------------------------

Status Builder::Run() {
  const int count = model_.num_nodes();
  reads_.assign(static_cast<size_t>(count), 0);
  ++reads_[static_cast<size_t>(Root(count - 1))];
  for (int node = 0; node < count; ++node) {
    if (IsPassed(node)) continue;
    for (const int input : model_.inputs(node)) {
      ++reads_[static_cast<size_t>(Root(input))];
    }
  }
  for (node_ = 0; node_ < count; ++node_) {
    layer_ = &model_.layer(node_);
    in_ = model_.inputs(node_);
    const Row* const row =
        std::find_if(std::begin(kRows), std::end(kRows),
                     [&](const Row& r) { return r.kind == layer_->kind; });
    if (row == std::end(kRows)) return Refuse("of which there is no int8");
    RINGLET_RETURN_IF_ERROR((this->*row->convert)());
    RINGLET_RETURN_IF_ERROR(plain_.model.status());
  }
  // The last node computes: the outputs of the plain model do.
  if (plain_.nodes.empty() || plain_.nodes.back() != nodes_.back() ||
      nodes_.back() != plain_.model.num_nodes() - 1) {
    Add(Rescaling(1), {nodes_.back()});
  }
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
