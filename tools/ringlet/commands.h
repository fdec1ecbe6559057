// The commands of the program, each in a file of its own name.
//
// Internal to tools/ringlet/. `line` is what follows the command's name; the
// result is the exit code.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_H_

#include <string>
#include <vector>

namespace ringlet {

int LaunchCommand(const std::vector<std::string>& line);
int PlanCommand(const std::vector<std::string>& line);
int TrainCommand(const std::vector<std::string>& line);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_H_
