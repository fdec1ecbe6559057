// The steps by which a rank carries out one call of a collective operation.
//
// Pure functions of the call, the rank and the size.

#ifndef RINGLET_NET_COLLECTIVE_COLLECTIVE_PLAN_H_
#define RINGLET_NET_COLLECTIVE_COLLECTIVE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../wire/frame.h"
#include "../wire/wire_dtype.h"
#include "collective_steps.h"

namespace ringlet {

// A call of a collective operation on one rank.
struct Call {
  FrameType type = FrameType::kBarrier;
  uint8_t* data = nullptr;  // the whole vector, in and out
  uint64_t bytes = 0;       // all-gather: of one rank's part
  int root = 0;
};

enum class Algorithm : uint8_t { kAuto, kRing, kTree };

// The rank's settings, which all its calls share.
struct PlanOptions {
  int rank = 0;
  int size = 1;
  Algorithm algorithm = Algorithm::kAuto;
  // The type on the wire of floats of all-reduces by ring, beyond kEagerBytes.
  WireDtype dtype = WireDtype::kFloat32;
};

struct CollectivePlan {
  size_t element_bytes = 1;
  WireDtype dtype = WireDtype::kFloat32;
  bool integers = false;     // the elements of a sum: int32, not floats
  bool needs_ready = false;  // receivers send kReady before data moves
  // If true, a rank sends kReady to its source once all its receivers have sent
  // theirs, so the root's is the last. Otherwise, in a broadcast every rank
  // sends it to all.
  bool ready_by_tree = false;
  std::vector<Step> steps;
  // For each step the last receiving step before it; -1 if there is none. The
  // step sends only after that one has taken effect.
  std::vector<int> depends_on;

  bool packed() const { return dtype != WireDtype::kFloat32; }
  // The bytes of an element on the wire.
  size_t wire_bytes() const {
    return packed() ? PackedBytesPerFloat(dtype) : element_bytes;
  }
  // Long slices move in segments of at most kSegmentBytes; an empty one is one
  // segment.
  int64_t Segments(const Slice& slice) const;
  Slice SegmentOf(const Slice& slice, int64_t segment) const;
};
// Reuses the memory of `plan`.
void MakePlan(const PlanOptions& options, const Call& call,
              CollectivePlan* plan);

// OK if the frame `theirs` of `peer` belongs to the call of this rank.
// Otherwise kInvalidArgument, which names both calls.
Status CompareCalls(const Call& call, uint64_t sequence, int rank, int peer,
                    const FrameHeader& theirs);

}  // namespace ringlet

#endif  // RINGLET_NET_COLLECTIVE_COLLECTIVE_PLAN_H_
