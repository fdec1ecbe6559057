// A finding says what was observed, with its numbers, and its fix is a command
// or a setting. The first argument of AddOk, AddWarning and AddError is a check
// of docs/doctor.md.

#include "host_checks.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "../../core/base/text.h"
#include "../../core/base/thread.h"

namespace ringlet {
namespace {

constexpr double kSlowSyncSeconds = 1;
constexpr int64_t kOldestDate = 1704067200;  // 2024-01-01

std::string WorkerText(int worker, const std::string& host) {
  return "worker " + std::to_string(worker) + "'s name " + host;
}

// The first whole number in a file of a control group; kUnlimited for "max" or
// no file.
uint64_t NumberIn(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return kUnlimited;
  char text[32] = "";
  const bool read = std::fgets(text, sizeof(text), file) != nullptr;
  std::fclose(file);
  if (!read || *text < '0' || *text > '9') return kUnlimited;
  return std::strtoull(text, nullptr, 10);
}

// The number after `name` in memory.stat; 0 if there is none.
uint64_t StatIn(const std::string& path, const std::string& name) {
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return 0;
  char line[128];
  uint64_t value = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::string(line).compare(0, name.size() + 1, name + " ") != 0) {
      continue;
    }
    value = std::strtoull(line + name.size() + 1, nullptr, 10);
    break;
  }
  std::fclose(file);
  return value;
}

// The files have different names in version 1 of control groups, and a great
// number in place of "max".
uint64_t LeftIn(const std::string& folder) {
  const uint64_t limit = std::min(NumberIn(folder + "/memory.max"),
                                  NumberIn(folder + "/memory.limit_in_bytes"));
  if (limit >= uint64_t{1} << 62) return kUnlimited;
  uint64_t used = std::min(NumberIn(folder + "/memory.current"),
                           NumberIn(folder + "/memory.usage_in_bytes"));
  if (used == kUnlimited) used = 0;
  const std::string stat = folder + "/memory.stat";
  const uint64_t files = std::max(StatIn(stat, "file"), StatIn(stat, "cache"));
  // Shared memory and tmpfs count as files, and cannot be dropped.
  const uint64_t cache = files - std::min(files, StatIn(stat, "shmem"));
  used -= std::min(used, cache);
  return limit - std::min(limit, used);
}

void CheckAnswer(const NameFacts& name, double seconds, Findings* out) {
  const std::string subject = WorkerText(name.worker, name.host);
  if (!name.answered) {
    AddError("names",
             subject + ": the resolver has not answered within " +
                 FormatText("%.2g s", seconds),
             "check the name server in /etc/resolv.conf, write the address "
             "into /etc/hosts, or put numeric addresses into the "
             "configuration",
             out, name.worker);
  } else if (!name.status.ok()) {
    AddError("names", subject + ": " + name.status.message(),
             "correct the name in the configuration, or write its address "
             "into /etc/hosts",
             out, name.worker);
  }
}

// The worker has a loopback address, and the job has workers of other hosts.
void AddLoopback(const NameFacts& name, bool is_self, Findings* out) {
  const std::string subject = WorkerText(name.worker, name.host) + " is " +
                              name.address + " on this host";
  const std::string instead =
      name.numeric
          ? "put the address of that worker's host in the network into the "
            "configuration"
          : "in /etc/hosts give " + name.host +
                " its address in the network instead of " + name.address +
                ", or put numeric addresses into the configuration";
  if (is_self && !name.numeric) {
    AddWarning("loopback",
               subject +
                   ", where other hosts cannot reach it; a job listens on "
                   "the address of the route to them too",
               instead, out);
  } else {
    AddError("loopback",
             subject + (is_self ? ", where other hosts cannot reach it"
                                : ", so it would be looked for on this host"),
             instead, out, is_self ? -1 : name.worker);
  }
}

}  // namespace

void CheckNames(const std::vector<NameFacts>& names, int self, double seconds,
                Findings* out) {
  const size_t before = out->size();
  bool any_elsewhere = false, self_reachable = false;
  for (const NameFacts& name : names) {
    CheckAnswer(name, seconds, out);
    const bool reachable = !name.address.empty() && !name.loopback;
    (name.worker == self ? self_reachable : any_elsewhere) |= reachable;
  }
  for (const NameFacts& name : names) {
    const bool is_self = name.worker == self;
    const bool wrong = is_self ? any_elsewhere : self_reachable;
    if (name.loopback && wrong) AddLoopback(name, is_self, out);
  }
  if (out->size() == before) {
    AddOk("names", std::to_string(names.size()) + " addresses are known", out);
  }
}

void CheckPort(const PortFacts& port, Findings* out) {
  const std::string subject = "this worker's address " + port.address;
  const std::string number = std::to_string(port.port);
  if (port.status.ok()) {
    return AddOk("port", subject + " can be used", out);
  }
  if (port.holds_job) {
    return AddOk("port",
                 subject +
                     " is in use by a worker of this job, so the others' "
                     "doctors cannot connect here",
                 out);
  }
  std::string fix;
  switch (port.status.os_error()) {
    case EADDRINUSE:
      fix = "end the other program (ss -tlnp 'sport = :" + number +
            "' names it), or give this worker another port in every worker's "
            "list";
      break;
    case EADDRNOTAVAIL:
      fix =
          "the address belongs to none of this host's interfaces (ip address): "
          "correct this worker's index, its address in the list, or the "
          "network's configuration";
      break;
    case EACCES:
      fix = "choose a port above 1023";
      break;
    default:
      fix = "correct this worker's address in the configuration";
  }
  AddError("port", subject + ": " + port.status.message(), fix, out);
}

