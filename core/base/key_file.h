// Key files: files with the keys of a job (docs/security.md).
//
// One or two lines, each a key: 32 bytes in base64; "#" begins a comment. Only
// the owner may read the file, and no message shows a byte of a key.

#ifndef RINGLET_CORE_BASE_KEY_FILE_H_
#define RINGLET_CORE_BASE_KEY_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "job_key.h"
#include "ringlet/status.h"

namespace ringlet {

using JobKeysPtr = std::shared_ptr<const JobKeys>;

// Reads a regular file that only its owner may read, this user or root; if it
// is a file of root, its group may read it too. If the system permits it, the
// memory of the keys is neither swapped nor dumped. It is wiped at the end.
Status ReadKeyFile(const std::string& path, JobKeysPtr* keys);

// Reads the keys of the first of these files that is given: `path`, the file
// that RINGLET_KEY_FILE names, or ringlet.key among systemd's credentials
// ($CREDENTIALS_DIRECTORY). If none is given, *keys is null.
Status FindKeys(const std::string& path, JobKeysPtr* keys);

// The key that a launcher made for this job only; null if there is none.
// Nothing that outlives the job may be sealed with it.
constexpr char kLauncherKeyVariable[] = "RINGLET_LAUNCHER_KEY";
JobKeysPtr LauncherKeys();

// Bytes from the system's random number generator, which does not block after
// it was seeded.
Status RandomBytes(void* out, size_t bytes);

// Makes the text of a file with a new key: a comment and the key, each with a
// newline. Wipe() the text.
Status NewKeyText(std::string* text);
void Wipe(std::string* text);

// Makes a new key in memory without a name, for the child processes. *path is
// the value of kLauncherKeyVariable for them. The key exists while *fd is open;
// child processes do not inherit *fd. If the system has no such memory, *path
// is empty and *fd is -1.
void MakeLauncherKey(int* fd, std::string* path);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_KEY_FILE_H_
