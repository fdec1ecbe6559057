#include "compile_json.h"

#include <algorithm>
#include <limits>

#include "../core/custom_metric.h"
#include "keras_json.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 53;

// --- names ------------------------------------------------------------------

enum class OptimizerClass : uint8_t { kSgd, kRmsprop, kAdam, kAdamW };

constexpr Named<OptimizerClass> kOptimizers[] = {
    {"SGD", OptimizerClass::kSgd},
    {"sgd", OptimizerClass::kSgd},
    {"RMSprop", OptimizerClass::kRmsprop},
    {"rmsprop", OptimizerClass::kRmsprop},
    {"Adam", OptimizerClass::kAdam},
    {"adam", OptimizerClass::kAdam},
    {"AdamW", OptimizerClass::kAdamW},
    {"adamw", OptimizerClass::kAdamW},
    // As TensorFlow 2.11 registered them.
    {"Custom>SGD", OptimizerClass::kSgd},
    {"Custom>RMSprop", OptimizerClass::kRmsprop},
    {"Custom>Adam", OptimizerClass::kAdam},
    {"Custom>AdamW", OptimizerClass::kAdamW},
};

constexpr Named<LearningRate::Kind> kSchedules[] = {
    {"ExponentialDecay", LearningRate::Kind::kExponentialDecay},
    {"CosineDecay", LearningRate::Kind::kCosineDecay},
    {"PiecewiseConstantDecay", LearningRate::Kind::kPiecewiseConstantDecay},
};

constexpr Named<Loss::Kind> kLosses[] = {
    {"SparseCategoricalCrossentropy",
     Loss::Kind::kSparseCategoricalCrossentropy},
    {"sparse_categorical_crossentropy",
     Loss::Kind::kSparseCategoricalCrossentropy},
    {"CategoricalCrossentropy", Loss::Kind::kCategoricalCrossentropy},
    {"categorical_crossentropy", Loss::Kind::kCategoricalCrossentropy},
    {"BinaryCrossentropy", Loss::Kind::kBinaryCrossentropy},
    {"binary_crossentropy", Loss::Kind::kBinaryCrossentropy},
    {"bce", Loss::Kind::kBinaryCrossentropy},
    {"BCE", Loss::Kind::kBinaryCrossentropy},
    {"MeanSquaredError", Loss::Kind::kMeanSquaredError},
    {"mean_squared_error", Loss::Kind::kMeanSquaredError},
    {"mse", Loss::Kind::kMeanSquaredError},
    {"MSE", Loss::Kind::kMeanSquaredError},
    {"MeanAbsoluteError", Loss::Kind::kMeanAbsoluteError},
    {"mean_absolute_error", Loss::Kind::kMeanAbsoluteError},
    {"mae", Loss::Kind::kMeanAbsoluteError},
    {"MAE", Loss::Kind::kMeanAbsoluteError},
    {"Huber", Loss::Kind::kHuber},
    {"huber", Loss::Kind::kHuber},
    {"huber_loss", Loss::Kind::kHuber},
};

// An accuracy that is resolved with the model; Keras has no class for it.
constexpr char kAnyAccuracy[] = "ringlet>Accuracy";

constexpr Named<Metric::Kind> kMetrics[] = {
    {kAnyAccuracy, Metric::Kind::kAccuracy},
    {"accuracy", Metric::Kind::kAccuracy},
    {"acc", Metric::Kind::kAccuracy},
    {"BinaryAccuracy", Metric::Kind::kBinaryAccuracy},
    {"binary_accuracy", Metric::Kind::kBinaryAccuracy},
    {"CategoricalAccuracy", Metric::Kind::kCategoricalAccuracy},
    {"categorical_accuracy", Metric::Kind::kCategoricalAccuracy},
    {"SparseCategoricalAccuracy", Metric::Kind::kSparseCategoricalAccuracy},
    {"sparse_categorical_accuracy", Metric::Kind::kSparseCategoricalAccuracy},
    {"SparseTopKCategoricalAccuracy",
     Metric::Kind::kSparseTopKCategoricalAccuracy},
    {"sparse_top_k_categorical_accuracy",
     Metric::Kind::kSparseTopKCategoricalAccuracy},
    {"MeanSquaredError", Metric::Kind::kMeanSquaredError},
    {"mean_squared_error", Metric::Kind::kMeanSquaredError},
    {"mse", Metric::Kind::kMeanSquaredError},
    {"MSE", Metric::Kind::kMeanSquaredError},
    {"MeanAbsoluteError", Metric::Kind::kMeanAbsoluteError},
    {"mean_absolute_error", Metric::Kind::kMeanAbsoluteError},
    {"mae", Metric::Kind::kMeanAbsoluteError},
    {"MAE", Metric::Kind::kMeanAbsoluteError},
};

