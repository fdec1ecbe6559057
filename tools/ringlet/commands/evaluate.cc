// ringlet evaluate: loss and metrics of a trained model.

#include <cstdio>

#include "../command_line.h"
#include "../data/model_and_data_flags.h"
#include "../report/evaluate_report.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/json.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

Status Evaluate(const std::string& path, const ModelAndDataFlags& use,
                bool json, const std::string& report) {
  std::unique_ptr<Model> model;
  Dataset batches;
  if (!report.empty()) {
    RINGLET_RETURN_IF_ERROR(CheckWritable("--report", report));
  }
  RINGLET_RETURN_IF_ERROR(use.Open(path, report, &model, &batches));
  if (!report.empty()) RINGLET_RETURN_IF_ERROR(CheckReports(*model));
  EvaluateOptions options;
  if (json) options.verbose = Verbose::kSilent;
  const Result<Logs> logs = model->Evaluate(batches, options);
  RINGLET_RETURN_IF_ERROR(logs.status());
  if (json) {
    JsonWriter w;
    w.BeginObject();
    for (const auto& [name, value] : logs->entries()) w.Key(name).Number(value);
    std::printf("%s\n", w.EndObject().text().c_str());
  }
  if (report.empty()) return Status();
  RINGLET_RETURN_IF_ERROR(
      WriteEvaluationReport(model.get(), path, batches, logs.value(), report));
  if (!json) PrintWritten(report, "the report");
  return Status();
}

}  // namespace

int EvaluateCommand(const std::vector<std::string>& line) {
  ModelAndDataFlags use;
  bool json = false;
  std::string report;
  CommandLine flags("evaluate", "MODEL",
                    "Prints loss and metrics of a saved model on data.\n",
                    "\nExample: ringlet evaluate model.safetensors --data "
                    "RUN.json\n");
  use.Add(&flags, /*labels=*/true);
  flags.Switch("--json", &json, "print one line of JSON, with all digits");
  flags.Text("--report", "FILE", &report,
             "write an HTML page: the confusion matrix, precision and\n"
             "recall of each class, calibration, and the worst examples;\n"
             "for numbers the predicted against the true ones");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(Evaluate(flags.arguments()[0], use, json, report));
}

}  // namespace ringlet
