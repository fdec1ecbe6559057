// Int8Model: a model with int8 arithmetic. It can be written as C, and computed
// here with the same results.
//
// The plain model has one primitive for each node, and views. Three passes over
// them find the range of each output over examples, the scale and zero point of
// its int8 numbers, and the steps. Steps are calls of the functions of
// int8_kernels.h.

#ifndef RINGLET_IO_EXPORT_INT8_INT8_MODEL_H_
#define RINGLET_IO_EXPORT_INT8_INT8_MODEL_H_

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../files/file_system.h"
#include "../c/c_body.h"
#include "../c/c_helpers.h"
#include "../c/c_interface.h"
#include "../c/c_shapes.h"
#include "../c/c_slots.h"
#include "../lowering.h"
#include "int8_kernels.h"
#include "int8_plain.h"
#include "ringlet/dataset.h"

namespace ringlet {

// One filter as int8 with steps of `step`, and its bias in the steps of a sum
// with inputs of `x_scale`. The sums of any inputs fit int32. If all weights
// are 0, the bias determines the step.
struct Int8Filter {
  double step = 1;
  std::vector<int8_t> weights;
  int32_t bias = 0;
};
Int8Filter MakeFilter(const std::vector<double>& weights, double bias,
                      double x_scale);

// The memory that the computation of an example writes to.
struct Int8Memory {
  std::vector<int8_t> arena;
  std::vector<float> floats;    // the floats of one step
  std::vector<int16_t> state;   // a recurrence's state, for a product
  std::vector<int32_t> tokens;  // the inputs that Embeddings read
  std::vector<float> features;  // the features of the front end of one input
  std::unique_ptr<ThreadPool> pool;
};

class Int8Model {
 public:
  // `model` can be exported to C. `examples` of `data` determine the ranges. If
  // `end` is not -1, this primitive is the last one, and its output the one
  // output.
  Status Make(Model* model, const Dataset& data, int64_t examples, int end);
  // Writes the model with or without a final softmax.
  Status Write(bool softmax, const CInterface& c, FileSystem* files,
               const std::string& path) const;
  // The model as a part of a file that trains. Its function
  // body_outputs(in, to) computes the one output as floats; all names of the
  // part begin with body_.
  CBody Body(const CInterface& c) const;

  int num_inputs() const { return static_cast<int>(plain_.inputs.size()); }
  int num_outputs() const { return static_cast<int>(plain_.outputs.size()); }
  const Shape& input(int i) const { return plain_.model.output_shape(i); }
  // Returns the shape of what the caller passes for input i: samples of sound,
  // if a front end reads the input.
  const Shape& given(int i) const {
    const PlainModel::FrontEnd* const front_end = FrontEndOf(i);
    return front_end == nullptr ? input(i) : front_end->samples;
  }
  const Shape& output(int k) const {
    return plain_.model.output_shape(PlainOutput(k).node);
  }
  // True if an input has the numbers of tokens, which stay whole numbers.
  bool takes_tokens(int i) const { return InputAt(i).first_token >= 0; }
  Int8Memory NewMemory() const;
  // Computes one example. There are as many `in` and `out` as inputs and
  // outputs.
  void Run(const float* const* in, float* const* out, Int8Memory* memory) const;

