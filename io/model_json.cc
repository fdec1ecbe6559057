#include "model_json.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "keras_json.h"

namespace ringlet {
namespace {

constexpr int kMaxLayers = 4096;
constexpr size_t kMaxName = 255;
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
    {"Conv2D", LayerClass::kConv2D},
    {"Convolution2D", LayerClass::kConv2D},
    {"Activation", LayerClass::kActivation},
    {"ReLU", LayerClass::kReLU},
    {"Softmax", LayerClass::kSoftmax},
    {"MaxPooling2D", LayerClass::kMaxPooling2D},
    {"MaxPool2D", LayerClass::kMaxPooling2D},
    {"AveragePooling2D", LayerClass::kAveragePooling2D},
    {"AvgPool2D", LayerClass::kAveragePooling2D},
    {"Dropout", LayerClass::kDropout},
    {"Add", LayerClass::kAdd},
    {"Concatenate", LayerClass::kConcatenate},
};

constexpr Named<Activation> kActivations[] = {
    {"linear", kLinear}, {"relu", kRelu},       {"sigmoid", kSigmoid},
    {"tanh", kTanh},     {"softmax", kSoftmax},
};

constexpr Named<PaddingMode> kPaddings[] = {{"valid", kValid},
                                             {"same", kSame}};

enum class InitializerClass : uint8_t {
  kZeros,
  kOnes,
  kConstant,
  kRandomUniform,
  kRandomNormal,
  kTruncatedNormal,
  kVarianceScaling,
  kGlorotUniform,
  kGlorotNormal,
  kHeUniform,
  kHeNormal,
  kLecunUniform,
  kLecunNormal,
};

constexpr Named<InitializerClass> kInitializers[] = {
    {"Zeros", InitializerClass::kZeros},
    {"zeros", InitializerClass::kZeros},
    {"Ones", InitializerClass::kOnes},
    {"ones", InitializerClass::kOnes},
    {"Constant", InitializerClass::kConstant},
    {"constant", InitializerClass::kConstant},
    {"RandomUniform", InitializerClass::kRandomUniform},
    {"random_uniform", InitializerClass::kRandomUniform},
    {"RandomNormal", InitializerClass::kRandomNormal},
    {"random_normal", InitializerClass::kRandomNormal},
    {"TruncatedNormal", InitializerClass::kTruncatedNormal},
    {"truncated_normal", InitializerClass::kTruncatedNormal},
    {"VarianceScaling", InitializerClass::kVarianceScaling},
    {"variance_scaling", InitializerClass::kVarianceScaling},
    {"GlorotUniform", InitializerClass::kGlorotUniform},
    {"glorot_uniform", InitializerClass::kGlorotUniform},
    {"GlorotNormal", InitializerClass::kGlorotNormal},
    {"glorot_normal", InitializerClass::kGlorotNormal},
    {"HeUniform", InitializerClass::kHeUniform},
    {"he_uniform", InitializerClass::kHeUniform},
    {"HeNormal", InitializerClass::kHeNormal},
    {"he_normal", InitializerClass::kHeNormal},
    {"LecunUniform", InitializerClass::kLecunUniform},
    {"lecun_uniform", InitializerClass::kLecunUniform},
    {"LecunNormal", InitializerClass::kLecunNormal},
    {"lecun_normal", InitializerClass::kLecunNormal},
};

constexpr Named<Initializer::Mode> kModes[] = {
    {"fan_in", Initializer::Mode::kFanIn},
    {"fan_out", Initializer::Mode::kFanOut},
    {"fan_avg", Initializer::Mode::kFanAvg},
};

constexpr Named<Initializer::Distribution> kDistributions[] = {
    {"uniform", Initializer::Distribution::kUniform},
    {"truncated_normal", Initializer::Distribution::kTruncatedNormal},
    {"untruncated_normal", Initializer::Distribution::kUntruncatedNormal},
    // Keras 2's older name of truncated_normal.
    {"normal", Initializer::Distribution::kTruncatedNormal},
};

enum class RegularizerClass : uint8_t { kL1, kL2, kL1L2 };

constexpr Named<RegularizerClass> kRegularizers[] = {
    {"L1", RegularizerClass::kL1},      {"l1", RegularizerClass::kL1},
    {"L2", RegularizerClass::kL2},      {"l2", RegularizerClass::kL2},
    {"L1L2", RegularizerClass::kL1L2},  {"l1l2", RegularizerClass::kL1L2},
    {"l1_l2", RegularizerClass::kL1L2},
};

// --- values of fields -------------------------------------------------------

void ReadActivation(FieldReader* fields, Activation* activation) {
  if (!fields->Has("activation")) return;  // null is Keras's linear
  KerasObject object;
  const std::string path = fields->PathOf("activation");
  const Status read =
      ReadKerasObject(fields->Take("activation"), path, &object);
  if (!read.ok()) return fields->Fail(read);
  if (!object.name_only) {
    return fields->Refuse("activation",
                          "a layer as an activation is not supported; give a "
                          "name, or the layer its own place");
  }
  fields->Fail(
      Choose(kActivations, object.path, "activation", object.name, activation));
}

Status ReadInitializer(const KerasObject& object, Initializer* initializer) {
  InitializerClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kInitializers, object.path, "initializer", object.name, &which));
  FieldReader fields(object.config, object.config_path);
  fields.Ignore({"seed"});
  fields.OnlyText("dtype", "float32");
  Initializer& i = *initializer;
  switch (which) {
    case InitializerClass::kZeros:
      i = Zeros();
      break;
    case InitializerClass::kOnes:
      i = Ones();
      break;
    case InitializerClass::kConstant:
      i = Constant(0);
      fields.Float("value", &i.a);
      break;
    case InitializerClass::kRandomUniform:
      i = RandomUniform();
      fields.Float("minval", &i.a);
      fields.Float("maxval", &i.b);
      break;
    case InitializerClass::kRandomNormal:
    case InitializerClass::kTruncatedNormal:
      i = which == InitializerClass::kRandomNormal ? RandomNormal()
                                                   : TruncatedNormal();
      fields.Float("mean", &i.a);
      fields.Float("stddev", &i.b);
      break;
    case InitializerClass::kVarianceScaling:
      i = VarianceScaling(1, Initializer::Mode::kFanIn,
                          Initializer::Distribution::kTruncatedNormal);
      fields.Float("scale", &i.a);
      if (!(i.a > 0)) fields.Refuse("scale", "must be > 0");
      fields.Choice("mode", kModes, &i.mode);
      fields.Choice("distribution", kDistributions, &i.distribution);
      break;
    case InitializerClass::kGlorotUniform:
      i = GlorotUniform();
      break;
    case InitializerClass::kGlorotNormal:
      i = GlorotNormal();
      break;
    case InitializerClass::kHeUniform:
      i = HeUniform();
      break;
    case InitializerClass::kHeNormal:
      i = HeNormal();
      break;
    case InitializerClass::kLecunUniform:
      i = LecunUniform();
      break;
    case InitializerClass::kLecunNormal:
      i = LecunNormal();
      break;
  }
  return fields.Finish();
}

