// Losses, weights and metrics are given for all outputs, by order or by name
// (ByOutput). They are read without a model, and resolved to its outputs only
// in ResolveOutputs: a RUN.json may name a model that is loaded later.

#include "compile_arguments.h"

#include <cmath>

#include "../../core/base/check.h"
#include "../../core/base/text.h"
#include "compile_json.h"
#include "keras_json.h"

namespace ringlet {

namespace {

// Returns the metrics with the examples' weights, or the metrics without
// weights.
std::string ListOf(const std::vector<Metric>& metrics, bool weighted) {
  std::string text;
  for (const Metric& metric : metrics) {
    if (metric.weighted != weighted) continue;
    text += (text.empty() ? "" : ",") + ToJson(metric);
  }
  return "[" + text + "]";
}

// A list of the text of `write` for each output; with one output only the text.
template <typename Write>
std::string ByOrder(const std::vector<OutputLoss>& outputs,
                    const Write& write) {
  if (outputs.size() == 1) return write(outputs[0]);
  std::string text;
  for (const OutputLoss& output : outputs) {
    text += (text.empty() ? "" : ",") + write(output);
  }
  return "[" + text + "]";
}

}  // namespace

std::string CompileArgumentsToJson(const Model& compiled) {
  const std::vector<OutputLoss>& outputs = compiled.losses();
  bool weighted = false, scaled = false;
  for (const OutputLoss& output : outputs) {
    scaled = scaled || output.weight != 1;
    for (const Metric& metric : output.metrics) {
      weighted = weighted || metric.weighted;
    }
  }
  const auto metrics = [&](bool with_weights) {
    return ByOrder(outputs, [&](const OutputLoss& output) {
      return ListOf(output.metrics, with_weights);
    });
  };
  std::string text = "{\"optimizer\":" + ToJson(compiled.optimizer());
  text += ",\"loss\":" + ByOrder(outputs, [](const OutputLoss& output) {
            return output.trains ? ToJson(output.loss) : "null";
          });
  if (scaled) {
    text +=
        ",\"loss_weights\":" + ByOrder(outputs, [](const OutputLoss& output) {
          return JsonWriter().Float(output.weight).text();
        });
  }
  text += ",\"metrics\":" + metrics(/*weighted=*/false);
  if (weighted) text += ",\"weighted_metrics\":" + metrics(/*weighted=*/true);
  return text + "}";
}

namespace {

// Reads a list, an object by names, or one value. With `one` an object is a
// value.
template <typename T, typename Read>
Status ReadByOutput(const Json& json, const std::string& path, bool one,
                    const Read& read, ByOutput<T>* outputs) {
  const bool names = json.is_object() && !one;
  outputs->form = names             ? ByOutput<T>::Form::kNames
                  : json.is_array() ? ByOutput<T>::Form::kOrder
                                    : ByOutput<T>::Form::kAll;
  if (!names && !json.is_array()) {
    outputs->values.resize(1);
    return read(json, path, &outputs->values[0].second);
  }
  int64_t i = 0;
  for (Json m = json.first(); m; m = m.next(), ++i) {
    std::pair<std::string, T> value;
    if (names) value.first = m.key();
    outputs->nested |= !names && m.is_array();
    RINGLET_RETURN_IF_ERROR(
        read(m, names ? JoinPath(path, Printable(m.key())) : JoinPath(path, i),
             &value.second));
    outputs->values.push_back(std::move(value));
  }
  return Status();
}

Status ReadLoss(const Json& json, const std::string& path,
                std::optional<Loss>* loss) {
  if (json.kind() == Json::Kind::kNull) return Status();
  loss->emplace();
  return LossFromJson(json, path, &**loss);
}

Status ReadWeight(const Json& json, const std::string& path, float* weight) {
  const double number = json.number();
  *weight = static_cast<float>(number);
  if (json.kind() == Json::Kind::kNumber && std::isfinite(*weight)) {
    return Status();
  }
  return InvalidArgument("%s: is %s; must be a number", path.c_str(),
                         Show(json).c_str());
}

// Reads one metric, null, or a list.
Status ReadMetrics(const Json& json, const std::string& path, bool weighted,
                   std::vector<Metric>* metrics) {
  if (json.kind() == Json::Kind::kNull) return Status();
  const bool list = json.is_array();
  int64_t i = 0;
  for (Json m = list ? json.first() : json; m; m = m.next()) {
    Metric metric;
    RINGLET_RETURN_IF_ERROR(
        MetricFromJson(m, list ? JoinPath(path, i++) : path, &metric));
    metric.weighted = weighted;
    metrics->push_back(metric);
    if (!list) break;
  }
  return Status();
}

void ReadMetricsField(const char* key, FieldReader* fields,
                      ByOutput<std::vector<Metric>>* metrics) {
  if (!fields->MarkOptional(key)) return;
  const Json json =
      fields->Take(key, "a list of metrics, or an object by outputs' names");
  if (!json || !fields->ok()) return;
  if (!json.is_array() && (!json.is_object() || json["class_name"])) {
    return fields->Fail(InvalidArgument("%s: is %s; must be a list",
                                        fields->PathOf(key).c_str(),
                                        Show(json).c_str()));
  }
  const bool weighted = key[0] == 'w';
  const auto read = [&](const Json& m, const std::string& path,
                        std::vector<Metric>* list) {
    return ReadMetrics(m, path, weighted, list);
  };
  fields->Fail(
      ReadByOutput(json, fields->PathOf(key), /*one=*/false, read, metrics));
}

}  // namespace

void ReadCompileFields(FieldReader* fields, CompileArguments* arguments) {
  fields->Require("loss");
  const Json loss = fields->Take(
      "loss", "a loss, a list of them, or an object by outputs' names");
  if (loss && fields->ok()) {
    const bool one = static_cast<bool>(loss["class_name"]);
    const bool none = loss.kind() == Json::Kind::kNull;
    Loss refused;
    fields->Fail(none ? LossFromJson(loss, fields->PathOf("loss"), &refused)
                      : ReadByOutput(loss, fields->PathOf("loss"), one,
                                     ReadLoss, &arguments->losses));
  }
  const char kWeights[] = "loss_weights";
  if (fields->MarkOptional(kWeights)) {
    const Json weights = fields->Take(
        kWeights, "a list of numbers, or an object by outputs' names");
    if (weights && fields->ok()) {
      fields->Fail(ReadByOutput(weights, fields->PathOf(kWeights),
                                /*one=*/false, ReadWeight,
                                &arguments->weights));
    }
  }
  ReadMetricsField("metrics", fields, &arguments->metrics);
  ReadMetricsField("weighted_metrics", fields, &arguments->weighted_metrics);
}

Status CompileArgumentsFromJson(const std::string& text,
                                CompileArguments* arguments) {
  Json json;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(text, "compile", &json));
  FieldReader fields(json, "");
  for (const char* key : {"optimizer", "loss", "metrics"}) fields.Require(key);
  const Json optimizer = fields.Take("optimizer");
  if (optimizer) {
    fields.Fail(
        OptimizerFromJson(optimizer, "optimizer", &arguments->optimizer));
  }
  ReadCompileFields(&fields, arguments);
  return fields.Finish();
}

