// The backward pass of a C file that trains. Each kind of primitive that passes
// a gradient has a row in kGradientRows; c_training_texts.cc has the functions.
//
// Gradients flow along one chain, from the output to the first layer with
// trained weights. The other layers are frozen, and computed as in any file.

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../../core/base/text.h"
#include "../../../core/layers/layer_kind.h"
#include "../../../core/model/model_parts.h"
#include "c_helpers.h"
#include "c_model.h"
#include "c_training_texts.h"

namespace ringlet {
namespace {

using Kind = Primitive::Kind;

bool IsOverLastAxis(const Primitive& softmax) {
  return softmax.num_axes == 1 &&
         softmax.first_axis == softmax.output.rank() - 1;
}

// True for a convolution of single pixels, which is a product of rows.
bool IsPoint(const Primitive& p) {
  const Primitive::Window& w = p.window;
  return p.kind == Kind::kConv && !p.depthwise && w.size[0] * w.size[1] == 1 &&
         w.strides[0] == 1 && w.strides[1] == 1;
}

bool IsProduct(const Primitive& p) {
  return p.kind == Kind::kMatMul || (IsPoint(p) && p.groups == 1);
}

// True if the function in C has the trainer's bits; with LoRA, see IsLora.
bool IsExact(const Primitive& p) {
  static constexpr Kind kOthers[] = {
      Kind::kElu,           Kind::kNormalize,  Kind::kGroupNormalize,
      Kind::kUnitNormalize, Kind::kRecurrence, Kind::kConvTranspose,
      Kind::kAttend,        Kind::kResize,     Kind::kSpectrogram,
      Kind::kStft,
  };
  const int64_t taps = p.window.size[0] * p.window.size[1];
  return std::find(std::begin(kOthers), std::end(kOthers), p.kind) ==
             std::end(kOthers) &&
         (p.kind != Kind::kMatMul || p.kernel) &&
         (p.kind != Kind::kSoftmax || IsOverLastAxis(p)) &&
         (p.kind != Kind::kMerge ||
          (p.merge != Merge::kAverage && p.merge != Merge::kDivide)) &&
         (!p.depthwise || taps <= kCBlock);
}

}  // namespace

const CModel::GradientRow CModel::kGradientRows[] = {
    {Kind::kIdentity, &CModel::DropGradient, true},
    {Kind::kReshape, &CModel::DropGradient, true},
    {Kind::kMatMul, &CModel::ConvGradient, false},
    {Kind::kConv, &CModel::ConvGradient, false},
    {Kind::kPool, &CModel::PoolGradient, false},
    {Kind::kActivate, &CModel::SlopeGradient, true},
    {Kind::kRelu, &CModel::SlopeGradient, true},
    {Kind::kLeakyRelu, &CModel::SlopeGradient, true},
    {Kind::kSoftmax, &CModel::SlopeGradient, true},
    {Kind::kAffine, &CModel::ScaleGradient, true},
    {Kind::kBatchNormalize, &CModel::ScaleGradient, true},
};

const CModel::GradientRow* CModel::GradientRowOf(Kind kind) {
  const auto* const row =
      std::find_if(std::begin(kGradientRows), std::end(kGradientRows),
                   [&](const GradientRow& each) { return each.kind == kind; });
  return row == std::end(kGradientRows) ? nullptr : row;
}

// --- checks ------------------------------------------------------------------

Status CModel::RefuseToTrain(const Primitive& p, const char* why) const {
  const bool is_last = p.layer == At(Outputs()[0]).layer;
  return InvalidArgument(
      "layer '%s' (%s) %s, and C cannot train through it; %s",
      p.layer->name.c_str(), ClassName(*p.layer), why,
      is_last ? "no layer follows it: give the model another last layer"
              : "train only layers that follow it");
}

Status CModel::CheckGradient(int index) const {
  const Primitive& p = At(index);
  const bool is_first = index == chain_.back();
  CHelpers unused;
  if (GradientRowOf(p.kind) == nullptr) {
    return RefuseToTrain(p, "has no gradient");
  }
  if (p.steps != 0) return RefuseToTrain(p, "is computed for each step");
  if (p.inputs.size() != 1) return RefuseToTrain(p, "has several inputs");
  if (p.depthwise && IsTrained(p) &&
      p.layer->kind != Layer::Kind::kDepthwiseConv2D &&
      p.layer->kind != Layer::Kind::kDepthwiseConv1D) {
    return RefuseToTrain(p, "has a depthwise part and another one");
  }
  if (p.depthwise && !is_first && p.output.back() != p.groups) {
    return RefuseToTrain(p, "has a depth_multiplier");
  }
  if (IsPoint(p) && p.groups > 1 && IsTrained(p)) {
    return RefuseToTrain(p, "has groups and a kernel of 1");
  }
  if (p.kind == Kind::kPool && p.covers_image && p.is_max) {
    return RefuseToTrain(p, "takes maxima of images");
  }
  const bool is_last = index == chain_[0] && training_->takes_logits;
  const bool has_slope =
      is_last || p.activation == kLinear || p.activation == kSoftmax ||
      ExactExpression(p.activation, /*slope=*/true, &unused) != nullptr;
  const bool is_plain =
      p.kind != Kind::kRelu || (p.threshold == 0 && std::isinf(p.max_value));
  if (!has_slope || !is_plain ||
      (p.kind == Kind::kSoftmax && !IsOverLastAxis(p))) {
    return RefuseToTrain(p, "has an activation without a gradient in C");
  }
  return Status();
}

std::vector<const Variable*> CModel::WeightsOf(const Primitive& p) const {
  std::vector<const Variable*> its = {p.kernel, p.bias};
  for (const char* const name : {"a", "b"}) {
    if (IsLora(p)) its.push_back(LoraMatrix(p, name));
  }
  return its;
}

bool CModel::IsTrained(const Primitive& p) const {
  const std::vector<const Variable*> its = WeightsOf(p);
  return std::any_of(its.begin(), its.end(),
                     [&](const Variable* v) { return IsTrained(v); });
}

// Finds the primitives between the output and the first trained weight.
Status CModel::FindChain() {
  const int output = Outputs()[0];
  int trained = 0;
  for (const Primitive& p : lowering_.primitives) trained += IsTrained(p);
  std::vector<int> readers(lowering_.primitives.size());
  for (const Primitive& p : lowering_.primitives) {
    for (const int input : p.inputs) ++readers[static_cast<size_t>(input)];
  }
  for (int i = output; trained > 0; i = At(i).inputs[0]) {
    const Primitive& p = At(i);
    chain_.push_back(i);
    trained -= IsTrained(p);
    if (p.inputs.empty()) break;
    if (readers[static_cast<size_t>(i)] > (i == output ? 0 : 1)) {
      return RefuseToTrain(p, "has an output that several layers read");
    }
    if (p.inputs.size() > 1) return RefuseToTrain(p, "has several inputs");
  }
  for (const Variable* v : training_->variables) {
    const auto has_it = [&](int i) {
      const std::vector<const Variable*> its = WeightsOf(At(i));
      return std::find(its.begin(), its.end(), v) != its.end();
    };
    if (std::count_if(chain_.begin(), chain_.end(), has_it) == 1) continue;
    return InvalidArgument(
        "C cannot train weight '%s': a trained layer must be a Dense or a "
        "convolution, called once, on the one path from the first trained "
        "layer to the output; leave it out of --train",
        v->path.c_str());
  }
  for (const int i : chain_) RINGLET_RETURN_IF_ERROR(CheckGradient(i));
  if (interface_.int8) RINGLET_RETURN_IF_ERROR(RemoveBody());
  for (const Primitive& p : lowering_.primitives) {
    const bool merged =
        p.kind != Kind::kInput && p.layer->lora_rank > 0 && !IsLora(p);
    if (!IsExact(p) || merged) NoteInexact(p);
  }
  return Status();
}

// Leaves an input with the shape of the body's output, and the chain.
Status CModel::RemoveBody() {
  body_end_ = At(chain_.back()).inputs[0];
  int source = body_end_;
  while (IsView(At(source))) source = At(source).inputs[0];
  const Layer* const first = At(chain_.back()).layer;
  if (At(source).kind == Kind::kInput || At(source).layer == first) {
    return InvalidArgument(
        "no whole layer computes before the first trained one, '%s', so the "
        "model has no frozen body for int8; train only layers that follow, or "
        "leave int8 out",
        first->name.c_str());
  }
  Primitives head(chain_.size() + 1);
  head[0].layer = At(body_end_).layer;
  head[0].output = At(body_end_).output;
  for (size_t k = 0; k < chain_.size(); ++k) {
    const size_t to = chain_.size() - k;
    head[to] = std::move(lowering_.primitives[static_cast<size_t>(chain_[k])]);
    chain_[k] = static_cast<int>(to);
    head[to].inputs[0] = chain_[k] - 1;
  }
  lowering_.primitives = std::move(head);
  lowering_.of_node[static_cast<size_t>(model_.output_node(0))] = chain_[0];
  return Status();
}

// --- calls -------------------------------------------------------------------

std::string CModel::GradientOf(const Variable* weight) const {
  if (!IsTrained(weight)) return "0";
  return "gradients + " + std::to_string(training_->OffsetOf(weight));
}

// Writes the calls of the gradient functions, from the output back to the first
// trained layer. `d_` is the buffer of the present gradient. A primitive that
// works in place keeps this buffer; any other primitive gets a new buffer.
void CModel::AddGradients() {
  std::string forward;
  forward.swap(calls_);
  // Each kind has a row: see CheckGradient.
  const auto row_of = [&](int i) -> const GradientRow& {
    return *GradientRowOf(At(i).kind);
  };
  const auto add_buffer = [&](size_t place, int64_t elements, int first) {
    while (place + 1 < chain_.size() && row_of(chain_[place]).in_place) ++place;
    return "b" + std::to_string(slots_->AddBuffer(
                     elements, first, slots_->GradientTime(chain_[place])));
  };
  const auto count = static_cast<int>(lowering_.primitives.size());
  d_ = add_buffer(0, At(chain_[0]).output.elements(), count);
  const std::string first = d_;
  for (size_t k = 0; k < chain_.size(); ++k) {
    index_ = chain_[k];
    p_ = &At(index_);
    const GradientRow& row = row_of(index_);
    dx_ = row.in_place || !PassesGradient()
              ? d_
              : add_buffer(k + 1, XShape().elements(),
                           slots_->GradientTime(index_));
    (this->*row.write)();
    d_ = dx_;
  }
  d_ = first;
  gradient_calls_.swap(calls_);
  training_->AddHelpers(&helpers_);
  // The output, with the activation that the loss leaves out.
  index_ = chain_[0];
  p_ = &At(index_);
  CopyOutputs();
  if (IsLogits()) {
    const Activation activation =
        p_->kind == Kind::kSoftmax ? kSoftmax : p_->activation;
    helpers_.Add(activation == kSoftmax ? "softmax" : "sigmoid");
    const auto elements = static_cast<long long>(YShape().elements()),
               width = static_cast<long long>(YShape().back());
    if (activation == kSoftmax) {
      Call("softmax(out, %lld, %lld)", elements / width, width);
    } else {
      Call("%s(out, %lld)", FunctionOf(activation).c_str(), elements);
    }
  }
  output_calls_.swap(calls_);
  calls_.swap(forward);
}

void CModel::ApplySlopeExpression(const std::string& expression) {
  size_t i = 0;
  while (i < slopes_.size() && slopes_[i] != expression) ++i;
  if (i == slopes_.size()) slopes_.push_back(expression);
  Call("slope%zu(%s, %s, %lld)", i, Y().c_str(), d_.c_str(),
       static_cast<long long>(YShape().elements()));
}

void CModel::ApplySlope(Activation activation) {
  if (activation == kLinear || IsLogits()) return;
  if (activation != kSoftmax) {
    return ApplySlopeExpression(
        ExactExpression(activation, /*slope=*/true, &helpers_));
  }
  helpers_.Add("softmax_gradient");
  Call("softmax_gradient(%s, %s, %lld, %lld)", Y().c_str(), d_.c_str(),
       static_cast<long long>(RowsOf(YShape())),
       static_cast<long long>(YShape().back()));
}

void CModel::SlopeGradient() {
  if (p_->kind == Kind::kActivate) return ApplySlope(p_->activation);
  if (p_->kind == Kind::kSoftmax) return ApplySlope(kSoftmax);
  ApplySlopeExpression("y > 0 ? d : d * " + CNumber(p_->slope));
}

void CModel::ScaleGradient() {
  if (!PassesGradient()) return;
  helpers_.Add("scale_gradient");
  const int64_t width = YShape().back();
  std::vector<float> scale = MakeAffine(*p_, floats_).scale;
  if (scale.size() == 1) scale.assign(static_cast<size_t>(width), scale[0]);
  Call("scale_gradient(%s, %lld, %lld, %s)", d_.c_str(),
       static_cast<long long>(YShape().elements() / width),
       static_cast<long long>(width), Values(scale).c_str());
}

// The gradient of a weight is a product of the rows of x, with n numbers each,
// and the rows of d, with `width`. For a bias, x is "0", the null pointer of C.
void CModel::RowGradient(const Variable* weight, const std::string& x,
                         int64_t n, const std::string& d, int64_t width,
                         int64_t block) {
  if (!IsTrained(weight)) return;
  helpers_.Add("row_gradient");
  const auto rows =
      static_cast<long long>(YShape().elements() / YShape().back());
  too_large_ |= rows > INT32_MAX / training_->batch;
  const std::string to = GradientOf(weight);
  std::string sums = to;
  if (rows * training_->batch > block) {
    helpers_.Add("end_sums");
    sums = "sums + " + std::to_string(sums_);
    sums_ += weight->size();
    end_calls_ += FormatText(
        "  end_sums(%s, %s, %lld, step_size * %lld, %lld);\n", to.c_str(),
        sums.c_str(), static_cast<long long>(weight->size()), rows,
        static_cast<long long>(block));
  }
  Call("row_gradient(%s, %s, %s, %s, seen * %lld, %lld, %lld, %lld, %lld)",
       x.c_str(), d.c_str(), to.c_str(), sums.c_str(), rows, rows,
       static_cast<long long>(n), static_cast<long long>(width),
       static_cast<long long>(block));
}

// Returns the memory for the sums of one block of examples. A step is divided
// into at most 16 blocks; with up to 16 examples each example is a block.
std::string CModel::DepthwiseSums() {
  const Variable* const first = IsTrained(p_->kernel) ? p_->kernel : p_->bias;
  if (training_->batch <= 16) return GradientOf(first);
  const std::string sums = "sums + " + std::to_string(sums_);
  sums_ += first->size();
  if (first != p_->bias && IsTrained(p_->bias)) sums_ += p_->bias->size();
  return sums;
}

void CModel::ConvGradient() {
  if (IsLora(*p_)) return LoraGradient();
  ApplySlope(p_->activation);
  const bool by_rows = IsProduct(*p_) || !IsTrained(*p_);
  const std::string numbers = by_rows && !PassesGradient()
                                  ? ""
                                  : Numbers(WindowOf(*p_, XShape()).Numbers());
  if (by_rows) {
    const int64_t width = YShape().back();
    RowGradient(p_->kernel, X(), XShape().back(), d_, width, kCBlock);
    RowGradient(p_->bias, "0", 1, d_, width,
                p_->kind == Kind::kMatMul ? INT32_MAX : kCBlock);
  } else {
    const char* const name =
        p_->depthwise ? "depthwise_gradient" : "conv_gradient";
    helpers_.Add(name);
    Call("%s(%s, %s, %s, %s, %s, %s)", name, X().c_str(), d_.c_str(),
         GradientOf(p_->kernel).c_str(), GradientOf(p_->bias).c_str(),
         p_->depthwise ? (DepthwiseSums() + ", seen, step_size").c_str()
                       : "seen",
         numbers.c_str());
  }
  if (!PassesGradient()) return;
  helpers_.Add("conv_input_gradient");
  Call("conv_input_gradient(%s, %s, %s, %s)", d_.c_str(), dx_.c_str(),
       Weight(p_->kernel).c_str(), numbers.c_str());
}

void CModel::PoolGradient() {
  helpers_.Add("pool_gradient");
  const std::string numbers = Numbers(WindowOf(*p_, XShape()).Numbers());
  Call("pool_gradient(%s, %s, %s, %s, %s)", X().c_str(), Y().c_str(),
       d_.c_str(), dx_.c_str(), numbers.c_str());
}

// --- the file ----------------------------------------------------------------

// Reports whether the file has the trainer's bits, and why not.
std::string CModel::ExactnessComment() const {
  std::string others;
  const auto add = [&](const Layer& layer, const char* what) {
    others +=
        FormatText("     layer '%s' (%s) %s\n", ForComment(layer.name).c_str(),
                   ClassName(layer), what);
  };
  for (const Primitive& p : lowering_.primitives) {
    if (p.kind == Kind::kIdentity &&
        p.layer->kind != Layer::Kind::kActivation) {
      add(*p.layer, "is left out");
    }
  }
  for (const GraphNode& node : ModelParts(&model_).graph().nodes()) {
    if (node.is_bfloat16) add(node.layer, "is not rounded to bfloat16");
  }
  if (inexact_ != nullptr) add(*inexact_, "is computed in another order");
  std::string text;
  if (interface_.int8) {
    text = FormatText(
        "   In int8 up to layer '%s'.\n   Compared to a training of the other "
        "layers alone, with its outputs as data:\n",
        ForComment(At(0).layer->name).c_str());
  }
  if (others.empty()) {
    return text +
           "   Weights, slots and losses have the bits of `ringlet train` with "
           "fused\n"
           "   multiply-adds. Compile with -std=c99 or -ffp-contract=off.\n";
  }
  return text + "   Not with the bits of `ringlet train`:\n" + others;
}

std::string CModel::TrainingFunctions() const {
  std::string text;
  for (size_t i = 0; i < slopes_.size(); ++i) {
    text += FormatText(
        "\nstatic void slope%zu(const float* from, float* to, int n) {\n"
        "  for (; n > 0; --n, ++from, ++to) {\n"
        "    const float y = *from, d = *to;\n    *to = %s;\n  }\n}\n",
        i, slopes_[i].c_str());
  }
  const std::string inputs = CInputs(interface_);
  text += "\n" + BuffersText() + numbers_;
  if (sums_ > 0)
    text +=
        FormatText("static float sums[%lld];\n", static_cast<long long>(sums_));
  text += FormatText("#define OUTPUT %s\n#define GRADIENT %s\n",
                     NameOfSlot(slots_->SlotOf(chain_[0])).c_str(), d_.c_str());
  const auto add = [&](const std::string& head, const std::string& calls) {
    text += "\n" + head + " {\n" + calls;
    for (const CArgument& argument : interface_.inputs) {
      if (HasWord(head, argument.name) && !HasWord(calls, argument.name)) {
        text += "  (void)" + argument.name + ";\n";
      }
    }
  };
  add("static void forward(" + inputs + ")", calls_);
  text += "}\n";
  add("static void backward(" + inputs + ")", gradient_calls_);
  text += "}\n";
  add("static void end_step(void)", end_calls_);
  text += "}\n";
  add(PredictSignature(interface_), "  forward(" + CNames(interface_.inputs) +
                                        ");\n" + output_calls_ +
                                        "  return 0;\n}\n");
  return text + training_->Functions(interface_);
}

}  // namespace ringlet
