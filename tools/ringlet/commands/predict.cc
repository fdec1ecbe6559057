// ringlet predict: a trained model's outputs.

#include <cerrno>
#include <cstdio>

#include "../command_line.h"
#include "../data/anomaly.h"
#include "../data/model_and_data_flags.h"
#include "../data/prediction_text.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/text.h"
#include "core/data/dataset_parts.h"
#include "io/files/atomic_file.h"
#include "io/readers/arrays/npz.h"
#include "io/readers/tables/csv_records.h"
#include "predict_lines.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Writes a saved model's outputs for data, in their order. Labels are not
needed; a CSV's column of labels is ignored.
)";

constexpr int kMaxPictures = 1 << 20;

constexpr char kMore[] = R"(
With --images and --audio each row begins with the path of its file. More files
may follow MODEL.

With --csv - each line of stdin is an example. Its answer is a line on stdout,
written before the next line is read. The answer to a wrong or blank line is an
empty line; errors go to stderr. The answer to a first line of names has the
names of the classes, if there are any.

Examples: ringlet predict model.safetensors --x x.npy --out y.npy
          ringlet predict model.safetensors --images new/*.png
          sensor | ringlet predict model.safetensors --csv - --no-header
)";

// Returns the path of the example's file and a comma; empty if the example has
// no file of its own.
std::string FileField(const Dataset& data, int64_t example) {
  const std::string path = data.source()->ExamplePath(
      data.parts().first + example * data.parts().stride);
  return path.empty() ? "" : CsvField(path, ',') + ",";
}

// Calls write(row) for each row, which ends with a newline.
template <typename Write>
Status WriteCsv(const Model& model, const std::vector<Output>& outputs,
                const Dataset& data, const Write& write) {
  const PredictionText text(model);
  const std::string head = FileField(data, 0).empty() ? "" : "file,";
  if (!text.HeaderLine().empty()) {
    RINGLET_RETURN_IF_ERROR(write(head + text.HeaderLine() + "\n"));
  }
  for (int64_t i = 0; i < outputs[0].shape[0]; ++i) {
    RINGLET_RETURN_IF_ERROR(
        write(FileField(data, i) + text.RowLine(outputs, i) + "\n"));
  }
  return Status();
}

Status WriteNpz(const std::vector<Output>& outputs, const std::string& path) {
  NpzWriter file;
  RINGLET_RETURN_IF_ERROR(file.Open(PosixFiles(), path));
  for (const Output& output : outputs) {
    RINGLET_RETURN_IF_ERROR(
        file.Add(output.name, DType::kFloat32, output.shape, output.values));
  }
  return file.Finish();
}

Status WriteCsvFile(const Model& model, const std::vector<Output>& outputs,
                    const Dataset& data, const std::string& path) {
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(PosixFiles(), path, 0));
  RINGLET_RETURN_IF_ERROR(
      WriteCsv(model, outputs, data, [&](const std::string& row) {
        return file.file()->Write(row.data(), row.size());
      }));
  return file.Commit();
}

Status WriteCsvToStdout(const Model& model, const std::vector<Output>& outputs,
                        const Dataset& data) {
  return WriteCsv(model, outputs, data, [](const std::string& row) {
    return std::fwrite(row.data(), 1, row.size(), stdout) == row.size()
               ? Status()
               : OsError(errno, "stdout: writing");
  });
}

Status WriteFile(const Model& model, const std::vector<Output>& outputs,
                 const Dataset& data, const std::string& path) {
  if (EndsWith(path, ".csv")) return WriteCsvFile(model, outputs, data, path);
  if (EndsWith(path, ".npz")) return WriteNpz(outputs, path);
  return WriteNpy(path, DType::kFloat32, outputs[0].shape, outputs[0].values);
}

std::string WithExampleCount(const char* name, int64_t count) {
  return std::string(name) + " of " + std::to_string(count) +
         (count == 1 ? " example" : " examples");
}

Status Predict(const std::string& path, const ModelAndDataFlags& use,
               const AnomalyFlags& anomaly, const std::string& out) {
  RINGLET_RETURN_IF_ERROR(CheckWritable("--out", out));
  std::unique_ptr<Model> model;
  Dataset batches;
  RINGLET_RETURN_IF_ERROR(use.Open(path, out, &model, &batches));
  if (anomaly.wanted()) {
    Anomalies anomalies;
    RINGLET_RETURN_IF_ERROR(
        anomaly.Score(model.get(), path, use, batches, out, &anomalies));
    RINGLET_RETURN_IF_ERROR(WriteAnomalies(anomalies, out));
    const auto count = static_cast<int64_t>(anomalies.scores.size());
    if (!out.empty()) PrintWritten(out, WithExampleCount("the scores", count));
    return Status();
  }
  if (EndsWith(out, ".npy") && model->num_outputs() > 1) {
    return InvalidArgument(
        "--out %s: the model has %d outputs; give FILE.npz, with an array for "
        "each, or FILE.csv",
        out.c_str(), model->num_outputs());
  }
  const Result<std::vector<float>> values = model->Predict(batches);
  RINGLET_RETURN_IF_ERROR(values.status());
  const std::vector<Output> outputs = SplitOutputs(*model, values.value());
  if (out.empty()) return WriteCsvToStdout(*model, outputs, batches);
  RINGLET_RETURN_IF_ERROR(WriteFile(*model, outputs, batches, out));
  PrintWritten(out, WithExampleCount("the outputs", outputs[0].shape[0]));
  return Status();
}

}  // namespace

int PredictCommand(const std::vector<std::string>& line) {
  ModelAndDataFlags use;
  AnomalyFlags anomaly;
  std::string out;
  CommandLine flags("predict", "MODEL [PICTURE...]", kAbout, kMore);
  use.Add(&flags, /*labels=*/false);
  flags.Text("-o, --out", "FILE", &out,
             "FILE.npy, FILE.csv, or FILE.npz with an array for each\n"
             "output (default: CSV on stdout)");
  anomaly.Add(&flags);
  int code = 0;
  if (!flags.Parse(line, 1, kMaxPictures, &code)) return code;
  use.set_more_images({flags.arguments().begin() + 1, flags.arguments().end()});
  if (use.reads_lines()) {
    if (anomaly.wanted()) {
      return flags.UsageError(
          InvalidArgument("--anomaly needs a file of examples, not --csv -"));
    }
    if (out.empty()) return PredictLines(flags.arguments()[0], use);
    return flags.UsageError(InvalidArgument(
        "--out %s: the answers to --csv - go to stdout", out.c_str()));
  }
  if (!out.empty() && !EndsWith(out, ".npy") && !EndsWith(out, ".csv") &&
      !EndsWith(out, ".npz")) {
    return flags.UsageError(InvalidArgument(
        "--out %s: must end in .npy, .npz or .csv", out.c_str()));
  }
  const Status status = anomaly.Check(out);
  if (!status.ok()) return flags.UsageError(status);
  return InputExitCode(Predict(flags.arguments()[0], use, anomaly, out));
}

}  // namespace ringlet
