// An optimizer, a loss or a metric is a name or a class with its config.
// Numbers are written as in Keras: the shortest decimals that read back as the
// same float32.

#include "compile_json.h"

#include <algorithm>
#include <limits>

#include "../../core/base/text.h"
#include "../../core/objective/loss_table.h"
#include "../../core/objective/metric_table.h"
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

// Reads any whole number, or null.
void ReadClass(FieldReader* fields, const char* key,
               std::optional<int>* value) {
  if (!fields->MarkOptional(key)) return;
  int64_t number = std::numeric_limits<int64_t>::max();  // no default
  fields->Int(key, std::numeric_limits<int>::min(),
              std::numeric_limits<int>::max(), &number);
  *value = static_cast<int>(number);
}

void WriteClass(JsonWriter* w, const std::optional<int>& value) {
  if (value) {
    w->Int(*value);
  } else {
    w->Null();
  }
}

// Reads the fields of this class, and fields with one supported value.
void ReadLossFields(FieldReader* fields, Loss* loss) {
  for (const LossField& field : ClassOf(*loss)) {
    if (const auto* number = std::get_if<float Loss::*>(&field.value)) {
      fields->Float(field.name, field.range, &(loss->**number));
    } else if (const auto* flag = std::get_if<bool Loss::*>(&field.value)) {
      fields->Bool(field.name, &(loss->**flag));
    } else if (const auto* only = std::get_if<int>(&field.value)) {
      fields->OnlyNumber(field.name, *only);
    } else {
      ReadClass(fields, field.name,
                &(loss->*std::get<std::optional<int> Loss::*>(field.value)));
    }
  }
}