 private:
  // An int8 number q represents scale (q - zero_point).
  struct Quantization {
    double scale = 1;
    int zero_point = 0;
  };
  struct Range {
    float least = 0, most = 0;
  };
  // An input of the model. `first_token` is the place of its tokens in the
  // memory. `factors` and `shifts` are the numbers of the constants that
  // convert its int8 numbers. Each is -1 if there is none.
  struct In {
    int64_t first_token = -1;
    int factors = -1, shifts = -1;
  };
  struct BufferSpan {
    int buffer = 0;  // -1 for tokens, which are not in the arena
    int64_t begin = 0;
    int64_t stride = 0;  // the step's distance to its next repetition
  };
  struct Row {
    Primitive::Kind kind;
    void (Int8Model::*add)();
    bool keeps_quantization;  // its output has the quantization of its input
    bool in_place;
  };
  static const Row kRows[];
  // An argument of a step's function.
  struct Argument {
    enum Place : uint8_t {
      kValue,
      kArena,    // a span of the memory's arena
      kTokens,   // a span of its tokens
      kScratch,  // its floats
      kNumbers,  // the step's numbers
      kCell,     // the step's recurrence
    };
    std::string text;  // in C
    int8::Value value = {};
    Place place = kValue;
    BufferSpan span = {};
  };
  struct Step {
    int8::Kernel kernel;
    std::vector<Argument> arguments;
    std::vector<int> numbers;
    int64_t times = 1;           // the steps of a TimeDistributed
    int8::Recurrence cell = {};  // of a recurrence; without q
    std::string cell_text = {};
  };
  // Real factors as multipliers with one shift.
  struct Factors {
    std::vector<int32_t> multipliers;
    int shift = 1;
  };

  static const Row& RowOf(Primitive::Kind kind);
  // True if the output has the quantization of the input.
  static bool KeepsQuantization(const Primitive& primitive);
  static Factors MakeFactors(const std::vector<double>& real);
  const PlainModel::FrontEnd* FrontEndOf(int i) const {
    const auto found = plain_.front_ends.find(i);
    return found == plain_.front_ends.end() ? nullptr : &found->second;
  }
  // Returns the numbers of input i: `input`, or their features.
  const float* InputFrom(int i, const float* input, Int8Memory* memory) const;
  // Floats for the features of an input, and of its front end's scratch in C.
  int64_t FeatureFloats() const;
  int64_t FrontEndFloats() const;  // the floats of all constants
  std::string FrontEnds() const;
  Status FindRanges(Model* model, const Dataset& data, int64_t examples);
  const float* ScaledInput(const Batch& batch, Int8Memory* memory);
  void FindTableRanges();
  Status CheckRanges() const;
  Status CheckFinite(size_t first_step, size_t first_floats) const;
  // The results of a layer that computes each number alone.
  static std::vector<float> ComputeResults(const Layer& layer,
                                           const std::vector<float>& values);
  void FindTokens();
  // The primitive that is not a view, or the input, of a view's numbers.
  int Source(int index) const;
  void AddInputScales();
  const PlainModel::Output& PlainOutput(int k) const {
    return plain_.outputs[static_cast<size_t>(k)];
  }
  const In& InputAt(int i) const { return inputs_[static_cast<size_t>(i)]; }
  // The primitive of an output.
  int OutputAt(int k) const {
    return lowering_.of_node[static_cast<size_t>(PlainOutput(k).node)];
  }
  size_t PlaceInArena(int primitive) const {
    return slots_->offset(slots_->BufferOf(primitive));
  }
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
  void AddSlopes();
  void AddGather();
  void AddPositions();
  void AddSoftmax();
  void AddNormalize();
  void AddAttend();
  void AddRecurrence();

