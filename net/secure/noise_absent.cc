// A build without libsodium: SecureStart() is called first, so the functions
// below are never called.

#include <cstring>

#include "noise.h"

namespace ringlet {

bool SecureStart() { return false; }
bool HasAesGcm() { return false; }
void WipeMemory(void* data, size_t bytes) { std::memset(data, 0, bytes); }
void KeyTag(const JobKey&, const void*, size_t, uint8_t*) {}

struct NoiseCipher::AesKey {};
NoiseCipher::NoiseCipher() = default;
NoiseCipher::~NoiseCipher() = default;
void NoiseCipher::Begin(const uint8_t*) {}
void NoiseCipher::UseAes() {}
void NoiseCipher::Seal(const uint8_t*, size_t, uint8_t*, const uint8_t*,
                       size_t) {}
bool NoiseCipher::Open(uint8_t*, size_t, const uint8_t*, size_t) {
  return false;
}
void NoiseCipher::Rekey() {}

NoiseHandshake::NoiseHandshake(bool connects, const uint8_t*, size_t,
                               const JobKey&, const uint8_t*)
    : connects_(connects) {}
bool NoiseHandshake::Write(const uint8_t*, size_t, uint8_t*) { return false; }
bool NoiseHandshake::Read(const uint8_t*, size_t, uint8_t*) { return false; }
void NoiseHandshake::Split(NoiseCipher*, NoiseCipher*) {}

}  // namespace ringlet
