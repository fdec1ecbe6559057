#include "layer_json.h"

#include <algorithm>
#include <charconv>

#include "../../core/base/text.h"
#include "initializer_json.h"
#include "regularizer_json.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;  // of anything counted

using Kind = Layer::Kind;

// --- names ------------------------------------------------------------------

enum class LayerClass : uint8_t {
  kInputLayer,
  kReshape,
  kFlatten,
  kDense,
  kConv2D,
  kActivation,
  kReLU,
  kSoftmax,
  kMaxPooling2D,
  kAveragePooling2D,
  kDropout,
  kAdd,
  kConcatenate,
};

constexpr Named<LayerClass> kLayers[] = {
    {"InputLayer", LayerClass::kInputLayer},
    {"Reshape", LayerClass::kReshape},
    {"Flatten", LayerClass::kFlatten},
    {"Dense", LayerClass::kDense},
    {"Conv2D Convolution2D", LayerClass::kConv2D},
    {"Activation", LayerClass::kActivation},
    {"ReLU", LayerClass::kReLU},
    {"Softmax", LayerClass::kSoftmax},
    {"MaxPooling2D MaxPool2D", LayerClass::kMaxPooling2D},
    {"AveragePooling2D AvgPool2D", LayerClass::kAveragePooling2D},
    {"Dropout", LayerClass::kDropout},
    {"Add", LayerClass::kAdd},
    {"Concatenate", LayerClass::kConcatenate},
};

constexpr Named<Activation> kActivations[] = {
    {"linear", kLinear}, {"relu", kRelu},       {"sigmoid", kSigmoid},
    {"tanh", kTanh},     {"softmax", kSoftmax},
};

constexpr Named<PaddingMode> kPaddings[] = {{"valid", kValid}, {"same", kSame}};

// --- values of fields -------------------------------------------------------

void ReadActivation(FieldReader* fields, Activation* activation) {
  KerasObject object;
  if (!fields->Has("activation") ||  // null is Keras's linear
      !fields->Object("activation", "an activation",
                      AsJson(ActivationName(*activation)), &object)) {
    return;
  }
  if (!object.name_only) {
    return fields->Refuse("activation",
                          "a layer as an activation is not supported; give a "
                          "name, or the layer its own place");
  }
  fields->Fail(
      Choose(kActivations, object.path, "activation", object.name, activation));
}

// --- layers -----------------------------------------------------------------

void ReadSeed(FieldReader* fields, Layer* layer) {
  if (!fields->Has("seed")) return;
  const char kTakes[] = "a whole number from 0";
  const Json json = fields->Take("seed", kTakes);
  if (!json) return;
  if (json.is_string()) {  // beyond 2^53, see WriteSeed
    const std::string digits = json.text();
    const char* end = digits.data() + digits.size();
    uint64_t seed = 0;
    const auto read = std::from_chars(digits.data(), end, seed);
    if (read.ec == std::errc() && read.ptr == end) {
      layer->Seed(seed);
      return;
    }
  }
  int64_t seed = 0;
  if (!json.ToInt64(&seed) || seed < 0) {
    return fields->MustBe("seed", kTakes);
  }
  layer->Seed(static_cast<uint64_t>(seed));
}

void ReadWeighted(FieldReader* fields, Layer* layer) {
  ReadActivation(fields, &layer->activation);
  fields->Bool("use_bias", &layer->use_bias);
  ReadInitializer("kernel_initializer", fields, &layer->kernel_initializer);
  ReadInitializer("bias_initializer", fields, &layer->bias_initializer);
  ReadRegularizer("kernel_regularizer", fields, &layer->kernel_regularizer);
  ReadRegularizer("bias_regularizer", fields, &layer->bias_regularizer);
  fields->OnlyNull({"kernel_constraint", "bias_constraint", "lora_rank",
                    "lora_alpha", "quantization_mode", "quantization_config"});
}

void ReadWindow(const char* size, FieldReader* fields, Layer* layer) {
  fields->Pair(size, kMaxSize, layer->window);
  fields->Choice("padding", kPaddings, &layer->padding);
  fields->OnlyText("data_format", "channels_last");
}

