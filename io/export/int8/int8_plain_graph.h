// PlainGraph: the primitives of a model, and which of them have a node of the
// plain model.

#ifndef RINGLET_IO_EXPORT_INT8_INT8_PLAIN_GRAPH_H_
#define RINGLET_IO_EXPORT_INT8_INT8_PLAIN_GRAPH_H_

#include <map>
#include <vector>

#include "../lowering.h"
#include "int8_plain.h"
#include "ringlet/model.h"

namespace ringlet {

class PlainGraph {
 public:
  // Lowers `model`, which must outlive this object, and finds its front ends.
  // If `end` is not -1, this primitive is the one output, and the last one.
  Status Make(Model* model, int end,
              std::map<int, PlainModel::FrontEnd>* front_ends);

  const Lowering& lowering() const { return lowering_; }
  const Primitive& At(int index) const {
    return lowering_.primitives[static_cast<size_t>(index)];
  }
  int last() const { return last_; }

  // True for a front end, and for what is between it and its input. These
  // primitives have the input's node.
  bool IsInFrontEnd(int index) const {
    return in_front_end_[static_cast<size_t>(index)];
  }
  // The primitive with the node of this primitive: itself, if it has a node.
  int WithNode(int index) const;
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  int WithNodeOfOutput(int k) const {
    return WithNode(outputs_[static_cast<size_t>(k)]);
  }
  // The primitive that computed the numbers of this primitive, which may be a
  // view.
  int BehindViews(int index) const;
  // How many primitives and outputs of the model read this primitive's node.
  int Reads(int index) const { return reads_[static_cast<size_t>(index)]; }
  // The model's output that alone reads this primitive; -1 if there is none.
  int OnlyReadByOutput(int index) const;

 private:
  void CountReads();
  bool PathToInput(int index, std::vector<int>* path) const;

  Lowering lowering_;
  int last_ = -1;
  std::vector<int> outputs_;  // the primitives of the outputs
  std::vector<int> reads_;    // the reads of each primitive
  std::vector<bool> in_front_end_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_INT8_PLAIN_GRAPH_H_
