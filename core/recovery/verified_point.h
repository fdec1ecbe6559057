// VerifiedPoint: a copy of a fit's state at the last boundary that several
// members verified.
//
// It has weights, optimizer slots, and the content of a StepSnapshot. There is
// one copy, allocated before the first step.

#ifndef RINGLET_CORE_RECOVERY_VERIFIED_POINT_H_
#define RINGLET_CORE_RECOVERY_VERIFIED_POINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ringlet/model.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"
#include "step_snapshot.h"

namespace ringlet {

class VerifiedPoint {
 public:
  // `model` outlives the VerifiedPoint.
  explicit VerifiedPoint(Model* model) : model_(*model) {}

  // Allocates the memory, once. kResourceExhausted if there is none.
  Status Reserve();
  // Copies the state. `snapshot` has all but weights and slots, and `digest` is
  // the digest of weights and slots.
  void Keep(const StepSnapshot& snapshot, int64_t epoch, int64_t digest);
  // Writes the copy to the state, and its snapshot to *snapshot.
  void Restore(StepSnapshot* snapshot);

  int64_t epoch() const { return epoch_; }
  int64_t digest() const { return digest_; }

 private:
  std::vector<StateSpan> Spans() const;

  Model& model_;
  std::unique_ptr<unsigned char[]> copy_;
  StepSnapshot snapshot_;
  int64_t epoch_ = 0;
  int64_t digest_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_RECOVERY_VERIFIED_POINT_H_
