// ringlet gather: the mean of what several boards have learnt.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../command_line.h"
#include "../run/run.h"
#include "commands.h"
#include "core/base/number_text.h"
#include "core/base/stable_sort.h"
#include "core/base/state_names.h"
#include "core/base/text.h"
#include "io/files/file_kind.h"
#include "io/weights/safetensors.h"
#include "ringlet/checkpoint.h"
#include "ringlet/model.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Averages what boards have learnt, as federated averaging does: MODEL with the
mean of the weights in the STATEs. A STATE is a file that a C file of the model
has saved (docs/deploy.md), or a model that was trained on from MODEL. The order
of the STATEs has no effect.
)";

constexpr char kMore[] = R"(
Example: ringlet gather model.safetensors board*.state --out new.safetensors
)";

// A product with a float32 is exact.
constexpr double kMostExamples = 1 << 24;

struct BoardState {
  double examples = 1;
  std::vector<std::string> names;
  std::vector<float> weights;      // the weights of all `names`
  std::vector<std::string> slots;  // the names of the other numbers
};

const Variable* Find(const Model& model, const std::string& name) {
  for (const Variable& v : model.variables()) {
    if (kWeightsPrefix + v.path == name) return &v;
  }
  return nullptr;
}

Status OpenState(const std::string& path, SafetensorsReader* reader) {
  RINGLET_RETURN_IF_ERROR(WrongKindError(
      CommandFileSystem(), path, {FileKind::Format::kSafetensors},
      reader->Open(CommandFileSystem(), path)));
  return reader->Verify();
}

Status ReadState(const std::string& path, const Model& model,
                 BoardState* state) {
  SafetensorsReader reader;
  RINGLET_RETURN_IF_ERROR(OpenState(path, &reader));
  for (const StoredTensor& tensor : reader.tensors()) {
    if (!StartsWith(tensor.name, kWeightsPrefix)) {
      state->slots.push_back(tensor.name);
      continue;
    }
    if (tensor.storage != Storage::kF32) {
      return InvalidArgument("%s: weight '%s' is not float32; save it as such",
                             path.c_str(), Printable(tensor.name).c_str());
    }
    const Variable* const v = Find(model, tensor.name);
    if (v == nullptr || v->shape != tensor.shape) {
      return InvalidArgument(
          "%s: the model has no weight '%s' of this shape; give the model that "
          "was exported to the boards",
          path.c_str(), Printable(tensor.name).c_str());
    }
    const size_t begin = state->weights.size();
    state->weights.resize(begin + static_cast<size_t>(v->size()));
    RINGLET_RETURN_IF_ERROR(reader.Read(tensor, &state->weights[begin]));
    for (size_t i = begin; i < state->weights.size(); ++i) {
      if (std::isfinite(state->weights[i])) continue;
      return InvalidArgument("%s: weight '%s' holds %g; leave this file out",
                             path.c_str(), tensor.name.c_str(),
                             static_cast<double>(state->weights[i]));
    }
    state->names.push_back(tensor.name);
  }
  if (!state->names.empty()) return Status();
  return InvalidArgument("%s: has no weights of the model", path.c_str());
}

// "20,35": the examples of each state.
Status ReadExamples(const std::string& text, std::vector<BoardState>* states) {
  if (text.empty()) return Status();
  size_t count = 0;
  for (const std::string& number : SplitAt(text, ',')) {
    double examples = 0;
    if (!ParseDecimal(number, &examples) || examples < 1 ||
        examples > kMostExamples || examples != std::floor(examples)) {
      return InvalidArgument(
          "--examples: must be whole numbers from 1 to %.0f, with commas",
          kMostExamples);
    }
    if (count < states->size()) (*states)[count].examples = examples;
    ++count;
  }
  if (count == states->size()) return Status();
  return InvalidArgument("--examples has %zu numbers for %zu STATEs", count,
                         states->size());
}

// The mean of the states. Puts them in an order that depends on their contents
// alone.
std::vector<float> MeanOf(std::vector<BoardState>* states) {
  StableSort(states, [](const BoardState& a, const BoardState& b) {
    return a.examples != b.examples ? a.examples < b.examples
                                    : a.weights < b.weights;
  });
  double all = 0;
  for (const BoardState& state : *states) all += state.examples;
  std::vector<float> mean;
  for (size_t i = 0; i < (*states)[0].weights.size(); ++i) {
    double sum = -0.0;  // of which the mean of one state has the bits
    for (const BoardState& state : *states) {
      sum += state.examples * static_cast<double>(state.weights[i]);
    }
    mean.push_back(static_cast<float>(sum / all));
  }
  return mean;
}

