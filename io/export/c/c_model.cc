// Checks, the parts of calls, and the file. Calls are in the order of the
// primitives.

#include "c_model.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>

#include "../../files/atomic_file.h"
#include "c_helpers.h"
#include "c_training_texts.h"

namespace ringlet {
namespace {

// A product and the sum after it are not fused. gcc 12 fuses neighbours with a
// sum and a difference whatever -ffp-contract says.
const char kExactSums[] = R"(#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize "no-tree-slp-vectorize"
#endif

)";

// Elements of one array, so that an int can count its bytes.
constexpr int kMax = INT32_MAX / static_cast<int>(sizeof(float));

}  // namespace

bool CModel::HasWord(const std::string& text, const std::string& word) {
  const auto is_part = [&](size_t at) {
    return at < text.size() && IsWordPart(text[at]);
  };
  size_t at = text.find(word);
  while (at != std::string::npos &&
         ((at > 0 && is_part(at - 1)) || is_part(at + word.size()))) {
    at = text.find(word, at + 1);
  }
  return at != std::string::npos;
}

Status CModel::CheckModel() const {
  for (const Variable& v : model_.variables()) {
    for (int64_t i = 0; i < v.size(); ++i) {
      if (std::isfinite(floats_[v.offset + i])) continue;
      return InvalidArgument(
          "weight '%s' holds %g, and C has no constant of it", v.path.c_str(),
          floats_[v.offset + i]);
    }
  }
  return Status();
}

Status CModel::CheckCountable() const {
  bool too_large = too_large_ || model_.num_weights() > kMax;
  for (int b = 0; b < slots_->num_buffers(); ++b) {
    too_large |= slots_->elements(b) > kMax;
  }
  if (!too_large) return Status();
  return InvalidArgument(
      "an output of a layer, or all weights, are more than %d numbers, which "
      "C's int does not count",
      kMax);
}

// --- parts of calls ----------------------------------------------------------

void CModel::Call(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  calls_ += indent_ + line + ";\n";
}

std::string CModel::Numbers(const CInts& numbers) {
  const std::string name = "n" + std::to_string(num_numbers_++);
  numbers_ += "  static const int " + name + "[] = {";
  for (size_t i = 0; i < numbers.size(); ++i) {
    too_large_ |= numbers[i] > INT32_MAX;
    numbers_ += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  numbers_ += "};\n";
  return name;
}

std::string CModel::AddConstant(const Constant& constant) {
  for (size_t i = 0; i < constants_.size(); ++i) {
    if (constant.floats != nullptr && constants_[i].floats == constant.floats) {
      return "w" + std::to_string(i);  // the weights of a shared layer
    }
  }
  constants_.push_back(constant);
  return "w" + std::to_string(constants_.size() - 1);
}

std::string CModel::Weight(const Variable* v) {
  if (IsTrained(v))
    return "(weights + " + std::to_string(training_->OffsetOf(v)) + ")";
  return v == nullptr ? "0" : AddConstant({floats_ + v->offset, {}, v->size()});
}

std::string CModel::Values(const std::vector<float>& values) {
  if (values.empty()) return "0";
  for (const float value : values) {
    if (!std::isfinite(value) && not_finite_.empty()) {
      not_finite_ = p_->layer->name;
    }
  }
  return AddConstant({nullptr, values, static_cast<int64_t>(values.size())});
}

void CModel::Copy(const std::string& x, const std::string& y,
                  const CInts& axes) {
  helpers_.Add("copy");
  const std::string numbers = Numbers(axes);
  Call("copy(%s, %s, %zu, %s)", x.c_str(), y.c_str(), axes.size() / 3,
       numbers.c_str());
}

// Writes one function for each expression.
std::string CModel::FunctionOf(const std::string& expression) {
  size_t i = 0;
  while (i < expressions_.size() && expressions_[i] != expression) ++i;
  if (i == expressions_.size()) expressions_.push_back(expression);
  return "each" + std::to_string(i);
}

std::string CModel::FunctionOf(Activation activation) {
  const char* const expression = Expression(activation);
  return FunctionOf(std::string(expression == nullptr ? "x" : expression));
}

void CModel::ApplyExpression(const std::string& expression) {
  Call("%s(%s, %lld)", FunctionOf(expression).c_str(), Y().c_str(),
       static_cast<long long>(YShape().elements()));
}

const char* CModel::Expression(Activation activation) {
  const char* const exact =
      Trains() ? ExactExpression(activation, /*slope=*/false, &helpers_)
               : nullptr;
  if (exact != nullptr) return exact;
  const char* const expression = CExpression(activation, &helpers_);
  if (expression != nullptr) NoteInexact(*p_);
  return expression;
}

void CModel::ApplyActivation(Activation activation) {
  if (activation == kLinear || IsLogits()) return;
  const char* const expression = Expression(activation);
  if (expression != nullptr) return ApplyExpression(expression);
  const bool log = activation == kLogSoftmax;
  if (log) NoteInexact(*p_);
  const auto width = static_cast<long long>(YShape().back());
  helpers_.Add(log ? "log_softmax" : "softmax");
  Call("%ssoftmax(%s, %lld, %lld)", log ? "log_" : "", Y().c_str(),
       static_cast<long long>(YShape().elements()) / width, width);
}

std::string CModel::NameOfSlot(const CSlot& slot) const {
  if (slot.is_buffer()) return "b" + std::to_string(slot.index);
  const auto& arguments = slot.memory == CSlot::Memory::kInput
                              ? interface_.inputs
                              : interface_.outputs;
  return arguments[static_cast<size_t>(slot.index)].name;
}

std::string CModel::OutputOf(int index) const {
  const std::string name = NameOfSlot(slots_->SlotOf(index));
  const Primitive& p = At(index);
  return p.steps == 0 ? name
                      : name + " + t * " + std::to_string(p.output.elements());
}

// --- the model ---------------------------------------------------------------

void CModel::Emit() {
  const auto write = RowOf(p_->kind).write;
  if (p_->steps == 0 || IsView(*p_)) return (this->*write)();
  calls_ += "  for (int t = 0; t < " + std::to_string(p_->steps) + "; ++t) {\n";
  indent_ += "  ";
  (this->*write)();
  indent_ = "  ";
  calls_ += "  }\n";
}

std::vector<int> CModel::Outputs() const {
  std::vector<int> outputs;
  for (int k = 0; k < model_.num_outputs(); ++k) {
    const auto node = static_cast<size_t>(model_.output_node(k));
    outputs.push_back(lowering_.of_node[node]);
  }
  return outputs;
}

// An output may be a view of an input.
void CModel::CopyOutputs() {
  const std::vector<int> outputs = Outputs();
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string from = NameOfSlot(slots_->SlotOf(outputs[k])),
                      to = interface_.outputs[k].name;
    if (from == to) continue;
    Copy(from, to, {interface_.outputs[k].shape.elements(), 1, 1});
  }
}

