// The output is what Keras 3 writes, and what model_json.cc reads back to the
// same model. Keras numbers the calls of a layer, and names a tensor by
// (layer, call, tensor). Layers that ringlet has expanded or added, such as a
// RecurrentOutput, are written as the layer that Keras has.

#include <algorithm>

#include "../../core/layers/layer_table.h"
#include "../../core/layers/nested_model.h"
#include "../../core/layers/recurrent/bidirectional.h"
#include "../../core/layers/recurrent/time_distributed.h"
#include "layer_json.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

bool IsExpanded(const Layer& layer) {
  return IsExpandedBidirectional(layer) || IsExpandedTimeDistributed(layer);
}

// Functional is not a public name of Keras; this is its module.
const char* ModuleOf(const Layer& layer) {
  if (layer.model == nullptr || IsExpanded(layer)) {
    return ModuleOfClass(layer);
  }
  const bool functional = layer.model->class_name == "Functional";
  return functional ? "keras.src.models.functional" : "keras";
}

// Returns the Bidirectional or TimeDistributed that was expanded.
Layer Collapsed(const Layer& expanded) {
  if (IsExpandedTimeDistributed(expanded)) {
    return TimeDistributed(AppliedLayer(expanded))
        .Name(expanded.name)
        .Trainable(expanded.trainable)
        .DType(expanded.dtype);
  }
  return Bidirectional(DirectionOf(*expanded.model, 0),
                       DirectionOf(*expanded.model, 1), expanded.merge_mode)
      .Name(expanded.name)
      .Trainable(expanded.trainable)
      .DType(expanded.dtype);
}

void WriteAnyConfig(JsonWriter* w, const Layer& layer);

// The policy of any of its layers.
DTypePolicy PolicyOf(const NestedModel& model) {
  DTypePolicy policy = DTypePolicy::kFloat32;
  for (const Layer& layer : model.layers) {
    policy = std::max(policy, layer.dtype);
  }
  return policy;
}

// Writes one model. Each nested model has its own writer.
class ModelWriter {
 public:
  ModelWriter(const NestedModel& model, JsonWriter* w)
      : model_(model), w_(*w), functional_(model.class_name == "Functional") {
    std::vector<int> num_calls(model.layers.size(), 0);
    int last = 0;
    for (const NestedModel::Call& call : model.calls) {
      const NestedModel* const inner = model.layers[call.layer].model.get();
      in_order_ = in_order_ && call.layer >= last;
      last = call.layer;
      // Keras counts the construction of a Functional as its first call.
      const int first =
          inner != nullptr && inner->class_name == "Functional" ? 1 : 0;
      numbers_.push_back(first + num_calls[call.layer]++);
    }
  }

  void WriteConfig(const std::string& name, bool trainable) {
    w_.Key("name").String(name).Key("trainable").Bool(trainable);
    if (!functional_) WriteDType(&w_, PolicyOf(model_));
    w_.Key("layers").BeginArray();
    for (size_t i = 0; i < model_.layers.size(); ++i) WriteLayer(i);
    w_.EndArray();
    if (!functional_ || model_.calls.empty()) return;
    w_.Key("input_layers").BeginArray();
    for (int i = 0; i < model_.num_inputs; ++i) {
      WriteReference(static_cast<size_t>(i));
    }
    w_.EndArray().Key("output_layers").BeginArray();
    for (const int call : model_.outputs) {
      WriteReference(static_cast<size_t>(call));
    }
    w_.EndArray();
  }

 private:
  // A RecurrentOutput is a tensor of its layer in Keras.
  void WriteReference(size_t call) {
    int64_t tensor = 0;
    const Layer& layer = LayerOf(call);
    if (layer.kind == Layer::Kind::kRecurrentOutput) {
      tensor = layer.tensor;
      call = static_cast<size_t>(model_.calls[call].inputs[0]);
    }
    w_.BeginArray().String(LayerOf(call).name);
    w_.Int(numbers_[call]).Int(tensor).EndArray();
  }

