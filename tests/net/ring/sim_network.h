// A network of processes in virtual time, in one thread: the base of
// simulations of whole jobs.
//
// Events happen in the order of their times, and all random numbers come from
// one generator, so a seed gives the same history again. The clock of each
// process differs from the network's by a constant. A connection keeps the
// order of its bytes; the bytes of two connections have no order. Writes are
// partial, and reads come in pieces.

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
    bool cut = false;          // all later bytes are lost, without a message
    size_t in_flight = 0;      // bytes that are written and not yet read
    int64_t last_arrival = 0;  // the last arrival of bytes or of their end
    std::vector<uint8_t> unread;
  };
  int rank[2];                             // the process at each end
  uint64_t incarnation[2];                 // the process's incarnation
  SimStream* end[2] = {nullptr, nullptr};  // null if this end is closed
  Direction from[2];                       // the bytes of each end
  bool local = false;
  int descriptor = -1;  // a descriptor that is sent to end 1
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
  // Runs `what` in the process of `rank` after `delay`. Does nothing if the
  // process has ended by then, and waits while it is stalled.
  void InProcess(int rank, int64_t delay, std::function<void()> what);
  // Runs the next event. False if none is left.
  bool Step();
  // A digest of the time of each event, and of the ranks and bytes of each
  // transfer.
  uint32_t trace_digest() const { return trace_digest_; }

  // Processes. Kill ends a process, and its caller then closes the streams, as
  // a kernel does. If Silence comes first, the other processes get no message.
  uint64_t StartProcess(int rank);
  void Kill(int rank) { ++processes_[rank].incarnation; }
  void Stall(int rank, int64_t nanos);
  // The number of the process's ends of connections that are not closed.
  int streams(int rank) const { return processes_[rank].streams; }
  void Listen(int rank, Listener* listener) {
    processes_[rank].listener = listener;
  }

  // `endpoint` is a SimEndpoint, which has the other rank.
  Status Connect(int from, const Endpoint& endpoint, StreamPtr* out);

  // The nanoseconds of each transfer: `least`, and a random part of `more`.
  void SetLatency(int64_t least, int64_t more);
  // Bytes and connections from `from` to `to` arrive after `until`, not
  // earlier.
  void Block(int from, int to, int64_t until);
  // Makes a host silent: the bytes that its process still sends are lost.
  void Silence(int rank, bool silent) { processes_[rank].silent = silent; }
  // Ends a connection between two ranks, or one direction of it. False if the
  // ranks have no connection.
  bool Cut(int a, int b, bool half_open);

 private:
  friend class SimStream;
  struct Process {
    uint64_t incarnation = 0;
    int64_t offset = 0;
    int64_t stalled_until = 0;
    std::deque<std::function<void()>> deferred;  // events after the stall
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
