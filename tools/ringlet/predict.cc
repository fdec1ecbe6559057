// ringlet predict: a trained model's outputs.

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>

#include "command_line.h"
#include "commands.h"
#include "core/base/number_text.h"
#include "core/base/text.h"
#include "io/readers/csv_records.h"
#include "io/readers/npz.h"
#include "ringlet/readers.h"
#include "run.h"
#include "use.h"

namespace ringlet {
namespace {

// The values of one output.
struct Output {
  std::string name;
  Shape shape;  // its first axis is the number of examples
  const float* values = nullptr;
};

// Splits the result of Model::Predict, which has one output after another.
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

// Names the class of an example and its probability, by outputs that are
// probabilities or their logits. A single output is of class 1 of two.
class ClassNamer {
 public:
  // Names none unless the model knows its classes and was trained by a
  // crossentropy.
  explicit ClassNamer(const Model& model) {
    const DataDescription* const data = model.data_description();
    if (data == nullptr || model.num_outputs() != 1) return;
    const Activation activation = model.loss().logits_activation();
    if (activation != kSoftmax && activation != kSigmoid) return;
    const Layer& layer = model.layer(model.output_node(0));
    const Activation last =
        layer.kind == Layer::Kind::kSoftmax ? kSoftmax : layer.activation;
    if (last != activation && !model.loss().from_logits) return;
    to_probabilities_ = last == activation ? kLinear : activation;
    width_ = model.output_shape().elements();
    const auto classes = static_cast<int64_t>(data->classes.size());
    const bool fits = activation == kSigmoid ? width_ == 1 && classes == 2
                                             : width_ > 1 && classes <= width_;
    // An example of several positions has a class for each.
    if (!fits || classes == 0 || model.output_shape().rank() != 1) return;
    names_ = data->classes;
    // Units without a class in the training data.
    for (int64_t i = classes; i < width_; ++i) {
      names_.push_back("unit " + std::to_string(i));
    }
  }
  bool names() const { return !names_.empty(); }

  // "class,probability" and a name for each value.
  std::string Head() const {
    std::string head = "class,probability";
    for (size_t i = width_ == 1 ? 1 : 0; i < names_.size(); ++i) {
      head += "," + CsvField(names_[i], ',');
    }
    return head + "\n";
  }
  // "Gentoo,0.97".
  std::string Name(const float* values) const {
    std::vector<double> p(values, values + width_);
    if (to_probabilities_ == kSigmoid) p[0] = 1 / (1 + std::exp(-p[0]));
    if (to_probabilities_ == kSoftmax) ApplySoftmax(&p);
    if (width_ == 1) p = {1 - p[0], p[0]};
    const auto best = std::max_element(p.begin(), p.end());
    const auto number = static_cast<size_t>(best - p.begin());
    const auto probability = static_cast<float>(*best);
    return CsvField(names_[number], ',') + "," +
           (std::isnan(probability) ? "nan" : ShortestText(probability));
  }

 private:
  static void ApplySoftmax(std::vector<double>* p) {
    const double most = *std::max_element(p->begin(), p->end());
    double sum = 0;
    for (double& each : *p) sum += each = std::exp(each - most);
    for (double& each : *p) each /= sum;
  }

  std::vector<std::string> names_;  // of the classes by number; empty: none
  int64_t width_ = 0;               // outputs of an example
  Activation to_probabilities_ = kLinear;
};

// Writes a row with all outputs for each example, behind the name of its class.
// Numbers have the fewest digits that read back exactly.
Status WriteCsv(const Model& model, const std::vector<Output>& outputs,
                FILE* file, const std::string& path) {
  const ClassNamer namer(model);
  std::string row;
  if (namer.names()) {
    row = namer.Head();
    if (std::fwrite(row.data(), 1, row.size(), file) != row.size()) {
      return OsError(errno, "%s: writing", path.c_str());
    }
  }
  for (int64_t example = 0; example < outputs[0].shape[0]; ++example) {
    row.clear();
    for (const Output& output : outputs) {
      const int64_t width = output.shape.elements() / output.shape[0];
      if (namer.names()) {
        row = namer.Name(output.values + example * width);
      }
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

Status WriteCsvFile(const Model& model, const std::vector<Output>& outputs,
                    const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return OsError(errno, "%s", path.c_str());
  const Status status = WriteCsv(model, outputs, file, path);
  if (std::fclose(file) == 0 || !status.ok()) return status;
  return OsError(errno, "%s: writing", path.c_str());
}

Status WriteFile(const Model& model, const std::vector<Output>& outputs,
                 const std::string& path) {
  if (EndsWith(path, ".csv")) return WriteCsvFile(model, outputs, path);
  if (EndsWith(path, ".npz")) return WriteNpz(outputs, path);
  return WriteNpy(path, DType::kFloat32, outputs[0].shape, outputs[0].values);
}

Status Predict(const std::string& path, const UseFlags& use,
               const std::string& out) {
  RINGLET_RETURN_IF_ERROR(CheckWritable("--out", out));
  std::unique_ptr<Model> model;
  Dataset batches;
  RINGLET_RETURN_IF_ERROR(use.Open(path, out, &model, &batches));
  if (EndsWith(out, ".npy") && model->num_outputs() > 1) {
    return InvalidArgument(
        "--out %s: the model has %d outputs; give FILE.npz, with an array for "
        "each, or FILE.csv",
        out.c_str(), model->num_outputs());
  }
  const Result<std::vector<float>> values = model->Predict(batches);
  RINGLET_RETURN_IF_ERROR(values.status());
  const std::vector<Output> outputs = OutputsOf(*model, values.value());
  if (out.empty()) return WriteCsv(*model, outputs, stdout, "stdout");
  RINGLET_RETURN_IF_ERROR(WriteFile(*model, outputs, out));
  const int64_t examples = outputs[0].shape[0];
  PrintWritten(out, "the outputs of " + std::to_string(examples) +
                        (examples == 1 ? " example" : " examples"));
  return Status();
}

}  // namespace

int PredictCommand(const std::vector<std::string>& line) {
  UseFlags use;
  std::string out;
  CommandLine flags("predict", "MODEL",
                    "Writes a saved model's outputs for data, in their order. "
                    "Labels are not\nneeded; a CSV's column of labels is "
                    "ignored.\n",
                    "\nExample: ringlet predict model.safetensors --x x.npy "
                    "--out y.npy\n");
  use.Add(&flags, /*labels=*/false);
  flags.Text("-o, --out", "FILE", &out,
             "FILE.npy, FILE.csv, or FILE.npz with an array for each\n"
             "output (default: CSV on stdout)");
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