Status ReadLoss(const KerasObject& object, Loss* loss) {
  size_t row = 0;
  RINGLET_RETURN_IF_ERROR(
      ChooseRow(LossNames(), object.path, "loss", object.name, &row));
  Loss new_loss;
  new_loss.kind = static_cast<Loss::Kind>(row);
  FieldReader fields(object.config, object.config_path);
  ReadLossFields(&fields, &new_loss);
  ReadReduction(&fields, &new_loss.reduction);
  ReadDType(&fields);
  // Keras 2 stores the function behind the class.
  fields.Ignore({"name", "fn"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  *loss = new_loss;
  return Status();
}

void WriteLossFields(JsonWriter* w, const Loss& loss) {
  for (const LossField& field : ClassOf(loss)) {
    if (!field.written) continue;
    w->Key(field.name);
    if (const auto* number = std::get_if<float Loss::*>(&field.value)) {
      w->Float(loss.**number);
    } else if (const auto* flag = std::get_if<bool Loss::*>(&field.value)) {
      w->Bool(loss.**flag);
    } else if (const auto* only = std::get_if<int>(&field.value)) {
      w->Int(*only);
    } else {
      WriteClass(w, loss.*std::get<std::optional<int> Loss::*>(field.value));
    }
  }
}

// --- metrics ----------------------------------------------------------------

bool IsAnyAccuracy(const std::string& name) {
  const std::string lower = LowerAscii(name);
  return lower == "accuracy" || lower == "acc";
}

// Reads a field that not all metrics have.
class MetricFieldReader {
 public:
  MetricFieldReader(FieldReader* fields, const MetricField& field,
                    Metric* metric)
      : fields_(*fields), name_(field.name), metric_(*metric) {
    if (field.required) fields_.Require(name_);
    std::visit([this](const auto& value) { Read(value); }, field.value);
  }

 private:
  void Read(const MetricInt& field) {
    if (field.optional && !fields_.MarkOptional(name_)) return;
    int64_t number = metric_.*field.value;
    fields_.Int(name_, field.low, std::numeric_limits<int>::max(), &number);
    metric_.*field.value = static_cast<int>(number);
  }
  void Read(const MetricFloat& field) {
    if (field.optional && !fields_.MarkOptional(name_)) return;
    const Json json = fields_.Take(name_);
    if (field.optional && json.is_array()) return ReadList(field, json);
    fields_.Float(name_, field.range, &(metric_.*field.value));
  }
  void ReadList(const MetricFloat& field, const Json& list) {
    const double number = list.first().number();
    if (list.size() != 1 || list.first().kind() != Json::Kind::kNumber ||
        !field.range.Holds(number)) {
      return fields_.Refuse(name_, "must be " + ToString(field.range) +
                                       "; for several thresholds give several "
                                       "metrics, each with its own name");
    }
    metric_.*field.value = static_cast<float>(number);
  }
  void Read(const MetricWord& field) {
    if (field.null >= 0 && !fields_.MarkOptional(name_)) return;
    const std::vector<std::string> words = Words(field.words);
    std::string takes;
    for (const std::string& word : words) {
      takes += (takes.empty() ? "" : ", ") + AsJson(word);
    }
    const auto standard = static_cast<size_t>(field.get(metric_));
    const Json json = fields_.Take(
        name_, takes,
        standard < words.size() ? AsJson(words[standard]) : "null");
    if (!json) return;
    const auto at = std::find(words.begin(), words.end(), json.text());
    if (at == words.end()) return fields_.MustBe(name_, takes);
    field.set(static_cast<int>(at - words.begin()), &metric_);
  }
  void Read(bool Metric::*field) { fields_.Bool(name_, &(metric_.*field)); }
  void Read(std::optional<int> Metric::*field) {
    ReadClass(&fields_, name_, &(metric_.*field));
  }
  void Read(const OnlyValue& only) {
    switch (only.kind) {
      case OnlyValue::Kind::kNull:
        return fields_.OnlyNull({name_});
      case OnlyValue::Kind::kFalse:
        return fields_.OnlyBool(name_, false);
      case OnlyValue::Kind::kMinusOne:
        return fields_.OnlyNumber(name_, -1);
      case OnlyValue::Kind::kZero:
        return fields_.OnlyNumber(name_, 0);
    }
  }

  FieldReader& fields_;
  const char* const name_;
  Metric& metric_;
};

void Write(JsonWriter* w, const Metric& metric, const MetricField& field) {
  const auto* const int_field = std::get_if<MetricInt>(&field.value);
  // Only a MetricInt may be a field that Keras does not have.
  if (!field.keras_has && metric.*int_field->value < int_field->low) return;
  w->Key(field.name);
  if (int_field != nullptr) {
    const int value = metric.*int_field->value;
    if (value < int_field->low) {
      w->Null();
    } else {
      w->Int(value);
    }
  } else if (const auto* number = std::get_if<MetricFloat>(&field.value)) {
    const float value = metric.*number->value;
    if (number->optional && value < 0) {
      w->Null();
    } else {
      w->Float(value);
    }
  } else if (const auto* word = std::get_if<MetricWord>(&field.value)) {
    if (word->get(metric) == word->null) {
      w->Null();
    } else {
      w->String(Words(word->words)[static_cast<size_t>(word->get(metric))]);
    }
  } else if (const auto* flag = std::get_if<bool Metric::*>(&field.value)) {
    w->Bool(metric.**flag);
  } else if (const auto* any =
                 std::get_if<std::optional<int> Metric::*>(&field.value)) {
    WriteClass(w, metric.**any);
  } else {
    switch (std::get<OnlyValue>(field.value).kind) {
      case OnlyValue::Kind::kNull:
        w->Null();
        break;
      case OnlyValue::Kind::kFalse:
        w->Bool(false);
        break;
      case OnlyValue::Kind::kMinusOne:
        w->Int(-1);
        break;
      case OnlyValue::Kind::kZero:
        w->Int(0);
        break;
    }
  }
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
  for (const MetricField& field : ClassOf(new_metric)) {
    MetricFieldReader(&fields, field, &new_metric);
  }
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
           return letter(c) || (c >= '0' && c <= '9');
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
    if (loss.custom == nullptr) WriteLossFields(&w, loss);
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
    for (const MetricField& field : ClassOf(metric)) {
      Write(&w, metric, field);
    }
  });
  return w.text();
}

}  // namespace ringlet
