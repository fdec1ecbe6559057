// ringlet has the axes of channels and filters last; PyTorch has them second or
// first.

#include "torch_axes.h"

#include <cstring>

#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"

namespace ringlet {
namespace {

// The shape of the rows that a flattened output had, for ONNX models that
// permute them.
Shape FlattenedRows(const Model& model, int node) {
  if (model.output_shape(node).rank() != 1) return Shape();
  while (model.output_shape(node).rank() == 1 &&
         model.inputs(node).size() == 1) {
    const LayerClass& row = ClassOf(model.layer(node));
    if (!row.keeps_layout && row.kind != Layer::Kind::kFlatten &&
        row.kind != Layer::Kind::kReshape) {
      break;
    }
    node = model.inputs(node)[0];
  }
  const Shape& shape = model.output_shape(node);
  return shape.rank() == 2 ? Shape{1, shape[0], shape[1]} : Shape();
}

// Sets the shape of the flattened image in the layer's input, which orders the
// rows of its kernel or its gamma.
Status SetFlattenedImage(const Model& model, const TorchImages& images,
                         int node, TorchWeight* weight) {
  if (weight->channels_last) return Status();
  Shape image;
  RINGLET_RETURN_IF_ERROR(images.Flattened(model.inputs(node)[0], &image));
  if (image.rank() == 0 && weight->channels_first) {
    image = FlattenedRows(model, model.inputs(node)[0]);
  }
  if (image.rank() == 0) return Status();
  if (weight->filters == 0) weight->filters = 1;
  weight->height = image[0];
  weight->width = image[1];
  weight->channels = image[2];
  return Status();
}

// Adds or removes axes of 1 in front, to get `rank` axes if possible.
Shape WithAxes(int rank, const Shape& shape) {
  Shape padded;
  for (int i = shape.rank(); i < rank; ++i) padded.Append(1);
  for (int i = 0; i < shape.rank(); ++i) {
    if (i >= shape.rank() - rank || shape[i] != 1) padded.Append(shape[i]);
  }
  return padded;
}

// In an ONNX model slopes apply to the last axes of their input, which may have
// channels first or last.
void FindSlopes(TorchWeight* weight) {
  const Shape slopes = weight->shape, stored = weight->tensor->shape;
  const int rank = slopes.rank();
  const Shape padded = WithAxes(rank, stored);
  Shape transposed = {slopes.back()};
  for (int i = 0; i + 1 < rank; ++i) transposed.Append(slopes[i]);
  if (padded == slopes &&
      (rank == 1 || weight->channels_last || padded != transposed)) {
    weight->shape = stored;
  } else if (padded == transposed) {
    weight->height = rank == 3 ? slopes[0] : 1;
    weight->width = slopes[rank - 2];
    weight->channels = slopes.back();
    weight->filters = 1;
    weight->shape = stored;
  } else if (weight->channels_first) {
    weight->shape = transposed;
  }
}

// gamma, beta and statistics. PyTorch has flattened elements in a different
// order, and whole images as (channels, height, width).
Status FindNormalizations(const Model& model, const TorchImages& images,
                          int node, bool onnx, TorchWeight* weight) {
  const Layer::Kind kind = model.layer(node).kind;
  const Shape image = images.Image(model.inputs(node)[0]);
  const int rank = weight->shape.rank();
  if (kind == Layer::Kind::kLayerNormalization && rank > 1 &&
      !weight->channels_last && image.rank() == 3 &&
      image.elements() == weight->shape.elements()) {
    weight->height = image[0];
    weight->width = image[1];
    weight->channels = image[2];
    weight->filters = 1;
    weight->shape = rank == 3 ? Shape{image[2], image[0], image[1]}
                              : Shape{image[2], image[1]};
    return Status();
  }
  if (kind == Layer::Kind::kPReLU) {
    const int axes =
        weight->tensor != nullptr ? weight->tensor->shape.rank() : 0;
    if (onnx && axes > 1) {
      FindSlopes(weight);
    } else if (weight->shape.back() == weight->shape.elements()) {
      weight->shape = {
          weight->shape.back()};  // one for all, or one for each channel
    }
  }
  // One slope for all inputs has no order.
  const Shape& input = model.output_shape(model.inputs(node)[0]);
  const bool has_order = weight->shape.elements() == input.elements();
  return (kind == Layer::Kind::kPReLU && rank == 1 && has_order) ||
                 kind == Layer::Kind::kLayerNormalization ||
                 kind == Layer::Kind::kBatchNormalization
             ? SetFlattenedImage(model, images, node, weight)
             : Status();
}

// (taps ..., channels, filters) is PyTorch's (filters, channels, taps ...); of
// a depthwise one (taps ..., 1, channels * multiplier).
void FindConvolution(const Shape& kernel, bool depthwise, TorchWeight* weight) {
  const int axes = kernel.rank() - 2;
  weight->height = axes == 2 ? kernel[0] : 1;
  weight->width = kernel[axes - 1];
  weight->channels = depthwise ? 1 : kernel[axes];
  weight->filters = (depthwise ? kernel[axes] : 1) * kernel[axes + 1];
  weight->shape = {weight->filters, weight->channels};
  for (int i = 0; i < axes; ++i) weight->shape.Append(kernel[i]);
}

Status FindKernel(const Model& model, const TorchImages& images, int node,
                  const std::string& role, const Shape& kernel,
                  TorchWeight* weight) {
  if (kernel.rank() > 2) {
    const Layer::Kind kind = StepLayer(model.layer(node)).kind;
    FindConvolution(kernel,
                    role == "depthwise_kernel" ||
                        kind == Layer::Kind::kDepthwiseConv2D ||
                        kind == Layer::Kind::kDepthwiseConv1D,
                    weight);
    return Status();
  }
  weight->height = weight->width = 1;
  weight->channels = kernel[0];
  weight->filters = kernel[1];
  weight->shape = {weight->filters, weight->channels};
  return SetFlattenedImage(model, images, node, weight);
}

// Kernels are transposed. PyTorch has two biases, and the gates of a GRU in
// the order reset, update, new.
Status FindRecurrent(const WeightsFile& file, const Model& model, int node,
                     const std::string& role, TorchWeight* weight) {
  const Layer& layer = StepLayer(model.layer(node));
  const bool gru = layer.kind == Layer::Kind::kGRU;
  const OnnxRecurrence* const recurrence =
      weight->tensor != nullptr ? file.recurrence(*weight->tensor) : nullptr;
  if (recurrence != nullptr) {
    RINGLET_RETURN_IF_ERROR(CheckRecurrence(*recurrence, model, node)
                                .Annotate("%s", file.path().c_str()));
  }
  const bool before = recurrence != nullptr && recurrence->resets_before;
  if (weight->tensor != nullptr && gru && layer.reset_after == before) {
    return InvalidArgument(
        "layer '%s' is a GRU with reset_after %s, and %s resets the state "
        "%s its product",
        model.layer(node).name.c_str(), before ? "true" : "false",
        file.is_onnx() ? "the file's" : "PyTorch's",
        before ? "before" : "after");
  }
  if (gru) weight->exchanged_units = layer.units;
  if (role == "bias") {
    weight->second_follows = gru && layer.reset_after;
    weight->shape = {weight->shape.back()};
    const bool both = weight->tensor != nullptr && weight->second != nullptr &&
                      weight->tensor->shape == weight->second->shape;
    if (!both) weight->tensor = weight->second = nullptr;
    return Status();
  }
  weight->height = weight->width = 1;
  weight->channels = weight->shape[0];
  weight->filters = weight->shape[1];
  weight->shape = {weight->filters, weight->channels};
  return Status();
}

// Heads and their numbers are one axis, and kernels are transposed. PyTorch may
// have query, key and value in one tensor.
void FindAttention(const std::string& role, TorchWeight* weight) {
  const bool is_output = StartsWith(role, "attention_output");
  if (EndsWith(role, "_kernel")) {
    const Shape kernel = weight->shape;
    weight->height = weight->width = 1;
    weight->channels = is_output ? kernel[0] * kernel[1] : kernel[0];
    weight->filters = is_output ? kernel[2] : kernel[1] * kernel[2];
    weight->shape = {weight->filters * weight->parts, weight->channels};
  } else if (EndsWith(role, "_bias")) {
    weight->shape = {weight->shape.elements() * weight->parts};
  }
}

// An ONNX model may have a Dense over images as a 1x1 convolution.
void SetFileShape(const WeightsFile& file, TorchWeight* weight) {
  if (!file.is_onnx() || weight->tensor == nullptr) return;
  Shape shape = weight->shape;
  while (shape.rank() < weight->tensor->shape.rank()) shape.Append(1);
  if (shape == weight->tensor->shape) weight->shape = shape;
}

}  // namespace

Status FindAxes(const WeightsFile& file, const Model& model,
                const TorchImages& images, int node, const std::string& role,
                TorchWeight* weight) {
  const Layer::Kind kind = StepLayer(model.layer(node)).kind;
  if (IsRecurrent(kind)) {
    return FindRecurrent(file, model, node, role, weight);
  }
  if (kind == Layer::Kind::kMultiHeadAttention) {
    FindAttention(role, weight);
  } else if (EndsWith(role, "kernel")) {
    const Shape kernel = weight->shape;
    if (file.may_be_from_pytorch() && weight->tensor != nullptr) {
      RINGLET_RETURN_IF_ERROR(images.CheckNotReshaped(node));
    }
    RINGLET_RETURN_IF_ERROR(
        FindKernel(model, images, node, role, kernel, weight));
  } else if (role != "bias") {
    RINGLET_RETURN_IF_ERROR(
        FindNormalizations(model, images, node, file.is_onnx(), weight));
  }
  SetFileShape(file, weight);
  return Status();
}

void FromTorch(const TorchWeight& how, const float* stored, float* weight) {
  const int64_t h = how.height, w = how.width, c = how.channels,
                o = how.filters, u = how.exchanged_units;
  stored += how.part * (how.shape.elements() / how.parts);
  const auto filter = [u](int64_t f) {
    return f >= 2 * u ? f : f < u ? f + u : f - u;
  };
  if (o == 0 && u > 0) {
    for (int64_t f = 0; f < how.shape.elements(); ++f) {
      weight[f] = stored[filter(f)];
    }
    return;
  }
  if (o == 0) {
    std::memcpy(
        weight, stored,
        static_cast<size_t>(how.shape.elements() / how.parts) * sizeof(float));
    return;
  }
  const int64_t pixels = h * w;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t f = 0; f < o; ++f) {
        *weight++ = stored[(filter(f) * c + k) * pixels + p];
      }
    }
  }
}

}  // namespace ringlet
