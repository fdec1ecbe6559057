#include "operations.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

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

bool Overlap(const Slice& a, const Slice& b) {
  return a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

// kReady names the type of its operation in `chunk`.
FrameType TypeOf(const FrameHeader& header) {
  return header.type == FrameType::kReady ? static_cast<FrameType>(header.chunk)
                                          : header.type;
}

}  // namespace

Operations::Operations(int rank, int size, Algorithm algorithm, WireDtype dtype,
                       Wire* wire)
    : rank_(rank),
      size_(size),
      algorithm_(algorithm),
      dtype_(dtype),
      wire_(wire),
      early_(static_cast<size_t>(size) * kSlots) {
  for (Operation& op : window_) {
    op.chunks_to.resize(size);
    op.chunks_from.resize(size);
  }
}

void Operations::Start(const Call& call) {
  ++started_;
  line_.push_back(call);
}

void Operations::Clear() {
  line_.clear();
  line_begin_ = 0;
  active_ = 0;
  completed_ = started_;
  packed_unsent_ = 0;
}

void Operations::Replaced(int peer) {
  for (int slot = 0; slot < kSlots; ++slot) {
    Early& early = early_[peer * kSlots + slot];
    early.ready = early.frame = false;
  }
}

Operations::Operation* Operations::Find(uint64_t sequence) {
  const bool active = sequence > completed_ && sequence <= completed_ + active_;
  return active ? &window_[sequence % kWindow] : nullptr;
}

void Operations::Plan(Operation* op) {
  const Call& call = op->call;
  op->element_bytes = 1;
  op->needs_ready = false;
  op->dtype = WireDtype::kFloat32;
  switch (call.type) {
    case FrameType::kAllReduce: {
      op->element_bytes = sizeof(float);
      const int64_t count = static_cast<int64_t>(call.bytes / sizeof(float));
      const bool ring =
          count > 0 &&
          (algorithm_ == Algorithm::kRing ||
           (algorithm_ == Algorithm::kAuto && call.bytes > kEagerBytes));
      if (ring) {
        RingAllReduce(rank_, size_, count, &op->steps);
        if (call.bytes > kEagerBytes) op->dtype = dtype_;
      } else {
        DoublingAllReduce(rank_, size_, count, kEagerBytes / sizeof(float),
                          &op->steps);
      }
      op->needs_ready = ring;
      break;
    }
    case FrameType::kAllGather:
      if (call.bytes > kEagerBytes) {
        RingAllGather(rank_, size_, static_cast<int64_t>(call.bytes),
                      &op->steps);
        op->needs_ready = true;
      } else {
        DirectAllGather(rank_, size_, static_cast<int64_t>(call.bytes),
                        &op->steps);
      }
      break;
    case FrameType::kBroadcast:
      TreeBroadcast(rank_, size_, call.root, static_cast<int64_t>(call.bytes),
                    &op->steps);
      op->needs_ready = true;
      break;
    default:
      DoublingAllReduce(rank_, size_, 0, 1, &op->steps);
  }
  op->after.clear();
  int last = -1;
  for (size_t k = 0; k < op->steps.size(); ++k) {
    op->after.push_back(last);
    if (op->steps[k].receive_from >= 0) last = static_cast<int>(k);
  }
}

int64_t Operations::Segments(const Operation& op, const Slice& slice) const {
  const int64_t each = kSegmentBytes / static_cast<int64_t>(WireBytesOf(op));
  return std::max<int64_t>(1, (slice.count + each - 1) / each);
}

Slice Operations::SegmentOf(const Operation& op, const Slice& slice,
                            int64_t segment) const {
  const int64_t each = kSegmentBytes / static_cast<int64_t>(WireBytesOf(op));
  const int64_t begin = segment * each;
  return {slice.begin + begin, std::min(each, slice.count - begin)};
}

void Operations::SkipIdleSteps(Operation* op) {
  const std::vector<Step>& steps = op->steps;
  while (op->send_step < steps.size() && steps[op->send_step].send_to < 0) {
    ++op->send_step;
  }
  while (op->receive_step < steps.size() &&
         steps[op->receive_step].receive_from < 0) {
    ++op->receive_step;
  }
}

// Moves calls from the line into the window and says where data is awaited.
Status Operations::Activate() {
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
    Plan(op);
    op->send_step = op->receive_step = 0;
    op->send_segment = op->receive_segment = 0;
    op->unsent = 0;
    std::fill(op->chunks_to.begin(), op->chunks_to.end(), 0u);
    std::fill(op->chunks_from.begin(), op->chunks_from.end(), 0u);
    SkipIdleSteps(op);
    for (int peer = 0; peer < size_; ++peer) {
      const Early& early = EarlyOf(peer, sequence);
      if (early.ready) {
        RINGLET_RETURN_IF_ERROR(Compare(*op, peer, early.ready_header));
      }
      if (early.frame) {
        RINGLET_RETURN_IF_ERROR(Compare(*op, peer, early.frame_header));
      }
    }
    if (!op->needs_ready) continue;
    FrameHeader ready;
    ready.type = FrameType::kReady;
    ready.flags = static_cast<uint16_t>(op->call.root);
    ready.sequence = sequence;
    ready.total = op->call.bytes;
    ready.chunk = static_cast<uint32_t>(op->call.type);
    const bool all = op->call.type == FrameType::kBroadcast;
    const int left = (rank_ + size_ - 1) % size_;  // both others are rings
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && (all || peer == left)) {
        wire_->Send(peer, ready, nullptr, false);
      }
    }
  }
  return Status();
}

