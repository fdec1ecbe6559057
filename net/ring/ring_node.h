// RingNode: a Session on libuv.
//
// Internal to net/. Owns what the session needs of the system: listeners, the
// timer of its ticks, name lookups and streams. All methods are called on the
// loop's thread, and so are the owner's.

#ifndef RINGLET_NET_RING_RING_NODE_H_
#define RINGLET_NET_RING_RING_NODE_H_

#include <uv.h>

#include <memory>
#include <string>
#include <vector>

#include "loop.h"
#include "name_lookup.h"
#include "relay_waits.h"
#include "sealed_stream.h"
#include "session.h"
#include "socket_address.h"
#include "uv_stream.h"

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

  // `hosts` are the parsed addresses, `own` those where this rank listens.
  RingNode(const RingOptions& options, std::vector<Address> hosts,
           std::vector<sockaddr_storage> own, uint32_t generation,
           uint64_t remaining, Loop* loop, Owner* owner);
  RingNode(const RingNode&) = delete;
  RingNode& operator=(const RingNode&) = delete;

  // As Session's, at the present time.
  void Begin();
  void BeginWithdrawal(const Status& why);
  void Start(const Call* calls, size_t count) {
    session_.Start(calls, count, Now());
  }
  void Abort(const Status& reason) { session_.Abort(reason, Now()); }
  // Looks for what comes through shared memory until the operation has ended,
  // while there is some, and a moment longer: to sleep and be woken takes as
  // long. For a guest of the loop, who gives his processor away in between.
  void Work(uint64_t sequence);
  bool all_shared() const { return session_.all_shared(); }
  void SetStep(uint64_t step) { session_.SetStep(step); }
  Waiting WaitsFor() { return session_.WaitsFor(Now()); }
  void Leave() { session_.Leave(Now()); }
  // On the loop's thread, or once that has ended.
  uint32_t newest() const { return session_.newest(); }
  uint64_t remaining() const { return session_.remaining(); }
  const std::vector<int>& workers() const { return session_.workers(); }
  bool told_by_other() const { return session_.told_by_other(); }

 private:
  Status Listen() override;
  void StopListening() override;
  Status Resolve(int peer, bool* done,
                 std::vector<Endpoint>* endpoints) override;
  Status Connect(int peer, const Endpoint& endpoint, StreamPtr* out) override;
  void TickEvery(int64_t nanos) override;
  void AwaitTurn() override;
  void OnLeft() override;
  void OnConnection(UvListener* listener) override;
  void OnJoined(StreamPtr stream, int64_t now) override;
  void OnNoRelay(const std::string& why) override { owner_->OnNotice(why); }

  bool MakeTimers();
  UvListener* NewListener();
  void ListenLocal(const sockaddr_storage& own);
  void Admit(UvListener* listener);
  void AdmitMore();
  Status WaitAtRelay();
  // Where `dials` reaches `listens` by a relay.
  RelayHello HelloOf(RelayHello::Role role, int listens, int dials,
                     const JobKey& key) const;
  Status Seal(SealedStream::Maker* make, int listens, StreamPtr* stream);
  Status ListenError(const Status& why) const;
  Status CheckDescriptors(int waits) const;
  static int64_t Now() { return static_cast<int64_t>(uv_hrtime()); }

  const RingOptions options_;
  const std::vector<Address> hosts_;
  const std::vector<sockaddr_storage> own_;
  const uint64_t cluster_hash_;
  Loop* const loop_;
  const bool shares_;  // memory with those on this host
  Owner* const owner_;
  UvHandles handles_;
  std::vector<std::unique_ptr<NameLookup>> lookups_;  // by rank; null: none
  std::vector<std::unique_ptr<UvListener>> listeners_;
  std::unique_ptr<RelayWaits> waits_;  // null: no relay
  uv_timer_t timer_;
  uv_idle_t turn_;
  uv_idle_t more_;       // has been admitted than in one turn of the loop
  bool timers_ = false;  // the three are there
  bool withdraws_ = false;
  int admits_;  // before others have their turn
  Greetings answered_;
  Session session_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RING_NODE_H_
