#include <algorithm>
#include <cmath>
#include <cstring>

#include "../base/crc32c.h"
#include "fit_details.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// The checksums of the tensors that SaveModel writes.
std::vector<uint32_t> ChecksumsOf(Model* model) {
  std::vector<StateSpan> spans;
  model->weights_state()->AppendState(&spans);
  model->optimizer_state()->AppendState(&spans);
  std::vector<uint32_t> checksums;
  checksums.reserve(spans.size());
  for (const StateSpan& span : spans) {
    checksums.push_back(Crc32c(span.data, span.bytes()));
  }
  return checksums;
}

// True if a file with weights of this type has exactly this weight.
bool IsExactIn(Storage storage, float weight) {
  if (storage == Storage::kF32) return true;
  uint32_t bits;
  std::memcpy(&bits, &weight, sizeof(bits));
  if (storage == Storage::kBF16) return (bits & 0xffff) == 0;
  constexpr int kMantissa = 23, kMantissaOfF16 = 10;
  constexpr int kMin = -14, kMax = 15;  // exponents of F16
  if ((bits & 0x7fffffff) == 0) return true;
  const int exponent = static_cast<int>(bits >> kMantissa & 0xff) - 127;
  if (exponent > kMax) return std::isinf(weight);
  // The bits of the mantissa that F16 does not have; more if it is subnormal.
  const int lacks = kMantissa - kMantissaOfF16 + std::max(0, kMin - exponent);
  if (lacks > kMantissa) return false;
  return (bits & ((uint32_t{1} << lacks) - 1)) == 0;
}

}  // namespace

void SavedModel::Record(Model* model, const std::string& file,
                        Storage storage) {
  path = file;
  is_shared = false;
  checksums.clear();
  const float* const weights = model->weights();
  const float* const end = weights + model->num_weights();
  const bool exact = std::all_of(weights, end, [storage](float weight) {
    return IsExactIn(storage, weight);
  });
  if (exact) checksums = ChecksumsOf(model);
  is_finite = std::all_of(weights, end,
                          [](float weight) { return std::isfinite(weight); });
}

bool SavedModel::IsCurrent(Model* model) const {
  return !path.empty() && checksums == ChecksumsOf(model);
}

}  // namespace ringlet
