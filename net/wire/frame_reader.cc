#include "frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/check.h"
#include "../../core/base/crc32c.h"

namespace ringlet {

// Nothing waits in the buffer and the payload goes somewhere as it is.
bool FrameReader::direct() const {
  return in_payload_ && begin_ == end_ && landing_.mode == Landing::kLand &&
         landing_.dtype == WireDtype::kFloat32;
}

// A payload is taken in multiples of this: bytes, or numbers.
size_t FrameReader::number_bytes() const {
  const bool bytes = landing_.mode == Landing::kKeep ||
                     landing_.mode == Landing::kSkip ||
                     (landing_.mode == Landing::kLand &&
                      landing_.dtype == WireDtype::kFloat32);
  return bytes ? 1 : WireBytes(landing_.dtype);
}

void FrameReader::Grow(size_t capacity) {
  std::unique_ptr<uint8_t[], FreeAligned> bigger(new (kAlignment)
                                                     uint8_t[capacity]);
  if (end_ > 0) std::memcpy(bigger.get(), buffer_.get(), end_);
  buffer_ = std::move(bigger);
  capacity_ = capacity;
}

FrameReader::Space FrameReader::NextSpace() {
  if (direct()) {
    return {landing_.data + received_, header_.payload_bytes - received_};
  }
  if (begin_ > 0) {  // less than a header, or less than a float
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const size_t limit = in_payload_ ? kBufferBytes : kShortRead;
  if (filled_ && capacity_ < limit) Grow(std::min(limit, 2 * capacity_));
  filled_ = false;
  return {buffer_.get() + end_, std::min(limit, capacity_) - end_};
}

Status FrameReader::Read(size_t bytes) {
  if (direct()) {
    crc_ = Crc32c(landing_.data + received_, bytes, crc_);
    received_ += static_cast<uint32_t>(bytes);
    return received_ == header_.payload_bytes ? EndFrame() : Status();
  }
  end_ += bytes;
  filled_ = end_ == capacity_;
  return Parse();
}

Status FrameReader::Read(const uint8_t* data, size_t bytes) {
  while (bytes > 0) {
    size_t take = 0;
    if (in_payload_ && begin_ == end_) {
      take = std::min<size_t>(bytes, header_.payload_bytes - received_);
      take -= take % number_bytes();
      RINGLET_RETURN_IF_ERROR(Take(data, take));
      if (received_ == header_.payload_bytes) {
        RINGLET_RETURN_IF_ERROR(EndFrame());
      }
    }
    if (take == 0) {  // a header, or a number of which a part came before
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      const size_t whole = in_payload_ ? number_bytes() : kFrameHeaderBytes;
      take = std::min(bytes, whole - end_);
      std::memcpy(buffer_.get() + end_, data, take);
      end_ += take;
      RINGLET_RETURN_IF_ERROR(Parse());
    }
    data += take;
    bytes -= take;
  }
  return Status();
}

Status FrameReader::Parse() {
  for (;;) {
    const size_t have = end_ - begin_;
    if (!in_payload_) {
      if (have < kFrameHeaderBytes) return Status();
      RINGLET_RETURN_IF_ERROR(DecodeHeader(buffer_.get() + begin_, &header_));
      begin_ += kFrameHeaderBytes;
      landing_ = Landing();
      RINGLET_RETURN_IF_ERROR(sink_->OnHeader(header_, &landing_));
      RINGLET_CHECK(landing_.mode != Landing::kKeep ||
                    header_.payload_bytes <= kEagerBytes);
      RINGLET_CHECK(header_.payload_bytes % number_bytes() == 0);
      if (landing_.mode == Landing::kKeep &&
          kept_.size() < header_.payload_bytes) {
        kept_.resize(header_.payload_bytes);
      }
      in_payload_ = true;
      received_ = 0;
      crc_ = 0;
      if (header_.payload_bytes == 0) RINGLET_RETURN_IF_ERROR(EndFrame());
      continue;
    }
    size_t take = std::min<size_t>(have, header_.payload_bytes - received_);
    take -= take % number_bytes();
    if (take == 0) return Status();
    RINGLET_RETURN_IF_ERROR(Take(buffer_.get() + begin_, take));
    begin_ += take;
    if (received_ == header_.payload_bytes) {
      RINGLET_RETURN_IF_ERROR(EndFrame());
    }
  }
}

Status FrameReader::Take(const uint8_t* data, size_t bytes) {
  if (checked_) crc_ = Crc32c(data, bytes, crc_);
  const size_t count = bytes / WireBytes(landing_.dtype);
  uint8_t* to = landing_.data;  // null where nothing lands
  if (to != nullptr) {
    to += received_ / WireBytes(landing_.dtype) * sizeof(float);
  }
  switch (landing_.mode) {
    case Landing::kKeep:
      std::memcpy(kept_.data() + received_, data, bytes);
      break;
    case Landing::kLand:
      if (number_bytes() == 1) {
        std::memcpy(landing_.data + received_, data, bytes);
      } else {
        UnpackFloats(landing_.dtype, data, count, to);
      }
      break;
    case Landing::kAdd:
      if (landing_.integers) {
        AddIntegers(data, count, to);
        break;
      }
      AddPacked(landing_.dtype, data, count, to);
      break;
    case Landing::kSkip:
      break;
  }
  received_ += static_cast<uint32_t>(bytes);
  return Status();
}

Status FrameReader::EndFrame() {
  in_payload_ = false;
  if (crc_ != header_.payload_crc) {
    return Corruption("the checksum of a %s frame's payload does not fit",
                      FrameTypeName(header_.type));
  }
  return sink_->OnFrame(
      header_, landing_.mode == Landing::kKeep ? kept_.data() : nullptr);
}

}  // namespace ringlet
