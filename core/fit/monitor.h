// Monitor: Keras's rule for "is it better?", for callbacks that watch a value.

#ifndef RINGLET_CORE_FIT_MONITOR_H_
#define RINGLET_CORE_FIT_MONITOR_H_

#include <cstdint>
#include <string>

#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

class Monitor {
 public:
  // The logs in which a callback looks for the value.
  enum class Logged : uint8_t {
    kAfterEpochs,   // logs of Callback::OnEpochEnd
    kAfterBatches,  // logs of Callback::OnTrainBatchEnd
  };
  // Call it in OnSetup of `callback`. Resolves kAuto by the metrics of the
  // model. Returns kInvalidArgument if the names in the logs are known
  // beforehand (Callback::NamesInLogs) and `name` is not among them. The
  // message lists these names.
  Status Setup(const FitState& fit, const Callback& callback, Logged when,
               const std::string& name, MonitorMode mode, double min_delta);
  // True if `value` is better than `best` by more than min_delta. A `best` of
  // NaN means "none yet": every number except the worst infinity is better. A
  // `value` of NaN is never better.
  bool Improves(double value, double best) const;
  bool lower_is_better() const { return lower_is_better_; }
  // The watched value, or null with a warning on stderr that lists the existing
  // names.
  const double* Find(const Logs& logs, const char* callback) const;

 private:
  std::string name_;
  double min_delta_ = 0;
  bool lower_is_better_ = true;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_MONITOR_H_
