#include "run_description.h"

#include <algorithm>
#include <string>
#include <vector>

#include "../../core/base/json.h"
#include "../../core/base/text.h"
#include "../../core/model/model.h"

namespace ringlet {
namespace {

std::string Pair(const int64_t pair[2]) {
  return std::to_string(pair[0]) + "x" + std::to_string(pair[1]);
}

std::string DescribeLayer(const Model& model, int node) {
  using Kind = Layer::Kind;
  const Layer& layer = model.layer(node);
  std::string text = ClassName(layer);
  switch (layer.kind) {
    case Kind::kInput:
    case Kind::kReshape:
      text += " " + model.output_shape(node).ToString();
      break;
    case Kind::kConv2D:
    case Kind::kMaxPooling2D:
    case Kind::kAveragePooling2D:
      text += " " + Pair(layer.window) + " by " + Pair(layer.strides);
      text += layer.padding == kSame ? " same" : " valid";
      break;
    default:
      break;
  }
  if (layer.activation != kLinear) {
    text += std::string(" ") + ActivationName(layer.activation);
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

}  // namespace

std::string DescribeLayers(const Model& model) {
  std::string text;
  for (int node = 0; node < model.num_nodes(); ++node) {
    text += (node > 0 ? "\n" : "") + DescribeLayer(model, node);
  }
  return text;
}

namespace {

// Takes the first line off `text`; false at its end.
bool TakeLine(std::string* text, std::string* line) {
  if (text->empty()) return false;
  const size_t end = std::min(text->find('\n'), text->size());
  *line = text->substr(0, end);
  text->erase(0, end + 1);
  return true;
}

}  // namespace

Status CheckLayers(const std::string& saved, const Model& model) {
  std::string there = saved, here = DescribeLayers(model);
  for (int node = 0;; ++node) {
    std::string a, b;
    const bool more_there = TakeLine(&there, &a);
    const bool more_here = TakeLine(&here, &b);
    if (!more_there && !more_here) return Status();
    if (more_there && more_here && a == b) continue;
    const char* const none = "missing";
    return InvalidArgument(
        "layer %d%s%s is %s in the file, %s here; it was saved from another "
        "model",
        node, more_here ? " " : "",
        more_here ? model.layer(node).name.c_str() : "",
        more_there ? Printable(a).c_str() : none, more_here ? b.c_str() : none);
  }
}

std::string DescribeData(const FitState& fit) {
  if (fit.dataset == nullptr) return "";
  const Dataset& data = *fit.dataset;
  std::string text = std::to_string(data.size()) + " examples, ";
  text += data.shuffle_seed() < 0
              ? "not shuffled"
              : "shuffled with seed " + std::to_string(data.shuffle_seed());
  text += ", batches of " + std::to_string(data.batch_size());
  return text + ", " + std::to_string(fit.steps_per_epoch) + " steps an epoch";
}

}  // namespace ringlet