void CheckCores(const CpuFacts& cpu, Findings* out) {
  double usable = std::min(cpu.online, cpu.allowed);
  std::string why = std::to_string(cpu.allowed) + " of " +
                    std::to_string(cpu.online) + " processors are allowed";
  std::string fix = "widen the set of processors (taskset, cpuset)";
  if (cpu.allowed >= cpu.online) {
    why = "the host has " + std::to_string(cpu.online) +
          (cpu.online == 1 ? " processor" : " processors");
    fix.clear();
  }
  if (cpu.quota > 0 && cpu.quota < usable) {
    usable = cpu.quota;
    why = FormatText("the control group allows the time of %.3g processors",
                     cpu.quota);
    fix = "raise the control group's cpu.max (systemd: CPUQuota=)";
  }
  const std::string threads =
      std::to_string(cpu.threads) + (cpu.threads == 1 ? " thread" : " threads");
  if (static_cast<double>(cpu.threads) <= usable) {
    return AddOk("cores", threads + "; " + why, out);
  }
  const int fewer = std::max(1, static_cast<int>(std::floor(usable)));
  if (fewer < cpu.threads) {
    fix = "--threads " + std::to_string(fewer) +
          (fix.empty() ? "" : ", or " + fix);
  }
  AddWarning("cores", threads + ", but " + why, fix, out);
}

void CheckPlannedMemory(const MemoryFacts& memory, Findings* out) {
  const struct {
    uint64_t available;
    const char *what, *fix;
  } limits[] = {
      {memory.available, "the host has available",
       "end other programs or add swap"},
      {memory.group, "the control group has left",
       "raise its memory.max (systemd: MemoryMax=)"},
      {memory.limit, "RLIMIT_AS leaves", "raise it: ulimit -v unlimited"}};
  const auto& tightest = *std::min_element(
      std::begin(limits), std::end(limits),
      [](const auto& a, const auto& b) { return a.available < b.available; });
  const std::string needs =
      "training takes " + BytesText(memory.needed) + " (ringlet plan)";
  if (tightest.available == kUnlimited) return AddOk("memory", needs, out);
  const std::string text =
      needs + ", and " + tightest.what + " " + BytesText(tightest.available);
  const std::string fix =
      std::string(tightest.fix) +
      ", use a smaller batch_size, or read the data from disk (\"in_memory\": "
      "false)";
  if (memory.needed > tightest.available)
    return AddError("memory", text, fix, out);
  if (memory.needed > tightest.available / 10 * 9) {
    return AddWarning("memory", text, fix, out);
  }
  AddOk("memory", text, out);
}

void CheckDisk(const DiskFacts& disk, Findings* out) {
  const std::string subject = disk.folder + " (" + disk.use + ")";
  if (!disk.writable.ok()) {
    std::string fix = "make the folder, or choose another";
    if (disk.writable.os_error() == EROFS) {
      fix =
          "mount it for writing (mount -o remount,rw), or choose another "
          "folder";
    } else if (disk.writable.os_error() == EACCES ||
               disk.writable.os_error() == EPERM) {
      fix =
          "give this user the right to write there (chown, chmod), or choose "
          "another folder";
    } else if (disk.writable.os_error() == ENOSPC) {
      fix = "free room (df), or choose another folder";
    }
    return AddError("disk", subject + ": " + disk.writable.message(), fix, out);
  }
  const std::string room = subject + " has " + BytesText(disk.free_bytes) +
                           " free, and a save takes " + BytesText(disk.needed);
  if (disk.free_files == 0) {
    return AddError("disk", subject + " has no file left (df -i)",
                    "remove files, or choose another folder", out);
  }
  if (disk.needed > disk.free_bytes) {
    return AddError("disk", room, "free room (df), or choose another folder",
                    out);
  }
  if (!disk.synced || disk.sync_seconds > kSlowSyncSeconds) {
    return AddWarning(
        "disk",
        subject + ": to write 1 MB so that it survives a loss of power takes " +
            (disk.synced ? "" : "more than ") +
            FormatText("%.2g s", disk.sync_seconds),
        "save less often (save_freq), or to another disk", out);
  }
  AddOk("disk", room, out);
}

void CheckDescriptors(int spare, int needed, int64_t limit, Findings* out) {
  const std::string text =
      "a job needs " + std::to_string(needed) + " connections and files, and " +
      (spare < needed ? std::to_string(spare) + " are left" : "they are left") +
      " of " + std::to_string(limit) + " (ulimit -n)";
  if (spare >= needed) return AddOk("descriptors", text, out);
  AddError("descriptors", text,
           "raise the limit: ulimit -n " + std::to_string(limit + needed) +
               " (systemd: LimitNOFILE=)",
           out);
}

void CheckDate(int64_t seconds, Findings* out) {
  if (seconds >= kOldestDate) return;
  AddWarning("clock",
             "this host's date is before 2024, as on a board without a clock "
             "that has not asked a time server",
             "start a time service (timedatectl set-ntp true) before the job: "
             "dates in logs and names of files are wrong without it",
             out);
}

uint64_t GroupMemoryLeft(const std::string& memberships,
                         const std::string& root) {
  uint64_t lowest = kUnlimited;
  for (const std::string& folder : GroupFolders(memberships, "memory", root)) {
    lowest = std::min(lowest, LeftIn(folder));
  }
  return lowest;
}

}  // namespace ringlet
