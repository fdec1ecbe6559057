// ringlet doctor: checks of a worker's host and of its links to the other
// workers.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "../command_line.h"
#include "../config/run_config.h"
#include "../run/data_bytes.h"
#include "../run/output_plan.h"
#include "../run/run.h"
#include "../run/shared_settings.h"
#include "commands.h"
#include "core/base/json.h"
#include "core/base/named.h"
#include "core/base/text.h"
#include "io/files/path.h"
#include "net/doctor/doctor.h"
#include "net/strategy/make_ring_options.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"
#include "ringlet/strategy.h"
#include "run_memory.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Checks whether this worker can train: its host, and its links to the workers
that TF_CONFIG or its like lists. With RUN.json also memory, data, disks, and
whether all workers have the same settings. Takes at most 10 s.
)";

constexpr char kMore[] = R"(
Start it on every worker at the same time, as the job would be started: each
doctor waits for the others, and measures the link to each. A worker of a running
job is reached too, but not measured. A line a check: "ok", "warning" or "error",
and for the last two a fix (docs/doctor.md).

Exit codes:
    0  nothing to do
    1  warnings: a job runs, but slower or with a risk that is named
    2  errors: a job would not start, or would end
)";

struct DoctorFlags {
  FitFlags fit;
  SaveFlags save;
  bool shrink = false, insecure = false, json = false;
};

// The folder of a file to write, or, while it is missing, the folder in which
// it would be made. Before the first field of a ModelCheckpoint's path.
std::string FolderToTest(const std::string& path) {
  std::string folder = FolderOf(path.substr(0, path.find('{')));
  while (access(folder.c_str(), F_OK) != 0 && errno == ENOENT &&
         folder != FolderOf(folder)) {
    folder = FolderOf(folder);
  }
  return folder;
}

// Adds the folders to which this worker writes, each once.
void AddFolders(const DoctorFlags& flags, const RunConfig& config,
                DoctorPlan* plan) {
  const MemoryPlan memory = config.model->PlanMemory(1);
  const auto add = [&](const std::string& path, const char* use) {
    const std::string folder = FolderToTest(path);
    const bool known = std::any_of(
        plan->folders.begin(), plan->folders.end(),
        [&](const DoctorPlan::Folder& one) { return one.path == folder; });
    if (!known) {
      plan->folders.push_back({folder, use, memory.weights + memory.slots});
    }
  };
  if (!flags.save.no_save) {
    add(flags.save.path.empty() ? "model" : flags.save.path,
        flags.save.path.empty() ? "the trained model" : "--save");
  }
  for (const std::string& path : config.checkpoints) {
    add(path, "ModelCheckpoint");
  }
  if (!config.backup.empty()) {
    add(config.backup + "/backup", "BackupAndRestore");
  }
}

// Reads what RUN.json says. Without a valid one the rest is still examined.
void ReadRun(const std::string& path, const DoctorFlags& flags,
             const ClusterConfig& cluster,
             const std::shared_ptr<RunConfig>& config, DoctorPlan* plan,
             Findings* out) {
  Status read = ReadRunConfig(path, config.get());
  flags.fit.Apply(&config->fit);
  if (read.ok() && flags.shrink) {
    ChooseShrinkPolicy(cluster.world_size, config.get());
  }
  if (read.ok()) {
    read = MemoryOfRun(path, cluster.world_size, config.get(), &plan->memory);
  }
  plan->threads = config->fit.threads;
  if (!read.ok()) {
    return AddError("run", read.message(), "correct RUN.json or the flags",
                    out);
  }
  AddOk("run", path + " can be used", out);
  const StrategyOptions& options = config->strategy.options;
  plan->has_run = true;
  plan->settings = SharedSettings(*config);
  plan->same_arithmetic = config->strategy.elastic() ||
                          options.reduction == Reduction::kExact ||
                          options.local.enabled();
  if (cluster.is_chief || config->strategy.elastic()) {
    AddFolders(flags, *config, plan);
  }
  plan->find_data = [config] {
    DataFacts facts;
    uint64_t validation = 0;
    facts.status =
        DataBytes(config->train, *config->model, config->fit, &facts.bytes);
    if (facts.status.ok()) {
      facts.status = DataBytes(config->validation, *config->model, config->fit,
                               &validation);
    }
    facts.bytes += validation;
    return facts;
  };
}

constexpr Named<Severity> kSeverities[] = {{"ok", Severity::kOk},
                                           {"warning", Severity::kWarning},
                                           {"error", Severity::kError}};

