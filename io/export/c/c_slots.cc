// `last` of an output is the last primitive that reads it, also through views.
// After that primitive the slot of the output is free.

#include "c_slots.h"

#include <algorithm>
#include <utility>

namespace ringlet {

CSlots::CSlots(const Primitives& primitives, std::vector<Kind> kinds,
               const std::vector<int>& outputs,
               const std::vector<bool>& uses_in, bool uses_out, int kept)
    : primitives_(primitives),
      kinds_(std::move(kinds)),
      kept_(kept),
      slots_(primitives.size()) {
  const std::vector<int> last = LastReads(outputs);
  const auto count = static_cast<int>(primitives.size());
  for (int i = 0; i < count; ++i) {
    const bool input = At(i).kind == Primitive::Kind::kInput;
    if (kinds_[static_cast<size_t>(i)].is_view) continue;
    CSlot& slot = slots_[static_cast<size_t>(i)];
    const auto output =
        std::find_if(outputs.begin(), outputs.end(),
                     [&](int index) { return Root(index) == i; });
    if (input && uses_in[static_cast<size_t>(i)]) {
      slot = {CSlot::Memory::kInput, i};
    } else if (output != outputs.end() && uses_out) {
      slot = {CSlot::Memory::kOutput,
              static_cast<int>(output - outputs.begin())};
    } else if (!input && MayReplaceInput(i, last)) {
      slot = SlotOf(At(i).inputs[0]);
      buffers_[static_cast<size_t>(slot.index)].last =
          last[static_cast<size_t>(i)];
    } else {
      slot = {CSlot::Memory::kBuffer, num_buffers()};
      const int64_t steps = std::max<int64_t>(At(i).steps, 1);
      buffers_.push_back(
          {At(i).output.elements() * steps, i, last[static_cast<size_t>(i)]});
    }
  }
}

// An output is read after the last primitive.
std::vector<int> CSlots::LastReads(const std::vector<int>& outputs) const {
  const auto count = static_cast<int>(primitives_.size());
  std::vector<int> last(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    last[static_cast<size_t>(i)] = i;
    if (kinds_[static_cast<size_t>(i)].is_view) continue;
    for (const int input : At(i).inputs) {
      last[static_cast<size_t>(Root(input))] = i;
    }
  }
  for (const int output : outputs) {
    last[static_cast<size_t>(Root(output))] = count;
  }
  for (int i = count; i-- > 0 && i >= kept_;) {
    last[static_cast<size_t>(Root(i))] = GradientTime(Root(i));
  }
  return last;
}

int CSlots::Root(int i) const {
  while (kinds_[static_cast<size_t>(i)].is_view) {
    i = At(i).inputs[0];
  }
  return i;
}

// last[i] is the last primitive that reads value i, also through views.
bool CSlots::MayReplaceInput(int i, const std::vector<int>& last) const {
  const std::vector<int>& inputs = At(i).inputs;
  const int first = Root(inputs[0]);
  const auto same = std::count_if(inputs.begin(), inputs.end(), [&](int input) {
    return Root(input) == first;
  });
  return kinds_[static_cast<size_t>(i)].in_place && same == 1 &&
         slots_[static_cast<size_t>(first)].is_buffer() &&
         last[static_cast<size_t>(first)] == i &&
         At(inputs[0]).output == At(i).output;
}

int CSlots::AddBuffer(int64_t elements, int first, int last) {
  buffers_.push_back({elements, first, last});
  return num_buffers() - 1;
}

size_t CSlots::Place(size_t element) {
  for (const Buffer& b : buffers_) {
    plan_.Add(element * static_cast<size_t>(b.elements), b.first, b.last);
  }
  return plan_.Place();
}

}  // namespace ringlet
