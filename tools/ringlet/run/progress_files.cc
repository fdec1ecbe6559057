#include "progress_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "core/base/text.h"
#include "io/files/file_system.h"

namespace ringlet {
namespace {

constexpr size_t kMaxLineBytes = 1 << 16;

// Empty if there is none that only this user may write.
std::string Folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder = runtime != nullptr && *runtime == '/'
                                 ? std::string(runtime) + "/ringlet"
                                 : "/tmp/ringlet-" + std::to_string(geteuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return "";
  struct stat found;
  const bool is_private = lstat(folder.c_str(), &found) == 0 &&
                          S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
                          (found.st_mode & 022) == 0;
  return is_private ? folder : "";
}

std::string ReadLine(int fd) {
  std::string line(kMaxLineBytes, '\0');
  const ssize_t n = pread(fd, line.data(), line.size(), 0);
  line.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return line.substr(0, line.find('\n'));
}

}  // namespace

ProgressFile::ProgressFile() {
  const std::string folder = Folder();
  if (folder.empty()) return;
  path_ = folder + "/" + std::to_string(getpid()) + ".json";
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    close(fd_);
    fd_ = -1;
  }
}

ProgressFile::~ProgressFile() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
}

void ProgressFile::Write(const std::string& line) {
  if (fd_ < 0 || line.size() > kMaxLineBytes) return;
  // A reader takes the first line, so what a longer one has left does no harm.
  (void)!pwrite(fd_, line.data(), line.size(), 0);
}

std::vector<std::string> ReadProgressFiles() {
  std::vector<std::string> lines, names;
  const std::string folder = Folder();
  if (folder.empty() || !PosixFiles()->List(folder, &names).ok()) {
    return lines;
  }
  for (const std::string& name : names) {
    if (!EndsWith(name, ".json")) continue;
    const std::string path = folder + "/" + name;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
      unlink(path.c_str());
    } else {
      lines.push_back(ReadLine(fd));
    }
    close(fd);
  }
  return lines;
}

}  // namespace ringlet
