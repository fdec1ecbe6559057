// The text is compared across machines and byte orders, so numbers are written
// by number_text.h and never through a locale. The other ranks' texts are
// untrusted: kMaxText limits the memory for them, and FieldsOf accepts any
// bytes.

#include "fingerprint.h"

#include <algorithm>
#include <array>

#include "../base/collective_numbers.h"
#include "../base/crc32c.h"
#include "../base/number_text.h"
#include "../base/text.h"
#include "../layers/layer_table.h"
#include "../objective/loss_table.h"
#include "../objective/metric_table.h"
#include "../objective/optimizer_table.h"
#include "ringlet/custom_layer.h"

namespace ringlet {
namespace {

// Longer texts are compared by their checksums only.
constexpr size_t kMaxText = 1 << 20;
constexpr char kChecksum[] = "checksum ";

using Field = Fingerprint::Field;

// Makes the error for the difference of rank `rank`'s text from the text of
// `first`. `fingerprint` has the advice.
Status DifferenceError(const char* subject, const Fingerprint& fingerprint,
                       int first, int rank, const std::string& firsts,
                       const std::string& theirs) {
  const std::vector<Field> a = Fingerprint::FieldsOf(firsts),
                           b = Fingerprint::FieldsOf(theirs);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i].name == b[i].name) {
      if (a[i].value == b[i].value) continue;
      if (StartsWith(a[i].value, kChecksum)) {
        return InvalidArgument(
            "%s: rank %d has other %s than rank %d; run the same program with "
            "the same options and data on every worker",
            subject, rank, a[i].name.c_str(), first);
      }
      const std::string advice = fingerprint.AdviceOf(a[i].name);
      return InvalidArgument(
          "%s: %s is %s on rank %d, but %s on rank %d; it must be the same on "
          "every worker%s%s",
          subject, a[i].name.c_str(), b[i].value.c_str(), rank,
          a[i].value.c_str(), first, advice.empty() ? "" : ": ",
          advice.c_str());
    }
    const bool first_lacks = i >= a.size();
    const Field& field = first_lacks ? b[i] : a[i];
    return InvalidArgument(
        "%s: rank %d has %s (%s) where rank %d has %s; run the same program "
        "with the same options on every worker",
        subject, first_lacks ? rank : first, field.name.c_str(),
        field.value.c_str(), first_lacks ? first : rank,
        first_lacks || i >= b.size() ? "nothing" : b[i].name.c_str());
  }
  return InvalidArgument(
      "%s: rank %d was given other options than rank %d; run the same program "
      "with the same options on every worker",
      subject, rank, first);
}

// A text's length and checksum.
using Sum = std::array<uint64_t, 2>;

// Returns the rank to compare with: the first of the largest group of equal
// ranks.
size_t ReferenceOf(const std::vector<Sum>& all, const JoiningMembers& joining) {
  const auto first = static_cast<size_t>(joining.reference_rank());
  if (joining.last_joiner() >= 0) return first;
  const auto alike = [&all](size_t r) {
    return std::count(all.begin(), all.end(), all[r]);
  };
  size_t best = first;
  for (size_t r = 0; r < all.size(); ++r) {
    if (alike(r) > alike(best)) best = r;
  }
  return best;
}

}  // namespace

std::vector<Field> Fingerprint::FieldsOf(const std::string& text) {
  std::vector<Field> fields;
  std::string_view rest = text;
  for (std::string line; TakeLine(&rest, &line);) {
    const size_t tab = std::min(line.find('\t'), line.size());
    fields.push_back(
        {line.substr(0, tab), tab < line.size() ? line.substr(tab + 1) : ""});
  }
  return fields;
}

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
  Add(name, ShortestText(value));
}

