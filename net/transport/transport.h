// Transport: the endpoints, connections and ticks that a Session needs.
//
// Implemented on libuv by RingNode, and by the simulator of the tests. All
// calls are on one thread. No method calls the Session: results arrive later as
// events.

#ifndef RINGLET_NET_TRANSPORT_TRANSPORT_H_
#define RINGLET_NET_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <vector>

#include "byte_stream.h"
#include "endpoint_list.h"

namespace ringlet {

class Transport {
 public:
  // Accepted connections go to Session::OnAccepted. Returns an error, which
  // names the address, only if waiting cannot help. Otherwise the transport
  // tries again until StopListening.
  virtual Status Listen() = 0;
  virtual void StopListening() = 0;
  // Why other workers may not be able to reach this one yet, or OK.
  virtual Status WhyUnreachable() const { return Status(); }

  // Finds the endpoints of a worker, in the order in which to try them. The
  // first call begins a lookup, and so does the first call after an answer.
  // Until there is an answer, *done is false and the Status has the reason for
  // the wait.
  virtual Status Resolve(int peer, bool* done,
                         std::vector<Endpoint>* endpoints) = 0;
  // Makes a stream to `peer`, which connects or is already open().
  virtual Status Connect(int peer, const Endpoint& endpoint,
                         StreamPtr* out) = 0;

  // Starts to call Session::Tick every `nanos`.
  virtual void TickEvery(int64_t nanos) = 0;
  // Calls Session::RunTurn once all received bytes have been read.
  virtual void RequestTurn() = 0;
  // Called by the Session after Leave, when all connections are closed.
  virtual void OnLeft() = 0;

 protected:
  ~Transport() = default;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_TRANSPORT_H_
