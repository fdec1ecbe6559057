// Int8Model: a model with int8 arithmetic. It can be written as C, and computed
// here with the same results.
//
// The plain model has one primitive for each node. Three passes over them find
// the range of each output over examples, the scale and zero point of its int8
// numbers, and the steps. Steps are calls of the functions of int8_kernels.h.

#ifndef RINGLET_IO_EXPORT_INT8_MODEL_H_
#define RINGLET_IO_EXPORT_INT8_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "c_interface.h"
#include "c_shapes.h"
#include "c_slots.h"
#include "int8_kernels.h"
#include "int8_plain.h"
#include "lowering.h"
#include "ringlet/dataset.h"
#include "ringlet/files.h"

namespace ringlet {

class Int8Model {
 public:
  // `model` can be exported to C. `examples` of `data` determine the ranges.
  Status Make(Model* model, const Dataset& data, int64_t examples);
  // Writes the model with or without a final softmax.
  Status Write(bool softmax, const CInterface& c, FileSystem* files,
               const std::string& path) const;

  const Shape& input() const { return plain_.model.output_shape(0); }
  const Shape& output() const { return plain_.model.output_shape(last()); }
  size_t arena_bytes() const { return arena_bytes_; }
  // Computes one example. `arena` has arena_bytes().
  void Run(const float* in, float* out, int8_t* arena) const;

 private:
  // An int8 number q represents scale (q - zero_point).
  struct Quantization {
    double scale = 1;
    int zero_point = 0;
  };
  struct Range {
    float least = 0, most = 0;
  };
  struct BufferSpan {
    int slot = 0;
    int64_t begin = 0;
  };
  struct Row {
    Primitive::Kind kind;
    void (Int8Model::*add)();
    bool keeps_quantization;  // its output has the quantization of its input
    bool in_place;
  };
  static const Row kRows[];
  // `bytes` and `words` are indices of int8 and int32 constants; -1: none.
  struct Step {
    int8::Kernel kernel;
    BufferSpan x, x2, y;
    int bytes = -1, words = -1, words2 = -1;
    int argument = 0;
    std::vector<int> numbers;
  };
  // Real factors as multipliers with one shift.
  struct Factors {
    std::vector<int32_t> multipliers;
    int shift = 1;
  };

  static const Row& RowOf(Primitive::Kind kind);
  // True if the output has the quantization of the input.
  static bool KeepsQuantization(const Primitive& primitive);
  static Factors FactorsOf(const std::vector<double>& real);
  Status FindRanges(Model* model, const Dataset& data, int64_t examples);
  void UpdateRanges(const float* x, int64_t count);
  void FindViews();
  void ChooseQuantization();
  Status AddSteps();

  void AddNothing() {}
  void AddProduct();
  void AddPool();
  void AddPad();
  void AddCrop();
  void AddRepeat();
  void AddTranspose();
  void AddLookup();
  void AddMerge();
  void AddConcatenate();

  void AddCopy(const BufferSpan& x, const BufferSpan& y, const CInts& axes,
               int table);
  int AddTable(const Quantization& from, const Quantization& to,
               const std::vector<float>& values);
  int AddBytes(std::vector<int8_t> bytes);
  int AddWords(std::vector<int32_t> words);
  std::vector<int> Ints(const CInts& numbers);

  int last() const { return plain_.model.num_nodes() - 1; }
  const Primitive& PrimitiveAt(int node) const {
    return lowering_.primitives[static_cast<size_t>(node)];
  }
  const Shape& XShape(size_t i = 0) const {
    return PrimitiveAt(p_->inputs[i]).output;
  }
  const Shape& YShape() const { return p_->output; }
  const Quantization& QuantizationOf(int node) const {
    return quantizations_[static_cast<size_t>(node)];
  }
  BufferSpan At(int node, int64_t begin = 0) const {
    return {slots_->SlotOf(node), begin};
  }
  Step NewStep(int8::Kernel kernel) const;

  void RunStep(const Step& step, int8_t* arena) const;
  std::string Comment(const CInterface& c) const;
  std::string Calls() const;
  std::string CallOf(const Step& step, size_t numbers) const;
  std::string Entries(bool softmax, const CInterface& c) const;

  PlainModel plain_;
  Lowering lowering_;          // of the plain model
  std::vector<Range> ranges_;  // of the plain model's nodes
  std::vector<Quantization> quantizations_;
  std::vector<CSlots::Kind> kinds_;
  std::unique_ptr<CSlots> slots_;
  size_t arena_bytes_ = 0;
  std::vector<Step> steps_;
  std::vector<std::vector<int8_t>> bytes_;
  std::vector<std::vector<int32_t>> words_;
  bool too_large_ = false;  // for an int in C

  // The present node.
  int node_ = 0;
  const Primitive* p_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_MODEL_H_
