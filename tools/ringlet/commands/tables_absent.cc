// In place of the commands and functions for CSV files, in a build without
// them.

#include "../command_line.h"
#include "../data/table_summary.h"
#include "commands.h"
#include "core/base/left_out.h"
#include "predict_lines.h"

namespace ringlet {

int InitCommand(const std::vector<std::string>&) {
  return ExitCode(LeftOut("ringlet init", "tables"));
}
int PredictLines(const std::string&, const ModelAndDataFlags&) {
  return ExitCode(LeftOut("--csv -", "tables"));
}
Status SummarizeTable(const std::string& path, TableSummary*) {
  return LeftOut(path, "tables");
}
std::string ToText(const std::string&, const TableSummary&) { return ""; }

}  // namespace ringlet
