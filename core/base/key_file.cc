// The file's bytes go through one buffer on the stack, which is wiped. The keys
// are decoded from it into their own page. In this file only the string of
// NewKeyText has a key.

#include "key_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ringlet/status.h"
#include "text.h"

namespace ringlet {
namespace {

constexpr char kDigits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kKeyBytes = sizeof(JobKey);
constexpr size_t kKeyDigits = 43;  // and one '='
constexpr size_t kMaxFileBytes = 4096;

// Memory that is wiped at the end of its life.
struct Wiped {
  char bytes[kMaxFileBytes + 1];
  ~Wiped() { explicit_bzero(bytes, sizeof(bytes)); }
};

// Keys have their own page, since locks and dumps apply to whole pages.
std::shared_ptr<JobKeys> NewKeys() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Failure is not an error: locked memory is limited.
  (void)mlock(memory, page);
#ifdef MADV_DONTDUMP
  (void)madvise(memory, page, MADV_DONTDUMP);
#endif
  return {new (memory) JobKeys, [page](JobKeys* keys) {
            explicit_bzero(keys, sizeof(*keys));
            munmap(keys, page);
          }};
}

// False unless `text` is Encode's result for 32 bytes.
bool Decode(const char* text, size_t size, uint8_t* out) {
  if (size != kKeyDigits + 1 || text[kKeyDigits] != '=') return false;
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < kKeyDigits; ++i) {
    const char* const at = std::find(kDigits, kDigits + 64, text[i]);
    if (at == kDigits + 64) return false;
    bits = bits << 6 | static_cast<uint32_t>(at - kDigits);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    *out++ = static_cast<uint8_t>(bits >> count);
  }
  return (bits & 3) == 0;  // the two bits that no key has
}

void Encode(const uint8_t* bytes, std::string* out) {
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < kKeyBytes; ++i) {
    bits = bits << 8 | bytes[i];
    for (count += 8; count >= 6; count -= 6) {
      out->push_back(kDigits[bits >> (count - 6) & 63]);
    }
  }
  out->push_back(kDigits[bits << (6 - count) & 63]);
  out->push_back('=');
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Decodes the line [begin, end). A blank line or a comment adds no key.
Status ParseLine(const char* begin, const char* end, int number,
                 JobKeys* keys) {
  while (begin < end && IsBlank(*begin)) ++begin;
  while (begin < end && IsBlank(end[-1])) --end;
  if (begin == end || *begin == '#') return Status();
  if (keys->count == JobKeys::kMax) {
    return InvalidArgument(
        "line %d: a third key; a key file has at most two, and new connections "
        "use the first",
        number);
  }
  if (!Decode(begin, static_cast<size_t>(end - begin),
              keys->keys[keys->count].bytes)) {
    return InvalidArgument(
        "line %d: is not a key: 32 bytes in base64, as `ringlet keygen` prints "
        "them",
        number);
  }
  ++keys->count;
  return Status();
}

Status Parse(const char* text, size_t size, JobKeys* keys) {
  const char* const end = text + size;
  int number = 0;
  while (text < end) {
    const void* const found =
        std::memchr(text, '\n', static_cast<size_t>(end - text));
    const char* const stop =
        found != nullptr ? static_cast<const char*>(found) : end;
    RINGLET_RETURN_IF_ERROR(ParseLine(text, stop, ++number, keys));
    text = stop + 1;
  }
  if (keys->count > 0) return Status();
  return InvalidArgument("has no key; `ringlet keygen` prints one");
}

Status CheckOwner(const struct stat& about) {
  if (!S_ISREG(about.st_mode)) {
    return InvalidArgument(
        "not a regular file; give one that ringlet keygen has written");
  }
  const unsigned mode = about.st_mode & 0777;
  if (about.st_uid != geteuid() && about.st_uid != 0) {
    return InvalidArgument(
        "belongs to user %u; a key file must belong to the user that reads it, "
        "or to root",
        static_cast<unsigned>(about.st_uid));
  }
  // The group of a file of root's may read it, as in a Kubernetes volume.
  const unsigned others = about.st_uid == 0 ? 037 : 077;
  if ((mode & others) == 0) return Status();
  return InvalidArgument(
      "other users may read or write it (mode %04o): chmod 600; if the file "
      "system has no modes, mount it with umask=077, or keep the key elsewhere",
      mode);
}

