// The networks that tools/bench.py measures beside PyTorch's: logits of
// classes, as Keras's layers make them, for each example, pixel or step.

#ifndef RINGLET_TESTS_SUPPORT_BENCH_NETWORKS_H_
#define RINGLET_TESTS_SUPPORT_BENCH_NETWORKS_H_

#include <cstdio>
#include <string>

#include "ringlet/ringlet.h"

namespace ringlet {

inline Shape BenchShape(const std::string& network) {
  if (network == "resnet8" || network == "unet") return {32, 32, 3};
  if (network == "ds_cnn") return {49, 10, 1};
  if (network == "mobilenet") return {96, 96, 3};
  if (network == "lstm" || network == "gru") return {100, 9};
  if (network == "embedding") return {100};
  if (network == "transformer") return {64};
  return {28, 28};
}

// One label for each of these.
inline Shape BenchLabels(const std::string& network) {
  if (network == "unet") return {32, 32};
  if (network == "transformer") return {64};
  return {};
}

// The inputs are whole numbers below this one, or images if it is 0.
inline int BenchNumbers(const std::string& network) {
  if (network == "embedding") return 10000;
  return network == "transformer" ? 128 : 0;
}

// A model that grows at its end.
class NetworkMaker {
 public:
  using Node = Functional::Node;

  explicit NetworkMaker(Functional* model) : model_(model) {}
  void Append(const Layer& layer) { at_ = Add(layer, at_); }
  Node Add(const Layer& layer, Node x) { return model_->Add(layer, {x}); }
  Node NormalizedConv(Node x, int filters, int size, int strides) {
    x = Add(Conv2D(filters, size).Strides(strides).Padding(kSame), x);
    return Add(BatchNormalization(), x);
  }

  // A depthwise convolution and a pointwise one.
  void AppendSeparable(int filters, int strides) {
    Append(DepthwiseConv2D(3).Strides(strides).Padding(kSame));
    Append(BatchNormalization());
    Append(ReLU());
    at_ = Add(ReLU(), NormalizedConv(at_, filters, 1, 1));
  }

