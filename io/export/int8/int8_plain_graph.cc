// Reads are counted twice: to find the front ends, and again without the reads
// within them.

#include "int8_plain_graph.h"

#include <memory>
#include <utility>

#include "../c/c_sound.h"

namespace ringlet {

using Kind = Primitive::Kind;

int PlainGraph::WithNode(int index) const {
  while (At(index).kind == Kind::kIdentity || IsInFrontEnd(index)) {
    index = At(index).inputs[0];
  }
  return index;
}

int PlainGraph::BehindViews(int index) const {
  while (IsView(At(index))) index = At(index).inputs[0];
  return index;
}

int PlainGraph::OnlyReadByOutput(int index) const {
  for (int k = 0; k < num_outputs() && Reads(index) == 1; ++k) {
    if (WithNodeOfOutput(k) == index) return k;
  }
  return -1;
}

void PlainGraph::CountReads() {
  reads_.assign(lowering_.primitives.size(), 0);
  for (int k = 0; k < num_outputs(); ++k) {
    ++reads_[static_cast<size_t>(WithNodeOfOutput(k))];
  }
  for (int i = 0; i <= last(); ++i) {
    if (At(i).kind == Kind::kIdentity || IsInFrontEnd(i)) continue;
    for (const int input : At(i).inputs) {
      ++reads_[static_cast<size_t>(WithNode(input))];
    }
  }
}

// Sets *path to the primitives from this primitive's input back to an input of
// the model, which comes last. Returns false if one of them is not a view, or
// if another primitive reads it too.
bool PlainGraph::PathToInput(int index, std::vector<int>* path) const {
  path->clear();
  int input = At(index).inputs[0];
  for (; IsView(At(input)); input = At(input).inputs[0]) {
    path->push_back(input);
    const bool alone = At(input).steps == 0 &&
                       (At(input).kind == Kind::kIdentity || Reads(input) == 1);
    if (!alone) return false;
  }
  path->push_back(input);
  return At(input).kind == Kind::kInput && Reads(input) == 1;
}

Status PlainGraph::Make(Model* model, int end,
                        std::map<int, PlainModel::FrontEnd>* front_ends) {
  RINGLET_RETURN_IF_ERROR(Lower(model, "C", &lowering_));
  for (int k = 0; k < model->num_outputs() && end < 0; ++k) {
    const auto node = static_cast<size_t>(model->output_node(k));
    outputs_.push_back(lowering_.of_node[node]);
  }
  if (end >= 0) outputs_.push_back(end);
  last_ = end >= 0 ? end : static_cast<int>(lowering_.primitives.size()) - 1;
  in_front_end_.assign(lowering_.primitives.size(), false);
  CountReads();
  std::vector<int> path;
  for (int i = 0; i <= last(); ++i) {
    const Primitive& p = At(i);
    if (!IsSound(p) || p.steps != 0 || !PathToInput(i, &path)) continue;
    std::unique_ptr<Op> op;
    const Shape& samples = At(p.inputs[0]).output;
    RINGLET_RETURN_IF_ERROR(Op::Make(*p.layer, {samples}, &op));
    (*front_ends)[path.back()] = {*p.layer, samples, std::move(op)};
    path.back() = i;  // the input has a node of its own
    for (const int each : path) in_front_end_[static_cast<size_t>(each)] = true;
  }
  CountReads();
  return Status();
}

}  // namespace ringlet
