#include "layer_table.h"

#include <array>
#include <charconv>
#include <utility>

#include "../base/check.h"
#include "custom_layer.h"

namespace ringlet {

// Each beside its mathematics.
OpMaker MakeActivation, MakeConv2D, MakeCustom, MakeDense, MakeDropout,
    MakeGlobalAveragePooling2D, MakeMerge, MakePooling2D, MakeReshape;

namespace {

template <size_t n, size_t m, size_t... i, size_t... j>
constexpr auto JoinAt(const std::array<LayerField, n>& a,
                      const std::array<LayerField, m>& b,
                      std::index_sequence<i...>, std::index_sequence<j...>) {
  return std::array{a[i]..., b[j]...};
}
template <size_t n, size_t m>
constexpr auto Join(const std::array<LayerField, n>& a,
                    const std::array<LayerField, m>& b) {
  return JoinAt(a, b, std::make_index_sequence<n>(),
                std::make_index_sequence<m>());
}

// --- fields that several layers have ----------------------------------------

constexpr LayerField kStrides = LayerField("strides", &Layer::strides)
                                    .SetBy(Layer::kSetStrides)
                                    .Compared("strides")
                                    .Saved("by");
constexpr LayerField kPadding = LayerField("padding", &Layer::padding)
                                    .SetBy(Layer::kSetPadding)
                                    .Compared("padding")
                                    .Saved("");
constexpr LayerField kActivation = LayerField("activation", &Layer::activation)
                                       .Compared("activation")
                                       .Saved("");
constexpr LayerField kUseBias = LayerField("use_bias", &Layer::use_bias)
                                    .SetBy(Layer::kSetUseBias)
                                    .Compared("without bias");
constexpr LayerField kKernelInitializer =
    LayerField("kernel_initializer", &Layer::kernel_initializer)
        .SetBy(Layer::kSetKernelInitializer);
constexpr LayerField kBiasInitializer =
    LayerField("bias_initializer", &Layer::bias_initializer)
        .SetBy(Layer::kSetBiasInitializer);
constexpr LayerField kKernelRegularizer =
    LayerField("kernel_regularizer", &Layer::kernel_regularizer)
        .SetBy(Layer::kSetKernelRegularizer)
        .Compared("kernel_regularizer");
constexpr LayerField kBiasRegularizer =
    LayerField("bias_regularizer", &Layer::bias_regularizer)
        .SetBy(Layer::kSetBiasRegularizer)
        .Compared("bias_regularizer");
constexpr LayerField kKernelConstraint("kernel_constraint", OnlyNull());
constexpr LayerField kBiasConstraint("bias_constraint", OnlyNull());
constexpr LayerField kLoraRank =
    LayerField("lora_rank", OnlyNull()).Unwritten();
constexpr LayerField kLoraAlpha =
    LayerField("lora_alpha", OnlyNull()).Unwritten();
constexpr LayerField kQuantizationMode =
    LayerField("quantization_mode", OnlyNull()).Unwritten();
constexpr LayerField kQuantizationConfig =
    LayerField("quantization_config", OnlyNull()).Unwritten();
constexpr LayerField kChannelsLast("data_format", OnlyText{"channels_last"});
constexpr LayerField kLastAxis("axis", LastAxis());

// --- fields of each layer ---------------------------------------------------

constexpr LayerField kReshapeFields[] = {
    LayerField("target_shape", &Layer::shape).Required().Saved(""),
};
constexpr LayerField kFlattenFields[] = {kChannelsLast};
// Of a product of inputs and a kernel.
constexpr std::array kWeightedFields = {
    kActivation,       kUseBias,           kKernelInitializer,
    kBiasInitializer,  kKernelRegularizer, kBiasRegularizer,
    kKernelConstraint, kBiasConstraint,    kLoraRank,
    kLoraAlpha,        kQuantizationMode,  kQuantizationConfig,
};
constexpr auto kDenseFields = Join(
    std::array{LayerField("units", &Layer::units).Required()}, kWeightedFields);
constexpr std::array kOwnConv2DFields = {
    LayerField("filters", &Layer::units).Required(),
    LayerField("kernel_size", &Layer::window)
        .Required()
        .Compared("window")
        .Saved(""),
    kStrides,
    kPadding,
    kChannelsLast,
    LayerField("dilation_rate", OnlyNumber{1, /*pair=*/true}),
    LayerField("groups", OnlyNumber{1}),
};
// All layers take activity_regularizer; of this one Keras writes it.
constexpr auto kConv2DFields =
    Join(Join(kOwnConv2DFields, kWeightedFields),
         std::array{LayerField("activity_regularizer", OnlyNull())});
constexpr LayerField kActivationFields[] = {kActivation.Required()};
constexpr LayerField kReLUFields[] = {
    LayerField("max_value", OnlyNull()),
    LayerField("negative_slope", OnlyNumber{0}),
    LayerField("threshold", OnlyNumber{0}),
};
constexpr LayerField kSoftmaxFields[] = {kLastAxis};
constexpr LayerField kPooling2DFields[] = {
    LayerField("pool_size", &Layer::window).Compared("window").Saved(""),
    kStrides.OrWindow(),
    kPadding,
    kChannelsLast,
};
constexpr LayerField kGlobalPooling2DFields[] = {
    kChannelsLast,
    LayerField("keepdims", &Layer::keepdims).SetBy(Layer::kSetKeepDims),
};
constexpr LayerField kDropoutFields[] = {
    LayerField("rate", &Layer::rate)
        .Required()
        .In(kShareBelow1)
        .Compared("rate"),
    LayerField("seed", &Layer::seed).SetBy(Layer::kSetSeed).Compared("seed"),
    LayerField("noise_shape", OnlyNull()),
};
constexpr LayerField kConcatenateFields[] = {kLastAxis};

// --- the table --------------------------------------------------------------

using Kind = Layer::Kind;
constexpr LayerInputs kNone = LayerInputs::kNone, kOne = LayerInputs::kOne,
                      kList = LayerInputs::kList, kAny = LayerInputs::kAny;
constexpr bool kElementwise = true;

constexpr LayerClass kLayers[] = {
    {"InputLayer", "", Kind::kInput, [] { return Input({}); }, kNone, nullptr},
    {"Reshape", "", Kind::kReshape, [] { return Reshape({}); }, kOne,
     MakeReshape, kReshapeFields},
    {"Flatten", "", Kind::kFlatten, Flatten, kOne, MakeReshape, kFlattenFields},
    {"Dense", "", Kind::kDense, [] { return Dense(1); }, kOne, MakeDense,
     kDenseFields},
    {"Conv2D", "Convolution2D", Kind::kConv2D, [] { return Conv2D(1, 1); },
     kOne, MakeConv2D, kConv2DFields},
    {"Activation", "", Kind::kActivation,
     [] { return ActivationLayer(kLinear); }, kOne, MakeActivation,
     kActivationFields, kElementwise},
    {"ReLU", "", Kind::kActivation, ReLU, kOne, MakeActivation, kReLUFields,
     kElementwise},
    {"Softmax", "", Kind::kActivation, Softmax, kOne, MakeActivation,
     kSoftmaxFields, kElementwise},
    {"MaxPooling2D", "MaxPool2D", Kind::kMaxPooling2D,
     [] { return MaxPooling2D(); }, kOne, MakePooling2D, kPooling2DFields},
    {"AveragePooling2D", "AvgPool2D", Kind::kAveragePooling2D,
     [] { return AveragePooling2D(); }, kOne, MakePooling2D, kPooling2DFields},
    {"GlobalAveragePooling2D", "GlobalAvgPool2D", Kind::kGlobalAveragePooling2D,
     GlobalAveragePooling2D, kOne, MakeGlobalAveragePooling2D,
     kGlobalPooling2DFields},
    {"Dropout", "", Kind::kDropout, [] { return Dropout(0); }, kOne,
     MakeDropout, kDropoutFields, kElementwise},
    {"Add", "", Kind::kAdd, Add, kList, MakeMerge, {}, kElementwise},
    {"Concatenate", "", Kind::kConcatenate, Concatenate, kList, MakeMerge,
     kConcatenateFields},
    {"CustomLayer", "", Kind::kCustom, nullptr, kAny, MakeCustom},
};

// --- values as text ---------------------------------------------------------

struct Text {
  const Layer& layer;

