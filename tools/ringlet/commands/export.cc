// ringlet export: a model or weights for other programs.

#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "../command_line.h"
#include "../data/anomaly.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/json.h"
#include "core/base/stable_sort.h"
#include "core/base/state_names.h"
#include "core/base/text.h"
#include "core/layers/layer_kind.h"
#include "export_training.h"
#include "io/files/atomic_file.h"
#include "io/files/file_kind.h"
#include "io/files/file_system.h"
#include "io/readers/arrays/npz.h"
#include "io/weights/keras_order.h"
#include "io/weights/lora_alphas.h"
#include "io/weights/model_metadata.h"
#include "io/weights/normalizations.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"
#include "ringlet/export.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// Returns the exported name of a weight: "dense/kernel".
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

// Puts the weights of a model in the order of Keras's get_weights().
void PutInKerasOrder(const Metadata& metadata, std::vector<StateSpan>* spans) {
  const auto json = metadata.find(kModelKey);
  std::unique_ptr<Model> model;
  if (json == metadata.end() || !ModelFromJson(json->second, &model).ok()) {
    return;
  }
  std::map<std::string, size_t> places;
  for (const std::string& layer : LayersInKerasOrder(*model)) {
    places.emplace(layer, places.size());
  }
  const auto place_of = [&](const StateSpan& span) {
    const auto place = places.find(span.name.substr(0, span.name.rfind('/')));
    return place == places.end() ? SIZE_MAX : place->second;
  };
  StableSort(spans, [&](const StateSpan& a, const StateSpan& b) {
    return place_of(a) < place_of(b);
  });
}

struct Exported {
  std::vector<StateSpan> spans;
  std::vector<std::vector<unsigned char>> memory;
  std::string normalizations;  // NormalizationsToJson
  LoraAlphas lora_alphas;
};

Status ReadExported(const std::string& path, bool all, Exported* exported) {
  SafetensorsReader reader;
  RINGLET_RETURN_IF_ERROR(WrongKindError(
      CommandFileSystem(), path, {FileKind::Format::kSafetensors},
      reader.Open(CommandFileSystem(), path)));
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!IsExported(reader, tensor, all)) continue;
    RINGLET_RETURN_IF_ERROR(CheckAddressable(path, tensor));
    const DType dtype = DTypeOf(tensor.storage);
    std::vector<unsigned char> memory(
        SizeOf(dtype) * static_cast<size_t>(tensor.shape.elements()));
    RINGLET_RETURN_IF_ERROR(reader.Read(tensor, memory.data()));
    exported->memory.push_back(std::move(memory));
    exported->spans.push_back({ExportedName(tensor.name, all), dtype,
                               tensor.shape, exported->memory.back().data()});
  }
  PutInKerasOrder(reader.metadata(), &exported->spans);
  RINGLET_RETURN_IF_ERROR(
      ReadLoraAlphas(reader.metadata(), &exported->lora_alphas)
          .Annotate("%s", path.c_str()));
  return FindNormalizationsJson(reader.metadata(), &exported->normalizations)
      .Annotate("%s", path.c_str());
}

Status WriteNpz(const Exported& exported, const std::string& path) {
  NpzWriter writer;
  RINGLET_RETURN_IF_ERROR(writer.Open(PosixFiles(), path));
  for (const StateSpan& span : exported.spans) {
    RINGLET_RETURN_IF_ERROR(
        writer.Add(span.name, span.dtype, span.shape, span.data));
  }
  RINGLET_RETURN_IF_ERROR(writer.Finish());
  if (!exported.lora_alphas.empty()) {
    Notice(
        "note: %s: is without the layers' lora_alpha, with which the matrices "
        "of LoRA count; export a safetensors file to keep it, or give the "
        "layers the same one",
        path.c_str());
  }
  if (exported.normalizations.empty()) return Status();
  Notice(
      "note: %s: is without mean and variance of the model's Normalizations, "
      "which belong to the weights; export a safetensors file to keep them, or "
      "set them in the layers",
      path.c_str());
  return Status();
}

