// RowFile: a job's log that grows by rows, goes on behind those of a backup,
// and outlives a full disk. RowLogger: a callback that has one.
//
// Internal to io/events.

#ifndef RINGLET_IO_EVENTS_ROW_FILE_H_
#define RINGLET_IO_EVENTS_ROW_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/collective.h"
#include "../../core/base/saveable.h"
#include "../../core/base/status.h"
#include "../../core/fit/callback.h"
#include "../../core/fit/run_state.h"
#include "../files/file_system.h"

namespace ringlet {

class RowFile {
 public:
  // `callback` names it in warnings and in a backup's state.
  RowFile(const char* callback, const std::string& filename,
          FileSystem* files = FileSystem::Posix())
      : callback_(callback), filename_(filename), files_(files) {}
  ~RowFile() { Close(); }
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // Before a fit: closed, and nothing restored. `goes_on`: it is the same fit,
  // after a loss, and may go on from before its first row.
  void Reset(bool goes_on = false);

  // On every rank of a job, where rank 0 alone has the file: the others count
  // the bytes that it writes, so that all have one state. Behind the rows of
  // the backup where one was restored: what lies further is of rows that are
  // yet to come. Where the file is shorter, since it was removed or a power cut
  // took its end, the whole rows that are there stay and a warning says so.
  // Where what was restored is another worker's memory (AppendLiveState) it
  // goes on behind the last row that the job has written; where its file has
  // none such, since another worker wrote it on a disk of its own, behind all
  // rows that it has. Without either it goes on at the end, if `append`, in a
  // new line where a torn row is last, or begins anew. A link to a file is
  // refused: what it leads to may not be a log. Where rank 0 fails, all do;
  // but where it goes on from memory in an elastic job a warning says that its
  // rows are lost. `in_memory`: what was restored, if anything, is a worker's
  // memory. `named`: a worker that computes wrong was, so that what another
  // chief has written may be of its numbers.
  Status Open(Collective* collective, bool append, bool in_memory = true,
              bool named = false);
  bool is_open() const { return open_; }
  // Before an Open that goes on from a worker's memory: what the last Write was
  // given, which that holds only where it is short. On every rank.
  void SetLast(const std::string& rows);
  // What is known of the last row is of the offset that was restored, which may
  // be of a backup instead.
  bool has_last() const { return last_at_ == offset_; }

  // The first line of rank 0's file, without its end; "" where there is none,
  // as in a pipe. On every rank.
  Status ReadHeader(Collective* collective, std::string* header);

  // Rows with their line ends, in the kernel's hands when it returns; the same
  // on every rank. What cannot be written is kept, a warning says so once, and
  // the next call tries again: no row is lost while the program runs and less
  // than kMostKept bytes wait, and no full disk ends a training. What comes
  // beyond that is dropped, and a warning says so once.
  static constexpr size_t kMostKept = 1 << 20;
  void Write(const std::string& rows);

  // With a warning where kept rows still cannot be written.
  void Close();

  void AppendState(std::vector<StateSpan>* spans);
  // The first row and the last written: rank 0 may be lost before it has
  // written what the others' state counts already, or its file be out of reach.
  void AppendLiveState(std::vector<StateSpan>* spans);
  Status StateLoaded() const;
  // Bytes of all rows of rank 0's file, the kept and the dropped ones too; -1:
  // not open yet.
  int64_t offset() const { return offset_; }

 private:
  Status ShareBase(Collective* collective);
  void TakeBaseRow();
  std::string RowBefore(int64_t offset) const;
  Status OpenOwn(bool append, bool counted);
  Status SetAside();
  Status FindRestored();
  Status CutTo(int64_t size);
  Status ReadAt(char* buffer, size_t bytes, int64_t at, size_t* got) const;
  bool LastRowEndsAt(int64_t offset) const;
  Status FindLastRow();
  Status ReadOwnHeader(std::string* header) const;
  int64_t EndOfRows(int64_t limit) const;
  int64_t EndOfLastRow(int64_t end) const;
  int64_t FindRow(int64_t from, int64_t to) const;
  bool StandsAt(int64_t offset, const std::string& rows) const;
  bool HasAt(int64_t offset, const std::string& rows) const;
  size_t LastRowsBegun(int64_t end) const;
  bool EndsARow(int64_t offset) const;
  std::unique_ptr<HeldLock> LockRows();
  size_t Written(const std::string& rows);
  void DropWritten();
  void Append(const std::string& rows);
  Status Flush();
  void Warn(const Status& why, const char* what) const;

  const char* const callback_;
  const std::string filename_;
  FileSystem* const files_;
  bool open_ = false;
  std::unique_ptr<File> file_;  // rank 0's
  int64_t offset_ = -1;
  std::string kept_;  // of what `offset_` counts, not written yet
  // As much as a snapshot of a fit copies at every step.
  static constexpr size_t kLongestRow = StepSnapshot::kSmall;
  // Of one Write; none where it is longer than that (see SetLast).
  struct Row {
    char text[kLongestRow] = {};
    int64_t bytes = 0;
    void Set(const char* from, size_t size);
    std::string str() const { return {text, static_cast<size_t>(bytes)}; }
  };
  Row first_, last_;
  int64_t last_at_ = -1;     // the offset behind it
  std::string last_rows_;    // as last_, of whatever length
  bool last_given_ = false;  // by SetLast
  bool warned_ = false, dropped_ = false;
  // Of this process, whatever the ranks: its run began with no row, and it has
  // opened its own file in it.
  bool anew_ = false, owned_ = false;
  // The offset that it began with, or went on with from a backup, and the row
  // before it; -1: none.
  int64_t base_ = -1;
  std::string base_row_;
  bool keeps_more_ = false;  // rows behind the offset may be those to come
  bool has_more_ = false;    // there are such
  bool named_ = false;       // see Open
  bool counts_own_ = false;  // the offset was counted in its own file
  bool elastic_ = false;     // of the job
  bool held_up_ = false;     // somebody has the lock and stands still
};

class RowLogger : public Callback {
 public:
  RowLogger(const char* name, const std::string& filename)
      : name_(name), file_(name, filename) {}
  const char* name() const override { return name_; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnSetup(FitState& fit) override {
    file_.Reset(fit.goes_on);
    return Status();
  }
  Status OnTrainEnd(FitState&, const Logs&) override {
    file_.Close();
    return Status();
  }
  void AppendState(std::vector<StateSpan>* spans) override {
    file_.AppendState(spans);
  }
  void AppendLiveState(std::vector<StateSpan>* spans) override {
    file_.AppendLiveState(spans);
  }
  Status StateLoaded() override { return file_.StateLoaded(); }

 private:
  const char* const name_;

 protected:
  // As the fit begins, or goes on.
  Status OpenFile(const FitState& fit, bool append);

  RowFile file_;
};

// As many digits as it takes to read the same value back. No sign of a NaN:
// machines differ in it.
void AppendShortest(double value, std::string* row);

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_ROW_FILE_H_
