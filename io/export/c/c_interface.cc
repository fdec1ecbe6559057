// A value is scaled in two statements. A compiler may fuse a product and a sum
// in one statement, and then computes different bits from the library.

#include "c_interface.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "../../../core/base/text.h"
#include "../reconstruction.h"
#include "c_helpers.h"

namespace ringlet {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Status CheckName(const std::string& name) {
  constexpr size_t kLongest = 40;
  const bool good =
      !name.empty() && name.size() <= kLongest && IsLetter(name[0]) &&
      std::all_of(name.begin(), name.end(),
                  [](char c) { return IsLetter(c) || IsDigit(c) || c == '_'; });
  if (good) return Status();
  return InvalidArgument(
      "'%s' is not a name that C functions can begin with; give letters, "
      "digits and '_', a letter first, at most %zu",
      Printable(name).c_str(), kLongest);
}

Status CheckDescribed(const DataDescription* data) {
  if (data == nullptr) {
    return InvalidArgument(
        "the model does not know the scale of its training data, so the file "
        "cannot apply it; export a model that ringlet train has saved, or "
        "leave the preprocessing out and scale the input in your program");
  }
  if (data->text) {
    return InvalidArgument(
        "the model's data are a text, which the file cannot make numbers of; "
        "leave the preprocessing out and give it the numbers of the tokens");
  }
  if (data->sampling_rate > 0) {
    return InvalidArgument(
        "the model's data are files of sound, with samples of several "
        "formats; leave the preprocessing out and give it samples from -1 to "
        "1, of 16 bits divided by 32768, times the scale of the training");
  }
  if (!std::isfinite(data->scale.factor) ||
      !std::isfinite(data->scale.offset)) {
    return InvalidArgument("the scale of the model's data is not finite");
  }
  return Status();
}

std::string InputsAre(const CInterface& c, const char* body) {
  return "  for (i = 0; i < " + std::to_string(c.in().elements()) +
         "; ++i) {\n" + body + "  }\n";
}

// Lines that declare x, the model's input i.
std::string ScaledX(const CInterface& c) {
  if (!c.scale) return "    const float x = in[i];\n";
  return std::string("    const float y = ") +
         (c.table ? "row[i]" : "(float)in[i]") + " * " +
         CNumber(c.scale->factor) + ";\n    const float x = y + " +
         CNumber(c.scale->offset) + ";\n";
}

// `each` of the arguments, with commas.
template <typename Each>
std::string Joined(const std::vector<CArgument>& arguments, const Each& each) {
  std::string text;
  for (const CArgument& argument : arguments) {
    text += (text.empty() ? "" : ", ") + each(argument);
  }
  return text;
}

std::string InputsOf(const CInterface& c, const char* type) {
  return Joined(c.inputs, [&](const CArgument& argument) {
    return std::string("const ") + type + "* " + argument.name;
  });
}

std::string PredictFrom(const CInterface& c, const char* ending,
                        const char* type) {
  return "int " + c.name + "_predict" + ending + "(" + InputsOf(c, type) +
         ", " + COutputs(c) + ")";
}

// Returns a name for each layer: "in" if there is only one, otherwise "in_" and
// the beginning of the layer's name. Macros have these names in capitals, so
// two names must differ in more than the case of letters.
std::vector<CArgument> ArgumentsOf(const Model& model, const char* prefix,
                                   const std::vector<int>& nodes) {
  std::vector<CArgument> arguments;
  std::set<std::string> taken;
  constexpr size_t kLongest = 40;
  for (const int node : nodes) {
    std::string name = prefix;
    if (nodes.size() > 1)
      name += "_" + model.layer(node).name.substr(0, kLongest);
    for (char& c : name) {
      if (!IsLetter(c) && !IsDigit(c)) c = '_';
    }
    const std::string first = name;
    for (int i = 2; !taken.insert(UpperName(name)).second; ++i) {
      name = first + "_" + std::to_string(i);
    }
    arguments.push_back({name, model.output_shape(node), false});
  }
  return arguments;
}
const char kBytes[] = "unsigned char";

std::string AnomalyScore(const CInterface& c) {
  return "float " + c.name +
         "_anomaly_score(const float* in, const float* out)";
}

// Lines that fill the row of a table, or return `wrong`.
std::string Encode(const CInterface& c, const char* wrong) {
  if (!c.table) return "";
  return std::string("  if (encode(in) != 0) return ") + wrong + ";\n";
}

std::string TrainDeclarations(const CInterface& c) {
  return "/* Takes one example of a step, with its " +
         std::string(c.takes_classes ? "class" : "targets") +
         " y. The step's last example updates\n   the weights. *loss, unless "
         "loss is 0, becomes the example's loss. Returns 0,\n   or 1 for a "
         "number that is not a class. */\n" +
         TrainSignature(c) +
         ";\n/* Sets the number of examples of the next steps, from 1 to " +
         std::to_string(c.batch) +
         ", which it is\n   without a call. Drops the examples since the last "
         "update. Returns 0, or 1 for\n   another number. */\nint " +
         c.name +
         "_begin(int examples);\n/* Writes the state of the last update as "
         "the " +
         std::to_string(c.state_bytes) +
         " bytes of a safetensors\n   file, or reads it. Returns 0, 1 for "
         "another model's state, or 2 for damaged bytes. */\nvoid " +
         c.name + "_save(unsigned char* bytes);\nint " + c.name +
         "_load(const unsigned char* bytes, int count);\n";
}

std::string ClassNames(const CInterface& c) {
  return "const char* const " + c.name + "_class_names[" +
         std::to_string(c.classes.size()) + "]";
}

}  // namespace