Status WriteSafetensors(const Exported& exported, const std::string& path) {
  SafetensorsWriter writer;
  SafetensorsWriter::Options plain;
  plain.profile = false;
  Metadata metadata;
  if (!exported.normalizations.empty()) {
    metadata[kNormalizationsKey] = exported.normalizations;
  }
  AddLoraAlphas(exported.lora_alphas, &metadata);
  RINGLET_RETURN_IF_ERROR(writer.Plan(exported.spans, metadata, plain));
  return writer.WriteFile(PosixFiles(), path);
}

// Replaces the weights that are in the file of --init, such as weights that a C
// file has trained.
Status LoadSomeWeights(const InitFlags& init, Model* model) {
  if (!init.layout.empty() || init.by_name || init.skip_mismatch) {
    return InvalidArgument(
        "--init-layout, --by-name and --skip-mismatch are for a RUN.json, and "
        "--init of a model is a file of ringlet");
  }
  LoadWeightsOptions options;
  options.by_name = options.partial_layers = true;
  options.files = CommandFileSystem();
  options.warn = [](const std::string&) {};
  WeightsReport report;
  RINGLET_RETURN_IF_ERROR(
      LoadWeights(model, init.path, options, &report).Annotate("--init"));
  if (!report.loaded.empty() && report.unexpected.empty()) return Status();
  return InvalidArgument("--init %s: has weights that the model lacks, or none",
                         init.path.c_str());
}

// Opens a saved model, or the model of a RUN.json with the weights of `init`.
// The arguments of Compile have no effect on an export. *compiled becomes true
// if the file had an optimizer and a loss.
Status OpenModel(const std::string& path, const InitFlags& init,
                 std::unique_ptr<Model>* model, bool* compiled) {
  if (!EndsWith(path, ".json")) {
    RINGLET_RETURN_IF_ERROR(LoadModel(path, model, {}, CommandFileSystem()));
    *compiled = (*model)->compiled();
    if (!*compiled) (*model)->Compile(SGD(), MeanSquaredError());
    RINGLET_RETURN_IF_ERROR((*model)->status());
    return init.path.empty() ? Status() : LoadSomeWeights(init, model->get());
  }
  *compiled = true;
  if (init.path.empty()) {
    return InvalidArgument(
        "%s: is a RUN.json, without a trained model; give --init WEIGHTS",
        path.c_str());
  }
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(path, &config));
  RINGLET_RETURN_IF_ERROR(MakeModel(&config, init, nullptr));
  *model = std::move(config.model);
  return CopyDescriptionOfInitFile(init, model->get());
}

// Prints "loss 0.3121 -> 0.3134, accuracy 0.891 -> 0.8904" on stderr.
void PrintReport(const Int8Report& report) {
  std::string text;
  for (const auto& [name, before] : report.before.entries()) {
    const double* const after = report.after.Find(name);
    if (after == nullptr) continue;
    text += FormatText("%s%.64s %.4g -> %.4g", text.empty() ? "" : ", ",
                       name.c_str(), before, *after);
  }
  if (!text.empty()) Notice("int8: %s", text.c_str());
}

