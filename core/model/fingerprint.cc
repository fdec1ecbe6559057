// What must be known to change this file: the text is compared across machines
// and byte orders, so numbers are written with std::to_chars and never through
// a locale. The other ranks' texts are untrusted: kMostText bounds what is
// allocated for them, and FieldsOf takes any bytes.

#include "fingerprint.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "../base/crc32c.h"
#include "../layers/custom_layer.h"
#include "../layers/layer_table.h"
#include "custom_loss.h"
#include "custom_metric.h"

namespace ringlet {
namespace {

// Above it texts are compared by their checksums alone.
constexpr size_t kMostText = 1 << 20;
constexpr char kChecksum[] = "checksum ";

const char* ScheduleName(LearningRate::Kind kind) {
  switch (kind) {
    case LearningRate::Kind::kConstant:
      return "none";
    case LearningRate::Kind::kExponentialDecay:
      return "ExponentialDecay";
    case LearningRate::Kind::kCosineDecay:
      return "CosineDecay";
    case LearningRate::Kind::kPiecewiseConstantDecay:
      return "PiecewiseConstantDecay";
  }
  return "unknown";
}

struct Field {
  std::string name, value;
};

std::vector<Field> FieldsOf(const std::string& text) {
  std::vector<Field> fields;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t tab = std::min(line.find('\t'), line.size());
    fields.push_back(
        {line.substr(0, tab), tab < line.size() ? line.substr(tab + 1) : ""});
    at = end + 1;
  }
  return fields;
}

// How rank `rank`'s text differs from the chief's.
Status Difference(const char* what, int rank, const std::string& chiefs,
                  const std::string& theirs) {
  const std::vector<Field> a = FieldsOf(chiefs), b = FieldsOf(theirs);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i].name == b[i].name) {
      if (a[i].value == b[i].value) continue;
      if (a[i].value.compare(0, sizeof(kChecksum) - 1, kChecksum) == 0) {
        return InvalidArgument(
            "%s: rank %d has other %s than rank 0; run the same program with "
            "the same options on every worker",
            what, rank, a[i].name.c_str());
      }
      return InvalidArgument(
          "%s: %s is %s on rank %d, but %s on rank 0; it must be the same on "
          "every worker",
          what, a[i].name.c_str(), b[i].value.c_str(), rank,
          a[i].value.c_str());
    }
    const bool chief_lacks = i >= a.size();
    const Field& field = chief_lacks ? b[i] : a[i];
    return InvalidArgument(
        "%s: rank %d has %s (%s) where rank %d has %s; run the same program "
        "with the same options on every worker",
        what, chief_lacks ? rank : 0, field.name.c_str(), field.value.c_str(),
        chief_lacks ? 0 : rank,
        chief_lacks || i >= b.size() ? "nothing" : b[i].name.c_str());
  }
  return InvalidArgument(
      "%s: rank %d was given other options than rank 0; run the same program "
      "with the same options on every worker",
      what, rank);
}

}  // namespace

void Fingerprint::Add(const std::string& name, const std::string& value) {
  const size_t begin = text_.size();
  text_ += name;
  const size_t tab = text_.size();
  text_ += '\t' + value;
  for (size_t i = begin; i < text_.size(); ++i) {
    if (i != tab && static_cast<unsigned char>(text_[i]) < 0x20) text_[i] = '?';
  }
  text_ += '\n';
}

void Fingerprint::Add(const std::string& name, float value) {
  Add(name, FloatText(value));
}

void Fingerprint::AddChecksum(const std::string& name, uint64_t value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%s%016" PRIx64, kChecksum, value);
  Add(name, text);
}

std::string DescribeLayer(const Layer& layer, const std::vector<int>& inputs,
                          const Shape& output) {
  std::string text = std::string(ClassName(layer)) + " '" + layer.name +
                     "' giving " + output.ToString();
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += (i == 0 ? " from layer " : ", ") + std::to_string(inputs[i]);
  }
  for (const LayerField& field : ClassOf(layer).fields) {
    const std::string value = ValueText(field, layer);
    if (field.compared == nullptr || value.empty()) continue;
    text += std::string(", ") + field.compared;
    const bool flag = std::holds_alternative<bool Layer::*>(field.value);
    if (!flag) text += " " + value;
  }
  if (!layer.trainable) text += ", frozen";
  if (layer.custom != nullptr) text += ", " + layer.custom->Describe();
  return text;
}

