// A saved state is a checkpoint with the weights, the slots and the iterations
// (docs/checkpoint_format.md), so every command of ringlet can read and check
// it. The C file has the checkpoint's header as a constant. A state with
// another header is of another model, and is refused.

#include "c_training.h"

#include <algorithm>

#include "../../../core/base/decimal.h"
#include "../../../core/base/number_text.h"
#include "../../../core/base/state_names.h"
#include "../../../core/base/text.h"
#include "../../../core/compute/functions.h"
#include "../../../core/layers/layer_kind.h"
#include "../../../core/objective/optimizer_table.h"
#include "../../weights/footer.h"
#include "../../weights/safetensors.h"

namespace ringlet {
namespace {

Status CheckOptimizer(const Optimizer& o) {
  const auto refuse = [&](const char* reason) {
    return InvalidArgument(
        "C cannot train with the model's optimizer %s: %s; or choose another "
        "one by --optimizer",
        o.name(), reason);
  };
  if (o.kind != Optimizer::Kind::kSgd && o.kind != Optimizer::Kind::kAdam &&
      o.kind != Optimizer::Kind::kAdamW) {
    return refuse("it is not SGD, Adam or AdamW");
  }
  if (o.learning_rate.kind != LearningRate::Kind::kConstant ||
      o.learning_rate.warmup_steps > 0) {
    return refuse("its learning rate is a schedule; give --learning-rate");
  }
  if (o.clips()) return refuse("it clips gradients");
  if (o.accumulates()) {
    return refuse("it accumulates gradients; give --batch instead");
  }
  return o.use_ema ? refuse("it averages weights") : Status();
}

Status CheckLoss(const OutputLoss& output) {
  const Loss& loss = output.loss;
  const auto refuse = [&](const char* reason) {
    return InvalidArgument("C cannot train with the loss %s: it %s",
                           loss.class_name(), reason);
  };
  if (loss.kind > Loss::Kind::kMeanSquaredError) {
    return refuse("is neither a crossentropy nor MeanSquaredError");
  }
  if (loss.reduction != LossReduction::kSumOverBatchSize) {
    return refuse("has another reduction than sum_over_batch_size");
  }
  if (loss.label_smoothing != 0) return refuse("has label_smoothing");
  if (loss.ignore_class.has_value()) return refuse("has ignore_class");
  return output.weight != 1 ? refuse("has a weight") : Status();
}

Status CheckVariable(const Variable& v) {
  if (v.regularizer.empty() && v.constraint.kind == Constraint::Kind::kNone) {
    return Status();
  }
  return InvalidArgument(
      "C cannot train weight '%s', which has a regularizer or a constraint; "
      "leave its layer out of --train",
      v.path.c_str());
}

std::string Define(const char* name, const std::string& value) {
  return "#define " + std::string(name) + ' ' + value + '\n';
}
std::string Define(const char* name, int64_t value) {
  return Define(name, std::to_string(value));
}
std::string Define(const char* name, float value) {
  return Define(name, CNumber(value));
}

// The logarithm of a beta as two doubles, for the powers of the beta.
std::string LogOf(float beta) {
  double rest = 0;
  const double log = beta > 0 ? math::LogWithRest(Decimal(beta), &rest) : -1000;
  return ShortestText(log) + " + 0.0, " + ShortestText(rest) + " + 0.0";
}

constexpr char kUpdate[] = R"(
static void update(void) {
  int i;
)";
constexpr char kAdamStart[] = R"(  const double t = (double)updates;
  const float alpha = (float)((double)LEARNING_RATE *
                              root_of(1 - power(LOG_BETA_2, t)) /
                              (1 - power(LOG_BETA_1, t)));
)";
constexpr char kEach[] = R"(  for (i = 0; i < NUMBERS; ++i) {
    const float g = gradients[i];
)";
constexpr char kSgd[] = R"(    weights[i] = w - LEARNING_RATE * g;
)";
constexpr char kMomentum[] =
    R"(    slots[i] = MOMENTUM * slots[i] - LEARNING_RATE * g;
    weights[i] = w + slots[i];
)";
constexpr char kNesterov[] =
    R"(    slots[i] = MOMENTUM * slots[i] - LEARNING_RATE * g;
    weights[i] = w + (MOMENTUM * slots[i] - LEARNING_RATE * g);
)";
constexpr char kAdam[] =
    R"(    float *const m = slots + i, *const v = m + NUMBERS;
    *m += (g - *m) * ONE_MINUS_BETA_1;
    *v += (square(g) - *v) * ONE_MINUS_BETA_2;
    weights[i] = w - alpha * *m / (root(*v) + EPSILON);
)";
constexpr char kAmsgrad[] =
    R"(    float *const m = slots + i, *const v = m + NUMBERS, *const u = v + NUMBERS;
    *m += (g - *m) * ONE_MINUS_BETA_1;
    *v += (square(g) - *v) * ONE_MINUS_BETA_2;
    *u = *u < *v ? *v : *u;
    weights[i] = w - alpha * *m / (root(*u) + EPSILON);
)";
constexpr char kFlush[] =
    R"(  for (i = 0; updates % 64 == 0 && i < NUMBERS * SLOTS; ++i) {
    if (magnitude(slots[i]) < 0x1p-110f) slots[i] = 0;
  }
)";

