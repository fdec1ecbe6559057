// The order of the collective calls in Join and Check is the same on every
// rank, whatever each finds: a rank that returns early would leave the other
// ranks waiting. Floats are compared as little-endian bytes with one NaN, so
// machines of both byte orders agree.

#include "replica_consistency.h"

#include <algorithm>
#include <cinttypes>
#include <random>
#include <string>
#include <vector>

#include "../base/byte_order.h"
#include "../base/collective_numbers.h"
#include "../base/crc32c.h"
#include "../base/fnv1a.h"
#include "../base/number_text.h"
#include "../compute/digest.h"
#include "../compute/gemm.h"
#include "../exchange/exact_exchange.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// CRC32C of numbers as little-endian bytes with one NaN, so that ranks of both
// byte orders get the same digest.
uint32_t Digest(const float* values, int64_t count, uint32_t crc) {
  constexpr int64_t kPiece = 768;
  float piece[kPiece];
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t n = std::min(kPiece, count - i);
    CopyWithOneNan(values + i, n, piece);
    SwapToLittle(piece, sizeof(float), static_cast<size_t>(n));
    crc = Crc32c(piece, static_cast<size_t>(n) * sizeof(float), crc);
  }
  return crc;
}

void AddLocal(const LocalUpdates& local, Fingerprint* f) {
  f->Add("local_steps", local.steps);
  f->Add("the outer learning rate", local.learning_rate);
  f->Add("the outer momentum", local.momentum);
  f->Add("the outer step's nesterov", int64_t{local.nesterov});
  f->Add("the delta", static_cast<int64_t>(local.delta));
  f->Add("the overlap of rounds", int64_t{local.overlap});
  f->Add("the participation", int64_t{local.participation});
  f->Add("the quorum", int64_t{local.quorum});
  f->Add("the round_deadline",
         static_cast<float>(local.round_deadline_seconds));
}

// The graph gives the node of a single output, so only its loss is added, and a
// weight other than 1.
void AddOutput(const CompileConfig& config, size_t k, Fingerprint* f) {
  const CompileConfig::Output& output = config.outputs[k];
  std::string suffix;
  if (config.outputs.size() > 1) {
    suffix = " of output '" + config.losses[k].output + "'";
    f->Add("the layer" + suffix, int64_t{output.node});
  }
  if (!output.has_loss) return f->Add("the loss" + suffix, "none");
  AddLoss(output.loss, suffix, f);
  if (output.weight != 1) f->Add("the loss's weight" + suffix, output.weight);
}

}  // namespace

// Two processes draw the same number with a probability of 2^-63.
int64_t ReplicaConsistency::DrawStateIncarnation() {
  std::random_device device;
  const uint64_t high = device(), low = device();
  return static_cast<int64_t>((high << 32 | (low & 0xffffffff)) >> 1);
}

Fingerprint ReplicaConsistency::MakeFingerprint() const {
  Fingerprint f;
  f.Add("the version of ringlet", RINGLET_VERSION);
  f.Add("the number of workers", int64_t{config_.collective->size()});
  // With exact sums no bit depends on the set of machines.
  if (config_.exact()) f.Add("the reduction", "exact");
  if (config_.local()) AddLocal(config_.options.local, &f);
  if (config_.exact() || config_.local()) {
    f.Add("the arithmetic", ArithmeticClassName());
    f.Advise("the arithmetic",
             "start all of them with RINGLET_KERNELS=unfused in their "
             "environment");
  }
  f.Add("the number of replicas", int64_t{config_.job_replicas.count()});
  f.Add("the number of layers", int64_t{graph_.size()});
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    const int first = graph_.layers()[node.layer_index].first_node;
    Layer layer = node.layer;
    // A restarted worker has not adapted its layers yet. Fit compares their
    // means and variances.
    if (layer.adapt) layer.means = layer.variances = {};
    f.Add("layer " + std::to_string(i),
          DescribeLayer(layer, node.inputs, node.output) +
              (first == i ? "" : ", again layer " + std::to_string(first)));
  }
  for (size_t k = 0; k < config_.outputs.size(); ++k) {
    AddOutput(config_, k, &f);
  }
  AddOptimizer(config_.optimizer, &f);
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    std::string suffix;
    if (config_.outputs.size() > 1) {
      suffix = " of output " + std::to_string(config_.metric_outputs[i]);
    }
    f.Add("metric " + std::to_string(i) + suffix,
          DescribeMetric(config_.metrics[i]));
  }
  f.Add("the seed", std::to_string(config_.options.seed));
  // A restarted worker is in its first Compile; the other ranks may be in a
  // later one.
  if (config_.collective->elastic()) {
    f.Add("the number of this Compile (workers are taken back in the first)",
          config_.number);
  }
  return f;
}

uint32_t ReplicaConsistency::SlotsDigest(uint32_t digest) const {
  for (const auto& slot : updater_.Slots()) {
    digest = Digest(slot.second, graph_.num_trained(), digest);
  }
  if (memory_.persistent().scales == nullptr) return digest;
  return Crc32c(memory_.persistent().scales,
                static_cast<size_t>(MakeGridLayout(graph_).blocks()), digest);
}

int64_t ReplicaConsistency::StateDigest() const {
  const float* const weights = memory_.persistent().weights;
  const int64_t count = graph_.num_weights();
  const uint64_t sum = ComputeDigest(weights, count, config_.pool.get());
  const uint64_t crc = SlotsDigest(Digest(weights, count, 0));
  return static_cast<int64_t>(crc << 32 | (sum & 0xffffffff));
}