// --- with a model ------------------------------------------------------------

namespace {

// Calls take(k, value) for each output k with a value.
template <typename T, typename Take>
Status ForOutputs(const char* argument, const ByOutput<T>& by_output,
                  const Model& model, const Take& take) {
  const int count = model.num_outputs();
  if (by_output.form == ByOutput<T>::Form::kAll) {
    for (int k = 0; k < count; ++k) take(k, by_output.values[0].second);
    return Status();
  }
  if (by_output.form == ByOutput<T>::Form::kNames) {
    for (const auto& [name, value] : by_output.values) {
      int k = 0;
      std::vector<std::string> names;
      for (; k < count && model.output_name(k) != name; ++k) {
        names.push_back(model.output_name(k));
      }
      if (k == count) return UnknownName(argument, "output", name, names);
      take(k, value);
    }
    return Status();
  }
  const auto entries = static_cast<int>(by_output.values.size());
  if (entries != count) {
    return InvalidArgument(
        "%s: has %d entries; a list has one for each of the model's outputs, "
        "which are %d",
        argument, entries, count);
  }
  for (int k = 0; k < count; ++k) {
    take(k, by_output.values[static_cast<size_t>(k)].second);
  }
  return Status();
}

Status SetMetrics(const char* argument,
                  const ByOutput<std::vector<Metric>>& by_output,
                  const Model& model, std::vector<OutputLoss>* outputs) {
  const auto append = [&](int k, const std::vector<Metric>& metrics) {
    std::vector<Metric>& all = (*outputs)[static_cast<size_t>(k)].metrics;
    all.insert(all.end(), metrics.begin(), metrics.end());
  };
  if (by_output.values.empty()) return Status();
  if (model.num_outputs() > 1 ||
      by_output.form == ByOutput<std::vector<Metric>>::Form::kNames) {
    return ForOutputs(argument, by_output, model, append);
  }
  if (by_output.nested) {
    return InvalidArgument(
        "%s: Expected all entries in the list to be metric objects; lists in "
        "it are those of several outputs",
        argument);
  }
  for (const auto& value : by_output.values) append(0, value.second);
  return Status();
}

Status ResolveOutputs(const CompileArguments& arguments, const Model& model,
                      std::vector<OutputLoss>* outputs) {
  const auto count = static_cast<size_t>(model.num_outputs());
  outputs->assign(count, OutputLoss());
  std::vector<bool> has_entry(count, false);
  RINGLET_RETURN_IF_ERROR(
      ForOutputs("loss", arguments.losses, model,
                 [&](int k, const std::optional<Loss>& loss) {
                   OutputLoss& output = (*outputs)[static_cast<size_t>(k)];
                   output.trains = loss.has_value();
                   if (loss.has_value()) output.loss = *loss;
                   has_entry[static_cast<size_t>(k)] = true;
                 }));
  for (size_t k = 0; k < count; ++k) {
    if (has_entry[k]) continue;
    return InvalidArgument(
        "loss: has no entry for the output '%s'; give null if it has no loss",
        model.output_name(static_cast<int>(k)).c_str());
  }
  if (!arguments.weights.values.empty()) {
    RINGLET_RETURN_IF_ERROR(ForOutputs(
        "loss_weights", arguments.weights, model, [&](int k, float weight) {
          (*outputs)[static_cast<size_t>(k)].weight = weight;
        }));
  }
  RINGLET_RETURN_IF_ERROR(
      SetMetrics("metrics", arguments.metrics, model, outputs));
  return SetMetrics("weighted_metrics", arguments.weighted_metrics, model,
                    outputs);
}

}  // namespace

