#include "local_round.h"

#include <algorithm>
#include <cmath>

namespace ringlet {

Status LocalUpdates::Check() const {
  if (steps < 0 && steps != kAutoSteps) {
    return InvalidArgument("local_steps must be at least 1");
  }
  if (!(learning_rate > 0) || !std::isfinite(learning_rate)) {
    return InvalidArgument(
        "the outer learning_rate is %g; give a number above 0",
        double{learning_rate});
  }
  if (!(momentum >= 0 && momentum < 1)) {
    return InvalidArgument("the outer momentum is %g; give one in [0, 1)",
                           double{momentum});
  }
  if (participation < 0 || quorum < 0) {
    return InvalidArgument("participation and quorum are at least 1");
  }
  if (participation > 0 && quorum > participation) {
    return InvalidArgument(
        "a quorum of %d where rounds are made of %d replicas (participation); "
        "give at most as many",
        quorum, participation);
  }
  if (!(round_deadline_seconds >= 0)) {
    return InvalidArgument("the round_deadline is %g s; give a number above 0",
                           round_deadline_seconds);
  }
  if (round_deadline_seconds > 0 && quorum == 0) {
    return InvalidArgument(
        "a round_deadline without quorum: say how many replicas are enough");
  }
  return Status();
}

void LocalRound::Begin() {
  const KeptSpans& kept = memory_.kept();
  std::copy_n(kept.weights, graph_.num_weights(), kept.round_weights);
  updater_.BeginRound();
}

void LocalRound::BeginReplica() {
  Undo();
  memory_.ResetSlots();
}

void LocalRound::Undo() {
  const KeptSpans& kept = memory_.kept();
  std::copy_n(kept.round_weights, graph_.num_weights(), kept.weights);
  updater_.RoundAgain();
}

void LocalRound::EndReplica(double share) {
  const KeptSpans& kept = memory_.kept();
  const auto factor = static_cast<float>(share);
  for (const Variable& v : graph_.variables()) {
    if (!v.trained() && v.change_offset < 0) continue;
    const float* const before = kept.round_weights + v.offset;
    const float* const after = kept.weights + v.offset;
    float* const delta = v.trained() ? kept.gradients + v.gradient_offset
                                     : kept.state_changes + v.change_offset;
    for (int64_t i = 0; i < v.size(); ++i) {
      delta[i] = (before[i] - after[i]) * factor;
    }
  }
}

void LocalRound::Finish(double scale) {
  const KeptSpans& kept = memory_.kept();
  const float rate = options_.learning_rate, mu = options_.momentum;
  const bool nesterov = options_.nesterov;
  if (scale != 1) {
    const auto factor = static_cast<float>(scale);
    const int64_t n = graph_.num_trained() + graph_.num_changes();
    for (int64_t i = 0; i < n; ++i) kept.gradients[i] *= factor;
  }
  for (const Variable& v : graph_.variables()) {
    const float* const before = kept.round_weights + v.offset;
    float* const w = kept.weights + v.offset;
    if (v.change_offset >= 0) {
      const float* const delta = kept.state_changes + v.change_offset;
      for (int64_t i = 0; i < v.size(); ++i) w[i] = before[i] - delta[i];
      continue;
    }
    if (!v.trained()) {
      std::copy_n(before, v.size(), w);
      continue;
    }
    const float* const delta = kept.gradients + v.gradient_offset;
    float* const m = kept.outer_momentum + v.gradient_offset;
    for (int64_t i = 0; i < v.size(); ++i) {
      m[i] = mu * m[i] + delta[i];
      const float by = nesterov ? delta[i] + mu * m[i] : m[i];
      w[i] = before[i] - rate * by;
    }
  }
}

}  // namespace ringlet
