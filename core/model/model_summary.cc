// The table of Model::Summary, as Keras prints it. Widths are in characters.

#include "../base/text.h"
#include "../layers/layer_kind.h"
#include "../layers/layer_table.h"
#include "model_impl.h"

namespace ringlet {
namespace {

// Returns Keras's readable size, as "10.58 MB".
std::string ReadableSize(int64_t bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return FormatText("%.2f %s", value, units[unit]);
}

// `text`, cut or padded to `width` characters, aligned left or right.
std::string FormatCell(const std::string& text, size_t width, bool right) {
  const auto begins_character = [](char c) { return (c & 0xC0) != 0x80; };
  size_t characters = 0, cut = text.size();
  for (size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i])) continue;
    if (characters == width - 1) cut = i;
    ++characters;
  }
  if (characters > width) return text.substr(0, cut) + "…";
  const std::string fill(width - characters, ' ');
  return right ? fill + text : text + fill;
}

std::string FormatLine(const char* left, const char* dash, const char* middle,
                       const char* right) {
  std::string line = left;
  const int widths[] = {33, 24, 15};
  for (int column = 0; column < 3; ++column) {
    for (int i = 0; i < widths[column]; ++i) line += dash;
    line += column < 2 ? middle : right;
  }
  return line + "\n";
}

std::string FormatRow(const char* bar, const std::string& a,
                      const std::string& b, const std::string& c) {
  return std::string(bar) + " " + FormatCell(a, 31, /*right=*/false) + " " +
         bar + " " + FormatCell(b, 22, /*right=*/false) + " " + bar + " " +
         FormatCell(c, 13, /*right=*/true) + " " + bar + "\n";
}

std::string Count(const char* label, int64_t floats) {
  return label + WithCommas(floats) + " (" +
         ReadableSize(floats * int64_t{sizeof(float)}) + ")\n";
}

// "(None, 26, 26, 32)"
std::string WithBatch(const Shape& shape) {
  std::string s = "(None";
  for (int i = 0; i < shape.rank(); ++i) s += ", " + std::to_string(shape[i]);
  return s + ")";
}

struct SummaryRow {
  const GraphLayer* layer = nullptr;
  Shape output;  // the shape of the last call, as in Keras
  int64_t parameters = 0, trainable = 0;
  bool is_mixed = false;
};

// Returns a row for each of the graph's own layers, including all layers in it.
std::vector<SummaryRow> SummaryRows(const Graph& graph) {
  std::vector<SummaryRow> rows;
  std::vector<size_t> row_of(graph.layers().size());
  for (size_t i = 0; i < row_of.size(); ++i) {
    const GraphLayer& layer = graph.layers()[i];
    if (layer.parent < 0) {
      rows.emplace_back();
      rows.back().layer = &layer;
    }
    row_of[i] = rows.size() - 1;
  }
  for (const GraphNode& node : graph.nodes()) {
    if (node.layer.kind == Layer::Kind::kMask) continue;
    SummaryRow& row = rows[row_of[node.layer_index]];
    row.output = node.output;
    row.is_mixed |= IsMixed(node.layer);
    for (int v = 0; node.call_index == 0 && v < node.num_variables; ++v) {
      const Variable& variable = graph.variables()[node.first_variable + v];
      row.parameters += variable.size();
      if (!node.layer.trainable || variable.is_layer_state) continue;
      row.trainable += variable.size();
    }
  }
  return rows;
}

}  // namespace

std::string Model::Summary() const {
  const Graph& graph = impl_->graph;
  std::string s = "Model: \"" + graph.name() + "\"\n";
  s += FormatLine("┏", "━", "┳", "┓");
  s += FormatRow("┃", "Layer (type)", "Output Shape", "Param #");
  s += FormatLine("┡", "━", "╇", "┩");
  bool first = true;
  int64_t trainable = 0;
  int mixed = 0;
  for (const SummaryRow& row : SummaryRows(graph)) {
    const Layer& layer = row.layer->layer;
    mixed += row.is_mixed ? 1 : 0;
    trainable += row.trainable;
    // The table of a Sequential begins after its Input, as in Keras.
    const bool is_input = layer.kind == Layer::Kind::kInput;
    if (is_input && graph.class_name() == "Sequential") continue;
    if (!first) s += FormatLine("├", "─", "┼", "┤");
    first = false;
    s += FormatRow("│", layer.name + " (" + ClassName(layer) + ")",
                   WithBatch(row.output), WithCommas(row.parameters));
  }
  s += FormatLine("└", "─", "┴", "┘");
  s += Count(" Total params: ", graph.num_weights()) +
       Count(" Trainable params: ", trainable) +
       Count(" Non-trainable params: ", graph.num_weights() - trainable);
  return mixed == 0
             ? s
             : s + FormatText(" Layers with mixed_bfloat16: %d\n", mixed);
}

}  // namespace ringlet
