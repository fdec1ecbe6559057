#include "joining_members.h"

#include <algorithm>

#include "../base/collective_numbers.h"

namespace ringlet {

Status JoiningMembers::ExchangeIncumbents(Collective* collective,
                                          bool incumbent) {
  incumbents_.clear();
  if (!collective->elastic() || collective->size() == 1) return Status();
  const uint8_t own_flag = incumbent ? 1 : 0;
  std::vector<uint8_t> flags(static_cast<size_t>(collective->size()));
  RINGLET_RETURN_IF_ERROR(collective->AllGather(&own_flag, 1, flags.data()));
  const auto joiners = std::count(flags.begin(), flags.end(), 0);
  const bool some_join =
      joiners > 0 && static_cast<size_t>(joiners) < flags.size();
  if (some_join) incumbents_ = std::move(flags);
  return Status();
}

bool JoiningMembers::joins(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return index < incumbents_.size() && incumbents_[index] == 0;
}

int JoiningMembers::last_joiner() const {
  for (size_t r = incumbents_.size(); r-- > 0;) {
    if (incumbents_[r] == 0) return static_cast<int>(r);
  }
  return -1;
}

int JoiningMembers::reference_rank() const {
  for (size_t r = 0; r < incumbents_.size(); ++r) {
    if (incumbents_[r] != 0) return static_cast<int>(r);
  }
  return 0;
}

Status JoiningMembers::Refuse(Collective* collective, int rank,
                              const Status& why) const {
  if (!joins(rank)) return why;
  if (rank == collective->rank()) {
    AbortOthers(collective, why);
    return why;
  }
  // Waits for the abort of the refused rank, which does not enter the barrier.
  collective->Barrier().IgnoreError();
  return PeerLost(rank, "%s; that worker cannot join", why.message());
}

void JoiningMembers::AbortOthers(Collective* collective,
                                 const Status& why) const {
  const int rank = collective->rank();
  const bool lost = !why.ok() && joins(rank);
  ringlet::AbortOthers(
      collective,
      lost ? PeerLost(rank, "it cannot join the run: %s", why.message()) : why);
}

}  // namespace ringlet
