#include "attendance_file.h"

#include <algorithm>
#include <cinttypes>
#include <string_view>
#include <vector>

#include "../../core/base/fnv1a.h"
#include "../../core/base/text.h"
#include "../../core/model/replica_range.h"
#include "csv_lines.h"

namespace ringlet {
namespace {

class AttendanceFile final : public Attendance {
 public:
  explicit AttendanceFile(const std::string& path) : path_(path) {}

  Status Read();
  Presence Of(int64_t step, int replica) const override;
  Status Check(int64_t begin, int64_t end, int replicas) const override;
  uint64_t digest() const override { return digest_; }

 private:
  struct Round {
    int64_t step, line;
    size_t begin, end;  // in who_
  };
  using Rounds = std::vector<Round>;

  Status AddRound(const Fields& fields, int64_t line);
  Status AddReplica(std::string_view field, int64_t line);
  // That of the step, or the first after it.
  Rounds::const_iterator Find(int64_t step) const {
    return std::lower_bound(
        rounds_.begin(), rounds_.end(), step,
        [](const Round& round, int64_t s) { return round.step < s; });
  }

  const std::string path_;
  Rounds rounds_;
  std::vector<uint16_t> who_;  // of each round in order: twice its number, and
                               // one more where it is late
  int most_ = 0;               // the greatest number
  int64_t line_of_most_ = 0;
  uint64_t digest_ = 0;
};

Status AttendanceFile::Read() {
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path_));
  LineReader lines(&file);
  std::string line;
  Fields fields;
  for (bool more = true;;) {
    RINGLET_RETURN_IF_ERROR(lines.Next(&line, &more));
    if (!more) break;
    if (Trim(line).empty()) continue;
    SplitFields(line, ',', &fields);
    RINGLET_RETURN_IF_ERROR(AddRound(fields, lines.number()));
  }
  if (rounds_.empty()) {
    return InvalidArgument(
        "%s: no rounds; give each a line: the steps before it, and the "
        "replicas that are there",
        path_.c_str());
  }
  Fnv1a hash;
  for (const Round& round : rounds_) {
    hash.Add(std::to_string(round.step));
    for (size_t i = round.begin; i < round.end; ++i) {
      hash.Add(std::to_string(who_[i]));
    }
  }
  digest_ = hash.value();
  return Status();
}

Status AttendanceFile::AddRound(const Fields& fields, int64_t line) {
  Round round = {WholeNumber(fields[0], INT64_MAX / 2), line, who_.size(), 0};
  if (round.step < 0) {
    return InvalidArgument(
        "%s: line %" PRId64
        ": '%s' is no number of steps; a line is how many were made before "
        "the round, and the replicas that are there: 30,0,2,3 late",
        path_.c_str(), line, Printable(std::string(fields[0])).c_str());
  }
  if (!rounds_.empty() && round.step <= rounds_.back().step) {
    return InvalidArgument("%s: line %" PRId64 ": the round after %" PRId64
                           " steps, behind that after %" PRId64
                           "; give each round one line, in their order",
                           path_.c_str(), line, round.step,
                           rounds_.back().step);
  }
  for (size_t i = 1; i < fields.size(); ++i) {
    RINGLET_RETURN_IF_ERROR(AddReplica(fields[i], line));
  }
  round.end = who_.size();
  const auto begin = who_.begin() + static_cast<int64_t>(round.begin);
  std::sort(begin, who_.end());
  const auto twice = std::adjacent_find(
      begin, who_.end(), [](uint16_t a, uint16_t b) { return a / 2 == b / 2; });
  if (twice != who_.end()) {
    return InvalidArgument("%s: line %" PRId64
                           ": replica %d twice; leave one of them out",
                           path_.c_str(), line, *twice / 2);
  }
  rounds_.push_back(round);
  return Status();
}

Status AttendanceFile::AddReplica(std::string_view field, int64_t line) {
  constexpr std::string_view kLate = " late";
  const bool late = EndsWith(field, kLate);
  if (late) field = Trim(field.substr(0, field.size() - kLate.size()));
  const int64_t number = WholeNumber(field, kMostReplicas - 1);
  if (number < 0) {
    return InvalidArgument(
        "%s: line %" PRId64
        ": '%s' is no replica; give its number, from 0 to %d, and \" late\" "
        "behind one that is late",
        path_.c_str(), line, Printable(std::string(field)).c_str(),
        kMostReplicas - 1);
  }
  if (line_of_most_ == 0 || number > most_) {
    most_ = static_cast<int>(number);
    line_of_most_ = line;
  }
  who_.push_back(static_cast<uint16_t>(2 * number + (late ? 1 : 0)));
  return Status();
}

Presence AttendanceFile::Of(int64_t step, int replica) const {
  const auto round = Find(step);
  if (round == rounds_.end() || round->step != step) return Presence::kAway;
  const uint16_t* const end = who_.data() + round->end;
  const uint16_t* const found = std::lower_bound(
      who_.data() + round->begin, end, static_cast<uint16_t>(2 * replica));
  if (found == end || *found / 2 != replica) return Presence::kAway;
  return *found % 2 == 1 ? Presence::kLate : Presence::kThere;
}

Status AttendanceFile::Check(int64_t begin, int64_t end, int replicas) const {
  if (line_of_most_ > 0 && most_ >= replicas) {
    return InvalidArgument("%s: line %" PRId64
                           ": replica %d, but there are %d, from 0 on",
                           path_.c_str(), line_of_most_, most_, replicas);
  }
  const auto round = Find(begin);
  if (round == rounds_.end() || round->step != begin) {
    const Round& near = round == rounds_.end() ? rounds_.back() : *round;
    return InvalidArgument(
        "%s: no line of the round after %" PRId64 " steps, up to %" PRId64
        " (line %" PRId64 " is of that after %" PRId64
        "); give each round one: it has local_steps steps, or ends with its "
        "epoch",
        path_.c_str(), begin, end, near.line, near.step);
  }
  const auto next = round + 1;
  if (next == rounds_.end() || next->step >= end) return Status();
  return InvalidArgument(
      "%s: line %" PRId64 ": the round after %" PRId64
      " steps, but the one before it goes on up to %" PRId64
      ": a round has local_steps steps, or ends with its epoch",
      path_.c_str(), next->line, next->step, end);
}

}  // namespace

Status ReadAttendance(const std::string& path,
                      std::shared_ptr<const Attendance>* attendance) {
  const auto file = std::make_shared<AttendanceFile>(path);
  RINGLET_RETURN_IF_ERROR(file->Read());
  *attendance = file;
  return Status();
}

}  // namespace ringlet