// Writes a state as `like` with other weights, and with new slots.
Status WriteState(const std::string& like, const std::vector<float>& weights,
                  const std::string& path) {
  SafetensorsReader reader;
  RINGLET_RETURN_IF_ERROR(OpenState(like, &reader));
  std::vector<StateSpan> spans;
  int64_t most = 0, next = 0;
  for (const StoredTensor& tensor : reader.tensors()) {
    if (reader.metadata().size() > 2) {  // the format and its version
      return InvalidArgument(
          "--state is for files that boards have saved, and %s is another one",
          like.c_str());
    }
    most = std::max(most, tensor.bytes);
    spans.push_back(
        {tensor.name, DTypeOf(tensor.storage), tensor.shape, nullptr});
  }
  const std::vector<unsigned char> zeros(static_cast<size_t>(most));
  for (StateSpan& span : spans) {
    if (StartsWith(span.name, kWeightsPrefix)) {
      span.data = const_cast<float*>(weights.data() + next);
      next += span.shape.elements();
    } else {
      span.data = const_cast<unsigned char*>(zeros.data());
    }
  }
  SafetensorsWriter writer;
  RINGLET_RETURN_IF_ERROR(writer.Plan(spans, {}));
  return writer.WriteFile(PosixFiles(), path);
}

Status Gather(const std::vector<std::string>& paths,
              const std::string& examples, const std::string& out,
              const std::string& state) {
  std::unique_ptr<Model> model;
  RINGLET_RETURN_IF_ERROR(LoadModel(paths[0], &model, {}, CommandFileSystem()));
  SaveModelOptions options;
  options.include_optimizer = model->compiled();
  if (!model->compiled()) model->Compile(SGD(), MeanSquaredError());
  RINGLET_RETURN_IF_ERROR(model->status());
  std::vector<BoardState> states(paths.size() - 1);
  RINGLET_RETURN_IF_ERROR(ReadExamples(examples, &states));
  for (size_t i = 0; i < states.size(); ++i) {
    RINGLET_RETURN_IF_ERROR(ReadState(paths[i + 1], *model, &states[i]));
    if (states[i].names != states[0].names) {
      return InvalidArgument("%s: has other weights than %s",
                             paths[i + 1].c_str(), paths[1].c_str());
    }
    if (!state.empty() && states[i].slots != states[0].slots) {
      return InvalidArgument(
          "--state: %s has slots of another optimizer than %s; gather the "
          "states of each C file apart",
          paths[i + 1].c_str(), paths[1].c_str());
    }
  }
  const std::vector<float> mean = MeanOf(&states);
  auto from = mean.begin();
  for (const std::string& name : states[0].names) {
    const Variable& v = *Find(*model, name);
    std::copy_n(from, v.size(), model->weights() + v.offset);
    from += v.size();
  }
  if (!state.empty()) {
    RINGLET_RETURN_IF_ERROR(WriteState(paths[1], mean, state));
    PrintWritten(state, "the boards' new state");
  }
  RINGLET_RETURN_IF_ERROR(SaveModel(model.get(), out, options));
  PrintWritten(out, "the model, of " + std::to_string(states.size()) +
                        (states.size() == 1 ? " state" : " states"));
  return Status();
}

}  // namespace

int GatherCommand(const std::vector<std::string>& line) {
  std::string out, state, examples;
  CommandLine flags("gather", "MODEL STATE...", kAbout, kMore);
  flags.Text("-o, --out", "FILE", &out, "the file to write: the new model");
  flags.Text("--state", "FILE", &state,
             "also write this file, which boards load by model_load:\n"
             "the new weights, with new slots of the optimizer");
  flags.Text("--examples", "LIST", &examples,
             "the number of examples that each STATE has learnt from,\n"
             "with commas (default: all the same)");
  int code = 0;
  if (!flags.Parse(line, 2, SIZE_MAX, &code)) return code;
  if (out.empty()) {
    return flags.UsageError(InvalidArgument("--out is missing"));
  }
  const std::vector<std::string>& paths = flags.arguments();
  Status status = CheckWritable("--out", out);
  if (status.ok()) status = CheckNotRead("--out", out, paths);
  if (status.ok() && !state.empty()) {
    status = CheckWritable("--state", state);
    if (status.ok()) status = CheckNotRead("--state", state, paths);
    if (status.ok() && WouldBeOneFile(state, out)) {
      status =
          InvalidArgument("--state and --out are one file; give two names");
    }
  }
  if (status.ok()) status = Gather(paths, examples, out, state);
  return InputExitCode(status);
}

}  // namespace ringlet
