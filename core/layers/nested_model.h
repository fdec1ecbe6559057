// NestedModel: a model as a layer of another: what it is made of, by value.
//
// Internal to core/ and io/. Model::AsLayer makes it. It never changes, so that
// layers can share it.

#ifndef RINGLET_CORE_LAYERS_NESTED_MODEL_H_
#define RINGLET_CORE_LAYERS_NESTED_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "../base/status.h"
#include "layers.h"

namespace ringlet {

struct NestedModel {
  // One use of a layer; a layer that has several is shared.
  struct Call {
    int layer = 0;            // its number in `layers`
    std::vector<int> inputs;  // numbers of earlier calls
    Shape output;
  };

  // Why the model cannot be a layer. The rest then says nothing.
  Status status;
  std::string class_name;     // "Sequential" or "Functional"
  std::vector<Layer> layers;  // in the order of their first calls
  std::vector<Call> calls;    // first the Inputs'
  int num_inputs = 1;
  std::vector<int> outputs;   // numbers of calls
  int depth = 1;              // of models within models, this one included
  int64_t num_nodes = 0;      // calls of layers, those of inner models' counted
  // As they lie in the model's span; null where none are given.
  std::shared_ptr<const std::vector<float>> weights;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_NESTED_MODEL_H_
