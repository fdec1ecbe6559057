// Fingerprint: the settings that decide a run's numbers, as named values.
//
// The ranks of a job compare their fingerprints when they form a view. If two
// differ, every rank's error names the field, the rank and both values. The
// text is the same on every machine, whatever its byte order.

#ifndef RINGLET_CORE_MODEL_FINGERPRINT_H_
#define RINGLET_CORE_MODEL_FINGERPRINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../exchange/joining_members.h"
#include "ringlet/collective.h"
#include "ringlet/losses.h"
#include "ringlet/metrics.h"
#include "ringlet/optimizers.h"
#include "ringlet/status.h"

namespace ringlet {

class Fingerprint {
 public:
  // `name` fits into "<name> is <value>": "the batch size". A value is one
  // line; control characters in it become '?'.
  void Add(const std::string& name, const std::string& value);
  void Add(const std::string& name, const char* value) {
    Add(name, std::string(value));
  }
  void Add(const std::string& name, int64_t value) {
    Add(name, std::to_string(value));
  }
  void Add(const std::string& name, float value);
  // Adds a checksum. The error does not print its value. `name` fits into "rank
  // 1 has other <name> than rank 0".
  void AddChecksum(const std::string& name, uint64_t value);

  // Sets the advice for a difference in the field `name`. Advice is not
  // compared.
  void Advise(const std::string& name, const std::string& advice) {
    advice_[name] = advice;
  }

  // "name\tvalue\n" for every field, in the order of Add.
  const std::string& text() const { return text_; }
  struct Field {
    std::string name, value;
  };
  // The fields of any text.
  static std::vector<Field> FieldsOf(const std::string& text);
  // The advice for the field; empty if there is none.
  std::string AdviceOf(const std::string& name) const {
    const auto found = advice_.find(name);
    return found == advice_.end() ? "" : found->second;
  }

 private:
  std::string text_;
  std::map<std::string, std::string> advice_;
};

// Describes one part of a compiled model. The description of a layer leaves its
// initializers out, since all ranks begin with the chief's weights.
std::string DescribeLayer(const Layer& layer, const std::vector<int>& inputs,
                          const Shape& output);
void AddOptimizer(const Optimizer& optimizer, Fingerprint* fingerprint);
// `suffix` follows the fields' names: " of output 'dense'".
void AddLoss(const Loss& loss, const std::string& suffix,
             Fingerprint* fingerprint);
std::string DescribeMetric(const Metric& metric);

// kInvalidArgument on every rank if a rank's fingerprint differs from the
// fingerprint of most ranks or, if there is no majority, of the chief. The
// message names the first such rank and its first field. `subject` is "model
// 'sequential'". Equal fingerprints cost one small all-gather. If ranks join a
// run (`joining`), their fingerprints must equal the run's.
Status Agree(Collective* collective, const char* subject,
             const Fingerprint& fingerprint,
             const JoiningMembers& joining = {});

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_FINGERPRINT_H_
