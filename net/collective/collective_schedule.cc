// A frame passes OnHeader, which chooses its target, and OnFrame once its
// payload is there. OnFrame relies on the decisions of OnHeader, since Activate
// may begin the operation between both. The frames come from other machines:
// place, length and number of each are compared with the plan before it is
// copied or added.

#include "collective_schedule.h"

#include <algorithm>
#include <cstring>

#include "../../core/base/check.h"
#include "../wire/packed_floats.h"

namespace ringlet {
namespace {

bool Overlap(const Slice& a, const Slice& b) {
  return a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

}  // namespace

CollectiveSchedule::CollectiveSchedule(int rank, int size, Algorithm algorithm,
                                       WireDtype dtype, Wire* wire)
    : options_{rank, size, algorithm, dtype}, wire_(wire) {
  Reset(rank, size);
}

void CollectiveSchedule::Reset(int rank, int size) {
  RINGLET_CHECK(started_ == 0);
  rank_ = options_.rank = rank;
  size_ = options_.size = size;
  unexpected_.assign(static_cast<size_t>(size), {});
  for (Operation& op : window_) {
    op.chunks_to.resize(size);
    op.chunks_from.resize(size);
  }
}

void CollectiveSchedule::Start(const Call& call) {
  ++started_;
  pending_.push_back(call);
}

void CollectiveSchedule::Clear() {
  pending_.clear();
  pending_begin_ = active_ = 0;
  completed_ = started_;
  packed_unsent_ = 0;
}

void CollectiveSchedule::DropUnexpected(int peer) {
  for (Unexpected& unexpected : unexpected_[peer])
    unexpected.ready = unexpected.frame = false;
}

CollectiveSchedule::Operation* CollectiveSchedule::Find(uint64_t sequence) {
  const bool active = sequence > completed_ && sequence <= completed_ + active_;
  return active ? &window_[sequence % kWindow] : nullptr;
}

void CollectiveSchedule::SkipIdleSteps(Operation* op) {
  const std::vector<Step>& steps = op->plan.steps;
  while (op->send_step < steps.size() && steps[op->send_step].send_to < 0) {
    ++op->send_step;
  }
  while (op->receive_step < steps.size() &&
         steps[op->receive_step].receive_from < 0) {
    ++op->receive_step;
  }
}

// Moves pending calls into the window, and sends kReady for them.
Status CollectiveSchedule::Activate() {
  while (active_ < kWindow && pending_begin_ < pending_.size()) {
    const uint64_t sequence = completed_ + active_ + 1;
    Operation* op = &window_[sequence % kWindow];
    op->call = pending_[pending_begin_++];
    op->sequence = sequence;
    if (pending_begin_ == pending_.size()) {  // keeps its memory
      pending_.clear();
      pending_begin_ = 0;
    }
    ++active_;
    MakePlan(options_, op->call, &op->plan);
    op->send_step = op->receive_step = 0;
    op->send_segment = op->receive_segment = 0;
    op->unsent = 0;
    op->sent_ready = !op->plan.needs_ready;
    std::fill(op->chunks_to.begin(), op->chunks_to.end(), 0u);
    std::fill(op->chunks_from.begin(), op->chunks_from.end(), 0u);
    SkipIdleSteps(op);
    RINGLET_RETURN_IF_ERROR(CompareUnexpected(*op));
    SendReady(op);
  }
  return Status();
}

// Compares the call with the frames that arrived before it.
Status CollectiveSchedule::CompareUnexpected(const Operation& op) {
  for (int peer = 0; peer < size_; ++peer) {
    if (unexpected_[peer].empty()) continue;
    const Unexpected& unexpected = FindOrAddUnexpected(peer, op.sequence);
    if (unexpected.ready) {
      RINGLET_RETURN_IF_ERROR(Compare(op, peer, unexpected.ready_header));
    }
    if (unexpected.frame) {
      RINGLET_RETURN_IF_ERROR(Compare(op, peer, unexpected.frame_header));
    }
  }
  return Status();
}

// Sends kReady to the ranks that send data here. In a broadcast these are all
// ranks, or the parent in its tree; in rings the left neighbour.
void CollectiveSchedule::SendReady(Operation* op) {
  const bool by_tree = op->plan.ready_by_tree;
  if (op->sent_ready || (by_tree && FirstUnreadyChild(*op) >= 0)) return;
  op->sent_ready = true;
  FrameHeader ready;
  ready.type = FrameType::kReady;
  ready.root = static_cast<uint16_t>(op->call.root);
  ready.sequence = op->sequence;
  ready.total = op->call.bytes;
  ready.chunk = static_cast<uint32_t>(op->call.type);
  const bool all = op->call.type == FrameType::kBroadcast && !by_tree;
  const int to =
      by_tree ? op->plan.steps[0].receive_from : (rank_ + size_ - 1) % size_;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && (all || peer == to)) {
      wire_->Send(peer, ready, nullptr, /*borrowed=*/false);
    }
  }
}

