// ExampleAudit: proves from the logs of ExampleLogger that no step of a run is
// missing, and that each pass used each of its examples once.
//
// Pure. A job has several logs if its chief has changed. If two of them have
// the same step, they must agree on it.

#ifndef RINGLET_IO_LOGS_EXAMPLE_AUDIT_H_
#define RINGLET_IO_LOGS_EXAMPLE_AUDIT_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

class ExampleAudit {
 public:
  // Adds the text of a log. A last line without an end is ignored, and so is an
  // empty log. kCorruption: a line is not from ExampleLogger.
  Status Add(const std::string& name, const std::string& text);

  // Checks all logs together. *proof is a sentence. kCorruption: a step is
  // missing, two logs differ in a step, or a pass used an example twice or not
  // at all. The error names the first such case.
  Status Finish(std::string* proof) const;

 private:
  struct Step {
    int64_t pass = 0, used = 0, size = 0;
    std::vector<int64_t> examples;  // kNextPass: the next pass begins
    std::string log;
    bool operator==(const Step& other) const {
      return pass == other.pass && used == other.used && size == other.size &&
             examples == other.examples;
    }
  };
  using Steps = std::map<std::pair<int64_t, int64_t>, Step>;  // epoch, step
  class Passes;

  static constexpr int64_t kNextPass = -1;
  Status TakeRow(const std::string& name, const std::string& line);
  Status CompareStreams() const;
  static Status CheckStream(const std::string& replica, const Steps& steps,
                            Passes* passes);

  std::map<std::string, Steps> streams_;  // keys: the replicas
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_EXAMPLE_AUDIT_H_
