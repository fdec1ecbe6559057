// Progress: Keras's progress bar, and its one-line form.
//
// The output equals the output of Keras 3's utils/progbar.py: the bar redraws
// itself on a terminal, the line is printed once in an epoch. Every drawing is
// flushed. Nothing is allocated after the first call. An unfinished bar ends
// its line in the destructor.

#ifndef RINGLET_CORE_FIT_PROGRESS_H_
#define RINGLET_CORE_FIT_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "../base/open_line.h"
#include "ringlet/collective.h"
#include "ringlet/fit.h"
#include "ringlet/status.h"

namespace ringlet {

class Progress {
 public:
  // `target` steps, or 0 if their number is unknown. `done` steps were made
  // before, in a fit that continues. `clock` outlives the Progress.
  Progress(Verbose verbose, FILE* out, int64_t target,
           Clock* clock = Clock::System(), int64_t done = 0);

  // Call it after step number `done` (from 1), or after the last step of a
  // round. Draws at most every 50 ms.
  void Update(int64_t done, const Logs& logs);
  // Draws the final state, and ends the line.
  void Finish(int64_t done, const Logs& logs);

  // Resolves kAuto for `out`.
  static Verbose Resolve(Verbose verbose, FILE* out);

 private:
  void Draw(int64_t done, const Logs& logs, bool final);
  void AppendBar(int64_t done);
  void AppendLogs(const Logs& logs);
  void AppendStepTime(double seconds);
  void AppendTime(double elapsed, double remaining, bool final);
  double StepSeconds(int64_t done, int64_t now) const;
  // Appends an escape sequence for colour or weight, unless NO_COLOR is set.
  void Style(const char* escape) {
    if (styled_) line_ += escape;
  }
  void Append(const char* format, ...) RINGLET_PRINTF(2, 3);

  const Verbose verbose_;
  const bool styled_;
  const int64_t target_;
  Clock* const clock_;
  const int64_t start_, done_;  // time and step of its start
  int64_t first_step_ = 0;  // the time at which the first step, or round, ended
  int64_t first_done_ = 0;  // the number of that step
  int64_t last_draw_ = 0;
  int width_ = 0;     // columns of the last drawing
  std::string line_;  // bytes to write
  OpenLine written_;
  int columns_ = 0;  // columns of line_
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_PROGRESS_H_
