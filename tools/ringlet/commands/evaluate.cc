// ringlet evaluate: loss and metrics of a trained model.

#include <cstdio>

#include "../command_line.h"
#include "../data/model_and_data_flags.h"
#include "commands.h"
#include "core/base/json.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

Status Evaluate(const std::string& path, const ModelAndDataFlags& use,
                bool json) {
  std::unique_ptr<Model> model;
  Dataset batches;
  RINGLET_RETURN_IF_ERROR(use.Open(path, "", &model, &batches));
  EvaluateOptions options;
  if (json) options.verbose = Verbose::kSilent;
  const Result<Logs> logs = model->Evaluate(batches, options);
  RINGLET_RETURN_IF_ERROR(logs.status());
  if (!json) return Status();
  JsonWriter w;
  w.BeginObject();
  for (const auto& [name, value] : logs->entries()) w.Key(name).Number(value);
  std::printf("%s\n", w.EndObject().text().c_str());
  return Status();
}

}  // namespace

int EvaluateCommand(const std::vector<std::string>& line) {
  ModelAndDataFlags use;
  bool json = false;
  CommandLine flags("evaluate", "MODEL",
                    "Prints loss and metrics of a saved model on data.\n",
                    "\nExample: ringlet evaluate model.safetensors --data "
                    "RUN.json\n");
  use.Add(&flags, /*labels=*/true);
  flags.Switch("--json", &json, "print one line of JSON, with all digits");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(Evaluate(flags.arguments()[0], use, json));
}

}  // namespace ringlet