// In this text "@" is replaced by the prefix of the functions' names, and "$"
// by the names of the inputs.
constexpr char kTrain[] = R"( {
  const double scale = (double)(1.0f / (float)step_size * (1.0f / ROWS));
  double sum = 0;
  int i;
#if CLASSES
  for (i = 0; i < ROWS; ++i) {
    if (y[i] < 0 || y[i] >= WIDTH) return 1;
  }
#endif
  forward($);
  for (i = 0; i < ROWS; ++i) {
    sum += loss_of_row(OUTPUT + i * WIDTH, TARGET, GRADIENT + i * WIDTH, WIDTH,
                       scale);
  }
  if (loss) *loss = (float)(sum / ROWS);
  backward($);
  if (++seen < step_size) return 0;
  end_step();
  ++updates;
  seen = 0;
  update();
  return 0;
}

int @_begin(int examples) {
  if (examples < 1 || examples > BATCH) return 1;
  step_size = examples;
  seen = 0;
  return 0;
}

/* The checksum of tensor i, which moves *from behind it. */
static uint32_t checksum(const unsigned char** from, int i) {
  const uint32_t crc = crc_of(*from, sizes[i]);
  *from += sizes[i];
  return crc;
}

void @_save(unsigned char* bytes) {
  const unsigned char* from = bytes + sizeof header;
  unsigned char* to = bytes;
  int i;
  for (i = 0; i < (int)sizeof header; ++i) *to++ = header[i];
  for (i = 0; i < NUMBERS; ++i, to += 4) put(to, bits_of(weights[i]));
#if SLOTS
  for (i = 0; i < NUMBERS * SLOTS; ++i, to += 4) put(to, bits_of(slots[i]));
#endif
  put(to, updates);
  put(to + 4, 0);
  to += 8;
  for (i = 0; i < (int)sizeof footer; ++i) *to++ = footer[i];
  for (i = 0; i < TENSORS; ++i, to += 4) put(to, checksum(&from, i));
}

int @_load(const unsigned char* bytes, int count) {
  const unsigned char *from = bytes + sizeof header, *end;
  int i;
  if (count != STATE) return 1;
  for (i = 0; i < (int)sizeof header; ++i) {
    if (bytes[i] != header[i]) return 1;
  }
  end = bytes + STATE - 4 * TENSORS - sizeof footer;
  for (i = 0; i < (int)sizeof footer; ++i) {
    if (*end++ != footer[i]) return 2;
  }
  for (i = 0; i < TENSORS; ++i, end += 4) {
    if (get(end) != checksum(&from, i)) return 2;
  }
  from = bytes + sizeof header;
  for (i = 0; i < NUMBERS; ++i, from += 4) weights[i] = float_of(get(from));
#if SLOTS
  for (i = 0; i < NUMBERS * SLOTS; ++i, from += 4) {
    slots[i] = float_of(get(from));
  }
#endif
  updates = get(from);
  seen = 0;
  return 0;
}
)";

