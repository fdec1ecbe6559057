// PosixFiles and SealedFiles: the disk, plain and encrypted.

#ifndef RINGLET_FILES_H_
#define RINGLET_FILES_H_

#include <memory>
#include <string>

namespace ringlet {

// Where files are read and written: the `files` of the functions that save and
// load. Several threads may use one.
class FileSystem;

// The files of the operating system. Never destroyed.
FileSystem* PosixFiles();

// Encrypted files in another FileSystem. Without the key they cannot be read,
// or changed undetected:
//
//   auto sealed = SealedFiles("job.key");  // outlives what uses it
//   SaveModelOptions options;
//   options.files = sealed.get();
//   SaveModel(&model, "m.safetensors", options);
//
// The key is read when it is first needed, from `key_file`, or from the file
// that RINGLET_KEY_FILE names. A key file may have two keys: new files are
// encrypted with the first, and files of either can be read. With `seal` false
// new files are plain. Files that are not sealed are
// read as they are. Logs are not sealed, and names, lengths and times of files
// are not hidden. Reading fails with kUnimplemented if there is no key, or the
// file has another, and with kCorruption if the file is damaged.
// docs/security.md has the format.
std::shared_ptr<FileSystem> SealedFiles(const std::string& key_file = "",
                                        bool seal = true,
                                        FileSystem* below = PosixFiles());

}  // namespace ringlet

#endif  // RINGLET_FILES_H_
