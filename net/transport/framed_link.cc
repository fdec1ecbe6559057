// The queue keeps its entries and their memory: it allocates only until it has
// reached its greatest length. Payloads of control frames are copied into their
// entry. Payloads of operations stay with the caller. `written_` counts from
// the front frame's first byte. A frame cannot be dropped or replaced after the
// stream has taken a part of it.

#include "framed_link.h"

#include <algorithm>

#include "../../core/base/check.h"
#include "../../core/base/crc32c.h"

namespace ringlet {

FramedLink::FramedLink(StreamPtr stream, LinkPhase phase, Owner* owner)
    : owner_(owner),
      stream_(std::move(stream)),
      memory_(stream_->shared_memory()),
      phase_(phase),
      reader_(this) {
  if (stream_->authentic()) reader_.SkipChecksums();
  ByteStream::Owner* const self = this;
  stream_->Start(self);
}

void FramedLink::SetPhase(LinkPhase next) {
  RINGLET_CHECK(PhaseMayFollow(phase_, next));
  phase_ = next;
}

void FramedLink::Send(FrameHeader header, const uint8_t* payload) {
  RINGLET_CHECK(header.payload_bytes <= kEagerBytes);
  Enqueue(&header, payload, /*borrowed=*/false);
}

void FramedLink::SendBorrowed(FrameHeader header, const uint8_t* payload) {
  Enqueue(&header, payload, /*borrowed=*/true);
}

// Returns the queue entry for the next frame. A heartbeat replaces a queued one
// that is not partly sent. Null: the queue is full.
FramedLink::Out* FramedLink::NextOut(FrameType type) {
  const bool heartbeat = type == FrameType::kHeartbeat;
  for (int i = written_ > 0 ? 1 : 0; heartbeat && i < count_; ++i) {
    if (at(i).heartbeat) return &at(i);
  }
  if (count_ == kMaxFrames) return nullptr;
  if (count_ == static_cast<int>(queue_.size())) GrowQueue();
  Out* out = &at(count_++);
  out->heartbeat = heartbeat;
  return out;
}

// A payload's memory moves with its vector, so pointers to it stay valid.
void FramedLink::GrowQueue() {
  std::vector<Out> more(
      std::min<size_t>(kMaxFrames, queue_.empty() ? 4 : 2 * count_));
  for (int i = 0; i < count_; ++i) std::swap(more[i], at(i));
  queue_.swap(more);
  first_ = 0;
}

void FramedLink::Enqueue(FrameHeader* header, const uint8_t* payload,
                         bool borrowed) {
  if (closed() || broken_) return;
  Out* out = NextOut(header->type);
  if (out == nullptr) {  // the peer does not read: the owner closes the link
    overflowed_ = true;
    return StopWriting();
  }
  out->payload_bytes = header->payload_bytes;
  out->sequence = header->sequence;
  out->data = IsOperation(header->type);
  out->borrowed = borrowed;
  out->shares = header->type == FrameType::kShared;
  out->payload = payload;
  if (borrowed) {
    ++borrowed_;
    turn_bytes_ += header->payload_bytes;
  } else {
    out->copy.assign(payload, payload + header->payload_bytes);
    out->payload = out->copy.data();
  }
  if (!shared_ && !stream_->authentic()) {
    header->payload_crc = Crc32c(payload, header->payload_bytes);
  }
  shared_ = shared_ || out->shares;
  EncodeHeader(*header, out->header);
  Pump();
}

// Gathers the next pieces of the queue to write.
int FramedLink::Gather(ByteStream::Piece* pieces) {
  int n = 0;
  size_t skip = written_;
  for (int i = 0; i < count_ && n + 2 <= ByteStream::kMaxPieces; ++i) {
    const Out& out = at(i);
    if (skip < kFrameHeaderBytes) {
      pieces[n++] = {out.header + skip, kFrameHeaderBytes - skip};
      skip = kFrameHeaderBytes;
    }
    const size_t done = skip - kFrameHeaderBytes;
    if (done < out.payload_bytes) {
      pieces[n++] = {out.payload + done, out.payload_bytes - done};
    }
    skip = 0;
    if (out.shares) break;
  }
  return n;
}

void FramedLink::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (count_ > 0 && !broken_ && !closed() && !stream_->blocked()) {
    ByteStream::Piece pieces[ByteStream::kMaxPieces];
    const int64_t sent = stream_->Write(pieces, Gather(pieces));
    if (sent < 0) {
      StopWriting();
    } else {
      Advance(static_cast<size_t>(sent));
    }
  }
  pumping_ = false;
}