// Calibrates with the data of a RUN.json: the RUN.json of the model, or another
// one.
Status ExportInt8(const std::string& run, const std::string& to,
                  ExportCOptions options, std::unique_ptr<Model> model) {
  RunConfig config;
  RINGLET_RETURN_IF_ERROR(ReadRunConfig(run, &config));
  config.model = std::move(model);
  LeaveOutChanges(&config.train.pictures);
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

Status WriteJson(const Model& model, const std::string& path) {
  return WriteWholeFile(PosixFiles(), path, ToJson(model));
}

// The formats of a whole model, and what each is called when it is written.
const char* WholeModelText(const std::string& format, bool int8) {
  if (format == "onnx") return "the model as ONNX";
  if (format == "json") return "the model's layers as Keras's JSON";
  if (format == "model") return "the model";
  if (format != "c") return nullptr;
  return int8 ? "the model as C, int8" : "the model as C";
}

// Prints a line with the layers of augmentation, which ONNX and C are without.
// (A RandomCrop cuts out the middle outside of training.)
void PrintWithout(const Model& model, const std::string& path) {
  std::string names;
  std::set<std::string> seen;
  for (int i = 0; i < model.num_nodes(); ++i) {
    const Layer& layer = model.layer(i);
    const std::string name = ClassName(layer);
    if (!StartsWith(name, "Random") || layer.kind == Layer::Kind::kRandomCrop ||
        !seen.insert(name).second) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty()) return;
  Notice("note: %s: is without the layers that only training uses: %s",
         path.c_str(), names.c_str());
}

struct ExportFlags {
  std::string format, out, quantize, data, name, score;
  bool all = false, softmax = false, preprocessing = false, anomaly = false;
  InitFlags init;
  ExportTrainingFlags training;
};

Status ExportModel(const std::string& from, const ExportFlags& flags) {
  std::unique_ptr<Model> model;
  bool compiled = false;
  RINGLET_RETURN_IF_ERROR(OpenModel(from, flags.init, &model, &compiled));
  const bool is_whole = flags.format == "json" || flags.format == "model";
  if (!is_whole) PrintWithout(*model, flags.out);
  Status written;
  if (flags.format == "onnx") {
    ExportOnnxOptions options;
    options.softmax = flags.softmax;
    const DataDescription* const data = model->data_description();
    if (data != nullptr && !data->classes.empty()) {
      options.metadata["class_names"] = JsonWriter().List(data->classes).text();
    }
    written = ExportOnnx(model.get(), flags.out, options);
  } else if (flags.format == "json") {
    written = WriteJson(*model, flags.out);
  } else if (flags.format == "model") {
    SaveModelOptions options;
    options.include_optimizer = compiled;
    written = SaveModel(model.get(), flags.out, options);
  } else {
    ExportCOptions options;
    options.softmax = flags.softmax;
    if (!flags.name.empty()) options.name = flags.name;
    options.with_preprocessing = flags.preprocessing;
    if (!flags.training.layers.empty()) {
      RINGLET_RETURN_IF_ERROR(flags.training.Compile(compiled, model.get(),
                                                     &options.frozen_weights));
      options.train_batch = std::max<int64_t>(1, flags.training.batch);
    }
    if (flags.anomaly) {
      RINGLET_RETURN_IF_ERROR(ReadScore(flags.score, &options.anomaly_score));
    }
    written = flags.quantize.empty()
                  ? ExportC(model.get(), flags.out, options)
                  : ExportInt8(flags.data.empty() ? from : flags.data,
                               flags.out, options, std::move(model));
  }
  RINGLET_RETURN_IF_ERROR(written);
  PrintWritten(flags.out,
               WholeModelText(flags.format, !flags.quantize.empty()));
  return Status();
}

Status ExportWeights(const std::string& from, const ExportFlags& flags) {
  Exported exported;
  RINGLET_RETURN_IF_ERROR(ReadExported(from, flags.all, &exported));
  RINGLET_RETURN_IF_ERROR(flags.format == "npz"
                              ? WriteNpz(exported, flags.out)
                              : WriteSafetensors(exported, flags.out));
  const size_t arrays = exported.spans.size();
  PrintWritten(flags.out, std::to_string(arrays) +
                              (arrays == 1 ? " array as " : " arrays as ") +
                              flags.format);
  return Status();
}

// A given flag that only --format c has; null if there is none.
const char* FlagForC(const ExportFlags& f) {
  if (!f.name.empty()) return "--name";
  if (f.preprocessing) return "--with-preprocessing";
  if (f.anomaly) return "--anomaly";
  return f.training.layers.empty() ? nullptr : "--train";
}

// Checks for flags that exclude each other.
Status CheckFlags(const ExportFlags& f, const std::string& from) {
  const bool is_whole_model =
      WholeModelText(f.format, /*int8=*/false) != nullptr;
  if (!is_whole_model && f.format != "npz" && f.format != "safetensors") {
    return InvalidArgument(
        "the format is '%s'; give --format onnx, c, json, model, npz or "
        "safetensors",
        Printable(f.format).c_str());
  }
  const char* const not_of_it =
      is_whole_model && f.all                              ? "--all"
      : f.softmax && f.format != "onnx" && f.format != "c" ? "--softmax"
      : !is_whole_model && !f.init.path.empty()            ? "--init"
                                                           : nullptr;
  if (not_of_it != nullptr) {
    return InvalidArgument("%s does not go with --format %s", not_of_it,
                           f.format.c_str());
  }
  const char* const for_c = FlagForC(f);
  if (for_c != nullptr && f.format != "c") {
    return InvalidArgument("%s needs --format c, not %s", for_c,
                           f.format.c_str());
  }
  const char* const needs_train = f.training.FlagWithoutTrain();
  if (needs_train != nullptr) {
    return InvalidArgument("%s needs --train", needs_train);
  }
  if (!f.anomaly && !f.score.empty()) {
    return InvalidArgument("--score needs --anomaly");
  }
  ReconstructionError error;
  RINGLET_RETURN_IF_ERROR(ReadScore(f.score, &error));
  if (f.quantize.empty() && f.data.empty()) return Status();
  if (f.quantize.empty())
    return InvalidArgument("--data needs --quantize int8");
  if (f.quantize != "int8") {
    return InvalidArgument("--quantize %s: must be int8",
                           Printable(f.quantize).c_str());
  }
  if (f.format != "c") {
    return InvalidArgument("--quantize needs --format c, not %s",
                           f.format.c_str());
  }
  if (!f.data.empty() || EndsWith(from, ".json")) return Status();
  return InvalidArgument(
      "--quantize int8 needs examples: give --data RUN.json");
}

void AddFlags(ExportFlags* f, CommandLine* flags) {
  flags->Text("--format", "NAME", &f->format,
              "onnx, c or model for the model, json for its layers, npz\n"
              "(numpy) or safetensors for weights (default: the ending of\n"
              "--out)");
  flags->Text("-o, --out", "FILE", &f->out, "the file to write");
  flags->Switch("--all", &f->all,
                "for weights: all tensors with their full names, also\n"
                "the optimizer's state");
  flags->Switch("--softmax", &f->softmax,
                "for a model with logits as output: append a softmax");
  flags->Text("--name", "NAME", &f->name,
              "for C: prefix of the functions' names (model), for a\n"
              "program with several models");
  flags->Switch("--with-preprocessing", &f->preprocessing,
                "for C: the functions take values as in the training data's\n"
                "files, and apply its scale and offset");
  flags->Switch("--anomaly", &f->anomaly,
                "for C: a function for the anomaly score of an autoencoder");
  flags->Text("--score", "NAME", &f->score, kScoreHelp);
  flags->Text("--quantize", "int8", &f->quantize,
              "for C: integers instead of floats, a quarter of the size;\n"
              "with --train: in the layers before the first trained one");
  flags->Text("--data", "RUN.json", &f->data,
              "for --quantize: data.train gives the ranges of numbers,\n"
              "and the models before and after are compared on\n"
              "data.validation");
  f->training.Add(flags);
  f->init.Add(flags,
              "if FILE is a RUN.json: its weights, in safetensors,\n"
              "npz, ONNX, or a model.json of TensorFlow.js;\n"
              "in a folder: its newest model. If FILE is a model: a file\n"
              "of some weights, such as those that C has trained");
}

}  // namespace

