#include "worker_throughput.h"

#include <algorithm>
#include <utility>

#include "../base/check.h"
#include "../base/collective_numbers.h"

namespace ringlet {
namespace {

// Returns the lower median of an even number of elements.
int64_t MedianOf(std::vector<int64_t> all) {
  const auto middle =
      all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

}  // namespace

int64_t WorkerThroughput::NanosPerReplica(int64_t worker) const {
  const auto known = nanos_.find(worker);
  return known == nanos_.end() ? 0 : known->second;
}

Status WorkerThroughput::BeginView(Collective* collective,
                                   std::vector<int64_t> workers,
                                   std::vector<int64_t>* nanos) {
  workers_ = std::move(workers);
  recent_.assign(workers_.size(), {});
  for (size_t r = 0; r < workers_.size(); ++r) RecordTime(r, (*nanos)[r]);
  if (std::count(nanos->begin(), nanos->end(), 0) == 0) return Status();
  const size_t size = workers_.size();
  std::vector<int64_t> own_nanos, nanos_of_all(size * size);
  for (const int64_t worker : workers_)
    own_nanos.push_back(NanosPerReplica(worker));
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(collective, own_nanos.data(), sizeof(int64_t),
                       static_cast<int>(size), nanos_of_all.data()));
  for (size_t i = 0; i < nanos_of_all.size(); ++i) {
    int64_t& replica_nanos = (*nanos)[i % size];
    if (replica_nanos == 0) replica_nanos = nanos_of_all[i];
  }
  return Status();
}

void WorkerThroughput::RecordTime(size_t rank, int64_t nanos) {
  if (nanos > 0) nanos_[workers_[rank]] = nanos;
}

void WorkerThroughput::Add(const std::vector<int64_t>& nanos) {
  RINGLET_CHECK(nanos.size() == recent_.size());
  for (size_t r = 0; r < nanos.size(); ++r) {
    if (nanos[r] <= 0) continue;
    std::vector<int64_t>& recent = recent_[r];
    if (recent.size() == kKept) recent.erase(recent.begin());
    recent.push_back(nanos[r]);
    RecordTime(r, MedianOf(recent));
  }
}

void WorkerThroughput::Set(const std::vector<int64_t>& nanos) {
  for (size_t r = 0; r < nanos.size(); ++r) RecordTime(r, nanos[r]);
}

bool WorkerThroughput::HasAll(size_t min_steps) const {
  return std::all_of(recent_.begin(), recent_.end(),
                     [&](const std::vector<int64_t>& recent) {
                       return !recent.empty() && recent.size() >= min_steps;
                     });
}

std::vector<int64_t> WorkerThroughput::Shortest(size_t steps,
                                                size_t min_steps) const {
  std::vector<int64_t> shortest;
  if (!HasAll(min_steps)) return shortest;
  for (const std::vector<int64_t>& recent : recent_) {
    const auto begin = recent.end() - static_cast<std::ptrdiff_t>(
                                          std::min(steps, recent.size()));
    shortest.push_back(*std::min_element(begin, recent.end()));
  }
  return shortest;
}

}  // namespace ringlet
