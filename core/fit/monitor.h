// Monitor: Keras's rule of "is it better?", for callbacks that watch a value.
//
// Internal.

#ifndef RINGLET_CORE_FIT_MONITOR_H_
#define RINGLET_CORE_FIT_MONITOR_H_

#include <string>

#include "../base/status.h"
#include "callback.h"

namespace ringlet {

class Monitor {
 public:
  // Resolves kAuto against the metrics of `model`.
  Status Setup(const Model& model, const std::string& name, MonitorMode mode,
               double min_delta);
  // value better than best by more than min_delta; anything beats NaN, which
  // stands for "none yet".
  bool Improves(double value, double best) const;
  bool decreases() const { return decreases_; }
  // The watched value, or null with a warning on stderr that names what there
  // is.
  const double* Find(const Logs& logs, const char* callback) const;

 private:
  std::string name_;
  double min_delta_ = 0;
  bool decreases_ = true;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_MONITOR_H_
