// KeptFiles: the newest files that a callback has written. Older ones are
// removed.
//
// The list is part of the callback's state, and equal on all ranks. A file is
// removed only if its name fits the callback's pattern and it has the bytes
// that were written. The list alone is not a proof: it may come from a backup,
// and a worker that becomes the chief may have another disk.

#ifndef RINGLET_IO_CHECKPOINT_KEPT_FILES_H_
#define RINGLET_IO_CHECKPOINT_KEPT_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "../files/file_system.h"
#include "ringlet/collective.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

class KeptFiles {
 public:
  static constexpr int kMax = 100;

  // `max_kept` is from 0, which keeps all, to kMax. `pattern` is for
  // FormatPath.
  KeptFiles(int max_kept, std::string pattern, FileSystem* files);

  // Every rank calls it after the chief has written `path`. The chief removes
  // what is now too old. The best file so far stays.
  Status Add(const std::string& path, bool is_best, bool is_chief,
             Collective* collective);

  void AppendState(const std::string& name, std::vector<StateSpan>* spans);
  Status StateLoaded();

 private:
  struct Written {
    std::string path;
    std::string check;  // the checksum of the file's bytes
    bool is_best = false;
  };
  // The bytes of one file in the state: "best ", "check ", path and zeros.
  static constexpr size_t kRecord = 1024;

  void RecordFile(const Written& written, std::vector<Written>* too_old);
  void Remove(const Written& written) const;
  void RemoveEmptyFolders(const std::string& path) const;
  size_t FixedFolders() const;
  Status Check(const std::string& path, std::string* check) const;
  bool FitsPattern(const std::string& path) const;
  void WriteState();

  const size_t most_;
  const std::string pattern_;
  FileSystem& files_;
  std::vector<Written> written_;      // the files, the oldest first
  std::vector<unsigned char> state_;  // written_ in records, or empty
};

}  // namespace ringlet

#endif  // RINGLET_IO_CHECKPOINT_KEPT_FILES_H_
