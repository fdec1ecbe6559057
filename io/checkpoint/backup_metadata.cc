#include "backup_metadata.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <utility>

#include "../../core/base/crc32c.h"
#include "../../core/base/message.h"
#include "../../core/base/text.h"
#include "../../core/model/fingerprint.h"
#include "../../core/model/model.h"
#include "run_description.h"

namespace ringlet {
namespace {

constexpr char kLayersKey[] = "layers", kLossesKey[] = "losses",
               kDataKey[] = "data", kReplicasKey[] = "replicas",
               kWorldKey[] = "world", kSeedKey[] = "seed",
               kOptimizerKey[] = "optimizer", kEpochKey[] = "epoch",
               kStepKey[] = "step", kLocalKey[] = "local_updates",
               kRoundKey[] = "local_steps";

void WarnOfReplicas(const std::string& path, int saved, int here) {
  if (saved == 0 || saved == here) return;
  Notice(
      "warning: %s was saved by a run of %d replica%s, here are %d "
      "(strategy.replicas, StrategyOptions::replicas). Training goes on from "
      "there, and not as it would have without the break",
      path.c_str(), saved, saved == 1 ? "" : "s", here);
}

// What each replica has of its own (docs/checkpoint_format.md) fits as many
// replicas, whose rounds are made the same way.
Status CheckReplicas(const SafetensorsReader& file, int replicas,
                     const Model& model) {
  const LocalUpdates& local = model.local_updates();
  const struct {
    const char *prefix, *name;
    bool here;
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
    if (!kind.here) {
      return InvalidArgument(
          "was saved by a run with %s, and this one is without; it has what "
          "each replica keeps for that: go on with it, or begin with its "
          "weights",
          kind.name);
    }
    if (replicas == model.num_replicas()) continue;
    return InvalidArgument(
        "was saved by a run of %d replicas, here are %d (strategy.replicas, "
        "StrategyOptions::replicas), and it has what each of them has of its "
        "own, by sparse changes or overlap; go on with as many",
        replicas, model.num_replicas());
  }
  return Status();
}

std::string OptimizerChecksum(const Model& model) {
  Fingerprint f;
  AddOptimizer(model.optimizer(), &f);
  return HexText(Crc32c(f.text().data(), f.text().size()));
}

}  // namespace

Metadata DescribeRun(const FitState& fit) {
  Metadata run = {
      {kEpochKey, std::to_string(fit.epoch)},
      {kStepKey, std::to_string(fit.step)},
      {kSeedKey, std::to_string(fit.model->seed())},
      {kWorldKey, std::to_string(fit.model->collective()->size())},
      {kReplicasKey, std::to_string(fit.model->num_replicas())},
      {kOptimizerKey, OptimizerChecksum(*fit.model)},
      {kLayersKey, DescribeLayers(*fit.model)},
      {kLossesKey, DescribeLosses(*fit.model)},
      {kDataKey, DescribeData(fit)},
  };
  const std::string local = DescribeLocal(*fit.model);
  if (!local.empty()) run[kLocalKey] = local;
  if (fit.local_steps > 0) run[kRoundKey] = std::to_string(fit.local_steps);
  return run;
}

int ReplicasOf(const Metadata& saved) {
  for (const char* const key : {kReplicasKey, kWorldKey}) {
    const auto entry = saved.find(key);
    if (entry == saved.end()) continue;
    const int64_t number = std::atoll(entry->second.c_str());
    return number > 0 && number <= INT_MAX ? static_cast<int>(number) : 0;
  }
  return 0;
}

bool IsSameRun(const Metadata& saved, const FitState& fit) {
  const Metadata here = DescribeRun(fit);
  const auto same = [&](const char* key) {
    const auto entry = saved.find(key);
    return entry != saved.end() && entry->second == here.at(key);
  };
  if (saved.count(kLocalKey) != here.count(kLocalKey)) return false;
  if (here.count(kLocalKey) > 0 && !same(kLocalKey)) return false;
  for (const char* key : {kSeedKey, kReplicasKey, kLayersKey, kLossesKey,
                          kDataKey, kOptimizerKey}) {
    if (!same(key)) return false;
  }
  return true;
}

bool IsFurther(const Metadata& saved, const FitState& fit) {
  if (!IsSameRun(saved, fit)) return false;
  const auto number = [&](const char* key) {
    const auto entry = saved.find(key);
    return entry == saved.end() ? -1 : std::atoll(entry->second.c_str());
  };
  const std::pair<int64_t, int64_t> at(number(kEpochKey), number(kStepKey));
  return at > std::make_pair(fit.epoch, fit.step) &&
         at <= std::make_pair(fit.epochs, int64_t{0});
}

Status CheckRun(FileSystem* files, const std::string& path,
                const FitState& fit) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path));
  const auto layers = file.metadata().find(kLayersKey);
  if (layers != file.metadata().end()) {
    RINGLET_RETURN_IF_ERROR(
        CheckLayers(layers->second, *fit.model).Annotate("%s", path.c_str()));
  }
  const std::string local = DescribeLocal(*fit.model);
  const bool was_local = file.metadata().count(kLocalKey) > 0;
  if (was_local == local.empty()) {
    return InvalidArgument(
        "%s: was saved by a run %s local updates, here they are %s "
        "(strategy.mode); go on in its mode, or begin with its weights",
        path.c_str(), was_local ? "with" : "without",
        local.empty() ? "off" : "on");
  }
  const int64_t steps = fit.model->local_updates().steps;
  if (steps > 0 && file.Find("fit/local_steps") != nullptr) {
    return InvalidArgument(
        "%s: was saved by a run whose local_steps are \"auto\", here they are "
        "%lld; say \"auto\", and the run goes on with its number",
        path.c_str(), static_cast<long long>(steps));
  }
  // Before it is said that training goes on.
  const int replicas = ReplicasOf(file.metadata());
  RINGLET_RETURN_IF_ERROR(
      CheckReplicas(file, replicas, *fit.model).Annotate("%s", path.c_str()));
  const auto compare = [&](const char* key, const char* other,
                           const std::string& here) {
    const auto saved = file.metadata().find(key);
    if (saved == file.metadata().end() || saved->second == here) return;
    Notice(
        "warning: %s was saved with other %s: %s; "
        "here: %s. Training goes on from there, and not as it would "
        "have without the break",
        path.c_str(), other, Printable(saved->second).c_str(), here.c_str());
  };
  compare(kLossesKey, "losses", DescribeLosses(*fit.model));
  compare(kDataKey, "data or batches", DescribeData(fit));
  compare(kLocalKey, "local updates", local);
  WarnOfReplicas(path, replicas, fit.model->num_replicas());
  return Status();
}

}  // namespace ringlet
