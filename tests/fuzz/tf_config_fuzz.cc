// Fuzz entry: any bytes as TF_CONFIG and as the lists of hosts. Whatever they
// are, there is a cluster that holds together or one clear error.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/check.h"
#include "net/cluster/address.h"
#include "ringlet/strategy.h"
#include "tests/support/map_environment.h"

namespace {

using ringlet::Address;
using ringlet::ClusterConfig;
using ringlet::MapEnvironment;

void Check(const MapEnvironment& environment) {
  ClusterConfig config;
  config.worker = -1;
  const ringlet::Status status =
      ringlet::ClusterFromEnvironment(environment, &config);
  if (!status.ok()) {
    RINGLET_CHECK(status.code() == ringlet::Code::kInvalidArgument);
    RINGLET_CHECK(*status.message() != '\0');
    RINGLET_CHECK(config.worker == -1);
    return;
  }
  const size_t world = static_cast<size_t>(config.world_size);
  RINGLET_CHECK(world >= 1 && config.world_size <= ringlet::kMaxWorldSize);
  RINGLET_CHECK(config.worker >= 0 && config.worker < config.world_size);
  RINGLET_CHECK(config.task_index >= 0 && config.task_index <= config.worker);
  RINGLET_CHECK(config.is_chief == (config.worker == 0));
  RINGLET_CHECK(config.addresses.size() == world ||
                (world == 1 && config.addresses.empty()));
  for (const Address& address : config.addresses) {
    Address again;
    RINGLET_CHECK(ParseAddress(ToString(address), &again).ok());
    RINGLET_CHECK(again == address);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Check(MapEnvironment({{"TF_CONFIG", text}}));
  Check(MapEnvironment({{"SLURM_PROCID", "1"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_JOB_NODELIST", text}}));
  Check(MapEnvironment({{"SLURM_PROCID", "0"},
                        {"SLURM_NTASKS", "3"},
                        {"SLURM_JOB_NODELIST", "n[1-2]"},
                        {"SLURM_TASKS_PER_NODE", text}}));
  Check(MapEnvironment(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"RINGLET_HOSTS", text}}));
  return 0;
}
