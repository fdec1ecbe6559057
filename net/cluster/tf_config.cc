// TF_CONFIG, as TensorFlow reads it.
//
// To change this file, know that:
// - If TensorFlow has a message for an error, its words are kept, so that a
//   search finds them. The remedy follows in brackets.
// - Ranks are the chief, if there is one, then the workers by index, as in
//   TensorFlow's collectives. An evaluator has no rank.
// - Values that TensorFlow ignores are ignored. A value that would leave a
//   worker alone, though it was meant to be in a job, is an error.
// - The text is untrusted. Numbers are bounded (kMaxBytes, kMaxWorldSize)
//   before memory is allocated for them.

#include <cstdio>

#include "../../core/base/json.h"
#include "resolvers.h"

namespace ringlet {

namespace {

constexpr size_t kMaxBytes = 1 << 20;

// The hosts in "cluster", by type of task.
struct Jobs {
  std::vector<Address> chief, worker, evaluator;
  std::vector<Address>* OfType(const std::string& type) {
    return type == "chief" ? &chief : type == "worker" ? &worker : &evaluator;
  }
};

Status CheckTaskType(const std::string& type) {
  if (type == "chief" || type == "worker" || type == "evaluator") {
    return Status();
  }
  if (type == "ps") {
    return InvalidArgument(
        "'ps': ringlet has no parameter servers, workers average their "
        "gradients among themselves; leave 'ps' out and start chief, worker "
        "and evaluator tasks only");
  }
  return InvalidArgument(
      "Unrecognized task_type: %s, valid task types are: \"chief\", "
      "\"worker\" and \"evaluator\"%s",
      Quoted(type).c_str(),
      type == "master" ? " ('master' is TensorFlow 1's word; write 'chief')"
                       : "");
}

Status ReadAddress(const Json& item, Address* address) {
  if (!item.is_string()) {
    return InvalidArgument("is %s, must be a string \"host:port\"",
                           item.type_name());
  }
  return ParseAddress(item.text(), address);
}

Status TooMany() {
  return InvalidArgument("more than %d tasks", kMaxWorldSize);
}

Status ReadList(const Json& list, std::vector<Address>* addresses) {
  for (Json item = list.first(); item; item = item.next()) {
    if (addresses->size() == kMaxWorldSize) return TooMany();
    addresses->emplace_back();
    RINGLET_RETURN_IF_ERROR(ReadAddress(item, &addresses->back())
                                .Annotate("[%zu]", addresses->size() - 1));
  }
  return Status();
}

// {"0": "a:1", "1": "b:1"}, in any order.
Status ReadSparse(const Json& object, std::vector<Address>* addresses) {
  int last = -1;
  for (Json item = object.first(); item; item = item.next()) {
    const int index = ParseDigits(item.key(), kMaxWorldSize - 1);
    if (index < 0) {
      return InvalidArgument("key %s is not an index from 0 to %d",
                             Quoted(item.key()).c_str(), kMaxWorldSize - 1);
    }
    if (index > last) {
      last = index;
      addresses->resize(static_cast<size_t>(last) + 1);
    }
    Address* address = &(*addresses)[static_cast<size_t>(index)];
    if (address->port != 0) {
      return InvalidArgument("index %d is given twice: keep one", index);
    }
    RINGLET_RETURN_IF_ERROR(ReadAddress(item, address).Annotate("[%d]", index));
  }
  for (int i = 0; i < last; ++i) {
    if ((*addresses)[static_cast<size_t>(i)].port == 0) {
      return InvalidArgument(
          "has index %d but not %d: every worker exchanges with the others, "
          "so give each index from 0 an address",
          last, i);
    }
  }
  return Status();
}

Status ReadJobs(const Json& cluster, Jobs* jobs) {
  for (Json job = cluster.first(); job; job = job.next()) {
    const std::string type = job.key();
    // An empty list means no parameter server.
    const bool none = (job.is_array() || job.is_object()) && !job.first();
    if (type == "ps" && none) continue;
    RINGLET_RETURN_IF_ERROR(CheckTaskType(type));
    std::vector<Address>* addresses = jobs->OfType(type);
    if (job.is_array()) {
      RINGLET_RETURN_IF_ERROR(
          ReadList(job, addresses).Annotate("%s", type.c_str()));
    } else if (job.is_object()) {
      RINGLET_RETURN_IF_ERROR(
          ReadSparse(job, addresses).Annotate("%s", type.c_str()));
    } else {
      return InvalidArgument(
          "%s: is %s, must be a list of addresses [\"host:port\", ...] or an "
          "object {\"0\": \"host:port\", ...}",
          type.c_str(), job.type_name());
    }
  }
  if (jobs->chief.size() > 1) {
    return InvalidArgument(
        "There must be at most one 'chief' job. (chief "
        "has %zu addresses: move the others to worker)",
        jobs->chief.size());
  }
  if (jobs->evaluator.size() > 1) {
    return InvalidArgument(
        "There must be at most one 'evaluator' job. "
        "(evaluator has %zu addresses: keep one)",
        jobs->evaluator.size());
  }
  if (jobs->chief.size() + jobs->worker.size() > kMaxWorldSize) {
    return TooMany();
  }
  std::vector<Address> all = jobs->chief;
  all.insert(all.end(), jobs->worker.begin(), jobs->worker.end());
  all.insert(all.end(), jobs->evaluator.begin(), jobs->evaluator.end());
  return CheckDistinct(all);
}

// Leaves *type empty and *index -1 where they are not given.
Status ReadTask(const Json& task, std::string* type, int* index) {
  if (!task) return Status();
  if (!task.is_object()) {
    return InvalidArgument(
        "is %s, must be an object {\"type\": \"worker\", \"index\": 0}",
        task.type_name());
  }
  const Json type_json = task["type"];
  if (type_json) {
    if (!type_json.is_string()) {
      return InvalidArgument("type is %s, must be a string such as \"worker\"",
                             type_json.type_name());
    }
    *type = type_json.text();
    RINGLET_RETURN_IF_ERROR(CheckTaskType(*type).Annotate("type"));
  }
  const Json index_json = task["index"];
  if (!index_json) return Status();
  // Above every possible count, so that any index above the count gets the
  // message for an index that is too large.
  constexpr int kMaxIndex = 2000000000;
  if (index_json.is_string()) {
    *index = ParseDigits(index_json.text(), kMaxIndex);
  } else {
    int64_t number = -1;
    if (index_json.ToInt64(&number) && number >= 0 && number <= kMaxIndex) {
      *index = static_cast<int>(number);
    }
  }
  if (*index >= 0) return Status();
  return InvalidArgument(
      "index is %s, must be a whole number from 0 (or a string of its digits)",
      index_json.is_string() ? Quoted(index_json.text()).c_str()
      : index_json.is_number()
          ? "a number that is negative, broken or too large"
          : index_json.type_name());
}

// For {} or an empty cluster: one worker alone. A task without "cluster" is an
// error, since the worker was meant to be in a job. An evaluator may be alone.
Status ConfigureAlone(bool has_cluster, const std::string& type, int index,
                      ClusterConfig* config) {
  const bool has_task = !type.empty() || index >= 0;
  const bool evaluator = type == "evaluator";
  if (index > 0 || (!has_cluster && has_task && !evaluator)) {
    return InvalidArgument(
        "task: index is %d but there is no cluster: add \"cluster\", or leave "
        "\"task\" out for one worker alone",
        index < 0 ? 0 : index);
  }
  *config = ClusterConfig();
  if (!type.empty()) config->task_type = type;
  config->is_evaluator = evaluator;
  return Status();
}

Status PlaceTask(const std::string& type, int index, Jobs* jobs,
                 ClusterConfig* config) {
  if (type.empty() || index < 0) {
    return InvalidArgument(
        "When `cluster_spec` is given, you must also specify `task_type` and "
        "`task_id`. (add \"task\": {\"type\": \"worker\", \"index\": 0})");
  }
  // The evaluator may be missing from the cluster: no worker connects to it.
  const std::vector<Address>& own = *jobs->OfType(type);
  const bool evaluator = type == "evaluator";
  if (own.empty() && !evaluator) {
    return InvalidArgument(
        "`task_type` '%s' not found in cluster_spec. (add it to \"cluster\", "
        "or correct the type of \"task\")",
        type.c_str());
  }
  const int tasks = own.empty() ? 1 : static_cast<int>(own.size());
  if (index >= tasks) {
    return InvalidArgument(
        "The `task_id` %d exceeds the maximum id of %s. (indexes count from "
        "0, the last is %d)",
        index, type.c_str(), tasks - 1);
  }
  ClusterConfig placed;
  placed.task_type = type;
  placed.task_index = index;
  placed.is_evaluator = evaluator;
  placed.has_evaluator = !jobs->evaluator.empty();
  placed.addresses = evaluator ? own : jobs->chief;
  if (!evaluator) {
    placed.worker = index;
    if (type == "worker") placed.worker += static_cast<int>(jobs->chief.size());
    placed.addresses.insert(placed.addresses.end(), jobs->worker.begin(),
                            jobs->worker.end());
    placed.world_size = static_cast<int>(placed.addresses.size());
  }
  placed.is_chief = placed.worker == 0;
  *config = placed;
  return Status();
}

// TensorFlow ignores unknown keys. With a misspelt "cluster" every worker would
// train alone, and write the files of the other workers.
Status CheckKeysWithoutCluster(const Json& root) {
  if (root["cluster"]) return Status();
  for (Json item = root.first(); item; item = item.next()) {
    const std::string key = item.key();
    if (key == "task" || key == "environment" || key == "rpc_layer" ||
        key == "job") {
      continue;
    }
    return InvalidArgument(
        "there is no \"cluster\", and %s is not known: rename it to "
        "\"cluster\" if it lists the workers, or set TF_CONFIG to {} for one "
        "worker alone",
        Quoted(key).c_str());
  }
  return Status();
}

Status ParseText(const std::string& text, Json* root) {
  if (text.empty()) {
    return InvalidArgument(
        "TF_CONFIG: is set but empty: unset it, or set it to {} for one worker "
        "alone");
  }
  if (text.size() > kMaxBytes) {
    return InvalidArgument("TF_CONFIG: %zu bytes, more than the %zu allowed",
                           text.size(), kMaxBytes);
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  const std::string begin =
      first == std::string::npos ? "" : text.substr(first, 2);
  if (begin[0] == '\'' || begin == "\"{") {
    return InvalidArgument(
        "TF_CONFIG: begins with a quote (%c) and not with {; docker compose "
        "and files of variables keep quotes as part of the value: remove those "
        "around it",
        begin[0]);
  }
  const Status parsed = Json::Parse(text, "TF_CONFIG", root);
  return parsed.ok() ? parsed : InvalidArgument("%s", parsed.message());
}

Status Resolve(const Json& root, ClusterConfig* config) {
  if (!root.is_object()) {
    return InvalidArgument(
        "is %s, must be an object {\"cluster\": ..., \"task\": ...}",
        root.type_name());
  }
  const Json cluster = root["cluster"];
  if (cluster && !cluster.is_object()) {
    return InvalidArgument(
        "cluster: is %s, must be an object {\"worker\": [\"host:port\", "
        "...]}",
        cluster.type_name());
  }
  Jobs jobs;
  RINGLET_RETURN_IF_ERROR(ReadJobs(cluster, &jobs).Annotate("cluster"));
  std::string type;
  int index = -1;
  RINGLET_RETURN_IF_ERROR(
      ReadTask(root["task"], &type, &index).Annotate("task"));
  RINGLET_RETURN_IF_ERROR(CheckKeysWithoutCluster(root));
  if (!cluster.first())
    return ConfigureAlone(bool{cluster}, type, index, config);
  return PlaceTask(type, index, &jobs, config);
}

}  // namespace

Status ResolveTfConfig(const std::string& text, ClusterConfig* config) {
  Json root;
  RINGLET_RETURN_IF_ERROR(ParseText(text, &root));
  return Resolve(root, config).Annotate("TF_CONFIG");
}

}  // namespace ringlet
