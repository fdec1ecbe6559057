// A process of the simulated network that has one session after another: its
// transport.

#ifndef RINGLET_TESTS_NET_RING_SIM_PROCESS_H_
#define RINGLET_TESTS_NET_RING_SIM_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "net/membership/session.h"
#include "net/transport/sealed_stream.h"
#include "sim_network.h"

namespace ringlet {
namespace sim {

class SimProcess : public Transport, public Network::Listener {
 protected:
  SimProcess(Network* network, int rank, uint64_t seed,
             std::shared_ptr<const JobKeys> keys)
      : rank_(rank), network_(network), seed_(seed), keys_(std::move(keys)) {}
  ~SimProcess() = default;

  Network* network() const { return network_; }
  int64_t Now() const { return network_->ClockOf(rank_); }
  // Call it before session_ becomes another session.
  void NewSession() {
    ++session_number_;
    turn_ = false;
  }
  void EndSession();
  // Ends the process and closes its streams. If `silent`, the host becomes
  // silent before, so the other processes get no message.
  void EndProcess(bool silent);
  // Runs `what` after `delay`, unless the session has ended by then.
  void InSession(int64_t delay, std::function<void()> what);
  // Called when the session has left.
  virtual void Closed() = 0;

  const int rank_;
  SeenGreetings answered_;  // outlives the session's streams
  std::unique_ptr<Session> session_;

 private:
  // Transport.
  Status Listen() override;
  void StopListening() override;
  Status Resolve(int peer, bool* done,
                 std::vector<Endpoint>* endpoints) override;
  Status Connect(int peer, const Endpoint& endpoint, StreamPtr* out) override;
  void TickEvery(int64_t nanos) override;
  void RequestTurn() override;
  void OnLeft() override;
  void Accept(StreamPtr stream) override;

  void Seal(SealedStream::Maker* make, int listens, StreamPtr* stream);
  void DrawDelivery(StreamPtr* stream);
  void TickLater(uint64_t timer);
  // True if the process can share memory. Some processes cannot, as in an older
  // version.
  bool shares() const {
    return (static_cast<uint64_t>(rank_) + seed_) % 4 != 0;
  }

  Network* const network_;
  const uint64_t seed_;
  const std::shared_ptr<const JobKeys> keys_;
  uint64_t session_number_ = 0;  // events of an older session do nothing
  uint64_t timer_ = 0;
  int64_t every_ = 0;
  bool turn_ = false;
  int lookups_ = 0;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_PROCESS_H_
