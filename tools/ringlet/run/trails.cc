#include "trails.h"

#include <cstdio>
#include <utility>

#include "../command_line.h"
#include "io/files/atomic_file.h"
#include "io/logs/trail_report.h"
#include "net/cluster/address.h"
#include "ringlet/files.h"
#include "ringlet/status.h"

namespace ringlet {

Status OpenTrail(const std::string& folder, const ClusterConfig& cluster,
                 std::unique_ptr<Trail>* trail) {
  if (folder.empty()) return Status();
  const auto worker = static_cast<size_t>(cluster.worker);
  const bool alone = worker >= cluster.addresses.size();
  return Trail::Open(folder, cluster.worker, cluster.world_size,
                     alone ? "" : ToString(cluster.addresses[worker]), trail)
      .Annotate("--trail");
}

bool IsTrailFile(const std::string& path) {
  std::unique_ptr<File> file;
  char head[sizeof(kTrailMagic)] = {};
  size_t got = 0;
  return FileSystem::Posix()->Open(path, &file).ok() &&
         file->ReadSome(0, head, sizeof(head) - 1, &got).ok() && IsTrail(head);
}

namespace {

Status ReadTrail(const std::string& path, TrailContent* trail) {
  std::string bytes;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(FileSystem::Posix(), path, kTrailBytes, &bytes));
  return ParseTrail(bytes, trail).Annotate("%s", path.c_str());
}

}  // namespace

int InspectTrails(const std::vector<std::string>& paths, bool verbose) {
  std::vector<TrailContent> trails;
  int code = 0;
  for (const std::string& path : paths) {
    TrailContent trail;
    const Status status = ReadTrail(path, &trail);
    if (status.ok()) {
      trails.push_back(std::move(trail));
    } else if (paths.size() == 1) {
      return InputExitCode(status);
    } else {
      Notice("%s; skipped", status.message());
      code = 1;
    }
  }
  for (const TrailContent& trail : trails) {
    if (!verbose) break;
    std::printf("worker %d, events by number:\n%s", trail.worker,
                ListTrail(trail).c_str());
  }
  std::printf("%s", DescribeTrails(trails).c_str());
  return code;
}

}  // namespace ringlet
