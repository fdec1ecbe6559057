// CSlots: where the outputs of a model's nodes lie in a C file.
//
// Internal to io/deploy. A slot has one output at a time: the caller's `in` or
// `out`, or a buffer, placed by lifetime. Views lie in the slot of what they
// are of; a node that may writes over its first input where that is read no
// more.

#ifndef RINGLET_IO_DEPLOY_C_SLOTS_H_
#define RINGLET_IO_DEPLOY_C_SLOTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../../core/base/arena.h"
#include "../../core/model/model.h"

namespace ringlet {

class CSlots {
 public:
  static constexpr int kIn = -1, kOut = -2;
  struct Kind {
    bool is_view, in_place;
  };

  // `callers`: input and output are the caller's, else buffers too.
  CSlots(const Model& model, std::vector<Kind> kinds, bool callers);

  int Root(int node) const;
  int SlotOf(int node) const { return slots_[static_cast<size_t>(Root(node))]; }
  std::string NameOf(int node) const;
  // A buffer that only `node` needs.
  int AddBuffer(int64_t elements, int node);

  // Of elements of so many bytes; what the whole takes.
  size_t Place(size_t element);
  int num_buffers() const { return static_cast<int>(buffers_.size()); }
  int64_t elements(int buffer) const {
    return buffers_[static_cast<size_t>(buffer)].elements;
  }
  size_t offset(int buffer) const { return plan_.offset(buffer); }

 private:
  struct Buffer {
    int64_t elements;
    int first, last;  // nodes between which it lives
  };
  bool MayReplaceInput(int node, const std::vector<int>& last) const;

  const Model& model_;
  const std::vector<Kind> kinds_;
  std::vector<int> slots_;  // of nodes that are no views
  std::vector<Buffer> buffers_;
  LifetimePlan plan_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_C_SLOTS_H_
