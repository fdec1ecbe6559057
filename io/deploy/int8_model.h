// Int8Model: a model whose layers compute with int8, which can be written as C
// and computed as that C computes.
//
// Internal to io/deploy. Made in three passes over the plain model's nodes: the
// range of each output over examples, what its int8 stands for, and the steps,
// which are calls of the functions of int8_kernels.h.

#ifndef RINGLET_IO_DEPLOY_INT8_MODEL_H_
#define RINGLET_IO_DEPLOY_INT8_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "../../core/data/dataset.h"
#include "../files/file_system.h"
#include "c_shapes.h"
#include "c_slots.h"
#include "int8_kernels.h"
#include "int8_plain.h"

namespace ringlet {

class Int8Model {
 public:
  // `model` can be exported to C. `examples` of `data` say the ranges.
  Status Make(Model* model, const Dataset& data, int64_t examples);
  // With a softmax behind it, or without.
  Status Write(bool softmax, FileSystem* files, const std::string& path) const;

  const Shape& input() const { return plain_.model.output_shape(0); }
  const Shape& output() const { return plain_.model.output_shape(last()); }
  size_t arena_bytes() const { return arena_bytes_; }
  // One example; `arena` has arena_bytes().
  void Run(const float* in, float* out, int8_t* arena) const;

 private:
  // q stands for scale (q - zero).
  struct Meaning {
    double scale = 1;
    int zero = 0;
  };
  struct Range {
    float least = 0, most = 0;
  };
  struct Place {
    int slot = 0;
    int64_t begin = 0;
  };
  struct Row {
    Layer::Kind kind;
    void (Int8Model::*add)(int what);
    int what;
    bool as_input;  // its output stands for what its input does
    bool in_place;
  };
  static const Row kRows[];
  // `numbers` of int8 in `bytes_`, and of int32 in `words_`; -1: none.
  struct Step {
    int8::Kernel kernel;
    Place x, x2, y;
    int bytes = -1, words = -1, words2 = -1;
    int what = 0;
    std::vector<int> numbers;
  };
  // Real factors as multipliers of one shift.
  struct Factors {
    std::vector<int32_t> multipliers;
    int shift = 1;
  };

  static const Row& RowOf(Layer::Kind kind);
  static Factors FactorsOf(const std::vector<double>& real);
  Status FindRanges(Model* model, const Dataset& data, int64_t examples);
  void TakeBatch(const float* x, int64_t count);
  void FindViews();
  void FindMeanings();
  Status AddSteps();

  void Nothing(int) {}
  void Product(int depthwise);
  void Pool(int max);
  void GlobalPool(int max);
  void Frame(int pads);
  void UpSample(int);
  void Permute(int);
  void Table(int);
  void Merge(int what);
  void Concatenate(int);

  void AddConv(const CWindow& window);
  void AddPool(const CWindow& window);
  void AddCopy(const Place& x, const Place& y, const CInts& axes, int table);
  int AddTable(const Meaning& from, const Meaning& to,
               const std::vector<float>& values);
  int AddBytes(std::vector<int8_t> bytes);
  int AddWords(std::vector<int32_t> words);
  std::vector<int> Ints(const CInts& numbers);

  int last() const { return plain_.model.num_nodes() - 1; }
  const Shape& XShape(size_t i = 0) const {
    return plain_.model.output_shape(in_[i]);
  }
  const Shape& YShape() const { return plain_.model.output_shape(node_); }
  const Meaning& Of(int node) const {
    return meanings_[static_cast<size_t>(node)];
  }
  Place At(int node, int64_t begin = 0) const {
    return {slots_->SlotOf(node), begin};
  }
  Step NewStep(int8::Kernel kernel) const;

  void RunStep(const Step& step, int8_t* arena) const;
  std::string Comment() const;
  std::string Calls() const;
  std::string CallOf(const Step& step, size_t numbers) const;
  std::string Constants(size_t first, size_t end) const;
  std::string Entries(bool softmax) const;

  PlainModel plain_;
  std::vector<Range> ranges_;  // of the plain model's nodes
  std::vector<Meaning> meanings_;
  std::vector<CSlots::Kind> kinds_;
  std::unique_ptr<CSlots> slots_;
  size_t arena_bytes_ = 0;
  std::vector<Step> steps_;
  std::vector<std::vector<int8_t>> bytes_;
  std::vector<std::vector<int32_t>> words_;
  bool too_large_ = false;  // for C's int

  // The node at work.
  int node_ = 0;
  const Layer* layer_ = nullptr;
  std::vector<int> in_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_INT8_MODEL_H_
