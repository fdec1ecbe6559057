// TimedLines: a callback that prints where a long epoch is, for output that
// goes to a file or a service's log.
//
// Internal. Keras prints one line for an epoch. An epoch on a board may take
// hours, so this callback adds a line after each 30 seconds without one:
//
//   2026-11-29 18:55:03 - epoch 3/10 - 120/500 - 12.3 steps/s - 0:31 left in
//   the epoch, 12:05 in all - accuracy: 0.9012 - loss: 0.3025

#ifndef RINGLET_IO_LOGS_TIMED_LINES_H_
#define RINGLET_IO_LOGS_TIMED_LINES_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "pace.h"
#include "ringlet/collective.h"
#include "ringlet/fit.h"

namespace ringlet {

class TimedLines final : public Callback {
 public:
  // Prints to `out`, if it is not null and this rank is the chief. `out` and
  // `clock` outlive it.
  explicit TimedLines(FILE* out, Clock* clock = Clock::System());

  const char* name() const override { return "timed_lines"; }
  bool NamesInLogs(std::vector<std::string>*) const override { return true; }
  Status OnTrainBegin(FitState& fit) override;
  Status OnEpochBegin(FitState& fit) override;
  Status OnTrainBatchEnd(FitState& fit, const Logs& logs) override;
  Status OnTestBegin(FitState& fit) override;
  Status OnTestBatchEnd(FitState& fit) override;
  Status OnEpochEnd(FitState& fit, Logs* logs) override;

 private:
  void BeginEpoch(const FitState& fit);
  // True if a line is due. It then begins the line in line_.
  bool BeginLine(const FitState& fit);
  void AppendRates(const FitState& fit, int64_t done);
  void Append(const char* format, ...) RINGLET_PRINTF(2, 3);

  FILE* const out_;
  Clock* const clock_;
  Pace pace_;
  int64_t last_line_ = 0;  // the time of the last line
  int64_t test_steps_ = 0;
  std::string line_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_TIMED_LINES_H_
