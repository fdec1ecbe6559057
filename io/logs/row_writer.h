// RowWriter: a log that this process has open. It has the file's lock, keeps
// the rows that a full disk or a slow pipe does not take, and finds rows.

#ifndef RINGLET_IO_LOGS_ROW_WRITER_H_
#define RINGLET_IO_LOGS_ROW_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "../files/file_system.h"
#include "ringlet/status.h"
#include "row_plan.h"

namespace ringlet {

class RowWriter final : public LogBytes {
 public:
  // `callback` names the log in warnings.
  RowWriter(const char* callback, FileSystem* files)
      : callback_(callback), files_(files) {}
  ~RowWriter() { Close(/*keep_rows=*/false); }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  // Opens the log to append, and locks it. kAlreadyExists: another process has
  // the lock. A pipe has no lock, since it may have many writers. Rows that
  // Close has kept follow the file's bytes, unless another process has written
  // to it meanwhile; then they are lost, with a warning.
  Status Open(const std::string& path);
  bool is_open() const { return file_ != nullptr; }
  // Closes the log. With `keep_rows` rows that cannot be written wait for the
  // next Open or Close. Otherwise they are lost, with a warning. If the log is
  // a pipe, this waits as long as its reader reads.
  void Close(bool keep_rows);

  // Writes whole rows to the kernel. Rows that cannot be written are kept, with
  // one warning, and the next call tries again. Once kMaxKept bytes wait,
  // further rows are dropped, with one warning. Does nothing if it is closed.
  static constexpr size_t kMaxKept = 1 << 20;
  void Append(const std::string& rows);
  // Drops the bytes from `end` on.
  Status CutTo(int64_t end);

  // --- of an open log; all count the kept bytes
  int64_t Size() const override;  // -1 for a pipe
  int64_t Identity() const { return file_->Identity(); }
  // Bytes that cannot be read count as line ends, so that they never cause a
  // cut.
  std::string Read(int64_t from, int64_t to) const override;

 private:
  // The state of writing to the disk.
  enum class Disk : uint8_t {
    kTakesAll,  // nothing is kept
    kFull,      // rows are kept, and a warning was given
    kOverfull,  // kMaxKept bytes are kept, and a warning reports dropped rows
  };

  Status Lock();
  Status Flush(int milliseconds);
  void LoseKept();

  const char* const callback_;
  FileSystem* const files_;
  std::string path_;  // the path of the last Open
  std::unique_ptr<File> file_;
  std::unique_ptr<HeldLock> lock_;
  // The pipe, from a Close that keeps rows to the next Open. Closing it would
  // lose unread rows.
  std::unique_ptr<File> pipe_;
  Disk disk_ = Disk::kTakesAll;
  std::string kept_;           // not written yet
  int64_t size_at_close_ = 0;  // the closed file's size; -1 for a pipe
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_ROW_WRITER_H_
