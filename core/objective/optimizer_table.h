// The table of optimizers: one row for each class, with all facts about it.
//
// To add an optimizer, add its Kind, its factory and the members that it needs
// to optimizers.h and optimizers.cc, its formula to optimizer_formulas.cc, the
// formula's declaration to this header, and its row to optimizer_table.cc. JSON
// in both directions, docs/reference.md, the fingerprint that ranks compare and
// the checks of its settings follow from the row.

#ifndef RINGLET_CORE_OBJECTIVE_OPTIMIZER_TABLE_H_
#define RINGLET_CORE_OBJECTIVE_OPTIMIZER_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "../base/named.h"
#include "config_field.h"
#include "ringlet/layers.h"
#include "ringlet/optimizers.h"

namespace ringlet {

constexpr Named<LearningRate::Kind> kSchedules[] = {
    {"ExponentialDecay", LearningRate::Kind::kExponentialDecay},
    {"CosineDecay", LearningRate::Kind::kCosineDecay},
    {"PiecewiseConstantDecay", LearningRate::Kind::kPiecewiseConstantDecay},
    {"PolynomialDecay", LearningRate::Kind::kPolynomialDecay},
    {"InverseTimeDecay", LearningRate::Kind::kInverseTimeDecay},
    {"CosineDecayRestarts", LearningRate::Kind::kCosineDecayRestarts},
};

// The factors of one update, computed once.
struct StepScalars {
  float learning_rate = 0;
  float alpha = 0;  // the rate with bias corrections, if there are any
  float decay = 0;  // weight_decay * learning_rate
  // 1 - rho, or 1 - beta_1 and 1 - beta_2. They are computed from the decimals
  // of these settings (0.9999 and not its float32), and rounded once.
  float one_minus_beta_1 = 0;
  float one_minus_beta_2 = 0;
  // Nadam: the factors of the mean, the gradient and the mean square.
  float mean_factor = 0, gradient_factor = 0, square_factor = 0;
  // This update replaces moments that have nearly vanished by 0. Without
  // gradients they would shrink to denormal numbers, which are tens of times
  // slower on most CPUs. Every 64th update is often enough: with a beta of 0.9
  // moments lose 10 of the remaining 16 powers of 2 in that time.
  bool flushes_tiny_moments = false;
};
// `updates` is the number of earlier updates.
StepScalars PrepareStep(const Optimizer& optimizer, float learning_rate,
                        int64_t updates);

// A range of one variable's weights.
struct UpdateCall {
  const Optimizer& optimizer;
  const StepScalars& scalars;
  const Regularizer& regularizer;
  int64_t n;
  float* w;
  const float* g;  // lacks the regularizer's gradient
  float* const* slots;
};
// Updates w[0..n) and its slots, element by element, so that any range can be
// updated alone.
void UpdateRange(const UpdateCall& call);

// Replaces magnitudes below 2^-110 by 0.
void FlushTinyMoments(int64_t n, float* slot);
// The update of each optimizer, on a range of the weights and of its slots
// (optimizer_formulas.cc).
void UpdateSgd(const UpdateCall& call);
void UpdateRmsprop(const UpdateCall& call);
void UpdateAdam(const UpdateCall& call);
void UpdateAdamax(const UpdateCall& call);
void UpdateNadam(const UpdateCall& call);
void UpdateAdagrad(const UpdateCall& call);
void UpdateAdadelta(const UpdateCall& call);
void UpdateLion(const UpdateCall& call);

// Names of slots, in the order of memory and of checkpoints.
struct SlotNames {
  const char* names[4];  // the names in Keras
  int count;
  float first = 0;  // initial value of the first slot
};

struct OptimizerClass {
  const char* name;     // Keras's class name, which is written
  const char* aliases;  // other names, separated by spaces
  Optimizer (*make)();  // sets Keras's defaults
  FieldTable<Optimizer> fields;
  SlotNames (*slots)(const Optimizer&);
  // Sets the scalars of this class, after the common ones. `t` counts updates
  // from 1.
  void (*prepare)(const Optimizer&, double t, StepScalars*);
  void (*update)(const UpdateCall&);
};

struct OptimizerTable {
  const OptimizerClass* begin() const { return first; }
  const OptimizerClass* end() const { return first + count; }
  const OptimizerClass* first;
  size_t count;
};
OptimizerTable AllOptimizers();
const OptimizerClass& ClassOf(const Optimizer& optimizer);

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_OPTIMIZER_TABLE_H_
