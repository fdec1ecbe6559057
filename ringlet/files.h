// PosixFiles and SealedFiles: the disk, plain and encrypted.

#ifndef RINGLET_FILES_H_
#define RINGLET_FILES_H_

#include <memory>
#include <string>

namespace ringlet {

// Where files are read and written. Several threads may use one.
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
// The key is read when it is first needed, from `key_file` or the file that
// RINGLET_KEY_FILE names. If the file has two keys, the first encrypts, and
// each can decrypt. Without `seal` new files are plain. Plain files are read as
// they are. Logs are not sealed; names, lengths and times are not hidden.
// Reading fails with kUnimplemented without the key, and with kCorruption for a
// damaged file. docs/security.md has the format.
std::shared_ptr<FileSystem> SealedFiles(const std::string& key_file = "",
                                        bool seal = true,
                                        FileSystem* below = PosixFiles());

}  // namespace ringlet

#endif  // RINGLET_FILES_H_