void ReadInitializer(const char* key, FieldReader* fields,
                     Initializer* initializer) {
  const Json json = fields->Take(key);
  if (!json) return;
  KerasObject object;
  const Status read = ReadKerasObject(json, fields->PathOf(key), &object);
  fields->Fail(read.ok() ? ReadInitializer(object, initializer) : read);
}

Status ReadRegularizer(const KerasObject& object, Regularizer* regularizer) {
  RegularizerClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kRegularizers, object.path, "regularizer", object.name, &which));
  FieldReader fields(object.config, object.config_path);
  const bool both = which == RegularizerClass::kL1L2 && !object.name_only;
  *regularizer = Regularizer();
  if (which != RegularizerClass::kL2) {
    regularizer->l1 = both ? 0 : 0.01f;
    fields.Float("l1", &regularizer->l1);
    if (!(regularizer->l1 >= 0)) fields.Refuse("l1", "must be >= 0");
  }
  if (which != RegularizerClass::kL1) {
    regularizer->l2 = both ? 0 : 0.01f;
    fields.Float("l2", &regularizer->l2);
    if (!(regularizer->l2 >= 0)) fields.Refuse("l2", "must be >= 0");
  }
  return fields.Finish();
}

void ReadRegularizer(const char* key, FieldReader* fields,
                     Regularizer* regularizer) {
  if (!fields->Has(key)) return;
  KerasObject object;
  const Status read =
      ReadKerasObject(fields->Take(key), fields->PathOf(key), &object);
  fields->Fail(read.ok() ? ReadRegularizer(object, regularizer) : read);
}

