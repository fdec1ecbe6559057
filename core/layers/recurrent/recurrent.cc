// Gates and states are in the order of Keras's weights. A step s is a step of
// the computation. Its row in the data is t, which runs backwards with
// go_backwards.

#include "recurrent.h"

#include <algorithm>

#include "../../compute/row_loops.h"
#include "../layer_loops.h"
#include "../layer_table.h"

namespace ringlet {
namespace {

// Floats of the gates that a thread computes at a time if they are not saved.
constexpr int64_t kGroupFloats = 1 << 17;

int64_t Share(int64_t batch, int threads) {
  return (batch + threads - 1) / threads;
}

// h = activation(x W + h R + b).
class SimpleRnnOp final : public RecurrentOp {
 public:
  SimpleRnnOp(const Layer& layer, const Shape& x)
      : RecurrentOp(layer, x, Kind(), {layer.units}) {}

 protected:
  void StepForward(const RecurrentStep& step) const override {
    if (!step.is_first) {
      MultiplyState(step, step.state, {0, 1}, /*add=*/true, step.gates);
    }
    for (int64_t i = 0; i < step.examples; ++i) {
      ActivateGate(activation_, units(), step.gates[i]);
      std::copy_n(step.gates[i], units(), step.state[i]);
    }
  }
  void StepBackward(const RecurrentStep& step) const override {
    for (int64_t i = 0; i < step.examples; ++i) {
      float* const d = step.d_state + i * units();
      GateGradient(activation_, step.gates[i], units(), d);
      std::copy_n(d, units(), step.gates[i]);
      std::fill_n(d, units(), 0.0f);
    }
    AddStateGradient(step, step.gates, {0, 1}, step.d_state);
  }
};

// Some rows of each example.
class RecurrentOutputOp final : public Op {
 public:
  RecurrentOutputOp(const Shape& x, Range selected, bool is_sequence)
      : rows_(x[0]), width_(x[1]), taken_(selected) {
    output_ = is_sequence ? Shape{selected.size(), width_} : Shape{width_};
  }
  Recompute recompute() const override { return Recompute::kCheap; }

  void Forward(const OpCall& call) const override {
    ForEachIndex(call, call.batch, [&](int64_t i) {
      std::copy_n(call.x[0] + (i * rows_ + taken_.begin) * width_,
                  taken_.size() * width_, call.y + i * taken_.size() * width_);
    });
  }
  void Backward(const OpCall& call) const override {
    if (call.dx[0] == nullptr) return;
    ForEachIndex(call, call.batch, [&](int64_t i) {
      float* const dx = call.dx[0] + i * rows_ * width_;
      std::fill_n(dx, rows_ * width_, 0.0f);
      std::copy_n(call.dy + i * taken_.size() * width_, taken_.size() * width_,
                  dx + taken_.begin * width_);
    });
  }

