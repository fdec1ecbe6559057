#include "donor.h"

#include <cstddef>
#include <tuple>

namespace ringlet {

int ChooseDonor(const std::vector<StateSummary>& all) {
  const auto order = [](const StateSummary& s) {
    return std::make_tuple(s.progress.verified_step, s.progress.step, s.epoch);
  };
  int donor = -1;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].valid == 0) continue;
    if (donor < 0 || order(all[r]) > order(all[static_cast<size_t>(donor)])) {
      donor = static_cast<int>(r);
    }
  }
  return donor;
}

bool HoldsStateOf(const StateSummary& donor, const StateSummary& rank) {
  return rank.valid != 0 && rank.progress == donor.progress &&
         rank.epoch == donor.epoch && rank.digest == donor.digest;
}

bool FindConflict(const std::vector<StateSummary>& all, int* first,
                  int* second) {
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = a + 1; b < all.size(); ++b) {
      const bool same_boundary = all[a].point_step >= 0 &&
                                 all[a].point_step == all[b].point_step &&
                                 all[a].point_epoch == all[b].point_epoch;
      if (!same_boundary || all[a].point_digest == all[b].point_digest) {
        continue;
      }
      *first = static_cast<int>(a);
      *second = static_cast<int>(b);
      return true;
    }
  }
  return false;
}

}  // namespace ringlet
