// Relay: joins workers that can only dial out.
//
// Joins two connections that name the same channel (net/wire/relay_hello.h),
// and moves the bytes of each to the other. It has no key and reads nothing:
// jobs that use it are sealed from worker to worker. It takes a bounded number
// of connections, and 64 KiB for each joined one. A connection without a hello,
// or with a closed peer, is closed after a while. A connection without a hello
// is closed earlier if another needs its place.

#ifndef RINGLET_NET_RELAY_RELAY_H_
#define RINGLET_NET_RELAY_RELAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "ringlet/status.h"

namespace ringlet {

struct RelayOptions {
  // "host:port" of one of this host's addresses, or "port" for all of its
  // addresses.
  std::string address;
  int connections = 256;       // the most at a time; more are closed
  double hello_seconds = 10;   // the time limit of a hello
  double silent_seconds = 1;   // the limit while no place is left
  double dial_seconds = 60;    // a connection that dials waits for its listener
  double linger_seconds = 10;  // the most after the end of the other side
};

class Relay {
 public:
  // Listens and relays on a thread of its own until it is destroyed.
  static Status Start(const RelayOptions& options, std::unique_ptr<Relay>* out);
  virtual ~Relay() = default;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RELAY_RELAY_H_
