// Writes an Int8Model as C.

#include <algorithm>
#include <cinttypes>
#include <type_traits>

#include "../../../core/base/text.h"
#include "../../files/atomic_file.h"
#include "../c/c_helpers.h"
#include "../c/c_sound.h"
#include "int8_model.h"

namespace ringlet {
namespace {

template <typename T>
void AppendArray(const char* type, char name, size_t i,
                 const std::vector<T>& values, std::string* out) {
  const size_t per_line = sizeof(T) == 1 ? 16 : 6;
  const auto text_of = [](T value) {
    if constexpr (std::is_same_v<T, float>) {
      return CNumber(value);
    } else {
      return std::to_string(value);
    }
  };
  *out += FormatText("\nstatic const %s %c%zu[%zu] = {", type, name, i,
                     values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    *out += k % per_line == 0 ? "\n" : " ";
    *out += text_of(values[k]) + ",";
  }
  *out += "\n};\n";
}

std::string RepeatText(int64_t times) {
  return FormatText("for (int t = 0; t < %" PRId64 "; ++t) ", times);
}

}  // namespace

size_t Int8Model::flash() const {
  size_t flash = 0;
  for (const auto& bytes : bytes_) flash += bytes.size();
  for (const auto& words : words_) flash += 4 * words.size();
  for (const auto& floats : floats_) flash += 4 * floats.size();
  return flash + 4 * static_cast<size_t>(FrontEndFloats());
}

std::string Int8Model::Comment(const CInterface& c) const {
  std::string text =
      "/* A model in int8 for one example at a time, written by "
      "ringlet " RINGLET_VERSION ".\n\n";
  const auto as_int8 = [](const Quantization& q) {
    return FormatText("as int8: %.9g (q - %d)", q.scale, q.zero_point);
  };
  const auto numbers = [](const Shape& shape) {
    return std::to_string(shape.elements()) + " numbers, " + shape.ToString() +
           "; ";
  };
  for (int i = 0; i < num_inputs(); ++i) {
    const char* const after =
        InputAt(i).factors < 0 ? "" : ", after the normalization";
    text += CLabel(c.inputs[static_cast<size_t>(i)].name) + numbers(given(i));
    if (const PlainModel::FrontEnd* const front_end = FrontEndOf(i)) {
      text += std::string("sound in float, or in int8 the ") +
              ClassName(front_end->layer) + " of it: " + numbers(input(i));
    }
    text += (takes_tokens(i) ? "whole numbers of tokens"
                             : as_int8(QuantizationOf(i)) + after) +
            "\n";
  }
  for (int k = 0; k < num_outputs(); ++k) {
    text += CLabel(c.outputs[static_cast<size_t>(k)].name) +
            numbers(output(k)) + as_int8(QuantizationOf(OutputAt(k))) +
            (PlainOutput(k).end == kLinear ? "" : ", before the softmax") +
            "\n";
  }
  text += FormatText(
      "   flash: %zu bytes of weights, and the code\n"
      "   RAM:   %zu bytes, and in and out\n\n"
      "   CC = arm-none-eabi-gcc\n"
      "   CFLAGS = -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 "
      "-mfloat-abi=hard -std=c99 -O2\n"
      "   model.o: model.c ; $(CC) $(CFLAGS) -c model.c */\n\n"
      "#include <math.h>\n#include <stdint.h>\n\n",
      flash(), ram() + c.row_bytes());
  return text + CDeclarations(c);
}

Int8Model::Argument Int8Model::Span(const BufferSpan& span) {
  const bool in_arena = span.buffer >= 0;
  std::string text = in_arena ? "b" + std::to_string(span.buffer) : "tokens";
  if (span.begin != 0) text += " + " + std::to_string(span.begin);
  if (span.stride != 0) text += " + t * " + std::to_string(span.stride);
  return {text, {}, in_arena ? Argument::kArena : Argument::kTokens, span};
}

std::string Int8Model::CallOf(const Step& step) {
  std::string text;
  for (const Argument& argument : step.arguments) {
    text += (text.empty() ? "(" : ", ") + argument.text;
  }
  return int8::FunctionOf(step.kernel).name + text + ")";
}

std::string Int8Model::Memory() const {
  std::string text;
  const auto add = [&](const char* type, const char* name, size_t count) {
    if (count > 0)
      text += FormatText("\nstatic %s %s[%zu];", type, name, count);
  };
  add("int8_t", "arena", arena_bytes_);
  add("float", "floats", num_floats_);
  add("int16_t", "state", num_state_);
  add("int32_t", "tokens", num_tokens_);
  add("float", "features", static_cast<size_t>(FeatureFloats()));
  return text + "\n";
}

std::string Int8Model::Calls() const {
  std::string numbers, calls, buffers;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    calls += "  ";
    if (step.times > 1) calls += RepeatText(step.times);
    calls += CallOf(step) + ";\n";
    if (step.numbers.empty()) continue;
    numbers += step.cell_text;
    numbers += FormatText("  static const int n%zu[] = {", i);
    for (size_t k = 0; k < step.numbers.size(); ++k) {
      numbers += (k == 0 ? "" : ", ") + std::to_string(step.numbers[k]);
    }
    numbers += "};\n";
  }
  for (int b = 0; b < slots_->num_buffers(); ++b) {
    const std::string name = FormatText("b%d", b);
    if (calls.find(name + ",") == std::string::npos &&
        calls.find(name + " ") == std::string::npos) {
      continue;
    }
    buffers += FormatText("  int8_t* const %s = arena + %zu;\n", name.c_str(),
                          slots_->offset(b));
  }
  return Memory() + "\nstatic void run(void) {\n" + numbers + buffers + calls +
         "}\n";
}

