// RowFile: a job's log that grows by rows. It continues after the rows of a
// restored state, and survives a full disk.

#ifndef RINGLET_IO_LOGS_ROW_FILE_H_
#define RINGLET_IO_LOGS_ROW_FILE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../core/fit/run_state.h"
#include "../files/file_system.h"
#include "ringlet/collective.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"
#include "row_plan.h"
#include "row_writer.h"

namespace ringlet {

class RowFile {
 public:
  // `callback` names the log in warnings and in a backup's state.
  RowFile(const char* callback, const std::string& filename,
          FileSystem* files = PosixFiles())
      : callback_(callback), filename_(filename), writer_(callback, files) {}

  // Prepares a fit: closes the file and drops the restored state. `after_loss`
  // is true if the same fit continues after a loss. It may then continue from
  // before its first row.
  void Reset(bool after_loss = false) {
    Close(after_loss);
    offset_ = last_at_ = -1;
    last_.bytes = 0;
    if (after_loss) return;
    run_start_ = saved_run_start_ = RunStart();
    own_run_start_ = -1;
    path_.clear();
    cut_rows_.clear();
  }

  // Called on every rank of a job. Only rank 0 has the file; other ranks count
  // the bytes that it writes, so that all have the same state. The file has one
  // writer, which locks it from Open to Close. A link to a file is an error,
  // since its target may not be a log.
  //
  // The file is treated as follows:
  //   - No state was restored: it is emptied.
  //   - The same with `append`: rows follow its end, in a new line if its last
  //     row is incomplete.
  //   - It has the last row of the restored state: it is cut after this row.
  //     The next Open writes the rows that were cut off again, if its state has
  //     the last of them: another worker's state may be newer than the
  //     rollback.
  //   - It does not have this row: it is not cut, and rows follow its last
  //     whole row. A last row that the lost writer has not written comes first.
  //   - Another process has the lock: the file is left alone. Until the end of
  //     the fit this process appends to a file beside it, "log.worker-2.csv",
  //     and a note reports it. The log may belong to another run.
  //   - It is a pipe: rows follow.
  //
  // `in_memory` means that the state is from another worker's memory, so its
  // last row is known (AppendLiveState). `last` is this row, if it may be
  // longer than the last row of a state.
  //
  // If rank 0 fails, all ranks do. In an elastic job that continues from memory
  // it is a warning instead, and the rows of this writer are lost.
  Status Open(Collective* collective, bool append, bool in_memory = true,
              const std::string& last = "");
  bool is_open() const { return open_; }
  const std::string& filename() const { return filename_; }

  // The first line of rank 0's file, without its end; empty if there is none,
  // as in a pipe. On every rank. A first line of 64 KB or more fails as Open
  // does.
  Status ReadHeader(Collective* collective, bool in_memory,
                    std::string* header);

  // Writes rows with their line ends to the kernel; they are the same on every
  // rank. At offset 0 it is only the header. A full disk never ends a training:
  // see RowWriter::Append.
  void Write(const std::string& rows) {
    Append(rows);
    if (!pending_.empty()) Append(std::exchange(pending_, ""));
  }

  // Closes the file. With `keep_rows` it may be opened again in this fit, and
  // rows that could not be written are kept until then.
  void Close(bool keep_rows = false) {
    open_ = false;
    pending_.clear();
    writer_.Close(/*keep_rows=*/keep_rows);
  }

  void AppendState(std::vector<StateSpan>* spans);
  // Appends the last row, and the offset at which the run began. Rank 0 may be
  // lost before it has written a row that the state of the other ranks already
  // counts. Its file may also be on a disk that no other rank can read.
  void AppendLiveState(std::vector<StateSpan>* spans);
  Status StateLoaded();
  // The bytes of all rows of rank 0's file, including rows that are kept for
  // later or dropped. -1 if the file was not opened yet.
  int64_t offset() const { return offset_; }

 private:
  // The limit of the state that a snapshot of a fit copies at every step.
  static constexpr size_t kLongestRow = StepSnapshot::kMaxSmallBytes;
  // A row. Empty if the row is longer than kLongestRow, or is not known.
  struct Row {
    char text[kLongestRow] = {};
    int64_t bytes = 0;
    void Set(const std::string& row) {
      bytes = row.size() > kLongestRow ? 0 : static_cast<int64_t>(row.size());
      std::memcpy(text, row.data(), static_cast<size_t>(bytes));
    }
    std::string str() const { return {text, static_cast<size_t>(bytes)}; }
  };
  // The offset at which the run's rows begin.
  struct RunStart {
    int64_t offset = -1;  // -1 if there is none
    int64_t file = 0;     // File::Identity of rank 0's file
  };
  Status OpenAsChief(int worker, bool append, bool in_memory,
                     const std::string& last);
  // Cuts the file, and appends the rows of the plan. Keeps the rows that a
  // rollback cuts off (cut_rows_).
  Status Execute(const RowPlan& plan);
  void WriteCutRows(int64_t size);
  // Closes the file with a warning. Its rows are counted, as on another rank.
  Status CloseAndCountRows(const Status& why) {
    Close(/*keep_rows=*/true);
    Notice("warning: %s: %s; its rows are lost while this worker is the chief",
           callback_, why.message());
    return Status();
  }
  void Append(const std::string& rows);

  const char* const callback_;
  const std::string filename_;
  RowWriter writer_;  // closed on all ranks but rank 0
  // filename_, or the file beside it; fixed for a fit once it is chosen. "":
  // not chosen.
  std::string path_;
  bool open_ = false;
  int64_t offset_ = -1;
  Row last_;
  int64_t last_at_ = -1;  // the offset after last_
  // The last rows, in a new file: they follow the header.
  std::string pending_;
  // The rows that a rollback cut off at cut_at_, if they are not too many. The
  // run makes the same rows again.
  static constexpr int64_t kMaxKeptBytes = 1 << 18;  // bytes
  std::string cut_rows_;
  int64_t cut_at_ = 0;
  // The place at which the run began, or continued from a backup, in rank 0's
  // file. A joining worker gets it from the donor's state. If a worker becomes
  // chief before any row was written, its file's offset is used.
  RunStart run_start_;
  RunStart saved_run_start_;  // run_start_ in the form of a state
  // The same place in this process's file; -1 if this process has not opened it
  // there.
  int64_t own_run_start_ = -1;
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_ROW_FILE_H_