 private:
  const int64_t rows_, width_;
  const Range taken_;
};

// True if a recurrent layer can compute the gradient.
bool IsOfGate(Activation activation) {
  return !IsOverRow(activation) &&
         (!GradientReadsInput(activation) || activation == kHardSigmoidKeras2);
}

Status CheckActivations(const Layer& layer) {
  for (const Activation activation :
       {layer.activation, layer.recurrent_activation}) {
    if (IsOfGate(activation)) continue;
    return InvalidArgument(
        "%s cannot have the activation '%s': its gradient needs more than its "
        "output; take tanh, sigmoid, relu or hard_sigmoid",
        ClassName(layer), ActivationName(activation));
  }
  return Status();
}

}  // namespace

void ActivateGate(Activation activation, int64_t width, float* y) {
  BiasActivation(activation, nullptr, 1, width, y);
}

void GateGradient(Activation activation, const float* y, int64_t width,
                  float* dy) {
  if (activation != kHardSigmoidKeras2) {
    return ActivationGradient(activation, y, 1, width, dy);
  }
  for (int64_t j = 0; j < width; ++j) {
    dy[j] = y[j] > 0 && y[j] < 1 ? dy[j] * 0.2f : 0;
  }
}

RecurrentOp::RecurrentOp(const Layer& layer, const Shape& x, const Kind& kind,
                         const Shape& bias)
    : activation_(layer.activation),
      recurrent_activation_(layer.recurrent_activation),
      kind_(kind),
      steps_(x[0]),
      features_(x[1]),
      units_(layer.units),
      bias_(layer.use_bias),
      sequences_(layer.return_sequences),
      returns_state_(layer.return_state),
      backwards_(layer.go_backwards),
      keeps_order_(layer.keeps_order),
      takes_mask_(layer.masked_inputs != 0),
      zero_output_for_mask_(layer.zero_output_for_mask),
      dropout_(layer.dropout),
      recurrent_dropout_(layer.recurrent_dropout) {
  output_ = sequences_ ? Shape{steps_, units_} : Shape{units_};
  if (returns_state_) {
    output_ = {(sequences_ ? steps_ : 1) + kind.states, units_};
  }
  const int64_t width = kind.gates * units_;
  weights_.push_back({"kernel",
                      {features_, width},
                      layer.kernel_initializer,
                      layer.kernel_regularizer,
                      layer.kernel_constraint});
  weights_.push_back({"recurrent_kernel",
                      {units_, width},
                      layer.recurrent_initializer,
                      layer.recurrent_regularizer,
                      layer.recurrent_constraint});
  if (bias_) {
    weights_.push_back({"bias", bias, layer.bias_initializer,
                        layer.bias_regularizer, layer.bias_constraint});
  }
}

int64_t RecurrentOp::multiply_adds() const {
  return (features_ + units_) * GateFloats();
}

Status RecurrentOp::SetInputs(const std::vector<Shape>& inputs) {
  const Shape state = {units_};
  const size_t count = inputs.size() - (takes_mask_ ? 1 : 0);
  for (size_t i = 1; i < count; ++i) {
    if (inputs[i] == state) continue;
    return InvalidArgument("an initial state must be %s, not %s",
                           state.ToString().c_str(),
                           inputs[i].ToString().c_str());
  }
  has_initial_states_ = count > 1;
  const auto states = static_cast<size_t>(kind_.states);
  if (!has_initial_states_ || count == 1 + states) return Status();
  return InvalidArgument("has %d initial states, not %zu", kind_.states,
                         count - 1);
}

// Returns the row of the output for step s of the computation.
int64_t RecurrentOp::OutputRow(int64_t example, int64_t s) const {
  const int64_t first = example * (output_.elements() / units_);
  if (!sequences_) return first;
  return first + (backwards_ && keeps_order_ ? steps_ - 1 - s : s);
}

// Returns the row of a last state. The rows of the last states follow the rows
// of the steps.
int64_t RecurrentOp::StateRow(int64_t example, int state) const {
  return (example + 1) * output_[0] - kind_.states + state;
}

// --- masked steps ------------------------------------------------------------

bool RecurrentOp::IsMasked(const OpCall& call, int64_t example,
                           int64_t s) const {
  const float* const mask =
      call.x[has_initial_states_ ? 1 + kind_.states : 1] + example * steps_;
  return mask[backwards_ ? steps_ - 1 - s : s] == 0;
}

// False if the output of step s of the computation is zeros: a masked step has
// the output of the previous step, or zeros if there is none.
bool RecurrentOp::HasOutput(const OpCall& call, int64_t example,
                            int64_t s) const {
  if (!IsMasked(call, example, s)) return true;
  if (zero_output_for_mask_) return false;
  if (!has_initial_states_) return true;  // the state is zeros too
  while (s >= 0 && IsMasked(call, example, s)) --s;
  return s >= 0;
}

// Copies rows of states, one state after the other, of the masked examples.
void RecurrentOp::CopyMasked(const RecurrentStep& step, Range examples,
                             int64_t s, const float* from, float* to) const {
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (!IsMasked(*step.call, examples.begin + i, s)) continue;
    for (int k = 0; k < kind_.states; ++k) {
      const int64_t at = (k * examples.size() + i) * units_;
      std::copy_n(from + at, units_, to + at);
    }
  }
}

