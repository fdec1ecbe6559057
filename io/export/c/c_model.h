// CModel: a model's primitives as calls of C functions.
//
// All slots are chosen before the first call is written.

#ifndef RINGLET_IO_EXPORT_C_C_MODEL_H_
#define RINGLET_IO_EXPORT_C_C_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../files/file_system.h"
#include "../lowering.h"
#include "c_body.h"
#include "c_helpers.h"
#include "c_interface.h"
#include "c_shapes.h"
#include "c_slots.h"
#include "c_training.h"
#include "ringlet/model.h"

namespace ringlet {

constexpr int64_t kCBlock = 128;  // terms of a sum (core/compute/gemm.h)

class CModel {
 public:
  // `interface` and `training` outlive the CModel. `training` may be null.
  CModel(Model* model, const CInterface& interface, const CTraining* training)
      : model_(*model),
        floats_(model->weights()),
        interface_(interface),
        training_(training) {}

  Status AddLayers(bool softmax);
  // The primitive before the first trained one; -1 without CInterface::int8 or
  // training. The primitives up to it are the body, which the file has to get.
  int body_end() const { return body_end_; }
  void SetBody(CBody body) { body_ = std::move(body); }
  Status Write(FileSystem* files, const std::string& path) const;

 private:
  struct Row {
    Primitive::Kind kind;
    void (CModel::*write)();
    bool in_place;
  };
  static const Row kRows[];
  // How a gradient passes a primitive, in memory d (c_gradients.cc).
  struct GradientRow {
    Primitive::Kind kind;
    void (CModel::*write)();
    bool in_place;  // the input's gradient overwrites the output's gradient
  };
  static const GradientRow kGradientRows[];
  static const GradientRow* GradientRowOf(Primitive::Kind kind);
  struct Constant {
    const float* floats;        // numbers of the model; if null, see values
    std::vector<float> values;  // other constants
    int64_t count;
  };

  Status AddSoftmax();
  void CopyOutputs();
  // The primitives of the model's outputs.
  std::vector<int> Outputs() const;
  // The name in C of the memory of a slot: the caller's memory, or a buffer.
  std::string NameOfSlot(const CSlot& slot) const;
  void Emit();
  void EmitNothing() {}
  void Convolve();
  void Pool();
  void Pad();
  void Crop();
  void Repeat();
  void Transpose();
  void Activate();
  void Relu();
  void LeakyRelu();
  void Elu();
  void PRelu();
  void Softmax();
  void Merge();
  void Concatenate();
  void MultiplyAdd();
  void Normalize();
  void GroupNormalize();
  void UnitNormalize();
  void Recur();
  void TakeTensor();
  void Gather();
  void ConvTranspose();
  void Attend();
  void Positions();
  void Resize();
  void Sound();
  void Mask();

  // Gradients, of a model that is trained (c_gradients.cc).
  bool Trains() const { return training_ != nullptr; }
  bool IsTrained(const Variable* weight) const {
    return Trains() && training_->IsTrained(weight);
  }
  bool IsTrained(const Primitive& p) const;
  // The weights of a Dense or a convolution; null for what it has not.
  std::vector<const Variable*> WeightsOf(const Primitive& p) const;
  // The present primitive leaves its activation to the loss.
  bool IsLogits() const {
    return Trains() && training_->takes_logits && index_ == chain_[0];
  }
  // Records that the layer of `p` may have other bits than in the trainer.
  // Keeps the first such layer.
  void NoteInexact(const Primitive& p) {
    if (inexact_ == nullptr) inexact_ = p.layer;
  }
  Status FindChain();
  Status RemoveBody();
  Status CheckGradient(int index) const;
  Status RefuseToTrain(const Primitive& p, const char* why) const;
  void AddGradients();
  void DropGradient() {}
  void ConvGradient();
  std::string DepthwiseSums();
  void PoolGradient();
  void SlopeGradient();
  void SoftmaxGradient();
  void ScaleGradient();
  void ApplySlope(Activation activation);
  void ApplySlopeExpression(const std::string& expression);
  void RowGradient(const Variable* weight, const std::string& x, int64_t n,
                   const std::string& d, int64_t width, int64_t block);
  std::string GradientOf(const Variable* weight) const;
  bool PassesGradient() const { return index_ != chain_.back(); }
  std::string ExactnessComment() const;
  std::string TrainingFunctions() const;