// --- learning rates ---------------------------------------------------------

void ReadBoundaries(FieldReader* fields, LearningRate* rate) {
  fields->Require("boundaries");
  const Json list = fields->Take("boundaries");
  if (!list) return;
  bool good = list.is_array();
  for (Json m = list.first(); good && m; m = m.next()) {
    int64_t step = 0;
    good = m.ToInt64(&step) &&
           (rate->boundaries.empty() || step >= rate->boundaries.back());
    rate->boundaries.push_back(step);
  }
  if (!good) {
    fields->Refuse("boundaries", "must be a list of growing whole numbers");
  }
}

void ReadValues(FieldReader* fields, LearningRate* rate) {
  fields->Require("values");
  const Json list = fields->Take("values");
  if (!list) return;
  constexpr double kMost = std::numeric_limits<float>::max();
  bool good = list.is_array();
  for (Json m = list.first(); good && m; m = m.next()) {
    good = m.kind() == Json::Kind::kNumber && m.number() >= 0 &&
           m.number() <= kMost;
    if (good) rate->values.push_back(static_cast<float>(m.number()));
  }
  if (!good || rate->values.size() != rate->boundaries.size() + 1) {
    fields->Refuse("values",
                   "must be a list of numbers >= 0, one more than boundaries");
  }
  if (!rate->values.empty()) rate->initial = rate->values[0];
}

void ReadCosineDecay(FieldReader* fields, LearningRate* rate) {
  fields->Float("alpha", &rate->alpha);
  fields->Int("warmup_steps", 0, kMaxSteps, &rate->warmup_steps);
  if (!fields->Has("warmup_target")) {
    rate->warmup_steps = 0;  // Keras then warms nothing up
    return;
  }
  fields->Float("warmup_target", &rate->warmup_target);
  if (!(rate->warmup_target >= 0)) {
    fields->Refuse("warmup_target", "must be >= 0");
  }
  // Without a step of warming up Keras decays from the target all the same.
  if (rate->warmup_steps == 0) {
    rate->initial = rate->warmup_target;
    rate->warmup_target = 0;
  }
}

Status ReadSchedule(const KerasObject& object, LearningRate* rate) {
  LearningRate::Kind kind{};
  RINGLET_RETURN_IF_ERROR(Choose(kSchedules, object.path,
                                 "learning rate schedule", object.name, &kind));
  *rate = LearningRate();
  rate->kind = kind;
  FieldReader fields(object.config, object.config_path);
  fields.Ignore({"name"});
  if (kind == LearningRate::Kind::kPiecewiseConstantDecay) {
    ReadBoundaries(&fields, rate);
    ReadValues(&fields, rate);
  } else {
    fields.Require("initial_learning_rate");
    fields.Float("initial_learning_rate", &rate->initial);
    fields.Require("decay_steps");
    fields.Int("decay_steps", 1, kMaxSteps, &rate->decay_steps);
    if (kind == LearningRate::Kind::kCosineDecay) {
      ReadCosineDecay(&fields, rate);
    } else {
      fields.Require("decay_rate");
      fields.Float("decay_rate", &rate->decay_rate);
      fields.Bool("staircase", &rate->staircase);
    }
  }
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  return rate->Check().Annotate("%s", object.config_path.c_str());
}

void ReadLearningRate(FieldReader* fields, LearningRate* rate) {
  const Json json = fields->Take("learning_rate");
  if (!json) return;
  if (json.is_object()) {
    KerasObject object;
    const Status read =
        ReadKerasObject(json, fields->PathOf("learning_rate"), &object);
    return fields->Fail(read.ok() ? ReadSchedule(object, rate) : read);
  }
  fields->Float("learning_rate", &rate->initial);
  if (!(rate->initial >= 0)) fields->Refuse("learning_rate", "must be >= 0");
}

