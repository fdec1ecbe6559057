// NestedModel: a model as a layer of another model, by value.
//
// Model::AsLayer makes it. It never changes, so layers can share it.

#ifndef RINGLET_CORE_LAYERS_NESTED_MODEL_H_
#define RINGLET_CORE_LAYERS_NESTED_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "ringlet/layers.h"
#include "ringlet/status.h"

namespace ringlet {

struct NestedModel {
  // One call of a layer. A layer with several calls is shared.
  struct Call {
    int layer = 0;            // index in `layers`
    std::vector<int> inputs;  // indices of earlier calls
    Shape output;
  };

  // Why the model cannot be a layer. After an error the other members have no
  // meaning.
  Status status;
  std::string class_name;     // "Sequential" or "Functional"
  std::vector<Layer> layers;  // the layers, in the order of their first calls
  std::vector<Call> calls;    // the Inputs first
  int num_inputs = 1;
  std::vector<int> outputs;  // indices of calls
  int depth = 1;             // levels of nested models, with this one
  int64_t num_nodes = 0;     // calls of layers, also in nested models
  // The weights in the layout of the model's span; null if there is none.
  std::shared_ptr<const std::vector<float>> weights;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_NESTED_MODEL_H_
