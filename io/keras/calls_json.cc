// Keras 2 writes a call as lists, [name, node, tensor, arguments], and Keras 3
// as an object with "args" and "kwargs" of tensors. Both become CallReferences
// by name, which functional_json.cc resolves. An argument that is not read
// here must be refused by FieldReader::Finish, and never be ignored: it
// changes the outputs.

#include <string>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "functional_json.h"
#include "operation_json.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

// [name, node, tensor] and, in a Keras 2 node, the call's arguments.
bool IsReference(const Json& json) {
  return json.is_array() && json.first().is_string();
}

Status ReadReference(const Json& json, const std::string& path,
                     CallReference* reference) {
  const int size = json.size();
  if (IsReference(json) && (size == 3 || size == 4)) {
    reference->name = json.first().text();
    const Json second = json.first().next();
    if (second.ToInt64(&reference->number) && reference->number >= 0 &&
        second.next().ToInt64(&reference->tensor) && reference->tensor >= 0) {
      return Status();
    }
  }
  return InvalidArgument(
      "%s: is %s; must be [a layer's name, the number of its call, the number "
      "of its tensor]",
      path.c_str(), Show(json).c_str());
}

bool IsListOfNulls(const Json& json) {
  if (!json.is_array()) return false;
  for (Json m = json.first(); m; m = m.next()) {
    if (m.kind() != Json::Kind::kNull) return false;
  }
  return true;
}

Status ReadTensors(const Json& json, const std::string& path,
                   std::vector<CallReference>* inputs);

void RefuseMask(const char* key, FieldReader* call) {
  if (call->MarkOptional(key)) {
    call->Refuse(key,
                 "ringlet supports only null, or the mask of an Embedding or a "
                 "Masking; cut or pad the sequences to one length");
  }
  call->Ignore({key});
}

// Reads the mask of an input of the entry's last call.
void ReadMask(const char* key, const Json& json, int input, FieldReader* call,
              LayerEntry* entry) {
  if (!json.is_object()) return RefuseMask(key, call);
  call->Ignore({key});
  std::vector<CallReference> masks;
  call->Fail(ReadTensors(json, call->PathOf(key), &masks));
  entry->masks.emplace_back();
  entry->masks.back().call = entry->calls.size() - 1;
  entry->masks.back().input = input;
  if (!masks.empty()) entry->masks.back().from = masks[0];
}

// Reads the arguments of an attention: whether it is causal, and the inputs
// that have a name.
void ReadAttention(const Json& json, FieldReader* call, LayerEntry* entry,
                   std::vector<CallReference>* inputs) {
  int input = 0;
  for (const char* key : {"query_mask", "value_mask", "key_mask"}) {
    ReadMask(key, json[key], input++, call, entry);
  }
  RefuseMask("attention_mask", call);
  call->OnlyBool("return_attention_scores", false);
  bool causal = false;
  call->Bool("use_causal_mask", &causal);
  entry->layer.use_causal_mask |= causal;
  for (const char* name : {"query", "value", "key"}) {
    if (!call->MarkOptional(name)) continue;
    const std::string path = call->PathOf(name);
    if (IsReference(json[name])) {
      inputs->emplace_back();
      call->Fail(ReadReference(json[name], path, &inputs->back()));
    } else {
      call->Fail(ReadTensors(json[name], path, inputs));
    }
  }
}

// Reads the states before the first step, which are further inputs.
void ReadInitialState(const Json& json, FieldReader* call,
                      std::vector<CallReference>* inputs) {
  const std::string path = call->PathOf("initial_state");
  const bool references =
      IsReference(json) || (json.is_array() && IsReference(json.first()));
  if (!references) return call->Fail(ReadTensors(json, path, inputs));
  for (Json m = IsReference(json) ? json : json.first(); m; m = m.next()) {
    inputs->emplace_back();
    call->Fail(ReadReference(m, path, &inputs->back()));
    if (IsReference(json) || !call->ok()) return;
  }
}

// Reads the arguments of a call besides the tensors in order.
Status ReadArguments(const Json& json, const std::string& path,
                     LayerEntry* entry, std::vector<CallReference>* inputs) {
  FieldReader call(json, path);
  call.OnlyBool("training", false);
  const Kind kind = entry->layer.kind;
  const bool attends =
      kind == Kind::kAttention || kind == Kind::kAdditiveAttention;
  const Json mask = json["mask"];
  if (IsListOfNulls(mask) || (attends && mask.is_array())) {
    call.Ignore({"mask"});
    int input = 0;  // an Attention has a mask, or null, for each
    for (Json m = mask.first(); m && call.ok(); m = m.next(), ++input) {
      if (m.kind() == Json::Kind::kNull) continue;
      ReadMask("mask", input < 3 ? m : mask, input, &call, entry);
    }
  } else {
    ReadMask("mask", mask, 0, &call, entry);
  }
  if (IsRecurrent(kind) || kind == Kind::kBidirectional) {
    if (call.MarkOptional("initial_state")) {
      ReadInitialState(json["initial_state"], &call, inputs);
    }
    call.Ignore({"initial_state"});
  }
  if (attends || kind == Kind::kMultiHeadAttention) {
    ReadAttention(json, &call, entry, inputs);
  }
  return call.Finish();
}

