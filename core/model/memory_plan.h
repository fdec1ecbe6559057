// MemoryPlan: what training takes.
//
// Public. A value; see Model::PlanMemory.

#ifndef RINGLET_CORE_MODEL_MEMORY_PLAN_H_
#define RINGLET_CORE_MODEL_MEMORY_PLAN_H_

#include <cstdint>

namespace ringlet {

// What training with batches of one size takes, in bytes as they are placed,
// each a multiple of Arena::kAlignment.
struct MemoryPlan {
  uint64_t weights = 0;
  // Of the trained weights, and of state; twice where a worker has several
  // replicas; with exact reduction a byte for 256 of them.
  uint64_t gradients = 0;
  uint64_t slots = 0;  // the optimizer's
  // Of local updates: a round's first weights, the outer momentum, and what
  // each further replica of the worker has changed; with sparse changes the
  // error feedback of all replicas, with overlap where each of them begins, and
  // a change that travels.
  uint64_t local = 0;
  uint64_t batches = 0;  // examples and labels: of this step and of the next
  uint64_t activations = 0;  // the layers' outputs
  uint64_t activation_gradients = 0;
  uint64_t scratch = 0;  // of single layers, and the examples' losses
  // Outputs, gradients and scratch that do not live at the same time have some
  // bytes in common: so many less.
  uint64_t shared = 0;
  // Layers whose outputs are computed again for the backward pass, and the
  // multiply-adds of that for one example.
  int recomputed = 0;
  int64_t recomputed_multiply_adds = 0;
  uint64_t kept() const { return weights + gradients + slots + local; }
  uint64_t total() const {
    return kept() + batches + activations + activation_gradients + scratch -
           shared;
  }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MEMORY_PLAN_H_
