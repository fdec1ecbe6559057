// A layer's row in core/layers/layer_table.cc has its fields. The type of a
// field's value decides how it is read (ReadValue) and, in
// layer_json_writer.cc, written. Code for a single class has a comment. Readers
// accept any bytes: a FieldReader keeps the first error with its place. With
// Json::ForDescription readers return defaults.

#include "layer_json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "../../core/layers/setting_names.h"
#include "number_list_json.h"
#include "operation_json.h"
#include "weight_settings_json.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

// Fields of Keras 1 with the names of Keras 2 and 3.
constexpr struct {
  const char *old, *name;
} kKeras1Names[] = {
    {"nb_filter", "filters"},
    {"nb_row", "kernel_size"},
    {"nb_col", "kernel_size"},
    {"filter_length", "kernel_size"},
    {"border_mode", "padding"},
    {"subsample", "strides"},
    {"subsample_length", "strides"},
    {"dim_ordering", "data_format"},
    {"output_dim", "units"},
    {"init", "kernel_initializer"},
    {"bias", "use_bias"},
    {"W_regularizer", "kernel_regularizer"},
    {"b_regularizer", "bias_regularizer"},
    {"W_constraint", "kernel_constraint"},
    {"b_constraint", "bias_constraint"},
    {"p", "rate"},
    {"inner_activation", "recurrent_activation"},
    {"inner_init", "recurrent_initializer"},
    {"U_regularizer", "recurrent_regularizer"},
    {"dropout_W", "dropout"},
    {"dropout_U", "recurrent_dropout"},
};

// Fields that may only be false, and why.
constexpr struct {
  const char *field, *why;
} kRefused[] = {
    {"stateful",
     "ringlet supports only false: a state begins as zeros in each batch"},
};

Status RefuseKeras1(const KerasObject& object, const LayerClass& layer) {
  const auto has = [&](const std::string& name) {
    return std::any_of(layer.fields.begin(), layer.fields.end(),
                       [&](const LayerField& f) { return name == f.name; });
  };
  for (Json field = object.config.first(); field; field = field.next()) {
    const std::string key = field.key();
    for (const auto& row : kKeras1Names) {
      if (key != row.old || has(key) || !has(row.name)) continue;
      return InvalidArgument(
          "%s: '%s' is the name of '%s' in Keras 1; rename it, or convert the "
          "text with Keras 2.0 to 2.3: model_from_json(text).to_json()",
          object.config_path.c_str(), row.old, row.name);
    }
  }
  return Status();
}

// The rows of AllLayers that have a configuration; these come first.
NameTable LayerNames() {
  NameTable names;
  for (const LayerClass& row : AllLayers()) {
    if (row.make != nullptr) names.Add(row.name, row.aliases);
  }
  return names;
}

NameTable ActivationNames() {
  NameTable names;
  for (const NamedActivation& row : kActivations) {
    names.Add(row.name, row.aliases);
  }
  return names;
}

// A number of pixels for both ends, or a list of two numbers.
bool BothEnds(const Json& wrapped, int64_t ends[2]) {
  const Json json = WithoutWrapping(wrapped);
  const bool list = json.is_array() && json.size() == 2;
  const Json first = list ? json.first() : json;
  const Json second = list ? first.next() : json;
  const auto read = [](const Json& one, int64_t* end) {
    return one.ToInt64(end) && *end >= 0 && *end <= kMaxLayerSize;
  };
  return read(first, &ends[0]) && read(second, &ends[1]);
}

// For one axis its two ends. For two axes one number for all ends, or both ends
// of each axis.
void ReadBorders(const char* key, int axes, FieldReader* fields,
                 int64_t borders[4]) {
  const auto text = [&](int i) {
    return "[" + AsJson(borders[i]) + ", " + AsJson(borders[i + 1]) + "]";
  };
  const std::string takes =
      axes == 1 ? "a whole number from 0, or [before, after]"
                : "a whole number from 0, [rows, columns], or [[top, bottom], "
                  "[left, right]]";
  const Json json = fields->Take(
      key, takes, axes == 1 ? text(2) : "[" + text(0) + ", " + text(2) + "]");
  if (!json) return;
  int64_t read[4] = {};
  const bool list = axes == 2 && json.is_array() && json.size() == 2;
  const Json first = list ? json.first() : json;
  if ((axes == 2 && (json.is_array() != list || !BothEnds(first, read))) ||
      !BothEnds(list ? first.next() : json, read + 2)) {
    return fields->MustBe(key, takes);
  }
  std::copy_n(read, 4, borders);
}

// Reads one field of the table into a layer, by the type of its value.
struct ReadValue {
  const LayerField& field;
  FieldReader* fields;
  LayerEntry* entry;