Status Operations::Compare(const Operation& op, int peer,
                           const FrameHeader& theirs) {
  const Call& call = op.call;
  const FrameType type = TypeOf(theirs);
  if (type == call.type && theirs.total == call.bytes &&
      theirs.flags == call.root) {
    return Status();
  }
  char mine[96];
  char other[96];
  return InvalidArgument(
      "operation %llu is a%s %s on rank %d, but a%s %s on rank %d: every rank "
      "must make the same calls, with the same sizes, in the same order",
      static_cast<unsigned long long>(op.sequence),
      call.type == FrameType::kAllReduce || call.type == FrameType::kAllGather
          ? "n"
          : "",
      Describe(call.type, call.bytes, call.root, mine, sizeof(mine)), rank_,
      type == FrameType::kAllReduce || type == FrameType::kAllGather ? "n" : "",
      Describe(type, theirs.total, theirs.flags, other, sizeof(other)), peer);
}

// Whether the next frame this operation takes is one from `peer`.
bool Operations::Expects(const Operation& op, int peer) const {
  if (op.receive_step >= op.steps.size()) return false;
  const Step& step = op.steps[op.receive_step];
  if (step.receive_from != peer) return false;
  const bool send_first =
      step.send_to >= 0 && op.send_step <= op.receive_step &&
      (step.send.count == 0 || Overlap(step.send, step.receive));
  return !send_first;
}

Status Operations::CheckExpected(const Operation& op, int peer,
                                 const FrameHeader& header) const {
  const Step& step = op.steps[op.receive_step];
  const Slice part = SegmentOf(op, step.receive, op.receive_segment);
  const size_t bytes = static_cast<size_t>(part.count) * WireBytesOf(op);
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

Status Operations::OnHeader(int peer, const FrameHeader& header,
                            Landing* landing) {
  const bool ready = header.type == FrameType::kReady;
  landing->mode = Landing::kSkip;
  if (ready && header.sequence <= completed_) return Status();
  if (header.sequence <= completed_ || header.sequence > completed_ + kSlots ||
      (ready && (header.chunk < 16 || header.chunk > 19))) {
    return Corruption("a %s frame of operation %llu while %llu is under way",
                      FrameTypeName(header.type),
                      static_cast<unsigned long long>(header.sequence),
                      static_cast<unsigned long long>(completed_ + 1));
  }
  Operation* op = Find(header.sequence);
  if (op != nullptr) RINGLET_RETURN_IF_ERROR(Compare(*op, peer, header));
  if (ready) return Status();
  const Early& early = EarlyOf(peer, header.sequence);
  if (op != nullptr && !early.frame && Expects(*op, peer)) {
    RINGLET_RETURN_IF_ERROR(CheckExpected(*op, peer, header));
    const Step& step = op->steps[op->receive_step];
    const Slice part = SegmentOf(*op, step.receive, op->receive_segment);
    landing->mode = step.add ? Landing::kAdd : Landing::kLand;
    landing->dtype = op->dtype;
    landing->data = op->call.data + part.begin * op->element_bytes;
    return Status();
  }
  if (early.frame || header.payload_bytes > kEagerBytes) {
    return Corruption("a frame of operation %llu that nobody waits for",
                      static_cast<unsigned long long>(header.sequence));
  }
  landing->mode = Landing::kKeep;
  return Status();
}

Status Operations::OnFrame(int peer, const FrameHeader& header,
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
    return Status();
  }
  Operation* op = Find(header.sequence);
  RINGLET_CHECK(op != nullptr && Expects(*op, peer));
  moved_bytes_ += kFrameHeaderBytes + header.payload_bytes;
  Received(op, peer);
  return Status();
}

// The segment awaited has taken effect.
void Operations::Received(Operation* op, int peer) {
  ++op->chunks_from[peer];
  const Step& step = op->steps[op->receive_step];
  if (++op->receive_segment < Segments(*op, step.receive)) return;
  op->receive_segment = 0;
  ++op->receive_step;
  SkipIdleSteps(op);
}