void WriteLearningRate(JsonWriter* w, const LearningRate& rate) {
  using Kind = LearningRate::Kind;
  w->Key("learning_rate");
  if (rate.kind == Kind::kConstant) {
    w->Float(rate.initial);
    return;
  }
  const char* name = FirstName(kSchedules, rate.kind);
  WriteKerasObject(w, "keras.optimizers.schedules", name, [&] {
    if (rate.kind == Kind::kPiecewiseConstantDecay) {
      w->Key("boundaries").BeginArray();
      for (int64_t step : rate.boundaries) w->Int(step);
      w->EndArray().Key("values").BeginArray();
      for (float value : rate.values) w->Float(value);
      w->EndArray();
    } else {
      w->Key("initial_learning_rate").Float(rate.initial);
      w->Key("decay_steps").Int(rate.decay_steps);
    }
    if (rate.kind == Kind::kExponentialDecay) {
      w->Key("decay_rate").Float(rate.decay_rate);
      w->Key("staircase").Bool(rate.staircase);
    } else if (rate.kind == Kind::kCosineDecay) {
      w->Key("alpha").Float(rate.alpha);
      w->Key("warmup_target");
      if (rate.warmup_steps > 0) {
        w->Float(rate.warmup_target);
      } else {
        w->Null();
      }
      w->Key("warmup_steps").Int(std::max<int64_t>(rate.warmup_steps, 0));
    }
    w->Key("name").String(name);
  });
}

// --- optimizers -------------------------------------------------------------

Optimizer DefaultOptimizer(OptimizerClass which) {
  switch (which) {
    case OptimizerClass::kSgd:
      return SGD();
    case OptimizerClass::kRmsprop:
      return RMSprop();
    case OptimizerClass::kAdam:
      return Adam();
    case OptimizerClass::kAdamW:
      return AdamW();
  }
  return SGD();
}

// A number > 0, or null for none.
void ReadClip(const char* key, FieldReader* fields, float* value) {
  if (!fields->Has(key)) return;
  fields->Float(key, value);
  if (!(*value > 0)) fields->Refuse(key, "must be > 0, or null");
}

// Steps to add up, or null for none.
void ReadAccumulation(FieldReader* fields, Optimizer* o) {
  constexpr char kKey[] = "gradient_accumulation_steps";
  int64_t steps = 0;
  if (fields->Has(kKey)) {
    fields->Int(kKey, 2, std::numeric_limits<int>::max(), &steps);
  }
  o->gradient_accumulation_steps = static_cast<int>(steps);
}

// What all of Keras's optimizers have.
void ReadCommon(FieldReader* fields, Optimizer* o) {
  ReadLearningRate(fields, &o->learning_rate);
  if (o->weight_decay != 0 || fields->Has("weight_decay")) {
    fields->Float("weight_decay", &o->weight_decay);
  }
  ReadClip("clipnorm", fields, &o->clipnorm);
  ReadClip("global_clipnorm", fields, &o->global_clipnorm);
  ReadClip("clipvalue", fields, &o->clipvalue);
  fields->OnlyBool("use_ema", false);
  ReadAccumulation(fields, o);
  fields->OnlyNull({"loss_scale_factor"});
  fields->OnlyNumber("decay", 0);  // Keras 2's own schedule
  fields->Ignore({"name", "ema_momentum", "ema_overwrite_frequency",
                  "jit_compile", "is_legacy_optimizer"});
}

void ReadOwn(FieldReader* fields, Optimizer* o) {
  switch (o->kind) {
    case Optimizer::Kind::kSgd:
      fields->Float("momentum", &o->momentum);
      return fields->Bool("nesterov", &o->nesterov);
    case Optimizer::Kind::kRmsprop:
      fields->Float("rho", &o->rho);
      fields->Float("momentum", &o->momentum);
      fields->Float("epsilon", &o->epsilon);
      return fields->Bool("centered", &o->centered);
    case Optimizer::Kind::kAdam:
      fields->Float("beta_1", &o->beta_1);
      fields->Float("beta_2", &o->beta_2);
      fields->Float("epsilon", &o->epsilon);
      return fields->Bool("amsgrad", &o->amsgrad);
  }
}

void WriteClip(JsonWriter* w, const char* key, float value) {
  w->Key(key);
  if (value > 0) {
    w->Float(value);
  } else {
    w->Null();
  }
}

void WriteOwn(JsonWriter* w, const Optimizer& o) {
  switch (o.kind) {
    case Optimizer::Kind::kSgd:
      w->Key("momentum").Float(o.momentum).Key("nesterov").Bool(o.nesterov);
      return;
    case Optimizer::Kind::kRmsprop:
      w->Key("rho").Float(o.rho).Key("momentum").Float(o.momentum);
      w->Key("epsilon").Float(o.epsilon).Key("centered").Bool(o.centered);
      return;
    case Optimizer::Kind::kAdam:
      w->Key("beta_1").Float(o.beta_1).Key("beta_2").Float(o.beta_2);
      w->Key("epsilon").Float(o.epsilon).Key("amsgrad").Bool(o.amsgrad);
      return;
  }
}