  // LoRA (c_lora.cc). True if a file that trains computes the matrices.
  static bool IsLora(const Primitive& p);
  const Variable* LoraMatrix(const Primitive& p, const char* name) const;
  std::string LoraNumbers();
  // The frozen kernel, to which the lowering has added the matrices.
  std::string LoraKernel();
  void Lora();
  void LoraGradient();

  Status CheckModel() const;
  Status CheckCountable() const;
  static const Row& RowOf(Primitive::Kind kind);
  std::string NewBuffer(int64_t floats) {
    return "b" + std::to_string(slots_->AddBuffer(floats, index_, index_));
  }
  const Primitive& At(int index) const {
    return lowering_.primitives[static_cast<size_t>(index)];
  }
  // Returns the C expression for the output of a primitive. In a loop over
  // steps: for its row of step t.
  std::string OutputOf(int index) const;
  std::string X(size_t i = 0) const { return OutputOf(p_->inputs[i]); }
  std::string Y() const { return OutputOf(index_); }
  const Shape& XShape(size_t i = 0) const { return At(p_->inputs[i]).output; }
  const Shape& YShape() const { return p_->output; }

  // The elements of one mean or norm.
  long long NormalizedWidth() const;
  void Call(const char* format, ...) __attribute__((format(printf, 2, 3)));
  std::string Numbers(const CInts& numbers);
  std::string Weight(const Variable* weight);            // "0" if null
  std::string Values(const std::vector<float>& values);  // "0" for none
  std::string AddConstant(const Constant& constant);
  // Applies the activation in place.
  void ApplyActivation(Activation activation);
  // Calls conv() or conv_transpose().
  void CallConv(const char* function);
  void ApplyExpression(const std::string& expression);
  // The expression of an activation of one number, or null.
  const char* Expression(Activation activation);
  // The name of the function that applies an activation of one number.
  std::string FunctionOf(Activation activation);
  std::string FunctionOf(const std::string& expression);
  // Each axis has a count, and its steps in x and y.
  void Copy(const std::string& x, const std::string& y, const CInts& axes);
  // Copies x to y unless they are one.
  void CopyIfNeeded();
  static bool HasWord(const std::string& text, const std::string& word);
  std::string BuffersText() const;
  std::string Comment() const;
  std::string Functions() const;

  Model& model_;
  const float* floats_;
  const CInterface& interface_;
  const CTraining* const training_;
  Lowering lowering_;
  std::unique_ptr<CSlots> slots_;
  size_t arena_bytes_ = 0;
  std::vector<Constant> constants_;
  std::vector<std::string> expressions_;
  std::string calls_, numbers_, indent_ = "  ";
  int num_numbers_ = 0;
  CHelpers helpers_;
  bool too_large_ = false;  // some size is too large for an int in C
  std::string not_finite_;  // a layer with infinite or NaN constants

  // For training. chain_: the primitives from the output back to the first
  // trained one. slopes_: the functions of slopes. gradient_calls_: the calls
  // for gradients. end_calls_: the calls after the last example of a step.
  // output_calls_: the calls that copy the output. inexact_: the first layer
  // without the trainer's bits.
  std::vector<int> chain_;
  std::vector<std::string> slopes_;
  std::string gradient_calls_, end_calls_, output_calls_;
  const Layer* inexact_ = nullptr;
  int body_end_ = -1;
  CBody body_;
  std::map<int, std::string> lora_products_;  // the memory of x A
  int64_t sums_ = 0;    // floats of earlier blocks of gradients
  std::string d_, dx_;  // the gradient of the present output, and of its input

  // The present primitive.
  int index_ = 0;
  const Primitive* p_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_MODEL_H_