Status CModel::AddSoftmax() {
  const std::vector<int> outputs = Outputs();
  if (outputs.size() > 1) {
    return InvalidArgument(
        "a softmax can be put behind one output, and this model has %zu",
        outputs.size());
  }
  RINGLET_RETURN_IF_ERROR(CheckLogits(lowering_.primitives, outputs[0]));
  helpers_.Add("softmax");
  const Shape& shape = interface_.out();
  Call("softmax(out, %lld, %lld)",
       static_cast<long long>(shape.elements() / shape.back()),
       static_cast<long long>(shape.back()));
  return Status();
}

Status CModel::AddLayers(bool softmax) {
  RINGLET_RETURN_IF_ERROR(CheckModel());
  RINGLET_RETURN_IF_ERROR(Lower(&model_, "C", &lowering_));
  floats_ = lowering_.weights;
  if (Trains()) RINGLET_RETURN_IF_ERROR(FindChain());
  std::vector<CSlots::Kind> kinds;
  for (const Primitive& p : lowering_.primitives) {
    kinds.push_back({IsView(p), RowOf(p.kind).in_place});
  }
  const std::vector<bool> uses_in(interface_.inputs.size(),
                                  !interface_.scale && body_end_ < 0);
  slots_ = std::make_unique<CSlots>(
      lowering_.primitives, kinds, Outputs(), uses_in, /*uses_out=*/!Trains(),
      Trains() ? At(chain_.back()).inputs[0] : INT_MAX);
  const auto count = static_cast<int>(lowering_.primitives.size());
  if (body_end_ >= 0) {
    calls_ += "  body_outputs(" + CNames(interface_.inputs) + ", " +
              OutputOf(0) + ");\n";
  }
  for (index_ = 0; index_ < count; ++index_) {
    p_ = &At(index_);
    too_large_ |= YShape().elements() > kMax;
    Emit();
  }
  Trains() ? AddGradients() : CopyOutputs();
  if (softmax) RINGLET_RETURN_IF_ERROR(AddSoftmax());
  arena_bytes_ = slots_->Place(sizeof(float));
  if (!not_finite_.empty()) {
    return InvalidArgument("layer '%s' multiplies by what is not finite",
                           not_finite_.c_str());
  }
  return CheckCountable();
}

// --- the file ----------------------------------------------------------------