Status MakeCInterface(const Model& model, const ExportCOptions& options,
                      CInterface* c) {
  RINGLET_RETURN_IF_ERROR(CheckName(options.name));
  c->name = options.name;
  std::vector<int> inputs, outputs;
  for (int i = 0; i < model.num_inputs(); ++i) inputs.push_back(i);
  for (int k = 0; k < model.num_outputs(); ++k) {
    outputs.push_back(model.output_node(k));
  }
  c->inputs = ArgumentsOf(model, "in", inputs);
  c->outputs = ArgumentsOf(model, "out", outputs);
  c->int8 = !options.calibration.empty();
  const DataDescription* const data = model.data_description();
  if (data != nullptr) c->classes = data->classes;
  if (options.with_preprocessing) {
    RINGLET_RETURN_IF_ERROR(CheckDescribed(data));
    if (inputs.size() > 1) {
      return InvalidArgument(
          "the preprocessing is that of one input, and this model has %zu; "
          "leave the preprocessing out and scale the inputs in your program",
          inputs.size());
    }
    c->scale = data->scale;
    if (CTable::IsNeeded(*data)) {
      RINGLET_RETURN_IF_ERROR(
          c->table.emplace().Make(*data, c->in().elements()));
    }
  }
  c->anomaly_score = options.anomaly_score;
  if (c->anomaly_score == ReconstructionError::kNone) return Status();
  return CheckReconstructs(model);
}

std::string UpperName(const std::string& name) {
  std::string upper = name;
  for (char& each : upper) {
    each = static_cast<char>(each >= 'a' && each <= 'z' ? each - 32 : each);
  }
  return upper;
}

std::string CLabel(const std::string& name) {
  const std::string label = "   " + name + ":";
  return label + std::string(label.size() < 9 ? 10 - label.size() : 1, ' ');
}

std::string COutputs(const CInterface& c) {
  return Joined(c.outputs, [](const CArgument& argument) {
    return "float* " + argument.name;
  });
}

std::string CNames(const std::vector<CArgument>& arguments) {
  return Joined(arguments,
                [](const CArgument& argument) { return argument.name; });
}

std::string CInputs(const CInterface& c) { return InputsOf(c, "float"); }

std::string TrainSignature(const CInterface& c) {
  return "int " + c.name + "_train(" + CInputs(c) + ", const " +
         (c.takes_classes ? "int" : "float") + "* y, float* loss)";
}

std::string PredictSignature(const CInterface& c) {
  return PredictFrom(c, "", "float");
}

std::string PredictInt8(const CInterface& c) {
  const auto input = [](const CArgument& argument) {
    return std::string("const ") +
           (argument.tokens ? "int32_t* " : "int8_t* ") + argument.name;
  };
  const auto output = [](const CArgument& argument) {
    return "int8_t* " + argument.name;
  };
  return "int " + c.name + "_predict_int8(" + Joined(c.inputs, input) + ", " +
         Joined(c.outputs, output) + ")";
}

std::string CDeclarations(const CInterface& c) {
  std::string text;
  if (!c.classes.empty()) {
    text += "/* The names of the classes, by number. */\nextern " +
            ClassNames(c) + ";\n\n";
  }
  if (c.table) text += c.table->Declarations(c.name);
  text += c.table ? "/* One example; returns 0, or 1 if a column has no valid "
                    "number. */\n"
          : c.scale
              ? "/* One example, of values as in the files of the training "
                "data; returns 0. */\n"
              : "/* One example; returns 0. */\n";
  text += PredictSignature(c) + ";\n";
  if (c.scale && !c.table) text += PredictFrom(c, "_bytes", kBytes) + ";\n";
  if (c.int8 && c.batch == 0) text += PredictInt8(c) + ";\n";
  if (c.batch > 0) text += TrainDeclarations(c);
  if (c.anomaly_score == ReconstructionError::kNone) return text;
  return text + "/* The mean " +
         (c.anomaly_score == ReconstructionError::kSquared ? "squared"
                                                           : "absolute") +
         " error of a prediction `out` of `in`. */\n" + AnomalyScore(c) + ";\n";
}

std::string CDefinitions(const CInterface& c) {
  std::string text;
  if (!c.classes.empty()) {
    text += CStrings(ClassNames(c), c.classes);
  }
  if (c.table) text += c.table->Definitions(c.name);
  if (c.anomaly_score == ReconstructionError::kNone) return text;
  const char* const error = c.anomaly_score == ReconstructionError::kSquared
                                ? "d * d"
                                : "d < 0 ? -d : d";
  const std::string add =
      ScaledX(c) + "    const double d = (double)out[i] - (double)x;\n" +
      "    const double error = " + error + ";\n    sum += error;\n";
  return text + "\n" + AnomalyScore(c) + " {\n  double sum = 0;\n  int i;\n" +
         Encode(c, "-1") + InputsAre(c, add.c_str()) +
         "  return (float)(sum / " + std::to_string(c.in().elements()) +
         ");\n}\n";
}

std::string CPredictions(const CInterface& c, const std::string& begin,
                         const std::string& store, const std::string& end) {
  const std::string loop = ScaledX(c) + "    " + store + "\n";
  const std::string body = " {\n" + begin + "  int i;\n" + Encode(c, "1") +
                           InputsAre(c, loop.c_str()) + end +
                           "  return 0;\n}\n";
  const std::string predict = "\n" + PredictSignature(c) + body;
  if (c.table) return c.table->Encoder() + predict;
  return predict + "\n" + PredictFrom(c, "_bytes", kBytes) + body;
}

}  // namespace ringlet
