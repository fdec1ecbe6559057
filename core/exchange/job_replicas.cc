#include "job_replicas.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "../base/collective_numbers.h"

namespace ringlet {

Status JobReplicas::Agree(Collective* collective, const JoiningMembers& joining,
                          bool owned, int requested, int64_t nanos) {
  const int workers = collective->size();
  std::vector<int64_t> rows(3 * static_cast<size_t>(workers));
  const int64_t own_row[] = {requested, nanos, collective->worker()};
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(collective, own_row, sizeof(int64_t), 3, rows.data()));
  std::vector<int64_t> counts, nanos_by_rank, workers_by_rank;
  for (size_t i = 0; i < rows.size(); i += 3) {
    counts.push_back(rows[i]);
    nanos_by_rank.push_back(rows[i + 1]);
    workers_by_rank.push_back(rows[i + 2]);
  }
  int64_t count = 0;
  int count_rank = 0;
  for (int i = 0; i < workers; ++i) {
    const int r = (joining.reference_rank() + i) % workers;
    const int64_t rank_count = counts[static_cast<size_t>(r)];
    if (rank_count == 0 || rank_count == count) continue;
    if (count != 0) {
      const Status differs = InvalidArgument(
          "replicas: %" PRId64 " on rank %d, %" PRId64
          " on rank %d; all workers of a job must have the same number",
          count, count_rank, rank_count, r);
      return joining.Refuse(collective, r, differs);
    }
    count = rank_count;
    count_rank = r;
  }
  if (count == 0) count = workers;
  if (count < workers || count > kMaxReplicas) {
    const Status wrong = InvalidArgument(
        "replicas: %" PRId64
        " for %d workers; each worker computes at least one, and there are at "
        "most %d",
        count, workers, kMaxReplicas);
    return joining.Refuse(collective, joining.last_joiner(), wrong);
  }
  count_ = static_cast<int>(count);
  assignment_ = ReplicaAssignment(workers, count_);
  assigned_by_speed_ = needs_measurement_ = false;
  if (owned) {
    RINGLET_RETURN_IF_ERROR(AssignFixed(collective));
  } else if (collective->elastic()) {
    RINGLET_RETURN_IF_ERROR(AssignByTime(collective, std::move(workers_by_rank),
                                         std::move(nanos_by_rank)));
  }
  own_ = assignment_.range(collective->rank());
  return Status();
}

Status JobReplicas::AssignByTime(Collective* collective,
                                 std::vector<int64_t> workers,
                                 std::vector<int64_t> nanos) {
  needs_measurement_ = std::count(nanos.begin(), nanos.end(), 0) > 0;
  RINGLET_RETURN_IF_ERROR(
      throughput_.BeginView(collective, std::move(workers), &nanos));
  std::vector<int64_t> known;
  for (const int64_t n : nanos) {
    if (n > 0) known.push_back(n);
  }
  if (known.empty()) return Status();
  const auto median =
      known.begin() + static_cast<std::ptrdiff_t>((known.size() - 1) / 2);
  std::nth_element(known.begin(), median, known.end());
  for (int64_t& n : nanos) {
    if (n <= 0) n = *median;
  }
  assigned_by_speed_ = assignment_.Assign(nanos);
  return Status();
}

Status JobReplicas::AssignFixed(Collective* collective) {
  std::vector<int64_t> workers(static_cast<size_t>(collective->size()));
  const int64_t own_worker = collective->worker();
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(
      collective, &own_worker, sizeof(own_worker), 1, workers.data()));
  for (const int64_t worker : workers) {
    if (worker >= 0 && worker < count_) continue;
    return InvalidArgument(
        "replicas: %d, but worker %" PRId64
        " must have its own replica, since the job has a quorum; leave "
        "replicas out",
        count_, worker);
  }
  assignment_ =
      ReplicaAssignment::FixedPerRank({workers.begin(), workers.end()});
  return Status();
}

void JobReplicas::Assign(ReplicaAssignment assignment, int rank) {
  assignment_ = std::move(assignment);
  own_ = assignment_.range(rank);
}

}  // namespace ringlet
