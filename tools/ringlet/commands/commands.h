// The commands of the program, each in a file of its own name; diff is in
// inspect.cc.
//
// `line` has the words after the command's name. Each returns the exit code.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_COMMANDS_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

int TrainCommand(const std::vector<std::string>& line);
// The settings of a `train` command line that `launch` needs. Defaults if the
// line or its RUN.json is wrong; the worker reports the error.
struct TrainSettingsForLaunch {
  int64_t threads = 1;
  // How long a worker waits for the other workers before it trains alone, at
  // least.
  double waits_seconds = 0;
  // The minimum number of workers that continue without the other workers. 0:
  // all workers are needed.
  int min_workers = 0;
};
// `workers` is the number of workers of the job.
TrainSettingsForLaunch ReadTrainSettings(const std::vector<std::string>& line,
                                         int workers);
int EvaluateCommand(const std::vector<std::string>& line);
int PredictCommand(const std::vector<std::string>& line);
int KeygenCommand(const std::vector<std::string>& line);
int RelayCommand(const std::vector<std::string>& line);
int TopCommand(const std::vector<std::string>& line);
int LaunchCommand(const std::vector<std::string>& line);
int VerifyCommand(const std::vector<std::string>& line);
int InitCommand(const std::vector<std::string>& line);
int PlanCommand(const std::vector<std::string>& line);
int SummaryCommand(const std::vector<std::string>& line);
int AuditCommand(const std::vector<std::string>& line);
int InspectCommand(const std::vector<std::string>& line);
int DoctorCommand(const std::vector<std::string>& line);
int DiffCommand(const std::vector<std::string>& line);
int ReportCommand(const std::vector<std::string>& line);
int GatherCommand(const std::vector<std::string>& line);
int ExportCommand(const std::vector<std::string>& line);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_COMMANDS_H_