// Returns a function for each front end, from its samples to `features`.
std::string Int8Model::FrontEnds() const {
  std::string text;
  for (const auto& [i, front_end] : plain_.front_ends) {
    const CSoundCall call = MakeSoundCall(front_end.layer, front_end.samples);
    std::string arguments = "x, features";
    for (size_t k = 0; k < call.arrays.size(); ++k) {
      const CSoundCall::Array& array = call.arrays[k];
      if (array.ints.empty() && array.floats.empty()) {
        arguments += ", 0";
        continue;
      }
      const auto index = static_cast<size_t>(100 * i) + k;
      if (array.ints.empty()) {
        AppendArray("float", 's', index, array.floats, &text);
      } else {
        AppendArray("int", 's', index, array.ints, &text);
      }
      arguments += ", s" + std::to_string(index);
    }
    text += FormatText("\nstatic void front_end%d(const float* x) {\n  ", i) +
            call.function + "(" + arguments + ", features + " +
            std::to_string(input(i).elements()) + ");\n}\n";
  }
  return text;
}

std::string Int8Model::PlaceOf(int input) const {
  return takes_tokens(input)
             ? "tokens + " + std::to_string(InputAt(input).first_token)
             : "arena + " + std::to_string(PlaceInArena(input));
}

// The call that converts `count` numbers x of an input: all, or number i.
std::string Int8Model::StoreText(int input, const char* x,
                                 const std::string& to, int64_t count) const {
  const std::string from_to =
      std::string("(") + x + ", " + to + ", " + std::to_string(count);
  if (takes_tokens(input)) return "take_tokens" + from_to + ");";
  const In& in = InputAt(input);
  if (in.factors < 0) {
    return "quantize" + from_to +
           FormatText(", %s, %d);", CNumber(FactorTo(input)).c_str(),
                      QuantizationOf(input).zero_point);
  }
  const size_t channels = floats_[static_cast<size_t>(in.factors)].size();
  const std::string first = count == 1 && channels > 1
                                ? FormatText(" + i %% %zu", channels)
                                : std::string();
  return "quantize_scaled" + from_to +
         FormatText(", %zu, f%d%s, f%d%s);", count == 1 ? 1 : channels,
                    in.factors, first.c_str(), in.shifts, first.c_str());
}

std::string Int8Model::Dequantizations(
    bool softmax, const std::vector<CArgument>& outputs) const {
  std::string text;
  for (int k = 0; k < num_outputs(); ++k) {
    const int from = OutputAt(k);
    const Quantization& out = QuantizationOf(from);
    const std::string& name = outputs[static_cast<size_t>(k)].name;
    const auto m = static_cast<long long>(output(k).elements()),
               width = static_cast<long long>(output(k).back());
    text += FormatText("  dequantize(arena + %zu, %s, %lld, %s, %d);\n",
                       PlaceInArena(from), name.c_str(), m,
                       CNumber(static_cast<float>(out.scale)).c_str(),
                       out.zero_point);
    const Activation end = PlainOutput(k).end;
    if (!softmax && end == kLinear) continue;
    text += FormatText("  %ssoftmax(%s, %lld, %lld);\n",
                       end == kLogSoftmax ? "log_" : "", name.c_str(),
                       m / width, width);
  }
  return text;
}

std::string Int8Model::Quantizations(const CInterface& c) const {
  std::string text;
  for (int i = 0; i < num_inputs(); ++i) {
    const std::string& name = c.inputs[static_cast<size_t>(i)].name;
    const bool sound = FrontEndOf(i) != nullptr;
    if (sound) text += FormatText("  front_end%d(", i) + name + ");\n";
    text += "  " +
            StoreText(i, sound ? "features" : name.c_str(), PlaceOf(i),
                      input(i).elements()) +
            "\n";
  }
  return text;
}