  std::string operator()(int64_t Layer::*member) const {
    return std::to_string(layer.*member);
  }
  std::string operator()(uint64_t Layer::*member) const {
    return std::to_string(layer.*member);
  }
  std::string operator()(int64_t (Layer::*member)[2]) const {
    return std::to_string((layer.*member)[0]) + "x" +
           std::to_string((layer.*member)[1]);
  }
  std::string operator()(float Layer::*member) const {
    return FloatText(layer.*member);
  }
  std::string operator()(bool Layer::*member) const {
    return layer.*member ? "" : "false";
  }
  std::string operator()(PaddingMode Layer::*member) const {
    return layer.*member == kSame ? "same" : "valid";
  }
  std::string operator()(Activation Layer::*member) const {
    return layer.*member == ringlet::kLinear ? ""
                                             : ActivationName(layer.*member);
  }
  std::string operator()(Regularizer Layer::*member) const {
    const Regularizer& r = layer.*member;
    return r.empty() ? "" : "l1 " + FloatText(r.l1) + " l2 " + FloatText(r.l2);
  }
  std::string operator()(Shape Layer::*member) const {
    return (layer.*member).ToString();
  }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::string FloatText(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

std::string ValueText(const LayerField& field, const Layer& layer) {
  return std::visit(Text{layer}, field.value);
}

LayerTable AllLayers() {
  return {kLayers, sizeof(kLayers) / sizeof(kLayers[0])};
}

const LayerClass& ClassOf(const Layer& layer) {
  for (const LayerClass& row : kLayers) {
    if (row.kind == layer.kind) return row;
  }
  RINGLET_CHECK(false);  // every Kind has a row
  return kLayers[0];
}

const char* ActivationName(Activation activation) {
  for (const NamedActivation& row : kActivations) {
    if (row.value == activation) return row.name;
  }
  return "unknown";
}

const char* ClassName(const Layer& layer) {
  return layer.custom != nullptr ? layer.custom->class_name()
                                 : ClassOf(layer).name;
}

}  // namespace ringlet
