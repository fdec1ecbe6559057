// Seals and opens one file with a job's key (docs/security.md).
//
// Internal to SealedFiles. Needs libsodium: a build without it has
// secure_absent.cc, and each function is an error.

#ifndef RINGLET_IO_FILES_SEALING_H_
#define RINGLET_IO_FILES_SEALING_H_

#include <memory>
#include <string>

#include "../../core/base/job_key.h"
#include "file_system.h"
#include "ringlet/status.h"

namespace ringlet {

// Call it before the other functions of this header. Any thread may call it.
Status BeginSealing();

// Replaces the empty *file by a file that seals what is written with the first
// of `keys`.
Status SealNew(const JobKeys& keys, std::unique_ptr<File>* file);

// Makes *file of the sealed file `below`. An error if it was sealed with none
// of `keys`, or was cut short.
Status Unseal(std::unique_ptr<File> below, const JobKeys& keys,
              const std::string& path, std::unique_ptr<File>* file);

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_SEALING_H_
