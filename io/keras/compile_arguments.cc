#include "compile_arguments.h"

#include "compile_json.h"
#include "keras_json.h"

namespace ringlet {

std::string CompileArgumentsToJson(const Model& compiled) {
  std::string text = "{\"optimizer\":" + ToJson(compiled.optimizer()) +
                     ",\"loss\":" + ToJson(compiled.loss()) + ",\"metrics\":[";
  for (size_t i = 0; i < compiled.metrics().size(); ++i) {
    text += (i > 0 ? "," : "") + ToJson(compiled.metrics()[i]);
  }
  return text + "]}";
}

Status CompileArgumentsFromJson(const std::string& text,
                                CompileArguments* arguments) {
  Json json;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(text, "compile", &json));
  FieldReader fields(json, "");
  for (const char* key : {"optimizer", "loss", "metrics"}) fields.Require(key);
  const Json optimizer = fields.Take("optimizer");
  const Json loss = fields.Take("loss");
  const Json metrics = fields.Take("metrics");
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  RINGLET_RETURN_IF_ERROR(
      OptimizerFromJson(optimizer, "optimizer", &arguments->optimizer));
  RINGLET_RETURN_IF_ERROR(LossFromJson(loss, "loss", &arguments->loss));
  if (!metrics.is_array()) return InvalidArgument("metrics: is no list");
  for (Json m = metrics.first(); m; m = m.next()) {
    const auto index = static_cast<int64_t>(arguments->metrics.size());
    Metric metric;
    RINGLET_RETURN_IF_ERROR(
        MetricFromJson(m, JoinPath("metrics", index), &metric));
    arguments->metrics.push_back(metric);
  }
  return Status();
}

std::string DescribeRate(const Optimizer& optimizer) {
  Json json;
  const Status parsed = ParseKerasJson(ToJson(optimizer), "optimizer", &json);
  RINGLET_CHECK(parsed.ok());
  const Json schedule = json["config"]["learning_rate"]["class_name"];
  if (schedule.is_string()) return schedule.text();
  return JsonWriter().Float(optimizer.learning_rate.initial).text();
}

std::string DescribeCompile(const CompileArguments& arguments) {
  const Optimizer& optimizer = arguments.optimizer;
  const Loss& loss = arguments.loss;
  std::string text = std::string(optimizer.name()) + ", learning rate " +
                     DescribeRate(optimizer) + "; " + loss.class_name() +
                     (loss.from_logits ? " from logits" : "");
  for (size_t i = 0; i < arguments.metrics.size(); ++i) {
    text += (i == 0 ? "; metrics " : ", ") + arguments.metrics[i].name;
  }
  return text;
}

}  // namespace ringlet
