// ringlet inspect, diff and export: files of weights.

#include <algorithm>
#include <cstdio>
#include <utility>

#include "command_line.h"
#include "commands.h"
#include "core/base/json.h"
#include "core/base/message.h"
#include "core/base/text.h"
#include "io/checkpoint/inspect.h"
#include "io/checkpoint/model_file.h"
#include "io/checkpoint/safetensors.h"
#include "io/data/npz.h"
#include "io/deploy/c_file.h"
#include "io/deploy/onnx_file.h"
#include "io/files/file_kind.h"
#include "io/files/file_system.h"
#include "run.h"
#include "trails.h"

namespace ringlet {
namespace {

Status Inspect(const std::string& path, bool json) {
  FileInfo info;
  RINGLET_RETURN_IF_ERROR(InspectFile(path, &info, Disk()));
  const std::string text = json ? ToJson(info) : ToText(info);
  std::printf("%s%s", text.c_str(),
              text.empty() || text.back() != '\n' ? "\n" : "");
  if (info.verification != Verification::kDamaged) return Status();
  return Corruption("%s: %s; take another copy of it", path.c_str(),
                    info.damage.c_str());
}

// Weights by the names that a layer has: "dense/kernel".
std::string ExportedName(const std::string& name, bool all) {
  return all ? name : WithoutPrefix(name, kWeightsPrefix);
}

bool IsExported(const SafetensorsReader& reader, const StoredTensor& tensor,
                bool all) {
  if (all) return true;
  for (const StoredTensor& other : reader.tensors()) {
    if (StartsWith(other.name, kWeightsPrefix)) {
      return StartsWith(tensor.name, kWeightsPrefix);
    }
  }
  return true;  // a plain file
}

struct Exported {
  std::vector<StateSpan> spans;
  std::vector<std::vector<unsigned char>> memory;
};

Status ReadExported(const std::string& path, bool all, Exported* exported) {
  SafetensorsReader reader;
  RINGLET_RETURN_IF_ERROR(OtherKind(Disk(), path,
                                    {FileKind::Format::kSafetensors},
                                    reader.Open(Disk(), path)));
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!IsExported(reader, tensor, all)) continue;
    const DType dtype = DTypeOf(tensor.storage);
    std::vector<unsigned char> memory(
        SizeOf(dtype) * static_cast<size_t>(tensor.shape.elements()));
    RINGLET_RETURN_IF_ERROR(reader.Read(tensor, memory.data()));
    exported->memory.push_back(std::move(memory));
    exported->spans.push_back({ExportedName(tensor.name, all), dtype,
                               tensor.shape, exported->memory.back().data()});
  }
  return Status();
}

Status WriteNpz(const Exported& exported, const std::string& path) {
  NpzWriter writer;
  RINGLET_RETURN_IF_ERROR(writer.Open(FileSystem::Posix(), path));
  for (const StateSpan& span : exported.spans) {
    RINGLET_RETURN_IF_ERROR(
        writer.Add(span.name, span.dtype, span.shape, span.data));
  }
  return writer.Finish();
}

Status WriteSafetensors(const Exported& exported, const std::string& path) {
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  RINGLET_RETURN_IF_ERROR(writer.Plan(exported.spans, {}, plain));
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(
      file.Open(FileSystem::Posix(), path, writer.file_bytes()));
  RINGLET_RETURN_IF_ERROR(writer.Write(file.file()));
  return file.Commit();
}

// A saved model, or that of a RUN.json with the weights of `init`; how it was
// compiled does not matter.
Status OpenModel(const std::string& path, const InitFlags& init,
                 std::unique_ptr<Model>* model) {
  if (!EndsWith(path, ".json")) {
    if (!init.path.empty()) {
      return InvalidArgument("--init is of a RUN.json, and %s is a model",
                             path.c_str());
    }
    RINGLET_RETURN_IF_ERROR(LoadModel(path, model, {}, Disk()));
    if ((*model)->compiled()) return Status();
    (*model)->Compile(SGD(), MeanSquaredError());
    return (*model)->status();
  }
  if (init.path.empty()) {
    return InvalidArgument(
        "%s: is a RUN.json, whose model is not trained; give --init WEIGHTS",
        path.c_str());
  }
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, init, nullptr));
  *model = std::move(config.model);
  return Status();
}

