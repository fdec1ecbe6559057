// PlainModel: a model with only the layers that int8 has functions for.

#ifndef RINGLET_IO_EXPORT_INT8_PLAIN_H_
#define RINGLET_IO_EXPORT_INT8_PLAIN_H_

#include <map>
#include <string>
#include <vector>

#include "ringlet/model.h"

namespace ringlet {

// Activations are separate layers, and convolutions have a bias. A
// BatchNormalization is part of the convolution before it, or becomes a
// depthwise one. Merging layers have two inputs. A Rescaling has one factor >
// 0, and changes only the meaning of numbers.
struct PlainModel {
  Functional model;        // compiled; its last node is the output
  std::vector<int> nodes;  // of the model's outputs, in order
  // Not empty: the model's input is x factor + shift, by channel. This is a
  // normalization of the input, which only it reads.
  std::vector<float> factors, shifts;
  Activation end = kLinear;  // an omitted softmax or log_softmax
};

// kInvalidArgument names a layer that cannot become one of these.
Status MakePlain(Model* model, PlainModel* plain);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_INT8_PLAIN_H_
