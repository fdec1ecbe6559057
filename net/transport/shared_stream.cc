// Each side first announces by the socket that its output moves to the
// segment, so no byte overtakes another. A side that finds its lane empty, or
// full, sets a flag before it sleeps, and looks once more: the other side then
// sends a wake-up. An owner may close the stream in any call, hence the checks
// of below_.

#include "shared_stream.h"

#include <algorithm>
#include <utility>

#include "../wire/frame.h"

namespace ringlet {
namespace {

// The limit of pieces read in one turn.
constexpr int kMaxPiecesAtOnce = 16;

}  // namespace

SharedStream::SharedStream(StreamPtr below,
                           std::unique_ptr<SharedSegment> segment)
    : LayeredStream(std::move(below)) {
  if (segment != nullptr) Attach(std::move(segment), 0);
}

StreamPtr SharedStream::Offer(StreamPtr below) {
  std::unique_ptr<SharedSegment> segment = SharedSegment::Create();
  if (segment == nullptr) return below;
  below->descriptors()->SendDescriptor(segment->descriptor());
  return StreamPtr(new SharedStream(std::move(below), std::move(segment)));
}

StreamPtr SharedStream::Expect(StreamPtr below) {
  return StreamPtr(new SharedStream(std::move(below), nullptr));
}

void SharedStream::Attach(std::unique_ptr<SharedSegment> segment, int out) {
  segment_ = std::move(segment);
  out_ = segment_->Lane(out);
  in_ = segment_->Lane(1 - out);
}

bool SharedStream::MapSharedMemory() {
  const int descriptor =
      segment_ == nullptr ? below_->descriptors()->TakeDescriptor() : -1;
  if (descriptor >= 0) {
    std::unique_ptr<SharedSegment> segment = SharedSegment::Map(descriptor);
    if (segment != nullptr) Attach(std::move(segment), 1);
  }
  return segment_ != nullptr;
}

// Writing.

int64_t SharedStream::Write(const Piece* pieces, int count) {
  if (!output_shared_) {
    const int64_t accepted = below_->Write(pieces, count);
    if (segment_ != nullptr) segment_->CloseDescriptor();  // it was sent
    return accepted;
  }
  int64_t accepted = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t n = out_.Write(pieces[i].data, pieces[i].bytes);
    if (n < 0) broken_ = true;  // Poll reports it
    if (n < 0) return -1;
    accepted += n;
    if (n < static_cast<int64_t>(pieces[i].bytes)) break;
  }
  if (accepted == 0) blocked_ = out_.PrepareToWaitForRoom(needs_wakeup_);
  if (out_.ClearReaderWait()) Wake();
  return accepted;
}

// If the socket takes no byte now, the wake-up is sent when it is writable. It
// follows all bytes that go by the socket.
void SharedStream::Wake() {
  const uint8_t byte = 0;
  const Piece piece{&byte, 1};
  wake_again_ =
      !output_shared_ || below_->blocked() || below_->Write(&piece, 1) == 0;
}

void SharedStream::ShareOutput() {
  output_shared_ = true;
  if (wake_again_) Wake();
}

// Reading.

ByteStream::Space SharedStream::NextSpace() {
  if (!input_shared_) return owner_->NextSpace();
  return {woken_by_, sizeof(woken_by_)};
}

// Reads one piece. False if there is none, or the owner does not read.
bool SharedStream::ReadPiece(int64_t now) {
  if (!reading_) return false;
  const uint8_t* data = nullptr;
  int64_t bytes = broken_ ? -1 : in_.Peek(&data);
  // Bytes that arrived in between are read now: their writer sends no wake-up.
  if (bytes == 0 && !in_.PrepareToWaitForBytes(needs_wakeup_))
    bytes = in_.Peek(&data);
  if (bytes < 0) {
    below_->StopReading();
    reading_ = false;
    owner_->OnEnded(LossCause::kProtocol,
                    Corruption("the counts in the shared memory are invalid"),
                    now);
    return false;
  }
  if (bytes == 0) return false;
  const size_t n = std::min<size_t>(static_cast<size_t>(bytes), kSegmentBytes);
  owner_->OnBytes(data, n, now);
  if (below_ == nullptr) return false;
  in_.Consume(n);
  if (in_.ClearWriterWait()) Wake();
  return true;
}

// Returns true if there were bytes.
bool SharedStream::PollSegment(int64_t now, int polls_left) {
  ++depth_;
  bool has_bytes = true;
  const int max_polls = polls_left;
  while (has_bytes && polls_left-- > 0 && below_ != nullptr) {
    if (blocked_ && !out_.PrepareToWaitForRoom(needs_wakeup_)) {
      blocked_ = false;
      owner_->OnWritable(now);
    }
    unfinished_ = polls_left == 0;  // set before the owner may read it
    has_bytes = below_ != nullptr && input_shared_ && ReadPiece(now);
  }
  unfinished_ = has_bytes;
  Leave();
  return max_polls - polls_left > 1;
}

bool SharedStream::Poll(int64_t now, bool wake) {
  if (!input_shared_ || depth_ > 0) return false;
  needs_wakeup_ = wake;
  return PollSegment(now, kMaxPiecesAtOnce);
}

void SharedStream::OnOpened(int64_t now) { owner_->OnOpened(now); }

void SharedStream::OnRead(size_t bytes, int64_t now) {
  ++depth_;
  const bool before = input_shared_;
  if (!before) owner_->OnRead(bytes, now);
  if (below_ != nullptr && (input_shared_ || output_shared_)) {
    PollSegment(now, kMaxPiecesAtOnce);
  }
  Leave();
}

void SharedStream::OnWritable(int64_t now) {
  ++depth_;
  if (wake_again_) Wake();
  if (!output_shared_) owner_->OnWritable(now);
  Leave();
}

// All bytes that the other side wrote before its end are in the lane now: at
// most a full lane, in two pieces of each segment's length.
void SharedStream::OnEnded(LossCause cause, const Status& why, int64_t now) {
  ++depth_;
  if (input_shared_) PollSegment(now, 2 * SharedLane::kBytes / kSegmentBytes);
  if (below_ != nullptr && reading_) {
    reading_ = false;
    owner_->OnEnded(cause, why, now);
  }
  Leave();
}

}  // namespace ringlet
