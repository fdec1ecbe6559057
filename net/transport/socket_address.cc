#include "socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <uv.h>

#include <cstring>

#include "../secure/noise.h"

namespace ringlet {

Status NumericAddress(const Address& from, sockaddr_storage* out) {
  std::memset(out, 0, sizeof(*out));
  const bool local = from.host == "localhost";
  const char* host = local ? "127.0.0.1" : from.host.c_str();
  if (uv_ip4_addr(host, from.port, reinterpret_cast<sockaddr_in*>(out)) == 0 ||
      uv_ip6_addr(host, from.port, reinterpret_cast<sockaddr_in6*>(out)) == 0) {
    return Status();
  }
  return NotFound("%s is not a numeric address", host);
}

void AllAddresses(int port, sockaddr_storage* out) {
  *out = {};
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  if (probe < 0) {  // the system has no IPv6
    uv_ip4_addr("0.0.0.0", port, reinterpret_cast<sockaddr_in*>(out));
    return;
  }
  close(probe);
  uv_ip6_addr("::", port, reinterpret_cast<sockaddr_in6*>(out));
}

void SetPort(int port, sockaddr_storage* address) {
  const uint16_t network = htons(static_cast<uint16_t>(port));
  if (address->ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = network;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = network;
  }
}

std::string AddressText(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET6) {
    const auto* a = reinterpret_cast<const sockaddr_in6*>(&address);
    uv_ip6_name(a, host, sizeof(host));
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(a->sin6_port));
  }
  if (address.ss_family != AF_INET) return "a local socket";
  const auto* a = reinterpret_cast<const sockaddr_in*>(&address);
  uv_ip4_name(a, host, sizeof(host));
  return std::string(host) + ":" + std::to_string(ntohs(a->sin_port));
}

namespace {

bool SameHostAs(const sockaddr_storage& a, const sockaddr* b) {
  if (a.ss_family != b->sa_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(&a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

}  // namespace

bool IsLoopbackAddress(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  return address.ss_family == AF_INET &&
         ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

bool IsLoopback(const Address& host) {
  sockaddr_storage address;
  return NumericAddress(host, &address).ok() && IsLoopbackAddress(address);
}

bool SameHost(const sockaddr_storage& a, const sockaddr_storage& b) {
  return SameHostAs(a, reinterpret_cast<const sockaddr*>(&b));
}

bool SameAddress(const sockaddr_storage& a, const sockaddr_storage& b) {
  return AddressText(a) == AddressText(b);
}

bool IsLocalAddress(const sockaddr_storage& address) {
  if (IsLoopbackAddress(address)) return true;
  uv_interface_address_t* list = nullptr;
  int count = 0;
  if (uv_interface_addresses(&list, &count) != 0) return false;
  bool found = false;
  for (int i = 0; i < count; ++i) {
    found = found || SameHostAs(address, reinterpret_cast<const sockaddr*>(
                                             &list[i].address));
  }
  uv_free_interface_addresses(list, count);
  return found;
}

std::string LocalSocketName(const sockaddr_storage& address,
                            const JobKey* key) {
#ifdef __linux__
  std::string name = "ringlet/" + AddressText(address);
  if (key != nullptr) {
    uint8_t tag[kKeyTagBytes];
    KeyTag(*key, name.data(), name.size(), tag);
    name += '/';
    for (const uint8_t byte : tag) {
      for (const int digit : {byte >> 4, byte & 15}) {
        name += "0123456789abcdef"[digit];
      }
    }
  }
  return std::string(1, '\0') + name;
#else
  (void)address;
  (void)key;
  return "";
#endif
}

}  // namespace ringlet