  void AppendLeNet5() {
    Append(Reshape({28, 28, 1}));
    Append(Conv2D(6, 5, kRelu).Padding(kSame));
    Append(MaxPooling2D(2));
    Append(Conv2D(16, 5, kRelu));
    Append(MaxPooling2D(2));
    Append(Flatten());
    Append(Dense(120, kRelu));
    Append(Dense(84, kRelu));
  }
  void AppendResNet8() {
    at_ = Add(ReLU(), NormalizedConv(at_, 16, 3, 1));
    for (const int filters : {16, 32, 64}) {
      const int strides = filters == 16 ? 1 : 2;
      Node y = Add(ReLU(), NormalizedConv(at_, filters, 3, strides));
      y = NormalizedConv(y, filters, 3, 1);
      if (strides > 1) {
        at_ = Add(Conv2D(filters, 1).Strides(strides).Padding(kSame), at_);
      }
      at_ = Add(ReLU(), model_->Add(ringlet::Add(), {at_, y}));
    }
    Append(AveragePooling2D(8));
    Append(Flatten());
  }
  void AppendDsCnn() {
    Append(Conv2D(64, 10, 4).Strides(2).Padding(kSame));
    Append(BatchNormalization());
    Append(ReLU());
    Append(Dropout(0.2f));
    for (int i = 0; i < 4; ++i) AppendSeparable(64, 1);
    Append(Dropout(0.4f));
    Append(AveragePooling2D(25, 5));
    Append(Flatten());
  }
  void AppendMobileNet() {
    at_ = Add(ReLU(), NormalizedConv(at_, 8, 3, 2));
    AppendSeparable(16, 1);
    for (const int filters : {32, 64, 128}) {
      AppendSeparable(filters, 2);
      AppendSeparable(filters, 1);
    }
    for (int i = 0; i < 4; ++i) AppendSeparable(128, 1);
    AppendSeparable(256, 2);
    AppendSeparable(256, 1);
    Append(AveragePooling2D(3));
    Append(Flatten());
  }
  Node TwoConvs(Node x, int filters) {
    for (int i = 0; i < 2; ++i) {
      x = Add(Conv2D(filters, 3, kRelu).Padding(kSame), x);
    }
    return x;
  }
  void AppendUNet() {
    const Node wide = TwoConvs(at_, 16);
    const Node middle = TwoConvs(Add(MaxPooling2D(2), wide), 32);
    at_ = TwoConvs(Add(MaxPooling2D(2), middle), 64);
    for (const Node across : {middle, wide}) {
      const int filters = across == wide ? 16 : 32;
      Append(Conv2DTranspose(filters, 2).Strides(2));
      at_ = TwoConvs(model_->Add(Concatenate(), {at_, across}), filters);
    }
  }
  // keras.io's block of a miniature GPT, without dropout.
  void AppendTransformerBlock() {
    const Layer attention = MultiHeadAttention(4, 16).UseCausalMask(true);
    Node y = model_->Add(attention, {at_, at_});
    at_ = model_->Add(ringlet::Add(), {at_, y});
    Append(LayerNormalization(1e-5f));
    y = Add(Dense(64), Add(Dense(512, kRelu), at_));
    at_ = model_->Add(ringlet::Add(), {at_, y});
    Append(LayerNormalization(1e-5f));
  }
  void AppendTransformer() {
    Append(Embedding(BenchNumbers("transformer"), 64));
    const Node positions = Add(PositionEmbedding(64), at_);
    at_ = model_->Add(ringlet::Add(), {at_, positions});
    for (int i = 0; i < 2; ++i) AppendTransformerBlock();
    Append(Dense(BenchNumbers("transformer")));
  }
  void AppendOtherThanImages(const std::string& network) {
    if (network == "lstm") {
      Append(LSTM(64));
    } else if (network == "gru") {
      Append(GRU(64));
    } else if (network == "embedding") {
      Append(Embedding(BenchNumbers("embedding"), 64));
      Append(GRU(64));
    } else if (network == "transformer") {
      return AppendTransformer();
    } else {
      AppendUNet();
    }
    Append(Dense(10));
  }
  void AppendDenseLayers(const std::string& network) {
    int width = 0, depth = 0;
    std::sscanf(network.c_str(), "dense_%d_%d", &width, &depth);
    Append(Flatten());
    for (int i = 0; i < depth; ++i) Append(Dense(width, kRelu));
    Append(Dense(10));
  }
  void Make(const std::string& network) {
    at_ = model_->Add(Input(BenchShape(network)));
    if (network.rfind("dense_", 0) == 0) return AppendDenseLayers(network);
    if (BenchShape(network).rank() < 2 || network == "lstm" ||
        network == "gru" || network == "unet") {
      return AppendOtherThanImages(network);
    }
    if (network == "lenet5") {
      AppendLeNet5();
    } else if (network == "resnet8") {
      AppendResNet8();
    } else if (network == "ds_cnn") {
      AppendDsCnn();
    } else if (network == "mobilenet") {
      AppendMobileNet();
    } else {
      if (network == "tutorial") {
        Append(Reshape({28, 28, 1}));
        Append(Conv2D(32, 3, kRelu));
      }
      Append(Flatten());
      Append(Dense(128, kRelu));
    }
    Append(Dense(10));
  }

 private:
  Functional* const model_;
  Node at_ = {};
};

// "lenet5", "resnet8", "ds_cnn", "mobilenet", "mlp", "tutorial", "lstm", "gru",
// "embedding", "unet", "transformer", or "dense_WIDTH_DEPTH".
inline Functional BenchNetwork(const std::string& network) {
  Functional model;
  NetworkMaker(&model).Make(network);
  return model;
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_BENCH_NETWORKS_H_
