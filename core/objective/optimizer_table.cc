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

constexpr ConfigField<Optimizer> kSgdFields[] = {
    FloatField<&Optimizer::momentum>("momentum", kFraction),
    BoolField<&Optimizer::nesterov>("nesterov"),
};

SlotNames SgdSlots(const Optimizer& o) {
  return {{"momentum"}, o.momentum != 0 ? 1 : 0};
}

// --- RMSprop ----------------------------------------------------------------

constexpr ConfigField<Optimizer> kRmspropFields[] = {
    FloatField<&Optimizer::rho>("rho", kFraction),
    FloatField<&Optimizer::momentum>("momentum", kFraction),
    FloatField<&Optimizer::epsilon>("epsilon", kNotNegative),
    BoolField<&Optimizer::centered>("centered"),
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

constexpr ConfigField<Optimizer> kAdamFields[] = {
    FloatField<&Optimizer::beta_1>("beta_1", kFractionBelow1),
    FloatField<&Optimizer::beta_2>("beta_2", kFractionBelow1),
    FloatField<&Optimizer::epsilon>("epsilon", kNotNegative),
    BoolField<&Optimizer::amsgrad>("amsgrad"),
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

constexpr ConfigField<Optimizer> kAdamaxFields[] = {
    FloatField<&Optimizer::beta_1>("beta_1", kFractionBelow1),
    FloatField<&Optimizer::beta_2>("beta_2", kFractionBelow1),
    FloatField<&Optimizer::epsilon>("epsilon", kNotNegative),
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

constexpr ConfigField<Optimizer> kAdagradFields[] = {
    FloatField<&Optimizer::initial_accumulator_value>(
        "initial_accumulator_value", kNotNegative),
    FloatField<&Optimizer::epsilon>("epsilon", kNotNegative),
};

SlotNames AdagradSlots(const Optimizer& o) {
  return {{"accumulator"}, 1, o.initial_accumulator_value};
}

constexpr ConfigField<Optimizer> kAdadeltaFields[] = {
    FloatField<&Optimizer::rho>("rho", kFraction),
    FloatField<&Optimizer::epsilon>("epsilon", kNotNegative),
};

SlotNames AdadeltaSlots(const Optimizer&) {
  return {{"accumulated_grad", "accumulated_delta_var"}, 2};
}

// --- Lion -------------------------------------------------------------------

constexpr ConfigField<Optimizer> kLionFields[] = {
    FloatField<&Optimizer::beta_1>("beta_1", kFraction),
    FloatField<&Optimizer::beta_2>("beta_2", kFraction),
};

SlotNames LionSlots(const Optimizer&) { return {{"momentum"}, 1}; }

// --- rows -------------------------------------------------------------------

void PrepareNothing(const Optimizer&, double, StepScalars*) {}

// In the order of Optimizer::Kind. TensorFlow 2.11 registered the last alias.
constexpr OptimizerClass kOptimizers[] = {
    {"SGD", "sgd Custom>SGD", [] { return SGD(); }, kSgdFields, SgdSlots,
     PrepareNothing, UpdateSgd},
    {"RMSprop", "rmsprop Custom>RMSprop", [] { return RMSprop(); },
     kRmspropFields, RmspropSlots, PrepareRmsprop, UpdateRmsprop},
    {"Adam", "adam Custom>Adam", [] { return Adam(); }, kAdamFields, AdamSlots,
     PrepareAdam, UpdateAdam},
    {"AdamW", "adamw Custom>AdamW", [] { return AdamW(); }, kAdamFields,
     AdamSlots, PrepareAdam, UpdateAdam},
    {"Adamax", "adamax Custom>Adamax", [] { return Adamax(); }, kAdamaxFields,
     AdamaxSlots, PrepareAdamax, UpdateAdamax},
    {"Nadam", "nadam Custom>Nadam", [] { return Nadam(); }, kAdamaxFields,
     AdamSlots, PrepareNadam, UpdateNadam},
    {"Adagrad", "adagrad Custom>Adagrad", [] { return Adagrad(); },
     kAdagradFields, AdagradSlots, PrepareNothing, UpdateAdagrad},
    {"Adadelta", "adadelta Custom>Adadelta", [] { return Adadelta(); },
     kAdadeltaFields, AdadeltaSlots, PrepareRmsprop, UpdateAdadelta},
    {"Lion", "lion Custom>Lion", [] { return Lion(); }, kLionFields, LionSlots,
     PrepareBetas, UpdateLion},
};
static_assert(std::size(kOptimizers) ==
              static_cast<size_t>(Optimizer::Kind::kLion) + 1);

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