void RecurrentOp::DropMaskedGates(const RecurrentStep& step, Range examples,
                                  int64_t s) const {
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (!IsMasked(*step.call, examples.begin + i, s)) continue;
    std::fill_n(step.gates[i], kind_.gates * units_, 0.0f);
    if (kind_.has_extra) std::fill_n(step.extra[i], units_, 0.0f);
  }
}

// --- memory ------------------------------------------------------------------

uint64_t RecurrentOp::saved_floats(int64_t batch) const {
  const int64_t spans = kind_.states + (kind_.has_extra ? 1 : 0);
  return static_cast<uint64_t>(batch * (GateFloats() + spans * StateFloats()));
}

SavedSpans RecurrentOp::SpansOf(const OpCall& call) const {
  SavedSpans spans = {};
  float* next = call.saved;
  spans.gates = next;
  next += call.batch * GateFloats();
  for (int s = 0; s < kind_.states; ++s, next += call.batch * StateFloats()) {
    spans.states[s] = next;
  }
  spans.extra = next;
  return spans;
}

int64_t RecurrentOp::Group() const {
  return std::max<int64_t>(1, kGroupFloats / GateFloats());
}

RecurrentOp::Scratch RecurrentOp::ScratchOf(Pass pass, int64_t n,
                                            float* own) const {
  Scratch scratch = {};
  const auto take = [&](int64_t floats) {
    float* const span = own == nullptr ? nullptr : own + scratch.floats;
    scratch.floats += floats;
    return span;
  };
  scratch.states = take(n * kind_.states * units_);
  scratch.products = take(2 * n * units_);
  scratch.kept = take(n * KeptFloats());
  if (pass == Pass::kBackward) {
    scratch.row = take((kind_.gates + 2) * units_);
    return scratch;
  }
  scratch.extra = take(n * units_);
  if (dropout_ > 0) scratch.masked_inputs = take(n * steps_ * features_);
  if (pass == Pass::kForward) scratch.gates = take(n * GateFloats());
  return scratch;
}

int64_t RecurrentOp::SavingFloats(int64_t examples) const {
  return ScratchOf(Pass::kSavingForward, examples).floats;
}

int64_t RecurrentOp::ForwardFloats(int64_t examples) const {
  return std::max(
      SavingFloats(examples),
      ScratchOf(Pass::kForward, std::min(examples, Group())).floats);
}

int64_t RecurrentOp::BackwardFloats(int64_t examples) const {
  return ScratchOf(Pass::kBackward, examples).floats;
}

uint64_t RecurrentOp::forward_scratch(int64_t batch, int threads) const {
  return static_cast<uint64_t>(batch * MaskFloats() +
                               threads * ForwardFloats(Share(batch, threads)));
}

uint64_t RecurrentOp::saving_scratch(int64_t batch, int threads) const {
  return static_cast<uint64_t>(batch * MaskFloats() +
                               threads * SavingFloats(Share(batch, threads)));
}

// After the steps the threads' scratch is free for masked inputs or states of
// all examples.
uint64_t RecurrentOp::backward_scratch(int64_t batch, int threads) const {
  const int64_t masked = std::max(dropout_ > 0 ? features_ : 0,
                                  recurrent_dropout_ > 0 ? units_ : 0);
  return static_cast<uint64_t>(
      batch * MaskFloats() +
      std::max(threads * BackwardFloats(Share(batch, threads)),
               batch * steps_ * masked));
}

// --- masks -------------------------------------------------------------------

// Returns an example's masks: of the inputs, then of the states.
int64_t RecurrentOp::MaskFloats() const {
  const int64_t masks = recurrent_dropout_ > 0 ? kind_.gates : 1;
  return (dropout_ > 0 ? RoundUpToFour(masks * features_) : 0) +
         (recurrent_dropout_ > 0 ? RoundUpToFour(masks * units_) : 0);
}