  void operator()(int64_t Layer::*member) const {
    if (field.or_zero && !fields->MarkOptional(field.name)) {
      if (fields->Take(field.name)) entry->layer.*member = 0;
      return;
    }
    const int64_t min_size = field.allows_one_unknown_size ? -1 : 1;
    fields->Int(field.name, min_size, kMaxLayerSize, &(entry->layer.*member));
  }
  void operator()(int64_t (Layer::*member)[2]) const {
    const int axes = ClassOf(entry->layer).axes;
    int64_t* const sizes = entry->layer.*member + 2 - axes;
    if (field.or_null) {
      if (!fields->MarkOptional(field.name)) return;
      return fields->Sizes(field.name, 0, kMaxLayerSize, axes, sizes);
    }
    if (!field.or_window) {
      return fields->Sizes(field.name, 1, kMaxLayerSize, axes, sizes);
    }
    sizes[0] = 0;
    if (fields->MarkOptional(field.name)) {
      fields->Sizes(field.name, 1, kMaxLayerSize, axes, sizes);
    }
    if (sizes[0] == 0) {
      std::copy_n(entry->layer.window, 2, entry->layer.*member);
    }
  }
  void operator()(int64_t (Layer::*member)[4]) const {
    ReadBorders(field.name, ClassOf(entry->layer).axes, fields,
                entry->layer.*member);
  }
  void operator()(float Layer::*member) const {
    if (field.or_null && !fields->MarkOptional(field.name)) {
      if (fields->Take(field.name)) {
        entry->layer.*member = std::numeric_limits<float>::infinity();
      }
      return;
    }
    fields->Float(field.name, field.range, &(entry->layer.*member));
  }
  void operator()(bool Layer::*member) const {
    if (field.or_null && !fields->MarkOptional(field.name)) {
      if (fields->Take(field.name)) entry->layer.*member = false;
      return;
    }
    fields->Bool(field.name, &(entry->layer.*member));
  }
  void operator()(PaddingMode Layer::*member) const {
    PaddingMode* const padding = &(entry->layer.*member);
    if (field.or_causal) {
      fields->Choice(field.name, kCausalPaddings, padding);
    } else {
      fields->Choice(field.name, kPaddings, padding);
    }
  }
  void operator()(Initializer Layer::*member) const {
    ReadInitializer(field.name, fields, &(entry->layer.*member));
  }
  void operator()(Regularizer Layer::*member) const {
    ReadRegularizer(field.name, fields, &(entry->layer.*member));
  }
  void operator()(Constraint Layer::*member) const {
    ReadConstraint(field.name, fields, &(entry->layer.*member));
  }
  void operator()(Shape Layer::*member) const {
    if (field.or_null && !fields->MarkOptional(field.name)) return;
    const bool open = field.allows_one_unknown_size || field.with_batch;
    ReadShape(field.name, field.with_batch, open ? kOpenSize : 1, fields,
              &(entry->layer.*member),
              field.with_batch ? ", each 1, null or the input's"
              : open           ? "; one of them may be -1"
                               : "");
  }
  void operator()(OnlyNull) const { fields->OnlyNull({field.name}); }
  void operator()(OnlyNumber only) const {
    fields->OnlyNumber(field.name, static_cast<double>(only.value));
  }
  void operator()(OnlyText only) const {
    fields->OnlyText(field.name, only.value, "", only.or_null);
  }

