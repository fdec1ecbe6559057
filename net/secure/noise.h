// Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b: two sides with the same key agree on
// session keys (https://noiseprotocol.org, revision 34).
//
// Pure: bytes in, bytes out; the caller draws the secrets.
//
//   -> psk, e       48 bytes and a payload, of the side that connects
//   <- e, ee        the same, of the side that listens
//
// The first message proves the key before either side computes a shared secret.
// A key that leaks later does not reveal earlier sessions. Needs libsodium;
// without it SecureStart() fails.

#ifndef RINGLET_NET_SECURE_NOISE_H_
#define RINGLET_NET_SECURE_NOISE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../../core/base/job_key.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr size_t kNoiseKeyBytes = 32;
constexpr size_t kNoiseHashBytes = 64;
constexpr size_t kNoiseTagBytes = 16;
constexpr size_t kNoiseMessageBytes = kNoiseKeyBytes + kNoiseTagBytes;
constexpr size_t kNoiseMostPayload =
    64;  // the most bytes of a handshake's message

// Call it once before all other calls, from any thread. An error if this build
// has no libsodium.
Status SecureStart();
// True if libsodium has AES-256-GCM on this processor. Call it after
// SecureStart.
bool HasAesGcm();
void WipeMemory(void* data, size_t bytes);
// A tag that names a place, such as a socket. Only holders of the key can
// compute it, and it reveals nothing of the place to others.
constexpr size_t kKeyTagBytes = 16;
void KeyTag(const JobKey& key, const void* place, size_t bytes, uint8_t* tag);

// One direction: the n-th message is sealed with the number n.
class NoiseCipher {
 public:
  NoiseCipher();
  NoiseCipher(const NoiseCipher&) = delete;
  NoiseCipher& operator=(const NoiseCipher&) = delete;
  ~NoiseCipher();

  void Begin(const uint8_t* key);
  // Seals later messages by AES-256-GCM instead of ChaCha20-Poly1305; see
  // HasAesGcm.
  void UseAes();
  // Seal appends a tag of kNoiseTagBytes, and Open expects it. `out` may be
  // `text`; Open works in place. `ad` is authenticated and not encrypted. Open
  // returns false if any byte differs from the sealed ones; only `data` has
  // then changed.
  void Seal(const uint8_t* text, size_t bytes, uint8_t* out,
            const uint8_t* ad = nullptr, size_t ad_bytes = 0);
  bool Open(uint8_t* data, size_t bytes, const uint8_t* ad = nullptr,
            size_t ad_bytes = 0);
  // Replaces the key by a key that is derived from it.
  void Rekey();
  uint64_t sealed() const { return n_; }

 private:
  struct AesKey;
  void SealAs(uint64_t n, const uint8_t* text, size_t bytes, uint8_t* out,
              const uint8_t* ad, size_t ad_bytes) const;

  uint8_t key_[kNoiseKeyBytes] = {};
  uint64_t n_ = 0;
  std::unique_ptr<AesKey>
      aes_key_;  // derived from key_; null for the other cipher
};

class NoiseHandshake {
 public:
  // `secret` has kNoiseKeyBytes random bytes, which are never used again. Both
  // sides give the same prologue.
  NoiseHandshake(bool connects, const uint8_t* prologue, size_t bytes,
                 const JobKey& key, const uint8_t* secret);
  NoiseHandshake(const NoiseHandshake&) = delete;
  NoiseHandshake& operator=(const NoiseHandshake&) = delete;
  ~NoiseHandshake() { WipeMemory(this, sizeof(*this)); }

  // The side that connects writes and then reads, the other reads and then
  // writes: once each. A message has kNoiseMessageBytes more than its payload.
  // False if the other side's public key is invalid, or the sender does not
  // have the key. Then the handshake has failed.
  bool Write(const uint8_t* payload, size_t bytes, uint8_t* message);
  bool Read(const uint8_t* message, size_t bytes, uint8_t* payload);
  // Call it after both messages.
  void Split(NoiseCipher* sends, NoiseCipher* receives);
  // The hash of the whole handshake: kNoiseHashBytes, equal on both sides.
  const uint8_t* hash() const { return hash_; }

 private:
  void MixHash(const uint8_t* data, size_t bytes);
  void MixKey(const uint8_t* data, size_t bytes);
  void MixKeyAndHash(const uint8_t* data, size_t bytes);
  bool MixShared();

  const bool connects_;
  uint8_t secret_[kNoiseKeyBytes];
  uint8_t other_[kNoiseKeyBytes] = {};  // the other side's public number
  uint8_t hash_[kNoiseHashBytes] = {};
  uint8_t chain_[kNoiseHashBytes];
  NoiseCipher cipher_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_SECURE_NOISE_H_
