#include "content_checksum.h"

#include <algorithm>
#include <vector>

#include "../base/byte_order.h"
#include "../base/crc32c.h"
#include "../base/guarded.h"
#include "dataset_parts.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

constexpr size_t kSampledBytes = 4 << 20;
constexpr int64_t kMaxSampled = 1 << 16;
// The fewest examples of a sample, for large ones. If one label in twenty
// differs, a sample has such a label in 999 cases of 1,000.
constexpr int64_t kMinSampled = 128;

// Returns an example of stretch i of `samples`. It is not the first of each
// stretch, which would miss labels that repeat at equal distances.
int64_t SampledExample(int64_t i, int64_t samples, int64_t size) {
  const int64_t stretch = size / samples, first = i * stretch;
  const int64_t length = i + 1 < samples ? stretch : size - first;
  const uint32_t drawn =
      Philox(/*seed=*/0, /*stream=*/0).At(static_cast<uint64_t>(i))[0];
  return first + static_cast<int64_t>(drawn % static_cast<uint64_t>(length));
}

uint32_t AddExample(const ExampleSpec& spec,
                    std::vector<unsigned char>* example, uint32_t crc) {
  SwapToLittle(example->data(), SizeOf(spec.dtype),
               static_cast<size_t>(spec.shape.elements()));
  return Crc32c(example->data(), spec.bytes(), crc);
}

}  // namespace

uint64_t ContentChecksum(const Dataset& dataset) {
  Source* const source = dataset.source().get();
  const ExampleSpec x = source->x(), y = source->y();
  const size_t bytes = std::max<size_t>(1, x.bytes() + y.bytes());
  const int64_t samples = std::min(
      dataset.size(), std::clamp(static_cast<int64_t>(kSampledBytes / bytes),
                                 kMinSampled, kMaxSampled));
  std::vector<unsigned char> x_data(x.bytes()), y_data(y.bytes());
  // The low bits of the digest begin the checksum of x, and the high bits the
  // checksum of y.
  const uint64_t augments = source->AugmentDigest();
  auto x_crc = static_cast<uint32_t>(augments),
       y_crc = static_cast<uint32_t>(augments >> 32);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t example =
        dataset.parts().first +
        dataset.parts().stride * SampledExample(i, samples, dataset.size());
    if (!CallRead(source, &example, 1, x_data.data(), y_data.data()).ok()) {
      x_crc = ~x_crc;
      continue;
    }
    x_crc = AddExample(x, &x_data, x_crc);
    y_crc = AddExample(y, &y_data, y_crc);
  }
  return uint64_t{x_crc} << 32 | y_crc;
}

}  // namespace ringlet