  const Layer& LayerOf(size_t call) const {
    return model_.layers[model_.calls[call].layer];
  }

  void WriteTensor(size_t call) {
    w_.BeginObject().Key("class_name").String("__keras_tensor__");
    w_.Key("config").BeginObject();
    w_.Key("shape");
    WriteShape(&w_, /*batch=*/true, model_.calls[call].output);
    w_.Key("dtype").String("float32").Key("keras_history");
    WriteReference(call);
    w_.EndObject().EndObject();
  }

  // Keras calls a merging layer with one argument, the list of its inputs. The
  // initial states of a recurrent layer are another argument.
  void WriteCall(const NestedModel::Call& call) {
    const Layer& layer = model_.layers[call.layer];
    const bool recurs =
        IsRecurrent(layer.kind) || IsExpandedBidirectional(layer);
    const bool list =
        ClassOf(layer).inputs == LayerInputs::kList ||
        (!recurs && layer.model != nullptr && layer.model->num_inputs > 1);
    w_.BeginObject().Key("args").BeginArray();
    if (list) w_.BeginArray();
    const size_t count = recurs ? 1 : call.inputs.size();
    for (size_t i = 0; i < count; ++i)
      WriteTensor(static_cast<size_t>(call.inputs[i]));
    if (list) w_.EndArray();
    w_.EndArray().Key("kwargs").BeginObject();
    if (count < call.inputs.size()) {
      w_.Key("initial_state").BeginArray();
      for (size_t i = count; i < call.inputs.size(); ++i) {
        WriteTensor(static_cast<size_t>(call.inputs[i]));
      }
      w_.EndArray();
    }
    if (layer.use_causal_mask) w_.Key("use_causal_mask").Bool(true);
    w_.EndObject().EndObject();
  }

  void WriteInboundNodes(size_t layer) {
    w_.Key("inbound_nodes").BeginArray();
    for (const NestedModel::Call& call : model_.calls) {
      if (call.layer != static_cast<int>(layer) || call.inputs.empty())
        continue;
      WriteCall(call);
    }
    w_.EndArray();
    if (in_order_) return;
    w_.Key(kCallOrder).BeginArray();
    for (size_t c = 0; c < model_.calls.size(); ++c) {
      if (model_.calls[c].layer == static_cast<int>(layer)) {
        w_.Int(static_cast<int64_t>(c));
      }
    }
    w_.EndArray();
  }

  void WriteLayer(size_t i) {
    const Layer& layer = model_.layers[i];
    if (layer.kind == Layer::Kind::kRecurrentOutput) return;
    const auto config = [&] { WriteAnyConfig(&w_, layer); };
    WriteKerasObject(&w_, ModuleOf(layer), ClassName(layer), config, [&] {
      if (!functional_) return;
      w_.Key("name").String(layer.name);
      WriteInboundNodes(i);
    });
  }

  const NestedModel& model_;
  JsonWriter& w_;
  const bool functional_;
  bool in_order_ = true;      // calls are in the order of the layers
  std::vector<int> numbers_;  // the number of each call, for references
};

void WriteAnyConfig(JsonWriter* w, const Layer& layer) {
  if (layer.model == nullptr) return WriteConfig(w, layer);
  if (IsExpanded(layer)) return WriteConfig(w, Collapsed(layer));
  ModelWriter(*layer.model, w).WriteConfig(layer.name, layer.trainable);
}

}  // namespace

void WriteLayerObject(JsonWriter* w, const Layer& layer) {
  WriteKerasObject(w, ModuleOf(layer), ClassName(layer),
                   [&] { WriteAnyConfig(w, layer); });
}

std::string ToJson(const Model& model) {
  JsonWriter w;
  const Layer layer = model.AsLayer(/*with_weights=*/false);
  WriteKerasObject(&w, ModuleOf(layer), ClassName(layer), [&] {
    ModelWriter(*layer.model, &w).WriteConfig(model.name(), /*trainable=*/true);
  });
  return w.text();
}

}  // namespace ringlet