Status Operations::TakeEarly(Operation* op, bool* moved) {
  while (op->receive_step < op->steps.size()) {
    const Step& step = op->steps[op->receive_step];
    const int peer = step.receive_from;
    Early& early = EarlyOf(peer, op->sequence);
    if (!early.frame || !Expects(*op, peer)) return Status();
    culprit_ = peer;
    RINGLET_RETURN_IF_ERROR(CheckExpected(*op, peer, early.frame_header));
    const Slice part = SegmentOf(*op, step.receive, op->receive_segment);
    uint8_t* to = op->call.data + part.begin * op->element_bytes;
    const size_t count = static_cast<size_t>(part.count);
    if (step.add) {
      AddPacked(op->dtype, early.payload.data(), count, to);
    } else if (op->packed()) {
      UnpackFloats(op->dtype, early.payload.data(), count, to);
    } else if (count > 0) {
      std::memcpy(to, early.payload.data(), early.payload.size());
    }
    early.frame = false;
    moved_bytes_ += kFrameHeaderBytes + early.payload.size();
    Received(op, peer);
    *moved = true;
  }
  return Status();
}

bool Operations::MaySend(const Operation& op) {
  if (op.send_step >= op.steps.size()) return false;
  const Step& step = op.steps[op.send_step];
  const int after = op.after[op.send_step];
  if (after >= 0) {
    const size_t needed = static_cast<size_t>(after);
    const bool received =
        needed < op.receive_step ||
        (needed == op.receive_step && op.send_segment < op.receive_segment);
    if (!received) return false;
  }
  if (op.needs_ready && FirstUnready(op) >= 0) return false;
  if (op.packed() && packed_unsent_ == kPacked) return false;
  return wire_->HasRoom(step.send_to);
}

// The rank whose kReady the next send waits for, or -1. The root of a broadcast
// waits for everyone, so that it does not complete before all have begun.
int Operations::FirstUnready(const Operation& op) const {
  const int slot = static_cast<int>(op.sequence % kSlots);
  const bool all =
      op.call.type == FrameType::kBroadcast && op.call.root == rank_;
  if (!all) {
    const int to = op.steps[op.send_step].send_to;
    return early_[to * kSlots + slot].ready ? -1 : to;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !early_[peer * kSlots + slot].ready) return peer;
  }
  return -1;
}

void Operations::SendOne(Operation* op) {
  const Step& step = op->steps[op->send_step];
  const Slice part = SegmentOf(*op, step.send, op->send_segment);
  FrameHeader header;
  header.type = op->call.type;
  header.flags = static_cast<uint16_t>(op->call.root);
  header.payload_bytes =
      static_cast<uint32_t>(static_cast<size_t>(part.count) * WireBytesOf(*op));
  header.sequence = op->sequence;
  header.total = op->call.bytes;
  header.chunk = op->chunks_to[step.send_to]++;
  const bool borrowed = header.payload_bytes > kEagerBytes;
  if (borrowed) ++op->unsent;
  moved_bytes_ += kFrameHeaderBytes + header.payload_bytes;
  uint8_t* const floats =
      part.count > 0 ? op->call.data + part.begin * op->element_bytes : nullptr;
  const uint8_t* payload = floats;
  if (op->packed()) {
    packed_.resize(kPacked * kSegmentBytes);
    uint8_t* slot = &packed_[packed_begun_ % kPacked * kSegmentBytes];
    PackFloats(op->dtype, floats, static_cast<size_t>(part.count), slot);
    payload = slot;
    if (borrowed) {
      ++packed_begun_;
      ++packed_unsent_;
    }
  }
  const int to = step.send_to;
  if (++op->send_segment == Segments(*op, step.send)) {
    op->send_segment = 0;
    ++op->send_step;
    SkipIdleSteps(op);
  }
  wire_->Send(to, header, payload, borrowed);
}

void Operations::OnSent(uint64_t sequence) {
  Operation* op = Find(sequence);
  if (op == nullptr) return;
  --op->unsent;
  if (op->packed()) --packed_unsent_;
}

bool Operations::Done(const Operation& op) const {
  return op.send_step == op.steps.size() &&
         op.receive_step == op.steps.size() && op.unsent == 0;
}

Status Operations::Progress() {
  bool moved = true;
  while (moved) {
    moved = active_ < kWindow && line_begin_ < line_.size();
    RINGLET_RETURN_IF_ERROR(Activate());
    for (int i = 1; i <= active_; ++i) {
      Operation* op = &window_[(completed_ + i) % kWindow];
      RINGLET_RETURN_IF_ERROR(TakeEarly(op, &moved));
      while (MaySend(*op)) {
        SendOne(op);
        moved = true;
      }
    }
    while (active_ > 0 && Done(*oldest())) {
      ++completed_;
      --active_;
      for (int peer = 0; peer < size_; ++peer) {
        EarlyOf(peer, completed_).ready = false;
      }
      moved = true;
    }
  }
  return Status();
}

FrameType Operations::waiting_type() const { return oldest()->call.type; }

int Operations::waiting_on() const {
  const Operation& op = *oldest();
  if (op.receive_step < op.steps.size()) {
    const Step& step = op.steps[op.receive_step];
    if (Expects(op, step.receive_from)) return step.receive_from;
  }
  if (op.send_step < op.steps.size()) {
    const int unready = op.needs_ready ? FirstUnready(op) : -1;
    return unready >= 0 ? unready : op.steps[op.send_step].send_to;
  }
  return -1;  // only what was sent has still to be written
}

}  // namespace ringlet
