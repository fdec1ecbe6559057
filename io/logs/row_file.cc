// Every rank counts the bytes of all rows, so that offset_ is equal on all
// ranks and may be part of a checkpoint. In an elastic job another worker may
// become rank 0, with another file: the last row gives the job's place in that
// file.

#include "row_file.h"

#include <algorithm>
#include <cinttypes>

#include "../../core/base/collective_numbers.h"
#include "../files/path.h"

namespace ringlet {

Status RowFile::Open(Collective* collective, bool append, bool in_memory,
                     const std::string& last) {
  const bool begins = offset_ < 0 || !in_memory;
  std::string rows;  // the last rows of the restored state; empty if unknown
  if (!begins && last_at_ == offset_) rows = last.empty() ? last_.str() : last;
  if (offset_ < 0) offset_ = run_start_.offset;
  const bool at_run_start =
      begins || (offset_ == run_start_.offset && rows.empty());
  const bool resumed = offset_ >= 0;
  Status own_status;
  if (collective->rank() == 0) {
    own_status = OpenAsChief(collective->worker(), append, in_memory, rows);
    if (!own_status.ok()) Close(/*keep_rows=*/true);
    if (!own_status.ok() && resumed && in_memory && collective->elastic()) {
      own_status = CloseAndCountRows(own_status);
    }
  }
  const int64_t file = writer_.is_open() ? writer_.Identity() : 0;
  // The values of rank 0.
  int64_t opened[] = {own_status.ok() ? offset_ : -1, file};
  const Status shared =
      BroadcastNumbers(collective, opened, sizeof(opened[0]), 2, /*root=*/0);
  RINGLET_RETURN_IF_ERROR(own_status);
  RINGLET_RETURN_IF_ERROR(shared);
  if (opened[0] < 0) {
    return Error(Code::kCancelled, "%s: rank 0 cannot write it",
                 filename_.c_str());
  }
  open_ = true;
  offset_ = last_at_ = opened[0];
  last_.Set(rows);
  if (offset_ == 0) pending_ = rows;
  if (at_run_start) run_start_ = saved_run_start_ = {offset_, opened[1]};
  if (at_run_start && writer_.is_open()) {
    own_run_start_ = offset_;
  } else if (begins) {
    own_run_start_ = -1;  // the run start is in another worker's file
  }
  return Status();
}

Status RowFile::OpenAsChief(int worker, bool append, bool in_memory,
                            const std::string& last) {
  if (path_.empty()) path_ = filename_;
  Status opened = writer_.Open(path_);
  if (opened.code() == Code::kAlreadyExists && path_ == filename_) {
    const size_t name = path_.size() - FileNameOf(path_).size();
    const size_t dot = std::min(path_.rfind('.'), path_.size());
    path_.insert(dot > name ? dot : path_.size(),
                 ".worker-" + std::to_string(worker));
    Notice("note: %s: another process writes %s; this one writes %s", callback_,
           filename_.c_str(), path_.c_str());
    opened = writer_.Open(path_);
    own_run_start_ = -1;
    cut_rows_.clear();
  }
  if (path_ != filename_) append = true;  // it may have rows of another run
  RINGLET_RETURN_IF_ERROR(opened);
  const int64_t size = writer_.Size();
  if (size < 0) {  // a pipe
    offset_ = std::max<int64_t>(offset_, 0);
    return Status();
  }
  if (offset_ >= 0 && !last.empty()) WriteCutRows(size);
  LogState state;
  state.append = append;
  state.in_memory = in_memory;
  state.is_beside = path_ != filename_;
  state.offset = offset_;
  state.last = last;
  state.run_start = run_start_.offset;
  state.began_here =
      run_start_.file != 0 && run_start_.file == writer_.Identity();
  state.own_run_start = own_run_start_;
  return Execute(Decide(writer_, state));
}

Status RowFile::Execute(const RowPlan& plan) {
  const int64_t size = writer_.Size();
  if (plan.warning == RowPlan::Warning::kIncompleteRow) {
    Notice("warning: %s: %s: its last row has no end; a new line begins",
           callback_, path_.c_str());
  } else if (plan.warning == RowPlan::Warning::kRowsMissing) {
    Notice("warning: %s: no row of %s ends at byte %" PRId64 " of %" PRId64
           ", from which this run continues; rows may be in another log, or "
           "lost, and new rows follow its last whole row",
           callback_, path_.c_str(), offset_, size);
  }
  if (plan.is_rollback) {
    const bool keeps = plan.end < size && size - plan.end <= kMaxKeptBytes;
    cut_at_ = plan.end;
    cut_rows_ = keeps ? writer_.Read(plan.end, size) : "";
  }
  RINGLET_RETURN_IF_ERROR(writer_.CutTo(plan.end));
  offset_ = plan.end;
  if (!plan.rows.empty()) Append(plan.rows);
  return Status();
}

// After a rollback training writes the same rows again. If the rows since then
// are the first of the rows that were cut off, appends the rest.
void RowFile::WriteCutRows(int64_t size) {
  const std::string rows = std::exchange(cut_rows_, "");
  const int64_t written_again = size - cut_at_;
  if (written_again < 0 || written_again >= static_cast<int64_t>(rows.size()))
    return;
  const std::string rest = rows.substr(static_cast<size_t>(written_again));
  if (writer_.Read(cut_at_, size) + rest == rows) writer_.Append(rest);
}

Status RowFile::ReadHeader(Collective* collective, bool in_memory,
                           std::string* header) {
  constexpr int64_t kLongest = 1 << 16;
  header->clear();
  int64_t size = writer_.is_open() ? writer_.Size() : -1;
  if (size >= 0) {
    *header = writer_.Read(0, std::min(size, kLongest));
    header->resize(std::min(header->find('\n'), header->size()));
  }
  const Status too_long = InvalidArgument(
      "%s: its first line is not a header: it has %d bytes or more",
      (path_.empty() ? filename_ : path_).c_str(), static_cast<int>(kLongest));
  // A new chief's own file: see Open.
  if (header->size() == kLongest && in_memory && collective->elastic()) {
    RINGLET_RETURN_IF_ERROR(CloseAndCountRows(too_long));
    open_ = true;
    header->clear();
  }
  size = static_cast<int64_t>(header->size());
  RINGLET_RETURN_IF_ERROR(
      BroadcastNumbers(collective, &size, sizeof(size), 1, /*root=*/0));
  if (size == kLongest) return too_long;
  header->resize(static_cast<size_t>(size));
  if (size == 0) return Status();
  RINGLET_RETURN_IF_ERROR(
      collective->Broadcast(&(*header)[0], header->size(), /*root=*/0));
  if (header->back() == '\r') header->pop_back();
  return Status();
}

void RowFile::Append(const std::string& rows) {
  offset_ += static_cast<int64_t>(rows.size());
  last_.Set(rows);
  last_at_ = offset_;
  writer_.Append(rows);
}

void RowFile::AppendState(std::vector<StateSpan>* spans) {
  const std::string name = std::string("callback/") + callback_ + "/offset";
  spans->push_back({name, DType::kInt64, {}, &offset_});
}

void RowFile::AppendLiveState(std::vector<StateSpan>* spans) {
  const std::string row = std::string("callback/") + callback_ + "/last_row";
  spans->push_back(
      {row, DType::kUint8, {static_cast<int64_t>(kLongestRow)}, last_.text});
  spans->push_back({row + "_bytes", DType::kInt64, {}, &last_.bytes});
  spans->push_back({row + "_at", DType::kInt64, {}, &last_at_});
  const std::string base = std::string("callback/") + callback_ + "/base";
  spans->push_back({base, DType::kInt64, {}, &saved_run_start_.offset});
  spans->push_back({base + "_file", DType::kInt64, {}, &saved_run_start_.file});
}

Status RowFile::StateLoaded() {
  // A state from before Open has no run start; this process may have opened it
  // since.
  if (saved_run_start_.offset < 0) saved_run_start_ = run_start_;
  run_start_ = saved_run_start_;
  const auto max_bytes = static_cast<int64_t>(kLongestRow);
  const bool fits = last_.bytes >= 0 && last_.bytes <= max_bytes;
  if (offset_ >= -1 && run_start_.offset >= -1 && fits) return Status();
  return Corruption("callback/%s: offset %" PRId64 ", last row of %" PRId64
                    " bytes",
                    callback_, offset_, last_.bytes);
}

}  // namespace ringlet
