#include "collective_schedule.h"

#include <algorithm>
#include <cstring>

#include "../../core/base/check.h"

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
  early_.assign(static_cast<size_t>(size), {});
  for (Operation& op : window_) {
    op.chunks_to.resize(size);
    op.chunks_from.resize(size);
  }
}

void CollectiveSchedule::Start(const Call& call) {
  ++started_;
  line_.push_back(call);
}

void CollectiveSchedule::Clear() {
  line_.clear();
  line_begin_ = active_ = 0;
  completed_ = started_;
  packed_unsent_ = 0;
}

void CollectiveSchedule::Replaced(int peer) {
  for (Early& early : early_[peer]) early.ready = early.frame = false;
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

// Moves calls from the line into the window and says where data is awaited.
Status CollectiveSchedule::Activate() {
  while (active_ < kWindow && line_begin_ < line_.size()) {
    const uint64_t sequence = completed_ + active_ + 1;
    Operation* op = &window_[sequence % kWindow];
    op->call = line_[line_begin_++];
    op->sequence = sequence;
    if (line_begin_ == line_.size()) {  // keeps its memory
      line_.clear();
      line_begin_ = 0;
    }
    ++active_;
    MakePlan(options_, op->call, &op->plan);
    op->send_step = op->receive_step = 0;
    op->send_segment = op->receive_segment = 0;
    op->unsent = 0;
    op->said_ready = !op->plan.needs_ready;
    std::fill(op->chunks_to.begin(), op->chunks_to.end(), 0u);
    std::fill(op->chunks_from.begin(), op->chunks_from.end(), 0u);
    SkipIdleSteps(op);
    RINGLET_RETURN_IF_ERROR(CompareEarly(*op));
    SayReady(op);
  }
  return Status();
}

// With what peers have said of this operation before this rank was there.
Status CollectiveSchedule::CompareEarly(const Operation& op) {
  for (int peer = 0; peer < size_; ++peer) {
    if (early_[peer].empty()) continue;
    const Early& early = EarlyOf(peer, op.sequence);
    if (early.ready) {
      RINGLET_RETURN_IF_ERROR(Compare(op, peer, early.ready_header));
    }
    if (early.frame) {
      RINGLET_RETURN_IF_ERROR(Compare(op, peer, early.frame_header));
    }
  }
  return Status();
}

// To those whose data needs it: of a broadcast all, or the one above in its
// tree, else, in rings, the left.
void CollectiveSchedule::SayReady(Operation* op) {
  const bool by_tree = op->plan.ready_by_tree;
  if (op->said_ready || (by_tree && FirstUnreadyBelow(*op) >= 0)) return;
  op->said_ready = true;
  FrameHeader ready;
  ready.type = FrameType::kReady;
  ready.flags = static_cast<uint16_t>(op->call.root);
  ready.sequence = op->sequence;
  ready.total = op->call.bytes;
  ready.chunk = static_cast<uint32_t>(op->call.type);
  const bool all = op->call.type == FrameType::kBroadcast && !by_tree;
  const int to =
      by_tree ? op->plan.steps[0].receive_from : (rank_ + size_ - 1) % size_;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && (all || peer == to)) {
      wire_->Send(peer, ready, nullptr, false);
    }
  }
}

