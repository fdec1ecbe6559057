#include "arrivals.h"

#include <algorithm>

namespace ringlet {

Status Arrivals::Meet(Collective* collective, bool lived) {
  lived_.clear();
  if (!collective->elastic() || collective->size() == 1) return Status();
  const uint8_t mine = lived ? 1 : 0;
  std::vector<uint8_t> all(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(collective->AllGather(&mine, 1, all.data()));
  const auto came = std::count(all.begin(), all.end(), 0);
  const bool some = came > 0 && static_cast<size_t>(came) < all.size();
  if (some) lived_ = std::move(all);
  return Status();
}

bool Arrivals::comes(int rank) const {
  const auto at = static_cast<size_t>(rank);
  return at < lived_.size() && lived_[at] == 0;
}

int Arrivals::last_comer() const {
  for (size_t r = lived_.size(); r-- > 0;) {
    if (lived_[r] == 0) return static_cast<int>(r);
  }
  return -1;
}

int Arrivals::reference() const {
  for (size_t r = 0; r < lived_.size(); ++r) {
    if (lived_[r] != 0) return static_cast<int>(r);
  }
  return 0;
}

Status Arrivals::Refuse(Collective* collective, int rank,
                        const Status& why) const {
  if (!comes(rank)) return why;
  if (rank == collective->rank()) {
    AbortOthers(collective, why);
    return why;
  }
  // Until it says so; it does not come to a barrier.
  collective->Barrier().IgnoreError();
  return PeerLost(rank, "%s; that worker is not let in", why.message());
}

void Arrivals::AbortOthers(Collective* collective, const Status& why) const {
  const int rank = collective->rank();
  const bool lost = !why.ok() && comes(rank);
  ringlet::AbortOthers(
      collective,
      lost ? PeerLost(rank, "it came to the run and cannot take part: %s",
                      why.message())
           : why);
}

}  // namespace ringlet