// The stream has taken the next `bytes` of the queue.
void FramedLink::Advance(size_t bytes) {
  written_ += bytes;
  taken_bytes_ += bytes;
  while (count_ > 0 && written_ >= kFrameHeaderBytes + at(0).payload_bytes) {
    written_ -= kFrameHeaderBytes + at(0).payload_bytes;
    const bool borrowed = at(0).borrowed;
    if (at(0).shares && memory_ != nullptr) memory_->ShareOutput();
    const uint64_t sequence = at(0).sequence;
    first_ = (first_ + 1) % static_cast<int>(queue_.size());
    --count_;
    if (!borrowed) continue;
    --borrowed_;
    owner_->OnSent(this, sequence);
  }
}

// The last bytes of the other side can still be read. Then reading fails too.
void FramedLink::StopWriting() {
  broken_ = true;
  count_ = 0;
  borrowed_ = 0;
}

void FramedLink::DropBorrowed() {
  reader_.DropReceiveTarget();
  int kept = 0;
  bool dropped = false;
  for (int i = 0; i < count_; ++i) {
    Out& out = at(i);
    // The other side refuses the later frames of an operation with a missing
    // one.
    if (dropped && out.data) continue;
    if (out.borrowed) {
      dropped = i > 0 || written_ == 0;
      if (dropped) continue;
      // A part of it is sent, so the rest must follow, from a copy.
      out.copy.assign(out.payload, out.payload + out.payload_bytes);
      out.payload = out.copy.data();
      out.borrowed = false;
    }
    if (kept != i) std::swap(at(kept), out);
    // A vector's memory moves with it, so `payload` stays valid.
    ++kept;
  }
  count_ = kept;
  borrowed_ = 0;
}

ByteStream::Space FramedLink::NextSpace() {
  const FrameReader::Space space = reader_.NextSpace();
  return {space.data, space.bytes};
}

void FramedLink::OnRead(size_t bytes, int64_t now) {
  owner_->OnHeard(this, now);
  AfterRead(reader_.Read(bytes), now);
}

void FramedLink::OnBytes(const uint8_t* data, size_t bytes, int64_t now) {
  owner_->OnHeard(this, now);
  AfterRead(reader_.Read(data, bytes), now);
}

void FramedLink::AfterRead(const Status& status, int64_t now) {
  if (!status.ok() && !closed()) {
    stream_->StopReading();
    return owner_->OnDown(this, LossCause::kProtocol, status, now);
  }
  owner_->OnTurn(this, now);  // also if the owner has closed this link
}

void FramedLink::OnWritable(int64_t now) {
  Pump();
  owner_->OnTurn(this, now);
}

void FramedLink::OnEnded(LossCause cause, const Status& why, int64_t now) {
  // A peer that broke the protocol still gets the reason.
  if (cause != LossCause::kProtocol || !up()) StopWriting();
  owner_->OnDown(this, cause, why, now);
}

Status FramedLink::OnHeader(const FrameHeader& header,
                            ReceiveTarget* receive_target) {
  if (closed()) return Error(Code::kCancelled, "closing");
  if (!FrameIsLegal(phase_, header.type)) {
    return Corruption("a %s frame out of turn", FrameTypeName(header.type));
  }
  return owner_->OnHeader(this, header, receive_target);
}

Status FramedLink::InputIsShared() {
  if (input_shared_ || !shared_) {
    return Corruption("a shared frame without shared memory");
  }
  input_shared_ = true;
  if (memory_ != nullptr) memory_->ShareInput();
  reader_.SkipChecksums();
  return Status();
}

Status FramedLink::OnFrame(const FrameHeader& header, const uint8_t* payload) {
  if (closed()) return Error(Code::kCancelled, "closing");
  if (header.type == FrameType::kShared) return InputIsShared();
  return owner_->OnFrame(this, header, payload);
}

void FramedLink::Close() {
  if (closed()) return;
  SetPhase(LinkPhase::kClosed);
  count_ = borrowed_ = 0;
  memory_ = nullptr;
  stream_.reset();
}

}  // namespace ringlet
