// OtherProtocol: names the protocol of a peer that is not a worker.

#ifndef RINGLET_NET_WIRE_OTHER_PROTOCOL_H_
#define RINGLET_NET_WIRE_OTHER_PROTOCOL_H_

#include <cstdint>
#include <cstring>

namespace ringlet {

// `in` has the first four bytes from a peer. Returns the end of an error
// message that names the protocol and the remedy: "; that is HTTP: …". Returns
// Empty if the protocol is not known.
inline const char* OtherProtocol(const uint8_t* in) {
  const auto begins = [in](const char* text) {
    return std::memcmp(in, text, 4) == 0;
  };
  if (begins("HTTP") || begins("GET ") || begins("POST") || begins("HEAD") ||
      begins("PUT ") || begins("PRI ")) {
    return "; that is HTTP: give the address of a worker, not of a web server "
           "or proxy";
  }
  if (begins("SSH-")) return "; that is SSH: give the port of a worker";
  return "";
}

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_OTHER_PROTOCOL_H_
