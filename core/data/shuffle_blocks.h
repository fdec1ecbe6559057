// ShuffleBlocks: the order of a shuffled pass with Dataset::Memory(), in which
// examples are read in blocks. Pure. docs/streaming.md has the rule.

#ifndef RINGLET_CORE_DATA_SHUFFLE_BLOCKS_H_
#define RINGLET_CORE_DATA_SHUFFLE_BLOCKS_H_

#include <cstdint>

#include "dataset_parts.h"

namespace ringlet {

class ShuffleBlocks {
 public:
  // The bytes of the lists that the buffer keeps for each example.
  static constexpr int64_t kListBytes = 40;

  // `bytes` is the size of an example in the types of its source. If
  // `has_file_per_example`, each example has its own file. The memory is
  // divided among `streams` replicas.
  ShuffleBlocks(int64_t memory, int64_t bytes, bool has_file_per_example,
                int64_t streams);
  // Requires dataset.memory > 0.
  ShuffleBlocks(const DatasetParts& dataset, int replicas);

  // The number of examples that the memory holds.
  int64_t examples() const { return examples_; }
  // Consecutive examples of a block.
  int64_t block() const { return block_; }
  // Examples of a group of blocks; a multiple of block().
  int64_t group() const { return group_; }
  // True if a pass of n examples has groups. Otherwise it is one group, or each
  // example is a block, and Permute gives the order.
  bool divides(int64_t n) const { return block_ > 1 && n > group_; }

  // Element i of the order of n examples.
  int64_t ExampleAt(uint64_t seed, int64_t pass, int64_t n, int64_t i) const;

 private:
  int64_t examples_ = 0, block_ = 1, group_ = 1;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_SHUFFLE_BLOCKS_H_
