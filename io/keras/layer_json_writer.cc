// Writes a layer as Keras's configuration JSON. Its fields are the fields of
// its row in core/layers/layer_table.cc, and the type of a field's value
// decides how it is written.

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "../../core/layers/layer_table.h"
#include "../../core/layers/setting_names.h"
#include "layer_json.h"
#include "number_list_json.h"
#include "weight_settings_json.h"

namespace ringlet {
namespace {

// Writes the value of one field of the table.
struct WriteValue {
  const LayerField& field;
  const Layer& layer;
  JsonWriter* w;

  void operator()(int64_t Layer::*member) const {
    if (field.or_zero && layer.*member == 0) {
      w->Null();
    } else {
      w->Int(layer.*member);
    }
  }
  void operator()(int64_t (Layer::*member)[2]) const {
    const int64_t(&pair)[2] = layer.*member;
    const bool is_1d = ClassOf(layer).axes == 1;
    if (field.or_null && pair[1] < 0) {
      w->Null();
      return;
    }
    if (is_1d && field.as_number) {
      w->Int(pair[1]);
      return;
    }
    w->BeginArray();
    if (!is_1d) w->Int(pair[0]);
    w->Int(pair[1]).EndArray();
  }
  void operator()(int64_t (Layer::*member)[4]) const {
    const int64_t(&b)[4] = layer.*member;
    const bool is_1d = ClassOf(layer).axes == 1;
    if (!is_1d) {
      w->BeginArray().BeginArray().Int(b[0]).Int(b[1]).EndArray();
    }
    w->BeginArray().Int(b[2]).Int(b[3]).EndArray();
    if (!is_1d) w->EndArray();
  }
  // JSON's numbers are exact up to 2^53; a larger seed is written as a string.
  void operator()(uint64_t Layer::*member) const {
    const uint64_t seed = layer.*member;
    if (!layer.settings[field.setting]) {
      w->Null();
    } else if (seed <= (uint64_t{1} << 53)) {
      w->Int(static_cast<int64_t>(seed));
    } else {
      w->String(std::to_string(seed));
    }
  }
  void operator()(float Layer::*member) const {
    if (field.or_null && std::isinf(layer.*member)) {
      w->Null();
    } else {
      w->Float(layer.*member);
    }
  }
  void operator()(bool Layer::*member) const { w->Bool(layer.*member); }
  void operator()(Activation Layer::*member) const {
    w->String(ActivationName(layer.*member));
  }
  void operator()(Initializer Layer::*member) const {
    WriteInitializer(w, layer.*member);
  }
  void operator()(Regularizer Layer::*member) const {
    WriteRegularizer(w, layer.*member);
  }
  void operator()(Constraint Layer::*member) const {
    WriteConstraint(w, layer.*member);
  }
  void operator()(Shape Layer::*member) const {
    const Shape& shape = layer.*member;
    if (!field.with_batch) return WriteShape(w, /*batch=*/false, shape);
    if (shape.rank() == 0) {
      w->Null();
      return;
    }
    w->BeginArray().Null();
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] < 0) {
        w->Null();
      } else {
        w->Int(shape[i]);
      }
    }
    w->EndArray();
  }
  void operator()(OnlyNull) const { w->Null(); }
  void operator()(OnlyNumber only) const {
    if (!only.pair) {
      w->Int(only.value);
      return;
    }
    w->BeginArray().Int(only.value).Int(only.value).EndArray();
  }
  void operator()(OnlyText only) const { w->String(only.value); }
  void operator()(std::vector<float> Layer::*member) const {
    if (field.or_null && (layer.*member).empty()) {
      w->Null();
    } else {
      WriteNumbers(w, layer.*member);
    }
  }
  void operator()(std::vector<int64_t> Layer::*member) const {
    const std::vector<int64_t>& axes = layer.*member;
    if (!field.or_null) return WriteAxes(w, axes);
    if (axes.empty()) {
      w->Null();
      return;
    }
    w->BeginArray();
    for (const int64_t axis : axes) w->Int(axis);
    w->EndArray();
  }
  void operator()(MergeMode Layer::*member) const {
    if (layer.*member == kMergeNone) {
      w->Null();
    } else {
      w->String(NameIn(kMergeModes, layer.*member));
    }
  }
  void operator()(FloatRange Layer::*member) const {
    const FloatRange& range = layer.*member;
    if (range.is_none) {
      w->Null();
      return;
    }
    w->BeginArray().Float(range.lower).Float(range.upper).EndArray();
  }
  // A setting with names; null is the value without one.
  template <typename T>
  auto operator()(T Layer::*member) const
      -> decltype(NameOf(layer.*member), void()) {
    const char* const name = NameOf(layer.*member);
    *name == '\0' ? w->Null() : w->String(name);
  }
  void operator()(std::shared_ptr<const Layer> Layer::*member) const {
    Layer inner = *(layer.*member);
    // The graph has one flag for both, and an STFTSpectrogram is never trained.
    if (layer.kind == Layer::Kind::kTimeDistributed &&
        inner.kind != Layer::Kind::kSTFTSpectrogram) {
      inner.trainable = layer.trainable;
    }
    if (layer.kind == Layer::Kind::kTimeDistributed && IsMixed(layer)) {
      inner.dtype = DTypePolicy::kMixedBFloat16;
    }
    WriteLayerObject(w, inner);
  }
  void operator()(OnlyFalse) const { w->Bool(false); }
  void operator()(AnyValue) const { w->Null(); }
  void operator()(LastAxis) const { w->Int(-1); }
};

}  // namespace

void WriteShape(JsonWriter* w, bool batch, const Shape& shape) {
  w->BeginArray();
  if (batch) w->Null();
  for (int i = 0; i < shape.rank(); ++i) w->Int(shape[i]);
  w->EndArray();
}

void WriteDType(JsonWriter* w, DTypePolicy policy) {
  w->Key("dtype");
  WriteKerasObject(w, "keras", "DTypePolicy", [&] {
    w->Key("name").String(NameIn(kDTypePolicies, policy));
  });
}

void WriteConfig(JsonWriter* w, const Layer& layer) {
  w->Key("name").String(layer.name);
  if (layer.kind == Layer::Kind::kInput) {
    w->Key("batch_shape");
    WriteShape(w, /*batch=*/true, layer.shape);
    w->Key("dtype").String("float32").Key("sparse").Bool(false);
    return;
  }
  // Keras's spatial dropouts have fewer arguments.
  if (layer.kind != Layer::Kind::kSpatialDropout2D &&
      layer.kind != Layer::Kind::kSpatialDropout1D) {
    w->Key("trainable").Bool(layer.trainable);
  }
  WriteDType(w, layer.dtype);
  for (const LayerField& field : ClassOf(layer).fields) {
    if (!field.written || field.in_call) continue;
    if (field.written_if_set && ValueText(field, layer).empty()) continue;
    w->Key(field.name);
    std::visit(WriteValue{field, layer, w}, field.value);
  }
}

const char* ModuleOfClass(const Layer& layer) {
  return layer.kind == Layer::Kind::kPositionEmbedding ? "keras_hub.layers"
                                                       : "keras.layers";
}

}  // namespace ringlet