const float* RecurrentOp::InputMask(const float* masks, int64_t example,
                                    int64_t gate) const {
  if (masks == nullptr || dropout_ == 0) return nullptr;
  return masks + example * MaskFloats() + gate * features_;
}

const float* RecurrentOp::StateMask(const float* masks, int64_t example,
                                    int64_t gate) const {
  if (masks == nullptr || recurrent_dropout_ == 0) return nullptr;
  const int64_t inputs =
      dropout_ > 0 ? RoundUpToFour(kind_.gates * features_) : 0;
  return masks + example * MaskFloats() + inputs + gate * units_;
}

// Number k of an example's masks is number example * MaskFloats() + k of the
// step.
void RecurrentOp::DrawMasks(int64_t first, const OpCall& call,
                            float* masks) const {
  const int64_t mask_floats = MaskFloats();
  const int64_t inputs =
      dropout_ > 0 ? RoundUpToFour((recurrent_dropout_ > 0 ? kind_.gates : 1) *
                                   features_)
                   : 0;
  ForEachIndex(call, call.batch, [&](int64_t example) {
    float* const mask = masks + example * mask_floats;
    BestRowLoops().uniform(
        call.seed, call.counter,
        static_cast<uint64_t>((first + example) * mask_floats), mask_floats,
        mask);
    for (int64_t k = 0; k < mask_floats; ++k) {
      const float rate = k < inputs ? dropout_ : recurrent_dropout_;
      mask[k] = mask[k] >= rate ? 1 / (1 - rate) : 0;
    }
  });
}

void RecurrentOp::MaskRows(const OpCall& call, const float* masks,
                           const float* from, int64_t gate, bool is_state,
                           float* to) const {
  const int64_t width = is_state ? units_ : features_;
  ForEachPart(call, call.batch, 1, [&](Range part) {
    for (int64_t row = part.begin * steps_; row < part.end * steps_; ++row) {
      const float* const mask = is_state ? StateMask(masks, row / steps_, gate)
                                         : InputMask(masks, row / steps_, gate);
      for (int64_t j = 0; j < width; ++j) {
        to[row * width + j] = from[row * width + j] * mask[j];
      }
    }
  });
}

// --- products ----------------------------------------------------------------

void RecurrentOp::MultiplyState(const RecurrentStep& step, StepRows state,
                                Range gates, bool add, StepRows to) const {
  const int64_t n = step.examples;
  const ConstMatrix kernel =
      RowMajor(static_cast<const float*>(step.call->weights[1]), units_,
               kind_.gates * units_);
  if (StateMask(step.masks, 0, 0) == nullptr) {
    // Z(N,GU) += H(N,U) * R(U,GU)
    return Gemm({state.data, n, units_, state.stride, 1},
                kernel.Cols(gates.begin * units_, gates.end * units_), add,
                {to.data, n, gates.size() * units_, to.stride, 1});
  }
  for (int64_t g = gates.begin; g < gates.end; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      const float* const mask = StateMask(step.masks, i, g);
      float* const masked = step.products + i * units_;
      for (int64_t j = 0; j < units_; ++j) masked[j] = state[i][j] * mask[j];
    }
    Gemm(RowMajor(static_cast<const float*>(step.products), n, units_),
         kernel.Cols(g * units_, (g + 1) * units_), add,
         {to.At((g - gates.begin) * units_).data, n, units_, to.stride, 1});
  }
}

