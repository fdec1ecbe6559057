// Checks, the parts of calls, and the file. Calls are in the order of the
// primitives.

#include "c_model.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>

#include "../files/atomic_file.h"
#include "c_helpers.h"

namespace ringlet {
namespace {

// Elements of one array, so that an int can count its bytes.
constexpr int kMax = INT32_MAX / static_cast<int>(sizeof(float));

}  // namespace

Status CModel::CheckModel() const {
  if (model_.num_outputs() > 1 ||
      model_.output_node(0) != model_.num_nodes() - 1) {
    return InvalidArgument(
        "in C a model has one output, that of the last layer; this model has "
        "%d, the first of layer '%s'",
        model_.num_outputs(), model_.output_name(0).c_str());
  }
  if (model_.num_inputs() > 1) {
    return InvalidArgument(
        "layer '%s' is a second input, and in C a model has one",
        model_.layer(1).name.c_str());
  }
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
      return "w" + std::to_string(i);  // of a shared layer
    }
  }
  constants_.push_back(constant);
  return "w" + std::to_string(constants_.size() - 1);
}

std::string CModel::Weight(const Variable* v) {
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
  helpers_ |= kCCopy;
  const std::string n = Numbers(axes);
  Call("copy(%s, %s, %zu, %s)", x.c_str(), y.c_str(), axes.size() / 3,
       n.c_str());
}

// Writes one function for each expression.
std::string CModel::FunctionOf(const std::string& expression) {
  size_t i = 0;
  while (i < expressions_.size() && expressions_[i] != expression) ++i;
  if (i == expressions_.size()) expressions_.push_back(expression);
  return "each" + std::to_string(i);
}

std::string CModel::FunctionOf(Activation activation) {
  const char* const expression = CExpression(activation, &helpers_);
  return FunctionOf(std::string(expression == nullptr ? "x" : expression));
}

void CModel::ApplyExpression(const std::string& expression) {
  Call("%s(%s, %lld)", FunctionOf(expression).c_str(), Y().c_str(),
       static_cast<long long>(YShape().elements()));
}

void CModel::ApplyActivation(Activation activation) {
  if (activation == kLinear) return;
  const char* const expression = CExpression(activation, &helpers_);
  if (expression != nullptr) return ApplyExpression(expression);
  const bool log = activation == kLogSoftmax;
  const auto width = static_cast<long long>(YShape().back());
  helpers_ |= log ? kCLogSoftmax : kCSoftmax;
  Call("%ssoftmax(%s, %lld, %lld)", log ? "log_" : "", Y().c_str(),
       static_cast<long long>(YShape().elements()) / width, width);
}

std::string CModel::OutputOf(int index) const {
  const std::string name = slots_->NameOf(index);
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

Status CModel::AddLayers(bool softmax) {
  RINGLET_RETURN_IF_ERROR(CheckModel());
  RINGLET_RETURN_IF_ERROR(Lower(&model_, "C", &lowering_));
  floats_ = lowering_.weights;
  std::vector<CSlots::Kind> kinds;
  for (const Primitive& p : lowering_.primitives) {
    kinds.push_back({IsView(p), RowOf(p.kind).in_place});
  }
  slots_ = std::make_unique<CSlots>(lowering_.primitives, kinds,
                                    /*uses_in=*/!interface_.scale,
                                    /*uses_out=*/true);
  const auto count = static_cast<int>(lowering_.primitives.size());
  for (index_ = 0; index_ < count; ++index_) {
    p_ = &At(index_);
    too_large_ |= YShape().elements() > kMax;
    Emit();
  }
  index_ = count - 1;
  if (Y() == "in") {  // there are only views
    Copy("in", "out", {YShape().elements(), 1, 1});
  }
  if (softmax) {
    RINGLET_RETURN_IF_ERROR(CheckLogits(lowering_.primitives, index_));
    helpers_ |= kCSoftmax;
    const int64_t width = YShape().back();
    Call("softmax(out, %lld, %lld)",
         static_cast<long long>(YShape().elements() / width),
         static_cast<long long>(width));
  }
  arena_bytes_ = slots_->Place(sizeof(float));
  if (!not_finite_.empty()) {
    return InvalidArgument("layer '%s' multiplies by what is not finite",
                           not_finite_.c_str());
  }
  return CheckCountable();
}

// --- the file ----------------------------------------------------------------

std::string CModel::Comment() const {
  const int last = model_.num_nodes() - 1;
  int64_t flash = 0;
  for (const Constant& constant : constants_) flash += 4 * constant.count;
  char text[1024];
  std::snprintf(
      text, sizeof(text),
      "/* A model for one example at a time, written by ringlet %s.\n\n"
      "   in:    %lld floats, %s\n"
      "   out:   %lld floats, %s\n"
      "   flash: %lld bytes of weights, and the code\n"
      "   RAM:   %zu bytes, and in and out\n\n"
      "   CC = arm-none-eabi-gcc\n"
      "   CFLAGS = -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 "
      "-mfloat-abi=hard -std=c99 -O2\n"
      "   model.o: model.c ; $(CC) $(CFLAGS) -c model.c */\n\n"
      "#include <math.h>\n\n",
      RINGLET_VERSION, static_cast<long long>(interface_.num_inputs()),
      interface_.InText().c_str(),
      static_cast<long long>(model_.output_shape(last).elements()),
      model_.output_shape(last).ToString().c_str(),
      static_cast<long long>(flash), arena_bytes_ + interface_.row_bytes());
  return text + CDeclarations(interface_);
}

std::string CModel::Functions() const {
  const std::string head =
      interface_.scale
          ? "static void run(float* out)"
          : "int " + interface_.name + "_predict(const float* in, float* out)";
  std::string text = "\n" + head + " {\n" + numbers_;
  for (int b = 0; b < slots_->num_buffers(); ++b) {
    text += "  float* const b" + std::to_string(b) + " = arena + " +
            std::to_string(slots_->offset(b) / sizeof(float)) + ";\n";
  }
  text += calls_;
  // The input's numbers go to `out`.
  if (calls_.empty()) text += "  (void)out;\n";
  if (!interface_.scale) return text + "  return 0;\n}\n";
  const int in = slots_->SlotOf(0);
  const std::string x =
      in == CSlots::kOut
          ? "out"
          : "arena + " + std::to_string(slots_->offset(in) / sizeof(float));
  return text + "}\n" +
         CPredictions(interface_, "  float* const to = " + x + ";\n",
                      "to[i] = x;", "  run(out);\n");
}

Status CModel::Write(FileSystem* files, const std::string& path) const {
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path, 0));
  std::string text = Comment();
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
  text += CHelpers(helpers_);
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