// Whether the next frame this operation takes is one from `peer`.
bool CollectiveSchedule::Expects(const Operation& op, int peer) const {
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
                                    Landing* landing) {
  const bool ready = header.type == FrameType::kReady;
  landing->mode = Landing::kSkip;
  if (ready && header.sequence <= completed_) return Status();
  if (header.sequence <= completed_ || header.sequence > completed_ + kSlots ||
      (ready && !IsData(header.chunk))) {
    return Corruption("a %s frame of operation %llu while %llu is under way",
                      FrameTypeName(header.type),
                      static_cast<unsigned long long>(header.sequence),
                      static_cast<unsigned long long>(completed_ + 1));
  }
  Operation* op = Find(header.sequence);
  if (op != nullptr) RINGLET_RETURN_IF_ERROR(Compare(*op, peer, header));
  if (ready) return Status();
  const bool early =
      !early_[peer].empty() && EarlyOf(peer, header.sequence).frame;
  if (op != nullptr && !early && Expects(*op, peer)) {
    RINGLET_RETURN_IF_ERROR(CheckExpected(*op, peer, header));
    const Step& step = op->plan.steps[op->receive_step];
    const Slice part = op->plan.SegmentOf(step.receive, op->receive_segment);
    landing->mode = step.add ? Landing::kAdd : Landing::kLand;
    landing->dtype = op->plan.dtype;
    landing->integers = op->plan.integers;
    landing->data = op->call.data + part.begin * op->plan.element_bytes;
    return Status();
  }
  if (early || header.payload_bytes > kEagerBytes) {
    return Corruption("a frame of operation %llu that nobody waits for",
                      static_cast<unsigned long long>(header.sequence));
  }
  landing->mode = Landing::kKeep;
  return Status();
}

Status CollectiveSchedule::OnFrame(int peer, const FrameHeader& header,
                                   const uint8_t* payload) {
  if (header.type == FrameType::kReady) {
    if (header.sequence <= completed_) return Status();
    Early& early = EarlyOf(peer, header.sequence);
    if (early.ready) return Corruption("a second ready for one operation");
    early.ready = true;
    early.ready_header = header;
    return Status();
  }
  if (payload != nullptr) {
    Early& early = EarlyOf(peer, header.sequence);
    early.frame = true;
    early.frame_header = header;
    early.payload.assign(payload, payload + header.payload_bytes);
    // The operation may have begun since the header came, and the peer, which
    // has heard of that, have sent the next frame: it may be read at once.
    Operation* op = Find(header.sequence);
    if (op == nullptr) return Status();
    RINGLET_RETURN_IF_ERROR(Compare(*op, peer, header));
    return Expects(*op, peer) ? TakeEarlyOf(op, peer) : Status();
  }
  Operation* op = Find(header.sequence);
  RINGLET_CHECK(op != nullptr && Expects(*op, peer));
  moved_bytes_ += kFrameHeaderBytes + header.payload_bytes;
  Received(op, peer);
  return Status();
}

// The segment awaited has taken effect.
void CollectiveSchedule::Received(Operation* op, int peer) {
  ++op->chunks_from[peer];
  const Step& step = op->plan.steps[op->receive_step];
  if (++op->receive_segment < op->plan.Segments(step.receive)) return;
  op->receive_segment = 0;
  ++op->receive_step;
  SkipIdleSteps(op);
}

// What is kept of a peer's, whose turn it is.
Status CollectiveSchedule::TakeEarlyOf(Operation* op, int peer) {
  Early& early = EarlyOf(peer, op->sequence);
  RINGLET_RETURN_IF_ERROR(CheckExpected(*op, peer, early.frame_header));
  const Step& step = op->plan.steps[op->receive_step];
  const Slice part = op->plan.SegmentOf(step.receive, op->receive_segment);
  uint8_t* to = op->call.data + part.begin * op->plan.element_bytes;
  const size_t count = static_cast<size_t>(part.count);
  if (step.add && op->plan.integers) {
    AddIntegers(early.payload.data(), count, to);
  } else if (step.add) {
    AddPacked(op->plan.dtype, early.payload.data(), count, to);
  } else if (op->plan.packed()) {
    UnpackFloats(op->plan.dtype, early.payload.data(), count, to);
  } else if (count > 0) {
    std::memcpy(to, early.payload.data(), early.payload.size());
  }
  early.frame = false;
  moved_bytes_ += kFrameHeaderBytes + early.payload.size();
  Received(op, peer);
  return Status();
}

