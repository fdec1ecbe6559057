// GradientExchange: exchanges gradients and reports between the ranks in a
// step.
//
// Owns the operations that have started: the sums of the gradients and the
// gather of the ranks' reports. Compile chooses the implementation. A step
// calls StartReport and FinishReport, and between them Begin, OnGradientsFinal
// and Finish. Drop may come at any time.
//
// Called from the training thread.

#ifndef RINGLET_CORE_EXCHANGE_GRADIENT_EXCHANGE_H_
#define RINGLET_CORE_EXCHANGE_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../graph/model_memory.h"
#include "../graph/step_timer.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // False if no other rank's gradients are added. This rank's gradients can
  // then be applied immediately.
  virtual bool sums() const = 0;

  // Begins the backward pass of replica `replica` of this rank's `replicas`.
  // The step's state changes are final.
  virtual void Begin(int replica, int replicas) = 0;
  // Sets how many replicas of all ranks contribute, from the next Begin on. For
  // local updates, where a rank may have no replica in a round (Begin(0, 0) and
  // OnGradientsFinal(0)).
  virtual void Expect(int /*contributions*/) {}
  // The replica's gradients from offset `begin` on are final. `begin` never
  // grows in a pass. The exchange adds them to the gradients of the earlier
  // passes. It owns the gradients of the last pass until Finish or Drop. Finish
  // returns an error that happens here.
  virtual void OnGradientsFinal(int64_t begin) = 0;
  virtual bool failed() const = 0;
  // Waits until gradients and state changes are sums over all replicas. If
  // *must_repeat becomes true, on every rank, they are not yet sums: all passes
  // of the step must run once more. After an error their content is undefined,
  // and Finish returns the error until Drop.
  virtual Status Finish(bool* must_repeat) = 0;
  // values[0 … count) become sums over all ranks, before it returns. A layer
  // calls it within a pass. The sums are not rounded on the wire.
  virtual Status Sum(float* values, int64_t count) = 0;
  // Ends or cancels the step. Waits for the operations that have started. An
  // error of these operations is not lost: the next call of the collective
  // returns it.
  virtual void Drop() = 0;

  // Gathers the reports: reports[r * bytes …] becomes report[0 … bytes) of
  // rank r.
  // `report` is read before Start returns. The exchange owns `reports` until
  // Finish or Drop.
  virtual Status StartReport(const void* report, size_t bytes,
                             void* reports) = 0;
  virtual Status FinishReport() = 0;
};

// Makes the exchange of a job with one replica.
std::unique_ptr<GradientExchange> MakeNoExchange();

// Makes the exchange of the `count` gradients in `spans` and the `changes`
// state changes directly after them. State changes are not rounded on the
// wire. `replicas` is the number in the job. All arguments outlive the
// exchange. Its destructor waits for the operations that have started.
std::unique_ptr<GradientExchange> MakeGradientExchange(
    Collective* collective, int replicas, const PersistentSpans& spans,
    int64_t count, int64_t changes, const StepTimer* timer);

}  // namespace ringlet

#endif  // RINGLET_CORE_EXCHANGE_GRADIENT_EXCHANGE_H_
