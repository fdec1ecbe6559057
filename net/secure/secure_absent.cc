// Replaces noise.cc in a build without libsodium. Callers call SecureStart
// first, so no other function here is called.

#include <cstring>

#include "../../core/base/left_out.h"
#include "noise.h"

namespace ringlet {

Status SecureStart() {
  return LeftOut("sealed connections, which a key needs", "secure",
                 "-Dsecure=enabled");
}
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
