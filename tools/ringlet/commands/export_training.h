// The flags of `ringlet export` for a C file that trains.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_EXPORT_TRAINING_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_EXPORT_TRAINING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../command_line.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {

struct ExportTrainingFlags {
  std::string layers;  // "" if the file does not train
  std::string optimizer;
  double learning_rate = 0;
  int64_t batch = 0;

  void Add(CommandLine* flags);
  // If --train is missing, returns a flag that was given and needs it;
  // otherwise null.
  const char* FlagWithoutTrain() const;
  // Compiles the model to train `layers`, and adds the weights that are not
  // trained to *frozen. `compiled` is true if the model already has
  // an optimizer and a loss.
  Status Compile(bool compiled, Model* model,
                 std::vector<std::string>* frozen) const;
};

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_EXPORT_TRAINING_H_
