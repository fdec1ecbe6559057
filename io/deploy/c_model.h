// CModel: a model's layers as calls of C functions.
//
// Internal to io/deploy. Slots are chosen for all nodes first, then the calls
// are written.

#ifndef RINGLET_IO_DEPLOY_C_MODEL_H_
#define RINGLET_IO_DEPLOY_C_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "../../core/layers/layer_table.h"
#include "../../core/model/model.h"
#include "../files/file_system.h"
#include "c_shapes.h"
#include "c_slots.h"
#include "logits.h"

namespace ringlet {

class CModel {
 public:
  explicit CModel(Model* model) : model_(*model), floats_(model->weights()) {}

  Status AddLayers(bool softmax);
  Status Write(FileSystem* files, const std::string& path) const;

 private:
  struct Row {
    Layer::Kind kind;
    void (CModel::*convert)(int what);
    int what;
    bool in_place;
  };
  static const Row kRows[];
  struct Constant {
    const float* floats;        // the model's; null: …
    std::vector<float> values;  // … its own
    int64_t count;
  };

  void Pass(int) {}
  void Dense(int);
  void Conv(int depthwise);
  void SeparableConv(int);
  void Pool(int max);
  void GlobalPool(int max);
  void Frame(int pads);
  void UpSample(int);
  void Permute(int);
  void Activate(int);
  void Curve(int);
  void PReLU(int);
  void Softmax(int);
  void Merge(int operation);
  void Concatenate(int);
  void BatchNormalization(int);
  void LayerNormalization(int);
  void Rescaling(int);
  void Normalization(int);

  Status CheckLayers() const;
  const Row* RowOf(int node) const;
  bool IsView(int node) const { return GivesItsInput(model_.layer(node)); }
  std::string NewBuffer(int64_t floats) {
    return "b" + std::to_string(slots_->AddBuffer(floats, node_));
  }
  std::string X(size_t i = 0) const { return slots_->NameOf(inputs_[i]); }
  std::string Y() const { return slots_->NameOf(node_); }
  const Shape& XShape(size_t i = 0) const {
    return model_.output_shape(inputs_[i]);
  }
  const Shape& YShape() const { return model_.output_shape(node_); }

  void Call(const char* format, ...) __attribute__((format(printf, 2, 3)));
  std::string Numbers(const CInts& numbers);
  const Variable* Find(const char* weight) const;
  std::string Weight(const char* weight);                // "0": there is none
  std::string Values(const std::vector<float>& values);  // "0" of none
  std::string AddConstant(const Constant& constant);
  void Convolve(const std::string& x, const std::string& y, const char* kernel,
                const char* bias, const CWindow& geometry);
  void CallPool(const CWindow& geometry);
  // In place.
  void Activated(Activation activation);
  void Each(const std::string& expression);
  // Of each axis how many, and the steps in x and y.
  void Copy(const std::string& x, const std::string& y, const CInts& axes);
  void Affine(const std::vector<float>& minus, const std::vector<float>& times,
              const std::vector<float>& plus);
  std::string Comment() const;

  Model& model_;
  const float* const floats_;
  std::unique_ptr<CSlots> slots_;
  size_t arena_bytes_ = 0;
  std::vector<Constant> constants_;
  std::vector<std::string> expressions_;
  std::string calls_, numbers_;
  int num_numbers_ = 0;
  uint32_t helpers_ = 0;
  bool too_large_ = false;  // for C's int
  std::string not_finite_;  // a layer with such constants

  // The node at work.
  int node_ = 0;
  const Layer* layer_ = nullptr;
  std::vector<int> inputs_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_C_MODEL_H_
