// ringlet summary: the layers of a saved model or of the model of a run.

#include <cstdio>

#include "../command_line.h"
#include "../config/run_config.h"
#include "../run/run.h"
#include "commands.h"
#include "core/model/model_parts.h"
#include "file_summaries.h"
#include "io/checkpoint/inspect.h"
#include "io/files/atomic_file.h"
#include "io/files/file_kind.h"
#include "io/keras/compile_arguments.h"
#include "io/keras/keras_json.h"

namespace ringlet {
namespace {

// The model is not compiled, so no weight is allocated and nothing is computed.
Status SummarizeRun(const std::string& path, std::string* summary,
                    std::string* compiled) {
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  if (config.lora) {
    RINGLET_RETURN_IF_ERROR(LoadWithLora(&config).Annotate("%s", path.c_str()));
  }
  if (config.model == nullptr) {
    RINGLET_RETURN_IF_ERROR(SummarizeModelFile(config.saved_model, summary,
                                               compiled, config.disk.get(),
                                               config.fit.dtype_policy)
                                .Annotate("%s: model", path.c_str()));
  } else {
    if (config.fit.dtype_policy) {
      ModelParts(config.model.get())
          .mutable_graph()
          ->SetDTypePolicy(*config.fit.dtype_policy);
    }
    *summary = config.model->Summary();
  }
  if (config.has_compile) {
    *compiled = DescribeCompile(config.compile);
  }
  return Status();
}

Status SummarizeConfiguration(const std::string& path, std::string* summary) {
  std::string text;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(PosixFiles(), path, kMaxKerasJsonBytes, &text));
  Json json;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(text, path.c_str(), &json));
  std::unique_ptr<Model> model;
  RINGLET_RETURN_IF_ERROR(
      ModelFromJson(json, "", &model).Annotate("%s", path.c_str()));
  *summary = model->Summary();
  return Status();
}

Status Summarize(const std::string& path) {
  std::string summary, compiled;
  RINGLET_RETURN_IF_ERROR(SummarizeFile(path, &summary, &compiled));
  std::printf("%s", summary.c_str());
  if (!compiled.empty()) std::printf(" Compiled: %s\n", compiled.c_str());
  return Status();
}

}  // namespace

Status SummarizeFile(const std::string& path, std::string* summary,
                     std::string* compiled) {
  FileKind kind;
  RINGLET_RETURN_IF_ERROR(FindFileKind(CommandFileSystem(), path, &kind));
  switch (kind.format) {
    case FileKind::Format::kRun:
    case FileKind::Format::kJson:
      return SummarizeRun(path, summary, compiled);
    case FileKind::Format::kKerasJson:
    case FileKind::Format::kTfjs:
      return SummarizeConfiguration(path, summary);
    default:
      return SummarizeModelFile(path, summary, compiled, CommandFileSystem());
  }
}

int SummaryCommand(const std::vector<std::string>& line) {
  CommandLine flags(
      "summary", "RUN.json|MODEL",
      "Shows the layers of a model as Keras does, with outputs and "
      "parameters,\n"
      "and a line with optimizer, loss and metrics. It takes a RUN.json, a\n"
      "saved model or Keras's configuration (model.to_json()), and no data.\n");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  return InputExitCode(Summarize(flags.arguments()[0]));
}

}  // namespace ringlet
