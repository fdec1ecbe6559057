// The table of layers: one row for each class of layer, all that is known of it
// apart from its mathematics.
//
// Internal to core/ and io/. To add a layer: its Kind and the members it needs
// in layer.h, its factory in layers.h; its Op and the maker of it in a .cc of
// this folder; its fields in layer_fields.h and its row in layer_table.cc. JSON
// in both directions, docs/reference.md, the fingerprint that ranks compare,
// the description in a backup and the check of setters all follow from the row.

#ifndef RINGLET_CORE_LAYERS_LAYER_TABLE_H_
#define RINGLET_CORE_LAYERS_LAYER_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "../base/interval.h"
#include "../base/status.h"
#include "layers.h"

namespace ringlet {

class Op;

// Fields of Keras that have one value only here; other values are refused.
struct OnlyNull {};
struct OnlyNumber {
  int64_t value;
  bool pair = false;  // written as [value, value]
};
struct OnlyText {
  const char* value;
};
struct OnlyFalse {};
struct AnyValue {};  // without a meaning here
struct LastAxis {};  // "axis": -1, or the number of the last

// One field of a layer's configuration.
struct LayerField {
  // The member of Layer that holds it, whose type says what the field takes:
  // int64_t a whole number from 1, int64_t[2] one or two of them, int64_t[4]
  // borders, from 0, uint64_t a seed, a vector one number or a list of them (of
  // int64_t: axes). Or the one value that it may have.
  using Value =
      std::variant<int64_t Layer::*, int64_t (Layer::*)[2],
                   int64_t (Layer::*)[4], uint64_t Layer::*, float Layer::*,
                   bool Layer::*, PaddingMode Layer::*, Activation Layer::*,
                   Initializer Layer::*, Regularizer Layer::*, Shape Layer::*,
                   std::vector<float> Layer::*, std::vector<int64_t> Layer::*,
                   OnlyNull, OnlyNumber, OnlyText, OnlyFalse, AnyValue,
                   LastAxis>;

  constexpr LayerField(const char* field_name, Value field_value)
      : name(field_name), value(field_value) {}

  // Setters, each on a copy, so that a row reads as a sentence.
  constexpr LayerField Required() const {
    LayerField field = *this;
    field.required = true;
    return field;
  }
  // Of a pair: null, or nothing, stands for the window's size.
  constexpr LayerField OrWindow() const {
    LayerField field = *this;
    field.or_window = true;
    return field;
  }
  // Of whole numbers: 1 is not spoken of in descriptions.
  constexpr LayerField UnlessOne() const {
    LayerField field = *this;
    field.unless_one = true;
    return field;
  }
  // Of padding: "causal" too.
  constexpr LayerField OrCausal() const {
    LayerField field = *this;
    field.or_causal = true;
    return field;
  }
  // Of a pair: written as one number where the layer has one axis.
  constexpr LayerField AsNumber() const {
    LayerField field = *this;
    field.as_number = true;
    return field;
  }
  // Of a shape: one size may be -1.
  constexpr LayerField OneOpen() const {
    LayerField field = *this;
    field.one_open = true;
    return field;
  }
  // Keras 2's name of it.
  constexpr LayerField Formerly(const char* other) const {
    LayerField field = *this;
    field.former = other;
    return field;
  }
  // Of a float: null stands for infinity, of which descriptions say nothing.
  // Of axes: for none.
  constexpr LayerField OrNull() const {
    LayerField field = *this;
    field.or_null = true;
    return field;
  }
  // Of a float: 0 is not spoken of in descriptions.
  constexpr LayerField UnlessZero() const {
    LayerField field = *this;
    field.unless_zero = true;
    return field;
  }
  // Read and not written.
  constexpr LayerField Unwritten() const {
    LayerField field = *this;
    field.written = false;
    return field;
  }
  constexpr LayerField In(const Interval& interval) const {
    LayerField field = *this;
    field.range = interval;
    return field;
  }
  // Layer::Setting, which the setter of this field notes.
  constexpr LayerField SetBy(uint64_t bit) const {
    LayerField field = *this;
    field.setting = bit;
    return field;
  }
  // What precedes the value in the fingerprint; of a bool, all that is said
  // where it is false.
  constexpr LayerField Compared(const char* label) const {
    LayerField field = *this;
    field.compared = label;
    return field;
  }
  // What precedes the value in the description that a backup keeps, and which
  // the model that goes on from it must have too. Part of the file's format.
  constexpr LayerField Saved(const char* label) const {
    LayerField field = *this;
    field.saved = label;
    return field;
  }

