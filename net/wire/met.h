// Met: what a rank of a large ring says of who has met, while the ring forms.
//
// Internal to net/. Pure. Layout: docs/wire_format.md, "Met"; meaning:
// net/ring/meeting.h.

#ifndef RINGLET_NET_WIRE_MET_H_
#define RINGLET_NET_WIRE_MET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "abort.h"

namespace ringlet {

struct Met {
  int level = 0;
  int missing = -1;         // a rank without which it goes no further, if known
  uint32_t generation = 0;  // the greatest proposed, as far as it knows
  // Where the level is lower than the last that it told: why.
  bool fell = false;
  AbortNotice why;
};

std::vector<uint8_t> EncodeMet(const Met& met);
Status DecodeMet(const uint8_t* payload, size_t bytes, int size, int sender,
                 Met* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_MET_H_
