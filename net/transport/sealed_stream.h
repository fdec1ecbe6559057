// SealedStream: a ByteStream that cannot be read or changed without the job's
// key.
//
// Pure: above another ByteStream; the caller makes the random secret. The
// stream begins with the handshake of noise.h. Then bytes travel in records,
// each sealed with its number. So a record that is changed, left out, repeated,
// moved or sent back is detected. The end of the connection is not sealed: a
// protocol that must detect a missing end sends a goodbye, as frames do.
//
// The other side must first prove that it has the key. One side is the
// listening worker, and the other must have dialled this worker. Until then
// only the handshake is sent, and only this object is allocated.
// docs/wire_format.md, "Sealed".

#ifndef RINGLET_NET_TRANSPORT_SEALED_STREAM_H_
#define RINGLET_NET_TRANSPORT_SEALED_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../secure/noise.h"
#include "layered_stream.h"

namespace ringlet {

// HasAesGcm; tests replace it.
extern bool (*has_aes_gcm)();

// Greetings that a listener has answered. An attacker that sends a recorded
// greeting again cannot read or write. But its connection would look like a
// worker in its handshake, and could fill the places for handshakes.
class SeenGreetings {
 public:
  // `number` is the public number of X25519 in a greeting.
  bool Has(const uint8_t* number) const;
  void Add(const uint8_t* number);

 private:
  static constexpr size_t kMaxGreetings = 1024;
  std::vector<uint64_t> numbers_;  // their first 8 bytes
  size_t next_ = 0;                // the index of the oldest one
};

// The listening worker. Several jobs may have one key. A peer that meant to
// reach another worker gets no answer, like a peer with a different key.
struct ListenerIdentity {
  uint64_t cluster_hash = 0;  // handshake.h
  uint16_t size = 0;          // the workers in the job's list
  uint16_t worker = 0;        // its place there
};

class SealedStream final : public LayeredStream {
 public:
  static constexpr size_t kMaxTextBytes =
      16384;  // most plain bytes of a record
  static constexpr size_t kLengthBytes = 2;
  static constexpr size_t kOverhead = kLengthBytes + kNoiseTagBytes;
  static constexpr size_t kMaxRecordBytes = kMaxTextBytes + kOverhead;
  static constexpr size_t kGreetingBytes = 8;
  static constexpr size_t kPayloadBytes = 4;
  // The number of records sealed with one key.
  static constexpr uint64_t kRekeyAfter = 1 << 16;

  // `secret` has kNoiseKeyBytes random bytes, used once. `answered` has the
  // greetings that the listener has answered, so that it answers none twice. It
  // is null for the side that connects.
  static StreamPtr Connect(StreamPtr below, std::shared_ptr<const JobKeys> keys,
                           const ListenerIdentity& listener,
                           const uint8_t* secret, SeenGreetings* answered);
  static StreamPtr Accept(StreamPtr below, std::shared_ptr<const JobKeys> keys,
                          const ListenerIdentity& listener,
                          const uint8_t* secret, SeenGreetings* answered);
  using Maker = decltype(Connect);  // Accept has the same type

  void Start(ByteStream::Owner* owner) override;
  // True on the side that connects once the handshake is done.
  bool open() const override { return open_; }
  int64_t Write(const Piece* pieces, int count) override;
  bool blocked() const override {
    return !open_ || out_end_ > 0 || below_->blocked();
  }
  bool authentic() const override { return true; }

 private:
  // A buffer begins with kFirstBytes, and grows once to kMaxRecords records.
  static constexpr size_t kMaxRecords = 4;
  static constexpr size_t kFirstBytes = 2048;
  // Copying fewer bytes costs less than the tag of another record.
  static constexpr size_t kLargePiece = 2048;
  static constexpr size_t kMessageBytes = kNoiseMessageBytes + kPayloadBytes;
  static constexpr size_t kHelloBytes = kGreetingBytes + kMessageBytes;

  SealedStream(StreamPtr below, std::shared_ptr<const JobKeys> keys,
               const ListenerIdentity& listener, const uint8_t* secret,
               SeenGreetings* answered, bool connects);
  ~SealedStream() override;

  void OnOpened(int64_t now) override;
  Space NextSpace() override;
  void OnRead(size_t bytes, int64_t now) override;
  void OnWritable(int64_t now) override;
  void OnEnded(LossCause cause, const Status& why, int64_t now) override;

  void Greet();
  std::unique_ptr<NoiseHandshake> MakeHandshake(const JobKey& key) const;
  Status ShakeHands(int64_t now);
  Status ReadHandshake();
  bool ReadAnswer();
  bool ReadHello();
  void Agree(uint8_t features);
  size_t SealRecords(const Piece* pieces, int count);
  void SealRecord(const uint8_t* text, size_t bytes);
  size_t Room() const;
  uint8_t* Text() { return out_.data() + out_end_ + kLengthBytes; }
  void Flush();
  Status OpenRecords(int64_t now);
  static size_t RecordBytes(const uint8_t* record);

  const std::shared_ptr<const JobKeys> keys_;
  const ListenerIdentity listener_;
  SeenGreetings* const answered_;  // null if none are known
  const bool connects_;
  bool open_ = false;
  bool broken_ = false;  // writing has failed

  // Until it is open.
  uint8_t secret_[kNoiseKeyBytes];
  std::unique_ptr<NoiseHandshake> handshake_;

  NoiseCipher send_cipher_;
  NoiseCipher receive_cipher_;
  std::vector<uint8_t> in_;   // received: in_end_ bytes
  std::vector<uint8_t> out_;  // sealed, and not yet taken: [begin, end)
  size_t in_end_ = 0;
  size_t out_begin_ = 0;
  size_t out_end_ = 0;
  uint8_t handshake_bytes_[kHelloBytes];  // what was received of the handshake
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_SEALED_STREAM_H_
