// WireOrder: vectors of sums that are under way, in the byte order of the wire.
//
// Numbers on the wire are little-endian. On a big-endian host the numbers of a
// sum are swapped in place when it starts, and back when it is complete. Used
// by the thread that makes the calls. Does nothing on a little-endian host.

#ifndef RINGLET_NET_RING_WIRE_ORDER_H_
#define RINGLET_NET_RING_WIRE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "../../core/base/byte_order.h"

namespace ringlet {

class WireOrder {
 public:
  // `data` has numbers of four bytes each.
  void Start(uint64_t ticket, void* data, size_t count) {
    if (kBigEndian) under_way_.push_back({ticket, data, count});
  }
  // Call it when all operations up to this ticket are done.
  void Done(uint64_t ticket) {
    while (!under_way_.empty() && under_way_.front().ticket <= ticket) {
      SwapToLittle(under_way_.front().data, sizeof(uint32_t),
                   under_way_.front().count);
      under_way_.pop_front();
    }
  }
  void Clear() { under_way_.clear(); }

 private:
  struct Sum {
    uint64_t ticket;
    void* data;
    size_t count;
  };
  std::deque<Sum> under_way_;  // the oldest first
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_WIRE_ORDER_H_
