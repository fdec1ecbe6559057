// GradientExchange: what the ranks send each other in a training step.
//
// Internal to core/. Owns what is under way: the gradients' sums over the ranks
// and the gather of the ranks' reports. Chosen at Compile. In a step the calls
// are Start/FinishReport around Begin, Ready and Finish, or Drop at any time.
//
// Called from the training thread.

#ifndef RINGLET_CORE_MODEL_GRADIENT_EXCHANGE_H_
#define RINGLET_CORE_MODEL_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../base/collective.h"
#include "../base/status.h"
#include "model_memory.h"
#include "step_timer.h"

namespace ringlet {

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // False: nobody else's gradients are added, so those that this rank has
  // computed may be used at once.
  virtual bool sums() const = 0;

  // The backward pass of number `replica` of this rank's `replicas` begins.
  // What the step changes in state is final.
  virtual void Begin(int replica, int replicas) = 0;
  // From the next Begin on so many replicas contribute, of all ranks: of local
  // updates, where a rank may have none of them (Begin(0, 0) and Ready(0)).
  virtual void Expect(int /*contributions*/) {}
  // The replica's gradients from the offset `begin` on are final; `begin` never
  // grows in a pass. They are added to those of the passes before; from the
  // last pass on they are the exchange's until Finish or Drop. An error stays
  // for Finish.
  virtual void Ready(int64_t begin) = 0;
  virtual bool failed() const = 0;
  // Returns once gradients and changes are sums over all replicas; or *again is
  // true, on every rank: they are not, and all passes of the step are to be
  // made once more. An error, after which their content is undefined, is
  // returned until Drop.
  virtual Status Finish(bool* again) = 0;
  // values[0 … count) become sums over all ranks, now: of what a layer asks in
  // the middle of a pass. No wire rounds them.
  virtual Status Sum(float* values, int64_t count) = 0;
  // The step is over, or given up: waits for what is under way. An error of it
  // is not lost: the collective's next call has it again.
  virtual void Drop() = 0;

  // all[r * bytes …] becomes rank r's mine[0 … bytes): `mine` is read before
  // Start returns, `all` belongs to the exchange until Finish or Drop.
  virtual Status StartReport(const void* mine, size_t bytes, void* all) = 0;
  virtual Status FinishReport() = 0;
};

// Of a replica alone.
std::unique_ptr<GradientExchange> MakeNoExchange();

// For the `count` gradients in `kept` and, right behind them, `changes` floats
// that a step changes state by, which no wire rounds; of so many replicas in
// the job. All outlive the exchange; it waits for what is under way when it is
// destroyed.
std::unique_ptr<GradientExchange> MakeGradientExchange(
    Collective* collective, int replicas, const KeptSpans& kept, int64_t count,
    int64_t changes, const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_GRADIENT_EXCHANGE_H_
