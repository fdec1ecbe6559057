// The update of each optimizer, on a range of the weights and of its slots.

#ifndef RINGLET_CORE_OBJECTIVE_OPTIMIZER_FORMULAS_H_
#define RINGLET_CORE_OBJECTIVE_OPTIMIZER_FORMULAS_H_

#include "optimizer_table.h"

namespace ringlet {

// Replaces magnitudes below 2^-110 by 0.
void FlushTinyMoments(int64_t n, float* slot);

void UpdateSgd(const UpdateCall& call);
void UpdateRmsprop(const UpdateCall& call);
void UpdateAdam(const UpdateCall& call);
void UpdateAdamax(const UpdateCall& call);
void UpdateNadam(const UpdateCall& call);
void UpdateAdagrad(const UpdateCall& call);
void UpdateAdadelta(const UpdateCall& call);
void UpdateLion(const UpdateCall& call);

}  // namespace ringlet

#endif  // RINGLET_CORE_OBJECTIVE_OPTIMIZER_FORMULAS_H_