// `batch`: the first entry stands for the batch, and is null. `low`: the
// smallest dimension, and -1 where one may be open.
void ReadShape(const char* key, bool batch, int64_t low, FieldReader* fields,
               Shape* shape) {
  fields->Require(key);
  const Json json = fields->Take(key);
  if (!json) return;
  const int rank = json.size() - (batch ? 1 : 0);
  if (!json.is_array() || rank < 0 || rank > Shape::kMaxRank) {
    return fields->Refuse(key, "must be a list of at most " +
                                   std::to_string(Shape::kMaxRank) + " sizes" +
                                   (batch ? " after null" : ""));
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

// --- layers -----------------------------------------------------------------

struct LayerEntry {
  Layer layer;
  std::string class_name;
  std::string path;        // of the layer
  int64_t axis = -1;       // of Softmax, Concatenate; counts the batch
  bool has_input = false;  // batch_input_shape
  Shape input;
  std::vector<std::string> inputs;  // functional

  Status Annotate(const Status& status) const {
    const char* c = class_name.c_str();
    return layer.name.empty()
               ? status.Annotate("a %s layer without a name", c)
               : status.Annotate("layer '%s' (%s)", layer.name.c_str(), c);
  }
};

void ReadSeed(FieldReader* fields, Layer* layer) {
  if (!fields->Has("seed")) return;
  const Json json = fields->Take("seed");
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
    return fields->Refuse("seed", "must be a whole number from 0, or null");
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
  std::copy_n(layer->window, 2, layer->strides);  // Keras's default
  if (fields->Has("strides")) {
    fields->Pair("strides", kMaxSize, layer->strides);
  }
}

void ReadAxis(FieldReader* fields, int64_t* axis) {
  const Json json = fields->Take("axis");
  if (!json) return;
  const Json one = json.is_array() && json.size() == 1 ? json.first() : json;
  if (!one.ToInt64(axis) || *axis < -1 || *axis == 0) {
    fields->Refuse("axis", "ringlet supports only the last axis, -1");
  }
}

void ReadInput(FieldReader* fields, LayerEntry* entry) {
  fields->Ignore({"batch_shape", "batch_input_shape"});
  const char* key =
      fields->Has("batch_input_shape") ? "batch_input_shape" : "batch_shape";
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
      fields->Float("rate", &layer.rate);
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

Status CheckName(const std::string& name, const std::string& path) {
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    const unsigned char byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  if (!name.empty() && name.size() <= kMaxName && printable) return Status();
  return InvalidArgument(
      "%s: is \"%s\"; a name has 1 to 255 bytes and no control characters",
      path.c_str(), Printable(name).c_str());
}

// The name within the config and, in functional models, beside it.
Status ReadName(const Json& json, const KerasObject& object,
                FieldReader* fields, LayerEntry* entry) {
  const std::string path = fields->PathOf("name");
  if (fields->Has("name")) {
    fields->String("name", &entry->layer.name);
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

Status ReadLayer(const Json& json, LayerEntry* entry) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(
      ReadKerasObject(json, entry->path, &object, {"name", "inbound_nodes"}));
  entry->class_name = Printable(object.name);
  FieldReader fields(object.config, object.config_path);
  RINGLET_RETURN_IF_ERROR(ReadName(json, object, &fields, entry));
  const std::string name = entry->layer.name;
  if (object.name == "Sequential" || object.name == "Functional" ||
      object.name == "Model") {
    return entry->Annotate(InvalidArgument(
        "%s: a model within a model is not supported", object.path.c_str()));
  }
  LayerClass which{};
  const Status known =
      Choose(kLayers, object.path, "layer", object.name, &which);
  if (!known.ok()) return entry->Annotate(known);

  ReadClass(which, &fields, entry);
  entry->layer.name = name;
  fields.OnlyBool("trainable", true);
  fields.OnlyNull({"activity_regularizer"});
  ReadDType(&fields);
  // Keras 2 notes the shape of the input with the first layer.
  if (which != LayerClass::kInputLayer && fields.Has("batch_input_shape")) {
    entry->has_input = true;
    ReadShape("batch_input_shape", true, 1, &fields, &entry->input);
  }
  return entry->Annotate(fields.Finish());
}

Status ReadLayers(const Json& list, const std::string& path,
                  std::vector<LayerEntry>* entries) {
  if (!list.is_array()) {
    return InvalidArgument("%s: is %s; must be a list of layers", path.c_str(),
                           Show(list).c_str());
  }
  if (list.size() > kMaxLayers) {
    return InvalidArgument("%s: %d layers; at most %d are read", path.c_str(),
                           list.size(), kMaxLayers);
  }
  entries->resize(static_cast<size_t>(list.size()));
  Json json = list.first();
  for (size_t i = 0; i < entries->size(); ++i, json = json.next()) {
    LayerEntry& entry = (*entries)[i];
    entry.path = JoinPath(path, static_cast<int64_t>(i));
    RINGLET_RETURN_IF_ERROR(ReadLayer(json, &entry));
  }
  return Status();
}

// After the layer was added as the model's last.
Status CheckAdded(const LayerEntry& entry, const Model& model) {
  RINGLET_RETURN_IF_ERROR(model.status().Annotate("%s", entry.path.c_str()));
  const std::vector<int>& inputs = model.inputs(model.num_nodes() - 1);
  if (entry.has_input && model.output_shape(inputs[0]) != entry.input) {
    return entry.Annotate(InvalidArgument(
        "%s.config.batch_input_shape: is %s for each example, but the layer's "
        "input has %s",
        entry.path.c_str(), entry.input.ToString().c_str(),
        model.output_shape(inputs[0]).ToString().c_str()));
  }
  if (entry.axis == -1 || entry.axis == model.output_shape().rank()) {
    return Status();
  }
  return entry.Annotate(InvalidArgument(
      "%s.config.axis: is %lld; ringlet supports only the last axis, -1",
      entry.path.c_str(), static_cast<long long>(entry.axis)));
}

// --- Sequential -------------------------------------------------------------

Status BuildSequential(std::vector<LayerEntry>* entries, FieldReader* fields,
                       Sequential* model) {
  LayerEntry* first = entries->empty() ? nullptr : &entries->front();
  const bool has_input = first != nullptr && first->layer.kind == Kind::kInput;
  if (!has_input) {
    LayerEntry input;
    if (first != nullptr && first->has_input) {
      input.layer = Input(first->input);
      const std::string& name = first->layer.name;
      if (!name.empty() && name.size() < kMaxName - 6) {
        input.layer.Name(name + "_input");  // as Keras 2
      }
    } else if (fields->Has("build_input_shape")) {
      input.layer = Input({});
      ReadShape("build_input_shape", true, 1, fields, &input.layer.shape);
    } else {
      fields->Fail(InvalidArgument(
          "%s: the shape of the input is not given; add an InputLayer with "
          "batch_shape as the first layer",
          fields->PathOf("layers").c_str()));
    }
    RINGLET_RETURN_IF_ERROR(fields->Finish());
    model->Add(input.layer);
  }
  for (const LayerEntry& entry : *entries) {
    model->Add(entry.layer);
    RINGLET_RETURN_IF_ERROR(CheckAdded(entry, *model));
  }
  return Status();
}

// --- functional -------------------------------------------------------------

// [name, node, tensor] and, in a Keras 2 node, the call's arguments.
bool IsReference(const Json& json) {
  return json.is_array() && json.first().is_string();
}

Status ReadReference(const Json& json, const std::string& path,
                     std::string* name) {
  const int size = json.size();
  int64_t node = -1, tensor = -1;
  if (IsReference(json) && (size == 3 || size == 4)) {
    *name = json.first().text();
    const Json second = json.first().next();
    if (second.ToInt64(&node) && second.next().ToInt64(&tensor) && node == 0 &&
        tensor == 0) {
      return Status();
    }
    if (node > 0 || tensor > 0) {
      return InvalidArgument(
          "%s: is %s; a layer that is called twice or gives several tensors "
          "is not supported",
          path.c_str(), Show(json).c_str());
    }
  }
  return InvalidArgument("%s: is %s; must be [a layer's name, 0, 0]",
                         path.c_str(), Show(json).c_str());
}

// What a layer was called with besides its inputs.
Status CheckCall(const Json& json, const std::string& path) {
  FieldReader call(json, path);
  call.OnlyBool("training", false);
  call.OnlyNull({"mask"});
  return call.Finish();
}

// {"class_name": "__keras_tensor__", "config": {…, "keras_history": […]}}, or
// a list of such.
Status ReadTensors(const Json& json, const std::string& path,
                   std::vector<std::string>* inputs) {
  if (json.is_array()) {
    int64_t i = 0;
    for (Json m = json.first(); m; m = m.next(), ++i) {
      RINGLET_RETURN_IF_ERROR(ReadTensors(m, JoinPath(path, i), inputs));
    }
    return Status();
  }
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(json, path, &object));
  if (object.name != "__keras_tensor__" && object.name != "keras_tensor") {
    return InvalidArgument("%s: is \"%s\"; only tensors are supported",
                           object.path.c_str(), Printable(object.name).c_str());
  }
  FieldReader fields(object.config, object.config_path);
  fields.Ignore({"shape", "dtype", "name"});
  fields.OnlyBool("sparse", false);
  fields.OnlyBool("ragged", false);
  fields.Require("keras_history");
  const Json history = fields.Take("keras_history");
  RINGLET_RETURN_IF_ERROR(fields.Finish());
  inputs->emplace_back();
  return ReadReference(history, fields.PathOf("keras_history"),
                       &inputs->back());
}

Status ReadNode(const Json& json, const std::string& path,
                std::vector<std::string>* inputs) {
  if (json.is_object()) {  // Keras 3
    FieldReader node(json, path);
    node.Require("args");
    const Json args = node.Take("args");
    const Json kwargs = node.Take("kwargs");
    RINGLET_RETURN_IF_ERROR(node.Finish());
    RINGLET_RETURN_IF_ERROR(CheckCall(kwargs, node.PathOf("kwargs")));
    return ReadTensors(args, node.PathOf("args"), inputs);
  }
  if (!json.is_array()) {
    return InvalidArgument("%s: is %s; must be a list or an object",
                           path.c_str(), Show(json).c_str());
  }
  const bool single = IsReference(json);
  int64_t i = 0;
  for (Json m = single ? json : json.first(); m; m = m.next(), ++i) {
    const std::string at = single ? path : JoinPath(path, i);
    inputs->emplace_back();
    RINGLET_RETURN_IF_ERROR(ReadReference(m, at, &inputs->back()));
    const Json call = m.first().next().next().next();
    RINGLET_RETURN_IF_ERROR(CheckCall(call, JoinPath(at, 3)));
    if (single) break;
  }
  return Status();
}

Status ReadInputs(const Json& json, LayerEntry* entry) {
  const std::string path = JoinPath(entry->path, "inbound_nodes");
  const Json nodes = json["inbound_nodes"];
  const bool is_input = entry->layer.kind == Kind::kInput;
  if (!nodes.is_array() && !(is_input && !nodes)) {
    return InvalidArgument("%s: is %s; must be a list", path.c_str(),
                           Show(nodes).c_str());
  }
  if (nodes.size() != (is_input ? 0 : 1)) {
    return InvalidArgument("%s: has %d calls; %s", path.c_str(), nodes.size(),
                           is_input ? "an input takes no input"
                           : nodes.size() == 0
                               ? "the layer is not called"
                               : "a layer that is shared is not supported");
  }
  if (is_input) return Status();
  RINGLET_RETURN_IF_ERROR(
      ReadNode(nodes.first(), JoinPath(path, 0), &entry->inputs));
  if (!entry->inputs.empty()) return Status();
  return InvalidArgument("%s: names no input", path.c_str());
}

// One name of config.input_layers or output_layers.
void ReadEnd(const char* key, FieldReader* fields, std::string* name) {
  fields->Require(key);
  const Json json = fields->Take(key);
  if (!json) return;
  Json reference = json;
  if (json.is_array() && !IsReference(json)) {
    if (json.size() != 1) {
      return fields->Fail(InvalidArgument(
          "%s: has %d entries; ringlet's models have one input and one output",
          fields->PathOf(key).c_str(), json.size()));
    }
    reference = json.first();
  }
  fields->Fail(ReadReference(reference, fields->PathOf(key), name));
}

struct Graph {
  std::vector<LayerEntry> entries;
  std::map<std::string, int> by_name;
  std::vector<std::vector<int>> users;  // of each entry, one per use
};

Status LinkGraph(Graph* graph) {
  const int n = static_cast<int>(graph->entries.size());
  for (int i = 0; i < n; ++i) {
    const LayerEntry& entry = graph->entries[i];
    if (entry.layer.name.empty()) {
      return InvalidArgument("%s.name: is missing", entry.path.c_str());
    }
    if (!graph->by_name.emplace(entry.layer.name, i).second) {
      return entry.Annotate(InvalidArgument(
          "%s.name: two layers have this name", entry.path.c_str()));
    }
  }
  graph->users.resize(graph->entries.size());
  for (int i = 0; i < n; ++i) {
    const LayerEntry& entry = graph->entries[i];
    for (const std::string& input : entry.inputs) {
      const auto found = graph->by_name.find(input);
      if (found == graph->by_name.end()) {
        std::vector<std::string> known;
        for (const auto& named : graph->by_name) known.push_back(named.first);
        return entry.Annotate(
            UnknownName(entry.path + ".inbound_nodes", "layer", input, known));
      }
      graph->users[found->second].push_back(i);
    }
  }
  return Status();
}

// Each after its inputs; where that leaves a choice, in the order of the file.
Status SortGraph(const Graph& graph, std::vector<int>* order) {
  std::vector<size_t> missing;
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (const LayerEntry& entry : graph.entries) {
    if (entry.inputs.empty()) ready.push(static_cast<int>(missing.size()));
    missing.push_back(entry.inputs.size());
  }
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order->push_back(next);
    for (int user : graph.users[next]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) continue;
    return graph.entries[i].Annotate(
        InvalidArgument("%s.inbound_nodes: waits for its own output (a cycle)",
                        graph.entries[i].path.c_str()));
  }
  return Status();
}

// One input, one output, and every layer on a way between them.
Status CheckEnds(const Graph& graph, const std::string& input,
                 const std::string& output, const FieldReader& fields) {
  const auto out = graph.by_name.find(output);
  const auto in = graph.by_name.find(input);
  for (const auto& end :
       {std::make_pair(in, &input), std::make_pair(out, &output)}) {
    if (end.first != graph.by_name.end()) continue;
    return InvalidArgument(
        "%s: there is no layer '%s'",
        fields.PathOf(end.second == &input ? "input_layers" : "output_layers")
            .c_str(),
        Printable(*end.second).c_str());
  }
  for (size_t i = 0; i < graph.entries.size(); ++i) {
    const LayerEntry& entry = graph.entries[i];
    const bool is_input = entry.layer.kind == Kind::kInput;
    if (is_input != (static_cast<int>(i) == in->second)) {
      return entry.Annotate(InvalidArgument(
          "%s: %s", entry.path.c_str(),
          is_input ? "a second input is not supported"
                   : "named by input_layers, and is not an InputLayer"));
    }
    const bool is_output = static_cast<int>(i) == out->second;
    if (graph.users[i].empty() == is_output) continue;
    return entry.Annotate(InvalidArgument(
        "%s: %s", entry.path.c_str(),
        is_output ? "the output is taken by another layer"
                  : "nothing takes its output, and it is not the model's"));
  }
  return Status();
}

Status BuildFunctional(const Json& layers, Graph* graph, FieldReader* fields,
                       Functional* model) {
  Json json = layers.first();
  for (LayerEntry& entry : graph->entries) {
    RINGLET_RETURN_IF_ERROR(entry.Annotate(ReadInputs(json, &entry)));
    json = json.next();
  }
  std::string input, output;
  ReadEnd("input_layers", fields, &input);
  ReadEnd("output_layers", fields, &output);
  RINGLET_RETURN_IF_ERROR(fields->Finish());
  RINGLET_RETURN_IF_ERROR(LinkGraph(graph));
  std::vector<int> order;
  RINGLET_RETURN_IF_ERROR(SortGraph(*graph, &order));
  RINGLET_RETURN_IF_ERROR(CheckEnds(*graph, input, output, *fields));
  std::vector<Functional::Node> node_of(graph->entries.size());
  for (int i : order) {
    const LayerEntry& entry = graph->entries[i];
    std::vector<Functional::Node> inputs;
    for (const std::string& name : entry.inputs) {
      inputs.push_back(node_of[graph->by_name[name]]);
    }
    node_of[i] = model->Add(entry.layer, inputs);
    RINGLET_RETURN_IF_ERROR(CheckAdded(entry, *model));
  }
  return Status();
}

// --- the model --------------------------------------------------------------

enum class ModelClass : uint8_t { kSequential, kFunctional };

constexpr Named<ModelClass> kModels[] = {
    {"Sequential", ModelClass::kSequential},
    {"Functional", ModelClass::kFunctional},
    {"Model", ModelClass::kFunctional},  // older Keras
};

Status ReadModel(const KerasObject& object, std::unique_ptr<Model>* model) {
  ModelClass which{};
  RINGLET_RETURN_IF_ERROR(
      Choose(kModels, object.path, "model", object.name, &which));
  const bool sequential = which == ModelClass::kSequential;
  // The first Keras 2 wrote a Sequential's layers without a name around them.
  const bool bare = sequential && object.config.is_array();
  FieldReader fields(bare ? Json() : object.config, object.config_path);
  const Json layers = bare ? object.config : fields.Take("layers");
  std::string name;
  if (fields.Has("name")) {
    fields.String("name", &name);
    fields.Fail(CheckName(name, fields.PathOf("name")));
  }
  fields.OnlyBool("trainable", true);
  ReadDType(&fields);
  if (sequential) fields.Ignore({"build_input_shape"});
  if (!sequential) fields.Ignore({"input_layers", "output_layers"});
  RINGLET_RETURN_IF_ERROR(fields.Finish());

  Graph graph;
  RINGLET_RETURN_IF_ERROR(
      ReadLayers(layers, bare ? object.config_path : fields.PathOf("layers"),
                 &graph.entries));
  std::unique_ptr<Model> made;
  if (sequential) {
    auto built = std::make_unique<Sequential>();
    RINGLET_RETURN_IF_ERROR(
        BuildSequential(&graph.entries, &fields, built.get()));
    made = std::move(built);
  } else {
    auto built = std::make_unique<Functional>();
    RINGLET_RETURN_IF_ERROR(
        BuildFunctional(layers, &graph, &fields, built.get()));
    made = std::move(built);
  }
  RINGLET_RETURN_IF_ERROR(made->status());
  if (made->num_nodes() < 2) {
    return InvalidArgument("%s: a model needs an input and a layer",
                           fields.PathOf("layers").c_str());
  }
  if (!name.empty()) made->set_name(name);
  *model = std::move(made);
  return Status();
}

// --- writing ----------------------------------------------------------------

void WritePair(JsonWriter* w, const char* key, const int64_t pair[2]) {
  w->Key(key).BeginArray().Int(pair[0]).Int(pair[1]).EndArray();
}

void WriteShape(JsonWriter* w, const char* key, bool batch,
                const Shape& shape) {
  w->Key(key).BeginArray();
  if (batch) w->Null();
  for (int i = 0; i < shape.rank(); ++i) w->Int(shape[i]);
  w->EndArray();
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

bool Same(const Initializer& a, const Initializer& b) {
  return a.kind == b.kind && a.a == b.a && a.b == b.b && a.mode == b.mode &&
         a.distribution == b.distribution;
}

void WriteInitializer(JsonWriter* w, const char* key, const Initializer& i) {
  w->Key(key);
  const auto object = [&](InitializerClass which,
                          const std::function<void()>& config) {
    WriteKerasObject(w, "keras.initializers", FirstName(kInitializers, which),
                     config);
  };
  const auto seed = [&] { w->Key("seed").Null(); };
  const auto numbers = [&](const char* a, const char* b) {
    return [=] {
      w->Key(a).Float(i.a).Key(b).Float(i.b);
      seed();
    };
  };
  const Named<Initializer> scaled[] = {
      {"GlorotUniform", GlorotUniform()}, {"GlorotNormal", GlorotNormal()},
      {"HeUniform", HeUniform()},         {"HeNormal", HeNormal()},
      {"LecunUniform", LecunUniform()},   {"LecunNormal", LecunNormal()},
  };
  switch (i.kind) {
    case Initializer::Kind::kConstant:
      if (i.a == 0) return object(InitializerClass::kZeros, [] {});
      if (i.a == 1) return object(InitializerClass::kOnes, [] {});
      return object(InitializerClass::kConstant,
                    [&] { w->Key("value").Float(i.a); });
    case Initializer::Kind::kUniform:
      return object(InitializerClass::kRandomUniform,
                    numbers("minval", "maxval"));
    case Initializer::Kind::kNormal:
      return object(InitializerClass::kRandomNormal, numbers("mean", "stddev"));
    case Initializer::Kind::kTruncatedNormal:
      return object(InitializerClass::kTruncatedNormal,
                    numbers("mean", "stddev"));
    case Initializer::Kind::kVarianceScaling:
      break;
  }
  for (const auto& named : scaled) {
    if (!Same(named.value, i)) continue;
    return WriteKerasObject(w, "keras.initializers", named.name, seed);
  }
  object(InitializerClass::kVarianceScaling, [&] {
    w->Key("scale").Float(i.a);
    w->Key("mode").String(FirstName(kModes, i.mode));
    w->Key("distribution").String(FirstName(kDistributions, i.distribution));
    seed();
  });
}

void WriteRegularizer(JsonWriter* w, const char* key, const Regularizer& r) {
  w->Key(key);
  if (r.empty()) {
    w->Null();
    return;
  }
  const char* name = r.l2 == 0 ? "L1" : r.l1 == 0 ? "L2" : "L1L2";
  WriteKerasObject(w, "keras.regularizers", name, [&] {
    if (r.l1 != 0) w->Key("l1").Float(r.l1);
    if (r.l2 != 0) w->Key("l2").Float(r.l2);
  });
}

void WriteDType(JsonWriter* w) {
  w->Key("dtype");
  WriteKerasObject(w, "keras", "DTypePolicy",
                   [&] { w->Key("name").String("float32"); });
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
  }
}

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
      w, "keras.layers", ClassName(layer.kind), [&] { WriteConfig(w, layer); },
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

Status ModelFromJson(const Json& json, const std::string& path,
                     std::unique_ptr<Model>* model) {
  KerasObject object;
  RINGLET_RETURN_IF_ERROR(
      ReadKerasObject(json, path, &object, {"keras_version", "backend"}));
  return ReadModel(object, model);
}

Status ModelFromJson(const std::string& json, std::unique_ptr<Model>* model) {
  Json root;
  RINGLET_RETURN_IF_ERROR(ParseKerasJson(json, "model JSON", &root));
  return ModelFromJson(root, "", model).Annotate("model JSON");
}

}  // namespace ringlet
