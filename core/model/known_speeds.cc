#include "known_speeds.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ringlet {

Status KnownSpeeds::Meet(Collective* collective, std::vector<int64_t> workers,
                         std::vector<int64_t>* nanos) {
  workers_ = std::move(workers);
  Note(*nanos);
  if (std::count(nanos->begin(), nanos->end(), 0) == 0) return Status();
  const size_t size = workers_.size();
  std::vector<int64_t> mine, all(size * size);
  for (const int64_t worker : workers_) {
    const auto known = nanos_.find(worker);
    mine.push_back(known == nanos_.end() ? 0 : known->second);
  }
  RINGLET_RETURN_IF_ERROR(GatherNumbers(collective, mine.data(),
                                        sizeof(int64_t), static_cast<int>(size),
                                        all.data()));
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t& known = (*nanos)[i % size];
    if (known == 0) known = all[i];
  }
  return Status();
}

void KnownSpeeds::Note(const std::vector<int64_t>& nanos) {
  for (size_t r = 0; r < nanos.size(); ++r) {
    if (nanos[r] > 0) nanos_[workers_[r]] = nanos[r];
  }
}

}  // namespace ringlet
