#include "view.h"

#include "../../core/base/byte_order.h"

namespace ringlet {
namespace {

constexpr uint8_t kSettled = 1;
constexpr uint8_t kFollows = 2;

// Who proposes or starts a view is its proposer and a member, and so is who
// runs in it.
bool MakesSense(const ViewFrame& frame, int sender) {
  const uint32_t count = ViewCount(frame.generation);
  const bool flags = frame.settled || frame.follows;
  if (count > kGreatestViewCount ||
      (frame.word != ViewWord::kHears && (flags || count == 0)) ||
      (frame.workers >> sender & 1) == 0) {
    return false;
  }
  const bool proposers =
      frame.word == ViewWord::kPropose || frame.word == ViewWord::kStart;
  return !proposers || ViewProposer(frame.generation) == sender;
}

}  // namespace

void EncodeView(const ViewFrame& frame, uint8_t* out) {
  out[0] = static_cast<uint8_t>(frame.word);
  out[1] = static_cast<uint8_t>((frame.settled ? kSettled : 0) |
                                (frame.follows ? kFollows : 0));
  StoreLittle(static_cast<uint16_t>(frame.workers), out + 2);
  StoreLittle(frame.generation, out + 4);
  StoreLittle(static_cast<uint16_t>(frame.workers >> 16), out + 8);
  StoreLittle(static_cast<uint32_t>(frame.workers >> 32), out + 10);
}

Status DecodeView(const uint8_t* payload, size_t bytes, int size, int sender,
                  ViewFrame* out) {
  if (size <= kMostElastic && bytes == ViewBytes(size) && sender < size &&
      payload[0] >= 1 && payload[0] <= 5 &&
      payload[1] <= (kSettled | kFollows)) {
    out->word = static_cast<ViewWord>(payload[0]);
    out->settled = (payload[1] & kSettled) != 0;
    out->follows = (payload[1] & kFollows) != 0;
    out->workers = LoadLittle<uint16_t>(payload + 2);
    out->generation = LoadLittle<uint32_t>(payload + 4);
    if (size > 16) {
      out->workers |= uint64_t{LoadLittle<uint16_t>(payload + 8)} << 16 |
                      uint64_t{LoadLittle<uint32_t>(payload + 10)} << 32;
    }
    const bool listed = (out->workers & ~AllOf(size)) == 0;
    if (listed && MakesSense(*out, sender)) return Status();
  }
  return Corruption("a view frame that makes no sense");
}

}  // namespace ringlet
