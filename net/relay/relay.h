// Relay: where workers meet that can only dial out.
//
// Internal to net/. Joins two connections that name the same channel
// (net/wire/relay_hello.h), and moves the bytes of each to the other. It has no
// key and reads nothing: jobs that use it are sealed from worker to worker. So
// many connections at most; 64 KiB for each that is joined; who says nothing,
// or whose other side has ended, is let go after a while, and who says nothing
// gives way to others before.

#ifndef RINGLET_NET_RELAY_RELAY_H_
#define RINGLET_NET_RELAY_RELAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "../../core/base/status.h"

namespace ringlet {

struct RelayOptions {
  // "host:port" of one of this host's addresses, or "port" of all of them.
  std::string address;
  int connections = 256;       // the most at a time; others are closed
  double hello_seconds = 10;   // to say what it comes for …
  double silent_seconds = 1;   // … and where no place is left, for the next
  double dial_seconds = 60;    // one that dials waits for its listener
  double linger_seconds = 10;  // after the end of the other side
};

class Relay {
 public:
  // Listens, and serves on a thread of its own until it is destroyed.
  static Status Start(const RelayOptions& options, std::unique_ptr<Relay>* out);
  virtual ~Relay() = default;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RELAY_RELAY_H_
