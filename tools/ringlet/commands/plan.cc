// ringlet plan: estimates the costs of a step of RUN.json, without its data.

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "../command_line.h"
#include "../config/run_config.h"
#include "../run/data_bytes.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/json.h"
#include "core/fit/run_state.h"
#include "core/model/model_parts.h"
#include "file_summaries.h"
#include "plan_wire.h"
#include "ringlet/status.h"
#include "run_memory.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Computes what training will take, before data are read: the exact bytes of
memory, the floating-point operations of a step, and the bytes that a worker
sends in a step or in a round of local updates, with their time on a link. With
--limit it also counts the data, by the sizes of their files, and the program.
)";

constexpr char kMore[] = R"(
N workers sum gradients around a ring. Each sends 2 (N - 1) / N of their bytes
in a step, and receives as many at the same time. The seconds are those of each
worker's own link; multiply by N for workers of one Wi-Fi. They include the
latencies of 2 (N - 1) hops, or 3 (N - 1) for a local round, and with --step-time
the computing, as if nothing overlapped.

The memory is that of the model. With --workers it includes the copies of the
state from which the job continues after a loss. With policy "shrink" it is the
memory of a worker that is left alone with all replicas, since a worker takes it
from the beginning. So write the policy into RUN.json where `ringlet launch
--restart` chooses it. Not counted are the program (about 5 MB), the data, and a
copy of the state that BackupAndRestore saves in the background. While a CSV is
read its rows may take twice as much.
)";

// The program's code and stacks, and the model's names and shapes.
constexpr uint64_t kProgramBytes = 5 << 20;

struct PlanFlags {
  FitFlags fit;
  WireFlags wire;
  int64_t limit = 0;
  bool json = false;
};

struct Plan {
  int64_t batch = 0;
  MemoryPlan bytes;
  uint64_t others = 0;  // bytes of local updates for other workers' replicas
  uint64_t copies = 0;  // bytes of copies of the state
  uint64_t tables = 0;  // bytes of the layers' tables
  uint64_t total() const { return bytes.total() + copies + tables; }
  uint64_t data = 0;
  int64_t forward_flops = 0, recomputed_flops = 0;
  WirePlan wire;
  int64_t largest_batch =
      -1;  // the largest that fits the limit, -1 if not asked
};