void RecurrentOp::AddStateGradient(const RecurrentStep& step, StepRows d,
                                   Range gates, float* d_state) const {
  if (step.is_first) return;  // the state before it is constant
  const int64_t n = step.examples;
  const ConstMatrix kernel =
      RowMajor(static_cast<const float*>(step.call->weights[1]), units_,
               kind_.gates * units_);
  if (StateMask(step.masks, 0, 0) == nullptr) {
    // dH(N,U) += dZ(N,GU) * R(U,GU)^T
    return Gemm(
        {d.data, n, gates.size() * units_, d.stride, 1},
        kernel.Cols(gates.begin * units_, gates.end * units_).Transposed(),
        /*add=*/true, RowMajor(d_state, n, units_));
  }
  for (int64_t g = gates.begin; g < gates.end; ++g) {
    Gemm({d.At((g - gates.begin) * units_).data, n, units_, d.stride, 1},
         kernel.Cols(g * units_, (g + 1) * units_).Transposed(), /*add=*/false,
         RowMajor(step.products, n, units_));
    for (int64_t i = 0; i < n; ++i) {
      const float* const mask = StateMask(step.masks, i, g);
      const float* const product = step.products + i * units_;
      float* const to = d_state + i * units_;
      for (int64_t j = 0; j < units_; ++j) to[j] += product[j] * mask[j];
    }
  }
}

// --- forward -----------------------------------------------------------------

void RecurrentOp::ForwardFrom(int64_t first, const OpCall& call) const {
  const bool saves = call.training && call.saved != nullptr;
  const bool masks = call.training && MaskFloats() > 0;
  if (masks) DrawMasks(first, call, call.scratch);
  const int threads = call.pool->threads();
  const int64_t share = Share(call.batch, threads);
  const int64_t floats = saves ? SavingFloats(share) : ForwardFloats(share);
  call.pool->Run([&](int t) {
    const Range examples = Split(call.batch, threads, t);
    const int64_t group = saves ? examples.size() : Group();
    float* const own = call.scratch + call.batch * MaskFloats() + t * floats;
    for (int64_t i = examples.begin; i < examples.end; i += group) {
      ForwardGroup(call, {i, std::min(examples.end, i + group)}, own);
    }
  });
}

void RecurrentOp::InputProducts(const OpCall& call, Range examples,
                                const float* masks, float* spare,
                                float* gates) const {
  const int64_t rows = examples.size() * steps_, width = kind_.gates * units_;
  const float* x = call.x[0] + examples.begin * steps_ * features_;
  const Matrix z = RowMajor(gates, rows, width);
  const ConstMatrix kernel =
      RowMajor(static_cast<const float*>(call.weights[0]), features_, width);
  const float* const bias = bias_ ? call.weights[2] : nullptr;
  const bool drops = InputMask(masks, 0, 0) != nullptr;
  const int64_t parts = drops && recurrent_dropout_ > 0 ? kind_.gates : 1,
                part = width / parts;
  for (int64_t p = 0; p < parts; ++p) {
    for (int64_t row = 0; drops && row < rows; ++row) {
      const float* const mask = InputMask(masks, row / steps_, p);
      for (int64_t j = 0; j < features_; ++j) {
        spare[row * features_ + j] = x[row * features_ + j] * mask[j];
      }
    }
    // Z(NT,GU) = X(NT,F) * W(F,GU)
    Product product{
        RowMajor(drops ? static_cast<const float*>(spare) : x, rows, features_),
        kernel.Cols(p * part, (p + 1) * part),
        z.Cols(p * part, (p + 1) * part)};
    product.bias = bias == nullptr ? nullptr : bias + p * part;
    Multiply(product);
  }
}

// Sets the states before the first step.
void RecurrentOp::BeginStates(const OpCall& call, Range examples,
                              float* states) const {
  const int64_t floats = examples.size() * units_;
  for (int k = 0; k < kind_.states; ++k, states += floats) {
    if (has_initial_states_) {
      std::copy_n(call.x[1 + k] + examples.begin * units_, floats, states);
    } else {
      std::fill_n(states, floats, 0.0f);
    }
  }
}

// Writes the output of step s of the computation.
void RecurrentOp::WriteOutput(const RecurrentStep& step, Range examples,
                              int64_t s) const {
  for (int64_t i = 0; i < examples.size(); ++i) {
    const int64_t example = examples.begin + i;
    float* const y = step.call->y + OutputRow(example, s) * units_;
    if (takes_mask_ && !HasOutput(*step.call, example, s)) {
      std::fill_n(y, units_, 0.0f);
    } else {
      std::copy_n(step.state[i], units_, y);
    }
  }
}