// True if the next frame that this operation takes comes from `peer`.
bool CollectiveSchedule::IsExpected(const Operation& op, int peer) const {
  if (op.receive_step >= op.plan.steps.size()) return false;
  const Step& step = op.plan.steps[op.receive_step];
  if (step.receive_from != peer) return false;
  const bool send_first =
      step.send_to >= 0 && op.send_step <= op.receive_step &&
      (step.send.count == 0 || Overlap(step.send, step.receive));
  return !send_first;
}

Status CollectiveSchedule::CheckExpected(const Operation& op, int peer,
                                         const FrameHeader& header) const {
  const Step& step = op.plan.steps[op.receive_step];
  const Slice part = op.plan.SegmentOf(step.receive, op.receive_segment);
  const size_t bytes = static_cast<size_t>(part.count) * op.plan.wire_bytes();
  if (header.payload_bytes != bytes || header.chunk != op.chunks_from[peer]) {
    return Corruption(
        "frame %lu of operation %llu has %lu bytes, expected was frame %lu of "
        "%zu bytes",
        static_cast<unsigned long>(header.chunk),
        static_cast<unsigned long long>(header.sequence),
        static_cast<unsigned long>(header.payload_bytes),
        static_cast<unsigned long>(op.chunks_from[peer]), bytes);
  }
  return Status();
}

Status CollectiveSchedule::OnHeader(int peer, const FrameHeader& header,
                                    ReceiveTarget* receive_target) {
  const bool ready = header.type == FrameType::kReady;
  receive_target->mode = ReceiveTarget::kDiscard;
  if (ready && header.sequence <= completed_) return Status();
  if (header.sequence <= completed_ || header.sequence > completed_ + kSlots ||
      (ready && !IsOperation(header.chunk))) {
    return Corruption("a %s frame of operation %llu while %llu is under way",
                      FrameTypeName(header.type),
                      static_cast<unsigned long long>(header.sequence),
                      static_cast<unsigned long long>(completed_ + 1));
  }
  Operation* op = Find(header.sequence);
  if (op != nullptr) RINGLET_RETURN_IF_ERROR(Compare(*op, peer, header));
  if (ready) return Status();
  const bool unexpected = !unexpected_[peer].empty() &&
                          FindOrAddUnexpected(peer, header.sequence).frame;
  if (op != nullptr && !unexpected && IsExpected(*op, peer)) {
    RINGLET_RETURN_IF_ERROR(CheckExpected(*op, peer, header));
    const Step& step = op->plan.steps[op->receive_step];
    const Slice part = op->plan.SegmentOf(step.receive, op->receive_segment);
    receive_target->mode =
        step.add ? ReceiveTarget::kReduce : ReceiveTarget::kCopy;
    receive_target->dtype = op->plan.dtype;
    receive_target->integers = op->plan.integers;
    receive_target->data = op->call.data + part.begin * op->plan.element_bytes;
    return Status();
  }
  if (unexpected || header.payload_bytes > kEagerBytes) {
    return Corruption("a frame of operation %llu, which is not under way",
                      static_cast<unsigned long long>(header.sequence));
  }
  receive_target->mode = ReceiveTarget::kBuffer;
  return Status();
}

