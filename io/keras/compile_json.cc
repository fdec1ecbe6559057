// An optimizer, a loss or a metric is a name or a class with its config.
// Numbers are written as in Keras: the shortest decimals that read back as the
// same float32.

#include "compile_json.h"

#include <algorithm>

#include "../../core/base/text.h"
#include "../../core/objective/loss_table.h"
#include "../../core/objective/metric_table.h"
#include "config_field_json.h"
#include "keras_json.h"

namespace ringlet {
namespace {

// --- names ------------------------------------------------------------------

NameTable LossNames() {
  NameTable names;
  for (const LossClass& row : AllLosses()) names.Add(row.name, row.aliases);
  return names;
}

NameTable MetricNames() {
  NameTable names;
  for (const MetricClass& row : AllMetrics()) names.Add(row.name, row.aliases);
  return names;
}

// --- losses -----------------------------------------------------------------

// "auto" is the name in Keras 2, "mean" one in Keras 3.
constexpr Named<LossReduction> kReductions[] = {
    {"sum_over_batch_size auto mean", LossReduction::kSumOverBatchSize},
    {"sum", LossReduction::kSum}};

void ReadReduction(FieldReader* fields, LossReduction* reduction) {
  const Json json = fields->Take("reduction");
  if (json.text() == "mean_with_sample_weight") {
    fields->Refuse("reduction",
                   "the sum of all workers' weights is not known before the "
                   "gradients are computed; scale the weights to a mean of 1 "
                   "and take \"sum_over_batch_size\"");
  } else if (json.text() == "none" || json.kind() == Json::Kind::kNull) {
    fields->Refuse("reduction", "training needs one number for a step");
  }
  fields->Choice("reduction", kReductions, reduction);
}

Status ReadLoss(const KerasObject& object, Loss* loss) {
  size_t row = 0;
  RINGLET_RETURN_IF_ERROR(
      ChooseRow(LossNames(), object.path, "loss", object.name, &row));
  Loss new_loss;
  new_loss.kind = static_cast<Loss::Kind>(row);
  FieldReader fields(object.config, object.config_path);
  ReadFields(ClassOf(new_loss).fields, &new_loss, &fields);
  ReadReduction(&fields, &new_loss.reduction);
  ReadDType(&fields);
  // Keras 2 stores the function behind the class.
  fields.Ignore({"name", "fn"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  *loss = new_loss;
  return Status();
}

// --- metrics ----------------------------------------------------------------

bool IsAnyAccuracy(const std::string& name) {
  const std::string lower = LowerAscii(name);
  return lower == "accuracy" || lower == "acc";
}

Status ReadMetric(const KerasObject& object, Metric* metric) {
  // Keras accepts any case of the name, and the metric keeps that name.
  if (object.name_only && IsAnyAccuracy(object.name)) {
    *metric = Accuracy().Name(object.name);
    return Status();
  }
  if (!object.name_only && IsAnyAccuracy(object.name)) {
    return InvalidArgument(
        "%s: Keras's class %s compares values for equality, which ringlet does "
        "not support; the name \"accuracy\" means the fraction of correct "
        "answers",
        object.path.c_str(), object.name.c_str());
  }
  size_t row = 0;
  RINGLET_RETURN_IF_ERROR(
      ChooseRow(MetricNames(), object.path, "metric", object.name, &row));
  Metric new_metric = MetricOf(static_cast<Metric::Kind>(row));
  if (object.name_only) new_metric.name = object.name;  // Keras 3 does so too
  FieldReader fields(object.config, object.config_path);
  if (fields.MarkOptional("name"))
    fields.Text("name", "a string", &new_metric.name);
  ReadDType(&fields);
  ReadFields(ClassOf(new_metric).fields, &new_metric, &fields);
  fields.Ignore({"fn"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  *metric = new_metric;
  return Status();
}

// --- texts ------------------------------------------------------------------

// True for a name without quotes.
bool IsBareName(const std::string& text) {
  if (text.empty() || text.size() > 64 || text == "null" || text == "true" ||
      text == "false") {
    return false;
  }
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || IsDigit(c);
         });
}

template <typename T>
Status FromText(const std::string& text, const char* name,
                Status (*read)(const Json&, const std::string&, T*), T* value) {
  Json json;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(
      IsBareName(text) ? "\"" + text + "\"" : text, name, &json));
  return read(json, "", value).Annotate("%s", name);
}

}  // namespace

Status LossFromJson(const Json& json, const std::string& path, Loss* loss) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  return ReadLoss(object, loss);
}

std::vector<ClassInfo> DescribeLosses() {
  return Describe(LossNames(), [](const KerasObject& object) {
    Loss loss;
    (void)ReadLoss(object, &loss);
  });
}

std::vector<ClassInfo> DescribeMetrics() {
  return Describe(MetricNames(), [](const KerasObject& object) {
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
    w.Key("reduction").String(FirstName(kReductions, loss.reduction));
    // A custom loss has its own options.
    if (loss.custom == nullptr) WriteFields(ClassOf(loss).fields, loss, &w);
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
                                     : ClassOf(metric).name;
  WriteKerasObject(&w, "keras.metrics", class_name, [&] {
    w.Key("name").String(metric.name).Key("dtype").String("float32");
    if (metric.custom != nullptr) return;  // it has its own options
    WriteFields(ClassOf(metric).fields, metric, &w);
  });
  return w.text();
}

}  // namespace ringlet