void Fingerprint::AddChecksum(const std::string& name, uint64_t value) {
  Add(name, kChecksum + HexText(value));
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
  if (layer.layer != nullptr) {
    text += ", layer " + DescribeLayer(*layer.layer, {}, Shape());
  }
  if (!layer.trainable) text += ", frozen";
  if (layer.dtype == DTypePolicy::kMixedBFloat16) text += ", mixed_bfloat16";
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
  fingerprint->Add("the optimizer", o.name());
  const LearningRate& rate = o.learning_rate;
  add("schedule", NameIn(kSchedules, rate.kind, "none"));
  add("learning rate", rate.initial);
  add("decay_steps", rate.decay_steps);
  add("decay_rate", rate.decay_rate);
  add("staircase", int64_t{rate.staircase});
  add("alpha", rate.alpha);
  if (rate.kind == LearningRate::Kind::kPolynomialDecay) {
    add("end_learning_rate", rate.end);
    add("power", rate.power);
    add("cycle", int64_t{rate.cycle});
  }
  if (rate.kind == LearningRate::Kind::kCosineDecayRestarts) {
    add("t_mul", rate.t_mul);
    add("m_mul", rate.m_mul);
  }
  add("warmup_steps", rate.warmup_steps);
  add("warmup_target", rate.warmup_target);
  add("boundaries", list(rate.boundaries,
                         [](int64_t value) { return std::to_string(value); }));
  add("values", list(rate.values, [](float v) { return ShortestText(v); }));
  for (const ConfigField<Optimizer>& field : ClassOf(o).fields) {
    add(field.name, ValueText(field, &o));
  }
  add("weight_decay", o.weight_decay);
  add("clipnorm", o.clipnorm);
  add("global_clipnorm", o.global_clipnorm);
  add("clipvalue", o.clipvalue);
  add("gradient_accumulation_steps", int64_t{o.gradient_accumulation_steps});
  if (!o.use_ema) return;
  add("use_ema", int64_t{o.use_ema});
  add("ema_momentum", o.ema_momentum);
  add("ema_overwrite_frequency", int64_t{o.ema_overwrite_frequency});
}

void AddLoss(const Loss& loss, const std::string& suffix,
             Fingerprint* fingerprint) {
  fingerprint->Add("the loss" + suffix, loss.class_name());
  fingerprint->Add("the loss's reduction" + suffix,
                   int64_t{loss.reduction == LossReduction::kSum});
  if (loss.custom != nullptr) {
    fingerprint->Add("the loss's options" + suffix, loss.custom->Describe());
    return;
  }
  for (const ConfigField<Loss>& field : ClassOf(loss).fields) {
    const std::string value = ValueText(field, &loss);
    if (value.empty()) continue;
    fingerprint->Add(std::string("the loss's ") + field.name + suffix, value);
  }
}

std::string DescribeMetric(const Metric& metric) {
  if (metric.custom != nullptr) {
    return "'" + metric.name + "' of class " + metric.custom->class_name() +
           ", " + metric.custom->Describe();
  }
  std::string text = "'" + metric.name + "' of class " + ClassOf(metric).name;
  if (metric.weighted) text += ", weighted";
  for (const ConfigField<Metric>& field : ClassOf(metric).fields) {
    const std::string value = ValueText(field, &metric);
    if (!value.empty()) text += std::string(", ") + field.name + " " + value;
  }
  return text;
}

Status Agree(Collective* collective, const char* subject,
             const Fingerprint& fingerprint, const JoiningMembers& joining) {
  if (collective->size() == 1) return Status();
  const std::string& text = fingerprint.text();
  const auto ranks = static_cast<size_t>(collective->size());
  const uint32_t crc = Crc32c(text.data(), text.size());
  // Two checksums of a text: the second begins where the first ended.
  const uint32_t second_crc = Crc32c(text.data(), text.size(), ~crc);
  const Sum own_sum = {text.size(), uint64_t{crc} << 32 | second_crc};
  std::vector<Sum> sums(ranks);
  RINGLET_RETURN_IF_ERROR(AllGatherNumbers(collective, own_sum.data(),
                                           sizeof(uint64_t), own_sum.size(),
                                           sums.data()));
  uint64_t longest = 0;
  bool alike = true;
  for (const Sum& sum : sums) {
    longest = std::max(longest, sum[0]);
    alike &= sum == sums[0];
  }
  if (alike) return Status();
  const size_t width =
      static_cast<size_t>(std::min<uint64_t>(longest, kMaxText));
  std::string padded = text.substr(0, width);
  padded.resize(width, '\n');
  std::string texts(width * ranks, '\n');
  RINGLET_RETURN_IF_ERROR(
      collective->AllGather(padded.data(), width, &texts[0]));
  const auto text_of = [&](size_t r) {
    return texts.substr(width * r, std::min<uint64_t>(sums[r][0], width));
  };
  const size_t first = ReferenceOf(sums, joining);
  for (size_t i = 1; i < ranks; ++i) {
    const size_t r = (first + i) % ranks;
    if (sums[r] == sums[first]) continue;
    const int rank = static_cast<int>(r);
    return joining.Refuse(
        collective, rank,
        DifferenceError(subject, fingerprint, static_cast<int>(first), rank,
                        text_of(first), text_of(r)));
  }
  return Status();
}

}  // namespace ringlet