// "loss 0.3121 -> 0.3134, accuracy 0.891 -> 0.8904", on stderr.
void PrintReport(const Int8Report& report) {
  std::string text;
  for (const auto& [name, before] : report.before.entries()) {
    const double* const after = report.after.Find(name);
    if (after == nullptr) continue;
    char entry[128];
    std::snprintf(entry, sizeof(entry), "%s%.64s %.4g -> %.4g",
                  text.empty() ? "" : ", ", name.c_str(), before, *after);
    text += entry;
  }
  if (!text.empty()) Notice("int8: %s", text.c_str());
}

// By the data of a RUN.json, which is the model's own or another one.
Status ExportInt8(const std::string& run, const std::string& to,
                  ExportCOptions options, std::unique_ptr<Model> model) {
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(run, &config));
  config.model = std::move(model);
  RunData data;
  RINGLET_RETURN_IF_ERROR(
      OpenRunData(config, 1, &data).Annotate("%s", run.c_str()));
  RINGLET_RETURN_IF_ERROR(CheckNotData("--out", to, config.train));
  RINGLET_RETURN_IF_ERROR(CheckNotData("--out", to, config.validation));
  options.calibration = data.train;
  options.test = data.validation;
  Int8Report report;
  RINGLET_RETURN_IF_ERROR(ExportC(config.model.get(), to, options, &report));
  PrintReport(report);
  return Status();
}

struct ExportFlags {
  std::string format, out, quantize, data;
  bool all = false, softmax = false;
  InitFlags init;
};

Status ExportModel(const std::string& from, const ExportFlags& flags) {
  std::unique_ptr<Model> model;
  RINGLET_RETURN_IF_ERROR(OpenModel(from, flags.init, &model));
  if (flags.format == "c") {
    ExportCOptions options;
    options.softmax = flags.softmax;
    if (flags.quantize.empty()) return ExportC(model.get(), flags.out, options);
    return ExportInt8(flags.data.empty() ? from : flags.data, flags.out,
                      options, std::move(model));
  }
  ExportOnnxOptions options;
  options.softmax = flags.softmax;
  return ExportOnnx(model.get(), flags.out, options);
}

Status ExportWeights(const std::string& from, const std::string& to,
                     const std::string& format, bool all) {
  Exported exported;
  RINGLET_RETURN_IF_ERROR(ReadExported(from, all, &exported));
  return format == "npz" ? WriteNpz(exported, to)
                         : WriteSafetensors(exported, to);
}

}  // namespace

int InspectCommand(const std::vector<std::string>& line) {
  bool json = false, verbose = false;
  CommandLine flags(
      "inspect", "FILE...",
      "Shows layers, tensors and metadata of a safetensors file, ringlet's or\n"
      "plain, or of numpy's npz or npy, and verifies it: every byte, by its\n"
      "checksums. Of trails (ringlet train --trail), those of all workers of "
      "a\n"
      "job together, it says who waited for whom, who was lost, and how each\n"
      "ended. Of any other file it says what it is.\n",
      "\nExit code: 1 where a file is damaged.\n");
  flags.Switch("--json", &json, "all of it as JSON; not of trails");
  flags.Switch("--verbose", &verbose, "of trails: each event");
  int code = 0;
  if (!flags.Parse(line, 1, SIZE_MAX, &code)) return code;
  const std::vector<std::string>& files = flags.arguments();
  // One is enough: what is empty or damaged beside it hides no other.
  const bool trails = std::any_of(files.begin(), files.end(), IsTrailFile);
  if (trails && !json) return InspectTrails(files, verbose);
  if (files.size() > 1 || trails || verbose) {
    return flags.UsageError(
        InvalidArgument("several files, and --verbose, are for trails of "
                        "workers; others one by one, and --json is for those"));
  }
  return InputExitCode(Inspect(files[0], json));
}

