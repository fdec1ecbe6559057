#include "known_speeds.h"

#include <algorithm>
#include <utility>

#include "../base/check.h"

namespace ringlet {
namespace {

// Of the last `count` of all; the lower one of two.
int64_t MedianOfLast(const std::vector<int64_t>& all, size_t count) {
  std::vector<int64_t> last(
      all.end() - static_cast<std::ptrdiff_t>(std::min(count, all.size())),
      all.end());
  const auto middle =
      last.begin() + static_cast<std::ptrdiff_t>((last.size() - 1) / 2);
  std::nth_element(last.begin(), middle, last.end());
  return *middle;
}

}  // namespace

int64_t KnownSpeeds::Of(int64_t worker) const {
  const auto known = nanos_.find(worker);
  return known == nanos_.end() ? 0 : known->second;
}

Status KnownSpeeds::Meet(Collective* collective, std::vector<int64_t> workers,
                         std::vector<int64_t>* nanos) {
  workers_ = std::move(workers);
  recent_.assign(workers_.size(), {});
  for (size_t r = 0; r < workers_.size(); ++r) Remember(r, (*nanos)[r]);
  if (std::count(nanos->begin(), nanos->end(), 0) == 0) return Status();
  const size_t size = workers_.size();
  std::vector<int64_t> mine, all(size * size);
  for (const int64_t worker : workers_) mine.push_back(Of(worker));
  RINGLET_RETURN_IF_ERROR(GatherNumbers(collective, mine.data(),
                                        sizeof(int64_t), static_cast<int>(size),
                                        all.data()));
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t& known = (*nanos)[i % size];
    if (known == 0) known = all[i];
  }
  return Status();
}

void KnownSpeeds::Remember(size_t rank, int64_t nanos) {
  if (nanos > 0) nanos_[workers_[rank]] = nanos;
}

void KnownSpeeds::Add(const std::vector<int64_t>& nanos) {
  RINGLET_CHECK(nanos.size() == recent_.size());
  for (size_t r = 0; r < nanos.size(); ++r) {
    if (nanos[r] <= 0) continue;
    std::vector<int64_t>& recent = recent_[r];
    if (recent.size() == kKept) recent.erase(recent.begin());
    recent.push_back(nanos[r]);
    Remember(r, MedianOfLast(recent, kKept));
  }
}

void KnownSpeeds::Set(const std::vector<int64_t>& nanos) {
  for (size_t r = 0; r < nanos.size(); ++r) Remember(r, nanos[r]);
}

std::vector<int64_t> KnownSpeeds::Medians(size_t steps, size_t least) const {
  std::vector<int64_t> medians;
  for (const std::vector<int64_t>& recent : recent_) {
    if (recent.size() < std::max<size_t>(least, 1)) return {};
    medians.push_back(MedianOfLast(recent, steps));
  }
  return medians;
}

}  // namespace ringlet
