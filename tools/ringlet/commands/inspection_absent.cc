// Replaces gather and the commands that show files and plans, in a build
// without them.

#include "../command_line.h"
#include "../report/evaluate_report.h"
#include "../run/evaluator.h"
#include "../run/launch_files.h"
#include "../run/training_status.h"
#include "commands.h"
#include "core/base/left_out.h"

namespace ringlet {
namespace {

int Refuse(const char* command) {
  return ExitCode(LeftOut(command, "inspection"));
}

}  // namespace

Status CheckReports(const Model&) {
  return LeftOut("ringlet evaluate --report", "inspection");
}
Status WriteEvaluationReport(Model*, const std::string&, const Dataset&,
                             const Logs&, const std::string&) {
  return LeftOut("ringlet evaluate --report", "inspection");
}

Status EvaluateCheckpoints(const std::string&, const ClusterConfig&,
                           const InitFlags&, RunConfig*) {
  return LeftOut("the task evaluator", "inspection");
}
std::shared_ptr<Callback> ReportEndToEvaluator(const std::string&,
                                               const ClusterConfig&,
                                               const RunConfig&) {
  return nullptr;
}
Status ShowTrainingStatus(const std::string&, const ClusterConfig&,
                          const std::string& address, const std::string&,
                          std::shared_ptr<Callback>*) {
  return address.empty() ? Status() : LeftOut("--status", "inspection");
}

int AuditCommand(const std::vector<std::string>&) {
  return Refuse("ringlet audit");
}
int DiffCommand(const std::vector<std::string>&) {
  return Refuse("ringlet diff");
}
int DoctorCommand(const std::vector<std::string>&) {
  return Refuse("ringlet doctor");
}
int GatherCommand(const std::vector<std::string>&) {
  return Refuse("ringlet gather");
}
int InspectCommand(const std::vector<std::string>&) {
  return Refuse("ringlet inspect");
}
Status LaunchFile(const std::string&, const JobToLaunch&, std::string*) {
  return LeftOut("ringlet launch --print", "inspection");
}
Status ReadHosts(const std::string&, const std::string&,
                 std::vector<Address>*) {
  return LeftOut("ringlet launch --hosts", "inspection");
}
std::vector<std::string> SshCommand(const JobToLaunch&, int) { return {}; }
int PlanCommand(const std::vector<std::string>&) {
  return Refuse("ringlet plan");
}
int ReportCommand(const std::vector<std::string>&) {
  return Refuse("ringlet report");
}
int SummaryCommand(const std::vector<std::string>&) {
  return Refuse("ringlet summary");
}
int TopCommand(const std::vector<std::string>&) {
  return Refuse("ringlet top");
}
int VerifyCommand(const std::vector<std::string>&) {
  return Refuse("ringlet verify");
}

}  // namespace ringlet
