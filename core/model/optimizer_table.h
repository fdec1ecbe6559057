// The table of optimizers: one row for each class, all that is known of it.
//
// Internal to core/ and io/. To add an optimizer: its Kind, its factory and the
// members it needs in optimizers.h; its formula in optimizer_formulas.cc and
// its row in optimizer_table.cc. JSON in both directions, docs/reference.md,
// the fingerprint that ranks compare and the checks of its settings follow from
// the row.

#ifndef RINGLET_CORE_MODEL_OPTIMIZER_TABLE_H_
#define RINGLET_CORE_MODEL_OPTIMIZER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "../base/interval.h"
#include "../layers/initializers.h"
#include "optimizers.h"

namespace ringlet {

// What one update multiplies with, computed once.
struct StepScalars {
  float learning_rate = 0;
  float alpha = 0;  // the rate with the bias corrections, where there are any
  float decay = 0;  // weight_decay * learning_rate
  // 1 - rho, or 1 - beta_1 and 1 - beta_2: of the decimals that these were
  // written as (0.9999 and not its float32), rounded once.
  float rest_1 = 0;
  float rest_2 = 0;
  // Nadam: what the mean, the gradient and the mean square are multiplied by.
  float of_mean = 0, of_gradient = 0, of_square = 0;
  // Moments that all but vanished become 0 with this update. Of weights that
  // get no gradient any more they would shrink to denormal numbers, on which
  // most CPUs are tens of times slower. Every 64th update is often enough: at
  // a beta of 0.9 they lose 10 of the 16 powers of 2 that are left.
  bool settles = false;
};
// `updates` were made before.
StepScalars PrepareStep(const Optimizer& optimizer, float learning_rate,
                        int64_t updates);

// A range of the model's weights, of one variable.
struct UpdateCall {
  const Optimizer& optimizer;
  const StepScalars& scalars;
  const Regularizer& regularizer;
  int64_t n;
  float* w;
  const float* g;  // without the gradient of the regularizer
  float* const* slots;
};
// Updates w[0..n) and its slots. Element by element, so that any range may be
// updated by itself.
void UpdateRange(const UpdateCall& call);

// A setting that not all optimizers have.
struct OptimizerField {
  const char* name;  // Keras's
  std::variant<float Optimizer::*, bool Optimizer::*> value;
  Interval range = kAnyNumber;  // of a float
};

// In the order of memory and of checkpoints.
struct SlotNames {
  const char* names[4];  // Keras's
  int count;
  float first = 0;  // what the first one begins with
};

struct OptimizerClass {
  const char* name;              // Keras's class name, which is written
  const char* aliases;           // other names of it, with a blank between two
  Optimizer (*make)();           // with the defaults of Keras
  const OptimizerField* fields;  // as they are written
  size_t num_fields;
  SlotNames (*slots)(const Optimizer&);
  // Fills in what is its own, after the rest. `t` counts the updates from 1.
  void (*prepare)(const Optimizer&, double t, StepScalars*);
  void (*update)(const UpdateCall&);

  const OptimizerField* begin() const { return fields; }
  const OptimizerField* end() const { return fields + num_fields; }
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

#endif  // RINGLET_CORE_MODEL_OPTIMIZER_TABLE_H_
