#include "replicas.h"

#include <algorithm>
#include <cinttypes>
#include <string>
#include <vector>

#include "../base/byte_order.h"
#include "../base/crc32c.h"
#include "../base/version.h"

namespace ringlet {
namespace {

// CRC32C of numbers as little-endian bytes, so that ranks of both byte orders
// compare alike.
uint32_t Digest(const float* values, int64_t count, uint32_t crc) {
  constexpr int64_t kPiece = 1024;
  if (!kBigEndian) {
    return Crc32c(values, static_cast<size_t>(count) * sizeof(float), crc);
  }
  float piece[kPiece];
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t n = std::min(kPiece, count - i);
    std::copy_n(values + i, n, piece);
    SwapToLittle(piece, sizeof(float), static_cast<size_t>(n));
    crc = Crc32c(piece, static_cast<size_t>(n) * sizeof(float), crc);
  }
  return crc;
}

}  // namespace

Fingerprint Replicas::MakeFingerprint() const {
  Fingerprint f;
  f.Add("the version of ringlet", RINGLET_VERSION);
  f.Add("the number of workers", int64_t{config_.collective->size()});
  f.Add("the number of layers", int64_t{graph_.size()});
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    f.Add("layer " + std::to_string(i),
          DescribeLayer(node.layer, node.inputs, node.output));
  }
  AddLoss(config_.loss, &f);
  AddOptimizer(config_.optimizer, &f);
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    f.Add("metric " + std::to_string(i), DescribeMetric(config_.metrics[i]));
  }
  f.Add("the seed", std::to_string(config_.options.seed));
  return f;
}

// The rank of the greatest age gives its state. 0: it has made no step, or is
// restarted. Negative: of no use, for a transfer was cut off.
int64_t Replicas::Age(bool lived) const {
  if (torn_) return -1;
  return lived ? updater_.iterations() + 1 : 0;
}

uint32_t Replicas::SlotsDigest(uint32_t digest) const {
  for (int s = 0; s < config_.optimizer.num_slots(); ++s) {
    digest = Digest(memory_.kept().slots[s], graph_.num_trained(), digest);
  }
  return digest;
}

Status Replicas::TakeStateOf(int root, bool with_optimizer) {
  Collective* const c = config_.collective;
  const auto trained = static_cast<size_t>(graph_.num_trained());
  const KeptSpans& kept = memory_.kept();
  RINGLET_RETURN_IF_ERROR(
      BroadcastNumbers(c, kept.weights, sizeof(float),
                       static_cast<size_t>(graph_.num_weights()), root));
  if (!with_optimizer) return Status();
  for (int s = 0; s < config_.optimizer.num_slots(); ++s) {
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(c, kept.slots[s], sizeof(float), trained, root));
  }
  return updater_.BroadcastProgress(c, root);
}

Status Replicas::Join(bool lived) {
  Collective* const c = config_.collective;
  if (c->size() == 1) return Status();
  const std::string what = "model '" + graph_.name() + "'";
  RINGLET_RETURN_IF_ERROR(Agree(c, what.c_str(), MakeFingerprint()));
  const int64_t age = Age(lived);
  // Of weights and slots.
  const int64_t digest =
      age > 0
          ? SlotsDigest(Digest(memory_.kept().weights, graph_.num_weights(), 0))
          : 0;
  const int64_t mine[2] = {age, digest};
  std::vector<int64_t> all(2 * static_cast<size_t>(c->size()));
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(c, mine, sizeof(int64_t), 2, all.data()));
  int root = 0;
  bool started = false;  // on any rank
  for (int r = 0; r < c->size(); ++r) {
    started |= all[2 * r] != 0;
    if (all[2 * r] > all[2 * root]) root = r;
  }
  // Where a rank has the root's bits already, a transfer that is cut off leaves
  // them as they are.
  const bool has_them =
      age > 0 && age == all[2 * root] && mine[1] == all[2 * root + 1];
  torn_ = torn_ || (c->rank() != root && !has_them);
  RINGLET_RETURN_IF_ERROR(TakeStateOf(root, /*with_optimizer=*/started));
  torn_ = false;
  return Status();
}

Status Replicas::Check() const {
  if (config_.collective->size() == 1) return Status();
  const std::string what = "model '" + graph_.name() + "' after " +
                           std::to_string(updater_.iterations()) + " steps";
  Fingerprint f;
  f.Add("the number of steps", updater_.iterations());
  f.Add("the learning rate", updater_.LearningRate());
  f.AddChecksum("weights",
                Digest(memory_.kept().weights, graph_.num_weights(), 0));
  f.AddChecksum("optimizer slots", SlotsDigest(0));
  const Status status = Agree(config_.collective, what.c_str(), f);
  if (status.code() != Code::kInvalidArgument) return status;
  return Error(Code::kOutOfSync,
               "%s (else a machine's memory is at fault); the next start goes "
               "on from the last backup",
               status.message());
}

}  // namespace ringlet
