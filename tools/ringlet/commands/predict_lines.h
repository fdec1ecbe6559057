// ringlet predict --csv -: an answer for each line of stdin.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_PREDICT_LINES_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_PREDICT_LINES_H_

#include <string>

#include "../data/model_and_data_flags.h"

namespace ringlet {

// Returns the exit code at the end of stdin: the code of the first wrong line,
// or 0.
int PredictLines(const std::string& model_path, const ModelAndDataFlags& use);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_PREDICT_LINES_H_