int DiffCommand(const std::vector<std::string>& line) {
  bool json = false;
  CommandLine flags(
      "diff", "A B",
      "Compares two files of safetensors, npz or npy: metadata, and tensors "
      "by\n"
      "name, bit for bit.\n",
      "\nExit code: 0 where they are the same, 1 where they differ.\n");
  flags.Switch("--json", &json, "as JSON");
  int code = 0;
  if (!flags.Parse(line, 2, 2, &code)) return code;
  FileComparison comparison;
  const Status status =
      CompareFiles(flags.arguments()[0], flags.arguments()[1], &comparison,
                   FileComparison::kMostListed, Disk());
  if (!status.ok()) return InputExitCode(status);
  const std::string text = json ? ToJson(comparison) : ToText(comparison);
  std::printf("%s%s", text.c_str(),
              text.empty() || text.back() != '\n' ? "\n" : "");
  return comparison.same() ? 0 : 1;
}

namespace {

// What does not go together.
Status CheckFlags(const ExportFlags& f, const std::string& from) {
  const bool whole = f.format == "onnx" || f.format == "c";
  if (!whole && f.format != "npz" && f.format != "safetensors") {
    return InvalidArgument(
        "the format is '%s'; give --format onnx, c, npz or safetensors",
        Printable(f.format).c_str());
  }
  if (whole ? f.all : f.softmax || !f.init.path.empty()) {
    return InvalidArgument("%s is not of the format %s",
                           whole       ? "--all"
                           : f.softmax ? "--softmax"
                                       : "--init",
                           f.format.c_str());
  }
  if (f.quantize.empty() && f.data.empty()) return Status();
  if (f.quantize.empty()) return InvalidArgument("--data is of --quantize");
  if (f.quantize != "int8") {
    return InvalidArgument("--quantize %s: is not int8",
                           Printable(f.quantize).c_str());
  }
  if (f.format != "c") {
    return InvalidArgument("--quantize is of the format c, not %s",
                           f.format.c_str());
  }
  if (!f.data.empty() || EndsWith(from, ".json")) return Status();
  return InvalidArgument(
      "--quantize int8 needs examples: give --data RUN.json");
}

}  // namespace

int ExportCommand(const std::vector<std::string>& line) {
  ExportFlags f;
  CommandLine flags(
      "export", "FILE",
      "Writes a saved model, or the weights of one, of a backup or of a file\n"
      "of weights, for other programs. ONNX holds the whole model, as ONNX\n"
      "Runtime and OpenCV run it, and so does a C file, for what has no\n"
      "operating system; npz and safetensors hold the weights alone, named as\n"
      "\"dense/kernel\", in Keras's layout.\n",
      "\nExamples: ringlet export model.safetensors --out model.onnx\n"
      "ringlet export model.safetensors --format npz --out w.npz\n"
      "and in Python: numpy.load(\"w.npz\")[\"dense/kernel\"]\n");
  flags.Text("--format", "NAME", &f.format,
             "onnx or c (the model), npz (numpy) or safetensors (plain)\n"
             "weights; without it, as --out ends");
  flags.Text("-o, --out", "FILE", &f.out, "the file to write");
  flags.Switch("--all", &f.all,
               "of weights: everything, under the names it has: the\n"
               "optimizer's state and what else a backup holds");
  flags.Switch("--softmax", &f.softmax,
               "of a model: a softmax behind a model that ends in logits");
  flags.Text("--quantize", "int8", &f.quantize,
             "of C: whole numbers in place of floats, a quarter of the size");
  flags.Text("--data", "RUN.json", &f.data,
             "of --quantize: its data.train say which numbers occur, and\n"
             "on its data.validation the model is measured before and after");
  f.init.Add(&flags,
             "of a model, where FILE is a RUN.json: the weights to use,\n"
             "safetensors, npz or ONNX");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  const std::string& from = flags.arguments()[0];
  if (f.out.empty()) {
    return flags.UsageError(InvalidArgument("--out is missing"));
  }
  if (f.format.empty()) f.format = f.out.substr(f.out.rfind('.') + 1);
  Status status = CheckFlags(f, from);
  if (!status.ok()) return flags.UsageError(status);
  status = CheckWritable("--out", f.out);
  if (status.ok() && IsSameFile(from, f.out)) {
    status = InvalidArgument(
        "--out %s: is the file itself, which holds more than is exported; give "
        "another name",
        f.out.c_str());
  }
  if (!status.ok()) return InputExitCode(status);
  const bool whole = f.format == "onnx" || f.format == "c";
  return InputExitCode(whole ? ExportModel(from, f)
                             : ExportWeights(from, f.out, f.format, f.all));
}

}  // namespace ringlet
