// ringlet predict: a trained model's outputs.

#include <cerrno>
#include <cmath>
#include <cstdio>

#include "command_line.h"
#include "commands.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "io/data/npz.h"
#include "io/data/readers.h"
#include "run.h"
#include "use.h"

namespace ringlet {
namespace {

// What the model has given of one output.
struct Output {
  std::string name;
  Shape shape;  // the examples' number first
  const float* values = nullptr;
};

// Of Model::Predict: one output after another.
std::vector<Output> OutputsOf(const Model& model,
                              const std::vector<float>& values) {
  std::vector<Output> outputs(static_cast<size_t>(model.num_outputs()));
  int64_t width = 0;
  const auto shape_of = [&](size_t k) {
    return model.output_shape(model.output_node(static_cast<int>(k)));
  };
  for (size_t k = 0; k < outputs.size(); ++k) width += shape_of(k).elements();
  const float* at = values.data();
  for (size_t k = 0; k < outputs.size(); ++k) {
    Output& output = outputs[k];
    const Shape one = shape_of(k);
    output.name = model.output_name(static_cast<int>(k));
    output.shape.Append(static_cast<int64_t>(values.size()) / width);
    for (int i = 0; i < one.rank(); ++i) output.shape.Append(one[i]);
    output.values = at;
    at += output.shape.elements();
  }
  return outputs;
}

// A row an example, of all outputs, each number the shortest that reads back
// the same.
Status WriteCsv(const std::vector<Output>& outputs, FILE* file,
                const std::string& path) {
  std::string row;
  for (int64_t example = 0; example < outputs[0].shape[0]; ++example) {
    row.clear();
    for (const Output& output : outputs) {
      const int64_t width = output.shape.elements() / output.shape[0];
      for (int64_t i = 0; i < width; ++i) {
        const float value = output.values[example * width + i];
        if (!row.empty()) row += ',';
        // Machines differ in the sign of a NaN.
        row += std::isnan(value) ? "nan" : ShortestText(value);
      }
    }
    row += '\n';
    if (std::fwrite(row.data(), 1, row.size(), file) != row.size()) {
      return OsError(errno, "%s: writing", path.c_str());
    }
  }
  return Status();
}

Status WriteNpz(const std::vector<Output>& outputs, const std::string& path) {
  NpzWriter file;
  RINGLET_RETURN_IF_ERROR(file.Open(FileSystem::Posix(), path));
  for (const Output& output : outputs) {
    RINGLET_RETURN_IF_ERROR(
        file.Add(output.name, DType::kFloat32, output.shape, output.values));
  }
  return file.Finish();
}

Status WriteCsvFile(const std::vector<Output>& outputs,
                    const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return OsError(errno, "%s", path.c_str());
  const Status status = WriteCsv(outputs, file, path);
  if (std::fclose(file) == 0 || !status.ok()) return status;
  return OsError(errno, "%s: writing", path.c_str());
}

Status Predict(const std::string& path, const UseFlags& use,
               const std::string& out) {
  RINGLET_RETURN_IF_ERROR(CheckWritable("--out", out));
  std::unique_ptr<Model> model;
  Dataset batches;
  RINGLET_RETURN_IF_ERROR(use.Open(path, out, &model, &batches));
  if (EndsWith(out, ".npy") && model->num_outputs() > 1) {
    return InvalidArgument(
        "--out %s: the model has %d outputs; give FILE.npz, of an array for "
        "each, or FILE.csv",
        out.c_str(), model->num_outputs());
  }
  const Result<std::vector<float>> values = model->Predict(batches);
  RINGLET_RETURN_IF_ERROR(values.status());
  const std::vector<Output> outputs = OutputsOf(*model, values.value());
  if (out.empty()) return WriteCsv(outputs, stdout, "stdout");
  if (EndsWith(out, ".csv")) return WriteCsvFile(outputs, out);
  if (EndsWith(out, ".npz")) return WriteNpz(outputs, out);
  return WriteNpy(out, DType::kFloat32, outputs[0].shape, outputs[0].values);
}

}  // namespace

int PredictCommand(const std::vector<std::string>& line) {
  UseFlags use;
  std::string out;
  CommandLine flags("predict", "MODEL",
                    "Writes a saved model's outputs for data, in their order. "
                    "Labels are not\nneeded; a CSV's column of labels is "
                    "passed over.\n",
                    "\nExample: ringlet predict model.safetensors --x x.npy "
                    "--out y.npy\n");
  use.Add(&flags, /*labels=*/false);
  flags.Text("-o, --out", "FILE", &out,
             "FILE.npy, FILE.csv, or FILE.npz with an array for each\n"
             "output; without it CSV on stdout");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  if (!out.empty() && !EndsWith(out, ".npy") && !EndsWith(out, ".csv") &&
      !EndsWith(out, ".npz")) {
    return flags.UsageError(InvalidArgument(
        "--out %s: must end in .npy, .npz or .csv", out.c_str()));
  }
  return InputExitCode(Predict(flags.arguments()[0], use, out));
}

}  // namespace ringlet
