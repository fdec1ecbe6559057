// These texts are compared byte by byte with the texts of older files. A new
// setting must add nothing to the text at its default; DescribeLayer keeps
// older forms for this reason. A text is for a message too: a user reads the
// first difference.

#include "run_description.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "../../core/base/fnv1a.h"
#include "../../core/base/json.h"
#include "../../core/base/number_text.h"
#include "../../core/base/text.h"
#include "../../core/data/dataset_parts.h"
#include "../../core/layers/layer_table.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

// True if the layer is frozen and has weights that would otherwise be trained.
bool IsFrozen(const Model& model, const Layer& layer) {
  const std::string prefix = layer.name + "/";
  const auto& all = model.variables();
  return !layer.trainable &&
         std::any_of(all.begin(), all.end(), [&](const Variable& v) {
           return !v.is_layer_state &&
                  v.path.compare(0, prefix.size(), prefix) == 0;
         });
}

std::string DescribeLayer(const Model& model, int node) {
  const Layer& layer = model.layer(node);
  const std::string shape = model.output_shape(node).ToString();
  std::string text = ClassName(layer);
  if (layer.kind == Layer::Kind::kInput) text += " " + shape;
  // The form of backups from before ReLU was a class.
  const bool plain = layer.kind == Layer::Kind::kReLU &&
                     std::isinf(layer.max_value) && layer.negative_slope == 0 &&
                     layer.threshold == 0;
  if (plain) text = "Activation relu";
  for (const LayerField& field : ClassOf(layer).fields) {
    const std::string value =
        layer.kind == Layer::Kind::kReshape ? shape : ValueText(field, layer);
    if (field.saved == nullptr || value.empty()) continue;
    text += " ";
    if (*field.saved != 0) text += std::string(field.saved) + " ";
    text += value;
  }
  if (IsFrozen(model, layer)) text += " frozen";
  if (IsMixed(layer)) text += " mixed_bfloat16";
  const int first = model.first_call(node);
  if (first != node) text += " again layer " + std::to_string(first);
  for (int k = 0; k < model.num_outputs() && model.num_outputs() > 1; ++k) {
    if (model.output_node(k) == node) text += " output " + std::to_string(k);
  }
  const std::vector<int>& inputs = model.inputs(node);
  if (inputs.empty() || (inputs.size() == 1 && inputs[0] == node - 1)) {
    return text;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += (i == 0 ? " of layer " : ", ") + std::to_string(inputs[i]);
  }
  return text;
}

std::string DescribeFederated(const LocalUpdates& local) {
  std::string text;
  if (local.participation > 0) {
    text += ", participation " + std::to_string(local.participation);
  }
  if (local.quorum > 0) text += ", quorum " + std::to_string(local.quorum);
  if (local.round_deadline_seconds > 0) {
    text += ", round_deadline " +
            JsonWriter().Number(local.round_deadline_seconds).text();
  }
  return text;
}

}  // namespace

std::string LayersText(const Model& model) {
  std::string text;
  for (int node = 0; node < model.num_nodes(); ++node) {
    text += (node > 0 ? "\n" : "") + DescribeLayer(model, node);
  }
  return text;
}

Status CheckLayers(const std::string& saved, const Model& model) {
  const std::string present = LayersText(model);
  std::string_view saved_lines = saved, lines = present;
  for (int node = 0;; ++node) {
    std::string a, b;
    const bool is_saved = TakeLine(&saved_lines, &a);
    const bool is_present = TakeLine(&lines, &b);
    if (!is_saved && !is_present) return Status();
    if (is_saved && is_present && a == b) continue;
    const char* const none = "missing";
    return InvalidArgument(
        "layer %d%s%s is %s in the file, %s here; it was saved from another "
        "model",
        node, is_present ? " " : "",
        is_present ? model.layer(node).name.c_str() : "",
        is_saved ? Printable(a).c_str() : none, is_present ? b.c_str() : none);
  }
}

std::string LossesText(const Model& model) {
  const std::vector<OutputLoss>& losses = model.losses();
  std::string text;
  for (const OutputLoss& output_loss : losses) {
    if (!text.empty()) text += "; ";
    if (losses.size() > 1) text += output_loss.output + ": ";
    text += output_loss.trains ? output_loss.loss.class_name() : "none";
    if (output_loss.weight == 1) continue;
    text += " times " + JsonWriter().Float(output_loss.weight).text();
  }
  return text;
}

std::string LocalUpdatesText(const Model& model) {
  const LocalUpdates& local = model.local_updates();
  if (!local.enabled()) return "";
  constexpr const char* kDeltas[] = {", int8", ", float32", ", sparse"};
  static_assert(std::size(kDeltas) ==
                static_cast<size_t>(LocalUpdates::Delta::kSparse) + 1);
  const std::string steps = local.steps == LocalUpdates::kAutoSteps
                                ? "auto"
                                : std::to_string(local.steps);
  return "rounds of " + steps + " local steps, outer " +
         JsonWriter().Float(local.learning_rate).text() + ", " +
         JsonWriter().Float(local.momentum).text() +
         (local.nesterov ? ", nesterov" : "") +
         kDeltas[static_cast<int>(local.delta)] +
         (local.overlap ? ", overlap" : "") + DescribeFederated(local);
}

std::string DataText(const FitState& fit) {
  if (fit.dataset == nullptr) return "";
  const Dataset& data = *fit.dataset;
  int64_t examples = data.parts().own_example_counts.empty() ? data.size() : 0;
  for (const int64_t count : data.parts().own_example_counts) examples += count;
  std::string text = std::to_string(examples) + " examples, ";
  text +=
      data.parts().shuffle_seed() < 0
          ? "not shuffled"
          : "shuffled with seed " + std::to_string(data.parts().shuffle_seed());
  if (data.parts().shuffle_seed() >= 0 && data.parts().memory > 0) {
    text += " in a memory of " + std::to_string(data.parts().memory) + " bytes";
  }
  text += ", batches of " + std::to_string(data.batch_size());
  text += ", " + std::to_string(fit.steps_per_epoch) + " steps per epoch";
  // Statistics of the data show if the data have changed.
  for (int i = 0; i < fit.model->num_nodes(); ++i) {
    const Layer& layer = fit.model->layer(i);
    if (layer.kind != Layer::Kind::kNormalization || !layer.adapt) continue;
    text += ", '" + layer.name + "' has mean";
    for (size_t c = 0; c < layer.means.size() && c < 3; ++c) {
      text += " " + ShortestText(layer.means[c]);
    }
  }
  return text;
}

std::string ClassesText(const FitState& fit) {
  if (fit.dataset == nullptr || fit.dataset->source() == nullptr) return "";
  constexpr size_t kMaxShown = 60;  // bytes; a message shows 100 in all
  std::string names;
  Fnv1a all;
  for (const std::string& name : fit.dataset->source()->Description().classes) {
    names += (names.empty() ? "" : ", ") + name;
    all.Add(name);
  }
  if (names.empty()) return "";
  if (names.size() > kMaxShown) {
    size_t end = kMaxShown;  // not within a character of UTF-8
    while (end > 0 && (names[end] & 0xC0) == 0x80) --end;
    names = names.substr(0, end) + " ...";
  }
  return Printable(names) + " (checksum " + HexText(all.value()) + ")";
}

}  // namespace ringlet
