// SimCollective: the Collective of a process of the simulated network, whose
// calls wait in virtual time. What Ring (net/ring/ring.h) does with two threads
// is done here by a Fiber.

#ifndef RINGLET_TESTS_NET_RING_SIM_COLLECTIVE_H_
#define RINGLET_TESTS_NET_RING_SIM_COLLECTIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "net/ring/wire_order.h"
#include "sim_fiber.h"
#include "sim_process.h"

namespace ringlet {
namespace sim {

class SimCollective final : public SimProcess,
                            public Session::Owner,
                            public Collective {
 public:
  // What there is to be told, and the end of a process: not of one that was
  // killed.
  class Owner {
   public:
    virtual void Trace(int worker, const std::string& what) = 0;
    // It is in a view of these workers.
    virtual void Met(int, const std::vector<int>&) {}
    virtual void Exited(int worker, const Status& status) = 0;

   protected:
    ~Owner() = default;
  };
  // What a process does, once its ring has formed.
  using Program = std::function<Status(SimCollective*)>;

  // A process begins. All outlive it.
  SimCollective(Network* network, const RingOptions* options, int worker,
                uint64_t seed, Program program, Owner* owner);
  ~SimCollective() override;

  // Of the simulation: the process ends.
  void Crash(bool silent);
  bool alive() const { return fiber_ != nullptr; }
  // What its program still does no longer counts.
  bool killed() const { return dead_; }

  // Of the program: it computes meanwhile.
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
  bool visited() const override { return visited_; }
  int worker() const override { return rank_; }

 private:
  // Session::Owner and SimProcess.
  void OnRunning() override;
  void OnCompleted(uint64_t sequence) override;
  void OnFailed(const Status& status) override;
  void OnTold() override;
  void OnVisited(bool visited) override { visited_ = visited; }
  void OnNotice(const std::string& line) override;
  void Closed() override;

  void Live();
  Status Begin();
  void Leave();
  Status StartSum(FrameType type, void* data, size_t count, Ticket* ticket);
  Status Submit(const Call& call, Ticket* ticket);
  Status Run(const Call& call);
  // Becomes true, and wakes the program.
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
  bool dead_ = false;   // the process was killed
  bool waits_ = false;  // the fiber, for something to happen
  bool woken_ = false;  // and will be resumed
  uint32_t count_ = 1;  // of the generations to propose
  uint64_t remaining_ = 0;
  // Of the session.
  std::vector<int> members_;
  bool running_ = false, visited_ = false, told_ = false, closed_ = true;
  Status failure_;
  uint64_t issued_ = 0, completed_ = 0, step_ = 0;
  WireOrder wire_order_;
};

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_COLLECTIVE_H_