Status CollectiveSchedule::OnFrame(int peer, const FrameHeader& header,
                                   const uint8_t* payload) {
  if (header.type == FrameType::kReady) {
    if (header.sequence <= completed_) return Status();
    Unexpected& unexpected = FindOrAddUnexpected(peer, header.sequence);
    if (unexpected.ready) {
      return Corruption("a second ready for operation %llu",
                        static_cast<unsigned long long>(header.sequence));
    }
    unexpected.ready = true;
    unexpected.ready_header = header;
    return Status();
  }
  if (payload != nullptr) {
    Unexpected& unexpected = FindOrAddUnexpected(peer, header.sequence);
    unexpected.frame = true;
    unexpected.frame_header = header;
    unexpected.payload.assign(payload, payload + header.payload_bytes);
    // The operation may have begun since the header arrived. The peer may have
    // seen that and have sent the next frame, which may be read now.
    Operation* op = Find(header.sequence);
    if (op == nullptr) return Status();
    RINGLET_RETURN_IF_ERROR(Compare(*op, peer, header));
    return IsExpected(*op, peer) ? ReceivePendingFrom(op, peer) : Status();
  }
  Operation* op = Find(header.sequence);
  RINGLET_CHECK(op != nullptr && IsExpected(*op, peer));
  moved_bytes_ += kFrameHeaderBytes + header.payload_bytes;
  AdvanceReceive(op, peer);
  return Status();
}

// Goes to the next segment: the awaited one has taken effect.
void CollectiveSchedule::AdvanceReceive(Operation* op, int peer) {
  ++op->chunks_from[peer];
  const Step& step = op->plan.steps[op->receive_step];
  if (++op->receive_segment < op->plan.Segments(step.receive)) return;
  op->receive_segment = 0;
  ++op->receive_step;
  SkipIdleSteps(op);
}

// Receives a peer's pending frame when it is the frame's turn.
Status CollectiveSchedule::ReceivePendingFrom(Operation* op, int peer) {
  Unexpected& unexpected = FindOrAddUnexpected(peer, op->sequence);
  RINGLET_RETURN_IF_ERROR(CheckExpected(*op, peer, unexpected.frame_header));
  const Step& step = op->plan.steps[op->receive_step];
  const Slice part = op->plan.SegmentOf(step.receive, op->receive_segment);
  uint8_t* to = op->call.data + part.begin * op->plan.element_bytes;
  const size_t count = static_cast<size_t>(part.count);
  if (step.add && op->plan.integers) {
    AddIntegers(unexpected.payload.data(), count, to);
  } else if (step.add) {
    AddPacked(op->plan.dtype, unexpected.payload.data(), count, to);
  } else if (op->plan.packed()) {
    UnpackFloats(op->plan.dtype, unexpected.payload.data(), count, to);
  } else if (count > 0) {
    std::memcpy(to, unexpected.payload.data(), unexpected.payload.size());
  }
  unexpected.frame = false;
  moved_bytes_ += kFrameHeaderBytes + unexpected.payload.size();
  AdvanceReceive(op, peer);
  return Status();
}

Status CollectiveSchedule::ReceivePending(Operation* op, bool* moved) {
  while (op->receive_step < op->plan.steps.size()) {
    const int peer = op->plan.steps[op->receive_step].receive_from;
    if (unexpected_[peer].empty() ||
        !FindOrAddUnexpected(peer, op->sequence).frame ||
        !IsExpected(*op, peer)) {
      return Status();
    }
    faulty_peer_ = peer;
    RINGLET_RETURN_IF_ERROR(ReceivePendingFrom(op, peer));
    *moved = true;
  }
  return Status();
}

// True if the operation can send, apart from the room in the peer's queue.
bool CollectiveSchedule::HasToSend(const Operation& op) const {
  if (op.send_step >= op.plan.steps.size()) return false;
  const int depends_on = op.plan.depends_on[op.send_step];
  if (depends_on >= 0) {
    const auto needed = static_cast<size_t>(depends_on);
    if (needed > op.receive_step) return false;
    if (needed == op.receive_step && op.send_segment >= op.receive_segment) {
      return false;
    }
  }
  if (op.plan.needs_ready && FirstUnready(op) >= 0) return false;
  return !op.plan.packed() || packed_unsent_ < kPackedSegments;
}

// The rank with the kReady that the next send waits for, or -1. The root of a
// broadcast waits for all ranks, so that it does not complete before all have
// begun.
int CollectiveSchedule::FirstUnready(const Operation& op) const {
  if (op.plan.ready_by_tree) return FirstUnreadyChild(op);
  if (op.call.type != FrameType::kBroadcast || op.call.root != rank_) {
    const int to = op.plan.steps[op.send_step].send_to;
    return IsPeerReady(to, op.sequence) ? -1 : to;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !IsPeerReady(peer, op.sequence)) return peer;
  }
  return -1;
}

