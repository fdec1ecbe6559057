// BatchParts: the nodes that run a batch in parts.
//
// Nodes before them run the whole batch, then each part passes through all of
// these, then nodes after them run the whole batch. The bits are the same.

#ifndef RINGLET_CORE_GRAPH_BATCH_PARTS_H_
#define RINGLET_CORE_GRAPH_BATCH_PARTS_H_

#include <cstdint>

#include "graph.h"

namespace ringlet {

struct BatchParts {
  int begin = 0, end = 0;  // nodes
  int64_t examples = 0;    // of a part
  bool empty() const { return begin == end; }
  bool Has(int node) const { return node >= begin && node < end; }
};

// All nodes, so that values stay in the cache between two layers. Where this
// saves no time a part has `batch` examples.
BatchParts PartsForPrediction(const Graph& graph, int64_t batch, int threads);

// The nodes of a training step that need no gradient and compute each example
// alone, such as the nodes of a frozen body. Their values take the memory of
// one part. Empty if there are none.
BatchParts PartsForTraining(const Graph& graph, int threads);

}  // namespace ringlet

#endif  // RINGLET_CORE_GRAPH_BATCH_PARTS_H_