std::string Int8Model::Entries(bool softmax, const CInterface& c) const {
  const std::string end = "  run();\n" + Dequantizations(softmax, c.outputs);
  std::string bytes_in, bytes_out;
  const auto copy = [](int64_t n, const std::string& to,
                       const std::string& from) {
    return "  for (i = 0; i < " + std::to_string(n) + "; ++i) " + to + " = " +
           from + ";\n";
  };
  for (int i = 0; i < num_inputs(); ++i) {
    bytes_in += copy(input(i).elements(),
                     takes_tokens(i)
                         ? FormatText("tokens[%d + i]",
                                      static_cast<int>(InputAt(i).first_token))
                         : FormatText("arena[%zu + i]", PlaceInArena(i)),
                     c.inputs[static_cast<size_t>(i)].name + "[i]");
  }
  for (int k = 0; k < num_outputs(); ++k) {
    bytes_out += copy(output(k).elements(),
                      c.outputs[static_cast<size_t>(k)].name + "[i]",
                      FormatText("arena[%zu + i]", PlaceInArena(OutputAt(k))));
  }
  const std::string predict =
      c.scale ? CPredictions(c,
                             FormatText("  %s* const to = %s;\n",
                                        takes_tokens(0) ? "int32_t" : "int8_t",
                                        PlaceOf(0).c_str()),
                             StoreText(0, "&x", "to + i", 1), end)
              : "\n" + PredictSignature(c) + " {\n" + Quantizations(c) + end +
                    "  return 0;\n}\n";
  return predict + "\n" + PredictInt8(c) + " {\n  int i;\n" + bytes_in +
         "  run();\n" + bytes_out + "  return 0;\n}\n";
}

uint32_t Int8Model::Kernels() const {
  constexpr uint32_t kQuantizing =
      int8::kSoftmax | int8::kNormalize | int8::kAttend | int8::kRecur;
  uint32_t kernels = 0;
  for (int i = 0; i < num_inputs(); ++i) {
    if (!takes_tokens(i)) kernels |= int8::kQuantize;
    if (InputAt(i).factors >= 0) kernels |= int8::kScaledQuantize;
  }
  for (const Step& step : steps_) {
    kernels |= step.kernel;
    if ((step.kernel & kQuantizing) != 0) kernels |= int8::kQuantize;
    if (step.kernel == int8::kRecur) kernels |= int8::StepBit(step.cell.cell);
  }
  return kernels;
}

std::string Int8Model::Code(bool softmax) const {
  const uint32_t kernels = Kernels();
  CHelpers helpers;
  if ((kernels & int8::kNormalize) != 0) helpers.Add("root");
  if (softmax) helpers.Add("softmax");
  for (const PlainModel::Output& output : plain_.outputs) {
    if (output.end == kSoftmax) helpers.Add("softmax");
    if (output.end == kLogSoftmax) helpers.Add("log_softmax");
  }
  std::string text;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    AppendArray("int8_t", 'w', i, bytes_[i], &text);
  }
  for (size_t i = 0; i < words_.size(); ++i) {
    AppendArray("int32_t", 'c', i, words_[i], &text);
  }
  for (const auto& [i, front_end] : plain_.front_ends) {
    helpers.Add(MakeSoundCall(front_end.layer, front_end.samples).helpers);
  }
  std::string functions;
  for (size_t i = 0; i < functions_.size(); ++i) {
    const char* const expression = CExpression(functions_[i], &helpers);
    functions += CFunction("each" + std::to_string(i),
                           expression == nullptr ? "x" : expression);
  }
  for (size_t i = 0; i < floats_.size(); ++i) {
    AppendArray("float", 'f', i, floats_[i], &text);
  }
  return text + int8::KernelText(kernels) + CHelperTexts(helpers) +
         int8::FloatKernelText(kernels) + functions + Calls() + FrontEnds();
}

CBody Int8Model::Body(const CInterface& c) const {
  const std::string text =
      Code(/*softmax=*/false) + "\nstatic void outputs(" + CInputs(c) +
      ", float* to) {\n" + Quantizations(c) + "  run();\n" +
      Dequantizations(/*softmax=*/false, {{"to", output(0)}}) + "}\n";
  return {PrefixNames(text, "body_"), flash(), ram()};
}

Status Int8Model::Write(bool softmax, const CInterface& c, FileSystem* files,
                        const std::string& path) const {
  if (c.scale && FrontEndOf(0) != nullptr) {
    return InvalidArgument(
        "%s: with int8 the preprocessing does not include features of sound; "
        "leave it out and scale the samples in your program",
        path.c_str());
  }
  const std::string text =
      Comment(c) + Code(softmax) + Entries(softmax, c) + CDefinitions(c);
  return WriteWholeFile(files, path, text);
}

}  // namespace ringlet