// --- losses -----------------------------------------------------------------

// A loss's own fields, and those whose one value ringlet has.
void ReadLossFields(FieldReader* fields, Loss* loss) {
  const bool sparse = loss->takes_classes();
  const bool categorical = loss->kind == Loss::Kind::kCategoricalCrossentropy;
  const bool binary = loss->kind == Loss::Kind::kBinaryCrossentropy;
  if (sparse || categorical || binary) {
    fields->Bool("from_logits", &loss->from_logits);
    fields->OnlyNumber("axis", -1);
  }
  if (sparse) fields->OnlyNull({"ignore_class"});
  if (categorical || binary) {
    fields->Float("label_smoothing", &loss->label_smoothing);
    if (!(loss->label_smoothing >= 0 && loss->label_smoothing <= 1)) {
      fields->Refuse("label_smoothing", "must be in [0, 1]");
    }
  }
  if (loss->kind == Loss::Kind::kHuber) {
    fields->Float("delta", &loss->delta);
    if (!(loss->delta > 0)) fields->Refuse("delta", "must be > 0");
  }
  std::string reduction;
  if (fields->Has("reduction")) fields->String("reduction", &reduction);
  if (!reduction.empty() && reduction != "sum_over_batch_size" &&
      reduction != "auto") {
    fields->Refuse("reduction",
                   "ringlet supports only \"sum_over_batch_size\"");
  }
  ReadDType(fields);
  // Keras 2 notes the function behind the class.
  fields->Ignore({"name", "fn"});
}

// --- metrics ----------------------------------------------------------------

bool IsAnyAccuracy(const std::string& name) {
  std::string lower = name;
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower == "accuracy" || lower == "acc";
}

Metric DefaultMetric(Metric::Kind kind) {
  switch (kind) {
    case Metric::Kind::kAccuracy:
      return Accuracy();
    case Metric::Kind::kBinaryAccuracy:
      return BinaryAccuracy();
    case Metric::Kind::kCategoricalAccuracy:
      return CategoricalAccuracy();
    case Metric::Kind::kSparseCategoricalAccuracy:
      return SparseCategoricalAccuracy();
    case Metric::Kind::kSparseTopKCategoricalAccuracy:
      return SparseTopKCategoricalAccuracy();
    case Metric::Kind::kMeanSquaredError:
      return MeanSquaredErrorMetric();
    case Metric::Kind::kMeanAbsoluteError:
      return MeanAbsoluteErrorMetric();
    case Metric::Kind::kCustom:  // is in no table
      break;
  }
  return Accuracy();
}

Status ReadMetric(const KerasObject& object, Metric* metric) {
  // As Keras: of any case, under the name it was asked for by.
  if (object.name_only && IsAnyAccuracy(object.name)) {
    *metric = Accuracy().Name(object.name);
    return Status();
  }
  if (!object.name_only && IsAnyAccuracy(object.name)) {
    return InvalidArgument(
        "%s: Keras's class %s asks whether values are equal, which ringlet "
        "does not have; the name \"accuracy\" alone asks for the share of "
        "right answers",
        object.path.c_str(), object.name.c_str());
  }
  Metric::Kind kind{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kMetrics, object.path, "metric", object.name, &kind));
  Metric made = DefaultMetric(kind);
  FieldReader fields(object.config, object.config_path);
  if (fields.Has("name")) {
    fields.String("name", &made.name);
    if (made.name.empty()) fields.Refuse("name", "must not be empty");
  }
  ReadDType(&fields);
  if (kind == Metric::Kind::kBinaryAccuracy) {
    fields.Float("threshold", &made.threshold);
  }
  if (kind == Metric::Kind::kSparseTopKCategoricalAccuracy) {
    int64_t k = made.k;
    fields.Int("k", 1, std::numeric_limits<int>::max(), &k);
    made.k = static_cast<int>(k);
  }
  fields.Ignore({"fn"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  *metric = made;
  return Status();
}

// --- texts ------------------------------------------------------------------

// A name without its quotes.
bool IsBareName(const std::string& text) {
  if (text.empty() || text.size() > 64 || text == "null" || text == "true" ||
      text == "false") {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  });
}

template <typename T>
Status FromText(const std::string& text, const char* what,
                Status (*read)(const Json&, const std::string&, T*), T* value) {
  Json json;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(
      IsBareName(text) ? "\"" + text + "\"" : text, what, &json));
  return read(json, "", value).Annotate("%s", what);
}

}  // namespace