// {"class_name": "__keras_tensor__", "config": {…, "keras_history": […]}}, a
// number, or a list of these.
Status ReadTensors(const Json& json, const std::string& path,
                   std::vector<CallReference>* inputs) {
  CallReference constant;
  if (ReadConstant(json, &constant)) {
    inputs->push_back(constant);
    return Status();
  }
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

// Reads a call of tf.keras's TFOpLambda: ["x", 0, 0, {"y": 3}]. `y` may be a
// reference too. For 3 - x the first is ["_CONSTANT_VALUE", -1, 3, …].
Status ReadOperands(const Json& json, const std::string& path,
                    std::vector<CallReference>* operands) {
  const Json third = json.first().next().next();
  const auto read = [&](const Json& operand, const std::string& at) {
    operands->emplace_back();
    return ReadConstant(operand, &operands->back())
               ? Status()
               : ReadReference(operand, at, &operands->back());
  };
  const bool constant = json.first().text() == "_CONSTANT_VALUE";
  RINGLET_RETURN_IF_ERROR(read(constant ? third : json, path));
  const std::string at = JoinPath(path, 3);
  FieldReader call(third.next(), at);
  call.Ignore({"name"});
  const Json y = call.Take("y");
  RINGLET_RETURN_IF_ERROR(call.Finish());
  return y ? read(y, JoinPath(at, "y")) : Status();
}

Status ReadNode(const Json& json, const std::string& path, LayerEntry* entry,
                std::vector<CallReference>* inputs) {
  const bool operation = entry->operation != Operation::kNone;
  if (json.is_object()) {  // Keras 3
    FieldReader node(json, path);
    node.Require("args");
    const Json args = node.Take("args");
    const Json kwargs = node.Take("kwargs");
    RINGLET_RETURN_IF_ERROR(node.Finish());
    RINGLET_RETURN_IF_ERROR(ReadTensors(args, node.PathOf("args"), inputs));
    return ReadArguments(kwargs, node.PathOf("kwargs"), entry, inputs);
  }
  if (!json.is_array()) {
    return InvalidArgument("%s: is %s; must be a list or an object",
                           path.c_str(), Show(json).c_str());
  }
  const bool single = IsReference(json);
  int64_t i = 0;
  for (Json m = single ? json : json.first(); m; m = m.next(), ++i) {
    const std::string at = single ? path : JoinPath(path, i);
    if (operation) {
      RINGLET_RETURN_IF_ERROR(ReadOperands(m, at, inputs));
      if (single) break;
      continue;
    }
    inputs->emplace_back();
    RINGLET_RETURN_IF_ERROR(ReadReference(m, at, &inputs->back()));
    const Json call = m.first().next().next().next();
    RINGLET_RETURN_IF_ERROR(
        ReadArguments(call, JoinPath(at, 3), entry, inputs));
    if (single) break;
  }
  return Status();
}

}  // namespace

Status ReadCalls(const Json& json, LayerEntry* entry) {
  const std::string path = JoinPath(entry->path, "inbound_nodes");
  const Json nodes = json["inbound_nodes"];
  const bool is_input = entry->layer.kind == Kind::kInput;
  if (!nodes.is_array() && !(is_input && !nodes)) {
    return InvalidArgument("%s: is %s; must be a list", path.c_str(),
                           Show(nodes).c_str());
  }
  if (is_input ? nodes.size() != 0 : nodes.size() == 0) {
    return InvalidArgument(
        "%s: has %d calls; %s", path.c_str(), nodes.size(),
        is_input ? "an input takes no input" : "the layer is not called");
  }
  if (is_input) {
    entry->calls.emplace_back();
    return Status();
  }
  bool& causal = entry->layer.use_causal_mask;
  const bool always = causal;  // set by the layer's field of Keras 2
  bool first = causal;
  int64_t i = 0;
  for (Json node = nodes.first(); node; node = node.next(), ++i) {
    entry->calls.emplace_back();
    const std::string at = JoinPath(path, i);
    causal = always;
    RINGLET_RETURN_IF_ERROR(ReadNode(node, at, entry, &entry->calls.back()));
    if (entry->calls.back().empty()) {
      return InvalidArgument("%s: names no input", at.c_str());
    }
    if (i == 0) first = causal;
    if (causal == first) continue;
    return InvalidArgument(
        "%s: use_causal_mask: the layer's first call has another; give the "
        "calls layers of their own",
        at.c_str());
  }
  return FinishOperation(entry);
}

Status ReadCallOrder(const Json& json, LayerEntry* entry) {
  const Json order = json[kCallOrder];
  if (!order) return Status();
  for (Json place = order.first(); place; place = place.next()) {
    entry->call_order.push_back(-1);
    if (!place.ToInt64(&entry->call_order.back())) break;
  }
  if (order.is_array() && entry->call_order.size() == entry->calls.size() &&
      (entry->call_order.empty() || entry->call_order.back() >= 0)) {
    return Status();
  }
  return InvalidArgument("%s.%s: is %s; must be a number for each call",
                         entry->path.c_str(), kCallOrder, Show(order).c_str());
}

void ReadEnds(const char* key, FieldReader* fields,
              std::vector<CallReference>* ends) {
  fields->Require(key);
  const Json json = fields->Take(key);
  if (!json) return;
  const std::string path = fields->PathOf(key);
  const bool one = !(json.is_array() || json.is_object()) || IsReference(json);
  int64_t i = 0;
  for (Json m = one ? json : json.first(); m; m = m.next(), ++i) {
    ends->emplace_back();
    fields->Fail(
        ReadReference(m, one ? path : JoinPath(path, i), &ends->back()));
    if (one || !fields->ok()) return;
  }
  if (i == 0) fields->Fail(InvalidArgument("%s: is empty", path.c_str()));
}

}  // namespace ringlet
