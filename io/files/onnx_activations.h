// The activations of ONNX's operators RNN, LSTM and GRU, with the Keras
// activations of the same formulas.

#ifndef RINGLET_IO_FILES_ONNX_ACTIVATIONS_H_
#define RINGLET_IO_FILES_ONNX_ACTIVATIONS_H_

#include "ringlet/layers.h"

namespace ringlet {

// An ONNX function is this activation if its alpha and beta equal `numbers`. A
// node without alpha and beta has `defaults`. An export writes the first row of
// an activation.
struct OnnxActivation {
  Activation activation;
  const char* name;
  int count;  // 1 with an alpha, 2 with a beta too
  float defaults[2], numbers[2];
  bool exported = true;
};

constexpr OnnxActivation kOnnxActivations[] = {
    {kTanh, "Tanh", 0, {0, 0}, {0, 0}},
    {kSigmoid, "Sigmoid", 0, {0, 0}, {0, 0}},
    {kRelu, "Relu", 0, {0, 0}, {0, 0}},
    {kSoftsign, "Softsign", 0, {0, 0}, {0, 0}},
    {kSoftplus, "Softplus", 0, {0, 0}, {0, 0}},
    {kLinear, "Affine", 2, {1, 0}, {1, 0}},
    {kHardSigmoid, "HardSigmoid", 2, {0.2f, 0.5f}, {1.0f / 6, 0.5f}},
    {kHardSigmoidKeras2, "HardSigmoid", 2, {0.2f, 0.5f}, {0.2f, 0.5f}},
    {kElu, "Elu", 1, {1, 0}, {1, 0}, /*exported=*/false},
    {kLeakyRelu, "LeakyRelu", 1, {0.01f, 0}, {0.2f, 0}, /*exported=*/false},
    {kRelu, "ThresholdedRelu", 1, {1, 0}, {-1, 0}},
    {kTanh, "ScaledTanh", 2, {1, 1}, {1, 1}},
};

// The end of the name of an LSTM's kernel that has an input for the mask.
constexpr char kKernelWithMask[] = "/W_and_mask";

}  // namespace ringlet

#endif  // RINGLET_IO_FILES_ONNX_ACTIVATIONS_H_
