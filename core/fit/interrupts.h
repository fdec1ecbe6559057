// Interrupts: makes SIGINT, SIGTERM and SIGHUP requests to a fit to save and
// end.
//
// While an Interrupts exists, the first of these signals is recorded. The
// second one, of any kind, has its default effect. Ignored signals (nohup, a
// shell's background) stay ignored. SIGPIPE and SIGXFSZ are ignored meanwhile,
// unless the program handles them, so that a closed reader of the output does
// not end the training.

#ifndef RINGLET_CORE_FIT_INTERRUPTS_H_
#define RINGLET_CORE_FIT_INTERRUPTS_H_

#include "ringlet/fit.h"

namespace ringlet {

// The first one installs the handlers, and the last one restores the earlier
// ones. Several callbacks, of one fit or of fits in several threads, may each
// have one, and may destroy them in any order.
class Interrupts {
 public:
  // If `prints`, the first signal prints a line on stderr.
  explicit Interrupts(bool prints);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Copies the signal that came while an Interrupts existed, if any, to `fit`.
  static void CopySignal(FitState* fit);
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_INTERRUPTS_H_
