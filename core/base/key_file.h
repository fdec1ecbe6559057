// Key files: where the keys of a job are kept (docs/security.md).
//
// Internal. A line of base64 a key, 32 bytes of it, one or two of them; "#"
// begins a comment. Nobody but the owner may read the file, and nothing that is
// said of it shows a byte of it.

#ifndef RINGLET_CORE_BASE_KEY_FILE_H_
#define RINGLET_CORE_BASE_KEY_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "job_key.h"
#include "status.h"

namespace ringlet {

using JobKeysPtr = std::shared_ptr<const JobKeys>;

// A regular file that may be read by its owner alone, this user or root; where
// it is root's a group may read it too. The keys' memory is neither swapped nor
// dumped, where the system lets it be so, and is wiped at the end.
Status ReadKeyFile(const std::string& path, JobKeysPtr* keys);

// Of `path`, else of the file that RINGLET_KEY_FILE names, else of ringlet.key
// among systemd's credentials ($CREDENTIALS_DIRECTORY). None of them: OK and
// null.
Status FindKeys(const std::string& path, JobKeysPtr* keys);

// The key that a launcher made for this job alone; null where there is none.
// Nothing that outlives the job may be sealed with it.
constexpr char kLauncherKeyVariable[] = "RINGLET_LAUNCHER_KEY";
JobKeysPtr LauncherKeys();

// Of the system's source of random numbers, which never blocks once it is
// seeded.
Status RandomBytes(void* out, size_t bytes);

// A new key as its file has it: a comment, the key, each with its newline.
// Wipe() the text.
Status NewKeyText(std::string* text);
void Wipe(std::string* text);

// A new key in memory without a name, for the processes that this one starts:
// what kLauncherKeyVariable is to be for them. It lives as long as *fd is open,
// which no child inherits. "" and -1 where the system has no such memory.
void MakeLauncherKey(int* fd, std::string* path);

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_KEY_FILE_H_
