// In the specification hash_ is called h, chain_ is ck, and cipher_ holds k and
// n. Each output of HKDF has the length of a hash, 64 bytes. If it becomes a
// key, only its first 32 bytes are used.

#include "noise.h"

#include <sodium.h>

#include <cstring>
#include <memory>

namespace ringlet {
namespace {

constexpr char kName[] = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";
constexpr size_t kBlockBytes = 128;  // the block size of BLAKE2b

// Writes the HMAC of a message to `out`. The message is `a`, then `b`.
void Hmac(const uint8_t* key, const uint8_t* a, size_t a_bytes,
          const uint8_t* b, size_t b_bytes, uint8_t* out) {
  uint8_t pad[kBlockBytes] = {};
  std::memcpy(pad, key, kNoiseHashBytes);
  for (uint8_t& byte : pad) byte ^= 0x36;
  crypto_generichash_blake2b_state state;
  crypto_generichash_blake2b_init(&state, nullptr, 0, kNoiseHashBytes);
  crypto_generichash_blake2b_update(&state, pad, sizeof(pad));
  crypto_generichash_blake2b_update(&state, a, a_bytes);
  crypto_generichash_blake2b_update(&state, b, b_bytes);
  crypto_generichash_blake2b_final(&state, out, kNoiseHashBytes);
  for (uint8_t& byte : pad) byte ^= 0x36 ^ 0x5c;
  crypto_generichash_blake2b_init(&state, nullptr, 0, kNoiseHashBytes);
  crypto_generichash_blake2b_update(&state, pad, sizeof(pad));
  crypto_generichash_blake2b_update(&state, out, kNoiseHashBytes);
  crypto_generichash_blake2b_final(&state, out, kNoiseHashBytes);
  WipeMemory(pad, sizeof(pad));
  WipeMemory(&state, sizeof(state));
}

// Writes `count` outputs of HKDF to `out`, one behind another.
void Hkdf(const uint8_t* chain, const uint8_t* data, size_t bytes, int count,
          uint8_t* out) {
  uint8_t key[kNoiseHashBytes];
  Hmac(chain, data, bytes, nullptr, 0, key);
  const uint8_t* last = nullptr;
  for (int i = 1; i <= count; ++i) {
    const auto number = static_cast<uint8_t>(i);
    Hmac(key, last, i > 1 ? kNoiseHashBytes : 0, &number, 1, out);
    last = out;
    out += kNoiseHashBytes;
  }
  WipeMemory(key, sizeof(key));
}

// The nonce for message number `n`. It is little-endian for ChaChaPoly, and
// big-endian for AESGCM.
struct Nonce {
  Nonce(uint64_t n, bool aes) {
    for (int i = 0; i < 8; ++i) {
      bytes[aes ? 11 - i : 4 + i] = static_cast<uint8_t>(n >> 8 * i);
    }
  }
  uint8_t bytes[crypto_aead_chacha20poly1305_ietf_NPUBBYTES] = {};
};

}  // namespace

struct NoiseCipher::AesKey {
  crypto_aead_aes256gcm_state state;
};

Status SecureStart() {
  if (sodium_init() >= 0) return Status();
  return Error(Code::kInternal, "libsodium does not start");
}

bool HasAesGcm() { return crypto_aead_aes256gcm_is_available() != 0; }

void WipeMemory(void* data, size_t bytes) { sodium_memzero(data, bytes); }

void KeyTag(const JobKey& key, const void* place, size_t bytes, uint8_t* tag) {
  SecureStart().IgnoreError();
  crypto_generichash(tag, kKeyTagBytes, static_cast<const uint8_t*>(place),
                     bytes, key.bytes, sizeof(key.bytes));
}

// The cipher.

NoiseCipher::NoiseCipher() = default;

NoiseCipher::~NoiseCipher() {
  WipeMemory(key_, sizeof(key_));
  if (aes_key_ != nullptr) WipeMemory(aes_key_.get(), sizeof(AesKey));
}

void NoiseCipher::Begin(const uint8_t* key) {
  std::memcpy(key_, key, sizeof(key_));
  n_ = 0;
}

void NoiseCipher::UseAes() {
  if (aes_key_ == nullptr) aes_key_ = std::make_unique<AesKey>();
  crypto_aead_aes256gcm_beforenm(&aes_key_->state, key_);
}

void NoiseCipher::SealAs(uint64_t n, const uint8_t* text, size_t bytes,
                         uint8_t* out, const uint8_t* ad,
                         size_t ad_bytes) const {
  const Nonce nonce(n, aes_key_ != nullptr);
  if (aes_key_ != nullptr) {
    crypto_aead_aes256gcm_encrypt_afternm(out, nullptr, text, bytes, ad,
                                          ad_bytes, nullptr, nonce.bytes,
                                          &aes_key_->state);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt(
        out, nullptr, text, bytes, ad, ad_bytes, nullptr, nonce.bytes, key_);
  }
}

void NoiseCipher::Seal(const uint8_t* text, size_t bytes, uint8_t* out,
                       const uint8_t* ad, size_t ad_bytes) {
  SealAs(n_++, text, bytes, out, ad, ad_bytes);
}

bool NoiseCipher::Open(uint8_t* data, size_t bytes, const uint8_t* ad,
                       size_t ad_bytes) {
  const Nonce nonce(n_, aes_key_ != nullptr);
  const size_t sealed = bytes + kNoiseTagBytes;
  const bool good =
      (aes_key_ != nullptr ? crypto_aead_aes256gcm_decrypt_afternm(
                                 data, nullptr, nullptr, data, sealed, ad,
                                 ad_bytes, nonce.bytes, &aes_key_->state)
                           : crypto_aead_chacha20poly1305_ietf_decrypt(
                                 data, nullptr, nullptr, data, sealed, ad,
                                 ad_bytes, nonce.bytes, key_)) == 0;
  if (good) ++n_;
  return good;
}

void NoiseCipher::Rekey() {
  uint8_t next[kNoiseKeyBytes + kNoiseTagBytes] = {};
  SealAs(UINT64_MAX, next, kNoiseKeyBytes, next, nullptr, 0);
  std::memcpy(key_, next, sizeof(key_));
  WipeMemory(next, sizeof(next));
  if (aes_key_ != nullptr) UseAes();
}

// The handshake.

NoiseHandshake::NoiseHandshake(bool connects, const uint8_t* prologue,
                               size_t bytes, const JobKey& key,
                               const uint8_t* secret)
    : connects_(connects) {
  std::memcpy(secret_, secret, sizeof(secret_));
  std::memcpy(hash_, kName, sizeof(kName) - 1);  // not longer than a hash
  std::memcpy(chain_, hash_, sizeof(chain_));
  MixHash(prologue, bytes);
  MixKeyAndHash(key.bytes, sizeof(key.bytes));
}

void NoiseHandshake::MixHash(const uint8_t* data, size_t bytes) {
  crypto_generichash_blake2b_state state;
  crypto_generichash_blake2b_init(&state, nullptr, 0, kNoiseHashBytes);
  crypto_generichash_blake2b_update(&state, hash_, sizeof(hash_));
  crypto_generichash_blake2b_update(&state, data, bytes);
  crypto_generichash_blake2b_final(&state, hash_, sizeof(hash_));
}

void NoiseHandshake::MixKey(const uint8_t* data, size_t bytes) {
  uint8_t out[2 * kNoiseHashBytes];
  Hkdf(chain_, data, bytes, 2, out);
  std::memcpy(chain_, out, sizeof(chain_));
  cipher_.Begin(out + kNoiseHashBytes);
  WipeMemory(out, sizeof(out));
}

void NoiseHandshake::MixKeyAndHash(const uint8_t* data, size_t bytes) {
  uint8_t out[3 * kNoiseHashBytes];
  Hkdf(chain_, data, bytes, 3, out);
  std::memcpy(chain_, out, sizeof(chain_));
  MixHash(out + kNoiseHashBytes, kNoiseHashBytes);
  cipher_.Begin(out + 2 * kNoiseHashBytes);
  WipeMemory(out, sizeof(out));
}

// Performs the token "ee" of the specification: mixes the secret that both
// sides share.
bool NoiseHandshake::MixShared() {
  uint8_t shared[kNoiseKeyBytes];
  const bool good = crypto_scalarmult(shared, secret_, other_) == 0;
  if (good) MixKey(shared, sizeof(shared));
  WipeMemory(shared, sizeof(shared));
  return good;
}

bool NoiseHandshake::Write(const uint8_t* payload, size_t bytes,
                           uint8_t* message) {
  if (crypto_scalarmult_base(message, secret_) != 0) return false;
  MixHash(message, kNoiseKeyBytes);
  MixKey(message, kNoiseKeyBytes);
  if (!connects_ && !MixShared()) return false;
  uint8_t* const text = message + kNoiseKeyBytes;
  cipher_.Seal(payload, bytes, text, hash_, sizeof(hash_));
  MixHash(text, bytes + kNoiseTagBytes);
  return true;
}

bool NoiseHandshake::Read(const uint8_t* message, size_t bytes,
                          uint8_t* payload) {
  if (bytes < kNoiseMessageBytes) return false;
  std::memcpy(other_, message, sizeof(other_));
  MixHash(message, kNoiseKeyBytes);
  MixKey(message, kNoiseKeyBytes);
  if (connects_ && !MixShared()) return false;
  const uint8_t* const text = message + kNoiseKeyBytes;
  const size_t sealed = bytes - kNoiseKeyBytes;
  uint8_t opened[kNoiseMostPayload + kNoiseTagBytes];
  if (sealed > sizeof(opened)) return false;
  std::memcpy(opened, text, sealed);
  const size_t length = sealed - kNoiseTagBytes;
  if (!cipher_.Open(opened, length, hash_, sizeof(hash_))) return false;
  if (length > 0) std::memcpy(payload, opened, length);
  MixHash(text, sealed);
  return true;
}

void NoiseHandshake::Split(NoiseCipher* sends, NoiseCipher* receives) {
  uint8_t out[2 * kNoiseHashBytes];
  Hkdf(chain_, nullptr, 0, 2, out);
  (connects_ ? sends : receives)->Begin(out);
  (connects_ ? receives : sends)->Begin(out + kNoiseHashBytes);
  WipeMemory(out, sizeof(out));
}

}  // namespace ringlet
