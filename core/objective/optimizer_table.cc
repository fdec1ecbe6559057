// The rows: fields, slots, and the scalars of a step. optimizer_formulas.cc has
// the formulas for the weights.
#include "optimizer_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "../base/check.h"
#include "../base/decimal.h"
#include "../compute/functions.h"

namespace ringlet {
namespace {

// --- SGD --------------------------------------------------------------------

constexpr OptimizerField kSgdFields[] = {
    {"momentum", &Optimizer::momentum, kFraction},
    {"nesterov", &Optimizer::nesterov},
};

SlotNames SgdSlots(const Optimizer& o) {
  return {{"momentum"}, o.momentum != 0 ? 1 : 0};
}

// --- RMSprop ----------------------------------------------------------------

constexpr OptimizerField kRmspropFields[] = {
    {"rho", &Optimizer::rho, kFraction},
    {"momentum", &Optimizer::momentum, kFraction},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
    {"centered", &Optimizer::centered},
};

SlotNames RmspropSlots(const Optimizer& o) {
  SlotNames slots = {{"velocity"}, 1};
  if (o.centered) slots.names[slots.count++] = "average_gradient";
  if (o.momentum != 0) slots.names[slots.count++] = "momentum";
  return slots;
}

void PrepareRmsprop(const Optimizer& o, double, StepScalars* s) {
  s->one_minus_beta_1 = static_cast<float>(1 - Decimal(o.rho));
}

// --- Adam, AdamW ------------------------------------------------------------

constexpr OptimizerField kAdamFields[] = {
    {"beta_1", &Optimizer::beta_1, kFractionBelow1},
    {"beta_2", &Optimizer::beta_2, kFractionBelow1},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
    {"amsgrad", &Optimizer::amsgrad},
};

SlotNames AdamSlots(const Optimizer& o) {
  return {{"momentum", "velocity", "velocity_hat"}, o.amsgrad ? 3 : 2};
}

void PrepareBetas(const Optimizer& o, double, StepScalars* s) {
  s->one_minus_beta_1 = static_cast<float>(1 - Decimal(o.beta_1));
  s->one_minus_beta_2 = static_cast<float>(1 - Decimal(o.beta_2));
}

void PrepareAdam(const Optimizer& o, double t, StepScalars* s) {
  PrepareBetas(o, t, s);
  const double beta_1 = Decimal(o.beta_1), beta_2 = Decimal(o.beta_2);
  s->alpha = static_cast<float>(s->learning_rate *
                                std::sqrt(1 - math::Pow(beta_2, t)) /
                                (1 - math::Pow(beta_1, t)));
}

// --- Adamax -----------------------------------------------------------------

constexpr OptimizerField kAdamaxFields[] = {
    {"beta_1", &Optimizer::beta_1, kFractionBelow1},
    {"beta_2", &Optimizer::beta_2, kFractionBelow1},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
};

SlotNames AdamaxSlots(const Optimizer&) { return {{"momentum", "norm"}, 2}; }

void PrepareAdamax(const Optimizer& o, double t, StepScalars* s) {
  PrepareBetas(o, t, s);
  const double beta_1 = Decimal(o.beta_1);
  s->alpha = static_cast<float>(s->learning_rate / (1 - math::Pow(beta_1, t)));
}

// --- Nadam ------------------------------------------------------------------

double NadamMomentum(double beta_1, double t) {
  return beta_1 * (1 - 0.5 * math::Pow(0.96, t));
}

// Returns the product of the first t factors. The factors converge to beta_1. A
// product below a double's last digit of 1 counts as 0.
double NadamProduct(double beta_1, double t) {
  double product = 1, power = 1;
  constexpr double kSettled = 1000;
  for (double i = 1; i <= std::min(t, kSettled) && product > 1e-20; ++i) {
    power *= 0.96;
    product *= beta_1 * (1 - 0.5 * power);
  }
  return t > kSettled ? product * math::Pow(beta_1, t - kSettled) : product;
}

void PrepareNadam(const Optimizer& o, double t, StepScalars* s) {
  PrepareBetas(o, t, s);
  const double beta_1 = Decimal(o.beta_1), beta_2 = Decimal(o.beta_2);
  const double now = NadamMomentum(beta_1, t);
  const double next = NadamMomentum(beta_1, t + 1);
  const double product = NadamProduct(beta_1, t);
  s->mean_factor = static_cast<float>(next / (1 - product * next));
  s->gradient_factor = static_cast<float>((1 - now) / (1 - product));
  s->square_factor = static_cast<float>(1 / (1 - math::Pow(beta_2, t)));
}

// --- Adagrad, Adadelta ------------------------------------------------------

constexpr OptimizerField kAdagradFields[] = {
    {"initial_accumulator_value", &Optimizer::initial_accumulator_value,
     kNotNegative},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
};

SlotNames AdagradSlots(const Optimizer& o) {
  return {{"accumulator"}, 1, o.initial_accumulator_value};
}

constexpr OptimizerField kAdadeltaFields[] = {
    {"rho", &Optimizer::rho, kFraction},
    {"epsilon", &Optimizer::epsilon, kNotNegative},
};

SlotNames AdadeltaSlots(const Optimizer&) {
  return {{"accumulated_grad", "accumulated_delta_var"}, 2};
}

// --- Lion -------------------------------------------------------------------

constexpr OptimizerField kLionFields[] = {
    {"beta_1", &Optimizer::beta_1, kFraction},
    {"beta_2", &Optimizer::beta_2, kFraction},
};

SlotNames LionSlots(const Optimizer&) { return {{"momentum"}, 1}; }

// --- rows -------------------------------------------------------------------

void PrepareNothing(const Optimizer&, double, StepScalars*) {}

template <size_t n>
constexpr OptimizerClass Row(
    const char* name, const char* aliases, Optimizer (*make)(),
    const OptimizerField (&fields)[n], SlotNames (*slots)(const Optimizer&),
    void (*prepare)(const Optimizer&, double, StepScalars*),
    void (*update)(const UpdateCall&)) {
  return {name, aliases, make, fields, n, slots, prepare, update};
}

// In the order of Optimizer::Kind. TensorFlow 2.11 registered the last alias.
constexpr OptimizerClass kOptimizers[] = {
    Row(
        "SGD", "sgd Custom>SGD", [] { return SGD(); }, kSgdFields, SgdSlots,
        PrepareNothing, UpdateSgd),
    Row(
        "RMSprop", "rmsprop Custom>RMSprop", [] { return RMSprop(); },
        kRmspropFields, RmspropSlots, PrepareRmsprop, UpdateRmsprop),
    Row(
        "Adam", "adam Custom>Adam", [] { return Adam(); }, kAdamFields,
        AdamSlots, PrepareAdam, UpdateAdam),
    Row(
        "AdamW", "adamw Custom>AdamW", [] { return AdamW(); }, kAdamFields,
        AdamSlots, PrepareAdam, UpdateAdam),
    Row(
        "Adamax", "adamax Custom>Adamax", [] { return Adamax(); },
        kAdamaxFields, AdamaxSlots, PrepareAdamax, UpdateAdamax),
    Row(
        "Nadam", "nadam Custom>Nadam", [] { return Nadam(); }, kAdamaxFields,
        AdamSlots, PrepareNadam, UpdateNadam),
    Row(
        "Adagrad", "adagrad Custom>Adagrad", [] { return Adagrad(); },
        kAdagradFields, AdagradSlots, PrepareNothing, UpdateAdagrad),
    Row(
        "Adadelta", "adadelta Custom>Adadelta", [] { return Adadelta(); },
        kAdadeltaFields, AdadeltaSlots, PrepareRmsprop, UpdateAdadelta),
    Row(
        "Lion", "lion Custom>Lion", [] { return Lion(); }, kLionFields,
        LionSlots, PrepareBetas, UpdateLion),
};

}  // namespace

OptimizerTable AllOptimizers() { return {kOptimizers, std::size(kOptimizers)}; }

const OptimizerClass& ClassOf(const Optimizer& optimizer) {
  const auto row = static_cast<size_t>(optimizer.kind);
  RINGLET_CHECK(row < std::size(kOptimizers));
  return kOptimizers[row];
}

StepScalars PrepareStep(const Optimizer& optimizer, float learning_rate,
                        int64_t updates) {
  StepScalars s;
  s.learning_rate = learning_rate;
  s.decay = optimizer.weight_decay * learning_rate;
  s.flushes_tiny_moments = updates % 64 == 63;
  ClassOf(optimizer).prepare(optimizer, static_cast<double>(updates) + 1, &s);
  return s;
}

void UpdateRange(const UpdateCall& call) {
  const OptimizerClass& c = ClassOf(call.optimizer);
  c.update(call);
  const int moments =
      call.scalars.flushes_tiny_moments ? c.slots(call.optimizer).count : 0;
  for (int s = 0; s < moments; ++s) FlushTinyMoments(call.n, call.slots[s]);
}

}  // namespace ringlet