void AppendBytes(const char* name, const std::string& bytes,
                 std::string* text) {
  *text += FormatText("\nstatic const unsigned char %s[] = {", name);
  for (size_t i = 0; i < bytes.size(); ++i) {
    *text += FormatText("%s%d,", i % 16 == 0 ? "\n  " : " ",
                        static_cast<unsigned char>(bytes[i]));
  }
  *text += "\n};";
}

}  // namespace

Status CTraining::Make(const Model& trained, int64_t batch_size,
                       const std::vector<std::string>& frozen) {
  model = &trained;
  batch = batch_size;
  const Optimizer& o = model->optimizer();
  RINGLET_RETURN_IF_ERROR(CheckOptimizer(o));
  if (model->num_outputs() != 1) {
    return InvalidArgument("C cannot train a model of several outputs");
  }
  RINGLET_RETURN_IF_ERROR(CheckLoss(model->losses()[0]));
  loss = model->loss();
  slots = o.num_slots();
  for (const Variable& v : model->variables()) {
    if (!v.trained() ||
        std::find(frozen.begin(), frozen.end(), v.path) != frozen.end()) {
      continue;
    }
    RINGLET_RETURN_IF_ERROR(CheckVariable(v));
    variables.push_back(&v);
  }
  if (variables.empty()) {
    return InvalidArgument("the model has no weights to train");
  }
  std::vector<StateSpan> spans;
  for (int s = -1; s < slots; ++s) {
    const std::string prefix =
        s < 0 ? kWeightsPrefix
              : std::string(kOptimizerPrefix) + o.slot_name(s) + "/";
    for (const Variable* v : variables) {
      spans.push_back({prefix + v->path, DType::kFloat32, v->shape, nullptr});
    }
  }
  spans.push_back({"optimizer/iterations", DType::kInt64, {}, nullptr});
  SafetensorsWriter writer;
  RINGLET_RETURN_IF_ERROR(writer.Plan(spans, {}));
  header = writer.header();
  footer = writer.FooterStart();
  if (state_bytes() > INT32_MAX) {
    return InvalidArgument(
        "the state of a training has %lld bytes, which C's int does not count",
        static_cast<long long>(state_bytes()));
  }
  for (int i = 0; i < model->num_nodes(); ++i) {
    if (model->layer(i).kind != Layer::Kind::kMask ||
        RowsOf(model->output_shape()) == 1) {
      continue;
    }
    return InvalidArgument(
        "the loss may leave out steps that layer '%s' masks, which C does not",
        model->layer(i).name.c_str());
  }
  const Layer& last = model->layer(model->output_node(0));
  const Activation end =
      last.kind == Layer::Kind::kSoftmax ? kSoftmax : last.activation;
  takes_logits = end != kLinear && loss.logits_activation() == end;
  if (takes_logits) loss.from_logits = true;
  return Status();
}

int64_t CTraining::OffsetOf(const Variable* weight) const {
  int64_t offset = 0;
  for (const Variable* v : variables) {
    if (v == weight) return offset;
    offset += v->size();
  }
  return weight == nullptr ? offset : -1;
}

size_t CTraining::tensors() const {
  return variables.size() * static_cast<size_t>(1 + slots) + 1;
}

int64_t CTraining::state_bytes() const {
  return static_cast<int64_t>(header.size() + footer.size() + 8 +
                              4 * tensors()) +
         4 * numbers() * (1 + slots);
}

void CTraining::AddHelpers(CHelpers* helpers) const {
  static constexpr const char* kLosses[][2] = {
      {"sparse_from_probabilities", "sparse_from_logits"},
      {"categorical_from_probabilities", "categorical_from_logits"},
      {"binary_from_probabilities", "binary_from_logits"},
      {"squared_error", "squared_error"}};
  helpers->Add(kLosses[static_cast<size_t>(loss.kind)][loss.from_logits]);
  helpers->Add("bits crc");
  if (slots > 0) helpers->Add("magnitude");
  if (model->optimizer().kind != Optimizer::Kind::kSgd) {
    helpers->Add("square root power");
  }
}

