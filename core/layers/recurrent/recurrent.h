// RecurrentOp: the computation that SimpleRNN, LSTM and GRU share.
//
// Examples are independent, so each thread computes all steps of its examples.
// Spans are (examples, steps, numbers), and a StepRows is one step of them. The
// products of the inputs with the kernel are one product for all steps. Forward
// in training saves each step's gates and the states before it. Backward goes
// from the last step to the first. It replaces the gates by their gradients,
// from which the gradients of weights and inputs are one product each. So no
// bits depend on the threads.
//
// A masked step keeps an example's states. It is computed, and its results are
// dropped. Its gates have no gradient.
//
// Masks of dropout are drawn again in Backward. As in Keras, with
// recurrent_dropout each gate has masks of its own. Otherwise the gates share
// one mask.

#ifndef RINGLET_CORE_LAYERS_RECURRENT_RECURRENT_H_
#define RINGLET_CORE_LAYERS_RECURRENT_RECURRENT_H_

#include <memory>
#include <vector>

#include "../../compute/gemm.h"
#include "../op.h"

namespace ringlet {

// Rows of numbers, one for each of some examples.
struct StepRows {
  float* data = nullptr;
  int64_t stride = 0;
  float* operator[](int64_t i) const { return data + i * stride; }
  StepRows At(int64_t number) const { return {data + number, stride}; }
};

// One step of some examples.
struct RecurrentStep {
  const OpCall* call;
  int64_t examples;
  bool is_first;  // the states before it are zeros
  const float* masks;
  // The products of the inputs. Forward makes the gates' values of them, and
  // Backward the gradients of the products.
  StepRows gates;
  // In Forward the states before the step, which become the states after it. In
  // Backward the states before the step. `carry` is LSTM's second state.
  StepRows state, carry;
  StepRows extra;  // other values that Backward reads, or writes
  float* d_state;  // Backward: of the states after the step, then before it
  float* d_carry;
  float* products;  // scratch of 2 * examples * units
  float* row;       // scratch of (gates + 2) * units
};

// The pointers to a step in the spans of all examples.
struct SavedSpans {
  float* gates;
  float* states[2];  // the states before each step
  float* extra;
  bool adds = false;  // the gradients of weights are added to others
};

class RecurrentOp : public Op {
 public:
  bool backward_reads_input() const override {
    return !frozen() || takes_mask_;
  }
  uint64_t saved_floats(int64_t batch) const override;
  uint64_t forward_scratch(int64_t batch, int threads) const override;
  uint64_t backward_scratch(int64_t batch, int threads) const override;
  int64_t multiply_adds() const override;
  void Forward(const OpCall& call) const override { ForwardFrom(0, call); }
  void Backward(const OpCall& call) const override;
  // Passes over some of a step's examples, of which the first has this number.
  // BackwardFrom does not call the sink. Unless `first` is 0, it adds the
  // gradients of weights to those of the examples before.
  void ForwardFrom(int64_t first, const OpCall& call) const;
  void BackwardFrom(int64_t first, const OpCall& call) const;
  // The forward_scratch of a pass that saves.
  uint64_t saving_scratch(int64_t batch, int threads) const;
  // The inputs from the second on are the states before the first step, and the
  // mask.
  Status SetInputs(const std::vector<Shape>& inputs);

 protected:
  // The numbers of gates, of states and of spans of extra values.
  struct Kind {
    int64_t gates = 1;
    int states = 1;
    bool has_extra = false;
  };
  RecurrentOp(const Layer& layer, const Shape& x, const Kind& kind,
              const Shape& bias);

  virtual void StepForward(const RecurrentStep& step) const = 0;
  virtual void StepBackward(const RecurrentStep& step) const = 0;
  // Computes the gradient of the recurrent kernel.
  virtual void RecurrentGradients(const OpCall& call,
                                  const SavedSpans& saved) const;
  // Computes the gradient of the bias; its first numbers have the gates' sums
  // already.
  virtual void BiasGradient(const OpCall&, const SavedSpans&) const {}

  int64_t units() const { return units_; }
  bool has_bias() const { return bias_; }
  // of one example in all steps
  int64_t GateFloats() const { return steps_ * kind_.gates * units_; }
  int64_t StateFloats() const { return steps_ * units_; }
  int64_t Rows(const OpCall& call) const { return call.batch * steps_; }
  // The mask of the state for a gate; null if there is none.
  const float* StateMask(const float* masks, int64_t example,
                         int64_t gate) const;

