#include "shared_settings.h"

#include <cstdint>

#include "core/base/json.h"
#include "core/base/number_text.h"
#include "io/keras/compile_arguments.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

constexpr int kMostDepth = 64;

class Settings {
 public:
  void Add(const std::string& name, const std::string& value) {
    std::string line = name + '\t' + value;
    for (size_t i = 0; i < line.size(); ++i) {
      const bool control = static_cast<unsigned char>(line[i]) < 0x20;
      if (control && i != name.size()) line[i] = '?';
    }
    text_ += line + '\n';
  }
  void Add(const std::string& name, int64_t value) {
    Add(name, std::to_string(value));
  }
  void Add(const std::string& name, double value) {
    Add(name, ShortestText(value));
  }
  // Adds each value in `json`, by its path.
  void AddValues(const std::string& name, const Json& json) {
    switch (json.kind()) {
      case Json::Kind::kObject:
        for (Json m = json.first(); m; m = m.next()) {
          AddValues(name + "." + m.key(), m);
        }
        return;
      case Json::Kind::kArray: {
        int64_t at = 0;
        for (Json m = json.first(); m; m = m.next()) {
          AddValues(name + "." + std::to_string(at++), m);
        }
        return;
      }
      case Json::Kind::kString:
        return Add(name, json.text());
      case Json::Kind::kNumber:
        return Add(name, json.number());
      case Json::Kind::kBool:
        return Add(name, json.as_bool() ? "true" : "false");
      default:
        return Add(name, "null");
    }
  }
  void AddJson(const std::string& name, const std::string& text) {
    Json json;
    if (Json::Parse(text, name, &json, kMostDepth).ok()) {
      AddValues(name, json);
    } else {
      Add(name, text);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddFit(const FitConfig& fit, Settings* out) {
  const struct {
    const char* name;
    int64_t value;
  } numbers[] = {{"fit.batch_size", fit.batch_size},
                 {"fit.epochs", fit.epochs},
                 {"fit.initial_epoch", fit.initial_epoch},
                 {"fit.steps_per_epoch", fit.steps_per_epoch},
                 {"fit.shuffle", int64_t{fit.shuffle}},
                 {"fit.seed", fit.seed},
                 {"fit.validation_batch_size", fit.validation_batch_size},
                 {"fit.validation_steps", fit.validation_steps},
                 {"fit.validation_freq", fit.validation_freq}};
  for (const auto& [name, value] : numbers) out->Add(name, value);
  out->Add("fit.validation_split", fit.validation_split);
  for (const auto& [number, weight] : fit.class_weight) {
    out->Add("fit.class_weight." + std::to_string(number), double{weight});
  }
}

void AddStrategy(const StrategyConfig& strategy, Settings* out) {
  const StrategyOptions& options = strategy.options;
  const LocalUpdates& local = options.local;
  const struct {
    const char* name;
    int64_t value;
  } numbers[] = {
      {"strategy.replicas", options.replicas},
      {"strategy.policy", static_cast<int64_t>(strategy.policy)},
      {"strategy.min_workers", strategy.min_workers},
      {"strategy.reduction", static_cast<int64_t>(options.reduction)},
      {"strategy.local_steps", local.steps},
      {"strategy.overlap", int64_t{local.overlap}},
      {"strategy.delta", static_cast<int64_t>(local.delta)},
      {"strategy.participation", int64_t{local.participation}},
      {"strategy.quorum", int64_t{local.quorum}}};
  for (const auto& [name, value] : numbers) out->Add(name, value);
  out->Add("strategy.outer_learning_rate", double{local.learning_rate});
  out->Add("strategy.outer_momentum", double{local.momentum});
}

}  // namespace

// The short parts are first: the doctors compare the beginning of a long text.
std::string SharedSettings(const RunConfig& config) {
  Settings out;
  AddFit(config.fit, &out);
  AddStrategy(config.strategy, &out);
  out.AddJson("compile", CompileArgumentsToJson(*config.model));
  out.AddJson("model", ToJson(*config.model));
  return out.text();
}

}  // namespace ringlet