  void operator()(std::vector<float> Layer::*member) const {
    if (field.or_null && !fields->MarkOptional(field.name)) return;
    ReadNumbers(field.name, field.range, fields, &(entry->layer.*member));
  }
  void operator()(std::vector<int64_t> Layer::*member) const {
    if (field.or_null && !fields->MarkOptional(field.name)) return;
    ReadAxes(field.name, fields, &(entry->layer.*member));
  }
  void operator()(MergeMode Layer::*member) const {
    if (!fields->MarkOptional(field.name) && fields->Take(field.name)) {
      entry->layer.*member = kMergeNone;
      return;
    }
    fields->Choice(field.name, kMergeModes, &(entry->layer.*member));
  }
  void operator()(FloatRange Layer::*member) const {
    if (field.or_null && !fields->MarkOptional(field.name)) return;
    ReadFloatRange(field, fields, &(entry->layer.*member));
  }
  void operator()(FlipMode Layer::*member) const {
    fields->Choice(field.name, kFlipModes, &(entry->layer.*member));
  }
  void operator()(FillMode Layer::*member) const {
    fields->Choice(field.name, kFillModes, &(entry->layer.*member));
  }
  void operator()(Interpolation Layer::*member) const {
    fields->Choice(field.name, kInterpolations, &(entry->layer.*member));
  }
  void operator()(SpectrogramMode Layer::*member) const {
    fields->Choice(field.name, kSpectrogramModes, &(entry->layer.*member));
  }
  void operator()(WindowFunction Layer::*member) const {
    ReadOrNull(kWindowFunctions, member, WindowFunction::kNone);
  }
  void operator()(WindowScaling Layer::*member) const {
    ReadOrNull(kWindowScalings, member, WindowScaling::kNone);
  }
  template <typename T, size_t n>
  void ReadOrNull(const Named<T> (&table)[n], T Layer::*member, T null) const {
    if (fields->MarkOptional(field.name)) {
      return fields->Choice(field.name, table, &(entry->layer.*member));
    }
    if (fields->Take(field.name)) entry->layer.*member = null;
  }
  void operator()(std::shared_ptr<const Layer> Layer::*member) const {
    std::shared_ptr<const Layer>* const inner = &(entry->layer.*member);
    if (!field.required) inner->reset();
    if (!field.required && !fields->MarkOptional(field.name)) return;
    KerasObject object;
    if (!fields->Object(field.name, "a layer", "null", &object)) return;
    object.keras2 = entry->keras2;
    LayerEntry read;
    read.path = object.path;
    read.keras2 = entry->keras2;
    read.class_name = Printable(object.name);
    const Status status = IsModel(object) ? ReadNested(Json(), object, &read)
                                          : ReadLayer(Json(), object, &read);
    if (!status.ok()) return fields->Fail(status);
    if (read.layer.name.empty()) {  // a saved model's layers have names
      read.layer.name = SnakeCase(ClassName(read.layer));
    }
    *inner = std::make_shared<Layer>(read.layer);
  }
  void operator()(OnlyFalse) const {
    for (const auto& row : kRefused) {
      if (row.field != std::string(field.name)) continue;
      if (fields->Take(field.name).as_bool()) {
        fields->Refuse(field.name, row.why);
      }
    }
    fields->OnlyBool(field.name, false);
  }
  void operator()(AnyValue) const { fields->Ignore({field.name}); }

  void operator()(Activation Layer::*member) const {
    KerasObject object;
    if (!fields->MarkOptional(field.name)) {
      if (fields->Take(field.name)) {  // null is Keras's linear
        entry->layer.*member = ringlet::kLinear;
      }
      return;
    }
    if (!fields->Object(field.name, "an activation",
                        AsJson(ActivationName(entry->layer.*member)),
                        &object)) {
      return;
    }
    if (!object.name_only) {
      return fields->Refuse(field.name,
                            "a layer as an activation is not supported; give a "
                            "name, or the layer its own place");
    }
    size_t row = 0;
    const Status chosen = ChooseRow(ActivationNames(), object.path,
                                    "activation", object.name, &row);
    if (!chosen.ok()) return fields->Fail(chosen);
    Activation* const activation = &(entry->layer.*member);
    *activation = kActivations[row].value;
    // The name has another meaning in Keras 2.
    if (entry->keras2 && *activation == kHardSigmoid) {
      *activation = kHardSigmoidKeras2;
    }
  }

  void operator()(uint64_t Layer::*member) const {
    if (!fields->MarkOptional(field.name)) return;
    const char kTakes[] = "a whole number from 0";
    const Json json = fields->Take(field.name, kTakes);
    if (!json) return;
    uint64_t* const seed = &(entry->layer.*member);
    entry->layer.settings.set(field.setting);
    if (json.is_string()) {  // a number beyond 2^53, see WriteValue
      const std::string digits = json.text();
      const char* end = digits.data() + digits.size();
      const auto read = std::from_chars(digits.data(), end, *seed);
      if (read.ec == std::errc() && read.ptr == end) return;
    }
    int64_t number = 0;
    if (!json.ToInt64(&number) || number < 0) {
      return fields->MustBe(field.name, kTakes);
    }
    *seed = static_cast<uint64_t>(number);
  }

  void operator()(LastAxis) const {
    int64_t* const axis = &entry->axis;
    const Json json =
        fields->Take(field.name, "-1, or the last axis's number", "-1");
    if (!json) return;
    const Json one = json.is_array() && json.size() == 1 ? json.first() : json;
    if (!one.ToInt64(axis) || *axis < -1 || *axis == 0) {
      fields->Refuse(field.name, "ringlet supports only the last axis, -1");
    }
  }
};

void ReadInput(FieldReader* fields, LayerEntry* entry) {
  const char* key = fields->Either("batch_shape", "batch_input_shape");
  fields->Require(key);
  ReadShape(key, /*batch=*/true, 1, fields, &entry->layer.shape);
  fields->OnlyBool("sparse", false);
  fields->OnlyBool("ragged", false);
  fields->OnlyBool("optional", false);
}