  // to = state R for some gates; with `add` it is added.
  void MultiplyState(const RecurrentStep& step, StepRows state, Range gates,
                     bool add, StepRows to) const;
  // d_state += d R^T for some gates.
  void AddStateGradient(const RecurrentStep& step, StepRows d, Range gates,
                        float* d_state) const;
  // Computes the gradient of R for some gates: states^T d, over all steps. If
  // `masked`, `states` include the masks.
  void RecurrentGradient(const OpCall& call, const float* states, bool masked,
                         Range gates, ConstMatrix d, bool adds) const;

  const Activation activation_, recurrent_activation_;

 private:
  int64_t OutputRow(int64_t example, int64_t s) const;
  int64_t StateRow(int64_t example, int state) const;
  bool IsMasked(const OpCall& call, int64_t example, int64_t s) const;
  bool HasOutput(const OpCall& call, int64_t example, int64_t s) const;
  void CopyMasked(const RecurrentStep& step, Range examples, int64_t s,
                  const float* from, float* to) const;
  void DropMaskedGates(const RecurrentStep& step, Range examples,
                       int64_t s) const;
  void WriteOutput(const RecurrentStep& step, Range examples, int64_t s) const;
  int64_t KeptFloats() const { return takes_mask_ ? kind_.states * units_ : 0; }
  void BeginStates(const OpCall& call, Range examples, float* states) const;
  int64_t MaskFloats() const;
  const float* InputMask(const float* masks, int64_t example,
                         int64_t gate) const;
  void DrawMasks(int64_t first, const OpCall& call, float* masks) const;
  SavedSpans SpansOf(const OpCall& call) const;
  int64_t Group() const;
  // The scratch of a thread for n examples; with null `floats` counts it.
  struct Scratch {
    float* states;         // in Backward their gradients
    float* products;       // see RecurrentStep
    float* kept;           // the states before a step, if there is a mask
    float* row;            // in Backward; see RecurrentStep
    float* extra;          // in Forward
    float* masked_inputs;  // in Forward with dropout
    float* gates;          // in a Forward that does not save them
    int64_t floats;
  };
  enum class Pass : uint8_t { kForward, kSavingForward, kBackward };
  Scratch ScratchOf(Pass pass, int64_t n, float* own = nullptr) const;
  int64_t SavingFloats(int64_t examples) const;
  int64_t ForwardFloats(int64_t examples) const;
  int64_t BackwardFloats(int64_t examples) const;
  void ForwardGroup(const OpCall& call, Range examples, float* own) const;
  void InputProducts(const OpCall& call, Range examples, const float* masks,
                     float* spare, float* gates) const;
  void BackwardGroup(const OpCall& call, Range examples, float* own) const;
  void KernelGradient(const OpCall& call, float* spare,
                      const SavedSpans& saved) const;
  void InputGradient(const OpCall& call, float* spare, const float* d) const;
  void MaskRows(const OpCall& call, const float* masks, const float* from,
                int64_t gate, bool is_state, float* to) const;

  const Kind kind_;
  const int64_t steps_, features_, units_;
  const bool bias_, sequences_, returns_state_, backwards_, keeps_order_;
  const bool takes_mask_, zero_output_for_mask_;
  bool has_initial_states_ = false;
  const float dropout_, recurrent_dropout_;
};

// BiasActivation and ActivationGradient of one row. An activation of a
// recurrent layer has a gradient that follows from its output.
void ActivateGate(Activation activation, int64_t width, float* y);
void GateGradient(Activation activation, const float* y, int64_t width,
                  float* dy);

// The ops of lstm.cc and gru.cc. MakeRecurrent has checked the layer.
std::unique_ptr<Op> MakeLSTM(const Layer& layer, const Shape& x);
std::unique_ptr<Op> MakeGRU(const Layer& layer, const Shape& x);
// The op of a layer with mixed_bfloat16 (packed_recurrent.cc).
std::unique_ptr<Op> PackSaved(std::unique_ptr<Op> recurrent,
                              const std::vector<Shape>& inputs);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_RECURRENT_RECURRENT_H_
