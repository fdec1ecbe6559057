// SharedSegment: memory that two workers of one host have mapped.
//
// Internal to net/. It has no name: its descriptor goes through the local
// socket, so who has it is the one at the other end, and it is gone with the
// last of the two processes. Its length is sealed, so no access can fail later.
// Linux; on other systems there is none, and everything goes by the socket.

#ifndef RINGLET_NET_RING_SHARED_SEGMENT_H_
#define RINGLET_NET_RING_SHARED_SEGMENT_H_

#include <cstdint>
#include <memory>

#include "shared_lane.h"

namespace ringlet {

class SharedSegment {
 public:
  // Null where the system has none to give: say, no address space.
  static std::unique_ptr<SharedSegment> Create();
  // Of another process, of the same user; takes the descriptor. Null where it
  // is not such a segment, or cannot be mapped.
  static std::unique_ptr<SharedSegment> Map(int descriptor);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Of Create's, until it is closed.
  int descriptor() const { return descriptor_; }
  void CloseDescriptor();
  // 0: from the one who created it; 1: to it.
  SharedLane Lane(int index) const;

 private:
  SharedSegment() = default;
  bool MapMemory();

  int descriptor_ = -1;
  uint8_t* memory_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_SHARED_SEGMENT_H_
