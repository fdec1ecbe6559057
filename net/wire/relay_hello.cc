#include "relay_hello.h"

#include <cstring>

namespace ringlet {
namespace {

constexpr uint8_t kMagic[8] = {'R', 'G', 'R', 'E', 'L', 'A', 'Y', '1'};

}  // namespace

void EncodeRelayHello(const RelayHello& hello, uint8_t* out) {
  std::memcpy(out, kMagic, sizeof(kMagic));
  out[sizeof(kMagic)] = hello.role;
  std::memcpy(out + sizeof(kMagic) + 1, hello.channel, kRelayChannelBytes);
}

bool DecodeRelayHello(const uint8_t* data, RelayHello* hello) {
  const uint8_t role = data[sizeof(kMagic)];
  if (std::memcmp(data, kMagic, sizeof(kMagic)) != 0 ||
      (role != RelayHello::kListens && role != RelayHello::kDials)) {
    return false;
  }
  hello->role = static_cast<RelayHello::Role>(role);
  std::memcpy(hello->channel, data + sizeof(kMagic) + 1, kRelayChannelBytes);
  return true;
}

}  // namespace ringlet
