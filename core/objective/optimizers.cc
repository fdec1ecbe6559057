// The factories of optimizers, and the checks of their settings. Facts of one
// class are in optimizer_table.cc. Slots are in the order of the class's
// names, then "average" with use_ema, then "gradient_accumulator": files and
// the updater rely on it.

#include "ringlet/optimizers.h"

#include "optimizer_table.h"

namespace ringlet {
namespace {

Status CheckClips(const Optimizer& o) {
  if (!(o.clipnorm >= 0) || !(o.global_clipnorm >= 0) || !(o.clipvalue >= 0)) {
    return InvalidArgument("%s: a clip must be > 0", o.name());
  }
  if ((o.clipnorm > 0) + (o.global_clipnorm > 0) + (o.clipvalue > 0) > 1) {
    return InvalidArgument(
        "%s: Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be "
        "set.",
        o.name());
  }
  return Status();
}

// Keras also checks these settings only if they are used.
Status CheckEma(const Optimizer& o) {
  if (!o.use_ema) return Status();
  if (!kFraction.Holds(double{o.ema_momentum})) {
    return InvalidArgument(
        "%s: `ema_momentum` must be in the range [0, 1]. Received: "
        "ema_momentum=%g",
        o.name(), o.ema_momentum);
  }
  if (o.ema_overwrite_frequency >= 0) return Status();
  return InvalidArgument(
      "%s: `ema_overwrite_frequency` must be an integer >= 1 or none. "
      "Received: ema_overwrite_frequency=%d",
      o.name(), o.ema_overwrite_frequency);
}

}  // namespace

const char* Optimizer::name() const { return ClassOf(*this).name; }

int Optimizer::num_slots() const {
  return ClassOf(*this).slots(*this).count + (use_ema ? 1 : 0) +
         (accumulates() ? 1 : 0);
}

const char* Optimizer::slot_name(int slot) const {
  const SlotNames slots = ClassOf(*this).slots(*this);
  if (slot < slots.count) return slots.names[slot];
  return use_ema && slot == slots.count ? "average" : "gradient_accumulator";
}

Status Optimizer::Check() const {
  RINGLET_RETURN_IF_ERROR(learning_rate.Check().Annotate("%s", name()));
  for (const ConfigField<Optimizer>& field : ClassOf(*this).fields) {
    RINGLET_RETURN_IF_ERROR(CheckField(field, this, name(), "`"));
  }
  if (!(weight_decay >= 0)) {
    return InvalidArgument("%s: weight_decay must be >= 0", name());
  }
  RINGLET_RETURN_IF_ERROR(CheckClips(*this));
  RINGLET_RETURN_IF_ERROR(CheckEma(*this));
  if (gradient_accumulation_steps != 0 && gradient_accumulation_steps < 2) {
    return InvalidArgument(
        "%s: `gradient_accumulation_steps` must be an integer >= 2. Received: "
        "gradient_accumulation_steps=%d",
        name(), gradient_accumulation_steps);
  }
  return Status();
}

Optimizer SGD(const LearningRate& learning_rate, float momentum,
              bool nesterov) {
  Optimizer o;
  o.learning_rate = learning_rate;
  o.momentum = momentum;
  o.nesterov = nesterov;
  return o;
}

Optimizer RMSprop(const LearningRate& learning_rate, float rho, float momentum,
                  float epsilon, bool centered) {
  Optimizer o;
  o.kind = Optimizer::Kind::kRmsprop;
  o.learning_rate = learning_rate;
  o.rho = rho;
  o.momentum = momentum;
  o.epsilon = epsilon;
  o.centered = centered;
  return o;
}

Optimizer Adam(const LearningRate& learning_rate, float beta_1, float beta_2,
               float epsilon, bool amsgrad) {
  Optimizer o;
  o.kind = Optimizer::Kind::kAdam;
  o.learning_rate = learning_rate;
  o.beta_1 = beta_1;
  o.beta_2 = beta_2;
  o.epsilon = epsilon;
  o.amsgrad = amsgrad;
  return o;
}

Optimizer AdamW(const LearningRate& learning_rate, float weight_decay,
                float beta_1, float beta_2, float epsilon, bool amsgrad) {
  Optimizer o = Adam(learning_rate, beta_1, beta_2, epsilon, amsgrad);
  o.kind = Optimizer::Kind::kAdamW;
  o.weight_decay = weight_decay;
  return o;
}

Optimizer Adamax(const LearningRate& learning_rate, float beta_1, float beta_2,
                 float epsilon) {
  Optimizer o;
  o.kind = Optimizer::Kind::kAdamax;
  o.learning_rate = learning_rate;
  o.beta_1 = beta_1;
  o.beta_2 = beta_2;
  o.epsilon = epsilon;
  return o;
}

Optimizer Nadam(const LearningRate& learning_rate, float beta_1, float beta_2,
                float epsilon) {
  Optimizer o = Adamax(learning_rate, beta_1, beta_2, epsilon);
  o.kind = Optimizer::Kind::kNadam;
  return o;
}

Optimizer Adagrad(const LearningRate& learning_rate,
                  float initial_accumulator_value, float epsilon) {
  Optimizer o;
  o.kind = Optimizer::Kind::kAdagrad;
  o.learning_rate = learning_rate;
  o.initial_accumulator_value = initial_accumulator_value;
  o.epsilon = epsilon;
  return o;
}

Optimizer Adadelta(const LearningRate& learning_rate, float rho,
                   float epsilon) {
  Optimizer o;
  o.kind = Optimizer::Kind::kAdadelta;
  o.learning_rate = learning_rate;
  o.rho = rho;
  o.epsilon = epsilon;
  return o;
}

Optimizer Lion(const LearningRate& learning_rate, float beta_1, float beta_2) {
  Optimizer o;
  o.kind = Optimizer::Kind::kLion;
  o.learning_rate = learning_rate;
  o.beta_1 = beta_1;
  o.beta_2 = beta_2;
  return o;
}

Optimizer& Optimizer::ClipNorm(float norm) {
  clipnorm = norm;
  return *this;
}

Optimizer& Optimizer::GlobalClipNorm(float norm) {
  global_clipnorm = norm;
  return *this;
}

Optimizer& Optimizer::ClipValue(float value) {
  clipvalue = value;
  return *this;
}

Optimizer& Optimizer::WeightDecay(float decay) {
  weight_decay = decay;
  return *this;
}

Optimizer& Optimizer::GradientAccumulationSteps(int steps) {
  gradient_accumulation_steps = steps;
  return *this;
}

Optimizer& Optimizer::UseEma(float decay, int overwrite_frequency) {
  use_ema = true;
  ema_momentum = decay;
  ema_overwrite_frequency = overwrite_frequency;
  return *this;
}

int64_t Optimizer::Updates(int64_t steps) const {
  return accumulates() ? steps / gradient_accumulation_steps : steps;
}

}  // namespace ringlet