Status ReplicaConsistency::BroadcastStart(int root) {
  Collective* const c = config_.collective;
  RINGLET_RETURN_IF_ERROR(
      BroadcastNumbers(c, memory_.persistent().weights, sizeof(float),
                       static_cast<size_t>(graph_.num_weights()), root));
  return BroadcastState(c, {&updater_}, root);
}

// Each sum of floats is computed once for all ranks, so machines with and
// without fused multiply-adds stay in step. But the result depends on this set
// of machines.
Status ReplicaConsistency::CompareArithmetic() const {
  Collective* const c = config_.collective;
  const int64_t own_fuses = UsesFusedMultiplyAdd();
  std::vector<int64_t> fuses(static_cast<size_t>(c->size()));
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(c, &own_fuses, sizeof(int64_t), 1, fuses.data()));
  const auto other = std::find(fuses.begin(), fuses.end(), fuses[0] == 0);
  if (other == fuses.end() || c->rank() != 0) return Status();
  const char* const has[] = {"no fused multiply-adds", "fused multiply-adds"};
  Notice(
      "note: worker %d computes with %s, worker 0 with %s: they stay in step, "
      "but machines of one kind alone would end with other last digits; "
      "RINGLET_KERNELS=unfused on all makes them one kind (docs/one_result.md)",
      static_cast<int>(other - fuses.begin()), has[*other != 0],
      has[fuses[0] != 0]);
  return Status();
}

Status ReplicaConsistency::Join(bool has_state) {
  Collective* const c = config_.collective;
  if (state_incarnation_ == 0 && c->elastic()) {
    state_incarnation_ = DrawStateIncarnation();
  }
  members_ = {{c->worker(), state_incarnation_}};
  if (c->size() == 1) return Status();
  const std::string subject = "model '" + graph_.name() + "'";
  RINGLET_RETURN_IF_ERROR(
      Agree(c, subject.c_str(), MakeFingerprint(), config_.joining));
  RINGLET_RETURN_IF_ERROR(CompareArithmetic());
  std::vector<Start> all;
  RINGLET_RETURN_IF_ERROR(GatherStarts(has_state, &all));
  members_.clear();
  for (const Start& start : all) {
    members_.push_back(start.member);
    if (start.has_state != 0) has_state = true;
  }
  if (has_state) return Status();
  // A worker that joins a run gets the run's state, whatever it has loaded.
  if (config_.joining.last_joiner() < 0) {
    RINGLET_RETURN_IF_ERROR(CompareStarts(all));
  }
  const int root = config_.joining.reference_rank();
  const bool all_same =
      std::all_of(all.begin(), all.end(), [&](const Start& start) {
        return start.HasEqualDigest(all[static_cast<size_t>(root)]);
      });
  return all_same ? Status() : BroadcastStart(root);
}

int64_t ReplicaConsistency::LoadedDigest() const {
  if (!loaded_) return 0;
  Fnv1a digest;
  digest.Add(std::to_string(updater_.iterations()));
  digest.Add(ShortestText(updater_.LearningRate()));
  return static_cast<int64_t>(digest.value() | 1);
}

Status ReplicaConsistency::CompareStarts(const std::vector<Start>& all) const {
  if (std::all_of(all.begin(), all.end(),
                  [](const Start& s) { return s.loaded == 0; })) {
    return Status();
  }
  for (size_t r = 1; r < all.size(); ++r) {
    const bool progress = all[r].loaded != all[0].loaded;
    if (!progress && all[r].HasEqualDigest(all[0])) continue;
    return Error(Code::kOutOfSync,
                 "model '%s': worker %" PRId64
                 " begins with another %s than worker %" PRId64
                 "; all workers are to load the same file",
                 graph_.name().c_str(), all[r].member.worker,
                 progress ? "number of steps or learning rate"
                          : "state of weights or optimizer slots",
                 all[0].member.worker);
  }
  return Status();
}

Status ReplicaConsistency::GatherStarts(bool has_state,
                                        std::vector<Start>* starts) {
  Collective* const c = config_.collective;
  Start own_start = {};
  own_start.has_state = has_state ? 1 : 0;
  own_start.digest = has_state ? 0 : StateDigest();
  own_start.loaded = LoadedDigest();
  own_start.member = {c->worker(), state_incarnation_};
  starts->resize(static_cast<size_t>(c->size()));
  return AllGatherNumbers(c, &own_start, sizeof(int64_t),
                          sizeof(Start) / sizeof(int64_t), starts->data());
}

Status ReplicaConsistency::Check() const {
  if (config_.collective->size() == 1) return Status();
  const std::string subject = "model '" + graph_.name() + "' after " +
                              std::to_string(updater_.iterations()) + " steps";
  Fingerprint f;
  f.Add("the number of steps", updater_.iterations());
  f.Add("the learning rate", updater_.LearningRate());
  f.AddChecksum("weights",
                Digest(memory_.persistent().weights, graph_.num_weights(), 0));
  f.AddChecksum("optimizer slots", SlotsDigest(0));
  const Status status = Agree(config_.collective, subject.c_str(), f);
  if (status.code() != Code::kInvalidArgument) return status;
  return Error(
      Code::kOutOfSync,
      "%s (else a machine's memory is at fault, or the program was compiled "
      "otherwise there); the next start continues from the last backup",
      status.message());
}

}  // namespace ringlet
