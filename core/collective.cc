#include "collective.h"

#include <vector>

namespace ringlet {

Status SumOverRanks(Collective* collective, double* values, size_t count) {
  const auto ranks = static_cast<size_t>(collective->size());
  std::vector<double> all(count * ranks);
  RINGLET_RETURN_IF_ERROR(
      collective->AllGather(values, count * sizeof(double), all.data()));
  for (size_t i = 0; i < count; ++i) {
    values[i] = 0;
    for (size_t r = 0; r < ranks; ++r) values[i] += all[r * count + i];
  }
  return Status();
}

}  // namespace ringlet
