// View: what the workers of an elastic ring say to agree on who takes part.
//
// Internal to net/. Pure. Layout: docs/wire_format.md, "View"; meaning:
// net/ring/view_agreement.h.

#ifndef RINGLET_NET_WIRE_VIEW_H_
#define RINGLET_NET_WIRE_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "../../core/base/status.h"

namespace ringlet {

// Values are part of the format.
enum class ViewWord : uint8_t {
  kHears = 1,    // whom the sender hears; with a generation: it does not take
                 // part in that one
  kPropose = 2,  // a view
  kAck = 3,      // the sender takes part in it
  kStart = 4,    // all of its members do
  kRuns = 5,     // the sender is in this view
};

struct ViewFrame {
  ViewWord word = ViewWord::kHears;
  // Of kHears: its sender need wait for nobody else, and would take part in
  // what the receiver proposes.
  bool settled = false;
  bool follows = false;
  uint16_t workers = 0;  // bit w: worker w of the list
  uint32_t generation = 0;
};

constexpr size_t kViewBytes = 8;
void EncodeView(const ViewFrame& frame, uint8_t* out);
// `size`: workers in the list, of whom `sender` is one.
Status DecodeView(const uint8_t* payload, size_t bytes, int size, int sender,
                  ViewFrame* out);

// A generation names one proposal: the proposer's number in the list, and a
// count that is greater than of any that it had heard of.
constexpr uint32_t kGreatestViewCount = 1u << 27;
inline uint32_t ViewGeneration(uint32_t count, int proposer) {
  return count << 4 | static_cast<uint32_t>(proposer);
}
inline uint32_t ViewCount(uint32_t generation) { return generation >> 4; }
inline int ViewProposer(uint32_t generation) {
  return static_cast<int>(generation & 15);
}

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_VIEW_H_
