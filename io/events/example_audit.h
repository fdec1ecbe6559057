// ExampleAudit: whether the steps of a run are all there, and used as many
// examples in each pass as it has, none twice, by what ExampleLogger wrote.
//
// Internal to io/. Pure. A job may have several logs, where its chief was
// another worker at times: what two of them say of one step must be the same.

#ifndef RINGLET_IO_EVENTS_EXAMPLE_AUDIT_H_
#define RINGLET_IO_EVENTS_EXAMPLE_AUDIT_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "../../core/base/status.h"

namespace ringlet {

class ExampleAudit {
 public:
  // The text of a log. kCorruption: a line of it is none of ExampleLogger's; of
  // a last line without an end nothing is taken, nor of an empty log.
  Status Add(const std::string& name, const std::string& text);

  // All logs together: what they prove, a sentence. kCorruption: a step is
  // missing, there twice with other examples, or an example is used twice in a
  // pass or not at all; the first such is named.
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

  std::map<std::string, Steps> streams_;  // by replica
};

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_EXAMPLE_AUDIT_H_
