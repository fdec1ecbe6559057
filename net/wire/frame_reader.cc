// A payload is taken in whole units, so a number that arrives in two parts is
// added once. NextSpace returns the final memory for a kCopy without
// conversion, and Read must then get exactly that space.

#include "frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/check.h"
#include "../../core/base/crc32c.h"
#include "packed_floats.h"
#include "wire_dtype.h"

namespace ringlet {

namespace {

// The unit in which a payload with this receive_target is taken: a byte, or a
// number.
size_t UnitOf(const ReceiveTarget& receive_target) {
  const bool numbers = receive_target.mode == ReceiveTarget::kReduce ||
                       (receive_target.mode == ReceiveTarget::kCopy &&
                        receive_target.dtype != WireDtype::kFloat32);
  return numbers ? PackedBytesPerFloat(receive_target.dtype) : 1;
}

}  // namespace

void FrameReader::Grow(size_t capacity) {
  buffer_.reset(new (kAlignment) uint8_t[capacity]);
  capacity_ = capacity;
}

bool FrameReader::reads_into_target() const {
  return in_payload_ && receive_target_.mode == ReceiveTarget::kCopy &&
         receive_target_.dtype == WireDtype::kFloat32;
}

FrameReader::Space FrameReader::NextSpace() {
  if (reads_into_target()) {
    space_ = {receive_target_.data + received_,
              header_.payload_bytes - received_};
    return space_;
  }
  const size_t limit = in_payload_ ? kBufferBytes : kShortRead;
  if (filled_ && capacity_ < limit) Grow(std::min(limit, 2 * capacity_));
  filled_ = false;
  space_ = {buffer_.get(), std::min(limit, capacity_)};
  return space_;
}

Status FrameReader::Read(size_t bytes) {
  RINGLET_CHECK(bytes <= space_.bytes);
  const uint8_t* const data = std::exchange(space_, {}).data;
  filled_ = data == buffer_.get() && bytes == capacity_;
  return Read(data, bytes);
}

Status FrameReader::Read(const uint8_t* data, size_t bytes) {
  drops_rest_ = false;
  while (bytes > 0 && !drops_rest_) {
    size_t used = 0;
    RINGLET_RETURN_IF_ERROR(in_payload_ ? ReadPayload(data, bytes, &used)
                                        : ReadHeader(data, bytes, &used));
    data += used;
    bytes -= used;
  }
  return Status();
}

bool FrameReader::Fits(uint32_t payload_bytes) const {
  return payload_bytes % unit_ == 0 &&
         (receive_target_.mode != ReceiveTarget::kBuffer ||
          payload_bytes <= kEagerBytes);
}

// Appends to the incomplete unit until it is complete. Returns the number of
// bytes taken.
size_t FrameReader::Fill(size_t unit, const uint8_t* data, size_t bytes) {
  RINGLET_CHECK(part_bytes_ < unit && unit <= sizeof(part_));
  const size_t n = std::min(bytes, unit - part_bytes_);
  std::memcpy(part_ + part_bytes_, data, n);
  part_bytes_ += n;
  return n;
}

Status FrameReader::ReadHeader(const uint8_t* data, size_t bytes,
                               size_t* used) {
  *used = Fill(kFrameHeaderBytes, data, bytes);
  if (part_bytes_ < kFrameHeaderBytes) return Status();
  part_bytes_ = 0;
  RINGLET_RETURN_IF_ERROR(DecodeHeader(part_, &header_));
  ReceiveTarget receive_target;
  RINGLET_RETURN_IF_ERROR(sink_->OnHeader(header_, &receive_target));
  receive_target_ = receive_target;
  unit_ = UnitOf(receive_target_);
  if (!Fits(header_.payload_bytes)) {
    return Corruption("a %s frame of %u bytes does not fit its destination",
                      FrameTypeName(header_.type), header_.payload_bytes);
  }
  if (receive_target_.mode == ReceiveTarget::kBuffer &&
      kept_.size() < header_.payload_bytes) {
    kept_.resize(header_.payload_bytes);
  }
  in_payload_ = true;
  received_ = 0;
  crc_ = 0;
  return header_.payload_bytes == 0 ? EndFrame() : Status();
}

Status FrameReader::ReadPayload(const uint8_t* data, size_t bytes,
                                size_t* used) {
  size_t whole_units =
      std::min<size_t>(bytes, header_.payload_bytes - received_);
  whole_units -= whole_units % unit_;
  if (part_bytes_ == 0 && whole_units > 0) {
    *used = whole_units;
    Take(data, whole_units);
  } else {  // a number that arrives in two parts or more
    *used = Fill(unit_, data, bytes);
    if (part_bytes_ < unit_) return Status();
    part_bytes_ = 0;
    Take(part_, unit_);
  }
  return received_ == header_.payload_bytes ? EndFrame() : Status();
}

void FrameReader::Take(const uint8_t* data, size_t bytes) {
  if (checked_) crc_ = Crc32c(data, bytes, crc_);
  const size_t count = bytes / PackedBytesPerFloat(receive_target_.dtype);
  uint8_t* to = receive_target_.data;  // null if the bytes are dropped
  if (to != nullptr) {
    to +=
        received_ / PackedBytesPerFloat(receive_target_.dtype) * sizeof(float);
  }
  switch (receive_target_.mode) {
    case ReceiveTarget::kBuffer:
      std::memcpy(kept_.data() + received_, data, bytes);
      break;
    case ReceiveTarget::kCopy:
      if (unit_ > 1) {
        UnpackFloats(receive_target_.dtype, data, count, to);
      } else if (data != receive_target_.data + received_) {
        std::memcpy(receive_target_.data + received_, data, bytes);
      }
      break;
    case ReceiveTarget::kReduce:
      if (receive_target_.integers) {
        AddIntegers(data, count, to);
        break;
      }
      AddPacked(receive_target_.dtype, data, count, to);
      break;
    case ReceiveTarget::kDiscard:
      break;
  }
  received_ += static_cast<uint32_t>(bytes);
}

Status FrameReader::EndFrame() {
  in_payload_ = false;
  if (crc_ != header_.payload_crc) {
    return Corruption("the checksum of a %s frame's payload is wrong",
                      FrameTypeName(header_.type));
  }
  return sink_->OnFrame(header_, receive_target_.mode == ReceiveTarget::kBuffer
                                     ? kept_.data()
                                     : nullptr);
}

}  // namespace ringlet
