#include "replica_balancer.h"

#include <utility>
#include <vector>

#include "../base/collective_numbers.h"
#include "../base/events.h"
#include "../base/time_units.h"

namespace ringlet {
namespace {

constexpr int64_t kStepsBetweenReports = 32;
// Longer if a round ends later.
constexpr int64_t kStepsBetweenAssignments = 32;

}  // namespace

void ReplicaBalancer::EnterView(const FitState& fit) {
  const CompileConfig& config = parts_.config();
  view_began_ = fit.model->iterations();
  reported_at_ = INT64_MIN / 2;  // no line yet
  reported_ = config.job_replicas.assignment();
  RecordReplicas(/*enters=*/true);
  if (config.job_replicas.assigned_by_speed() && fit.epoch < fit.epochs) {
    messages_.ReportAssignment(fit, reported_);
  }
}

Status ReplicaBalancer::Rebalance(const FitState& fit, bool* moved) {
  CompileConfig& config = parts_.config();
  const int workers = config.collective->size();
  if (!config.collective->elastic() || workers == 1 ||
      config.job_replicas.assignment().is_fixed() ||
      config.job_replicas.count() <= workers) {
    return Status();
  }
  ReplicaAssignment next = config.job_replicas.assignment();
  if (config.local()) {
    RINGLET_RETURN_IF_ERROR(BalanceByRounds(fit, &next, moved));
  } else {
    *moved = BalanceBySteps(&next);
  }
  if (*moved) {
    config.job_replicas.Assign(std::move(next), config.collective->rank());
    parts_.ApplyReplicaAssignment();
  }
  Report(fit);
  return Status();
}

// Other programs on a board make a step longer and never shorter, so the
// shortest of the last steps shows the board's speed. A board that becomes slow
// is found in five steps, a rank that becomes fast in one step.
bool ReplicaBalancer::BalanceBySteps(ReplicaAssignment* next) {
  constexpr size_t kSteps = 5;
  CompileConfig& config = parts_.config();
  // A worker that has just joined may have measured few steps.
  const size_t min_steps = config.job_replicas.needs_measurement() ? 2 : kSteps;
  const std::vector<int64_t> nanos =
      config.job_replicas.throughput().Shortest(kSteps, min_steps);
  if (nanos.empty()) return false;
  config.job_replicas.StopMeasuring();
  return next->Assign(nanos);
}

// The reports of rounds are one round old, so the ranks gather their times.
Status ReplicaBalancer::BalanceByRounds(const FitState& fit,
                                        ReplicaAssignment* next, bool* moved) {
  // After a worker without known times has joined. Its first round is not
  // measured (ReplicaTimes::DropCold).
  constexpr int64_t kStepsToFirstMeasurement = 4;
  CompileConfig& config = parts_.config();
  const int64_t steps = fit.model->iterations();
  const int64_t before = steps - fit.steps_taken;
  const bool soon = config.job_replicas.needs_measurement();
  const bool due = soon ? steps >= view_began_ + kStepsToFirstMeasurement &&
                              before > view_began_
                        : steps / kStepsBetweenAssignments !=
                              before / kStepsBetweenAssignments;
  if (!due) return Status();
  config.job_replicas.StopMeasuring();
  const int64_t own_nanos = parts_.stepper().times().Average(soon);
  std::vector<int64_t> nanos(static_cast<size_t>(config.collective->size()));
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(config.collective, &own_nanos,
                                           sizeof(own_nanos), 1, nanos.data()));
  config.job_replicas.throughput().Set(nanos);
  *moved = next->Assign(nanos);
  return Status();
}

// Records at most one assignment in 10 s, of the assignments within a view.
void ReplicaBalancer::RecordReplicas(bool enters) {
  const int workers = reported_.workers();
  const int64_t now = Clock::System()->MonotonicNanos();
  if (g_events == nullptr || workers == 1) return;
  if (!enters && now < next_event_) return;
  next_event_ = now + 10 * kSecond;
  const std::vector<Member>& members = parts_.consistency().members();
  JsonWriter replicas;
  replicas.BeginObject();
  for (int rank = 0; rank < workers; ++rank) {
    const auto r = static_cast<size_t>(rank);
    const int64_t worker = r < members.size() ? members[r].worker : rank;
    replicas.Key(std::to_string(worker)).Int(reported_.range(rank).count);
  }
  RecordEvent(Event("view").Add("replicas", replicas.EndObject()));
}

// If a board is slow from time to time, a line is printed from time to time.
// The last line has the assignment that stays.
void ReplicaBalancer::Report(const FitState& fit) {
  const ReplicaAssignment& assignment =
      parts_.config().job_replicas.assignment();
  const int64_t steps = fit.model->iterations();
  if (steps < reported_at_ + kStepsBetweenReports || assignment == reported_) {
    return;
  }
  reported_at_ = steps;
  reported_ = assignment;
  RecordReplicas(/*enters=*/false);
  messages_.ReportAssignment(fit, assignment);
}

}  // namespace ringlet
