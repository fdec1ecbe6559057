// ViewFrame: a message by which the workers of an elastic ring agree on its
// members.
//
// Pure. Layout: docs/wire_format.md, "View"; meaning:
// net/membership/view_agreement.h.

#ifndef RINGLET_NET_WIRE_VIEW_FRAME_H_
#define RINGLET_NET_WIRE_VIEW_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "ringlet/status.h"

namespace ringlet {

// Returns a mask with a bit for each of `size` workers, from 1 to 64.
inline uint64_t AllWorkersMask(int size) { return ~uint64_t{0} >> (64 - size); }

// Values are part of the format.
enum class ViewMessage : uint8_t {
  kHears = 1,    // the workers that the sender hears; with a generation: the
                 // sender does not take part in this proposal
  kPropose = 2,  // a view
  kAck = 3,      // the sender takes part in it
  kStart = 4,    // all of its members do
  kRuns = 5,     // the sender is in this view
};

struct ViewFrame {
  ViewMessage message = ViewMessage::kHears;
  // Only in kHears. waited_enough: its sender waits for no other worker.
  // acknowledges: it would take part in a proposal of the receiver.
  bool waited_enough = false;
  bool acknowledges = false;
  uint64_t workers = 0;  // bit w: worker w of the list
  uint32_t generation = 0;
};

constexpr size_t kViewBytes = 14;  // the most bytes of a view
// The bytes for a list of `size` workers.
inline size_t ViewBytes(int size) { return size <= 16 ? 8 : kViewBytes; }
// Writes kViewBytes. Of these the first ViewBytes(size) are sent.
void EncodeView(const ViewFrame& frame, uint8_t* out);
// The list has `size` workers, and `sender` is one of them.
Status DecodeView(const uint8_t* payload, size_t bytes, int size, int sender,
                  ViewFrame* out);

// A generation names one proposal. The bits from 4 on are a count, greater than
// the number of any generation that the proposer had heard of. The low bits are
// the proposer's number in the list. The number's bits 4 and 5 are the highest.
constexpr uint32_t kGreatestViewCount = 1u << 25;
inline uint32_t ViewGeneration(uint32_t count, int proposer) {
  const auto worker = static_cast<uint32_t>(proposer);
  return worker >> 4 << 30 | count << 4 | (worker & 15);
}
inline uint32_t ViewCount(uint32_t generation) {
  return (generation & 0x3fffffff) >> 4;
}
inline int ViewProposer(uint32_t generation) {
  return static_cast<int>(generation >> 30 << 4 | (generation & 15));
}

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_VIEW_FRAME_H_
