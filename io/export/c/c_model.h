// CModel: a model's primitives as calls of C functions.
//
// All slots are chosen before the first call is written.

#ifndef RINGLET_IO_EXPORT_C_C_MODEL_H_
#define RINGLET_IO_EXPORT_C_C_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "../../files/file_system.h"
#include "../lowering.h"
#include "c_helpers.h"
#include "c_interface.h"
#include "c_shapes.h"
#include "c_slots.h"
#include "ringlet/model.h"

namespace ringlet {

class CModel {
 public:
  // `interface` outlives the CModel.
  CModel(Model* model, const CInterface& interface)
      : model_(*model), floats_(model->weights()), interface_(interface) {}

  Status AddLayers(bool softmax);
  Status Write(FileSystem* files, const std::string& path) const;

 private:
  struct Row {
    Primitive::Kind kind;
    void (CModel::*write)();
    bool in_place;
  };
  static const Row kRows[];
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

  Status CheckModel() const;
  Status CheckCountable() const;
  static const Row& RowOf(Primitive::Kind kind);
  std::string NewBuffer(int64_t floats) {
    return "b" + std::to_string(slots_->AddBuffer(floats, index_));
  }
  const Primitive& At(int index) const {
    return lowering_.primitives[static_cast<size_t>(index)];
  }
  // The output of a primitive, or its present step `t`.
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
  // The name of the function that applies an activation of one number.
  std::string FunctionOf(Activation activation);
  std::string FunctionOf(const std::string& expression);
  // Each axis has a count, and its steps in x and y.
  void Copy(const std::string& x, const std::string& y, const CInts& axes);
  // Copies x to y unless they are one.
  void CopyIfNeeded();
  std::string Comment() const;
  std::string Functions() const;

  Model& model_;
  const float* floats_;
  const CInterface& interface_;
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

  // The present primitive.
  int index_ = 0;
  const Primitive* p_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_MODEL_H_
