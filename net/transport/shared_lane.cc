// No wake-up can be missed. A side that begins to wait sets its flag, then
// looks for bytes again. A side that has moved bytes publishes them, then reads
// the flag of the other. Both sides see these accesses in one order (seq_cst).

#include "shared_lane.h"

#include <algorithm>
#include <cstring>

#include "../../core/base/byte_order.h"

namespace ringlet {
namespace {

// Published before the whole piece is copied, so that both sides copy at the
// same time.
constexpr size_t kShownBytes = 64 << 10;

uint32_t Little(uint32_t value) {
  SwapToLittle(&value, sizeof(value), 1);
  return value;
}

uint32_t LoadWord(const std::atomic<uint32_t>& at) { return Little(at.load()); }

void StoreWord(std::atomic<uint32_t>* at, uint32_t value) {
  at->store(Little(value));
}

}  // namespace

bool SharedLane::ClearReaderWait() {
  return control_->reader_waits.load() != 0 &&
         control_->reader_waits.exchange(0) != 0;
}

int64_t SharedLane::Write(const uint8_t* from, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    if (count_ - seen_ == kBytes || done == 0) seen_ = LoadWord(control_->read);
    const uint32_t used = count_ - seen_;
    if (used > kBytes) return -1;
    const uint32_t at = count_ % kBytes;
    const size_t n = std::min(std::min<size_t>(bytes - done, kBytes - used),
                              std::min<size_t>(kBytes - at, kShownBytes));
    if (n == 0) break;
    std::memcpy(data_ + at, from + done, n);
    count_ += static_cast<uint32_t>(n);
    done += n;
    StoreWord(&control_->written, count_);
  }
  return static_cast<int64_t>(done);
}

bool SharedLane::PrepareToWaitForRoom(bool wake) {
  StoreWord(&control_->writer_waits, wake ? 1 : 0);
  seen_ = LoadWord(control_->read);
  const bool full = count_ - seen_ == kBytes;
  if (wake && !full) StoreWord(&control_->writer_waits, 0);
  return full;
}

int64_t SharedLane::Peek(const uint8_t** data) {
  if (seen_ == count_) seen_ = LoadWord(control_->written);
  const uint32_t used = seen_ - count_;
  if (used > kBytes) return -1;
  const uint32_t at = count_ % kBytes;
  *data = data_ + at;
  return std::min(used, kBytes - at);
}

void SharedLane::Consume(size_t bytes) {
  count_ += static_cast<uint32_t>(bytes);
  StoreWord(&control_->read, count_);
}

bool SharedLane::PrepareToWaitForBytes(bool wake) {
  StoreWord(&control_->reader_waits, wake ? 1 : 0);
  seen_ = LoadWord(control_->written);
  const bool empty = seen_ == count_;
  if (wake && !empty) StoreWord(&control_->reader_waits, 0);
  return empty;
}

bool SharedLane::ClearWriterWait() {
  return control_->writer_waits.load() != 0 &&
         LoadWord(control_->written) - count_ <= kBytes / 2 &&
         control_->writer_waits.exchange(0) != 0;
}

}  // namespace ringlet
