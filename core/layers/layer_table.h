// The table of layers: one row for each class of layer, with all facts about it
// except its mathematics.
//
// To add a layer, add its Kind to layer_kind.h, its members and factory to
// ringlet/layers.h, its Op and OpMaker to a .cc of a subfolder, its fields to
// layer_fields.h and its row to layer_table.cc, with its MaskRule. To export
// it, add its primitives to io/export/lowering.cc.
//
// JSON in both directions, docs/reference.md, the fingerprint that ranks
// compare, the description in a backup and the check of setters follow from the
// row.

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
#include "layer_kind.h"
#include "layer_settings.h"
#include "ringlet/layers.h"
#include "ringlet/status.h"

namespace ringlet {

class Op;

// The largest size that a layer may be given or take along an axis, such as
// units, lora_rank or a height.
constexpr int64_t kMaxLayerSize = int64_t{1} << 31;

// Fields of Keras for which only one value is accepted.
struct OnlyNull {};
struct OnlyNumber {
  int64_t value;
  bool pair = false;  // written as [value, value]
};
struct OnlyText {
  const char* value;
  bool or_null = true;  // null means this value too
};
struct OnlyFalse {};
struct AnyValue {};  // ignored
struct LastAxis {};  // "axis": -1, or the index of the last axis

// The forms of a FloatRange in JSON.
enum class RangeForm : uint8_t {
  kSymmetric,  // a number n, which is [-n, n], or [lower, upper] in any order
  kPair,       // two numbers in any order
  // A number n, which is [n, n], or [lower, upper]: how far a factor may be
  // below 1 and above 1. The upper may be any number >= 0.
  kMargins,
};

// One field of a layer's configuration.
struct LayerField {
  // The member of Layer that holds the field, or the only accepted value. The
  // type of the member decides the values:
  //   int64_t     a whole number from 1
  //   int64_t[2]  one or two of these
  //   int64_t[4]  borders, from 0
  //   uint64_t    a seed
  //   vector      one number or a list (int64_t: axes)
  //   FloatRange  as its RangeForm
  //   shared_ptr  a layer
  using Value = std::variant<
      int64_t Layer::*, int64_t (Layer::*)[2], int64_t (Layer::*)[4],
      uint64_t Layer::*, float Layer::*, bool Layer::*, PaddingMode Layer::*,
      Activation Layer::*, Initializer Layer::*, Regularizer Layer::*,
      Constraint Layer::*, Shape Layer::*, std::vector<float> Layer::*,
      std::vector<int64_t> Layer::*, std::shared_ptr<const Layer> Layer::*,
      MergeMode Layer::*, FloatRange Layer::*, FlipMode Layer::*,
      FillMode Layer::*, Interpolation Layer::*, SpectrogramMode Layer::*,
      WindowFunction Layer::*, WindowScaling Layer::*, OnlyNull, OnlyNumber,
      OnlyText, OnlyFalse, AnyValue, LastAxis>;

  constexpr LayerField(const char* field_name, Value field_value)
      : name(field_name), value(field_value) {}

  // A copy with another value of a member, for the setters. clang needs it
  // before them, to compute the tables when it compiles.
  template <typename T>
  constexpr LayerField WithMember(T LayerField::*member, T set) const {
    LayerField field = *this;
    field.*member = set;
    return field;
  }

  // Setters. Each returns a copy, so that a row reads as a list of properties.
  constexpr LayerField Required() const {
    return WithMember(&LayerField::required, true);
  }
  // For a pair: if the field is null or missing, the value is the window's
  // size.
  constexpr LayerField OrWindow() const {
    return WithMember(&LayerField::or_window, true);
  }
  // A whole number that descriptions omit if it is 1.
  constexpr LayerField UnlessOne() const {
    return WithMember(&LayerField::unless_one, true);
  }
  // A padding that may also be "causal".
  constexpr LayerField OrCausal() const {
    return WithMember(&LayerField::or_causal, true);
  }
  // A pair that a layer with one axis writes as one number.
  constexpr LayerField AsNumber() const {
    return WithMember(&LayerField::as_number, true);
  }
  // A shape with at most one size of -1.
  constexpr LayerField AllowsOneUnknownSize() const {
    return WithMember(&LayerField::allows_one_unknown_size, true);
  }
  // For a shape: the first size is the batch size, and must be null. Other
  // sizes may be null.
  constexpr LayerField WithBatch() const {
    return WithMember(&LayerField::with_batch, true);
  }
  // The field's name in Keras 2.
  constexpr LayerField Keras2Name(const char* other) const {
    return WithMember(&LayerField::keras2_name, other);
  }
  // For a float: null means infinity, and descriptions omit it. For a list, a
  // shape or a FloatRange: null means none. For a bool: null means false. For a
  // pair: null means -1, descriptions omit it, and its numbers begin at 0.
  constexpr LayerField OrNull() const {
    return WithMember(&LayerField::or_null, true);
  }
  // A float that descriptions omit if it is 0.
  constexpr LayerField UnlessZero() const {
    return WithMember(&LayerField::unless_zero, true);
  }
  // Sets the form of a FloatRange.
  constexpr LayerField Form(RangeForm range_form) const {
    return WithMember(&LayerField::form, range_form);
  }
  // The field is read, and not written.
  constexpr LayerField Unwritten() const {
    return WithMember(&LayerField::written, false);
  }
  // With OrZero: 0 is not written. For a bool: false is not written, and
  // comparisons name the field if it is true.
  constexpr LayerField WrittenIfSet() const {
    return WithMember(&LayerField::written_if_set, true);
  }
  constexpr LayerField InRange(const Interval& interval) const {
    return WithMember(&LayerField::range, interval);
  }
  // A whole number for which null means 0.
  constexpr LayerField OrZero() const {
    return WithMember(&LayerField::or_zero, true);
  }
  // An argument of Keras's call: it is in the inbound node, not in the config.
  constexpr LayerField InCall() const {
    return WithMember(&LayerField::in_call, true);
  }
  // The LayerSetting that the setter of this field records.
  constexpr LayerField SetBy(LayerSetting set) const {
    return WithMember(&LayerField::setting, set);
  }
  // The label in front of the value in the fingerprint. For a bool it is the
  // whole text if the value is false.
  constexpr LayerField Compared(const char* label) const {
    return WithMember(&LayerField::compared, label);
  }
  // The label in front of the value in a backup's description. The label is
  // part of the file's format. A model that continues from the backup must have
  // the same value.
  constexpr LayerField Saved(const char* label) const {
    return WithMember(&LayerField::saved, label);
  }

