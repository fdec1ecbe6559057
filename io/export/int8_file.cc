// Writes an Int8Model as C.

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <set>

#include "../files/atomic_file.h"
#include "c_helpers.h"
#include "int8_model.h"

namespace ringlet {
namespace {

std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Text(const char* format, ...) {
  char text[1536];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

template <typename T>
void AppendArray(const char* type, char name, size_t i,
                 const std::vector<T>& values, std::string* out) {
  const size_t most = sizeof(T) == 1 ? 16 : 6;
  *out +=
      Text("\nstatic const %s %c%zu[%zu] = {", type, name, i, values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    *out += k % most == 0 ? "\n" : " ";
    *out += std::to_string(values[k]) + ",";
  }
  *out += "\n};\n";
}

}  // namespace

std::string Int8Model::Comment(const CInterface& c) const {
  size_t flash = 0;
  for (const auto& bytes : bytes_) flash += bytes.size();
  for (const auto& words : words_) flash += 4 * words.size();
  const Quantization &in = QuantizationOf(0), &out = QuantizationOf(last());
  const std::string text = Text(
      "/* A model in int8 for one example at a time, written by ringlet %s.\n\n"
      "   in:    %" PRId64
      " numbers, %s; as int8: %.9g (q - %d)\n"
      "   out:   %" PRId64
      " numbers, %s; as int8: %.9g (q - %d)%s\n"
      "   flash: %zu bytes of weights, and the code\n"
      "   RAM:   %zu bytes, and in and out\n\n"
      "   CC = arm-none-eabi-gcc\n"
      "   CFLAGS = -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 "
      "-mfloat-abi=hard -std=c99 -O2\n"
      "   model.o: model.c ; $(CC) $(CFLAGS) -c model.c */\n\n"
      "#include <math.h>\n#include <stdint.h>\n\n",
      RINGLET_VERSION, input().elements(), input().ToString().c_str(), in.scale,
      in.zero_point, output().elements(), output().ToString().c_str(),
      out.scale, out.zero_point,
      plain_.end == kLinear ? "" : ", before the softmax", flash,
      arena_bytes_ + c.row_bytes());
  return text + CDeclarations(c);
}

std::string Int8Model::CallOf(const Step& s, size_t number) const {
  const auto at = [](const BufferSpan& span) {
    const std::string name = "b" + std::to_string(span.slot);
    return span.begin == 0 ? name : name + " + " + std::to_string(span.begin);
  };
  const auto n = std::to_string(number);
  const std::string x = at(s.x), y = at(s.y);
  const int axes = static_cast<int>(s.numbers.size() / 3);
  switch (s.kernel) {
    case int8::kConv:
      return Text("conv(%s, %s, w%d, c%d, c%d, n%s)", x.c_str(), y.c_str(),
                  s.bytes, s.words, s.words2, n.c_str());
    case int8::kPool:
      return Text("pool(%s, %s, n%s)", x.c_str(), y.c_str(), n.c_str());
    case int8::kMerge:
      return Text("merge(%d, %s, %s, %s, %d, n%s)", s.argument, x.c_str(),
                  at(s.x2).c_str(), y.c_str(), axes - 2, n.c_str());
    case int8::kMap:
      return Text("map(%s, %s, %d, w%d)", x.c_str(), y.c_str(), s.argument,
                  s.bytes);
    case int8::kCopy:
      return Text("copy(%s, %s, %d, n%s, %s)", x.c_str(), y.c_str(), axes,
                  n.c_str(),
                  s.bytes < 0 ? "0" : ("w" + std::to_string(s.bytes)).c_str());
    case int8::kFill:
      return Text("fill(%s, %d, %d)", y.c_str(), s.numbers[0], s.argument);
  }
  return "";
}

std::string Int8Model::Calls() const {
  std::string numbers, calls, buffers;
  std::set<int> used;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.kernel != int8::kFill) used.insert(step.x.slot);
    if (step.kernel == int8::kMerge) used.insert(step.x2.slot);
    used.insert(step.y.slot);
    calls += "  " + CallOf(step, i) + ";\n";
    if (step.kernel == int8::kMap || step.kernel == int8::kFill) continue;
    numbers += Text("  static const int n%zu[] = {", i);
    for (size_t k = 0; k < step.numbers.size(); ++k) {
      numbers += (k == 0 ? "" : ", ") + std::to_string(step.numbers[k]);
    }
    numbers += "};\n";
  }
  for (const int b : used) {
    buffers +=
        Text("  int8_t* const b%d = arena + %zu;\n", b, slots_->offset(b));
  }
  return Text("\nstatic int8_t arena[%zu];\n\nstatic void run(void) {\n",
              arena_bytes_) +
         numbers + buffers + calls + "}\n";
}

std::string Int8Model::Entries(bool softmax, const CInterface& c) const {
  const auto n = static_cast<long long>(input().elements());
  const auto m = static_cast<long long>(output().elements());
  const size_t from = slots_->offset(slots_->SlotOf(0)),
               to = slots_->offset(slots_->SlotOf(last()));
  const Quantization &in = QuantizationOf(0), &out = QuantizationOf(last());
  std::string end =
      Text("  run();\n  dequantize(arena + %zu, out, %lld, %s, %d);\n", to, m,
           CNumber(static_cast<float>(out.scale)).c_str(), out.zero_point);
  if (softmax || plain_.end != kLinear) {
    const auto width = static_cast<long long>(output().back());
    end += Text("  %ssoftmax(out, %lld, %lld);\n",
                plain_.end == kLogSoftmax ? "log_" : "", m / width, width);
  }
  const std::string factor = CNumber(static_cast<float>(1 / in.scale));
  const std::string predict =
      c.scale
          ? CPredictions(c, Text("  int8_t* const to = arena + %zu;\n", from),
                         Text("quantize(&x, to + i, 1, %s, %d);",
                              factor.c_str(), in.zero_point),
                         end)
          : Text(
                "\nint %s_predict(const float* in, float* out) {\n"
                "  quantize(in, arena + %zu, %lld, %s, %d);\n",
                c.name.c_str(), from, n, factor.c_str(), in.zero_point) +
                end + "  return 0;\n}\n";
  return predict +
         Text(
             "\nint %s_predict_int8(const int8_t* in, int8_t* out) {\n"
             "  int i;\n"
             "  for (i = 0; i < %lld; ++i) arena[%zu + i] = in[i];\n"
             "  run();\n"
             "  for (i = 0; i < %lld; ++i) out[i] = arena[%zu + i];\n"
             "  return 0;\n}\n",
             c.name.c_str(), n, from, m, to);
}

Status Int8Model::Write(bool softmax, const CInterface& c, FileSystem* files,
                        const std::string& path) const {
  uint32_t kernels = 0, helpers = 0;
  for (const Step& step : steps_) kernels |= step.kernel;
  if (softmax || plain_.end == kSoftmax) helpers |= kCSoftmax;
  if (plain_.end == kLogSoftmax) helpers |= kCLogSoftmax;
  std::string text = Comment(c);
  for (size_t i = 0; i < bytes_.size(); ++i) {
    AppendArray("int8_t", 'w', i, bytes_[i], &text);
  }
  for (size_t i = 0; i < words_.size(); ++i) {
    AppendArray("int32_t", 'c', i, words_[i], &text);
  }
  text += int8::KernelText(kernels) + CHelpers(helpers) + Calls() +
          Entries(softmax, c) + CDefinitions(c);
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path, 0));
  RINGLET_RETURN_IF_ERROR(file.file()->Write(text.data(), text.size()));
  return file.Commit();
}

}  // namespace ringlet
