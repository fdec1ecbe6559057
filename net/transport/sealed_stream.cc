// Received records are opened in place, and given to the owner from there.
// Bytes to send are copied into out_ and sealed in place, several records for
// one write of the stream below. While out_ holds anything this stream is
// blocked, so there is never more than one write's worth.

#include "sealed_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../wire/other_protocol.h"

namespace ringlet {
namespace {

// Magic and version. They also begin the handshake's prologue, so the handshake
// fails with a changed greeting, or a greeting of a different version.
constexpr uint8_t kGreeting[SealedStream::kGreetingBytes] = {'R', 'G', 'L', 'S',
                                                             1};
constexpr uint8_t kPlain[] = {'R', 'G', 'L', 'T'};  // a frame's magic

// Features.
constexpr uint8_t kAes = 1;  // records are of AES-256-GCM

uint8_t Features() { return has_aes_gcm() ? kAes : 0; }

bool HasPrefix(const uint8_t* data, size_t bytes, const uint8_t* prefix,
               size_t prefix_bytes) {
  return std::memcmp(data, prefix, std::min(bytes, prefix_bytes)) == 0;
}

}  // namespace

bool (*has_aes_gcm)() = HasAesGcm;

bool SeenGreetings::Has(const uint8_t* number) const {
  uint64_t begin;
  std::memcpy(&begin, number, sizeof(begin));
  return std::find(numbers_.begin(), numbers_.end(), begin) != numbers_.end();
}

void SeenGreetings::Add(const uint8_t* number) {
  if (numbers_.size() < kMaxGreetings) numbers_.emplace_back();
  std::memcpy(&numbers_[next_], number, sizeof(numbers_[0]));
  next_ = (next_ + 1) % kMaxGreetings;
}

SealedStream::SealedStream(StreamPtr below, std::shared_ptr<const JobKeys> keys,
                           const ListenerIdentity& listener,
                           const uint8_t* secret, SeenGreetings* answered,
                           bool connects)
    : LayeredStream(std::move(below)),
      keys_(std::move(keys)),
      listener_(listener),
      answered_(answered),
      connects_(connects) {
  std::memcpy(secret_, secret, sizeof(secret_));
}

SealedStream::~SealedStream() { WipeMemory(secret_, sizeof(secret_)); }

StreamPtr SealedStream::Connect(StreamPtr below,
                                std::shared_ptr<const JobKeys> keys,
                                const ListenerIdentity& listener,
                                const uint8_t* secret, SeenGreetings*) {
  return StreamPtr(new SealedStream(std::move(below), std::move(keys), listener,
                                    secret, nullptr, /*connects=*/true));
}

StreamPtr SealedStream::Accept(StreamPtr below,
                               std::shared_ptr<const JobKeys> keys,
                               const ListenerIdentity& listener,
                               const uint8_t* secret, SeenGreetings* answered) {
  return StreamPtr(new SealedStream(std::move(below), std::move(keys), listener,
                                    secret, answered, /*connects=*/false));
}

void SealedStream::Start(ByteStream::Owner* owner) {
  LayeredStream::Start(owner);
  if (below_->open()) Greet();
}

// The handshake.

std::unique_ptr<NoiseHandshake> SealedStream::MakeHandshake(
    const JobKey& key) const {
  uint8_t prologue[kGreetingBytes + 12];
  std::memcpy(prologue, kGreeting, sizeof(kGreeting));
  StoreLittle(listener_.cluster_hash, prologue + kGreetingBytes);
  StoreLittle(listener_.size, prologue + kGreetingBytes + 8);
  StoreLittle(listener_.worker, prologue + kGreetingBytes + 10);
  return std::make_unique<NoiseHandshake>(connects_, prologue, sizeof(prologue),
                                          key, secret_);
}

// Sends the first message on the side that connects.
void SealedStream::Greet() {
  if (!connects_) return;
  handshake_ = MakeHandshake(keys_->keys[0]);
  out_.resize(kFirstBytes);
  std::memcpy(out_.data(), kGreeting, sizeof(kGreeting));
  const uint8_t features[kPayloadBytes] = {Features()};
  broken_ = !handshake_->Write(features, sizeof(features),
                               out_.data() + kGreetingBytes);
  out_end_ = kHelloBytes;
  Flush();
}

void SealedStream::OnOpened(int64_t) { Greet(); }

Status SealedStream::ReadHandshake() {
  const size_t message_bytes = connects_ ? kMessageBytes : kHelloBytes;
  if (HasPrefix(handshake_bytes_, in_end_, kPlain, sizeof(kPlain))) {
    if (in_end_ < sizeof(kPlain)) return Status();
    return Error(Code::kUnavailable, "it has no key, and this worker has one");
  }
  if (!connects_ &&
      !HasPrefix(handshake_bytes_, in_end_, kGreeting, sizeof(kGreeting))) {
    return Corruption("it does not answer as a worker with a key%s",
                      in_end_ < 4 ? "" : OtherProtocol(handshake_bytes_));
  }
  if (in_end_ < message_bytes) return Status();
  const char* const other = OtherProtocol(handshake_bytes_);
  if (connects_ ? ReadAnswer() : ReadHello()) {
    in_end_ = 0;
    open_ = true;
    return Status();
  }
  return Error(Code::kUnavailable, "%s%s",
               connects_ ? "it does not have this job's key"
                         : "it does not have this job's key, was given another "
                           "list of workers, or expects another worker",
               other);
}

bool SealedStream::ReadAnswer() {
  uint8_t features[kPayloadBytes];
  if (!handshake_->Read(handshake_bytes_, kMessageBytes, features))
    return false;
  Agree(features[0] & Features());
  return true;
}

// Three kinds of hello get no answer, and cost no computation: without one of
// the keys, for another worker, and replayed.
bool SealedStream::ReadHello() {
  const uint8_t* const number = handshake_bytes_ + kGreetingBytes;
  if (answered_ != nullptr && answered_->Has(number)) return false;
  uint8_t features[kPayloadBytes];
  for (int i = 0; i < keys_->count; ++i) {
    handshake_ = MakeHandshake(keys_->keys[i]);
    if (!handshake_->Read(number, kMessageBytes, features)) continue;
    if (answered_ != nullptr) answered_->Add(number);
    const uint8_t both[kPayloadBytes] = {
        static_cast<uint8_t>(features[0] & Features())};
    out_.resize(kFirstBytes);
    if (!handshake_->Write(both, sizeof(both), out_.data())) break;
    out_end_ = kMessageBytes;
    Agree(both[0]);
    Flush();
    return true;
  }
  return false;
}

void SealedStream::Agree(uint8_t features) {
  handshake_->Split(&send_cipher_, &receive_cipher_);
  handshake_.reset();
  WipeMemory(secret_, sizeof(secret_));
  if ((features & kAes) == 0) return;
  send_cipher_.UseAes();
  receive_cipher_.UseAes();
}

// Writing.

int64_t SealedStream::Write(const Piece* pieces, int count) {
  if (broken_) return -1;
  const size_t accepted = SealRecords(pieces, count);
  Flush();
  return static_cast<int64_t>(accepted);
}

// Small pieces are put together. Large ones are sealed directly from the
// caller's memory.
size_t SealedStream::SealRecords(const Piece* pieces, int count) {
  size_t all = 0;
  for (int i = 0; i < count; ++i) all += pieces[i].bytes;
  if (all + kOverhead > out_.size()) out_.resize(kMaxRecords * kMaxRecordBytes);
  size_t accepted = 0;
  size_t n = 0;     // put together, after out_end_
  size_t skip = 0;  // taken bytes of *pieces
  while (count > 0) {
    const size_t rest = pieces->bytes - skip;
    const size_t room = Room() - n;
    if (std::min(rest, kLargePiece) > room || (n > 0 && rest >= kLargePiece)) {
      if (n == 0) break;
      SealRecord(Text(), std::exchange(n, 0));
      continue;
    }
    const size_t part_bytes = std::min(rest, room);
    if (rest >= kLargePiece) {
      SealRecord(pieces->data + skip, part_bytes);
    } else {
      if (part_bytes > 0)
        std::memcpy(Text() + n, pieces->data + skip, part_bytes);
      n += part_bytes;
    }
    accepted += part_bytes;
    skip += part_bytes;
    if (skip < pieces->bytes) continue;
    skip = 0;
    ++pieces;
    --count;
  }
  if (n > 0) SealRecord(Text(), n);
  return accepted;
}

// Returns the free bytes for the text of the next record.
size_t SealedStream::Room() const {
  const size_t end = out_end_ + kOverhead;
  return end < out_.size() ? std::min(kMaxTextBytes, out_.size() - end) : 0;
}

void SealedStream::SealRecord(const uint8_t* text, size_t bytes) {
  uint8_t* const record = out_.data() + out_end_;
  const size_t sealed = bytes + kNoiseTagBytes;
  record[0] = static_cast<uint8_t>(sealed);
  record[1] = static_cast<uint8_t>(sealed >> 8);
  send_cipher_.Seal(text, bytes, record + kLengthBytes);
  if (send_cipher_.sealed() % kRekeyAfter == 0) send_cipher_.Rekey();
  out_end_ += kLengthBytes + sealed;
}

void SealedStream::Flush() {
  while (out_begin_ < out_end_ && !broken_ && !below_->blocked()) {
    const Piece piece{out_.data() + out_begin_, out_end_ - out_begin_};
    const int64_t sent = below_->Write(&piece, 1);
    broken_ = sent < 0;
    if (!broken_) out_begin_ += static_cast<size_t>(sent);
  }
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
}

void SealedStream::OnWritable(int64_t now) {
  ++depth_;
  Flush();
  if (open_ && !blocked()) owner_->OnWritable(now);
  Leave();
}

// Reading.

ByteStream::Space SealedStream::NextSpace() {
  if (!open_) {
    const size_t message_bytes = connects_ ? kMessageBytes : kHelloBytes;
    return {handshake_bytes_ + in_end_, message_bytes - in_end_};
  }
  if (in_.empty()) in_.resize(kFirstBytes);
  if (in_end_ >= kLengthBytes && RecordBytes(in_.data()) > in_.size()) {
    in_.resize(kMaxRecords * kMaxRecordBytes);
  }
  return {in_.data() + in_end_, in_.size() - in_end_};
}

void SealedStream::OnRead(size_t bytes, int64_t now) {
  ++depth_;
  in_end_ += bytes;
  const Status status = open_ ? OpenRecords(now) : ShakeHands(now);
  if (!status.ok() && below_ != nullptr && reading_) {
    StopReading();
    owner_->OnEnded(LossCause::kProtocol, status, now);
  }
  Leave();
}

Status SealedStream::ShakeHands(int64_t now) {
  RINGLET_RETURN_IF_ERROR(ReadHandshake());
  if (!open_) return Status();
  if (connects_) {
    owner_->OnOpened(now);
  } else if (!blocked()) {
    owner_->OnWritable(now);
  }
  return Status();
}

// The bytes of the record that begins there, with its length field.
size_t SealedStream::RecordBytes(const uint8_t* record) {
  return kLengthBytes + (record[0] | size_t{record[1]} << 8);
}

Status SealedStream::OpenRecords(int64_t now) {
  size_t at = 0;
  while (in_end_ - at >= kLengthBytes) {
    const size_t bytes = RecordBytes(in_.data() + at);
    if (bytes <= kLengthBytes + kNoiseTagBytes || bytes > kMaxRecordBytes) {
      return Corruption("a sealed record has an invalid length of %zu bytes",
                        bytes);
    }
    if (in_end_ - at < bytes) break;
    uint8_t* const text = in_.data() + at + kLengthBytes;
    const size_t length = bytes - kLengthBytes - kNoiseTagBytes;
    if (!receive_cipher_.Open(text, length)) {
      return Corruption("a sealed record was changed on its way");
    }
    if (receive_cipher_.sealed() % kRekeyAfter == 0) receive_cipher_.Rekey();
    owner_->OnBytes(text, length, now);
    if (below_ == nullptr || !reading_) return Status();
    at += bytes;
  }
  in_end_ -= at;
  if (at > 0 && in_end_ > 0) {
    std::memmove(in_.data(), in_.data() + at, in_end_);
  }
  return Status();
}

void SealedStream::OnEnded(LossCause cause, const Status& why, int64_t now) {
  ++depth_;
  if (reading_) {
    reading_ = false;
    const bool was_refused =
        handshake_ != nullptr && !open_ && cause == LossCause::kExited;
    owner_->OnEnded(
        cause,
        was_refused
            ? Error(Code::kUnavailable,
                    "it closed the connection: is its key (RINGLET_KEY_FILE) "
                    "the same as this worker's, and its list of workers?")
            : why,
        now);
  }
  Leave();
}

}  // namespace ringlet