// Reads the fields of one class; ReadFields reads the fields of all layers.
void ReadClass(const LayerClass& row, FieldReader* fields, LayerEntry* entry) {
  entry->layer = row.make();
  if (row.kind == Kind::kInput) return ReadInput(fields, entry);
  for (LayerField field : row.fields) {
    if (field.in_call) continue;
    if (field.keras2_name != nullptr) {
      field.name = fields->Either(field.name, field.keras2_name);
    }
    if (field.required) fields->Require(field.name);
    std::visit(ReadValue{field, fields, entry}, field.value);
  }
  if (row.kind == Kind::kBidirectional &&
      entry->layer.backward_layer == nullptr) {
    entry->layer = Bidirectional(*entry->layer.layer, entry->layer.merge_mode);
  }
  // Over only the last axis it is an activation, which a loss can include.
  if (row.kind == Kind::kSoftmax) entry->layer = Softmax(entry->layer.axes);
}

// Reads all fields except the name.
Status ReadFields(const KerasObject& object, FieldReader* fields,
                  LayerEntry* entry) {
  if (IsOperation(object)) return ReadOperation(object, fields, entry);
  const std::string name = entry->layer.name;
  size_t number = 0;
  RINGLET_RETURN_IF_ERROR(
      ChooseRow(LayerNames(), object.path, "layer", object.name, &number));
  const LayerClass& row = AllLayers()[number];
  RINGLET_RETURN_IF_ERROR(RefuseKeras1(object, row));
  ReadClass(row, fields, entry);
  entry->layer.name = name;
  entry->has_adapt = static_cast<bool>(object.config["adapt"]);
  std::optional<bool> trainable = true;
  fields->Bool("trainable", &trainable);
  entry->layer.trainable = trainable.value_or(true);
  fields->OnlyNull({"activity_regularizer"});
  entry->has_dtype = ReadDType(fields, &entry->layer.dtype);
  // Keras 2 stores the shape of the input in the first layer, and an open shape
  // in every Embedding.
  if (row.kind != Kind::kInput && fields->MarkOptional("batch_input_shape")) {
    entry->has_input = true;
    ReadShape("batch_input_shape", /*batch=*/true, kOpenSize, fields,
              &entry->input, " (null: any)");
  }
  return fields->Finish();
}

}  // namespace

void ReadShape(const char* key, bool batch, int64_t low, FieldReader* fields,
               Shape* shape, const char* sizes) {
  const std::string takes = std::string("a list of ") +
                            (batch ? "null and " : "") + "at most " +
                            std::to_string(Shape::kMaxRank) + " sizes" + sizes;
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
                            "the first entry is the batch; set it to null");
    }
    m = m.next();
  }
  *shape = Shape();
  int64_t elements = 1;
  for (; m; m = m.next()) {
    int64_t size = 0;
    // TensorFlow.js writes an open size as null.
    const bool open = low < 0 && m.kind() == Json::Kind::kNull;
    if (open) size = kOpenSize;
    if ((!open && !m.ToInt64(&size)) || size < low || size == 0 ||
        (size > 0 && elements > kMaxLayerSize / size)) {
      return fields->Refuse(
          key, "sizes must be whole numbers from 1, 2^31 elements at most");
    }
    shape->Append(size);
    if (size > 0) elements *= size;
  }
}

Status ReadName(const Json& json, const KerasObject& object,
                FieldReader* fields, LayerEntry* entry) {
  const std::string path = fields->PathOf("name");
  if (fields->MarkOptional("name")) {
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

Status ReadLayerObject(const Json& json, LayerEntry* entry,
                       KerasObject* object) {
  RINGLET_RETURN_IF_ERROR(ReadKerasObject(
      json, entry->path, object, {"name", "inbound_nodes", kCallOrder}));
  entry->class_name = Printable(object->name);
  return Status();
}

bool IsModel(const KerasObject& object) {
  return object.name == "Sequential" || object.name == "Functional" ||
         object.name == "Model";
}

Status ReadLayer(const Json& json, const KerasObject& object,
                 LayerEntry* entry) {
  FieldReader fields(object.config, object.config_path);
  RINGLET_RETURN_IF_ERROR(ReadName(json, object, &fields, entry));
  entry->from_ops = StartsWith(json["module"].text(), "keras.src.ops");
  return entry->Annotate(ReadFields(object, &fields, entry));
}

std::vector<ClassInfo> DescribeLayers() {
  return Describe(LayerNames(), [](const KerasObject& object) {
    LayerEntry entry;
    FieldReader fields(object.config, "");
    (void)ReadName(Json(), object, &fields, &entry);
    (void)ReadFields(object, &fields, &entry);
  });
}

std::vector<ClassInfo> DescribeActivations() {
  return Describe(ActivationNames(), [](const KerasObject&) {});
}

}  // namespace ringlet