void RecurrentOp::ForwardGroup(const OpCall& call, Range examples,
                               float* own) const {
  const bool saves = call.training && call.saved != nullptr;
  const int64_t n = examples.size(), width = kind_.gates * units_;
  const SavedSpans saved = saves ? SpansOf(call) : SavedSpans();
  RecurrentStep step = {};
  step.call = &call;
  step.examples = n;
  if (call.training && MaskFloats() > 0) {
    step.masks = call.scratch + examples.begin * MaskFloats();
  }
  const Scratch scratch =
      ScratchOf(saves ? Pass::kSavingForward : Pass::kForward, n, own);
  step.state = {scratch.states, units_};
  step.carry = {scratch.states + n * units_, units_};
  BeginStates(call, examples, scratch.states);
  step.extra = {scratch.extra, units_};
  step.products = scratch.products;
  float* const gates =
      saves ? saved.gates + examples.begin * GateFloats() : scratch.gates;
  InputProducts(call, examples, step.masks, scratch.masked_inputs, gates);
  for (int64_t s = 0; s < steps_; ++s) {
    const int64_t t = backwards_ ? steps_ - 1 - s : s;
    step.is_first = s == 0 && !has_initial_states_;
    step.gates = {gates + t * width, GateFloats()};
    const int64_t at = (examples.begin * steps_ + t) * units_;
    for (int k = 0; saves && k < kind_.states; ++k) {
      const StepRows from = k == 0 ? step.state : step.carry;
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(from[i], units_, saved.states[k] + at + i * StateFloats());
      }
    }
    if (saves && kind_.has_extra)
      step.extra = {saved.extra + at, StateFloats()};
    std::copy_n(step.state.data, n * KeptFloats(), scratch.kept);
    StepForward(step);
    if (takes_mask_) {
      CopyMasked(step, examples, s, scratch.kept, step.state.data);
    }
    if (sequences_ || s + 1 == steps_) WriteOutput(step, examples, s);
  }
  for (int k = 0; returns_state_ && k < kind_.states; ++k) {
    const StepRows last = k == 0 ? step.state : step.carry;
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(last[i], units_,
                  call.y + StateRow(examples.begin + i, k) * units_);
    }
  }
}

// --- backward ----------------------------------------------------------------

void RecurrentOp::Backward(const OpCall& call) const {
  BackwardFrom(0, call);
  if (!frozen()) call.sink->OnGradientsFinal(call.gradient_offset);
}

void RecurrentOp::BackwardFrom(int64_t first, const OpCall& call) const {
  if (MaskFloats() > 0) DrawMasks(first, call, call.scratch);
  const int threads = call.pool->threads();
  const int64_t floats = BackwardFloats(Share(call.batch, threads));
  float* const spare = call.scratch + call.batch * MaskFloats();
  call.pool->Run([&](int t) {
    const Range examples = Split(call.batch, threads, t);
    if (!examples.empty()) BackwardGroup(call, examples, spare + t * floats);
  });
  SavedSpans saved = SpansOf(call);
  saved.adds = first > 0;
  if (call.dx[0] != nullptr) InputGradient(call, spare, saved.gates);
  if (frozen()) return;
  KernelGradient(call, spare, saved);
  RecurrentGradients(call, saved);
  if (!bias_) return;
  const int64_t width = kind_.gates * units_;
  if (!saved.adds) std::fill_n(call.d_weights[2], width, 0.0f);
  AddColumnSums(saved.gates, Rows(call), width, call.d_weights[2]);
  BiasGradient(call, saved);
}

