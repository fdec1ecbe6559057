#include "view_frame.h"

#include "../../core/base/byte_order.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

constexpr uint8_t kWaitedEnough = 1;
constexpr uint8_t kAcknowledges = 2;

// Only its proposer proposes and starts a view. The proposer is a member, and
// only members run in the view.
bool MakesSense(const ViewFrame& frame, int sender) {
  const uint32_t count = ViewCount(frame.generation);
  const bool flags = frame.waited_enough || frame.acknowledges;
  if (count > kGreatestViewCount ||
      (frame.message != ViewMessage::kHears && (flags || count == 0)) ||
      (frame.workers >> sender & 1) == 0) {
    return false;
  }
  const bool proposers = frame.message == ViewMessage::kPropose ||
                         frame.message == ViewMessage::kStart;
  return !proposers || ViewProposer(frame.generation) == sender;
}

}  // namespace

void EncodeView(const ViewFrame& frame, uint8_t* out) {
  out[0] = static_cast<uint8_t>(frame.message);
  out[1] = static_cast<uint8_t>((frame.waited_enough ? kWaitedEnough : 0) |
                                (frame.acknowledges ? kAcknowledges : 0));
  StoreLittle(static_cast<uint16_t>(frame.workers), out + 2);
  StoreLittle(frame.generation, out + 4);
  StoreLittle(static_cast<uint16_t>(frame.workers >> 16), out + 8);
  StoreLittle(static_cast<uint32_t>(frame.workers >> 32), out + 10);
}

Status DecodeView(const uint8_t* payload, size_t bytes, int size, int sender,
                  ViewFrame* out) {
  if (size <= kMaxElasticWorkers && bytes == ViewBytes(size) && sender < size &&
      payload[0] >= 1 && payload[0] <= 5 &&
      payload[1] <= (kWaitedEnough | kAcknowledges)) {
    out->message = static_cast<ViewMessage>(payload[0]);
    out->waited_enough = (payload[1] & kWaitedEnough) != 0;
    out->acknowledges = (payload[1] & kAcknowledges) != 0;
    out->workers = LoadLittle<uint16_t>(payload + 2);
    out->generation = LoadLittle<uint32_t>(payload + 4);
    if (size > 16) {
      out->workers |= uint64_t{LoadLittle<uint16_t>(payload + 8)} << 16 |
                      uint64_t{LoadLittle<uint32_t>(payload + 10)} << 32;
    }
    const bool listed = (out->workers & ~AllWorkersMask(size)) == 0;
    if (listed && MakesSense(*out, sender)) return Status();
  }
  return Corruption(
      "an invalid view frame of %zu bytes (valid: %zu) from worker %d of %d: "
      "message %d, flags %d",
      bytes, ViewBytes(size), sender, size, bytes > 0 ? int{payload[0]} : -1,
      bytes > 1 ? int{payload[1]} : -1);
}

}  // namespace ringlet
