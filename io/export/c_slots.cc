// `last` of an output is the last primitive that reads it, also through views.
// After that one its slot is free.

#include "c_slots.h"

#include <algorithm>
#include <utility>

namespace ringlet {

CSlots::CSlots(const Primitives& primitives, std::vector<Kind> kinds,
               bool uses_in, bool uses_out)
    : primitives_(primitives),
      kinds_(std::move(kinds)),
      slots_(primitives.size(), kIn) {
  const auto count = static_cast<int>(primitives.size());
  const int output = Root(count - 1);
  std::vector<int> last(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    last[static_cast<size_t>(i)] = i;
    if (kinds_[static_cast<size_t>(i)].is_view) continue;
    for (const int input : At(i).inputs) {
      last[static_cast<size_t>(Root(input))] = i;
    }
  }
  if (!uses_out) last[static_cast<size_t>(output)] = count;
  for (int i = 0; i < count; ++i) {
    const bool input = At(i).kind == Primitive::Kind::kInput;
    if (kinds_[static_cast<size_t>(i)].is_view || (input && uses_in)) continue;
    int& slot = slots_[static_cast<size_t>(i)];
    const int end = last[static_cast<size_t>(i)];
    if (i == output && uses_out) {
      slot = kOut;
    } else if (!input && MayReplaceInput(i, last)) {
      slot = SlotOf(At(i).inputs[0]);
      buffers_[static_cast<size_t>(slot)].last = end;
    } else {
      slot = num_buffers();
      const int64_t steps = std::max<int64_t>(At(i).steps, 1);
      buffers_.push_back({At(i).output.elements() * steps, i, end});
    }
  }
}

int CSlots::Root(int i) const {
  while (kinds_[static_cast<size_t>(i)].is_view) {
    i = At(i).inputs[0];
  }
  return i;
}

// `last`: by output, the last primitive that reads it.
bool CSlots::MayReplaceInput(int i, const std::vector<int>& last) const {
  const std::vector<int>& inputs = At(i).inputs;
  const int first = Root(inputs[0]);
  const auto same = std::count_if(inputs.begin(), inputs.end(), [&](int input) {
    return Root(input) == first;
  });
  return kinds_[static_cast<size_t>(i)].in_place && same == 1 &&
         slots_[static_cast<size_t>(first)] >= 0 &&
         last[static_cast<size_t>(first)] == i &&
         At(inputs[0]).output == At(i).output;
}

std::string CSlots::NameOf(int i) const {
  const int slot = SlotOf(i);
  if (slot == kIn) return "in";
  return slot == kOut ? "out" : "b" + std::to_string(slot);
}

int CSlots::AddBuffer(int64_t elements, int i) {
  buffers_.push_back({elements, i, i});
  return num_buffers() - 1;
}

size_t CSlots::Place(size_t element) {
  for (const Buffer& b : buffers_) {
    plan_.Add(element * static_cast<size_t>(b.elements), b.first, b.last);
  }
  return plan_.Place();
}

}  // namespace ringlet
