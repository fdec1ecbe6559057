// Only the calls of an operation tell which operands are numbers. So
// ReadOperation leaves a placeholder, and FinishOperation makes the layer and
// takes the numbers out of the calls. A layer has one set of numbers: a call
// with other numbers is refused. An operation that no layer computes, such as a
// quotient of tensors, is refused by its path.

#include "operation_json.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>
#include <string>

#include "../../core/base/text.h"
#include "../../core/layers/layer_kind.h"
#include "mask_json.h"

namespace ringlet {
namespace {

using Kind = Layer::Kind;

// tf.keras's functions.
constexpr Named<Operation> kFunctions[] = {
    {"__operators__.add math.add", Operation::kAdd},
    {"math.subtract", Operation::kSubtract},
    {"math.multiply", Operation::kMultiply},
    {"math.truediv math.divide", Operation::kDivide},
    {"math.negative", Operation::kNegate},
    {"math.pow", Operation::kPower},
};

// Keras 3's classes. Add, Subtract and Multiply are layers too.
constexpr Named<Operation> kOperations[] = {
    {"TrueDivide Divide", Operation::kDivide},
    {"Negative", Operation::kNegate},
    {"Power", Operation::kPower},
    {"NotEqual", Operation::kNotEqual},
    {"Any", Operation::kAny},
    {"LogicalOr", Operation::kOr},
};

bool IsNumbers(const CallReference& input) { return !input.numbers.empty(); }

constexpr char kFunctionClass[] = "TFOpLambda";

Operation OperationOf(const LayerEntry& entry) {
  switch (entry.layer.kind) {
    case Kind::kAdd:
      return Operation::kAdd;
    case Kind::kSubtract:
      return Operation::kSubtract;
    case Kind::kMultiply:
      return Operation::kMultiply;
    default:
      return entry.operation;
  }
}

// Makes the layer over two tensors.
Status MakeMerge(Operation operation, const std::string& path, Layer* layer) {
  switch (operation) {
    case Operation::kAdd:
      *layer = Add();
      return Status();
    case Operation::kSubtract:
      *layer = Subtract();
      return Status();
    case Operation::kMultiply:
      *layer = Multiply();
      return Status();
    default:
      return InvalidArgument(
          "%s: %s of two tensors is not supported; no layer has it: compute it "
          "in the data, or write a CustomLayer in C++",
          path.c_str(),
          operation == Operation::kPower ? "a power" : "a quotient");
  }
}

// Makes the layer over a tensor and numbers, or with `numbers_first` over
// numbers and a tensor.
Status MakeRescaling(Operation operation, bool numbers_first,
                     std::vector<float> numbers, const std::string& path,
                     Layer* layer) {
  if (operation == Operation::kDivide && numbers_first) {
    return InvalidArgument(
        "%s: a number divided by a tensor is not supported; no layer has 1 / "
        "x: compute it in the data, or write a CustomLayer in C++",
        path.c_str());
  }
  for (float& number : numbers) {
    if (operation == Operation::kSubtract && !numbers_first) number = -number;
    if (operation != Operation::kDivide) continue;
    if (number == 0) {
      return InvalidArgument("%s: divides by 0", path.c_str());
    }
    number = 1 / number;
  }
  if (operation == Operation::kMultiply || operation == Operation::kDivide) {
    *layer = Rescaling(numbers, {0});
  } else {
    const bool negated = operation == Operation::kSubtract && numbers_first;
    *layer = Rescaling({negated ? -1.0f : 1.0f}, numbers);
  }
  return Status();
}

// Makes the layer over a tensor twice, for its square.
Status MakeSquare(bool numbers_first, const std::vector<float>& numbers,
                  const std::string& path, Layer* layer) {
  if (numbers_first || numbers.size() != 1 || numbers[0] != 2) {
    return InvalidArgument(
        "%s: is not x ** 2, the only power that is read; for x ** 3 call the "
        "layer Multiply with [x, x, x]; for others write a CustomLayer in C++",
        path.c_str());
  }
  *layer = Multiply();
  return Status();
}

Status MakeLayer(Operation operation,
                 const std::vector<CallReference>& operands,
                 const std::string& path, Layer* layer) {
  std::vector<const CallReference*> numbers;
  for (const CallReference& operand : operands) {
    if (IsNumbers(operand)) numbers.push_back(&operand);
  }
  if (operation == Operation::kNone && !numbers.empty()) {
    return InvalidArgument(
        "%s: a number as an input; only Add, Subtract, Multiply and Divide "
        "take one",
        path.c_str());
  }
  if (operation == Operation::kNegate && numbers.empty() &&
      operands.size() == 1) {
    *layer = Rescaling(-1);
    return Status();
  }
  if (operation == Operation::kNegate || operands.size() != 2 ||
      numbers.size() == 2) {
    return InvalidArgument("%s: must have %s", path.c_str(),
                           operation == Operation::kNegate
                               ? "one tensor"
                               : "a tensor and a number, or two tensors");
  }
  if (numbers.empty()) return MakeMerge(operation, path, layer);
  const bool numbers_are_first = numbers[0] == &operands[0];
  if (operation == Operation::kPower) {
    return MakeSquare(numbers_are_first, numbers[0]->numbers, path, layer);
  }
  return MakeRescaling(operation, numbers_are_first, numbers[0]->numbers, path,
                       layer);
}

bool HasNumbers(const std::vector<CallReference>& call) {
  return std::any_of(call.begin(), call.end(), IsNumbers);
}

void RemoveNumbers(std::vector<CallReference>* call, LayerEntry* entry) {
  for (const CallReference& input : *call) {
    entry->rank = std::max(entry->rank, input.rank);
  }
  call->erase(std::remove_if(call->begin(), call->end(), IsNumbers),
              call->end());
}

bool SameLayer(const Layer& a, const Layer& b) {
  return a.kind == b.kind && a.scales == b.scales && a.offsets == b.offsets;
}

// Any is known over the last axis, which makes the mask of a Masking.
void ReadAny(FieldReader* fields) {
  fields->OnlyBool("keepdims", false);
  const Json json = fields->Take("axis", "-1");
  const Json axis = json.is_array() ? json.first() : json;
  int64_t number = 0;
  if (!axis.ToInt64(&number) || number != -1) fields->MustBe("axis", "-1");
}

}  // namespace

bool IsOperation(const KerasObject& object) {
  const std::vector<std::string> names = NameTable(kOperations).All();
  return object.name == kFunctionClass ||
         std::find(names.begin(), names.end(), object.name) != names.end();
}

Status ReadOperation(const KerasObject& object, FieldReader* fields,
                     LayerEntry* entry) {
  entry->layer.kind = Kind::kRescaling;  // FinishOperation makes the layer
  if (object.name != kFunctionClass) {
    RINGLET_RETURN_IF_ERROR(Choose(kOperations, object.path, "operation",
                                   object.name, &entry->operation));
  } else {
    std::string function;
    fields->Require("function");
    fields->String("function", &function);
    if (!function.empty()) {
      fields->Fail(Choose(kFunctions, fields->PathOf("function"), "function",
                          function, &entry->operation));
    }
  }
  if (entry->operation == Operation::kAny) ReadAny(fields);
  std::optional<bool> trainable;
  fields->Bool("trainable", &trainable);
  entry->has_dtype = ReadDType(fields, &entry->layer.dtype);
  return fields->Finish();
}

bool ReadConstant(const Json& json, CallReference* constant) {
  Json value = WithoutWrapping(json);
  constant->rank = value.is_array() ? 1 : 0;
  for (; value.is_array() && value.size() == 1 && value.first().is_array();
       value = value.first()) {
    ++constant->rank;
  }
  std::vector<float> numbers;
  for (Json m = value.is_array() ? value.first() : value; m; m = m.next()) {
    if (!m.is_number() || !(std::fabs(m.number()) <= FLT_MAX)) return false;
    numbers.push_back(static_cast<float>(m.number()));
    if (!value.is_array()) break;
  }
  constant->numbers = numbers;
  return !numbers.empty();
}

Status FinishOperation(LayerEntry* entry) {
  if (MakesMask(entry->operation)) return Status();
  const Operation operation = OperationOf(*entry);
  std::optional<Layer> common_layer;
  for (size_t i = 0; i < entry->calls.size(); ++i) {
    std::vector<CallReference>& call = entry->calls[i];
    if (entry->operation == Operation::kNone && !HasNumbers(call)) continue;
    const std::string path = JoinPath(JoinPath(entry->path, "inbound_nodes"),
                                      static_cast<int64_t>(i));
    Layer layer;
    RINGLET_RETURN_IF_ERROR(MakeLayer(operation, call, path, &layer));
    if (i > 0 && (!common_layer || !SameLayer(layer, *common_layer))) {
      return InvalidArgument(
          "%s: a call with other numbers; each needs a layer of its own",
          path.c_str());
    }
    common_layer = layer;
    const bool square = operation == Operation::kPower;
    RemoveNumbers(&call, entry);
    if (square) call.push_back(call.front());
  }
  if (!common_layer) return Status();
  common_layer->name = entry->layer.name;
  common_layer->trainable = entry->layer.trainable;
  common_layer->dtype = entry->layer.dtype;
  entry->layer = *common_layer;
  return Status();
}

}  // namespace ringlet
