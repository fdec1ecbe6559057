// With overlap a round's mean is applied a round later. So layer state, such
// as moving means, travels as a value then, and otherwise as a change. The
// order Begin, BeginReplica, EndReplica, Finish or Undo is up to the caller;
// Undo restores weights and iterations, and not the state of each replica.

#include "local_round.h"

#include <algorithm>
#include <cmath>

namespace ringlet {
namespace {

// Sparse changes and overlap keep state of each replica on its worker. A round
// that excludes a replica, or is undone, does not restore it.
Status CheckStatePerWorker(const LocalUpdates& local) {
  const char* const field = local.sparse() ? "delta sparse" : "overlap";
  if (local.steps == LocalUpdates::kAutoSteps) {
    return InvalidArgument(
        "%s with local_steps auto: its trial rounds could not be undone; "
        "give local_steps as a number",
        field);
  }
  const auto refuse = [&](const char* other) {
    return InvalidArgument(
        "%s with %s: it needs all replicas in every round; leave one of the "
        "two out",
        field, other);
  };
  if (local.participation > 0) return refuse("participation");
  if (local.quorum > 0) return refuse("quorum");
  return local.round_deadline_seconds > 0 ? refuse("round_deadline") : Status();
}

}  // namespace

Status LocalUpdates::Check() const {
  if (steps < 0 && steps != kAutoSteps) {
    return InvalidArgument(
        "local_steps is %lld; give 0 (none), a number from 1 on, or auto",
        static_cast<long long>(steps));
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
    return InvalidArgument(
        "participation is %lld and quorum is %lld; give 0 (not used) or more",
        static_cast<long long>(participation), static_cast<long long>(quorum));
  }
  if (participation > 0 && quorum > participation) {
    return InvalidArgument(
        "a quorum of %d, but a round has %d replicas (participation); give at "
        "most that number",
        quorum, participation);
  }
  if (!(round_deadline_seconds >= 0)) {
    return InvalidArgument("the round_deadline is %g s; give a number above 0",
                           round_deadline_seconds);
  }
  if (round_deadline_seconds > 0 && quorum == 0) {
    return InvalidArgument(
        "a round_deadline without quorum; set quorum to the number of replicas "
        "that are enough");
  }
  return keeps_state_per_worker() ? CheckStatePerWorker(*this) : Status();
}

Status CheckStateOutlivesLoss(const LocalUpdates& local) {
  if (!local.keeps_state_per_worker()) return Status();
  const char* const fields = !local.overlaps() ? "delta sparse"
                             : local.sparse()  ? "delta sparse and overlap"
                                               : "overlap";
  return InvalidArgument(
      "%s with policy shrink: a lost worker takes state with it that no other "
      "worker has; use policy wait with BackupAndRestore, or delta int8 or "
      "float32 without overlap",
      fields);
}

void LocalRound::Begin() {
  const PersistentSpans& spans = memory_.persistent();
  std::copy_n(spans.weights, graph_.num_weights(), spans.round_weights);
  updater_.BeginRound();
}

void LocalRound::BeginReplica(const float* start) {
  const PersistentSpans& spans = memory_.persistent();
  Undo();
  memory_.ResetSlots();
  start_ = start == nullptr ? spans.round_weights : start;
  std::copy_n(start_, graph_.num_weights(), spans.weights);
}

void LocalRound::Undo() {
  const PersistentSpans& spans = memory_.persistent();
  std::copy_n(spans.round_weights, graph_.num_weights(), spans.weights);
  updater_.RewindRound();
}

void LocalRound::EndReplica(double fraction) {
  const PersistentSpans& spans = memory_.persistent();
  const auto factor = static_cast<float>(fraction);
  for (const Variable& v : graph_.variables()) {
    if (!v.trained() && v.change_offset < 0) continue;
    const float* const before = start_ + v.offset;
    const float* const after = spans.weights + v.offset;
    float* const delta = v.trained()
                             ? spans.gradients + v.gradient_offset
                             : spans.layer_state_changes + v.change_offset;
    if (options_.overlap && !v.trained()) {
      // With overlap, the state will have changed before this change is
      // applied.
      for (int64_t i = 0; i < v.size(); ++i) delta[i] = after[i] * factor;
      continue;
    }
    for (int64_t i = 0; i < v.size(); ++i) {
      delta[i] = (before[i] - after[i]) * factor;
    }
  }
}

void LocalRound::Scale(double scale) {
  const PersistentSpans& spans = memory_.persistent();
  const auto factor = static_cast<float>(scale);
  const int64_t n = graph_.num_trained() + graph_.num_changes();
  for (int64_t i = 0; i < n; ++i) spans.gradients[i] *= factor;
}

void LocalRound::Finish(const float* mean) {
  const PersistentSpans& spans = memory_.persistent();
  if (mean == nullptr) {
    std::copy_n(spans.round_weights, graph_.num_weights(), spans.weights);
    return;
  }
  for (const Variable& v : graph_.variables()) {
    const float* const before = spans.round_weights + v.offset;
    float* const w = spans.weights + v.offset;
    if (v.change_offset >= 0) {
      const float* const delta = mean + graph_.num_trained() + v.change_offset;
      for (int64_t i = 0; i < v.size(); ++i) {
        w[i] = options_.overlap ? delta[i] : before[i] - delta[i];
      }
      continue;
    }
    if (!v.trained()) {
      std::copy_n(before, v.size(), w);
      continue;
    }
    const float* const delta = mean + v.gradient_offset;
    float* const m = spans.outer_momentum + v.gradient_offset;
    for (int64_t i = 0; i < v.size(); ++i) {
      w[i] = Step(before[i], delta[i], m + i);
    }
  }
}

void LocalRound::Predict(const float* contribution, double fraction,
                         float* start) const {
  const PersistentSpans& spans = memory_.persistent();
  // Without examples there is no change.
  const auto part = static_cast<float>(fraction > 0 ? fraction : 1);
  for (const Variable& v : graph_.variables()) {
    const float* const w = spans.weights + v.offset;
    float* const to = start + v.offset;
    if (v.trained()) {
      const float* const change = contribution + v.gradient_offset;
      const float* const momentum = spans.outer_momentum + v.gradient_offset;
      for (int64_t i = 0; i < v.size(); ++i) {
        float m = momentum[i];
        to[i] = Step(w[i], change[i] / part, &m);
      }
    } else if (v.change_offset >= 0 && fraction > 0) {
      const float* const end =
          contribution + graph_.num_trained() + v.change_offset;
      for (int64_t i = 0; i < v.size(); ++i) to[i] = end[i] / part;
    } else {
      std::copy_n(w, v.size(), to);
    }
  }
}

}  // namespace ringlet
