// An optimizer, a loss or a metric is given by name or as a class with its
// config. The numbers that are written are those that Keras would write, as the
// shortest decimals that read back the same float32.

#include "compile_json.h"

#include <algorithm>
#include <limits>

#include "../../core/model/custom_metric.h"
#include "keras_json.h"

namespace ringlet {
namespace {

// --- names ------------------------------------------------------------------

constexpr Named<Loss::Kind> kLosses[] = {
    {"SparseCategoricalCrossentropy sparse_categorical_crossentropy",
     Loss::Kind::kSparseCategoricalCrossentropy},
    {"CategoricalCrossentropy categorical_crossentropy",
     Loss::Kind::kCategoricalCrossentropy},
    {"BinaryCrossentropy binary_crossentropy bce BCE",
     Loss::Kind::kBinaryCrossentropy},
    {"MeanSquaredError mean_squared_error mse MSE",
     Loss::Kind::kMeanSquaredError},
    {"MeanAbsoluteError mean_absolute_error mae MAE",
     Loss::Kind::kMeanAbsoluteError},
    {"Huber huber huber_loss", Loss::Kind::kHuber},
};

constexpr Named<Metric::Kind> kMetrics[] = {
    // Resolved with the model; Keras has no class for it.
    {"ringlet>Accuracy accuracy acc", Metric::Kind::kAccuracy},
    {"BinaryAccuracy binary_accuracy", Metric::Kind::kBinaryAccuracy},
    {"CategoricalAccuracy categorical_accuracy",
     Metric::Kind::kCategoricalAccuracy},
    {"SparseCategoricalAccuracy sparse_categorical_accuracy",
     Metric::Kind::kSparseCategoricalAccuracy},
    {"SparseTopKCategoricalAccuracy sparse_top_k_categorical_accuracy",
     Metric::Kind::kSparseTopKCategoricalAccuracy},
    {"MeanSquaredError mean_squared_error mse MSE",
     Metric::Kind::kMeanSquaredError},
    {"MeanAbsoluteError mean_absolute_error mae MAE",
     Metric::Kind::kMeanAbsoluteError},
};

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
    fields->Float("label_smoothing", kShare, &loss->label_smoothing);
  }
  if (loss->kind == Loss::Kind::kHuber) {
    fields->Float("delta", kPositive, &loss->delta);
  }
  fields->OnlyText("reduction", "sum_over_batch_size", "auto");
  ReadDType(fields);
  // Keras 2 notes the function behind the class.
  fields->Ignore({"name", "fn"});
}

Status ReadLoss(const KerasObject& object, Loss* loss) {
  Loss made;
  RINGLET_RETURN_IF_ERROR(
      Choose(kLosses, object.path, "loss", object.name, &made.kind));
  FieldReader fields(object.config, object.config_path);
  ReadLossFields(&fields, &made);
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  *loss = made;
  return Status();
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
  if (fields.Has("name")) fields.Text("name", "a string", &made.name);
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

Status LossFromJson(const Json& json, const std::string& path, Loss* loss) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  return ReadLoss(object, loss);
}

std::vector<ClassInfo> DescribeLosses() {
  return Describe(kLosses, [](const KerasObject& object) {
    Loss loss;
    (void)ReadLoss(object, &loss);
  });
}

std::vector<ClassInfo> DescribeMetrics() {
  return Describe(kMetrics, [](const KerasObject& object) {
    Metric metric;
    (void)ReadMetric(object, &metric);
  });
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
  const std::string class_name = metric.custom != nullptr
                                     ? metric.custom->class_name()
                                     : FirstName(kMetrics, metric.kind);
  WriteKerasObject(&w, "keras.metrics", class_name.c_str(), [&] {
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
