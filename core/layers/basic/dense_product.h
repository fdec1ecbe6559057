// The product of a Dense, with its bias and activation.

#ifndef RINGLET_CORE_LAYERS_BASIC_DENSE_PRODUCT_H_
#define RINGLET_CORE_LAYERS_BASIC_DENSE_PRODUCT_H_

#include "../../compute/gemm.h"
#include "../layer_loops.h"
#include "ringlet/layers.h"

namespace ringlet {

// C = activation(A * B + bias), or activation(C + A * B + bias) with
// product.add. `bias` may be null. C is row-major without gaps.
inline void MultiplyAndActivate(Product product, const float* bias,
                                Activation activation, ThreadPool* pool) {
  product.bias = bias;
  product.relu = activation == kRelu;
  Multiply(product, pool);
  if (activation == kLinear || activation == kRelu) return;
  BiasActivation(activation, nullptr, product.c.rows, product.c.cols,
                 product.c.data);
}

}  // namespace ringlet

#endif  // RINGLET_CORE_LAYERS_BASIC_DENSE_PRODUCT_H_
