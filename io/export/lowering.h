// Lowering: a model as a list of primitives. The exporters write primitives,
// and depend on no class of layer.
//
// A class of layer has one row in lowering.cc. A primitive has one output.
// Shapes omit the batch, and channels are the last axis.

#ifndef RINGLET_IO_EXPORT_LOWERING_H_
#define RINGLET_IO_EXPORT_LOWERING_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "../../core/layers/preprocessing/resizing.h"
#include "ringlet/model.h"
#include "ringlet/shape.h"
#include "ringlet/status.h"

namespace ringlet {

// The operation of a kMerge on its inputs, element by element.
enum class Merge : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kMaximum,
  kMinimum,
  kAverage,
  kDivide,  // 0 / 0 is 0
};

// The step of a kRecurrence. Gates and weights have Keras's order.
enum class Cell : uint8_t {
  kSimple,     // h = activation(x W + h R + b)
  kLstm,       // gates i, f, g, o
  kGruAfter,   // gates z, r, n; r times the product of h
  kGruBefore,  // the same; r times h before the product
};

struct Primitive {
  // Each kind, with the fields that it uses besides layer, inputs and output.
  enum class Kind : uint8_t {
    kInput,
    kIdentity,        // its input
    kReshape,         // its input, in a different shape
    kMatMul,          // x kernel + bias over the last axis; activation. Without
                      // a kernel: the product of two inputs of two axes
    kConv,            // a convolution with `window`; groups, kernel, bias,
                      // activation, depthwise
    kPool,            // pools images with `window`; is_max, covers_image
    kPad,             // adds `borders` of zeros
    kCrop,            // removes `borders`
    kRepeat,          // each pixel window.size times
    kTranspose,       // axis i is axis dims[i], counted from 1
    kActivate,        // activation
    kRelu,            // min(x, max_value) above threshold, else slope (x -
                      // threshold)
    kLeakyRelu,       // x above 0, else slope x
    kElu,             // x above 0, else alpha (exp(x) - 1)
    kPRelu,           // x above 0, else slopes x
    kSoftmax,         // over num_axes axes from first_axis on
    kMerge,           // merge; shapes broadcast
    kConcatenate,     // along the last axis
    kAffine,          // (x - center) scale + offset
    kBatchNormalize,  // gamma, beta, mean, variance, epsilon
    kNormalize,       // over the last num_axes axes; gamma, beta, epsilon
    kGroupNormalize,  // over `groups` of the last axis, and all rows; gamma,
                      // beta, epsilon
    kUnitNormalize,   // over the last num_axes axes; epsilon: least square
    kRecurrence,      // of (steps, features), and perhaps initial states; cell,
                      // kernel, recurrent_kernel, bias, activation,
                      // gate_activation, backwards, reversed, all_steps,
                      // last_states, masked, zero_masked
    kTakeTensor,      // of a kRecurrence with last_states: tensor
    kGather,          // row x of the kernel for each number x
    kConvTranspose,   // the reverse of a kConv from the output to the image,
                      // with `window` over the output; kernel (spatial, out,
                      // in), bias, activation
    kAttend,          // query, key, value (steps, heads * size): softmax(factor
                      // gamma query key^T) value for each of `heads`; causal.
                      // gamma: a trained scale; null means 1; masked
    kAddAttend,       // as kAttend, of the sums of gamma tanh(query + key)
    kPositions,       // the first rows of the kernel, for any input
    kResize,          // a box to the output's size, with `fill` outside of the
                      // image; nearest, or between pixels
    kSpectrogram,     // MelSpectrogram or MFCC; the fields of the layer
    kStft,            // STFTSpectrogram; the fields of the layer
    kMask,            // 1 for a row of the input with a number other than
                      // `fill`, else 0
  };
  // Along height and width. With one axis the height is 1, without padding.
  struct Window {
    int64_t size[2] = {1, 1}, strides[2] = {1, 1}, dilation[2] = {1, 1};
    // Padding. Negative for pixels that a kConvTranspose adds.
    int64_t before[2] = {0, 0}, after[2] = {0, 0};
  };

