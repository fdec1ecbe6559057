#include "standard_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

namespace ringlet {
namespace {

constexpr char kPath[] = "/dev/stdin";
constexpr char kCopy[] = "the copy of standard input in the current folder";

// Writes all of standard input to `to`.
Status CopyTo(int to) {
  std::vector<char> block(64 << 10);
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return OsError(errno, "%s", kPath);
    if (got == 0) return Status();
    for (ssize_t done = 0; done < got;) {
      const ssize_t written =
          write(to, block.data() + done, static_cast<size_t>(got - done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return OsError(errno, "%s", kCopy);
      done += written;
    }
  }
}

// *path is valid until the process ends.
Status MakeCopy(std::string* path) {
  struct stat about;
  if (fstat(STDIN_FILENO, &about) != 0) return OsError(errno, "%s", kPath);
  if (S_ISREG(about.st_mode)) return Status();
  char name[] = "ringlet-stdin-XXXXXX";
  const int copy = mkstemp(name);
  if (copy < 0) return OsError(errno, "%s", kCopy);
  unlink(name);
  *path = "/proc/self/fd/" + std::to_string(copy);
  return CopyTo(copy);
}

// The paths that may name it.
std::vector<std::string*> PathsOf(DataConfig* data) {
  std::vector<std::string*> paths = {&data->images, &data->labels, &data->x,
                                     &data->y, &data->csv};
  for (auto* parts : {&data->inputs, &data->targets}) {
    for (DataPart& part : *parts) paths.push_back(&part.path);
  }
  return paths;
}

}  // namespace

Status CopyStandardInput(DataConfig* data) {
  if (data->memory == 0) return Status();
  std::string* found = nullptr;
  for (std::string* path : PathsOf(data)) {
    if (*path != kPath) continue;
    if (found != nullptr) {
      return InvalidArgument(
          "%s: is given twice; only one file can come by standard input",
          kPath);
    }
    found = path;
  }
  return found == nullptr ? Status() : MakeCopy(found);
}

Status CheckStandardInput(const DataConfig& data, int workers) {
  if (workers == 1 || data.policy == AutoShardPolicy::kOff) return Status();
  DataConfig copy = data;
  for (const std::string* path : PathsOf(&copy)) {
    if (*path != kPath) continue;
    return InvalidArgument(
        "%s: each of the %d workers would read a part of it; write it to a "
        "file that all of them read, or start one worker",
        kPath, workers);
  }
  return Status();
}

}  // namespace ringlet
