#include "batch_parts.h"

#include <algorithm>
#include <variant>

#include "../layers/layer_table.h"

namespace ringlet {
namespace {

constexpr int64_t kPartFloats = 1 << 17, kMaxWeights = 1 << 18;
constexpr int64_t kSmallestPart = 4;

// Products of recurrent layers have a row for each example, so small parts
// would cost these more than they save. User-defined layers see whole batches.
bool AllowsParts(const GraphNode& node) {
  return node.output.rank() != 2 && node.layer.custom == nullptr;
}

// Random numbers are counted over the batch.
bool DrawsNumbers(const Layer& layer) {
  for (const LayerField& field : ClassOf(layer).fields) {
    if (std::holds_alternative<uint64_t Layer::*>(field.value)) return true;
  }
  return false;
}

// Each part reads the weights again. A product with few rows for an example is
// slower by that, if it has many weights.
bool HasManyWeightsForARow(const GraphNode& node) {
  constexpr int64_t kFewRows = 8, kManyWeights = 1 << 16;
  const int64_t rows = node.output.elements() / node.output.back();
  return rows < kFewRows && node.op->multiply_adds() > rows * kManyWeights;
}

// An Embedding reports the place of a wrong number in the batch.
bool IsAlikeInParts(const GraphNode& node) {
  return !node.needs_gradient && AllowsParts(node) &&
         (node.op->frozen() || !node.op->changes_state()) &&
         !HasManyWeightsForARow(node) && node.layer.layer == nullptr &&
         !DrawsNumbers(node.layer) &&
         node.layer.kind != Layer::Kind::kEmbedding;
}

// Returns the number of examples with which the numbers that a layer reads and
// writes stay in the cache.
int64_t ExamplesOfPart(const Graph& graph, int begin, int end) {
  int64_t most = 1;  // floats that a layer reads and writes for an example
  for (int i = begin; i < end; ++i) {
    const GraphNode& node = graph.node(i);
    if (node.root != i) continue;
    int64_t floats = node.floats();
    for (const int input : node.inputs) floats += graph.node(input).floats();
    most = std::max(most, floats);
  }
  return std::max(kSmallestPart, kPartFloats / most);
}

}  // namespace

// Only for networks of images, on one thread: threads wait for each other at
// each layer. The weights are read once for each part, and must fit the cache,
// too.
BatchParts PartsForPrediction(const Graph& graph, int64_t batch, int threads) {
  BatchParts parts = {graph.num_inputs(), graph.size(), batch};
  if (threads > 1 || graph.num_weights() > kMaxWeights) return parts;
  for (int i = parts.begin; i < parts.end; ++i) {
    if (graph.node(i).root == i && !AllowsParts(graph.node(i))) return parts;
  }
  parts.examples = ExamplesOfPart(graph, parts.begin, parts.end);
  return parts;
}

// Of several runs of such nodes, the one with the most values.
BatchParts PartsForTraining(const Graph& graph, int threads) {
  BatchParts best;
  int64_t most = 0;
  for (int begin = graph.num_inputs(); begin < graph.size(); ++begin) {
    int64_t floats = 0;
    int end = begin;
    for (; end < graph.size() && IsAlikeInParts(graph.node(end)); ++end) {
      if (graph.node(end).root == end) floats += graph.node(end).floats();
    }
    if (floats > most) {
      most = floats;
      best = {begin, end, 0};
    }
    begin = end;
  }
  best.examples = threads * ExamplesOfPart(graph, best.begin, best.end);
  return best;
}

}  // namespace ringlet