Status Compile(const CompileArguments& arguments, const CompileOptions& options,
               Model* model) {
  std::vector<OutputLoss> outputs;
  const Status resolved = ResolveOutputs(arguments, *model, &outputs);
  if (!resolved.ok()) {
    if (options.collective != nullptr) options.collective->Abort(resolved);
    return resolved.Annotate("compile");
  }
  model->Compile(arguments.optimizer, outputs, options);
  return model->status();
}

std::string DescribeRate(const Optimizer& optimizer) {
  Json json;
  const Status parsed = ParseKerasJson(ToJson(optimizer), "optimizer", &json);
  RINGLET_CHECK(parsed.ok());
  const Json schedule = json["config"]["learning_rate"]["class_name"];
  if (schedule.is_string()) return schedule.text();
  return JsonWriter().Float(optimizer.learning_rate.initial).text();
}

namespace {

std::string Describe(const std::optional<Loss>& loss) {
  if (!loss.has_value()) return "no loss";
  return std::string(loss->class_name()) +
         (loss->from_logits ? " from logits" : "");
}

}  // namespace

std::string DescribeCompile(const CompileArguments& arguments) {
  const Optimizer& optimizer = arguments.optimizer;
  std::string text = std::string(optimizer.name()) + ", learning rate " +
                     DescribeRate(optimizer) + "; ";
  bool first = true;
  for (const auto& [name, loss] : arguments.losses.values) {
    text +=
        (first ? "" : ", ") + (name.empty() ? "" : name + " ") + Describe(loss);
    first = false;
  }
  first = true;
  for (const auto* list : {&arguments.metrics, &arguments.weighted_metrics}) {
    for (const auto& [name, metrics] : list->values) {
      for (const Metric& metric : metrics) {
        text += (first ? "; metrics " : ", ") +
                (name.empty() ? "" : name + " ") + metric.name;
        first = false;
      }
    }
  }
  return text;
}

}  // namespace ringlet