// The largest batch that fits, by bisection: bytes grow with the batch, apart
// from small irregularities in the placement of buffers.
int64_t LargestBatch(const Model& model, int64_t limit) {
  const auto fits = [&](int64_t batch) {
    return model.BytesNeeded(batch) <= static_cast<uint64_t>(limit);
  };
  if (!fits(1)) return 0;
  int64_t good = 1, bad = 2;
  while (bad < (int64_t{1} << 30) && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

// The most replicas that one worker computes.
int ComputedReplicas(const RunConfig& config, int64_t workers) {
  const int64_t replicas = config.strategy.options.replicas;
  return static_cast<int>(
      std::max<int64_t>(1, (replicas + workers - 1) / workers));
}

// The replicas for which each worker takes memory. A worker of an elastic job
// may be left alone with all of them.
int ReplicasInMemory(const RunConfig& config, int64_t workers) {
  const StrategyOptions& options = config.strategy.options;
  const bool has_quorum = options.local.enabled() && options.local.quorum > 0;
  if (workers == 1 || !config.strategy.elastic() || has_quorum) {
    return ComputedReplicas(config, workers);
  }
  return static_cast<int>(std::max<int64_t>(options.replicas, workers));
}

uint64_t BytesOf(Saveable* state) {
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  uint64_t bytes = 0;
  for (const StateSpan& span : spans) bytes += span.bytes();
  return bytes;
}

// The memory that rounds of local updates need for `replicas` replicas.
uint64_t BytesOfReplicas(const Model& model, int64_t replicas) {
  const LocalUpdates& local = model.local_updates();
  const int64_t numbers = (local.sparse() ? model.num_trained() : 0) +
                          (local.overlaps() ? model.num_weights() : 0);
  return static_cast<uint64_t>(replicas * numbers) * sizeof(float);
}

// The copies of the state in memory that a fit continues from after a loss
// (core/recovery/recovery.h).
uint64_t BytesOfCopies(const RunConfig& config, int64_t workers) {
  const bool elastic = config.strategy.elastic();
  const bool restores = elastic || AnyRestoresAfterLoss(config.callbacks);
  Model* const model = config.model.get();
  const LocalUpdates& local = model->local_updates();
  if (workers == 1 || !restores || local.keeps_state_per_worker()) return 0;
  const uint64_t weights = BytesOf(model->weights_state());
  if (!elastic || !config.strategy.cross_check) return weights;
  return 2 * weights + BytesOf(model->optimizer_state());
}

// The memory that a worker needs for the replicas of other workers. The model
// counts only the replicas with which it is compiled.
uint64_t BytesOfOtherReplicas(const Model& model, int64_t replicas) {
  return BytesOfReplicas(model,
                         std::max<int64_t>(0, replicas - model.num_replicas()));
}

// Returns the bytes of training and validation data; 0 if the files cannot be
// read.
uint64_t BytesOfData(const std::string& path, const RunConfig& config) {
  uint64_t train = 0, validation = 0;
  DataConfig validating = config.validation;
  // Training also encodes the validation data as the training data.
  validating.table.categorical = config.train.table.categorical;
  validating.table.missing = config.train.table.missing;
  validating.table.missing_by_column = config.train.table.missing_by_column;
  validating.table.na_values = config.train.table.na_values;
  Status read = DataBytes(config.train, *config.model, config.fit, &train);
  if (read.ok()) {
    read = DataBytes(validating, *config.model, config.fit, &validation);
  }
  // The two are not read at the same time, and validation reads little ahead.
  const auto memory = static_cast<uint64_t>(
      std::max(config.train.memory, config.validation.memory));
  if (read.ok()) return train + validation + memory;
  Notice("note: %s: the data are not counted: %s", path.c_str(),
         read.message());
  return 0;
}

// Plans all except what --limit adds. Makes the model of *run.
Status PlanModel(const std::string& path, const PlanFlags& flags,
                 RunConfig* run, Plan* plan) {
  RunConfig& config = *run;
  const int replicas = config.strategy.options.replicas;
  if (replicas != 0 && replicas < flags.wire.workers) {
    return InvalidArgument(
        "%s: strategy.replicas: is %d, but --workers %" PRId64
        ", and each computes at least one replica",
        path.c_str(), replicas, flags.wire.workers);
  }
  const int replicas_computed = ComputedReplicas(config, flags.wire.workers);
  const int replicas_in_memory = ReplicasInMemory(config, flags.wire.workers);
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, {}, nullptr, replicas_in_memory)
                              .Annotate("%s", path.c_str()));
  const Model& model = *config.model;
  plan->batch = config.fit.batch_size;
  if (!config.validation.empty() || config.fit.validation_split > 0) {
    plan->batch = std::max(plan->batch, config.fit.validation_batch_size);
  }
  plan->bytes = model.PlanMemory(plan->batch);
  const uint64_t others = BytesOfOtherReplicas(
      model, std::max<int64_t>(replicas, flags.wire.workers));
  plan->bytes.local += others;
  plan->copies = BytesOfCopies(config, flags.wire.workers);
  plan->tables = ModelParts(&model).graph().TableBytes();
  const auto flops = [plan, replicas_computed](int64_t multiply_adds) {
    const int64_t examples = plan->batch * replicas_computed;
    const int64_t max_multiply_adds =
        INT64_MAX / 2 / std::max<int64_t>(1, examples);
    return multiply_adds > max_multiply_adds ? INT64_MAX
                                             : 2 * multiply_adds * examples;
  };
  plan->forward_flops = flops(model.MultiplyAdds());
  plan->recomputed_flops = flops(plan->bytes.recomputed_multiply_adds);
  plan->wire = PlanWire(model, config.strategy.options, flags.wire);
  plan->others = others;
  return Status();
}

Status MakePlan(const std::string& path, const PlanFlags& flags, Plan* plan) {
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  flags.fit.Apply(&config.fit);
  RINGLET_RETURN_IF_ERROR(PlanModel(path, flags, &config, plan));
  if (flags.limit == 0) return Status();
  plan->data = BytesOfData(path, config);
  const auto limit = static_cast<int64_t>(
      std::min<uint64_t>(SIZE_MAX / 2, static_cast<uint64_t>(flags.limit)));
  const auto other_bytes = static_cast<int64_t>(
      plan->others + plan->copies + plan->tables + plan->data + kProgramBytes);
  plan->largest_batch =
      LargestBatch(*config.model, std::max<int64_t>(0, limit - other_bytes));
  return Status();
}

// The rows of both outputs. "shared" is subtracted in the total.
struct Row {
  const char *key, *text;
  uint64_t bytes;
};
std::vector<Row> RowsOf(const Plan& plan) {
  const MemoryPlan& m = plan.bytes;
  return {{"weights", "weights", m.weights},
          {"gradients", "gradients", m.gradients},
          {"slots", "optimizer's slots", m.slots},
          {"local", "local updates", m.local},
          {"copies", "copies of the state", plan.copies},
          {"tables", "tables of layers", plan.tables},
          {"batches", "batch: this step's", m.batches},
          {"activations", "activations", m.activations},
          {"activation_gradients", "gradients of activations",
           m.activation_gradients},
          {"scratch", "scratch (copies and the like)", m.scratch},
          {"shared", "less: bytes used twice in a step", m.shared},
          {"total", "total", plan.total()}};
}

