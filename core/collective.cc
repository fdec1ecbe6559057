#include "collective.h"

#include <vector>

#include "byte_order.h"

namespace ringlet {

Status BroadcastNumbers(Collective* collective, void* data,
                        size_t element_bytes, size_t count, int root) {
  if (collective->size() == 1) return Status();
  SwapToLittle(data, element_bytes, count);
  const Status status =
      collective->Broadcast(data, element_bytes * count, root);
  SwapToLittle(data, element_bytes, count);  // the root's are as they were
  return status;
}

Status GatherNumbers(Collective* collective, const void* in,
                     size_t element_bytes, size_t count, void* out) {
  const size_t bytes = element_bytes * count;
  if (!kBigEndian) return collective->AllGather(in, bytes, out);
  const auto* from = static_cast<const uint8_t*>(in);
  std::vector<uint8_t> mine(from, from + bytes);
  SwapToLittle(mine.data(), element_bytes, count);
  RINGLET_RETURN_IF_ERROR(collective->AllGather(mine.data(), bytes, out));
  SwapToLittle(out, element_bytes,
               count * static_cast<size_t>(collective->size()));
  return Status();
}

Status SumOverRanks(Collective* collective, double* values, size_t count) {
  const auto ranks = static_cast<size_t>(collective->size());
  if (ranks == 1) return Status();  // and nothing is allocated
  std::vector<double> all(count * ranks);
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(collective, values, sizeof(double), count, all.data()));
  for (size_t i = 0; i < count; ++i) {
    values[i] = 0;
    for (size_t r = 0; r < ranks; ++r) values[i] += all[r * count + i];
  }
  return Status();
}

}  // namespace ringlet