void PrintText(const Findings& findings, const ClusterConfig& cluster) {
  int64_t counts[3] = {};
  for (const Finding& finding : findings) {
    ++counts[static_cast<size_t>(finding.severity)];
    std::printf("%s: %s: %s%s%s\n", NameIn(kSeverities, finding.severity),
                finding.check, finding.text.c_str(),
                finding.fix.empty() ? "" : "; fix: ", finding.fix.c_str());
  }
  std::printf(
      "worker %d of %d: %d errors, %d warnings\n", cluster.worker,
      cluster.world_size,
      static_cast<int>(counts[static_cast<size_t>(Severity::kError)]),
      static_cast<int>(counts[static_cast<size_t>(Severity::kWarning)]));
}

void PrintJson(const Findings& findings, const ClusterConfig& cluster,
               Severity worst) {
  JsonWriter w;
  w.BeginObject().Key("worker").Int(cluster.worker);
  w.Key("workers").Int(cluster.world_size);
  w.Key("severity").String(NameIn(kSeverities, worst));
  w.Key("checks").BeginArray();
  for (const Finding& finding : findings) {
    w.BeginObject().Key("check").String(finding.check);
    w.Key("severity").String(NameIn(kSeverities, finding.severity));
    if (finding.worker >= 0) w.Key("worker").Int(finding.worker);
    w.Key("text").String(finding.text);
    if (!finding.fix.empty()) w.Key("fix").String(finding.fix);
    w.EndObject();
  }
  w.EndArray().EndObject();
  std::printf("%s\n", w.text().c_str());
}

// Finds the workers, and how they are connected. Errors become findings.
void FindWorkers(const DoctorFlags& flags, const ClusterConfig& cluster,
                 RunConfig* config, DoctorPlan* plan, Findings* out) {
  StrategyOptions options = config->strategy.options;
  options.insecure = options.insecure || flags.insecure;
  if (options.communication.implementation ==
      CommunicationImplementation::kMpi) {
    return AddOk("cluster", "MPI connects the workers: no link is tried", out);
  }
  const Status found = MakeRingOptions(cluster, options, &plan->ring);
  if (found.ok()) {
    return AddOk("cluster",
                 cluster.world_size == 1
                     ? "one worker, alone"
                     : "worker " + std::to_string(cluster.worker) + " of " +
                           std::to_string(cluster.world_size),
                 out);
  }
  AddError("key", found.message(),
           "copy the key file of the job to this worker, with mode 600 "
           "(chmod 600)",
           out);
}

int RunDoctor(const std::string& path, const DoctorFlags& flags) {
  DoctorPlan plan;
  plan.begun = static_cast<double>(Clock::System()->MonotonicNanos()) / 1e9;
  Findings findings;
  ClusterConfig cluster;
  const Status listed = ClusterFromEnvironment(ProcessEnvironment(), &cluster);
  if (!listed.ok()) {
    AddError("cluster", listed.message(),
             "correct the environment of this worker", &findings);
  }
  const auto config = std::make_shared<RunConfig>();
  config->fit.threads = flags.fit.threads < 0 ? 1 : flags.fit.threads;
  plan.threads = config->fit.threads;
  if (!path.empty()) {
    ReadRun(path, flags, cluster, config, &plan, &findings);
  }
  if (listed.ok()) {
    FindWorkers(flags, cluster, config.get(), &plan, &findings);
  }
  const Status examined = Examine(plan, &findings);
  if (!examined.ok()) return ExitCode(examined);
  Severity worst = Severity::kOk;
  for (const Finding& finding : findings) {
    worst = std::max(worst, finding.severity);
  }
  flags.json ? PrintJson(findings, cluster, worst)
             : PrintText(findings, cluster);
  return static_cast<int>(worst);
}

}  // namespace

int DoctorCommand(const std::vector<std::string>& line) {
  DoctorFlags values;
  CommandLine flags("doctor", "[RUN.json]", kAbout, kMore);
  values.fit.AddStep(&flags);
  flags.Text("--save", "MODEL", &values.save.path,
             "as of train: the folder to test");
  flags.Switch("--no-save", &values.save.no_save, "as of train");
  flags.Switch("--shrink", &values.shrink, "as of train");
  flags.Switch("--insecure", &values.insecure, "as of train");
  flags.Switch("--json", &values.json, "print one line of JSON");
  int code = 0;
  if (!flags.Parse(line, 0, 1, &code)) return code;
  const std::vector<std::string>& names = flags.arguments();
  return RunDoctor(names.empty() ? "" : names[0], values);
}

}  // namespace ringlet