void RecurrentOp::BackwardGroup(const OpCall& call, Range examples,
                                float* own) const {
  const SavedSpans saved = SpansOf(call);
  const int64_t n = examples.size(), width = kind_.gates * units_;
  RecurrentStep step = {};
  step.call = &call;
  step.examples = n;
  if (MaskFloats() > 0) {
    step.masks = call.scratch + examples.begin * MaskFloats();
  }
  const Scratch scratch = ScratchOf(Pass::kBackward, n, own);
  step.d_state = scratch.states;
  step.d_carry = scratch.states + n * units_;
  std::fill_n(step.d_state, n * kind_.states * units_, 0.0f);
  for (int k = 0; returns_state_ && k < kind_.states; ++k) {
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(call.dy + StateRow(examples.begin + i, k) * units_, units_,
                  step.d_state + (k * n + i) * units_);
    }
  }
  step.products = scratch.products;
  step.row = scratch.row;
  for (int64_t s = steps_ - 1; s >= 0; --s) {
    const int64_t t = backwards_ ? steps_ - 1 - s : s;
    const int64_t at = (examples.begin * steps_ + t) * units_;
    step.is_first = s == 0 && !has_initial_states_;
    step.gates = {saved.gates + examples.begin * GateFloats() + t * width,
                  GateFloats()};
    step.state = {saved.states[0] + at, StateFloats()};
    if (kind_.states > 1) step.carry = {saved.states[1] + at, StateFloats()};
    step.extra = {saved.extra + at, StateFloats()};
    for (int64_t i = 0; i < n && (sequences_ || s + 1 == steps_); ++i) {
      if (takes_mask_ && !HasOutput(call, examples.begin + i, s)) continue;
      AddTo(call.dy + OutputRow(examples.begin + i, s) * units_, units_,
            step.d_state + i * units_);
    }
    std::copy_n(step.d_state, n * KeptFloats(), scratch.kept);
    StepBackward(step);
    if (!takes_mask_) continue;
    CopyMasked(step, examples, s, scratch.kept, step.d_state);
    DropMaskedGates(step, examples, s);
  }
  for (int k = 0; has_initial_states_ && k < kind_.states; ++k) {
    if (call.dx[1 + k] == nullptr) continue;
    std::copy_n(step.d_state + k * n * units_, n * units_,
                call.dx[1 + k] + examples.begin * units_);
  }
}

void RecurrentOp::InputGradient(const OpCall& call, float* spare,
                                const float* d) const {
  const int64_t rows = Rows(call), width = kind_.gates * units_;
  const float* const masks = MaskFloats() > 0 ? call.scratch : nullptr;
  const ConstMatrix kernel =
      RowMajor(static_cast<const float*>(call.weights[0]), features_, width);
  const bool drops = InputMask(masks, 0, 0) != nullptr;
  const int64_t parts = drops && recurrent_dropout_ > 0 ? kind_.gates : 1,
                part = width / parts;
  for (int64_t p = 0; p < parts; ++p) {
    float* const to = p == 0 ? call.dx[0] : spare;
    // dX(BT,F) = dZ(BT,GU) * W(F,GU)^T
    Gemm(RowMajor(d, rows, width).Cols(p * part, (p + 1) * part),
         kernel.Cols(p * part, (p + 1) * part).Transposed(), /*add=*/false,
         RowMajor(to, rows, features_), call.pool);
    if (drops) MaskRows(call, masks, to, p, /*is_state=*/false, to);
    if (p > 0) AddTo(to, rows * features_, call.dx[0]);
  }
}

void RecurrentOp::KernelGradient(const OpCall& call, float* spare,
                                 const SavedSpans& saved) const {
  const float* const d = saved.gates;
  const int64_t rows = Rows(call), width = kind_.gates * units_;
  const float* const masks = MaskFloats() > 0 ? call.scratch : nullptr;
  const bool drops = InputMask(masks, 0, 0) != nullptr;
  const int64_t parts = drops && recurrent_dropout_ > 0 ? kind_.gates : 1,
                part = width / parts;
  for (int64_t p = 0; p < parts; ++p) {
    if (drops) {
      MaskRows(call, masks, call.x[0], p, /*is_state=*/false, spare);
    }
    // dW(F,GU) = X(BT,F)^T * dZ(BT,GU)
    Gemm(RowMajor(drops ? static_cast<const float*>(spare) : call.x[0], rows,
                  features_)
             .Transposed(),
         RowMajor(d, rows, width).Cols(p * part, (p + 1) * part), saved.adds,
         RowMajor(call.d_weights[0], features_, width)
             .Cols(p * part, (p + 1) * part),
         call.pool);
  }
}

