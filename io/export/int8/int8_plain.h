// PlainModel: a model with only the layers that int8 has functions for.

#ifndef RINGLET_IO_EXPORT_INT8_INT8_PLAIN_H_
#define RINGLET_IO_EXPORT_INT8_INT8_PLAIN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../../../core/layers/op.h"
#include "ringlet/model.h"

namespace ringlet {

// Activations are separate layers, and convolutions have a bias. A
// BatchNormalization is part of the convolution before it, or becomes a
// depthwise one. Merging layers have two inputs. A Rescaling has one factor >
// 0, and changes only the meaning of numbers.
struct PlainModel {
  // x factor + shift, by channel; x if empty. This is a normalization of an
  // input, which only it reads.
  struct InputScale {
    std::vector<float> factors, shifts;
  };
  // A layer of sound that alone reads an input. It stays in float, and the
  // input of the plain model has its output.
  struct FrontEnd {
    Layer layer;
    Shape samples;
    std::shared_ptr<const Op> op;
  };
  struct Output {
    int node;
    Activation end = kLinear;  // an omitted softmax or log_softmax
  };
  Functional model;        // compiled; its first nodes are the inputs
  std::vector<int> nodes;  // the nodes of the plain model's outputs, in order
  std::vector<InputScale> inputs;
  std::map<int, FrontEnd> front_ends;  // keys: the inputs
  std::vector<Output> outputs;
};

// The plain model of the layers up to the primitive `end` of the lowered model,
// or of the whole model for -1. kInvalidArgument names a layer that cannot
// become such a primitive.
Status MakePlain(Model* model, int end, PlainModel* plain);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_INT8_PLAIN_H_
