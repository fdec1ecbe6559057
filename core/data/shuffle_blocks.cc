#include "shuffle_blocks.h"

#include <algorithm>

#include "dataset_parts.h"
#include "permutation.h"

namespace ringlet {
namespace {

constexpr int64_t kBlockBytes = 64 << 10;
// A group has at least this many blocks, less one.
constexpr int64_t kMinBlocks = 16;

// Seeds of the three permutations. kGroups is multiplied by the group's number.
constexpr uint64_t kBegin = 0xA0761D6478BD642Fu;
constexpr uint64_t kBlocks = 0xE7037ED1A0B428DBu;
constexpr uint64_t kGroups = 0x8EBC6AF09C88C6E3u;

}  // namespace

ShuffleBlocks::ShuffleBlocks(int64_t memory, int64_t bytes,
                             bool has_file_per_example, int64_t streams)
    : examples_(std::min<int64_t>(memory / (bytes + kListBytes), INT32_MAX)) {
  const int64_t stream_examples = examples_ / streams;
  if (!has_file_per_example) {
    block_ =
        std::max<int64_t>(1, std::min(kBlockBytes / std::max<int64_t>(bytes, 1),
                                      stream_examples / kMinBlocks));
  }
  // A block of the next group is read before this group is used up.
  group_ = std::max<int64_t>(1, stream_examples / block_ - 1) * block_;
}

ShuffleBlocks::ShuffleBlocks(const DatasetParts& dataset, int replicas)
    : ShuffleBlocks(dataset.memory, dataset.example_bytes,
                    dataset.has_file_per_example,
                    dataset.HasReplicaStreams(replicas) ? replicas : 1) {}

int64_t ShuffleBlocks::ExampleAt(uint64_t seed, int64_t pass, int64_t n,
                                 int64_t i) const {
  if (!divides(n)) return Permute(seed, pass, n, i);
  const int64_t number = i / group_, first = number * group_;
  i = first + Permute(seed + static_cast<uint64_t>(number + 1) * kGroups, pass,
                      std::min(group_, n - first), i - first);
  const int64_t whole_blocks = n / block_;
  int64_t block = i / block_;
  if (block < whole_blocks)
    block = Permute(seed + kBlocks, pass, whole_blocks, block);
  const int64_t begin = Permute(seed + kBegin, pass, n, 0);
  return (begin + block * block_ + i % block_) % n;
}

}  // namespace ringlet
