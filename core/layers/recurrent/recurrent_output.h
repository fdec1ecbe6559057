// The names of the tensors of a recurrent layer with return_state.

#ifndef RINGLET_CORE_LAYERS_RECURRENT_RECURRENT_OUTPUT_H_
#define RINGLET_CORE_LAYERS_RECURRENT_RECURRENT_OUTPUT_H_

#include <cstdint>
#include <string>

namespace ringlet {

// Returns the name of the RecurrentOutput that takes a tensor of a layer's
// call: "lstm_output_1", and of call 2 "lstm_output_1_of_call_2".
inline std::string TensorName(const std::string& layer, int64_t call,
                              int64_t tensor) {
  const std::string name = layer + "_output_" + std::to_string(tensor);
  return call == 0 ? name : name + "_of_call_" + std::to_string(call);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_RECURRENT_RECURRENT_OUTPUT_H_
