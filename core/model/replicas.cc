#include "replicas.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "../base/byte_order.h"
#include "../base/crc32c.h"
#include "../base/message.h"
#include "../compute/digest.h"
#include "../compute/gemm.h"
#include "attendance.h"
#include "exact_exchange.h"

namespace ringlet {
namespace {

// CRC32C of numbers as little-endian bytes, so that ranks of both byte orders
// compare alike, with one NaN for all.
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
  f->AddChecksum("the attendance",
                 local.attendance == nullptr ? 0 : local.attendance->digest());
}

// Of the only output, which is the last node, the loss says all but its weight.
void AddOutput(const CompileConfig& config, size_t k, Fingerprint* f) {
  const CompileConfig::Output& output = config.outputs[k];
  std::string of;
  if (config.outputs.size() > 1) {
    of = " of output '" + config.losses[k].output + "'";
    f->Add("the layer" + of, int64_t{output.node});
  }
  if (!output.has_loss) return f->Add("the loss" + of, "none");
  AddLoss(output.loss, of, f);
  if (output.weight != 1) f->Add("the loss's weight" + of, output.weight);
}

}  // namespace

Fingerprint Replicas::MakeFingerprint() const {
  Fingerprint f;
  f.Add("the version of ringlet", RINGLET_VERSION);
  f.Add("the number of workers", int64_t{config_.collective->size()});
  // Exact sums promise bits that are no set of machines' own.
  if (config_.exact()) f.Add("the reduction", "exact");
  if (config_.local()) AddLocal(config_.options.local, &f);
  if (config_.exact() || config_.local()) {
    f.Add("the arithmetic", GemmArithmetic());
  }
  f.Add("the number of replicas", int64_t{config_.replicas});
  f.Add("the number of layers", int64_t{graph_.size()});
  for (int i = 0; i < graph_.size(); ++i) {
    const GraphNode& node = graph_.node(i);
    const int first = graph_.layers()[node.number].first_node;
    f.Add("layer " + std::to_string(i),
          DescribeLayer(node.layer, node.inputs, node.output) +
              (first == i ? "" : ", again layer " + std::to_string(first)));
  }
  for (size_t k = 0; k < config_.outputs.size(); ++k) {
    AddOutput(config_, k, &f);
  }
  AddOptimizer(config_.optimizer, &f);
  for (size_t i = 0; i < config_.metrics.size(); ++i) {
    std::string of;
    if (config_.outputs.size() > 1) {
      of = " of output " + std::to_string(config_.metric_outputs[i]);
    }
    f.Add("metric " + std::to_string(i) + of,
          DescribeMetric(config_.metrics[i]));
  }
  f.Add("the seed", std::to_string(config_.options.seed));
  // One that comes back is at its first, and the others may be elsewhere.
  if (config_.collective->elastic()) {
    f.Add("the number of this Compile (workers are taken back in the first)",
          config_.number);
  }
  return f;
}

// The rank of the greatest age gives its state. 0: it has made no step, or is
// restarted. Negative: of no use, for a transfer was cut off.
int64_t Replicas::Age(bool lived) const {
  if (torn_) return -1;
  return lived ? updater_.iterations() + 1 : 0;
}

Status Replicas::CheckWhole() const {
  if (!torn_) return Status();
  return Error(Code::kInternal,
               "model '%s': the worker that gave the others its weights was "
               "lost meanwhile, and nobody has them whole; start all workers "
               "anew",
               graph_.name().c_str());
}

uint32_t Replicas::SlotsDigest(uint32_t digest) const {
  for (const auto& slot : updater_.Slots()) {
    digest = Digest(slot.second, graph_.num_trained(), digest);
  }
  if (memory_.kept().scales == nullptr) return digest;
  return Crc32c(memory_.kept().scales,
                static_cast<size_t>(GridOf(graph_).blocks()), digest);
}

int64_t Replicas::StateDigest() const {
  const float* const weights = memory_.kept().weights;
  const int64_t count = graph_.num_weights();
  const uint64_t sum = DigestOf(weights, count, config_.pool.get());
  const uint64_t crc = SlotsDigest(Digest(weights, count, 0));
  return static_cast<int64_t>(crc << 32 | (sum & 0xffffffff));
}

Status Replicas::TakeStateOf(int root, bool with_optimizer) {
  Collective* const c = config_.collective;
  const auto trained = static_cast<size_t>(graph_.num_trained());
  const KeptSpans& kept = memory_.kept();
  RINGLET_RETURN_IF_ERROR(
      BroadcastNumbers(c, kept.weights, sizeof(float),
                       static_cast<size_t>(graph_.num_weights()), root));
  if (!with_optimizer) return Status();
  for (const auto& slot : updater_.Slots()) {
    RINGLET_RETURN_IF_ERROR(
        BroadcastNumbers(c, slot.second, sizeof(float), trained, root));
  }
  if (kept.scales != nullptr) {
    RINGLET_RETURN_IF_ERROR(c->Broadcast(
        kept.scales, static_cast<size_t>(GridOf(graph_).blocks()), root));
  }
  return Status();
}

