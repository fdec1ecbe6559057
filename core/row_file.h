// RowFile: a log that grows by rows, goes on behind those of a backup, and
// outlives a full disk.
//
// Internal to core/.

#ifndef RINGLET_CORE_ROW_FILE_H_
#define RINGLET_CORE_ROW_FILE_H_

#include <cstdint>
#include <string>

#include "saveable.h"
#include "status.h"

namespace ringlet {

class RowFile {
 public:
  // `callback` names it in warnings and in a backup's state.
  RowFile(const char* callback, const std::string& filename)
      : callback_(callback), filename_(filename) {}
  ~RowFile() { Close(); }
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // Before a fit: closed, and nothing restored.
  void Reset();

  // Behind the rows of the backup where one was restored: what lies further is
  // of rows that are yet to come. Where the file is shorter, since it was
  // removed or a power cut took its end, the whole rows that are there stay and
  // a warning says so. Without a backup it goes on at the end, if `append`, or
  // begins anew.
  Status Open(bool append);
  bool is_open() const { return file_ >= 0; }

  // The first line, without its end; "" where there is none.
  Status ReadHeader(std::string* header) const;

  // Rows with their line ends, in the kernel's hands when it returns. What
  // cannot be written is kept, a warning says so once, and the next call tries
  // again: no row is lost while the program runs, and no full disk ends a
  // training.
  void Write(const std::string& rows);

  // With a warning where kept rows still cannot be written.
  void Close();

  void AppendState(std::vector<StateSpan>* spans);
  Status StateLoaded() const;
  // Bytes of all rows, the kept ones too; -1: not open yet.
  int64_t offset() const { return offset_; }

 private:
  Status GoBack();
  bool Flush();

  const char* const callback_;
  const std::string filename_;
  int file_ = -1;
  int64_t offset_ = -1;
  std::string kept_;  // of what `offset_` counts, not written yet
  bool warned_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_ROW_FILE_H_
