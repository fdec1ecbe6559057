#include "example_audit.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "../../core/base/text.h"

namespace ringlet {
namespace {

constexpr char kHeader[] = "epoch,step,replica,pass,used,size,examples";

constexpr char kAll[] = "all";

// Parses a count; a run has at most 10^15 of anything.
int64_t ParseCount(std::string_view text) {
  return ParseWholeNumber(text, 1000000000000000);
}

std::string StepName(int64_t epoch, int64_t step) {
  return "epoch " + std::to_string(epoch) + ", step " + std::to_string(step);
}

Status AuditError(const std::string& what) {
  return Corruption("%s", what.c_str());
}

}  // namespace

// Reading.

Status ExampleAudit::Add(const std::string& name, const std::string& text) {
  size_t line = 0;
  std::string_view rest = text;
  rest = rest.substr(0, rest.rfind('\n') + 1);  // whole rows
  for (std::string row; TakeLine(&rest, &row);) {
    if (++line == 1 && row == kHeader) continue;
    const Status status = line == 1
                              ? Corruption("it has no header \"%s\"", kHeader)
                              : TakeRow(name, row);
    RINGLET_RETURN_IF_ERROR(
        status.Annotate("%s, line %zu", name.c_str(), line));
  }
  // The chief may have ended before it had written the whole header.
  if (line > 0 || StartsWith(kHeader, text)) return Status();
  return Corruption("%s, line 1: it has no header \"%s\"", name.c_str(),
                    kHeader);
}

Status ExampleAudit::TakeRow(const std::string& name, const std::string& line) {
  constexpr int kFields = 6;  // the fields before the examples
  std::string fields[kFields];
  size_t at = 0;
  for (std::string& field : fields) {
    const size_t end = line.find(',', at);
    if (end == std::string::npos) {
      return Corruption("has %zu fields before the examples, not %d",
                        static_cast<size_t>(&field - fields), kFields);
    }
    field = line.substr(at, end - at);
    at = end + 1;
  }
  int64_t numbers[kFields] = {};
  for (const int i : {0, 1, 3, 4, 5}) {
    const std::string& text = fields[i];
    numbers[i] = ParseCount(text);
    if (numbers[i] < 0) return Corruption("'%s' is not a number", text.c_str());
  }
  Step step = {numbers[3], numbers[4], numbers[5], {}, name};
  std::string_view rest = std::string_view(line).substr(at);
  for (std::string example; TakeLine(&rest, &example, ' ');) {
    const bool next = example == "/";
    const int64_t id = next ? kNextPass : ParseCount(example);
    if (id < 0 && !next) {
      return Corruption("the example '%s' is not a number",
                        Printable(example).c_str());
    }
    step.examples.push_back(id);
  }
  const auto [there, is_new] =
      streams_[fields[2]].insert({{numbers[0], numbers[1]}, step});
  if (is_new || there->second == step) return Status();
  return AuditError(StepName(numbers[0], numbers[1]) +
                    " has other examples than in " + there->second.log);
}

// Checking.

// The passes of one stream of examples, as its steps come.
class ExampleAudit::Passes {
 public:
  Status Take(const std::string& where, const Step& step) {
    if (step.pass != pass_) RINGLET_RETURN_IF_ERROR(Next(where));
    size_ = step.size;
    if (step.pass != pass_ || (size_ > 0 && step.used != used())) {
      return AuditError(where + " begins in pass " + std::to_string(step.pass) +
                        " after " + std::to_string(step.used) +
                        " examples, and the steps before end in pass " +
                        std::to_string(pass_) + " after " +
                        std::to_string(used()));
    }
    for (const int64_t example : step.examples) {
      if (example == kNextPass) {
        RINGLET_RETURN_IF_ERROR(Next(where));
        continue;
      }
      const auto [there, is_new] = where_.insert({example, where});
      if (!is_new) {
        return AuditError("example " + std::to_string(example) +
                          " is used twice in pass " + std::to_string(pass_) +
                          ": in " + there->second + ", and in " + where);
      }
    }
    return Status();
  }
  std::string Proof() const {
    const bool ends = size_ > 0 && used() == size_;
    std::string text = std::to_string(pass_ + (ends ? 1 : 0)) + " whole passes";
    if (size_ > 0) text += " of " + std::to_string(size_) + " examples";
    text += ", no example twice in one";
    if (!ends) text += "; " + std::to_string(used()) + " of the next";
    return text;
  }

