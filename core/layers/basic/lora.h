// LoRA: a layer's matrix W is frozen, and the layer computes with
// W + alpha / rank A B. Only the small matrices A and B are trained. EnableLora
// (core/model/enable_lora.cc) gives it to the layers of a model.

#ifndef RINGLET_CORE_LAYERS_BASIC_LORA_H_
#define RINGLET_CORE_LAYERS_BASIC_LORA_H_

#include <memory>
#include <string>
#include <vector>

#include "../op.h"
#include "ringlet/layers.h"
#include "ringlet/status.h"

namespace ringlet {

// The alpha of a layer with LoRA; its default is the rank.
int64_t LoraAlpha(const Layer& layer);

// alpha / rank of a layer with LoRA.
float LoraScale(const Layer& layer);

// True for the path of an A or a B: "dense/lora_kernel_a".
bool IsLoraMatrix(const std::string& path);

// Returns an error if the rank or alpha is out of range, if alpha is set
// without a rank, or if W, the `matrix` of this name, has a constraint beside
// LoRA. `rows` is the number of rows of x in one example.
Status CheckLora(const Layer& layer, int64_t rows, const char* matrix,
                 const Constraint& constraint);

// The specifications of A and B for a matrix `w` (rows, cols) with the name
// "kernel": "lora_kernel_a" (rows, rank) and "lora_kernel_b" (rank, cols). They
// have the regularizer of `w`.
WeightSpec SpecOfLoraA(const Layer& layer, const WeightSpec& w);
WeightSpec SpecOfLoraB(const Layer& layer, const WeightSpec& w);

// The buffer of s x A in Forward: Backward reads it, unless the op is frozen.
inline float* ProductBuffer(const OpCall& call, bool frozen) {
  return call.training && !frozen ? call.saved : call.scratch;
}

// values[i] *= scale.
void ScaleBy(float scale, int64_t n, float* values);

// Makes the op of a Dense with LoRA.
Status MakeLoraDense(const Layer& layer, const Shape& x,
                     std::unique_ptr<Op>* op);

// W + alpha / rank A B.
std::vector<float> MergeLora(const Layer& layer, const Shape& shape,
                             const float* w, const float* a, const float* b);

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_BASIC_LORA_H_