void ReadConv2D(FieldReader* fields, Layer* layer) {
  fields->Require("filters");
  fields->Int("filters", 1, kMaxSize, &layer->units);
  fields->Require("kernel_size");
  ReadWindow("kernel_size", fields, layer);
  fields->Pair("strides", kMaxSize, layer->strides);
  fields->OnlyNumber("dilation_rate", 1);
  fields->OnlyNumber("groups", 1);
  ReadWeighted(fields, layer);
}

void ReadPooling2D(FieldReader* fields, Layer* layer) {
  ReadWindow("pool_size", fields, layer);
  layer->strides[0] = 0;  // null: the pool's size
  if (fields->Has("strides")) {
    fields->Pair("strides", kMaxSize, layer->strides);
  }
  if (layer->strides[0] == 0) std::copy_n(layer->window, 2, layer->strides);
}

void ReadAxis(FieldReader* fields, int64_t* axis) {
  const Json json = fields->Take("axis", "-1, or the last axis's number", "-1");
  if (!json) return;
  const Json one = json.is_array() && json.size() == 1 ? json.first() : json;
  if (!one.ToInt64(axis) || *axis < -1 || *axis == 0) {
    fields->Refuse("axis", "ringlet supports only the last axis, -1");
  }
}

void ReadInput(FieldReader* fields, LayerEntry* entry) {
  const char* key = fields->Either("batch_shape", "batch_input_shape");
  fields->Require(key);
  ReadShape(key, true, 1, fields, &entry->layer.shape);
  fields->OnlyBool("sparse", false);
  fields->OnlyBool("ragged", false);
  fields->OnlyBool("optional", false);
}

// The fields of one class; those that all layers have follow in ReadLayer.
void ReadClass(LayerClass which, FieldReader* fields, LayerEntry* entry) {
  Layer& layer = entry->layer;
  switch (which) {
    case LayerClass::kInputLayer:
      layer = Input({});
      return ReadInput(fields, entry);
    case LayerClass::kReshape:
      layer = Reshape({});
      fields->Require("target_shape");
      return ReadShape("target_shape", false, -1, fields, &layer.shape);
    case LayerClass::kFlatten:
      layer = Flatten();
      return fields->OnlyText("data_format", "channels_last");
    case LayerClass::kDense:
      layer = Dense(1);
      fields->Require("units");
      fields->Int("units", 1, kMaxSize, &layer.units);
      return ReadWeighted(fields, &layer);
    case LayerClass::kConv2D:
      layer = Conv2D(1, 1);
      return ReadConv2D(fields, &layer);
    case LayerClass::kActivation:
      layer = ActivationLayer(kLinear);
      fields->Require("activation");
      return ReadActivation(fields, &layer.activation);
    case LayerClass::kReLU:
      layer = ReLU();
      fields->OnlyNull({"max_value"});
      fields->OnlyNumber("negative_slope", 0);
      return fields->OnlyNumber("threshold", 0);
    case LayerClass::kSoftmax:
      layer = Softmax();
      return ReadAxis(fields, &entry->axis);
    case LayerClass::kMaxPooling2D:
      layer = MaxPooling2D();
      return ReadPooling2D(fields, &layer);
    case LayerClass::kAveragePooling2D:
      layer = AveragePooling2D();
      return ReadPooling2D(fields, &layer);
    case LayerClass::kDropout:
      layer = Dropout(0);
      fields->Require("rate");
      fields->Float("rate", kShareBelow1, &layer.rate);
      fields->OnlyNull({"noise_shape"});
      return ReadSeed(fields, &layer);
    case LayerClass::kAdd:
      layer = Add();
      return;
    case LayerClass::kConcatenate:
      layer = Concatenate();
      return ReadAxis(fields, &entry->axis);
  }
}