  const char* name;  // the name in Keras
  Value value;
  Interval range = kAnyNumber;  // the valid values of a float
  RangeForm form = RangeForm::kSymmetric;
  LayerSetting setting = kNoSetter;
  bool required = false;  // JSON must have it
  bool or_window = false;
  bool unless_one = false;
  bool or_causal = false;
  bool as_number = false;
  bool allows_one_unknown_size = false;
  bool with_batch = false;
  const char* keras2_name = nullptr;
  bool or_null = false;
  bool unless_zero = false;
  bool or_zero = false;
  bool in_call = false;
  bool written = true;
  bool written_if_set = false;
  const char* compared = nullptr;  // null if not in the fingerprint
  const char* saved = nullptr;
};

// The value as text: "3x3", "same", "0.5", "l1 0 l2 1e-05", "relu". Empty for a
// value without effect (linear, true, no regularizer), for an initializer, and
// for a field with one value only.
std::string ValueText(const LayerField& field, const Layer& layer);
// Returns the text of the values that a field of type FloatRange takes: "a
// number in [-1, 1], or [lower, upper]".
std::string TakenRanges(const LayerField& field);
bool Takes(const LayerField& field, const FloatRange& range);
// Returns an error for a number that a field of the layer does not take.
Status CheckNumbers(const Layer& layer);

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

// Makes the op of a layer for inputs of these shapes, or returns an error if
// the layer does not take them. The caller has compared their number with the
// row.
using OpMaker = Status(const Layer&, const std::vector<Shape>& inputs,
                       std::unique_ptr<Op>*);

// The inputs: none, one, a list of two or more, one or more; query, value and
// perhaps key, each an argument of its own; one, and perhaps its initial
// states.
enum class LayerInputs : uint8_t { kNone, kOne, kList, kAny, kQuery, kStates };

// How a layer treats the mask of its input (core/graph/graph_masks.cc).
enum class MaskRule : uint8_t {
  kLoses,
  kPasses,   // the mask of its input, or the mask of all inputs
  kTakes,    // the layer leaves out masked steps
  kAttends,  // it takes the masks of query, value and key, and passes the first
  kRefuses,
};

struct LayerClass {
  const char* name;     // Keras's class name, which is written
  const char* aliases;  // other names, separated by spaces
  Layer::Kind kind;
  // Makes a layer with Keras's defaults. Null if the layer has no JSON.
  Layer (*make)();
  LayerInputs inputs;
  MaskRule mask;
  OpMaker* make_op;  // null for an Input, which has no op
  // The fields in the order of writing, without the fields that all layers
  // have.
  LayerFields fields = {};
  // The output has the shape and the order of elements of the inputs. So if the
  // inputs have the order of an image that PyTorch flattened, the output has it
  // too, and the next weights are read in this order.
  bool keeps_layout = false;
  // The number of axes besides the channels: 2 for images of (height, width,
  // channels), 1 for (steps, channels), 0 if any shape is accepted. A layer
  // with one axis uses the second number of a pair, and writes it as a list of
  // one.
  int axes = 0;
};

// All rows. If a kind has several rows, models are written with the first of
// them.
struct LayerTable {
  const LayerClass* begin() const { return first; }
  const LayerClass* end() const { return first + count; }
  const LayerClass& operator[](size_t i) const { return first[i]; }
  const LayerClass* first;
  size_t count;
};
LayerTable AllLayers();
// True for a layer with its activations in a loop over steps.
constexpr bool IsRecurrent(Layer::Kind kind) {
  return kind == Layer::Kind::kSimpleRNN || kind == Layer::Kind::kLSTM ||
         kind == Layer::Kind::kGRU;
}
// The layer that a TimeDistributed applies, or the layer itself.
inline const Layer& StepLayer(const Layer& layer) {
  return layer.kind == Layer::Kind::kTimeDistributed ? *layer.layer : layer;
}
// True if the layer, or one that it applies, has the policy mixed_bfloat16.
inline bool IsMixed(const Layer& layer) {
  return layer.dtype == DTypePolicy::kMixedBFloat16 ||
         (layer.layer != nullptr && IsMixed(*layer.layer));
}
// The samples of a second of a layer's sound. Zero allows any number.
inline int64_t SamplingRateOf(const Layer& layer) {
  const Layer& step = StepLayer(layer);
  const bool is_of_sound = step.kind == Layer::Kind::kMelSpectrogram ||
                           step.kind == Layer::Kind::kMFCC;
  return is_of_sound ? step.sampling_rate : 0;
}
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