int ExportCommand(const std::vector<std::string>& line) {
  ExportFlags f;
  CommandLine flags(
      "export", "FILE",
      "Writes a saved model for other programs, or the weights of a model, a\n"
      "backup or a file of weights. An ONNX file is a whole model for ONNX\n"
      "Runtime and OpenCV, a C file one for boards without an operating "
      "system.\n"
      "A json file has the layers alone, as Keras's to_json.\n"
      "npz and safetensors files have the weights alone, in Keras's layout,\n"
      "with names such as \"dense/kernel\".\n",
      "\nExamples: ringlet export model.safetensors --out model.onnx\n"
      "ringlet export model.safetensors --format npz --out w.npz\n"
      "and in Python: numpy.load(\"w.npz\")[\"dense/kernel\"]\n");
  AddFlags(&f, &flags);
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
  if (status.ok() && NameOneFile(from, f.out)) {
    status = InvalidArgument(
        "--out %s: is the file itself, which holds more than is exported; give "
        "another name",
        f.out.c_str());
  }
  if (status.ok()) status = f.init.ChooseNewest();
  if (status.ok()) {
    status = CheckNotRead("--out", f.out, {f.init.path, f.data});
  }
  if (!status.ok()) return InputExitCode(status);
  const bool is_whole_model =
      WholeModelText(f.format, /*int8=*/false) != nullptr;
  return InputExitCode(is_whole_model ? ExportModel(from, f)
                                      : ExportWeights(from, f));
}

}  // namespace ringlet
