// What must be known to change this file: each loop works element by element,
// so that a range of the weights may be updated by itself on any thread with
// the same bits. The regularizer's gradient and the weight decay are parts of
// the same loop: a pass over memory less. Weights, gradients and slots do not
// alias.

#include "optimizers.h"

#include "optimizer_table.h"

namespace ringlet {
namespace {

Status CheckField(const Optimizer& o, const OptimizerField& field) {
  const auto* member = std::get_if<float Optimizer::*>(&field.value);
  if (member == nullptr) return Status();
  const double value = static_cast<double>(o.**member);
  if (field.range.Holds(value)) return Status();
  return InvalidArgument("%s: `%s` must be %s, not %g", o.name(), field.name,
                         ToString(field.range).c_str(), value);
}

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

}  // namespace

const char* Optimizer::name() const { return ClassOf(*this).name; }

int Optimizer::num_slots() const {
  return ClassOf(*this).slots(*this).count + (accumulates() ? 1 : 0);
}

const char* Optimizer::slot_name(int slot) const {
  const SlotNames slots = ClassOf(*this).slots(*this);
  return slot < slots.count ? slots.names[slot] : "gradient_accumulator";
}

Status Optimizer::Check() const {
  RINGLET_RETURN_IF_ERROR(learning_rate.Check().Annotate("%s", name()));
  for (const OptimizerField& field : ClassOf(*this)) {
    RINGLET_RETURN_IF_ERROR(CheckField(*this, field));
  }
  if (!(weight_decay >= 0)) {
    return InvalidArgument("%s: weight_decay must be >= 0", name());
  }
  RINGLET_RETURN_IF_ERROR(CheckClips(*this));
  if (gradient_accumulation_steps != 0 && gradient_accumulation_steps < 2) {
    return InvalidArgument(
        "%s: `gradient_accumulation_steps` must be an integer >= 2. Received: "
        "gradient_accumulation_steps=%d",
        name(), gradient_accumulation_steps);
  }
  return Status();
}

}  // namespace ringlet
