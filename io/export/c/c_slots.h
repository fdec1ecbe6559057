// CSlots: the memory of the outputs of a model's primitives in a C file.
//
// A slot has one output at a time. A view uses the slot of its input. A
// primitive that may overwrite its first input uses the same slot if that is
// its last read.

#ifndef RINGLET_IO_EXPORT_C_C_SLOTS_H_
#define RINGLET_IO_EXPORT_C_C_SLOTS_H_

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "../../../core/base/arena.h"
#include "../lowering.h"

namespace ringlet {

struct CSlot {
  enum class Memory {
    kBuffer,  // a buffer that is placed by lifetime
    kInput,   // the caller's memory of an input of the model
    kOutput,  // the caller's memory of an output
  };
  Memory memory = Memory::kBuffer;
  int index = 0;  // the number of the buffer, the input or the output
  bool is_buffer() const { return memory == Memory::kBuffer; }
};

class CSlots {
 public:
  struct Kind {
    bool is_view, in_place;
  };

  // `primitives` outlive the CSlots, and have a kind each. `outputs` are the
  // primitives of the model's outputs. If uses_in[i], input i is in the
  // caller's memory, otherwise in a buffer of the CSlots. `uses_out` says the
  // same of the outputs. An output that is a view of an input has the input's
  // slot, and the caller of CSlots must copy it.
  // From primitive `kept` on, an output is kept for its gradient, which is
  // computed at GradientTime().
  CSlots(const Primitives& primitives, std::vector<Kind> kinds,
         const std::vector<int>& outputs, const std::vector<bool>& uses_in,
         bool uses_out, int kept = INT_MAX);

  int Root(int index) const;
  const CSlot& SlotOf(int index) const {
    return slots_[static_cast<size_t>(Root(index))];
  }
  // The buffer of a primitive; -1 if the caller has its memory.
  int BufferOf(int index) const {
    return SlotOf(index).is_buffer() ? SlotOf(index).index : -1;
  }
  // Adds a buffer for these times; a primitive's time is its index.
  int AddBuffer(int64_t elements, int first, int last);
  int GradientTime(int index) const {
    return 2 * static_cast<int>(primitives_.size()) - index;
  }

  // Places elements of `element` bytes each. Returns the bytes of all buffers.
  size_t Place(size_t element);
  int num_buffers() const { return static_cast<int>(buffers_.size()); }
  int64_t elements(int buffer) const {
    return buffers_[static_cast<size_t>(buffer)].elements;
  }
  size_t offset(int buffer) const { return plan_.offset(buffer); }

 private:
  struct Buffer {
    int64_t elements;
    int first, last;  // first and last primitive of its life
  };
  std::vector<int> LastReads(const std::vector<int>& outputs) const;
  bool MayReplaceInput(int index, const std::vector<int>& last) const;
  const Primitive& At(int index) const {
    return primitives_[static_cast<size_t>(index)];
  }

  const Primitives& primitives_;
  const std::vector<Kind> kinds_;
  const int kept_;
  std::vector<CSlot> slots_;  // the slots of primitives that are not views
  std::vector<Buffer> buffers_;
  LifetimePlan plan_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_SLOTS_H_
