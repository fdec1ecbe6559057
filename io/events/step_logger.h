// StepLogger: a CSV file with a row for every training step.
//
// Public. For comparing runs step by step: "epoch,step,loss,<metrics>", epochs
// and steps from 0, each value that of the step alone (over the whole global
// batch, not the epoch's running mean), as the shortest decimal that reads back
// the same. Written by the chief, row by row; a resumed fit goes on behind the
// rows of its backup.

#ifndef RINGLET_IO_EVENTS_STEP_LOGGER_H_
#define RINGLET_IO_EVENTS_STEP_LOGGER_H_

#include <memory>
#include <string>

#include "../../core/fit/callback.h"

namespace ringlet {

std::shared_ptr<Callback> StepLogger(const std::string& filename);

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_STEP_LOGGER_H_