std::string CTraining::Comment() const {
  const Optimizer& o = model->optimizer();
  std::string text = FormatText(
      "\n   Trains by %s with learning rate %s and %s,\n   in steps of at most "
      "%lld examples:\n",
      o.name(), ShortestText(o.learning_rate.initial).c_str(),
      loss.class_name(), static_cast<long long>(batch));
  for (const Variable* v : variables) {
    text += "     " + ForComment(v->path) + " " + v->shape.ToString() + "\n";
  }
  return text;
}

std::string CTraining::Includes() const {
  return R"(#include <float.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "compile without -ffast-math, which changes the order of sums"
#endif
#if FLT_EVAL_METHOD != 0
#error "floats would have other digits; on x86 give -msse2 -mfpmath=sse"
#endif

)";
}

std::string CTraining::Memory(const float* floats) const {
  const Shape output = model->output_shape();
  const bool classes = loss.takes_classes();
  std::string text =
      "\n" + Define("NUMBERS", numbers()) + Define("SLOTS", int64_t{slots}) +
      Define("BATCH", batch) + Define("WIDTH", output.back()) +
      Define("ROWS", RowsOf(output)) + Define("CLASSES", int64_t{classes}) +
      Define("TARGET", classes ? "y[i]" : "y + i * WIDTH") +
      "\nstatic float weights[NUMBERS] = {";
  int64_t i = 0;
  for (const Variable* v : variables) {
    for (int64_t k = 0; k < v->size(); ++k, ++i) {
      text += (i % 6 == 0 ? '\n' : ' ') + CNumber(floats[v->offset + k]) + ',';
    }
  }
  return text + R"(
};
static float gradients[NUMBERS];
#if SLOTS
static float slots[NUMBERS * SLOTS];
#endif
/* Updates so far; the examples of this step, and those seen. */
static uint32_t updates;
static int step_size = BATCH, seen;
)";
}

std::string CTraining::Functions(const CInterface& c) const {
  const Optimizer& o = model->optimizer();
  const bool adam = o.kind != Optimizer::Kind::kSgd;
  const float rate = o.learning_rate.initial;
  std::string text = "\n" + Define("LEARNING_RATE", rate);
  if (o.weight_decay != 0) text += Define("DECAY", o.weight_decay * rate);
  if (adam) {
    const StepScalars scalars = PrepareStep(o, rate, 0);
    text += Define("ONE_MINUS_BETA_1", scalars.one_minus_beta_1) +
            Define("ONE_MINUS_BETA_2", scalars.one_minus_beta_2) +
            Define("EPSILON", o.epsilon) +
            Define("LOG_BETA_1", LogOf(o.beta_1)) +
            Define("LOG_BETA_2", LogOf(o.beta_2));
  } else if (o.momentum != 0) {
    text += Define("MOMENTUM", o.momentum);
  }
  text += kUpdate;
  if (adam) text += kAdamStart;
  text += kEach;
  text += o.weight_decay != 0
              ? "    const float w = weights[i] - weights[i] * DECAY;\n"
              : "    const float w = weights[i];\n";
  text += adam              ? (o.amsgrad ? kAmsgrad : kAdam)
          : o.momentum == 0 ? kSgd
          : o.nesterov      ? kNesterov
                            : kMomentum;
  text += "  }\n";
  if (slots > 0) text += kFlush;
  text += "}\n\n" + Define("STATE", state_bytes()) +
          Define("TENSORS", static_cast<int64_t>(tensors())) +
          "/* Before the tensors of a saved state, and behind them. */";
  AppendBytes("header", header, &text);
  AppendBytes("footer", footer, &text);
  text += "\nstatic const int sizes[] = {";
  for (size_t i = 0; i + 1 < tensors(); ++i) {
    text += std::to_string(4 * variables[i % variables.size()]->size()) + ", ";
  }
  text += "8};\n\n" + TrainSignature(c);
  const std::string inputs = CNames(c.inputs);
  for (const char* at = kTrain; *at != '\0'; ++at) {
    *at == '@' ? text += c.name : *at == '$' ? text += inputs : text += *at;
  }
  return text;
}

}  // namespace ringlet