// The name within the config and, in functional models, beside it.
Status ReadName(const Json& json, const KerasObject& object,
                FieldReader* fields, LayerEntry* entry) {
  const std::string path = fields->PathOf("name");
  if (fields->Has("name")) {
    fields->Text("name", "a string of 1 to 255 bytes", &entry->layer.name);
    if (!fields->ok()) return fields->Finish();
    RINGLET_RETURN_IF_ERROR(CheckName(entry->layer.name, path));
  }
  const Json outer = json["name"];
  if (!outer || outer.kind() == Json::Kind::kNull) return Status();
  const std::string outer_path = JoinPath(entry->path, "name");
  if (!outer.is_string()) {
    return InvalidArgument("%s: is %s; must be a string", outer_path.c_str(),
                           Show(outer).c_str());
  }
  if (entry->layer.name.empty()) {
    entry->layer.name = outer.text();
    return CheckName(entry->layer.name, outer_path);
  }
  if (entry->layer.name == outer.text()) return Status();
  return InvalidArgument("%s: is %s, but %s.name is \"%s\"", outer_path.c_str(),
                         Show(outer).c_str(), object.config_path.c_str(),
                         entry->layer.name.c_str());
}

// All but the name.
Status ReadFields(const KerasObject& object, FieldReader* fields,
                  LayerEntry* entry) {
  const std::string name = entry->layer.name;
  LayerClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kLayers, object.path, "layer", object.name, &which));
  ReadClass(which, fields, entry);
  entry->layer.name = name;
  fields->OnlyBool("trainable", true);
  fields->OnlyNull({"activity_regularizer"});
  ReadDType(fields);
  // Keras 2 notes the shape of the input with the first layer.
  if (which != LayerClass::kInputLayer && fields->Has("batch_input_shape")) {
    entry->has_input = true;
    ReadShape("batch_input_shape", true, 1, fields, &entry->input);
  }
  return fields->Finish();
}

// --- writing ----------------------------------------------------------------

void WritePair(JsonWriter* w, const char* key, const int64_t pair[2]) {
  w->Key(key).BeginArray().Int(pair[0]).Int(pair[1]).EndArray();
}

// JSON's numbers are exact up to 2^53; a larger seed is written as a string.
void WriteSeed(JsonWriter* w, const Layer& layer) {
  w->Key("seed");
  if ((layer.settings & Layer::kSetSeed) == 0) {
    w->Null();
  } else if (layer.seed <= (uint64_t{1} << 53)) {
    w->Int(static_cast<int64_t>(layer.seed));
  } else {
    w->String(std::to_string(layer.seed));
  }
}

void WriteWeighted(JsonWriter* w, const Layer& layer) {
  w->Key("activation").String(ActivationName(layer.activation));
  w->Key("use_bias").Bool(layer.use_bias);
  WriteInitializer(w, "kernel_initializer", layer.kernel_initializer);
  WriteInitializer(w, "bias_initializer", layer.bias_initializer);
  WriteRegularizer(w, "kernel_regularizer", layer.kernel_regularizer);
  WriteRegularizer(w, "bias_regularizer", layer.bias_regularizer);
  w->Key("kernel_constraint").Null().Key("bias_constraint").Null();
}

void WriteWindow(JsonWriter* w, const char* size, const Layer& layer) {
  WritePair(w, size, layer.window);
  WritePair(w, "strides", layer.strides);
  w->Key("padding").String(FirstName(kPaddings, layer.padding));
  w->Key("data_format").String("channels_last");
}

}  // namespace

void ReadShape(const char* key, bool batch, int64_t low, FieldReader* fields,
               Shape* shape) {
  const std::string takes = std::string("a list of ") +
                            (batch ? "null and " : "") + "at most " +
                            std::to_string(Shape::kMaxRank) + " sizes" +
                            (low < 0 ? ", of which one may be -1" : "");
  const Json json = fields->Take(key, takes);
  if (!json) return;
  const int rank = json.size() - (batch ? 1 : 0);
  if (!json.is_array() || rank < 0 || rank > Shape::kMaxRank) {
    return fields->MustBe(key, takes);
  }
  Json m = json.first();
  if (batch) {
    if (m.kind() != Json::Kind::kNull) {
      return fields->Refuse(key,
                            "the first entry is the batch and must be null");
    }
    m = m.next();
  }
  *shape = Shape();
  int64_t elements = 1;
  for (; m; m = m.next()) {
    int64_t size = 0;
    if (!m.ToInt64(&size) || size < low || size == 0 ||
        (size > 0 && elements > kMaxSize / size)) {
      return fields->Refuse(
          key, "sizes must be whole numbers from 1, 2^31 elements at most");
    }
    shape->Append(size);
    if (size > 0) elements *= size;
  }
}

