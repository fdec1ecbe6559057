#include "layer_json.h"
#include "model_json.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

void WriteReference(JsonWriter* w, const std::string& name) {
  w->BeginArray().String(name).Int(0).Int(0).EndArray();
}

void WriteTensor(JsonWriter* w, const Model& model, int node) {
  w->BeginObject().Key("class_name").String("__keras_tensor__");
  w->Key("config").BeginObject();
  WriteShape(w, "shape", true, model.output_shape(node));
  w->Key("dtype").String("float32").Key("keras_history");
  WriteReference(w, model.layer(node).name);
  w->EndObject().EndObject();
}

// Keras calls a merging layer with one argument, the list of its inputs.
void WriteInboundNodes(JsonWriter* w, const Model& model, int node) {
  const std::vector<int>& inputs = model.inputs(node);
  w->Key("inbound_nodes").BeginArray();
  if (!inputs.empty()) {
    const Kind kind = model.layer(node).kind;
    const bool list = kind == Kind::kAdd || kind == Kind::kConcatenate;
    w->BeginObject().Key("args").BeginArray();
    if (list) w->BeginArray();
    for (int input : inputs) WriteTensor(w, model, input);
    if (list) w->EndArray();
    w->EndArray().Key("kwargs").BeginObject().EndObject().EndObject();
  }
  w->EndArray();
}

void WriteLayer(JsonWriter* w, const Model& model, int node, bool functional) {
  const Layer& layer = model.layer(node);
  WriteKerasObject(
      w, "keras.layers", ClassName(layer), [&] { WriteConfig(w, layer); },
      [&] {
        if (!functional) return;
        w->Key("name").String(layer.name);
        WriteInboundNodes(w, model, node);
      });
}

void WriteModelConfig(JsonWriter* w, const Model& model, bool functional) {
  w->Key("name").String(model.name()).Key("trainable").Bool(true);
  if (!functional) WriteDType(w);
  w->Key("layers").BeginArray();
  for (int node = 0; node < model.num_nodes(); ++node) {
    WriteLayer(w, model, node, functional);
  }
  w->EndArray();
  if (!functional || model.num_nodes() == 0) return;
  w->Key("input_layers").BeginArray();
  WriteReference(w, model.layer(0).name);
  w->EndArray().Key("output_layers").BeginArray();
  WriteReference(w, model.layer(model.num_nodes() - 1).name);
  w->EndArray();
}

}  // namespace

std::string ToJson(const Model& model) {
  JsonWriter w;
  const bool functional = std::string(model.class_name()) == "Functional";
  // Functional is not among Keras's public names; this is where it is.
  WriteKerasObject(&w, functional ? "keras.src.models.functional" : "keras",
                   model.class_name(),
                   [&] { WriteModelConfig(&w, model, functional); });
  return w.text();
}

}  // namespace ringlet
