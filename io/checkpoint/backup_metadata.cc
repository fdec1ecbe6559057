// The keys and the texts are part of the file format
// (docs/checkpoint_format.md): a changed text makes every older backup a backup
// of another run. A difference that state cannot follow is an error. A
// difference that only changes the numbers from here on is a warning, and all
// errors come before the first warning.

#include "backup_metadata.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <utility>
#include <vector>

#include "../../core/base/crc32c.h"
#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/model/fingerprint.h"
#include "../weights/lora_alphas.h"
#include "../weights/normalizations.h"
#include "ringlet/model.h"
#include "ringlet/status.h"
#include "run_description.h"

namespace ringlet {
namespace {

constexpr char kLayersKey[] = "layers", kLossesKey[] = "losses",
               kDataLineKey[] = "data", kClassesKey[] = "classes",
               kReplicasKey[] = "replicas", kWorldKey[] = "world",
               kRunSeedKey[] = "seed", kOptimizerKey[] = "optimizer",
               kOptimizerFieldsKey[] = "optimizer_fields",
               kEpochKey[] = "epoch", kStepKey[] = "step",
               kLocalKey[] = "local_updates", kRoundKey[] = "local_steps";

void WarnOfReplicas(const std::string& path, int saved, int current) {
  if (saved == 0 || saved == current) return;
  Notice(
      "warning: %s was saved by a run of %d replica%s, and this run has %d "
      "(strategy.replicas, StrategyOptions::replicas). Training continues from "
      "it, but not as it would have without the interruption",
      path.c_str(), saved, saved == 1 ? "" : "s", current);
}

// The state of each replica (docs/checkpoint_format.md) needs the same number
// of replicas, and the same kind of rounds.
Status CheckSavedReplicas(const SafetensorsReader& file, int replicas,
                          const Model& model) {
  const LocalUpdates& local = model.local_updates();
  const struct {
    const char *prefix, *name;
    bool used;
  } kinds[] = {
      {kErrorPrefix, "sparse changes (strategy.delta)", local.sparse()},
      {kStartPrefix, "overlap (strategy.overlap)", local.overlaps()}};
  const auto& all = file.tensors();
  for (const auto& kind : kinds) {
    const bool has =
        std::any_of(all.begin(), all.end(), [&](const StoredTensor& tensor) {
          return StartsWith(tensor.name, kind.prefix);
        });
    if (!has) continue;
    if (!kind.used) {
      return InvalidArgument(
          "was saved by a run with %s, and this run is without; each replica "
          "keeps state for that: continue with it, or begin with the weights "
          "of the backup",
          kind.name);
    }
    if (replicas == model.num_replicas()) continue;
    return InvalidArgument(
        "was saved by a run of %d replicas, and this run has %d "
        "(strategy.replicas, StrategyOptions::replicas); each replica has its "
        "own state of sparse changes or overlap: continue with %d replicas",
        replicas, model.num_replicas(), replicas);
  }
  return Status();
}

// Returns a line for each field of the optimizer: the name, a tab and the
// value.
std::string OptimizerFields(const Model& model) {
  Fingerprint f;
  AddOptimizer(model.optimizer(), &f);
  return f.text();
}

std::string ChecksumOf(const std::string& text) {
  return HexText(Crc32c(text.data(), text.size()));
}

// "the optimizer is Adam there and SGD here"; empty if the texts do not show
// it.
std::string FirstDifference(const std::string& saved,
                            const std::string& present) {
  const auto before = Fingerprint::FieldsOf(saved),
             now = Fingerprint::FieldsOf(present);
  for (size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    if (before[i].name != now[i].name) break;
    if (before[i].value == now[i].value) continue;
    return Printable(now[i].name + " is " + before[i].value + " there and " +
                     now[i].value + " here");
  }
  return "";
}

Metadata DescribeModelAndData(const FitState& fit) {
  const std::string optimizer = OptimizerFields(*fit.model);
  Metadata run = {
      {kEpochKey, std::to_string(fit.epoch)},
      {kStepKey, std::to_string(fit.step)},
      {kRunSeedKey, std::to_string(fit.model->seed())},
      {kWorldKey, std::to_string(fit.model->collective()->size())},
      {kReplicasKey, std::to_string(fit.model->num_replicas())},
      {kOptimizerKey, ChecksumOf(optimizer)},
      {kOptimizerFieldsKey, optimizer},
      {kLayersKey, LayersText(*fit.model)},
      {kLossesKey, LossesText(*fit.model)},
      {kDataLineKey, DataText(fit)},
  };
  const std::string local = LocalUpdatesText(*fit.model);
  if (!local.empty()) run[kLocalKey] = local;
  const std::string classes = ClassesText(fit);
  if (!classes.empty()) run[kClassesKey] = classes;
  if (fit.local_steps > 0) run[kRoundKey] = std::to_string(fit.local_steps);
  return run;
}

Status CheckOptimizer(const Metadata& saved, const Model& model) {
  const std::string current = OptimizerFields(model);
  const auto checksum = saved.find(kOptimizerKey);
  if (checksum == saved.end() || checksum->second == ChecksumOf(current)) {
    return Status();
  }
  const auto fields = saved.find(kOptimizerFieldsKey);
  std::string difference =
      fields == saved.end() ? "" : FirstDifference(fields->second, current);
  if (!difference.empty()) difference = ": " + difference;
  return InvalidArgument(
      "was saved by a run with another optimizer%s; give the run that one, or "
      "--continue-with optimizer (BackupAndRestoreOptions::other_optimizer)",
      difference.c_str());
}

Status CheckSeed(const Metadata& saved, const Model& model) {
  const auto seed = saved.find(kRunSeedKey);
  const std::string current = std::to_string(model.seed());
  if (seed == saved.end() || seed->second == current) return Status();
  return InvalidArgument(
      "was saved by a run with seed %s, and this run has %s; give the run that "
      "seed, or --continue-with seed (BackupAndRestoreOptions::other_seed)",
      Printable(seed->second).c_str(), current.c_str());
}

// The saved weights are trained for inputs that these statistics have made.
Status CheckNormalizations(const Metadata& saved, const Model& model) {
  const auto entry = saved.find(kNormalizationsKey);
  if (entry == saved.end() || entry->second == NormalizationsToJson(model)) {
    return Status();
  }
  return InvalidArgument(
      "was saved by a run with another mean or variance of its Normalization "
      "layers; give the run the data and the --init that it began with");
}

// CheckRun without the name of the file in its errors.
Status CheckSaved(const SafetensorsReader& file, const FitState& fit,
                  const AllowedChanges& allowed) {
  const Metadata& saved = file.metadata();
  const Model& model = *fit.model;
  const auto layers = saved.find(kLayersKey);
  if (layers != saved.end()) {
    RINGLET_RETURN_IF_ERROR(CheckLayers(layers->second, model));
  }
  RINGLET_RETURN_IF_ERROR(CheckNormalizations(saved, model));
  if (!allowed.optimizer) {
    RINGLET_RETURN_IF_ERROR(CheckOptimizer(saved, model));
  }
  if (!allowed.seed) RINGLET_RETURN_IF_ERROR(CheckSeed(saved, model));
  const bool is_local = !LocalUpdatesText(model).empty();
  const bool was_local = saved.count(kLocalKey) > 0;
  if (was_local != is_local) {
    return InvalidArgument(
        "was saved by a run %s local updates, and this run has them %s "
        "(strategy.mode); continue in its mode, or begin with its weights",
        was_local ? "with" : "without", is_local ? "on" : "off");
  }
  const int64_t steps = model.local_updates().steps;
  if (steps > 0 && file.Find("fit/local_steps") != nullptr) {
    return InvalidArgument(
        "was saved by a run with local_steps \"auto\", and this run has %lld; "
        "give \"auto\", which continues with the saved number",
        static_cast<long long>(steps));
  }
  return CheckSavedReplicas(file, SavedReplicas(saved), model);
}

}  // namespace

Metadata RunMetadata(FitState* fit) {
  Metadata run = DescribeModelAndData(*fit);
  const std::string callbacks = CallbacksText(fit);
  if (!callbacks.empty()) run[kCallbacksKey] = callbacks;
  const std::string normalizations = NormalizationsToJson(*fit->model);
  if (!normalizations.empty()) run[kNormalizationsKey] = normalizations;
  AddLoraAlphas(CollectLoraAlphas(*fit->model), &run);
  return run;
}

int SavedReplicas(const Metadata& saved) {
  for (const char* const key : {kReplicasKey, kWorldKey}) {
    const auto entry = saved.find(key);
    if (entry == saved.end()) continue;
    const int64_t number = std::atoll(entry->second.c_str());
    return number > 0 && number <= INT_MAX ? static_cast<int>(number) : 0;
  }
  return 0;
}

bool IsSameRun(const Metadata& saved, const FitState& fit) {
  const Metadata current = DescribeModelAndData(fit);
  const auto same = [&](const char* key) {
    const auto entry = saved.find(key);
    return entry != saved.end() && entry->second == current.at(key);
  };
  if (saved.count(kLocalKey) != current.count(kLocalKey)) return false;
  if (current.count(kLocalKey) > 0 && !same(kLocalKey)) return false;
  for (const char* key : {kRunSeedKey, kReplicasKey, kLayersKey, kLossesKey,
                          kDataLineKey, kOptimizerKey}) {
    if (!same(key)) return false;
  }
  return CheckNormalizations(saved, *fit.model).ok();
}

bool IsOfAnotherOptimizer(const Metadata& saved, const Model& model) {
  return !CheckOptimizer(saved, model).ok();
}

Status CheckRun(FileSystem* files, const std::string& path, const FitState& fit,
                const AllowedChanges& allowed) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path));
  // Errors come before the warnings, after which training continues.
  RINGLET_RETURN_IF_ERROR(
      CheckSaved(file, fit, allowed).Annotate("%s", path.c_str()));
  const auto compare = [&](const char* key, const char* other,
                           const std::string& current) {
    const auto saved = file.metadata().find(key);
    if (saved == file.metadata().end() || saved->second == current) return;
    Notice(
        "warning: %s was saved with other %s: %s; this run: %s. Training "
        "continues from it, but not as it would have without the interruption",
        path.c_str(), other, Printable(saved->second).c_str(), current.c_str());
  };
  compare(kLossesKey, "losses", LossesText(*fit.model));
  compare(kDataLineKey, "data or batches", DataText(fit));
  compare(kClassesKey, "classes", ClassesText(fit));
  compare(kLocalKey, "local updates", LocalUpdatesText(*fit.model));
  WarnOfReplicas(path, SavedReplicas(file.metadata()),
                 fit.model->num_replicas());
  return Status();
}

}  // namespace ringlet