Status CheckName(const std::string& name, const std::string& path) {
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    const unsigned char byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  if (!name.empty() && name.size() <= kMaxLayerName && printable)
    return Status();
  return InvalidArgument(
      "%s: is \"%s\"; a name has 1 to 255 bytes and no control characters",
      path.c_str(), Printable(name).c_str());
}

Status ReadLayer(const Json& json, LayerEntry* entry) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(
      ReadKerasObject(json, entry->path, &object, {"name", "inbound_nodes"}));
  entry->class_name = Printable(object.name);
  FieldReader fields(object.config, object.config_path);
  RINGLET_RETURN_IF_ERROR(ReadName(json, object, &fields, entry));
  if (object.name == "Sequential" || object.name == "Functional" ||
      object.name == "Model") {
    return entry->Annotate(InvalidArgument(
        "%s: a model within a model is not supported", object.path.c_str()));
  }
  return entry->Annotate(ReadFields(object, &fields, entry));
}

std::vector<ClassInfo> DescribeLayers() {
  return Describe(kLayers, [](const KerasObject& object) {
    LayerEntry entry;
    FieldReader fields(object.config, "");
    (void)ReadName(Json(), object, &fields, &entry);
    (void)ReadFields(object, &fields, &entry);
  });
}

std::vector<ClassInfo> DescribeActivations() {
  return Describe(kActivations, [](const KerasObject&) {});
}

void WriteShape(JsonWriter* w, const char* key, bool batch,
                const Shape& shape) {
  w->Key(key).BeginArray();
  if (batch) w->Null();
  for (int i = 0; i < shape.rank(); ++i) w->Int(shape[i]);
  w->EndArray();
}

void WriteDType(JsonWriter* w) {
  w->Key("dtype");
  WriteKerasObject(w, "keras", "DTypePolicy",
                   [&] { w->Key("name").String("float32"); });
}

void WriteConfig(JsonWriter* w, const Layer& layer) {
  w->Key("name").String(layer.name);
  if (layer.kind == Kind::kInput) {
    WriteShape(w, "batch_shape", true, layer.shape);
    w->Key("dtype").String("float32").Key("sparse").Bool(false);
    return;
  }
  w->Key("trainable").Bool(true);
  WriteDType(w);
  switch (layer.kind) {
    case Kind::kInput:
    case Kind::kAdd:
      return;
    case Kind::kReshape:
      return WriteShape(w, "target_shape", false, layer.shape);
    case Kind::kFlatten:
      w->Key("data_format").String("channels_last");
      return;
    case Kind::kDense:
      w->Key("units").Int(layer.units);
      return WriteWeighted(w, layer);
    case Kind::kConv2D: {
      const int64_t ones[2] = {1, 1};
      w->Key("filters").Int(layer.units);
      WriteWindow(w, "kernel_size", layer);
      WritePair(w, "dilation_rate", ones);
      w->Key("groups").Int(1);
      WriteWeighted(w, layer);
      w->Key("activity_regularizer").Null();
      return;
    }
    case Kind::kActivation:
      w->Key("activation").String(ActivationName(layer.activation));
      return;
    case Kind::kMaxPooling2D:
    case Kind::kAveragePooling2D:
      return WriteWindow(w, "pool_size", layer);
    case Kind::kDropout:
      w->Key("rate").Float(layer.rate);
      WriteSeed(w, layer);
      w->Key("noise_shape").Null();
      return;
    case Kind::kConcatenate:
      w->Key("axis").Int(-1);
      return;
    case Kind::kCustom:  // its options are its own
      return;
  }
}

}  // namespace ringlet
