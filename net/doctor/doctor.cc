// The exchange with other workers takes longest, so it begins first, and the
// disks are tested beside it. The limits leave a second for the end.

#include "doctor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "../../core/base/fnv1a.h"
#include "../../core/base/time_units.h"
#include "../../core/compute/gemm.h"
#include "../collective/topology.h"
#include "../ring/check_ring_options.h"
#include "../transport/socket_address.h"
#include "host_facts.h"
#include "link_checks.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

constexpr double kExchangeEnd = 8.5;
constexpr double kDisksEnd = 9;
constexpr double kOwnNameSeconds = 3;

double Seconds() {
  return static_cast<double>(Clock::System()->MonotonicNanos()) / 1e9;
}

bool IsLittleEndian() {
  const uint16_t one = 1;
  return *reinterpret_cast<const uint8_t*>(&one) == 1;
}

PeerContext ContextOf(const DoctorPlan& plan) {
  PeerContext context;
  context.addresses = plan.ring.addresses;
  context.self = plan.ring.worker;
  context.facts.version = RINGLET_VERSION;
  context.facts.arithmetic = ArithmeticClassName();
  context.facts.byte_order = IsLittleEndian() ? "little" : "big";
  Fnv1a sum;
  sum.Add(plan.settings);
  context.facts.settings_sum = sum.value();
  context.settings = plan.settings.substr(0, kSettingsBytes);
  context.same_arithmetic = plan.same_arithmetic;
  context.timeout_seconds = plan.ring.timeout_seconds;
  return context;
}

// A worker beyond loopback addresses, and neither a key nor --insecure. False:
// nothing is to be sent.
bool CheckKey(const RingOptions& ring, const std::vector<Address>& hosts,
              Findings* out) {
  if (ring.keys != nullptr) {
    AddOk("key", "the workers identify each other by a key", out);
    return true;
  }
  const bool local = std::all_of(hosts.begin(), hosts.end(), IsLoopback);
  if (local || ring.insecure) {
    AddOk("key",
          local ? "all workers are on this host, which needs no key"
                : "no key, as insecure allows: any program that reaches a "
                  "worker may take part",
          out);
    return true;
  }
  AddError("key",
           "other machines can reach the workers, and the job has no key, so "
           "the other workers are not tried",
           "ringlet keygen --out job.key, copy it to every worker, and set "
           "RINGLET_KEY_FILE=job.key; or --insecure, if no other machine can "
           "reach their network",
           out);
  return false;
}

// Begins the exchange, if there are other workers to reach.
std::unique_ptr<LinkChecks> StartLinks(const DoctorPlan& plan, Findings* out) {
  const RingOptions& ring = plan.ring;
  if (ring.size() < 2) return nullptr;
  std::vector<Address> hosts;
  RingOptions checked = ring;
  checked.insecure = true;  // CheckKey has its own finding
  const Status valid = CheckRingOptions(checked, &hosts);
  if (!valid.ok()) {
    AddError("cluster", valid.message(),
             "correct the list of workers or \"strategy\"", out);
    return nullptr;
  }
  if (!ring.relay.empty()) {
    AddOk("link", "the workers meet at a relay, so no link is tried", out);
    return nullptr;
  }
  if (!CheckKey(ring, hosts, out)) return nullptr;
  int64_t limit = 0;
  const bool elastic = ring.min_workers > 0;
  const int needed =
      static_cast<int>(LinksOf(ring.worker, ring.size(), elastic).size()) + 2;
  const int spare = SpareDescriptors(needed, &limit);
  CheckDescriptors(spare, needed, limit, out);
  auto links =
      std::make_unique<LinkChecks>(checked, std::move(hosts), ContextOf(plan));
  const Status started = links->Start(kOwnNameSeconds);
  if (started.ok()) return links;
  AddError("link", started.message(),
           "raise the limit of files or threads (ulimit -n, ulimit -u)", out);
  return nullptr;
}

// Returns the bytes of the data.
uint64_t CheckData(const std::optional<DataFacts>& data, Findings* out) {
  if (!data) {
    AddWarning("data",
               "to find the size of the data takes too long, so the memory "
               "below is without them",
               "if their disk should be faster, look for its errors (dmesg)",
               out);
    return 0;
  }
  if (!data->status.ok()) {
    AddError("data", data->status.message(),
             "copy the data to this worker, correct the path in RUN.json, or "
             "give this user the right to read them",
             out);
    return 0;
  }
  AddOk("data", "the files of the data can be read", out);
  return data->bytes;
}

DiskFacts FactsOf(std::optional<DiskFacts> observed,
                  const DoctorPlan::Folder& folder) {
  if (observed) return *std::move(observed);
  DiskFacts facts;
  facts.folder = folder.path;
  facts.use = folder.use;
  facts.synced = false;
  facts.sync_seconds = kDisksEnd;
  return facts;
}

}  // namespace

Status Examine(const DoctorPlan& plan, Findings* out) {
  const auto seconds_left = [&plan](double end) {
    return plan.begun + end - Seconds();
  };
  std::vector<Observed<DiskFacts>> disks;
  for (const DoctorPlan::Folder& folder : plan.folders) {
    disks.emplace_back([folder] {
      return ObserveDisk(folder.path, folder.use, folder.needed);
    });
  }
  std::optional<Observed<DataFacts>> data;
  if (plan.find_data) data.emplace(plan.find_data);
  const std::unique_ptr<LinkChecks> links = StartLinks(plan, out);
  CheckCores(ObserveCpu(plan.threads), out);
  MemoryFacts memory = ObserveMemory();
  CheckDate(Clock::System()->WallNanos() / kSecond, out);
  if (links != nullptr) {
    links->Finish(seconds_left(kExchangeEnd));
    links->AddFindings(kExchangeEnd, out);
  }
  memory.needed = plan.memory;
  if (data)
    memory.needed += CheckData(data->Wait(seconds_left(kDisksEnd)), out);
  const bool holds_job = links != nullptr && links->holds_job();
  if (plan.has_run && !holds_job) CheckPlannedMemory(memory, out);
  for (size_t i = 0; i < disks.size(); ++i) {
    CheckDisk(FactsOf(disks[i].Wait(seconds_left(kDisksEnd)), plan.folders[i]),
              out);
  }
  return Status();
}

}  // namespace ringlet
