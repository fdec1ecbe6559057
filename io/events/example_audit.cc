#include "example_audit.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

namespace ringlet {
namespace {

constexpr char kHeader[] = "epoch,step,replica,pass,used,size,examples";

// The number up to `end`, or -1.
int64_t Number(const char* begin, const char* end) {
  int64_t value = 0;
  const auto [last, error] = std::from_chars(begin, end, value);
  return error == std::errc() && last == end && value >= 0 ? value : -1;
}

std::string At(int64_t epoch, int64_t step) {
  return "epoch " + std::to_string(epoch) + ", step " + std::to_string(step);
}

Status Wrong(const std::string& what) { return Corruption("%s", what.c_str()); }

}  // namespace

// Reading.

Status ExampleAudit::Add(const std::string& name, const std::string& text) {
  size_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string row = text.substr(begin, end - begin);
    begin = end + 1;
    if (++line == 1 && row == kHeader) continue;
    const Status status = line == 1
                              ? Corruption("it has no header \"%s\"", kHeader)
                              : TakeRow(name, row);
    RINGLET_RETURN_IF_ERROR(
        status.Annotate("%s, line %zu", name.c_str(), line));
  }
  return line > 0 ? Status() : Corruption("%s is empty", name.c_str());
}

Status ExampleAudit::TakeRow(const std::string& name, const std::string& line) {
  constexpr int kFields = 6;  // before the examples
  std::string fields[kFields];
  size_t at = 0;
  for (std::string& field : fields) {
    const size_t end = line.find(',', at);
    if (end == std::string::npos) return Corruption("no row of such a log");
    field = line.substr(at, end - at);
    at = end + 1;
  }
  int64_t numbers[kFields] = {};
  for (const int i : {0, 1, 3, 4, 5}) {
    const std::string& text = fields[i];
    numbers[i] = Number(text.data(), text.data() + text.size());
    if (numbers[i] < 0) return Corruption("'%s' is no number", text.c_str());
  }
  Step step = {numbers[3], numbers[4], numbers[5], {}, name};
  while (at < line.size()) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const bool next = line.compare(at, end - at, "/") == 0;
    const int64_t id = next ? kNextPass : Number(&line[at], line.data() + end);
    if (id < 0 && !next) return Corruption("an example is no number");
    step.examples.push_back(id);
    at = end + 1;
  }
  const auto [there, is_new] =
      streams_[fields[2]].insert({{numbers[0], numbers[1]}, step});
  if (is_new || there->second == step) return Status();
  return Wrong(At(numbers[0], numbers[1]) + " has other examples than in " +
               there->second.log);
}

// Checking.

// The passes of one stream of examples, as its steps come.
class ExampleAudit::Passes {
 public:
  Status Take(const std::string& where, const Step& step) {
    if (!begun_) {
      begun_ = true;
      pass_ = step.pass;
      before_ = step.used;
    } else if (step.pass != pass_) {
      RINGLET_RETURN_IF_ERROR(Next(where));
    }
    size_ = step.size;
    const int64_t used = before_ + static_cast<int64_t>(where_.size());
    if (step.pass != pass_ || (size_ > 0 && step.used != used)) {
      return Wrong(where + " begins in pass " + std::to_string(step.pass) +
                   " after " + std::to_string(step.used) +
                   " examples, and the steps before end in pass " +
                   std::to_string(pass_) + " after " + std::to_string(used));
    }
    for (const int64_t example : step.examples) {
      if (example == kNextPass) {
        RINGLET_RETURN_IF_ERROR(Next(where));
        continue;
      }
      const auto [there, is_new] = where_.insert({example, where});
      if (!is_new) {
        return Wrong("example " + std::to_string(example) +
                     " is used twice in pass " + std::to_string(pass_) +
                     ": in " + there->second + ", and in " + where);
      }
    }
    return Status();
  }
  int64_t whole() const { return whole_; }
  int64_t size() const { return size_; }
  int64_t pass() const { return pass_; }
  int64_t used() const { return static_cast<int64_t>(where_.size()); }

 private:
  Status Next(const std::string& where) {
    const int64_t used = before_ + static_cast<int64_t>(where_.size());
    if (size_ > 0 && used != size_) {
      return Wrong("pass " + std::to_string(pass_) + ", which ends before " +
                   where + ", used " + std::to_string(used) + " of its " +
                   std::to_string(size_) + " examples");
    }
    if (before_ == 0) ++whole_;
    before_ = 0;
    ++pass_;
    where_.clear();
    return Status();
  }

  bool begun_ = false;
  int64_t pass_ = 0, size_ = 0, whole_ = 0;
  int64_t before_ = 0;  // of the first pass, used before the first step
  std::unordered_map<int64_t, std::string> where_;
};

Status ExampleAudit::CheckStream(const std::string& replica, const Steps& steps,
                                 Passes* passes) {
  std::pair<int64_t, int64_t> before(-1, -1);
  for (const auto& [number, step] : steps) {
    std::string where = At(number.first, number.second);
    if (replica != "all") where += ", replica " + replica;
    const bool follows =
        before.first < 0 ||
        (number.first == before.first && number.second == before.second + 1) ||
        (number.first == before.first + 1 && number.second == 0);
    if (!follows) {
      return Wrong("no log has the step before " + where + ", nor any since " +
                   At(before.first, before.second));
    }
    RINGLET_RETURN_IF_ERROR(passes->Take(where, step));
    before = number;
  }
  return Status();
}

Status ExampleAudit::Finish(std::string* proof) const {
  if (streams_.empty()) return Corruption("the logs hold no step");
  proof->clear();
  for (const auto& [replica, steps] : streams_) {
    Passes passes;
    RINGLET_RETURN_IF_ERROR(CheckStream(replica, steps, &passes));
    if (!proof->empty()) *proof += '\n';
    if (replica != "all") *proof += "replica " + replica + ": ";
    *proof += std::to_string(steps.size()) + " steps; " +
              std::to_string(passes.whole()) + " whole passes";
    if (passes.size() > 0) {
      *proof += " of " + std::to_string(passes.size()) + " examples";
    }
    *proof += ", each example used once in each; " +
              std::to_string(passes.used()) + " of pass " +
              std::to_string(passes.pass());
  }
  return Status();
}

}  // namespace ringlet
