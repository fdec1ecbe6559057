// In place of the commands that show files and plans, in a build without them.

#include "../command_line.h"
#include "commands.h"
#include "core/base/left_out.h"

namespace ringlet {
namespace {

int Refuse(const char* command) {
  return ExitCode(LeftOut(command, "inspection"));
}

}  // namespace

int AuditCommand(const std::vector<std::string>&) {
  return Refuse("ringlet audit");
}
int DiffCommand(const std::vector<std::string>&) {
  return Refuse("ringlet diff");
}
int InspectCommand(const std::vector<std::string>&) {
  return Refuse("ringlet inspect");
}
int PlanCommand(const std::vector<std::string>&) {
  return Refuse("ringlet plan");
}
int SummaryCommand(const std::vector<std::string>&) {
  return Refuse("ringlet summary");
}
int VerifyCommand(const std::vector<std::string>&) {
  return Refuse("ringlet verify");
}

}  // namespace ringlet
