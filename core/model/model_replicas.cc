// The replicas of a model: that all ranks have the same one, and whose state
// they begin with.

#include <algorithm>
#include <cinttypes>

#include "../base/byte_order.h"
#include "../base/crc32c.h"
#include "../base/version.h"
#include "fingerprint.h"
#include "model_impl.h"

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

Fingerprint Model::Impl::MakeFingerprint() {
  Fingerprint f;
  f.Add("the version of ringlet", RINGLET_VERSION);
  f.Add("the number of workers", int64_t{collective()->size()});
  f.Add("the number of layers", static_cast<int64_t>(nodes.size()));
  for (size_t i = 0; i < nodes.size(); ++i) {
    f.Add("layer " + std::to_string(i),
          DescribeLayer(nodes[i].layer, nodes[i].inputs, nodes[i].output));
  }
  AddLoss(loss, &f);
  AddOptimizer(optimizer, &f);
  for (size_t i = 0; i < metrics.size(); ++i) {
    f.Add("metric " + std::to_string(i), DescribeMetric(metrics[i]));
  }
  f.Add("the seed", std::to_string(options.seed));
  return f;
}

// Whose weights all ranks take: the newest of those that lived through a loss,
// else the chief's. Negative: of no use, for a transfer was cut off.
int64_t Model::Impl::Age(bool lived) const {
  if (torn) return -1;
  return lived ? iterations + 1 : 0;
}

uint32_t Model::Impl::SlotsDigest(uint32_t digest) const {
  for (int s = 0; s < optimizer.num_slots(); ++s) {
    digest = Digest(kept.slots[s], num_weights, digest);
  }
  return digest;
}

Status Model::Impl::JoinReplicas(bool lived) {
  Collective* const c = collective();
  if (c->size() == 1) return Status();
  const std::string what = "model '" + name + "'";
  RINGLET_RETURN_IF_ERROR(Agree(c, what.c_str(), MakeFingerprint()));
  const int64_t age = Age(lived);
  // Of weights and slots.
  const int64_t digest =
      age > 0 ? SlotsDigest(Digest(kept.weights, num_weights, 0)) : 0;
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
  torn = torn || (c->rank() != root && !has_them);
  const auto count = static_cast<size_t>(num_weights);
  RINGLET_RETURN_IF_ERROR(
      BroadcastNumbers(c, kept.weights, sizeof(float), count, root));
  if (started) {
    for (int s = 0; s < optimizer.num_slots(); ++s) {
      RINGLET_RETURN_IF_ERROR(
          BroadcastNumbers(c, kept.slots[s], sizeof(float), count, root));
    }
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(c, &iterations, sizeof(int64_t), 1, root));
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(c, &learning_rate, sizeof(float), 1, root));
  }
  torn = false;
  return Status();
}

Status Model::RejoinReplicas() {
  RINGLET_RETURN_IF_ERROR(impl_->Usable());
  impl_->DropGradients();  // of the ring that is no more
  RINGLET_RETURN_IF_ERROR(collective()->Reform());
  return impl_->JoinReplicas(/*lived=*/true);
}

Status Model::CheckReplicas() {
  Impl& m = *impl_;
  if (m.collective()->size() == 1) return Status();
  const std::string what =
      "model '" + m.name + "' after " + std::to_string(m.iterations) + " steps";
  Fingerprint f;
  f.Add("the number of steps", m.iterations);
  f.Add("the learning rate", LearningRate());
  f.AddChecksum("weights", Digest(m.kept.weights, m.num_weights, 0));
  f.AddChecksum("optimizer slots", m.SlotsDigest(0));
  const Status status = Agree(m.collective(), what.c_str(), f);
  if (status.code() != Code::kInvalidArgument) return status;
  return Error(Code::kOutOfSync,
               "%s (else a machine's memory is at fault); the next start goes "
               "on from the last backup",
               status.message());
}

}  // namespace ringlet
