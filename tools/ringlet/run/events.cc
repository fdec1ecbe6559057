#include "events.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "../command_line.h"
#include "core/base/text.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "io/logs/event_report.h"
#include "net/cluster/address.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kEnd[] = ".events", kOld[] = ".1";
// The most bytes that are read: another program may have appended to the log.
constexpr int64_t kMaxBytes = 64 << 20;

// The first bytes of a file; empty if it cannot be read.
std::string HeadOf(const std::string& path) {
  std::unique_ptr<File> file;
  char head[kEventLogHeadBytes] = {};
  size_t got = 0;
  const bool read = PosixFiles()->Open(path, &file).ok() &&
                    file->ReadSome(0, head, sizeof(head), &got).ok();
  return read ? std::string(head, got) : "";
}

// Reads the older file `path`.1, if there is one, and then the file `path`.
Status ReadEventLog(const std::string& path, EventLogContent* log) {
  RINGLET_RETURN_IF_ERROR(CheckEventLogVersion(path));
  std::string bytes, before;
  RINGLET_RETURN_IF_ERROR(ReadWholeFile(PosixFiles(), path, kMaxBytes, &bytes));
  if (!IsEventLog(bytes)) {
    return Corruption("%s: is not the event log of a worker", path.c_str());
  }
  const std::string old = path + kOld;
  if (IsEventLogFile(old)) {
    RINGLET_RETURN_IF_ERROR(
        ReadWholeFile(PosixFiles(), old, kMaxBytes, &before));
  }
  *log = ParseEventLog(before + "\n" + bytes);
  return Status();
}

}  // namespace

std::string EventLogPath(const std::string& flag, const std::string& model,
                         const ClusterConfig& cluster) {
  const bool job = cluster.world_size > 1;
  if (flag.empty() && (!job || model.empty())) return "";
  if (!job) return flag;
  const std::string base = flag.empty() ? WithoutSuffix(model, ".safetensors")
                                        : WithoutSuffix(flag, kEnd);
  return base + ".worker-" + std::to_string(cluster.worker) + kEnd;
}

Status OpenEventLog(const std::string& path, bool asked, const std::string& run,
                    const ClusterConfig& cluster,
                    std::unique_ptr<EventLog>* log) {
  const auto worker = static_cast<size_t>(cluster.worker);
  EventLogOptions options;
  options.path = path;
  if (options.path.empty()) return Status();
  options.run = run;
  options.worker = cluster.worker;
  options.workers = cluster.world_size;
  if (worker < cluster.addresses.size()) {
    options.address = ToString(cluster.addresses[worker]);
  }
  const Status opened = EventLog::Open(options, log);
  if (opened.code() == Code::kInvalidArgument && asked) {
    return opened.Annotate("--events");
  }
  if (!opened.ok()) {
    Notice("warning: %s; training continues without an event log",
           opened.message());
  }
  return Status();
}

bool IsEventLogFile(const std::string& path) {
  return IsEventLog(HeadOf(path));
}

Status CheckEventLogVersion(const std::string& path) {
  if (!IsOldEventLog(HeadOf(path))) return Status();
  return InvalidArgument(
      "%s: is a trail, which this version of ringlet no longer reads: jobs "
      "write event logs instead (ringlet train --events)",
      path.c_str());
}

int InspectEventLogs(const std::vector<std::string>& paths, bool verbose) {
  std::vector<EventLogContent> logs;
  int code = 0;
  for (const std::string& path : paths) {
    // An old file that was named too, as by *.events*.
    const std::string newer = WithoutSuffix(path, kOld);
    if (newer != path && std::count(paths.begin(), paths.end(), newer) > 0) {
      continue;
    }
    EventLogContent log;
    const Status status = ReadEventLog(path, &log);
    if (status.ok()) {
      logs.push_back(std::move(log));
    } else {
      Notice("%s; skipped", status.message());
      code = 1;
    }
  }
  for (const EventLogContent& log : logs) {
    for (const EventRecord& record : log.records) {
      if (verbose) std::printf("%s\n", record.line.c_str());
    }
  }
  std::printf("%s", DescribeEventLogs(logs).c_str());
  return code;
}

}  // namespace ringlet
