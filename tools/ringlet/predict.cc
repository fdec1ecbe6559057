// ringlet predict: a trained model's outputs.

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "command_line.h"
#include "commands.h"
#include "core/base/text.h"
#include "io/data/npy.h"
#include "run.h"
#include "use.h"

namespace ringlet {
namespace {

// A row an example, each number the shortest that reads back the same.
Status WriteCsv(const std::vector<float>& values, int64_t width, FILE* file,
                const std::string& path) {
  std::string row;
  int64_t column = 0;
  for (const float value : values) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value);
    // Machines differ in the sign of a NaN.
    row += std::isnan(value) ? "nan" : std::string(digits, end.ptr);
    row += ++column == width ? '\n' : ',';
    if (column < width) continue;
    column = 0;
    if (std::fwrite(row.data(), 1, row.size(), file) != row.size()) {
      return OsError(errno, "%s: writing", path.c_str());
    }
    row.clear();
  }
  return Status();
}

Status WriteCsvFile(const std::vector<float>& values, int64_t width,
                    const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return OsError(errno, "%s", path.c_str());
  const Status status = WriteCsv(values, width, file, path);
  if (std::fclose(file) == 0 || !status.ok()) return status;
  return OsError(errno, "%s: writing", path.c_str());
}

Status Predict(const std::string& path, const UseFlags& use,
               const std::string& out) {
  RINGLET_RETURN_IF_ERROR(CheckWritable("--out", out));
  std::unique_ptr<Model> model;
  Dataset batches;
  RINGLET_RETURN_IF_ERROR(use.Open(path, out, &model, &batches));
  const Result<std::vector<float>> outputs = model->Predict(batches);
  RINGLET_RETURN_IF_ERROR(outputs.status());
  const Shape one = model->output_shape();
  if (out.empty()) {
    return WriteCsv(outputs.value(), one.elements(), stdout, "stdout");
  }
  if (EndsWith(out, ".csv")) {
    return WriteCsvFile(outputs.value(), one.elements(), out);
  }
  Shape all;
  all.Append(static_cast<int64_t>(outputs->size()) / one.elements());
  for (int i = 0; i < one.rank(); ++i) all.Append(one[i]);
  return WriteNpy(out, DType::kFloat32, all, outputs->data());
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
             "FILE.npy or FILE.csv; without it CSV on stdout");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  if (!out.empty() && !EndsWith(out, ".npy") && !EndsWith(out, ".csv")) {
    return flags.UsageError(
        InvalidArgument("--out %s: must end in .npy or .csv", out.c_str()));
  }
  return InputExitCode(Predict(flags.arguments()[0], use, out));
}

}  // namespace ringlet
