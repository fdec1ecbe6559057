// Fingerprint: what decides a run's numbers, as named values in words.
//
// Internal to core/. The ranks of a job compare theirs when they meet; where
// two differ, every rank's error names the field, the rank and both values. The
// text is canonical: the same on every machine, whatever its byte order.

#ifndef RINGLET_CORE_MODEL_FINGERPRINT_H_
#define RINGLET_CORE_MODEL_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../base/collective.h"
#include "../base/status.h"
#include "arrivals.h"
#include "losses.h"
#include "metrics.h"
#include "optimizers.h"

namespace ringlet {

class Fingerprint {
 public:
  // `name` reads in "<name> is <value>": "the batch size". A value is one line;
  // control characters in it become '?'.
  void Add(const std::string& name, const std::string& value);
  void Add(const std::string& name, const char* value) {
    Add(name, std::string(value));
  }
  void Add(const std::string& name, int64_t value) {
    Add(name, std::to_string(value));
  }
  void Add(const std::string& name, float value);
  // A checksum, of which a person learns nothing but that it differs.
  void AddChecksum(const std::string& name, uint64_t value);

  // "name\tvalue\n" for every field, in the order of Add.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The fields of one part of a compiled model. A node of the graph is described
// without its initializers, since all ranks begin with the chief's weights.
std::string DescribeLayer(const Layer& layer, const std::vector<int>& inputs,
                          const Shape& output);
void AddOptimizer(const Optimizer& optimizer, Fingerprint* fingerprint);
// `of` follows the fields' names: " of output 'dense'".
void AddLoss(const Loss& loss, const std::string& of, Fingerprint* fingerprint);
std::string DescribeMetric(const Metric& metric);

// kInvalidArgument, the same on every rank, where a rank's fingerprint differs
// from the chief's; names the first such rank and its first field. `what` is
// "model 'sequential'". Equal ones cost one small all-gather. Where ranks come
// to a run of others (`arrivals`) it is they who have to fit.
Status Agree(Collective* collective, const char* what,
             const Fingerprint& fingerprint, const Arrivals& arrivals = {});

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_FINGERPRINT_H_
