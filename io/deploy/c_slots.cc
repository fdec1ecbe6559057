// `last` of an output is the last node that reads it, by whatever view; beyond
// that node its slot is another's.

#include "c_slots.h"

#include <algorithm>
#include <utility>

namespace ringlet {

CSlots::CSlots(const Model& model, std::vector<Kind> kinds, bool callers)
    : model_(model),
      kinds_(std::move(kinds)),
      slots_(static_cast<size_t>(model.num_nodes()), kIn) {
  const int count = model_.num_nodes(), output = Root(count - 1);
  std::vector<int> last(static_cast<size_t>(count));
  for (int node = 0; node < count; ++node) {
    last[static_cast<size_t>(node)] = node;
    if (kinds_[static_cast<size_t>(node)].is_view) continue;
    for (const int input : model_.inputs(node)) {
      last[static_cast<size_t>(Root(input))] = node;
    }
  }
  if (!callers) last[static_cast<size_t>(output)] = count;
  for (int node = 0; node < count; ++node) {
    const bool input = model_.layer(node).kind == Layer::Kind::kInput;
    if (kinds_[static_cast<size_t>(node)].is_view || (input && callers)) {
      continue;
    }
    int& slot = slots_[static_cast<size_t>(node)];
    const int end = last[static_cast<size_t>(node)];
    if (node == output && callers) {
      slot = kOut;
    } else if (!input && MayReplaceInput(node, last)) {
      slot = SlotOf(model_.inputs(node)[0]);
      buffers_[static_cast<size_t>(slot)].last = end;
    } else {
      slot = num_buffers();
      buffers_.push_back({model_.output_shape(node).elements(), node, end});
    }
  }
}

int CSlots::Root(int node) const {
  while (kinds_[static_cast<size_t>(node)].is_view) {
    node = model_.inputs(node)[0];
  }
  return node;
}

// `last`: the last node that reads one.
bool CSlots::MayReplaceInput(int node, const std::vector<int>& last) const {
  const std::vector<int>& inputs = model_.inputs(node);
  const int first = Root(inputs[0]);
  const auto same = std::count_if(inputs.begin(), inputs.end(), [&](int input) {
    return Root(input) == first;
  });
  return kinds_[static_cast<size_t>(node)].in_place && same == 1 &&
         slots_[static_cast<size_t>(first)] >= 0 &&
         last[static_cast<size_t>(first)] == node &&
         model_.output_shape(inputs[0]) == model_.output_shape(node);
}

std::string CSlots::NameOf(int node) const {
  const int slot = SlotOf(node);
  if (slot == kIn) return "in";
  return slot == kOut ? "out" : "b" + std::to_string(slot);
}

int CSlots::AddBuffer(int64_t elements, int node) {
  buffers_.push_back({elements, node, node});
  return num_buffers() - 1;
}

size_t CSlots::Place(size_t element) {
  for (const Buffer& b : buffers_) {
    plan_.Add(element * static_cast<size_t>(b.elements), b.first, b.last);
  }
  return plan_.Place();
}

}  // namespace ringlet
