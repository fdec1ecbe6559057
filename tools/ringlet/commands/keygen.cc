// ringlet keygen: a new key of a job.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "../command_line.h"
#include "commands.h"
#include "core/base/key_file.h"
#include "io/files/file_system.h"
#include "io/files/path.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Prints a new key. The workers of a job identify themselves by it, and seal
files with it (docs/security.md). Copy it to every worker.
)";

constexpr char kMore[] = R"(
Example: ringlet keygen --out job.key
RINGLET_KEY_FILE=job.key ringlet train RUN.json
)";

Status WriteAll(int fd, const std::string& text, const char* path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, &text[done], text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OsError(n < 0 ? errno : EIO, "%s: writing", path);
    done += static_cast<size_t>(n);
  }
  return Status();
}

// Never replaces a file, which may be the only copy of a key.
Status WriteNew(const std::string& path, const std::string& text) {
  const int fd = open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return OsError(errno, "--out %s", path.c_str());
  Status status = WriteAll(fd, text, path.c_str());
  if (status.ok() && fsync(fd) != 0) {
    status = OsError(errno, "%s: syncing", path.c_str());
  }
  if (close(fd) != 0 && status.ok() && errno != EINTR) {
    status = OsError(errno, "%s: closing", path.c_str());
  }
  // The key must survive a power cut, as do the files sealed with it.
  if (status.ok()) {
    status = PosixFiles()->SyncFolder(FolderOf(path));
  }
  if (!status.ok()) unlink(path.c_str());
  return status;
}

}  // namespace

int KeygenCommand(const std::vector<std::string>& line) {
  std::string out;
  CommandLine flags("keygen", "", kAbout, kMore);
  flags.Text("-o, --out", "FILE", &out,
             "write it to this new file, for this user only");
  int code = 0;
  if (!flags.Parse(line, 0, 0, &code)) return code;
  std::string text;
  Status status = NewKeyText(&text);
  if (status.ok()) {
    // Avoids the buffers of stdio, which are not wiped.
    status = out.empty() ? WriteAll(STDOUT_FILENO, text, "stdout")
                         : WriteNew(out, text);
  }
  Wipe(&text);
  return InputExitCode(status);
}

}  // namespace ringlet