// Floats are summed once for all ranks, so those of both classes stay in step;
// but what they end with is of this very set of machines.
Status Replicas::CompareArithmetic() const {
  Collective* const c = config_.collective;
  const int64_t mine = GemmFuses();
  std::vector<int64_t> all(static_cast<size_t>(c->size()));
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(c, &mine, sizeof(int64_t), 1, all.data()));
  const auto other = std::find(all.begin(), all.end(), all[0] == 0);
  if (other == all.end() || c->rank() != 0) return Status();
  const char* const has[] = {"no fused multiply-adds", "fused multiply-adds"};
  Notice(
      "note: worker %d computes with %s, worker 0 with %s: they stay in step, "
      "but machines of one kind alone would end with other last digits "
      "(docs/one_result.md)",
      static_cast<int>(other - all.begin()), has[*other != 0],
      has[all[0] != 0]);
  return Status();
}

// The first of the greatest age among those that were in the run; of all where
// none was. None whose state may be wrong where there is another.
int Replicas::Root(const std::vector<Standing>& all) const {
  const auto order = [this](const Standing& s) {
    return std::make_tuple(!Disbelieves(s.uncompared), s.age >= 0,
                           !Doubts(s.uncompared), s.age);
  };
  int root = config_.arrivals.reference();
  for (int r = 0; r < static_cast<int>(all.size()); ++r) {
    if (config_.arrivals.comes(r)) continue;
    if (order(all[r]) > order(all[root])) root = r;
  }
  return root;
}

Status Replicas::Join(bool lived) {
  Collective* const c = config_.collective;
  took_ = false;
  workers_ = {c->worker()};
  if (c->size() == 1) return Status();
  const std::string what = "model '" + graph_.name() + "'";
  RINGLET_RETURN_IF_ERROR(
      Agree(c, what.c_str(), MakeFingerprint(), config_.arrivals));
  RINGLET_RETURN_IF_ERROR(CompareArithmetic());
  const int64_t age = Age(lived);
  std::vector<Standing> all;
  RINGLET_RETURN_IF_ERROR(GatherStandings(age, &all));
  // Known also where no other state comes.
  torn_ = torn_ || Disbelieves(uncompared_);
  RINGLET_RETURN_IF_ERROR(CompareMarks(all));
  const Standing& mine = all[static_cast<size_t>(c->rank())];
  const int root = Root(all);
  if (all[root].age < 0 || Disbelieves(all[root].uncompared)) {
    torn_ = true;
    return Status();
  }
  const bool started = std::any_of(
      all.begin(), all.end(), [](const Standing& s) { return s.age != 0; });
  // Where a rank has the root's bits already, a transfer that is cut off leaves
  // them as they are; where all have them there is none.
  const auto has = [&](const Standing& s) { return s.SameState(all[root]); };
  const bool has_them = has(mine);
  torn_ = torn_ || !has_them;
  if (!std::all_of(all.begin(), all.end(), has)) {
    RINGLET_RETURN_IF_ERROR(TakeStateOf(root, /*with_optimizer=*/started));
  }
  if (started) RINGLET_RETURN_IF_ERROR(updater_.BroadcastProgress(c, root));
  torn_ = false;
  took_ = !has_them;
  uncompared_ = all[root].uncompared;
  if (took_ && c->elastic()) marks_ = all[static_cast<size_t>(root)].marks;
  holds_others_ = holds_others_ || (took_ && updater_.iterations() > 0);
  return Status();
}

// Marks, and whose numbers are in a state, are of elastic jobs alone.
Status Replicas::GatherStandings(int64_t age, std::vector<Standing>* all) {
  struct Row {
    int64_t age = 0, digest = 0, worker = 0;
    std::array<StateMark, kMarks> marks;
    Disbelief disbelief, doubt;
    UncomparedSteps uncompared;
    Row() { marks.fill({-1, -1}); }
  };
  Collective* const c = config_.collective;
  const size_t numbers =
      c->elastic() ? sizeof(Row) / sizeof(int64_t) : 3;  // the first ones
  Row mine;
  mine.age = age;
  mine.digest = age < 0 ? 0 : StateDigest();
  mine.worker = c->worker();
  std::copy(marks_.begin(), marks_.end(), mine.marks.begin());
  mine.disbelief = disbelief_;
  mine.doubt = doubt_;
  mine.uncompared = uncompared_;
  std::vector<int64_t> gathered(static_cast<size_t>(c->size()) * numbers);
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(c, &mine, sizeof(int64_t), numbers, gathered.data()));
  workers_.clear();
  for (auto at = gathered.begin(); at != gathered.end(); at += numbers) {
    Row row;
    std::memcpy(static_cast<void*>(&row), &*at, numbers * sizeof(int64_t));
    workers_.push_back(row.worker);
    disbelief_.Join(row.disbelief);
    doubt_.Join(row.doubt);
    all->push_back({row.age, row.digest, {}, row.uncompared});
    for (size_t k = 0; k < kMarks && row.marks[k].step >= 0; ++k) {
      all->back().marks.push_back(row.marks[k]);
    }
  }
  absent_doubt_ = doubt_;
  for (size_t r = 0; r < workers_.size(); ++r) {
    if (!config_.arrivals.comes(static_cast<int>(r))) {
      absent_doubt_.Clear(workers_[r]);
    }
  }
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
