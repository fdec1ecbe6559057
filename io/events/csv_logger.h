// CSVLogger and StepLogger: CSV files with a row an epoch, or a step.
//
// Public. Written by the chief, row by row; a resumed fit goes on behind the
// rows of its backup. What a full disk does not take is kept and written later;
// a warning says so. A link to a file is refused.

#ifndef RINGLET_IO_EVENTS_CSV_LOGGER_H_
#define RINGLET_IO_EVENTS_CSV_LOGGER_H_

#include <memory>
#include <string>

#include "../../core/fit/callback.h"

namespace ringlet {

// Keras's: "epoch" (from 0), then the logs by name. `append` keeps what the
// file holds.
std::shared_ptr<Callback> CSVLogger(const std::string& filename,
                                    char separator = ',', bool append = false);

// For comparing runs step by step: "epoch,step,loss,<metrics>", epochs and
// steps from 0, each value that of the step alone (over the whole global batch,
// not the epoch's running mean), as the shortest decimal that reads back the
// same.
std::shared_ptr<Callback> StepLogger(const std::string& filename);

}  // namespace ringlet

#endif  // RINGLET_IO_EVENTS_CSV_LOGGER_H_