  Kind kind = Kind::kInput;
  const Layer* layer = nullptr;  // the layer it belongs to
  std::vector<int> inputs;       // indices of primitives
  Shape output;
  // If not 0, the primitive is of a layer that a TimeDistributed applies. It is
  // applied to each of this number of steps, and shapes are of one step. A
  // kReshape begins and ends such primitives.
  int64_t steps = 0;

  Activation activation = kLinear;  // applied to the output
  int axes = 0;                     // the images' axes: 2 or 1; 0 for any
  Window window;
  int64_t groups = 1;
  // Kernel (spatial, channels, multiplier) instead of (spatial, in / groups,
  // out).
  bool depthwise = false;
  bool is_max = false;        // maxima instead of means
  bool covers_image = false;  // the window is the whole image
  bool nearest = false;       // a kResize copies pixels
  ImageBox box = {};
  float fill = 0;
  int64_t borders[4] = {};  // top, bottom, left, right
  Shape dims;
  float max_value = 0, slope = 0, threshold = 0, alpha = 0;
  int first_axis = 0, num_axes = 0;
  Merge merge = Merge::kAdd;
  Cell cell = Cell::kSimple;
  Activation gate_activation = kLinear;
  bool backwards = false;  // begins with the last step
  bool reversed = false;   // the output begins with the last step
  bool all_steps = false;  // if false, the output has only one row
  int last_states = 0;     // rows after the rows of the steps
  int64_t tensor = 0;      // 0: the rows of the steps; from 1: a last state
  int64_t heads = 1;
  float factor = 1;
  bool causal = false;  // a query attends to no value after its place
  // The last input is a mask: of a kRecurrence for each step, and of a kAttend
  // for (queries, values), of which one may be 1.
  bool masked = false;
  bool zero_masked = false;  // the output of a masked step is zeros
  // One number for all channels or one for each; empty if none.
  std::vector<float> center, scale, offset;
  float epsilon = 0;
  // Null if there is none.
  const Variable *kernel = nullptr, *bias = nullptr, *slopes = nullptr;
  const Variable *gamma = nullptr, *beta = nullptr;
  const Variable *mean = nullptr, *variance = nullptr;
  const Variable* recurrent_kernel = nullptr;
};
using Primitives = std::vector<Primitive>;

struct Lowering {
  Primitives primitives;
  std::vector<int> of_node;  // the primitive with the output of each node
  std::deque<Layer> layers;  // the layers of TimeDistributeds
  // The values of the primitives' variables, each at its offset. LoRA is
  // merged: a kernel then holds W + alpha / rank A B.
  const float* weights = nullptr;
  std::vector<float> merged;  // weights, if there is LoRA
};

// `model` outlives *lowering, and its weights do not move. An error names the
// layer that has no primitives, which cannot be exported to `target`.
Status Lower(Model* model, const char* target, Lowering* lowering);

// The center, scale and offset of a kAffine or a kBatchNormalize. `weights` are
// the model's.
struct Affine {
  std::vector<float> center, scale, offset;
};
Affine MakeAffine(const Primitive& primitive, const float* weights);

// The weight of a layer with this name, such as "kernel"; null if there is
// none.
const Variable* FindWeight(const Model& model, const Layer& layer,
                           const std::string& name);

// The number of gates.
int64_t GatesOf(Cell cell);
// Numbers for each unit besides the gates: the state, and one more number if
// the cell has gates.
int64_t StatesOf(Cell cell);

// The activation of a kRecurrence's gates, or the activation of its output if
// it has none.
Activation GateOf(const Primitive& primitive);

// True for kIdentity and kReshape.
bool IsView(const Primitive& primitive);

// Returns an error if the primitive's output is not logits, so that a softmax
// cannot follow.
Status CheckLogits(const Primitives& primitives, int index);

// An error, with `path`, if the model has no weights to export.
Status CheckHasWeights(const Model& model, const std::string& path);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_LOWERING_H_