void AddOptimizer(const Optimizer& o, Fingerprint* fingerprint) {
  const auto add = [&](const char* name, const auto& value) {
    fingerprint->Add(std::string("the optimizer's ") + name, value);
  };
  const auto list = [](const auto& values, const auto& text) {
    std::string joined;
    for (const auto& value : values) {
      joined += (joined.empty() ? "" : " ") + text(value);
    }
    return joined;
  };
  fingerprint->Add("the optimizer", o.name);
  const LearningRate& rate = o.learning_rate;
  add("schedule", ScheduleName(rate.kind));
  add("learning rate", rate.initial);
  add("decay_steps", rate.decay_steps);
  add("decay_rate", rate.decay_rate);
  add("staircase", int64_t{rate.staircase});
  add("alpha", rate.alpha);
  add("warmup_steps", rate.warmup_steps);
  add("warmup_target", rate.warmup_target);
  add("boundaries", list(rate.boundaries,
                         [](int64_t value) { return std::to_string(value); }));
  add("values", list(rate.values, FloatText));
  add("momentum", o.momentum);
  add("nesterov", int64_t{o.nesterov});
  add("rho", o.rho);
  add("centered", int64_t{o.centered});
  add("beta_1", o.beta_1);
  add("beta_2", o.beta_2);
  add("amsgrad", int64_t{o.amsgrad});
  add("epsilon", o.epsilon);
  add("weight_decay", o.weight_decay);
  add("clipnorm", o.clipnorm);
  add("global_clipnorm", o.global_clipnorm);
  add("clipvalue", o.clipvalue);
  add("gradient_accumulation_steps", int64_t{o.gradient_accumulation_steps});
}

void AddLoss(const Loss& loss, Fingerprint* fingerprint) {
  fingerprint->Add("the loss", loss.class_name());
  fingerprint->Add("the loss's from_logits", int64_t{loss.from_logits});
  fingerprint->Add("the loss's label_smoothing", loss.label_smoothing);
  fingerprint->Add("the loss's delta", loss.delta);
  if (loss.custom == nullptr) return;
  fingerprint->Add("the loss's options", loss.custom->Describe());
}

std::string DescribeMetric(const Metric& metric) {
  if (metric.custom != nullptr) {
    return "'" + metric.name + "' of class " + metric.custom->class_name() +
           ", " + metric.custom->Describe();
  }
  return "'" + metric.name + "' of kind " +
         std::to_string(static_cast<int>(metric.kind)) + ", threshold " +
         FloatText(metric.threshold) + ", k " + std::to_string(metric.k);
}

Status Agree(Collective* collective, const char* what,
             const Fingerprint& fingerprint) {
  if (collective->size() == 1) return Status();
  const std::string& text = fingerprint.text();
  const auto ranks = static_cast<size_t>(collective->size());
  const uint32_t crc = Crc32c(text.data(), text.size());
  // Two checksums of a text: the second begins where the first ended.
  const uint32_t more = Crc32c(text.data(), text.size(), ~crc);
  const uint64_t mine[2] = {text.size(), uint64_t{crc} << 32 | more};
  std::vector<uint64_t> all(2 * ranks);
  RINGLET_RETURN_IF_ERROR(
      GatherNumbers(collective, mine, sizeof(uint64_t), 2, all.data()));
  uint64_t longest = 0;
  bool alike = true;
  for (size_t r = 0; r < ranks; ++r) {
    longest = std::max(longest, all[2 * r]);
    alike &= all[2 * r] == all[0] && all[2 * r + 1] == all[1];
  }
  if (alike) return Status();
  const size_t width =
      static_cast<size_t>(std::min<uint64_t>(longest, kMostText));
  std::string padded = text.substr(0, width);
  padded.resize(width, '\n');
  std::string texts(width * ranks, '\n');
  RINGLET_RETURN_IF_ERROR(
      collective->AllGather(padded.data(), width, &texts[0]));
  const auto text_of = [&](size_t r) {
    return texts.substr(width * r, std::min<uint64_t>(all[2 * r], width));
  };
  for (size_t r = 1; r < ranks; ++r) {
    if (all[2 * r] == all[0] && all[2 * r + 1] == all[1]) continue;
    return Difference(what, static_cast<int>(r), text_of(0), text_of(r));
  }
  return Status();
}

}  // namespace ringlet