 private:
  int64_t used() const { return static_cast<int64_t>(where_.size()); }
  Status Next(const std::string& where) {
    if (size_ > 0 && used() != size_) {
      return AuditError("pass " + std::to_string(pass_) +
                        ", which ends before " + where + ", used " +
                        std::to_string(used()) + " of its " +
                        std::to_string(size_) + " examples");
    }
    ++pass_;
    where_.clear();
    return Status();
  }

  int64_t pass_ = 0, size_ = 0;
  std::unordered_map<int64_t, std::string> where_;
};

// Missing steps at an epoch's end show only in the number of steps, if at all:
// all epochs except the last have the same number.
Status ExampleAudit::CheckStream(const std::string& replica, const Steps& steps,
                                 Passes* passes) {
  const auto& [first, begin] = *steps.begin();
  if (first.second != 0 || begin.pass != 0 || begin.used != 0) {
    return AuditError(
        "no log has the steps before " + StepName(first.first, first.second) +
        ": give the logs of all workers, from the run's beginning");
  }
  std::pair<int64_t, int64_t> before = first;
  int64_t steps_an_epoch = -1;
  for (const auto& [number, step] : steps) {
    std::string where = StepName(number.first, number.second);
    if (replica != kAll) where += ", replica " + replica;
    const bool next_epoch =
        number.first == before.first + 1 && number.second == 0;
    const bool other_length = next_epoch && steps_an_epoch >= 0 &&
                              steps_an_epoch != before.second + 1;
    const bool follows =
        number == first || next_epoch ||
        (number.first == before.first && number.second == before.second + 1);
    if (!follows || (replica != kAll && other_length)) {
      return AuditError("no log has the step before " + where +
                        ", nor any since " +
                        StepName(before.first, before.second));
    }
    if (next_epoch) steps_an_epoch = before.second + 1;
    RINGLET_RETURN_IF_ERROR(passes->Take(where, step));
    before = number;
  }
  return Status();
}

// Returns an error unless each replica took part in each step.
Status ExampleAudit::CompareStreams() const {
  const Steps& first_steps = streams_.begin()->second;
  const auto count = static_cast<int64_t>(streams_.size());
  for (const auto& [replica, steps] : streams_) {
    const int64_t number = ParseCount(replica);
    const bool known = replica == kAll ? count == 1 : number < count;
    if (!known || (replica != kAll && number < 0)) {
      return AuditError("there are rows of replica '" + replica + "', and of " +
                        std::to_string(count) + " in all");
    }
    const bool same =
        steps.size() == first_steps.size() &&
        std::equal(
            steps.begin(), steps.end(), first_steps.begin(),
            [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) {
      return AuditError("replica " + replica +
                        " has other steps than replica " +
                        streams_.begin()->first);
    }
  }
  return Status();
}

Status ExampleAudit::Finish(std::string* proof) const {
  if (streams_.empty()) return Corruption("the logs hold no step");
  RINGLET_RETURN_IF_ERROR(CompareStreams());
  proof->clear();
  for (const auto& [replica, steps] : streams_) {
    Passes passes;
    RINGLET_RETURN_IF_ERROR(CheckStream(replica, steps, &passes));
    if (!proof->empty()) *proof += '\n';
    if (replica != kAll) *proof += "replica " + replica + ": ";
    *proof += std::to_string(steps.size()) + " steps; " + passes.Proof();
  }
  return Status();
}

}  // namespace ringlet