  // Adds a call for the present node.
  void AddStep(int8::Kernel kernel, std::vector<Argument> arguments,
               const CInts& numbers = {});
  CInts Window(std::initializer_list<int64_t> more) const;
  void AddMergeStep(int8::MergeOperation operation, const Argument& b,
                    const Shape& b_shape, int b_zero, const Factors& factors);
  void AddCopy(const Argument& x, const Argument& y, const CInts& axes,
               int table = -1);
  static Argument Span(const BufferSpan& span);
  Argument X(size_t i = 0) const { return Span(At(p_->inputs[i])); }
  Argument Y() const { return Span(At(node_)); }
  // Constants; null for -1.
  Argument Bytes(int i) const { return Constant("w", bytes_, i); }
  Argument Words(int i) const { return Constant("c", words_, i); }
  Argument Floats(int i) const { return Constant("f", floats_, i); }
  template <typename T>
  static Argument Constant(const char* letter,
                           const std::vector<std::vector<T>>& all, int i) {
    if (i < 0) return {"0"};
    return {letter + std::to_string(i), all[static_cast<size_t>(i)].data()};
  }
  Argument Numbers() const {
    return {"n" + std::to_string(steps_.size()), {}, Argument::kNumbers};
  }
  static Argument Scratch() { return {"floats", {}, Argument::kScratch}; }
  Argument Int(int64_t number) {
    return {std::to_string(number), Ints({number})[0]};
  }
  static Argument Float(float number) { return {CNumber(number), number}; }
  int AddTable(const Quantization& from, const Quantization& to,
               const std::vector<float>& values);
  // Returns the index of an equal item, such as the constant of a shared layer.
  // Without an equal item, appends `item` and returns its index.
  template <typename T>
  static int FindOrAdd(std::vector<T>* items, T item) {
    const auto same = std::find(items->begin(), items->end(), item);
    const auto index = static_cast<int>(same - items->begin());
    if (same == items->end()) items->push_back(std::move(item));
    return index;
  }
  int AddBytes(std::vector<int8_t> bytes);
  int AddWords(std::vector<int32_t> words);
  int AddFloats(std::vector<float> floats);
  int AddFloats(const Variable* weight);  // -1 for null
  std::vector<int8_t> QuantizeToBytes(const float* values, int64_t count,
                                      const Quantization& quantization) const;
  // The kernel's columns as int8 rows, and their factors.
  void AddRows(const Variable* kernel, double x_scale, int* rows, int* factors);
  const float* FloatsOf(const Variable* weight) {
    return plain_.model.weights() + weight->offset;
  }
  float FactorTo(int node) const {
    return static_cast<float>(1 / QuantizationOf(node).scale);
  }
  std::vector<int> Ints(const CInts& numbers);

  int last() const { return static_cast<int>(lowering_.primitives.size()) - 1; }
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
    return {slots_->BufferOf(node), begin,
            p_->steps <= 1 ? 0 : PrimitiveAt(node).output.elements()};
  }

  // Computes one of the step's repetitions.
  void RunStep(const Step& step, int64_t time, Int8Memory* memory) const;
  int8_t* At(const BufferSpan& span, int64_t time, Int8Memory* memory) const {
    return memory->arena.data() + slots_->offset(span.buffer) + span.begin +
           span.stride * time;
  }
  size_t ram() const;
  size_t flash() const;
  // The constants, and all functions but the entries.
  std::string Code(bool softmax) const;
  std::string Comment(const CInterface& c) const;
  std::string Calls() const;
  static std::string CallOf(const Step& step);
  uint32_t Kernels() const;
  std::string Memory() const;
  std::string PlaceOf(int input) const;
  std::string StoreText(int input, const char* x, const std::string& to,
                        int64_t count) const;
  std::string Quantizations(const CInterface& c) const;
  std::string Dequantizations(bool softmax,
                              const std::vector<CArgument>& outputs) const;
  std::string Entries(bool softmax, const CInterface& c) const;

  PlainModel plain_;
  Lowering lowering_;  // the plain model's primitives
  std::vector<Range>
      ranges_;  // the ranges of its primitives that are not views
  std::vector<Quantization> quantizations_;
  std::vector<CSlots::Kind> kinds_;
  std::unique_ptr<CSlots> slots_;
  size_t arena_bytes_ = 0;
  std::vector<Step> steps_;
  std::vector<std::vector<int8_t>> bytes_;
  std::vector<std::vector<int32_t>> words_;
  std::vector<std::vector<float>> floats_;
  std::vector<float> scaled_;  // the inputs of the plain model
  std::vector<In> inputs_;
  std::vector<Activation> functions_;
  size_t num_floats_ = 0, num_state_ = 0, num_tokens_ = 0;  // see Int8Memory
  bool too_large_ = false;  // some size is too large for an int in C

  // The present node.
  int node_ = 0;
  const Primitive* p_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_INT8_MODEL_H_
