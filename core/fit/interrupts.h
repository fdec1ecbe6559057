// Interrupts: SIGINT, SIGTERM and SIGHUP, which ask a fit to save and end.
//
// Internal to ringlet. While an Interrupts lives the first of these signals is
// noted, and the second, of whatever kind, does what it does by default. One
// that is ignored (nohup, a shell's background) stays so. SIGPIPE and SIGXFSZ
// are ignored meanwhile, unless the program handles them: what was trained is
// not lost with the reader of its lines.

#ifndef RINGLET_CORE_FIT_INTERRUPTS_H_
#define RINGLET_CORE_FIT_INTERRUPTS_H_

#include "callback.h"

namespace ringlet {

// The first installs the handlers and the last to go puts back what was there:
// several callbacks, of one fit or of fits in several threads, may have one
// each and let go in any order.
class Interrupts {
 public:
  // `says`: the first signal is answered at once by a line on stderr.
  explicit Interrupts(bool says);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Tells the fit of the signal that came while one lived, if any.
  static void Note(FitState* fit);
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_INTERRUPTS_H_
