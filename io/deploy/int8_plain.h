// A model as plain layers: what int8 has functions for, and no more.
//
// Internal to io/deploy.

#ifndef RINGLET_IO_DEPLOY_INT8_PLAIN_H_
#define RINGLET_IO_DEPLOY_INT8_PLAIN_H_

#include <map>
#include <string>
#include <vector>

#include "../../core/model/model.h"

namespace ringlet {

// Activations stand alone, convolutions have a bias; a BatchNormalization is in
// the convolution before it, or a depthwise one; what merges has two inputs; a
// Rescaling has one factor > 0, and is a matter of what numbers stand for.
struct PlainModel {
  Functional model;          // compiled; its last node is the output
  std::vector<int> nodes;    // of the model's outputs, in their order
  Activation end = kLinear;  // a softmax or log_softmax that was left out
};

// kInvalidArgument names the layer that is none of these.
Status MakePlain(Model* model, PlainModel* plain);

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_INT8_PLAIN_H_
