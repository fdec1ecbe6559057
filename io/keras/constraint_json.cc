#include "weight_settings_json.h"

#include "../../core/layers/constraints.h"
#include "number_list_json.h"

namespace ringlet {
namespace {

// Makes a constraint by class, with Keras 2's names of functions.
constexpr Named<Constraint (*)()> kConstraints[] = {
    {"MaxNorm max_norm maxnorm", [] { return MaxNorm(); }},
    {"NonNeg non_neg nonneg", [] { return NonNeg(); }},
    {"UnitNorm unit_norm unitnorm", [] { return UnitNorm(); }},
    {"MinMaxNorm min_max_norm", [] { return MinMaxNorm(); }},
};

// Null means all axes, as in Keras.
void ReadNormAxes(FieldReader* fields, std::vector<int64_t>* axes) {
  if (fields->MarkOptional("axis")) return ReadAxes("axis", fields, axes);
  if (fields->Take("axis")) axes->clear();
}

Status ReadConstraintClass(const KerasObject& object, Constraint* constraint) {
  Constraint (*make)() = nullptr;
  RINGLET_RETURN_IF_ERROR(
      Choose(kConstraints, object.path, "constraint", object.name, &make));
  Constraint new_constraint = make();
  const Constraint::Kind kind = new_constraint.kind;
  FieldReader fields(object.config, object.config_path);
  if (kind == Constraint::Kind::kMinMaxNorm) {
    fields.Float("min_value", kNotNegative, &new_constraint.min_value);
  }
  if (kind == Constraint::Kind::kMaxNorm ||
      kind == Constraint::Kind::kMinMaxNorm) {
    fields.Float("max_value", kNotNegative, &new_constraint.max_value);
  }
  if (kind == Constraint::Kind::kMinMaxNorm)
    fields.Float("rate", kFraction, &new_constraint.rate);
  if (kind != Constraint::Kind::kNonNeg)
    ReadNormAxes(&fields, &new_constraint.axis);
  *constraint = new_constraint;
  return fields.Finish();
}

}  // namespace

void ReadConstraint(const char* key, FieldReader* fields,
                    Constraint* constraint) {
  KerasObject object;
  if (fields->MarkOptional(key) &&
      fields->Object(key, "a constraint", "null", &object)) {
    fields->Fail(ReadConstraintClass(object, constraint));
  }
}

void WriteConstraint(JsonWriter* w, const Constraint& c) {
  if (c.empty()) {
    w->Null();
    return;
  }
  WriteKerasObject(w, "keras.constraints", ConstraintName(c.kind), [&] {
    const bool both = c.kind == Constraint::Kind::kMinMaxNorm;
    if (both) w->Key("min_value").Float(c.min_value);
    if (both || c.kind == Constraint::Kind::kMaxNorm) {
      w->Key("max_value").Float(c.max_value);
    }
    if (both) w->Key("rate").Float(c.rate);
    if (c.kind == Constraint::Kind::kNonNeg) return;
    w->Key("axis");
    if (c.axis.empty()) {
      w->Null();
    } else {
      WriteAxes(w, c.axis);
    }
  });
}

std::vector<ClassInfo> DescribeConstraints() {
  return Describe(kConstraints, [](const KerasObject& object) {
    Constraint constraint;
    (void)ReadConstraintClass(object, &constraint);
  });
}

}  // namespace ringlet
