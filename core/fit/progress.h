// Progress: Keras's progress bar and its one-line form.
//
// Internal to core/fit. Rendered as Keras 3's utils/progbar.py does: the bar
// redraws itself on a terminal, the line is printed once an epoch. Every
// drawing is flushed. Nothing is allocated after the first call. A bar that is
// not finished ends its line when it goes.

#ifndef RINGLET_CORE_FIT_PROGRESS_H_
#define RINGLET_CORE_FIT_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "../base/clock.h"
#include "../base/message.h"
#include "callback.h"
#include "fit.h"

namespace ringlet {

class Progress {
 public:
  // `target` steps, or 0 where their number is not known, of which `done` were
  // made before, as one that goes on has. `clock` outlives it.
  Progress(Verbose verbose, FILE* out, int64_t target,
           Clock* clock = Clock::System(), int64_t done = 0);

  // After step number `done` (from 1), or the last one of a round. Draws at
  // most every 50 ms.
  void Update(int64_t done, const Logs& logs);
  // The final state, and the end of the line.
  void Finish(int64_t done, const Logs& logs);

  // kAuto resolved for `out`.
  static Verbose Resolve(Verbose verbose, FILE* out);

 private:
  void Draw(int64_t done, const Logs& logs, bool final);
  void AppendBar(int64_t done);
  void AppendLogs(const Logs& logs);
  void AppendStepTime(double seconds);
  void AppendTime(double elapsed, double remaining, bool final);
  double StepSeconds(int64_t done, int64_t now) const;
  void Append(const char* format, ...) RINGLET_PRINTF(2, 3);

  const Verbose verbose_;
  const int64_t target_;
  Clock* const clock_;
  const int64_t start_, done_;  // when and where it began
  int64_t first_step_ = 0;      // when the first step, or round, had ended
  int64_t first_done_ = 0;      // and which it was
  int64_t last_draw_ = 0;
  int width_ = 0;     // columns of the last drawing
  std::string line_;  // bytes to write
  OpenLine written_;
  int columns_ = 0;  // columns of line_
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_PROGRESS_H_
