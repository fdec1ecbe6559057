// SimCollective: the Collective of a process in the simulated network. Its
// calls wait in virtual time. A Fiber does the work of the two threads of Ring
// (net/ring/ring.h).

#ifndef RINGLET_TESTS_NET_RING_SIM_COLLECTIVE_H_
#define RINGLET_TESTS_NET_RING_SIM_COLLECTIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/ring/wire_order.h"
#include "ringlet/collective.h"
#include "sim_fiber.h"
#include "sim_process.h"

namespace ringlet {
namespace sim {

class SimCollective final : public SimProcess,
                            public Session::Owner,
                            public Collective {
 public:
  // Gets the events of a process, and its end unless it was killed.
  class Owner {
   public:
    virtual void Trace(int worker, const std::string& what) = 0;
    // The worker is in a view of these workers.
    virtual void OnView(int, const std::vector<int>&) {}
    virtual void Exited(int worker, const Status& status) = 0;

   protected:
    ~Owner() = default;
  };
  // The work of a process, once its ring has formed.
  using Program = std::function<Status(SimCollective*)>;

  // Starts a process. All arguments outlive it.
  SimCollective(Network* network, const RingOptions* options, int worker,
                uint64_t seed, Program program, Owner* owner);
  ~SimCollective() override;

  // Called by the simulation: ends the process.
  void Crash(bool silent);
  bool alive() const { return fiber_ != nullptr; }
  // True after Crash. The rest of its program has no effect.
  bool killed() const { return killed_; }

  // Called by the program: computes for this time.
  void Sleep(int64_t nanos);

  int rank() const override;
  int size() const override { return static_cast<int>(members_.size()); }
  std::string address(int rank) const override;
  size_t bucket_bytes() const override { return 256; }
  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    return StartSum(FrameType::kAllReduce, data, count, ticket);
  }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return StartSum(FrameType::kAllReduceInts, data, count, ticket);
  }
  Status Wait(Ticket ticket) override;
  Status Broadcast(void* data, size_t bytes, int root) override;
  Status AllGather(const void* in, size_t bytes, void* out) override;
  Status StartAllGather(const void* in, size_t bytes, void* out,
                        Ticket* ticket) override;
  Status Barrier() override;
  void Abort(const Status& reason) override;
  void SetStep(uint64_t step) override;
  Status Reform() override;
  bool elastic() const override { return true; }
  bool has_joiner() const override { return has_joiner_; }
  int worker() const override { return rank_; }

 private:
  // Session::Owner and SimProcess.
  void OnRunning() override;
  void OnCompleted(uint64_t sequence) override;
  void OnFailed(const Status& status) override;
  void OnDelivered() override;
  void OnJoiner(bool has_joiner) override { has_joiner_ = has_joiner; }
  void OnNotice(const std::string& line) override;
  void Closed() override;

  void RunProgram();
  Status Begin();
  void Leave();
  Status StartSum(FrameType type, void* data, size_t count, Ticket* ticket);
  Status Submit(const Call& call, Ticket* ticket);
  Status Run(const Call& call);
  // Returns a flag that becomes true after this time, and then wakes the
  // program.
  std::shared_ptr<const bool> After(int64_t nanos);
  template <typename Condition>
  void Await(const Condition& condition);
  void Wake();
  void Resume();

  const RingOptions* const options_;
  const Program program_;
  Owner* const owner_;
  std::unique_ptr<Fiber> fiber_;
  Status result_;
  bool killed_ = false;  // the process was killed
  bool waits_ = false;   // the fiber waits for an event
  bool woken_ = false;   // the fiber will be resumed
  uint32_t count_ = 1;   // the count in the next proposed generation
  uint64_t remaining_mask_ = 0;
  // The state of the present session.
  std::vector<int> members_;
  bool running_ = false, has_joiner_ = false, delivered_ = false,
       closed_ = true;
  Status failure_;
  uint64_t issued_ = 0, completed_ = 0, step_ = 0;
  WireOrder wire_order_;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_COLLECTIVE_H_