void RecurrentOp::RecurrentGradients(const OpCall& call,
                                     const SavedSpans& saved) const {
  RecurrentGradient(call, saved.states[0], /*masked=*/false, {0, kind_.gates},
                    RowMajor(static_cast<const float*>(saved.gates), Rows(call),
                             kind_.gates * units_),
                    saved.adds);
}

void RecurrentOp::RecurrentGradient(const OpCall& call, const float* states,
                                    bool masked, Range gates, ConstMatrix d,
                                    bool adds) const {
  const int64_t rows = Rows(call);
  const float* const masks = MaskFloats() > 0 ? call.scratch : nullptr;
  float* const spare = call.scratch + call.batch * MaskFloats();
  const bool drops = !masked && StateMask(masks, 0, 0) != nullptr;
  const int64_t parts = drops ? gates.size() : 1, part = d.cols / parts;
  const Matrix all = RowMajor(call.d_weights[1], units_, kind_.gates * units_)
                         .Cols(gates.begin * units_, gates.end * units_);
  for (int64_t p = 0; p < parts; ++p) {
    if (drops) {
      MaskRows(call, masks, states, gates.begin + p, /*is_state=*/true, spare);
    }
    // dR(U,GU) = H(BT,U)^T * dZ(BT,GU)
    Gemm(RowMajor(drops ? static_cast<const float*>(spare) : states, rows,
                  units_)
             .Transposed(),
         d.Cols(p * part, (p + 1) * part), adds,
         all.Cols(p * part, (p + 1) * part), call.pool);
  }
}

// --- layers ------------------------------------------------------------------

Status MakeRecurrent(const Layer& layer, const std::vector<Shape>& inputs,
                     std::unique_ptr<Op>* op) {
  constexpr int64_t kMax = int64_t{1} << 31;
  const Shape& x = inputs[0];
  RINGLET_RETURN_IF_ERROR(CheckAtLeastOne("units", layer.units));
  if (x.rank() != 2) {
    return InvalidArgument("%s needs an input (steps, features), not %s",
                           ClassName(layer), x.ToString().c_str());
  }
  if (layer.units > kMax / 4 || x[0] > kMax / 4 / layer.units) {
    return InvalidArgument(
        "%lld units in %lld steps are too many: the product may be at most "
        "2^29",
        static_cast<long long>(layer.units), static_cast<long long>(x[0]));
  }
  RINGLET_RETURN_IF_ERROR(CheckActivations(layer));
  if (layer.kind == Layer::Kind::kLSTM) {
    *op = MakeLSTM(layer, x);
  } else if (layer.kind == Layer::Kind::kGRU) {
    *op = MakeGRU(layer, x);
  } else {
    op->reset(new SimpleRnnOp(layer, x));
  }
  RINGLET_RETURN_IF_ERROR(
      static_cast<RecurrentOp*>(op->get())->SetInputs(inputs));
  if (layer.dtype == DTypePolicy::kMixedBFloat16) {
    *op = PackSaved(std::move(*op), inputs);
  }
  return Status();
}

Status MakeRecurrentOutput(const Layer& layer, const std::vector<Shape>& inputs,
                           std::unique_ptr<Op>* op) {
  if (layer.layer == nullptr) {  // Graph::Add sets it
    return InvalidArgument("RecurrentOutput takes a layer's output alone");
  }
  const int64_t states = layer.layer->kind == Layer::Kind::kLSTM ? 2 : 1,
                rows = inputs[0][0], steps = rows - states;
  const Range selected =
      layer.tensor == 0 ? Range{0, steps}
                        : Range{steps + layer.tensor - 1, steps + layer.tensor};
  const bool is_sequence = layer.tensor == 0 && layer.layer->return_sequences;
  op->reset(new RecurrentOutputOp(inputs[0], selected, is_sequence));
  return Status();
}

}  // namespace ringlet
