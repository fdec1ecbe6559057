#include <algorithm>

#include "../../core/base/text.h"
#include "resolvers.h"
#include "variables.h"

namespace ringlet {

namespace {

// "2(x3),1" -> 2, 2, 2, 1.
Status ExpandCounts(const char* name, const std::string& text, int nodes,
                    int world, std::vector<int>* counts) {
  const Status malformed = InvalidArgument(
      "%s is %s, must have the number of tasks of each node, as in 2(x3),1",
      name, Quoted(text).c_str());
  for (std::string& count : SplitAt(text, ',')) {
    int times = 1;
    const size_t open = count.find("(x");
    if (open != std::string::npos) {
      if (count.back() != ')') return malformed;
      times = ParseDigits(count.substr(open + 2, count.size() - open - 3),
                          kMaxWorldSize);
      count.resize(open);
    }
    const int tasks = ParseDigits(count, kMaxWorldSize);
    if (tasks < 1 || times < 1) return malformed;
    if (counts->size() + static_cast<size_t>(times) > kMaxWorldSize) {
      return malformed;
    }
    counts->insert(counts->end(), static_cast<size_t>(times), tasks);
  }
  int sum = 0;
  for (int tasks : *counts) sum += tasks;
  if (static_cast<int>(counts->size()) == nodes && sum == world) {
    return Status();
  }
  return InvalidArgument(
      "%s is %s, %d tasks on %zu nodes, but this job has %d tasks on %d nodes: "
      "start the workers with srun, so that each step has its own values",
      name, Quoted(text).c_str(), sum, counts->size(), world, nodes);
}

Status SlurmCounts(const Variables& variables, int nodes, int world,
                   std::vector<int>* counts) {
  const char* name =
      variables.Pick("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  if (variables.Has(name)) {
    std::string text;
    RINGLET_RETURN_IF_ERROR(variables.String(name, &text));
    return ExpandCounts(name, text, nodes, world, counts);
  }
  if (nodes > world) {
    return InvalidArgument(
        "SLURM_NTASKS is %d, fewer than the %d nodes of SLURM_JOB_NODELIST: "
        "set SLURM_TASKS_PER_NODE, or start the workers with srun",
        world, nodes);
  }
  for (int node = 0; node < nodes; ++node) {
    counts->push_back(world / nodes + (node < world % nodes ? 1 : 0));
  }
  return Status();
}

Status IsCyclic(const Variables& variables, bool* cyclic) {
  if (!variables.Has("SLURM_DISTRIBUTION")) return Status();
  std::string text;
  RINGLET_RETURN_IF_ERROR(variables.String("SLURM_DISTRIBUTION", &text));
  const std::string kind = text.substr(0, text.find_first_of(":,"));
  *cyclic = kind == "cyclic";
  if (*cyclic || kind == "block") return Status();
  return InvalidArgument(
      "SLURM_DISTRIBUTION is %s; ringlet knows the host of a rank only for "
      "block and cyclic: use srun --distribution=block, or set TF_CONFIG",
      Quoted(text).c_str());
}

// Returns the node of each rank, in rank order. counts[i] ranks run on
// nodes[i].
std::vector<std::string> BlockHosts(const std::vector<std::string>& nodes,
                                    const std::vector<int>& counts) {
  std::vector<std::string> hosts;
  for (size_t i = 0; i < nodes.size(); ++i) {
    hosts.insert(hosts.end(), static_cast<size_t>(counts[i]), nodes[i]);
  }
  return hosts;
}

std::vector<std::string> CyclicHosts(const std::vector<std::string>& nodes,
                                     const std::vector<int>& counts) {
  const int max_count = *std::max_element(counts.begin(), counts.end());
  std::vector<std::string> hosts;
  for (int round = 0; round < max_count; ++round) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (counts[i] > round) hosts.push_back(nodes[i]);
    }
  }
  return hosts;
}

}  // namespace

Status ResolveSlurm(const Environment& environment, ClusterConfig* config) {
  const Variables variables(environment, "Slurm");
  RINGLET_RETURN_IF_ERROR(variables.RankOfWorld(
      "SLURM_PROCID", variables.Pick("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
      config));
  const char* list_name =
      variables.Pick("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
  std::string list;
  RINGLET_RETURN_IF_ERROR(variables.String(list_name, &list));
  std::vector<std::string> nodes;
  RINGLET_RETURN_IF_ERROR(
      ExpandHostList(list, &nodes).Annotate("%s", list_name));
  std::vector<int> counts;
  RINGLET_RETURN_IF_ERROR(SlurmCounts(variables, static_cast<int>(nodes.size()),
                                      config->world_size, &counts));
  bool cyclic = false;
  RINGLET_RETURN_IF_ERROR(IsCyclic(variables, &cyclic));
  const std::vector<std::string> hosts =
      cyclic ? CyclicHosts(nodes, counts) : BlockHosts(nodes, counts);
  int port = 0;
  RINGLET_RETURN_IF_ERROR(variables.Port(&port));
  return NumberPorts(hosts, port, config).Annotate("%s", list_name);
}

}  // namespace ringlet
