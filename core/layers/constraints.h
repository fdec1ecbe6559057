// Constraints of weights: their checks, their text and their application.

#ifndef RINGLET_CORE_LAYERS_CONSTRAINTS_H_
#define RINGLET_CORE_LAYERS_CONSTRAINTS_H_

#include <string>

#include "ringlet/compute.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// kInvalidArgument if a weight of this shape cannot have the constraint.
Status CheckConstraint(const Constraint& constraint, const Shape& shape);

// Replaces a weight. The result has the same bits for any number of threads.
void Constrain(const Constraint& constraint, const Shape& shape,
               ThreadPool* pool, float* weights);

const char* ConstraintName(Constraint::Kind kind);  // "MaxNorm"
// "MaxNorm max 2 axis 0"; empty without a constraint.
std::string ConstraintText(const Constraint& constraint);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_CONSTRAINTS_H_
