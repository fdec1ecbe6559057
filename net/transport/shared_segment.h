// SharedSegment: memory that two workers of one host have mapped.
//
// It has no name: its descriptor goes through the local socket to the other
// process. The memory is freed when both processes have ended. Its length is
// fixed (sealed), so no access can fail later. Linux only; on other systems all
// bytes go by the socket.

#ifndef RINGLET_NET_TRANSPORT_SHARED_SEGMENT_H_
#define RINGLET_NET_TRANSPORT_SHARED_SEGMENT_H_

#include <cstdint>
#include <memory>

#include "shared_lane.h"

namespace ringlet {

class SharedSegment {
 public:
  // Null if the system cannot make one, for example for lack of address space.
  static std::unique_ptr<SharedSegment> Create();
  // Maps the segment of another process of the same user. It owns the
  // descriptor. Null if it is not such a segment, or cannot be mapped.
  static std::unique_ptr<SharedSegment> Map(int descriptor);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // The descriptor of a created segment, until it is closed.
  int descriptor() const { return descriptor_; }
  void CloseDescriptor();
  // Lane 0 has the bytes from the segment's creator, lane 1 the bytes to it.
  SharedLane Lane(int index) const;

 private:
  SharedSegment() = default;
  bool MapMemory();

  int descriptor_ = -1;
  uint8_t* memory_ = nullptr;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_SHARED_SEGMENT_H_