int CollectiveSchedule::FirstUnreadyChild(const Operation& op) const {
  for (const Step& step : op.plan.steps) {
    if (step.send_to >= 0 && !IsPeerReady(step.send_to, op.sequence)) {
      return step.send_to;
    }
  }
  return -1;
}

void CollectiveSchedule::SendOne(Operation* op) {
  const Step& step = op->plan.steps[op->send_step];
  const Slice part = op->plan.SegmentOf(step.send, op->send_segment);
  FrameHeader header;
  header.type = op->call.type;
  header.root = static_cast<uint16_t>(op->call.root);
  header.payload_bytes = static_cast<uint32_t>(static_cast<size_t>(part.count) *
                                               op->plan.wire_bytes());
  header.sequence = op->sequence;
  header.total = op->call.bytes;
  header.chunk = op->chunks_to[step.send_to]++;
  const bool borrowed = header.payload_bytes > kEagerBytes;
  if (borrowed) ++op->unsent;
  moved_bytes_ += kFrameHeaderBytes + header.payload_bytes;
  uint8_t* const floats =
      part.count > 0 ? op->call.data + part.begin * op->plan.element_bytes
                     : nullptr;
  const uint8_t* payload = floats;
  if (op->plan.packed()) {
    packed_.resize(kPackedSegments * kSegmentBytes);
    uint8_t* slot = &packed_[packed_begun_ % kPackedSegments * kSegmentBytes];
    PackFloats(op->plan.dtype, floats, static_cast<size_t>(part.count), slot);
    payload = slot;
    if (borrowed) {
      ++packed_begun_;
      ++packed_unsent_;
    }
  }
  const int to = step.send_to;
  if (++op->send_segment == op->plan.Segments(step.send)) {
    op->send_segment = 0;
    ++op->send_step;
    SkipIdleSteps(op);
  }
  wire_->Send(to, header, payload, borrowed);
}

void CollectiveSchedule::OnSent(uint64_t sequence) {
  Operation* op = Find(sequence);
  if (op == nullptr) return;
  --op->unsent;
  if (op->plan.packed()) --packed_unsent_;
}

bool CollectiveSchedule::IsDone(const Operation& op) const {
  return op.send_step == op.plan.steps.size() &&
         op.receive_step == op.plan.steps.size() && op.unsent == 0;
}

Status CollectiveSchedule::Progress() {
  bool moved = true;
  while (moved) {
    moved = active_ < kWindow && pending_begin_ < pending_.size();
    RINGLET_RETURN_IF_ERROR(Activate());
    for (int i = 1; i <= active_; ++i) {
      Operation* op = &window_[(completed_ + i) % kWindow];
      SendReady(op);
      RINGLET_RETURN_IF_ERROR(ReceivePending(op, &moved));
      while (HasToSend(*op)) {
        const int to = op->plan.steps[op->send_step].send_to;
        if (!wire_->HasRoom(to)) {
          wire_->RequestRoomEvent(to);
          break;
        }
        SendOne(op);
        moved = true;
      }
    }
    while (active_ > 0 && IsDone(*oldest())) {
      ++completed_;
      --active_;
      for (std::vector<Unexpected>& unexpected : unexpected_) {
        if (!unexpected.empty()) unexpected[completed_ % kSlots].ready = false;
      }
      moved = true;
    }
  }
  return Status();
}

int CollectiveSchedule::waiting_on() const {
  const Operation& op = *oldest();
  if (!op.sent_ready) return FirstUnreadyChild(op);
  if (op.receive_step < op.plan.steps.size()) {
    const Step& step = op.plan.steps[op.receive_step];
    if (IsExpected(op, step.receive_from)) return step.receive_from;
  }
  if (op.send_step < op.plan.steps.size()) {
    const int unready = op.plan.needs_ready ? FirstUnready(op) : -1;
    return unready >= 0 ? unready : op.plan.steps[op.send_step].send_to;
  }
  return -1;  // only sent frames are not written yet
}

}  // namespace ringlet