std::string CModel::Comment() const {
  auto flash = static_cast<int64_t>(body_.flash);
  for (const Constant& constant : constants_) flash += 4 * constant.count;
  if (Trains()) {
    flash += 4 * training_->numbers() +
             static_cast<int64_t>(training_->header.size());
  }
  std::string text =
      "/* A model for one example at a time, written by "
      "ringlet " RINGLET_VERSION ".\n\n";
  const auto add = [&](const std::string& name, const std::string& what) {
    text += CLabel(name) + what + "\n";
  };
  const auto floats = [](int64_t count, const std::string& shape) {
    return std::to_string(count) + " floats, " + shape;
  };
  for (const CArgument& in : interface_.inputs) {
    const bool first = &in == &interface_.inputs[0];
    add(in.name, floats(first ? interface_.num_inputs() : in.shape.elements(),
                        first ? interface_.InText() : in.shape.ToString()));
  }
  for (const CArgument& out : interface_.outputs) {
    add(out.name, floats(out.shape.elements(), out.shape.ToString()));
  }
  add("flash", std::to_string(flash) + " bytes of weights, and the code");
  auto ram =
      static_cast<int64_t>(arena_bytes_ + interface_.row_bytes() + body_.ram);
  if (Trains()) ram += training_->memory_bytes() + 4 * sums_;
  add("RAM", std::to_string(ram) + " bytes, and in and out");
  if (Trains()) text += training_->Comment() + ExactnessComment();
  return text +
         "\n   CC = arm-none-eabi-gcc\n"
         "   CFLAGS = -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 "
         "-mfloat-abi=hard -std=c99 -O2\n"
         "   model.o: model.c ; $(CC) $(CFLAGS) -c model.c */\n\n" +
         (inexact_ != nullptr || !Trains() || interface_.int8
              ? "#include <math.h>\n\n"
              : "") +
         (Trains() ? training_->Includes() : "") + kExactSums +
         CDeclarations(interface_);
}

std::string CModel::BuffersText() const {
  std::string text;
  for (int b = 0; b < slots_->num_buffers(); ++b) {
    text += (Trains() ? "static " : "  ") + std::string("float* const b") +
            std::to_string(b) + " = arena + " +
            std::to_string(slots_->offset(b) / sizeof(float)) + ";\n";
  }
  return text;
}

std::string CModel::Functions() const {
  if (Trains()) return TrainingFunctions();
  const std::string head = interface_.scale
                               ? "static void run(" + COutputs(interface_) + ")"
                               : PredictSignature(interface_);
  std::string text = "\n" + head + " {\n" + numbers_ + BuffersText() + calls_;
  // Arguments of which the calls have no word, such as the scaled input's
  // memory.
  for (const auto* const arguments :
       {&interface_.inputs, &interface_.outputs}) {
    if (interface_.scale && arguments == &interface_.inputs) continue;
    for (const CArgument& argument : *arguments) {
      if (HasWord(calls_, argument.name)) continue;
      text += "  (void)" + argument.name + ";\n";
    }
  }
  if (!interface_.scale) return text + "  return 0;\n}\n";
  const CSlot& in = slots_->SlotOf(0);
  const std::string x =
      in.is_buffer() ? "arena + " + std::to_string(slots_->offset(in.index) /
                                                   sizeof(float))
                     : NameOfSlot(in);
  return text + "}\n" +
         CPredictions(interface_, "  float* const to = " + x + ";\n",
                      "to[i] = x;",
                      "  run(" + CNames(interface_.outputs) + ");\n");
}

Status CModel::Write(FileSystem* files, const std::string& path) const {
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path, 0));
  std::string text = Comment() + body_.text;
  for (size_t i = 0; i < constants_.size(); ++i) {
    const Constant& constant = constants_[i];
    const float* const floats =
        constant.floats != nullptr ? constant.floats : constant.values.data();
    text += "\nstatic const float w" + std::to_string(i) + "[" +
            std::to_string(constant.count) + "] = {";
    for (int64_t k = 0; k < constant.count; ++k) {
      text += (k % 6 == 0 ? '\n' : ' ') + CNumber(floats[k]) + ',';
      if (text.size() < 65536) continue;
      RINGLET_RETURN_IF_ERROR(file.file()->Write(text.data(), text.size()));
      text.clear();
    }
    text += "\n};\n";
  }
  if (Trains()) text += training_->Memory(floats_);
  text += CHelperTexts(helpers_, Trains() ? TrainingHelpers() : CHelperTable());
  for (size_t i = 0; i < expressions_.size(); ++i) {
    text += CFunction("each" + std::to_string(i), expressions_[i]);
  }
  if (arena_bytes_ > 0) {
    text += "\nstatic float arena[" +
            std::to_string(arena_bytes_ / sizeof(float)) + "];\n";
  }
  text += Functions() + CDefinitions(interface_);
  RINGLET_RETURN_IF_ERROR(file.file()->Write(text.data(), text.size()));
  return file.Commit();
}

}  // namespace ringlet