  const char* name;  // Keras's
  Value value;
  Interval range = kAnyNumber;  // of a float
  uint64_t setting = 0;
  bool required = false;  // in JSON
  bool or_window = false;
  bool unless_one = false;
  bool or_causal = false;
  bool as_number = false;
  bool one_open = false;
  const char* former = nullptr;
  bool or_null = false;
  bool unless_zero = false;
  bool written = true;
  const char* compared = nullptr;  // null: left out
  const char* saved = nullptr;
};

// What a field says: "3x3", "same", "0.5", "l1 0 l2 1e-05", "relu". "" of a
// value that leaves things as they are (linear, true, no regularizer), of an
// initializer, and of a field with one value only.
std::string ValueText(const LayerField& field, const Layer& layer);
const char* PaddingName(PaddingMode padding);  // "valid"

struct LayerFields {
  template <size_t n>
  constexpr LayerFields(const LayerField (&fields)[n])  // NOLINT: implicit
      : first(fields), count(n) {}
  template <size_t n>
  constexpr LayerFields(const std::array<LayerField, n>& fields)  // NOLINT
      : first(fields.data()), count(n) {}
  constexpr LayerFields() = default;
  const LayerField* begin() const { return first; }
  const LayerField* end() const { return first + count; }
  const LayerField* first = nullptr;
  size_t count = 0;
};

// Shape rule and op of a layer over inputs of these shapes, whose number fits
// the row.
using OpMaker = Status(const Layer&, const std::vector<Shape>& inputs,
                       std::unique_ptr<Op>*);

// How many inputs: none, one, a list of two or more, one or more.
enum class LayerInputs : uint8_t { kNone, kOne, kList, kAny };

struct LayerClass {
  const char* name;     // Keras's class name, which is written
  const char* aliases;  // other names of it, with a blank between two
  Layer::Kind kind;
  // With the defaults of Keras. Null: it has no configuration as JSON.
  Layer (*make)();
  LayerInputs inputs;
  OpMaker* make_op;  // null: an Input
  // As they are written. Fields that all layers have are not among them.
  LayerFields fields = {};
  // Element i of the output comes from element i of each input, so an order of
  // the elements that differs in PyTorch differs before and behind it alike.
  bool elementwise = false;
  // Of the images that it works on: 2 (height, width, channels), 1 (steps,
  // channels), 0 where any shape will do. Of a layer with one axis a pair of
  // numbers is its second, and written as a list of one.
  int axes = 0;
};

// All rows. Of rows of one kind the first is the one that is written.
struct LayerTable {
  const LayerClass* begin() const { return first; }
  const LayerClass* end() const { return first + count; }
  const LayerClass& operator[](size_t i) const { return first[i]; }
  const LayerClass* first;
  size_t count;
};
LayerTable AllLayers();
const LayerClass& ClassOf(const Layer& layer);

struct NamedActivation {
  const char* name;
  const char* aliases;
  Activation value;
};
constexpr NamedActivation kActivations[] = {
    {"linear", "", kLinear},
    {"relu", "", kRelu},
    {"sigmoid", "", kSigmoid},
    {"tanh", "", kTanh},
    {"softmax", "", kSoftmax},
    {"relu6", "", kRelu6},
    {"elu", "", kElu},
    {"selu", "", kSelu},
    {"leaky_relu", "", kLeakyRelu},
    {"exponential", "", kExponential},
    {"hard_sigmoid", "", kHardSigmoid},
    {"softsign", "", kSoftsign},
    {"softplus", "", kSoftplus},
    {"log_softmax", "", kLogSoftmax},
    {"gelu", "", kGelu},
    {"silu", "swish", kSilu},
    {"hard_silu", "hard_swish", kHardSilu},
    {"mish", "", kMish},
    {"hard_sigmoid_keras2", "", kHardSigmoidKeras2},
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_LAYER_TABLE_H_