Status CollectiveSchedule::TakeEarly(Operation* op, bool* moved) {
  while (op->receive_step < op->plan.steps.size()) {
    const int peer = op->plan.steps[op->receive_step].receive_from;
    if (early_[peer].empty() || !EarlyOf(peer, op->sequence).frame ||
        !Expects(*op, peer)) {
      return Status();
    }
    culprit_ = peer;
    RINGLET_RETURN_IF_ERROR(TakeEarlyOf(op, peer));
    *moved = true;
  }
  return Status();
}

// All but room in the peer's queue.
bool CollectiveSchedule::HasToSend(const Operation& op) const {
  if (op.send_step >= op.plan.steps.size()) return false;
  const int after = op.plan.after[op.send_step];
  if (after >= 0) {
    const auto needed = static_cast<size_t>(after);
    if (needed > op.receive_step) return false;
    if (needed == op.receive_step && op.send_segment >= op.receive_segment) {
      return false;
    }
  }
  if (op.plan.needs_ready && FirstUnready(op) >= 0) return false;
  return !op.plan.packed() || packed_unsent_ < kPacked;
}

// The rank whose kReady the next send waits for, or -1. The root of a broadcast
// waits for everyone, so that it does not complete before all have begun.
int CollectiveSchedule::FirstUnready(const Operation& op) const {
  if (op.plan.ready_by_tree) return FirstUnreadyBelow(op);
  if (op.call.type != FrameType::kBroadcast || op.call.root != rank_) {
    const int to = op.plan.steps[op.send_step].send_to;
    return Ready(to, op.sequence) ? -1 : to;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !Ready(peer, op.sequence)) return peer;
  }
  return -1;
}

int CollectiveSchedule::FirstUnreadyBelow(const Operation& op) const {
  for (const Step& step : op.plan.steps) {
    if (step.send_to >= 0 && !Ready(step.send_to, op.sequence)) {
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
  header.flags = static_cast<uint16_t>(op->call.root);
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
    packed_.resize(kPacked * kSegmentBytes);
    uint8_t* slot = &packed_[packed_begun_ % kPacked * kSegmentBytes];
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

bool CollectiveSchedule::Done(const Operation& op) const {
  return op.send_step == op.plan.steps.size() &&
         op.receive_step == op.plan.steps.size() && op.unsent == 0;
}

Status CollectiveSchedule::Progress() {
  bool moved = true;
  while (moved) {
    moved = active_ < kWindow && line_begin_ < line_.size();
    RINGLET_RETURN_IF_ERROR(Activate());
    for (int i = 1; i <= active_; ++i) {
      Operation* op = &window_[(completed_ + i) % kWindow];
      SayReady(op);
      RINGLET_RETURN_IF_ERROR(TakeEarly(op, &moved));
      while (HasToSend(*op)) {
        const int to = op->plan.steps[op->send_step].send_to;
        if (!wire_->HasRoom(to)) {
          wire_->AwaitRoom(to);
          break;
        }
        SendOne(op);
        moved = true;
      }
    }
    while (active_ > 0 && Done(*oldest())) {
      ++completed_;
      --active_;
      for (std::vector<Early>& early : early_) {
        if (!early.empty()) early[completed_ % kSlots].ready = false;
      }
      moved = true;
    }
  }
  return Status();
}

int CollectiveSchedule::waiting_on() const {
  const Operation& op = *oldest();
  if (!op.said_ready) return FirstUnreadyBelow(op);
  if (op.receive_step < op.plan.steps.size()) {
    const Step& step = op.plan.steps[op.receive_step];
    if (Expects(op, step.receive_from)) return step.receive_from;
  }
  if (op.send_step < op.plan.steps.size()) {
    const int unready = op.plan.needs_ready ? FirstUnready(op) : -1;
    return unready >= 0 ? unready : op.plan.steps[op.send_step].send_to;
  }
  return -1;  // only what was sent has still to be written
}

}  // namespace ringlet
