// The functions of ringlet/collective.h and collective_numbers.h.

#include "ringlet/collective.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "byte_order.h"
#include "collective_numbers.h"
#include "ieee_arithmetic.h"

namespace ringlet {

Status BroadcastNumbers(Collective* collective, void* data,
                        size_t element_bytes, size_t count, int root) {
  if (collective->size() == 1) return Status();
  SwapToLittle(data, element_bytes, count);
  const Status status =
      collective->Broadcast(data, element_bytes * count, root);
  SwapToLittle(data, element_bytes, count);  // restores the bytes of the root
  return status;
}

Status AllGatherNumbers(Collective* collective, const void* in,
                        size_t element_bytes, size_t count, void* out) {
  const size_t bytes = element_bytes * count;
  if (!kBigEndian) return collective->AllGather(in, bytes, out);
  const auto* from = static_cast<const uint8_t*>(in);
  std::vector<uint8_t> little_endian(from, from + bytes);
  SwapToLittle(little_endian.data(), element_bytes, count);
  RINGLET_RETURN_IF_ERROR(
      collective->AllGather(little_endian.data(), bytes, out));
  SwapToLittle(out, element_bytes,
               count * static_cast<size_t>(collective->size()));
  return Status();
}

Status ExchangeStatus(Collective* collective, const Status& status) {
  if (collective->size() == 1) return status;
  std::vector<uint8_t> codes(static_cast<size_t>(collective->size()));
  const auto code = static_cast<uint8_t>(status.code());
  RINGLET_RETURN_IF_ERROR(collective->AllGather(&code, 1, codes.data()));
  const auto failed = std::find_if(codes.begin(), codes.end(),
                                   [](uint8_t c) { return c != 0; });
  if (failed == codes.end()) return Status();
  const auto rank = static_cast<int>(failed - codes.begin());
  char text[400] = "";
  std::snprintf(text, sizeof(text), "%s", status.message());
  RINGLET_RETURN_IF_ERROR(collective->Broadcast(text, sizeof(text), rank));
  if (!status.ok()) return status;
  text[sizeof(text) - 1] = '\0';
  const auto last = static_cast<uint8_t>(kLastCode);
  return Error(static_cast<Code>(std::min(*failed, last)), "rank %d failed: %s",
               rank, text);
}

void AbortOthers(Collective* collective, const Status& status) {
  if (!status.ok() && collective->size() > 1) collective->Abort(status);
}

Status SumOverRanks(Collective* collective, double* values, size_t count) {
  const auto ranks = static_cast<size_t>(collective->size());
  if (ranks == 1) return Status();  // does not allocate
  std::vector<double> all(count * ranks);
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(collective, values, sizeof(double), count, all.data()));
  const IeeeArithmetic ieee;
  for (size_t i = 0; i < count; ++i) {
    values[i] = 0;
    for (size_t r = 0; r < ranks; ++r) values[i] += all[r * count + i];
  }
  return Status();
}

}  // namespace ringlet
