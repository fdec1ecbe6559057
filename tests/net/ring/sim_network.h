// A network of processes in virtual time, in one thread: the base of
// simulations of whole jobs.
//
// Events happen in the order of their time, and what is random comes from one
// generator: a seed gives the same history again. Every process has a clock
// that is off by a constant. Connections keep the order of their bytes, and
// none among each other; writes are partial, reads come in pieces.

#ifndef RINGLET_TESTS_NET_RING_SIM_NETWORK_H_
#define RINGLET_TESTS_NET_RING_SIM_NETWORK_H_

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "../../support/nanoseconds.h"
#include "net/transport/byte_stream.h"
#include "net/transport/endpoint_list.h"

namespace ringlet {
namespace sim {

class SimStream;

// Both directions of one connection.
struct Connection {
  struct Direction {
    bool cut = false;          // nothing arrives any more, without a message
    size_t in_flight = 0;      // taken and not yet read
    int64_t last_arrival = 0;  // of bytes or their end
    std::vector<uint8_t> unread;
  };
  int rank[2];                             // the process at each end
  uint64_t incarnation[2];                 // of that process
  SimStream* end[2] = {nullptr, nullptr};  // null: closed here
  Direction from[2];                       // from that end to the other
  bool local = false;
  int descriptor = -1;  // on its way to end 1
  ~Connection() {
    if (descriptor >= 0) close(descriptor);
  }
};
using ConnectionPtr = std::shared_ptr<Connection>;

class Network {
 public:
  // Accepts the connections of a process.
  class Listener {
   public:
    virtual void Accept(StreamPtr stream) = 0;

   protected:
    ~Listener() = default;
  };

  Network(int size, uint64_t seed);

  // Time and chance.
  int64_t now() const { return now_; }
  int64_t ClockOf(int rank) const { return now_ + processes_[rank].offset; }
  // 0 to n - 1; n > 0.
  int64_t Random(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  bool Chance(int one_in) { return Random(one_in) == 0; }
  void At(int64_t when, std::function<void()> what);
  // In that process: not if it has ended by then, later if it stands still.
  void InProcess(int rank, int64_t delay, std::function<void()> what);
  // Runs the next event; false where none is left.
  bool Step();
  // The digest of all events: their times, their two sides, and each byte sent.
  uint32_t trace_digest() const { return trace_digest_; }

  // Processes. Kill ends one. Its caller closes the streams: after it, as a
  // kernel does, or before it, so that other processes get no message.
  uint64_t StartProcess(int rank);
  void Kill(int rank) { ++processes_[rank].incarnation; }
  void Stall(int rank, int64_t nanos);
  // Its ends of connections that are not closed.
  int streams(int rank) const { return processes_[rank].streams; }
  void Listen(int rank, Listener* listener) {
    processes_[rank].listener = listener;
  }

  // The other end of an endpoint is a rank of SimEndpoint.
  Status Connect(int from, const Endpoint& endpoint, StreamPtr* out);

  // The way between two ranks, in nanoseconds and a random part of them.
  void SetLatency(int64_t least, int64_t more);
  // Nothing arrives that way, or is connected, until `when`; it comes late.
  void Block(int from, int to, int64_t until);
  // Makes a host silent: the bytes that its process still sends are lost.
  void Silence(int rank, bool silent) { processes_[rank].silent = silent; }
  // Ends a connection, or one direction of it, between two ranks; false where
  // there is none.
  bool Cut(int a, int b, bool half_open);

 private:
  friend class SimStream;
  struct Process {
    uint64_t incarnation = 0;
    int64_t offset = 0;
    int64_t stalled_until = 0;
    std::deque<std::function<void()>> deferred;  // until then
    bool silent = false;
    int streams = 0;
    Listener* listener = nullptr;
  };
  struct Event {
    int64_t when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  void Deliver(const ConnectionPtr& c, int side, int64_t when,
               uint64_t incarnation, std::function<void()> what);
  void Run(int rank, uint64_t incarnation, std::function<void()> what);
  void RunDeferred(int rank, uint64_t incarnation);
  int64_t Arrival(const ConnectionPtr& c, int side);
  void SendBytes(const ConnectionPtr& c, int side, std::vector<uint8_t> bytes);
  void SendEnd(const ConnectionPtr& c, int side, LossCause cause);
  void Read(const ConnectionPtr& c, int side);
  bool Listens(int rank) const {
    return processes_[rank].listener != nullptr && !processes_[rank].silent;
  }
  bool Lost(const ConnectionPtr& c, int side) const {
    return c->from[side].cut || processes_[c->rank[side]].silent;
  }

  const int size_;
  std::mt19937_64 random_;
  int64_t now_ = 0;
  uint64_t order_ = 0;
  uint32_t trace_digest_ = 0;
  std::priority_queue<Event> events_;
  std::vector<Process> processes_;
  std::vector<int64_t> blocked_until_;  // [from * size + to]
  int64_t latency_ = 100000;
  int64_t jitter_ = 400000;
  std::vector<std::weak_ptr<Connection>> connections_;
};

Endpoint SimEndpoint(int rank, bool local);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_NETWORK_H_
