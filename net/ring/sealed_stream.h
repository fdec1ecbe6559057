// SealedStream: a ByteStream that only those with the job's key can read, write
// or end unnoticed.
//
// Internal to net/. Pure: above another ByteStream; the caller draws the
// secret. Begins with the handshake of noise.h; then bytes travel in records,
// each sealed with its number, so none is changed, left out, repeated, moved,
// or turned around unseen. The end of the connection is not sealed: whoever
// needs to know that nothing is missing says goodbye, as frames do.
//
// Until the other side has proved that it has the key, and is or means the
// worker that listens, nothing is said but the handshake, and nothing is kept
// but this object. docs/wire_format.md, "Sealed".

#ifndef RINGLET_NET_RING_SEALED_STREAM_H_
#define RINGLET_NET_RING_SEALED_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../secure/noise.h"
#include "byte_stream.h"

namespace ringlet {

// HasAesGcm; tests put another in its place.
extern bool (*has_aes_gcm)();

// Greetings that a listener has answered. One that was recorded opens nothing,
// but its connection would pass for that of a worker which is on its way.
class Greetings {
 public:
  // By the public number of X25519 in it.
  bool Has(const uint8_t* number) const;
  void Add(const uint8_t* number);

 private:
  static constexpr size_t kMost = 1024;
  std::vector<uint64_t> numbers_;  // their first 8 bytes
  size_t next_ = 0;                // takes the oldest one's place
};

// Which worker listens. One key may serve several jobs: who is led to another
// worker than it means finds no answer, as with another key.
struct Meant {
  uint64_t cluster_hash = 0;  // handshake.h
  uint16_t size = 0;          // of the list
  uint16_t rank = 0;          // its place there
};

class SealedStream final : public ByteStream, private ByteStream::Owner {
 public:
  static constexpr size_t kMostText = 16384;  // of a record
  static constexpr size_t kLengthBytes = 2;
  static constexpr size_t kOverhead = kLengthBytes + kNoiseTagBytes;
  static constexpr size_t kMostRecord = kMostText + kOverhead;
  static constexpr size_t kGreetingBytes = 8;
  static constexpr size_t kPayloadBytes = 4;
  // Records sealed with one key.
  static constexpr uint64_t kRekeyAfter = 1 << 16;

  // `secret`: kNoiseKeyBytes at random, never used again. `answered`, of the
  // side that listens: the listener's, which answers none twice; or null.
  using Maker = StreamPtr(StreamPtr below, std::shared_ptr<const JobKeys> keys,
                          const Meant& meant, const uint8_t* secret,
                          Greetings* answered);
  static Maker Connect, Accept;

  void Start(ByteStream::Owner* owner) override;
  // Of the side that connects: the handshake is done.
  bool open() const override { return open_; }
  int64_t Write(const Piece* pieces, int count) override;
  bool blocked() const override {
    return !open_ || out_end_ > 0 || below_->blocked();
  }
  void StopReading() override;
  void Close() override;
  bool authentic() const override { return true; }
  bool is_local() const override { return below_->is_local(); }
  const std::string& remote() const override { return below_->remote(); }
  const sockaddr_storage& remote_address() const override {
    return below_->remote_address();
  }

 private:
  // A buffer has kFirstBytes, or as soon as that does not do kMostRecords.
  static constexpr size_t kMostRecords = 4;
  static constexpr size_t kFirstBytes = 2048;
  // To copy fewer bytes takes less than a record's tag.
  static constexpr size_t kLargePiece = 2048;
  static constexpr size_t kMessageBytes = kNoiseMessageBytes + kPayloadBytes;
  static constexpr size_t kHelloBytes = kGreetingBytes + kMessageBytes;

  SealedStream(StreamPtr below, std::shared_ptr<const JobKeys> keys,
               const Meant& meant, const uint8_t* secret, Greetings* answered,
               bool connects);
  ~SealedStream() override;

  void OnOpened(int64_t now) override;
  Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnBytes(const uint8_t*, size_t, int64_t) override {}
  void OnWritable(int64_t now) override;
  void OnEnded(Cause cause, const Status& why, int64_t now) override;

  void Greet();
  std::unique_ptr<NoiseHandshake> Shake(const JobKey& key) const;
  Status ShakeHands(int64_t now);
  Status ReadHandshake();
  bool HearAnswer();
  bool HearHello();
  void Agree(uint8_t features);
  size_t SealRecords(const Piece* pieces, int count);
  void SealRecord(const uint8_t* text, size_t bytes);
  size_t Room() const;
  uint8_t* Text() { return out_.data() + out_end_ + kLengthBytes; }
  void Flush();
  Status OpenRecords(int64_t now);
  static size_t RecordBytes(const uint8_t* record);
  void Leave();

  StreamPtr below_;  // null: closed
  ByteStream::Owner* owner_ = nullptr;
  const std::shared_ptr<const JobKeys> keys_;
  const Meant meant_;
  Greetings* const answered_;  // null: none are known
  const bool connects_;
  bool open_ = false;
  bool reading_ = true;
  bool broken_ = false;  // to write
  int depth_ = 0;        // of calls that need this object until they return

  // Until it is open.
  uint8_t secret_[kNoiseKeyBytes];
  std::unique_ptr<NoiseHandshake> handshake_;

  NoiseCipher seals_;
  NoiseCipher opens_;
  std::vector<uint8_t> in_;   // what has come: in_end_ bytes
  std::vector<uint8_t> out_;  // sealed, and not yet taken: [begin, end)
  size_t in_end_ = 0;
  size_t out_begin_ = 0;
  size_t out_end_ = 0;
  uint8_t shaking_[kHelloBytes];  // what has come of the handshake
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_SEALED_STREAM_H_