void PrintJson(const Plan& plan) {
  JsonWriter w;
  w.BeginObject().Key("batch").Int(plan.batch);
  w.Key("bytes").BeginObject();
  for (const Row& row : RowsOf(plan)) {
    w.Key(row.key).Int(static_cast<int64_t>(row.bytes));
  }
  w.EndObject();
  w.Key("forward_flops").Int(plan.forward_flops);
  w.Key("recomputed_layers").Int(plan.bytes.recomputed);
  w.Key("recomputed_flops").Int(plan.recomputed_flops);
  w.Key("bfloat16_outputs").Int(plan.bytes.packed);
  w.Key("bfloat16_bytes").Int(static_cast<int64_t>(plan.bytes.packed_bytes));
  WriteWire(plan.wire, &w);
  if (plan.largest_batch >= 0) {
    w.Key("data").Int(static_cast<int64_t>(plan.data));
    w.Key("program").Int(static_cast<int64_t>(kProgramBytes));
    w.Key("largest_batch").Int(plan.largest_batch);
  }
  w.EndObject();
  std::printf("%s\n", w.text().c_str());
}

void PrintText(const Plan& plan, const PlanFlags& flags) {
  std::printf("bytes at a batch of %" PRId64 ":\n", plan.batch);
  const auto row = [](const char* label, uint64_t bytes) {
    std::printf("  %-34s %15" PRIu64 "\n", label, bytes);
  };
  for (const Row& r : RowsOf(plan)) {
    const std::string key = r.key;
    if (r.bytes > 0 || (key != "local" && key != "copies" && key != "tables")) {
      row(r.text, r.bytes);
    }
  }
  if (plan.largest_batch >= 0) {
    std::printf("beside the model:\n");
    row("data", plan.data);
    row("the program, some", kProgramBytes);
  }
  std::printf("operations a step:\n");
  const uint64_t forward = static_cast<uint64_t>(plan.forward_flops);
  row("forward", forward);
  const uint64_t recomputed = static_cast<uint64_t>(plan.recomputed_flops);
  row("forward and backward, at most", 3 * forward + recomputed);
  if (plan.bytes.recomputed > 0) {
    std::printf("layers computed again for the backward pass: %d\n",
                plan.bytes.recomputed);
  }
  if (plan.bytes.packed > 0) {
    std::printf("outputs kept as bfloat16 for the backward pass: %d, %" PRIu64
                " bytes\n",
                plan.bytes.packed, plan.bytes.packed_bytes);
  }
  PrintWire(plan.wire);
  if (plan.largest_batch > 0) {
    std::printf("largest batch within %" PRId64 " bytes: %" PRId64 "\n",
                flags.limit, plan.largest_batch);
  }
}

Status RunPlan(const std::string& path, const PlanFlags& flags) {
  Plan plan;
  RINGLET_RETURN_IF_ERROR(MakePlan(path, flags, &plan));
  if (plan.largest_batch == 0) {
    return ResourceExhausted(
        "%s: a batch of 1 does not fit %" PRId64
        " bytes. Without the buffers of a step, the model needs %" PRIu64
        " bytes, the data %" PRIu64 " and the program about %" PRIu64
        ". Make the model smaller, use an optimizer with less state, or set "
        "\"in_memory\": false in the data",
        path.c_str(), flags.limit,
        plan.bytes.kept() + plan.copies + plan.tables, plan.data,
        kProgramBytes);
  }
  flags.json ? PrintJson(plan) : PrintText(plan, flags);
  return Status();
}

}  // namespace

Status PlanMemoryRows(const std::string& path, int64_t* batch,
                      std::vector<MemoryRow>* rows) {
  Plan plan;
  RINGLET_RETURN_IF_ERROR(MakePlan(path, PlanFlags(), &plan));
  *batch = plan.batch;
  for (const Row& row : RowsOf(plan)) {
    const std::string key = row.key;
    rows->push_back({row.text, row.bytes,
                     key == "total"    ? MemoryRow::Kind::kTotal
                     : key == "shared" ? MemoryRow::Kind::kSubtracted
                                       : MemoryRow::Kind::kPart});
  }
  return Status();
}

Status MemoryOfRun(const std::string& path, int64_t workers, RunConfig* config,
                   uint64_t* bytes) {
  PlanFlags flags;
  flags.wire.workers = workers;
  Plan plan;
  RINGLET_RETURN_IF_ERROR(PlanModel(path, flags, config, &plan));
  *bytes = plan.total() + kProgramBytes;
  return Status();
}

int PlanCommand(const std::vector<std::string>& line) {
  PlanFlags values;
  CommandLine flags("plan", "RUN.json", kAbout, kMore);
  values.fit.AddStep(&flags);
  flags.Bytes("--limit", &values.limit,
              "find the largest batch that fits beside data and\n"
              "program: 64M, 512K, 1G");
  flags.Int("--workers", 1, 1024, &values.wire.workers,
            "workers of the job, for the bytes sent (1)");
  flags.BitRate("--link", &values.wire.link,
                "bits per second of a worker's link: 20M, 100M, 1G");
  flags.Number("--latency", "MS", 0, 1e6, &values.wire.latency_ms,
               "milliseconds from one worker to the next (0)");
  flags.Number("--step-time", "MS", 0, 1e9, &values.wire.step_ms,
               "milliseconds of computing in a step");
  flags.Switch("--json", &values.json, "print one line of JSON");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(RunPlan(flags.arguments()[0], values));
}

}  // namespace ringlet
