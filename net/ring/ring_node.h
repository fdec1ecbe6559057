// RingNode: a Session on libuv.
//
// Owns what the session needs of the system: listeners, the timer of its ticks,
// name lookups and streams. All methods are called on the loop's thread, and so
// are the methods of the owner.

#ifndef RINGLET_NET_RING_RING_NODE_H_
#define RINGLET_NET_RING_RING_NODE_H_

#include <uv.h>

#include <memory>
#include <string>
#include <vector>

#include "../membership/session.h"
#include "../transport/listeners.h"
#include "../transport/loop.h"
#include "../transport/name_lookup.h"
#include "../transport/relay_waits.h"
#include "../transport/sealed_stream.h"
#include "../transport/socket_address.h"
#include "../transport/uv_stream.h"

namespace ringlet {

class RingNode final : private Transport,
                       private UvListener::Owner,
                       private RelayWaits::Owner {
 public:
  class Owner : public Session::Owner {
   public:
    // After Leave: all handles are closed.
    virtual void OnClosed() = 0;
    // The step that the training thread is in.
    virtual uint64_t Step() = 0;

   protected:
    ~Owner() = default;
  };

  // `hosts` are the parsed addresses, `own_addresses` those where this worker
  // listens. If `own_addresses` is empty, they are looked up.
  RingNode(const RingOptions& options, std::vector<Address> hosts,
           OwnAddresses own_addresses, uint32_t generation,
           uint64_t remaining_mask, Loop* loop, Owner* owner);
  RingNode(const RingNode&) = delete;
  RingNode& operator=(const RingNode&) = delete;

  // Session's functions of these names, at the present time.
  void Begin();
  void BeginWithdrawal(const Status& why);
  void Start(const Call* calls, size_t count) {
    session_.Start(calls, count, UvNanos());
  }
  void Abort(const Status& reason) { session_.Abort(reason, UvNanos()); }
  // Polls shared memory until the operation has ended, while bytes arrive and
  // 50 us longer, which is the cost of a sleep and a wake-up. For a thread that
  // has entered the loop; it yields its processor in between.
  void PollUntilEnded(uint64_t sequence);
  bool all_shared() const { return session_.all_shared(); }
  void SetStep(uint64_t step) { session_.SetStep(step); }
  // May be called from any thread.
  int64_t idle_nanos() const { return session_.idle_nanos(); }
  WaitChain CurrentWait() { return session_.CurrentWait(UvNanos()); }
  void Leave() { session_.Leave(UvNanos()); }
  // On the loop's thread, or once that has ended.
  uint32_t newest_generation() const { return session_.newest_generation(); }
  uint64_t remaining_workers() const { return session_.remaining_workers(); }
  const std::vector<int>& workers() const { return session_.workers(); }
  bool reported_by_other() const { return session_.reported_by_other(); }

 private:
  Status Listen() override;
  void StopListening() override;
  Status WhyUnreachable() const override {
    return listeners_.unreachable_reason();
  }
  Status Resolve(int peer, bool* done,
                 std::vector<Endpoint>* endpoints) override;
  Status Connect(int peer, const Endpoint& endpoint, StreamPtr* out) override;
  void TickEvery(int64_t nanos) override;
  void RequestTurn() override;
  void OnLeft() override;
  void OnConnection(UvListener* listener) override;
  void OnJoined(StreamPtr stream, int64_t now) override;
  void OnNoRelay(const std::string& why) override { owner_->OnNotice(why); }

  bool InitHandles();
  void Admit(UvListener* listener);
  void AdmitMore();
  Status WaitAtRelay();
  // The relay hello for the channel from worker `dials` to worker `listens`.
  RelayHello MakeHello(RelayHello::Role role, int listens, int dials,
                       const JobKey& key) const;
  Status Seal(SealedStream::Maker* make, int listens, StreamPtr* stream);
  Status CheckDescriptors(int relay_connections) const;

  const RingOptions options_;
  const std::vector<Address> hosts_;
  const uint64_t cluster_hash_;
  Loop* const loop_;
  const bool shares_;  // shares memory with workers on this host
  Owner* const owner_;
  UvHandles handles_;
  // The lookup of each worker's name; null if there is none.
  std::vector<std::unique_ptr<NameLookup>> lookups_;
  Listeners listeners_;
  const bool forms_again_;
  std::unique_ptr<RelayWaits> waits_;  // null without a relay
  uv_timer_t timer_;
  uv_idle_t turn_idle_;
  uv_idle_t admit_idle_;      // admits more connections in the next turn
  bool initialized_ = false;  // timer_, turn_idle_ and admit_idle_ are
  bool withdraws_ = false;
  int admits_left_;  // connections that may still be accepted in this turn
  SeenGreetings answered_;
  Session session_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_NODE_H_