Status ReadAll(int fd, char* text, size_t* size) {
  *size = 0;
  while (*size <= kMaxFileBytes) {
    const ssize_t got = read(fd, text + *size, kMaxFileBytes + 1 - *size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return OsError(errno, "cannot be read");
    if (got == 0) return Status();
    *size += static_cast<size_t>(got);
  }
  return InvalidArgument("more than the %zu bytes that a key file may have",
                         kMaxFileBytes);
}

Status ReadOpen(int fd, JobKeysPtr* out) {
  struct stat about;
  if (fstat(fd, &about) != 0) return OsError(errno, "cannot be read");
  RINGLET_RETURN_IF_ERROR(CheckOwner(about));
  Wiped text;
  size_t size = 0;
  RINGLET_RETURN_IF_ERROR(ReadAll(fd, text.bytes, &size));
  const std::shared_ptr<JobKeys> keys = NewKeys();
  if (keys == nullptr) return OsError(ENOMEM, "no memory for a key");
  RINGLET_RETURN_IF_ERROR(Parse(text.bytes, size, keys.get()));
  *out = keys;
  return Status();
}

// True for a text that may be a key given as a path; no message shows it.
bool HoldsKey(const std::string& text) {
  uint8_t key[kKeyBytes];
  bool holds = false;
  for (size_t i = 0; !holds && i + kKeyDigits < text.size(); ++i) {
    holds = Decode(&text[i], kKeyDigits + 1, key);
  }
  explicit_bzero(key, sizeof(key));
  return holds;
}

const char* RemedyOf(int error) {
  switch (error) {
    case ENOENT:
      return " (copy the job's key there; ringlet keygen makes one)";
    case EACCES:
      return " (the user that runs this must own it: chown, and chmod 600)";
    default:
      return "";
  }
}

}  // namespace

Status ReadKeyFile(const std::string& path, JobKeysPtr* keys) {
  // A FIFO must not block the open; it is refused afterwards.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && HoldsKey(path)) {
    return InvalidArgument(
        "a key is given instead of the path of its file; ringlet keygen --out "
        "makes such a file");
  }
  if (fd < 0) {
    return OsError(errno, "key file %s%s", path.c_str(), RemedyOf(errno));
  }
  const Status status = ReadOpen(fd, keys);
  close(fd);
  return status.Annotate("key file %s", path.c_str());
}

Status FindKeys(const std::string& path, JobKeysPtr* keys) {
  keys->reset();
  if (!path.empty()) return ReadKeyFile(path, keys);
  const char* const named = std::getenv("RINGLET_KEY_FILE");
  if (named != nullptr && *named != '\0') {
    return ReadKeyFile(named, keys).Annotate("RINGLET_KEY_FILE");
  }
  const char* const folder = std::getenv("CREDENTIALS_DIRECTORY");
  if (folder == nullptr || *folder == '\0') return Status();
  const std::string credential = std::string(folder) + "/ringlet.key";
  const Status read = ReadKeyFile(credential, keys);
  return read.code() == Code::kNotFound ? Status() : read;
}

// Launchers use only loopback addresses. If the launcher's key cannot be read,
// by another user or in a container, no worker of the job has it, and they
// connect without a key.
JobKeysPtr LauncherKeys() {
  JobKeysPtr keys;
  const char* const path = std::getenv(kLauncherKeyVariable);
  if (path == nullptr || *path == '\0') return keys;
  const Status read = ReadKeyFile(path, &keys);
  if (!read.ok()) {
    Notice("warning: %s: %s; this worker has no key", kLauncherKeyVariable,
           read.message());
  }
  return keys;
}

Status RandomBytes(void* out, size_t bytes) {
  if (getentropy(out, bytes) == 0) return Status();
  return OsError(errno, "no random numbers from the system");
}

Status NewKeyText(std::string* text) {
  JobKey key;
  RINGLET_RETURN_IF_ERROR(RandomBytes(key.bytes, sizeof(key.bytes)));
  *text =
      "# A key of ringlet. A program that has it can join, read and stop "
      "jobs.\n";
  text->reserve(text->size() + kKeyDigits + 2);
  Encode(key.bytes, text);
  *text += '\n';
  explicit_bzero(&key, sizeof(key));
  return Status();
}

void Wipe(std::string* text) { explicit_bzero(&(*text)[0], text->size()); }

void MakeLauncherKey(int* fd, std::string* path) {
  *fd = -1;
  path->clear();
#ifdef MFD_CLOEXEC
  std::string text;
  // With vm.memfd_noexec = 2 the system requires this flag.
  constexpr unsigned kNoExecSeal = 8;  // Linux 6.3
  int memory_file = memfd_create("ringlet.key", MFD_CLOEXEC | kNoExecSeal);
  if (memory_file < 0) memory_file = memfd_create("ringlet.key", MFD_CLOEXEC);
  const ssize_t size =
      NewKeyText(&text).ok() ? static_cast<ssize_t>(text.size()) : -1;
  if (memory_file >= 0 && fchmod(memory_file, 0600) == 0 &&
      write(memory_file, text.data(), text.size()) == size) {
    *fd = memory_file;
    *path = "/proc/" + std::to_string(getpid()) + "/fd/" +
            std::to_string(memory_file);
  } else if (memory_file >= 0) {
    close(memory_file);
  }
  Wipe(&text);
#endif
}

}  // namespace ringlet
