#include "collective_plan.h"

#include <algorithm>
#include <cstdio>

#include "topology.h"

namespace ringlet {
namespace {

const char* Describe(FrameType type, uint64_t bytes, int root, char* out,
                     size_t out_bytes) {
  const int n = std::snprintf(out, out_bytes, "%s", FrameTypeName(type));
  const size_t at = static_cast<size_t>(n);
  if (type == FrameType::kBroadcast) {
    std::snprintf(out + at, out_bytes - at, " of %llu bytes from rank %d",
                  static_cast<unsigned long long>(bytes), root);
  } else if (type != FrameType::kBarrier) {
    std::snprintf(out + at, out_bytes - at, " of %llu bytes",
                  static_cast<unsigned long long>(bytes));
  }
  return out;
}

bool StartsWithVowel(FrameType type) { return FrameTypeName(type)[0] == 'a'; }

void PlanAllReduce(const PlanOptions& options, uint64_t bytes,
                   CollectivePlan* plan) {
  plan->element_bytes = sizeof(float);
  const int64_t count = static_cast<int64_t>(bytes / sizeof(float));
  const bool ring =
      count > 0 &&
      (options.algorithm == Algorithm::kRing ||
       (options.algorithm == Algorithm::kAuto && bytes > kEagerBytes));
  plan->needs_ready = ring;
  if (!ring) {
    return DoublingAllReduce(options.rank, options.size, count,
                             kEagerBytes / sizeof(float), &plan->steps);
  }
  RingAllReduce(options.rank, options.size, count, &plan->steps);
  if (bytes > kEagerBytes && !plan->integers) plan->dtype = options.dtype;
}

void PlanAllGather(const PlanOptions& options, uint64_t bytes,
                   CollectivePlan* plan) {
  const int64_t length = static_cast<int64_t>(bytes);
  const bool direct = IsFullyConnected(options.size);
  const uint64_t size = static_cast<uint64_t>(options.size);
  plan->needs_ready = bytes > (direct ? kEagerBytes : kEagerBytes / size);
  if (plan->needs_ready) {
    RingAllGather(options.rank, options.size, length, &plan->steps);
  } else if (direct) {
    DirectAllGather(options.rank, options.size, length, &plan->steps);
  } else {
    TreeAllGather(options.rank, options.size, length, &plan->steps);
  }
}

}  // namespace

void MakePlan(const PlanOptions& options, const Call& call,
              CollectivePlan* plan) {
  plan->steps.clear();
  plan->element_bytes = 1;
  plan->needs_ready = plan->ready_by_tree = false;
  plan->integers = call.type == FrameType::kAllReduceInts;
  plan->dtype = WireDtype::kFloat32;
  switch (call.type) {
    case FrameType::kAllReduce:
    case FrameType::kAllReduceInts:
      PlanAllReduce(options, call.bytes, plan);
      break;
    case FrameType::kAllGather:
      PlanAllGather(options, call.bytes, plan);
      break;
    case FrameType::kBroadcast:
      TreeBroadcast(options.rank, options.size, call.root,
                    static_cast<int64_t>(call.bytes), &plan->steps);
      plan->needs_ready = true;
      plan->ready_by_tree = !IsFullyConnected(options.size);
      break;
    default:
      DoublingAllReduce(options.rank, options.size, 0, 1, &plan->steps);
  }
  plan->depends_on.clear();
  int last = -1;
  for (size_t k = 0; k < plan->steps.size(); ++k) {
    plan->depends_on.push_back(last);
    if (plan->steps[k].receive_from >= 0) last = static_cast<int>(k);
  }
}

int64_t CollectivePlan::Segments(const Slice& slice) const {
  const int64_t segment_elements =
      kSegmentBytes / static_cast<int64_t>(wire_bytes());
  return std::max<int64_t>(
      1, (slice.count + segment_elements - 1) / segment_elements);
}

Slice CollectivePlan::SegmentOf(const Slice& slice, int64_t segment) const {
  const int64_t segment_elements =
      kSegmentBytes / static_cast<int64_t>(wire_bytes());
  const int64_t begin = segment * segment_elements;
  return {slice.begin + begin, std::min(segment_elements, slice.count - begin)};
}

Status CompareCalls(const Call& call, uint64_t sequence, int rank, int peer,
                    const FrameHeader& theirs) {
  const FrameType type = OperationOf(theirs);
  if (type == call.type && theirs.total == call.bytes &&
      theirs.root == call.root) {
    return Status();
  }
  char own_call[96];
  char other[96];
  return InvalidArgument(
      "operation %llu is a%s %s on rank %d, but a%s %s on rank %d: every rank "
      "must make the same calls, with the same sizes, in the same order",
      static_cast<unsigned long long>(sequence),
      StartsWithVowel(call.type) ? "n" : "",
      Describe(call.type, call.bytes, call.root, own_call, sizeof(own_call)),
      rank, StartsWithVowel(type) ? "n" : "",
      Describe(type, theirs.total, theirs.root, other, sizeof(other)), peer);
}

}  // namespace ringlet
