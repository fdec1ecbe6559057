// Transport: what a Session needs of the world: endpoints, connections, ticks.
//
// Internal to net/. Implemented on libuv by RingNode, and by the simulator of
// the tests. Everything happens on one thread, and no method calls back into
// the Session: what follows from it comes as an event of its own.

#ifndef RINGLET_NET_RING_TRANSPORT_H_
#define RINGLET_NET_RING_TRANSPORT_H_

#include <cstdint>
#include <vector>

#include "byte_stream.h"
#include "candidates.h"

namespace ringlet {

class Transport {
 public:
  // What connects goes to Session::OnAccepted. The error names the address.
  virtual Status Listen() = 0;
  virtual void StopListening() = 0;

  // Where a rank may be reached, in the order in which to try. The first call
  // begins a lookup, and so does the first after an answer; until there is one,
  // `done` is false and the Status says what it waits for.
  virtual Status Resolve(int peer, bool* done,
                         std::vector<Endpoint>* endpoints) = 0;
  // A stream to `peer`, that is connecting, or already open().
  virtual Status Connect(int peer, const Endpoint& endpoint,
                         StreamPtr* out) = 0;

  // Session::Tick is to be called every `nanos` from now on.
  virtual void TickEvery(int64_t nanos) = 0;
  // Session::TakeTurn is to be called once what has arrived has been read.
  virtual void AwaitTurn() = 0;
  // All connections are closed, after Session::Leave.
  virtual void OnLeft() = 0;

 protected:
  ~Transport() = default;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_TRANSPORT_H_
