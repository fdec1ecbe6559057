#include "agreement.h"

#include <cinttypes>

namespace ringlet {

Status Agree(Collective* collective, const char* what,
             const std::vector<Fact>& facts) {
  if (collective->size() == 1) return Status();
  const size_t n = facts.size();
  std::vector<int64_t> mine, all(n * static_cast<size_t>(collective->size()));
  for (const Fact& fact : facts) mine.push_back(fact.value);
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(collective, mine.data(), sizeof(int64_t), n, all.data()));
  for (int rank = 1; rank < collective->size(); ++rank) {
    for (size_t i = 0; i < n; ++i) {
      const int64_t theirs = all[static_cast<size_t>(rank) * n + i];
      if (theirs == all[i]) continue;
      if (facts[i].fingerprint) {
        return InvalidArgument(
            "%s: rank %d has other %s than rank 0; run the same program with "
            "the same options on every worker",
            what, rank, facts[i].name);
      }
      return InvalidArgument("%s: %s is %" PRId64 " on rank %d, but %" PRId64
                             " on rank 0; it must be the same on every worker",
                             what, facts[i].name, theirs, rank, all[i]);
    }
  }
  return Status();
}

}  // namespace ringlet