Status OptimizerFromJson(const Json& json, const std::string& path,
                         Optimizer* optimizer) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  OptimizerClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kOptimizers, object.path, "optimizer", object.name, &which));
  Optimizer made = DefaultOptimizer(which);
  FieldReader fields(object.config, object.config_path);
  ReadCommon(&fields, &made);
  ReadOwn(&fields, &made);
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  RINGLET_RETURN_IF_ERROR(
      made.Check().Annotate("%s", object.config_path.c_str()));
  *optimizer = made;
  return Status();
}

Status LossFromJson(const Json& json, const std::string& path, Loss* loss) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  Loss made;
  RINGLET_RETURN_IF_ERROR(
      Choose(kLosses, object.path, "loss", object.name, &made.kind));
  FieldReader fields(object.config, object.config_path);
  ReadLossFields(&fields, &made);
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  *loss = made;
  return Status();
}

Status MetricFromJson(const Json& json, const std::string& path,
                      Metric* metric) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  return ReadMetric(object, metric);
}

Status OptimizerFromJson(const std::string& json, Optimizer* optimizer) {
  return FromText<Optimizer>(json, "optimizer", OptimizerFromJson, optimizer);
}

Status LossFromJson(const std::string& json, Loss* loss) {
  return FromText<Loss>(json, "loss", LossFromJson, loss);
}

Status MetricFromJson(const std::string& json, Metric* metric) {
  return FromText<Metric>(json, "metric", MetricFromJson, metric);
}

std::string ToJson(const Optimizer& optimizer) {
  JsonWriter w;
  WriteKerasObject(&w, "keras.optimizers", optimizer.name, [&] {
    w.Key("name").String(optimizer.name);
    WriteLearningRate(&w, optimizer.learning_rate);
    w.Key("weight_decay");
    // AdamW takes no null.
    if (optimizer.weight_decay != 0 ||
        std::string(optimizer.name) == AdamW().name) {
      w.Float(optimizer.weight_decay);
    } else {
      w.Null();
    }
    WriteClip(&w, "clipnorm", optimizer.clipnorm);
    WriteClip(&w, "global_clipnorm", optimizer.global_clipnorm);
    WriteClip(&w, "clipvalue", optimizer.clipvalue);
    w.Key("use_ema").Bool(false).Key("ema_momentum").Float(0.99f);
    w.Key("ema_overwrite_frequency").Null().Key("loss_scale_factor").Null();
    w.Key("gradient_accumulation_steps");
    if (optimizer.accumulates()) {
      w.Int(optimizer.gradient_accumulation_steps);
    } else {
      w.Null();
    }
    WriteOwn(&w, optimizer);
  });
  return w.text();
}

std::string ToJson(const Loss& loss) {
  JsonWriter w;
  WriteKerasObject(&w, "keras.losses", loss.class_name(), [&] {
    w.Key("name").String(loss.name());
    w.Key("reduction").String("sum_over_batch_size");
    switch (loss.kind) {
      case Loss::Kind::kSparseCategoricalCrossentropy:
        w.Key("from_logits").Bool(loss.from_logits);
        w.Key("ignore_class").Null();
        return;
      case Loss::Kind::kCategoricalCrossentropy:
      case Loss::Kind::kBinaryCrossentropy:
        w.Key("from_logits").Bool(loss.from_logits);
        w.Key("label_smoothing").Float(loss.label_smoothing);
        w.Key("axis").Int(-1);
        return;
      case Loss::Kind::kMeanSquaredError:
      case Loss::Kind::kMeanAbsoluteError:
        return;
      case Loss::Kind::kHuber:
        w.Key("delta").Float(loss.delta);
        return;
      case Loss::Kind::kCustom:  // its options are its own
        return;
    }
  });
  return w.text();
}

std::string ToJson(const Metric& metric) {
  JsonWriter w;
  if (metric.kind == Metric::Kind::kAccuracy && IsAnyAccuracy(metric.name)) {
    return w.String(metric.name).text();
  }
  const char* const class_name = metric.custom != nullptr
                                     ? metric.custom->class_name()
                                     : FirstName(kMetrics, metric.kind);
  WriteKerasObject(&w, "keras.metrics", class_name, [&] {
    w.Key("name").String(metric.name).Key("dtype").String("float32");
    if (metric.kind == Metric::Kind::kBinaryAccuracy) {
      w.Key("threshold").Float(metric.threshold);
    }
    if (metric.kind == Metric::Kind::kSparseTopKCategoricalAccuracy) {
      w.Key("k").Int(metric.k);
    }
  });
  return w.text();
}

}  // namespace ringlet
