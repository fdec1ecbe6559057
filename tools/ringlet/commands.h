// The commands of the program, most in a file of its own name; inspect, diff
// and export are in files.cc.
//
// Internal to tools/ringlet/. `line` is what follows the command's name; the
// result is the exit code.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

int TrainCommand(const std::vector<std::string>& line);
// Of a worker of this line: defaults where the line or its RUN.json is wrong,
// which the worker tells.
struct TrainLine {
  int64_t threads = 1;
  // The least for which one that misses all others waits for them.
  double waits_seconds = 0;
};
TrainLine ReadTrainLine(const std::vector<std::string>& line);
int EvaluateCommand(const std::vector<std::string>& line);
int PredictCommand(const std::vector<std::string>& line);
int KeygenCommand(const std::vector<std::string>& line);
int RelayCommand(const std::vector<std::string>& line);
int LaunchCommand(const std::vector<std::string>& line);
int VerifyCommand(const std::vector<std::string>& line);
int PlanCommand(const std::vector<std::string>& line);
int SummaryCommand(const std::vector<std::string>& line);
int AuditCommand(const std::vector<std::string>& line);
int InspectCommand(const std::vector<std::string>& line);
int DiffCommand(const std::vector<std::string>& line);
int ExportCommand(const std::vector<std::string>& line);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_H_
