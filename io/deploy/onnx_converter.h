// OnnxConverter: a model's layers as nodes of ONNX.
//
// Internal to io/deploy. Of one node of the model at a time: layer_, name_, x_
// and output_ are its own. A converter returns what the layer gives for x().
// Weights are not copied: an Order says how the floats of Keras's kernel stand
// in ONNX's.

#ifndef RINGLET_IO_DEPLOY_ONNX_CONVERTER_H_
#define RINGLET_IO_DEPLOY_ONNX_CONVERTER_H_

#include <string>
#include <vector>

#include "../../core/layers/layer_table.h"
#include "../../core/model/model.h"
#include "onnx_values.h"

namespace ringlet {

class OnnxConverter {
 public:
  OnnxConverter(Model* model, OnnxGraph* graph)
      : model_(*model),
        floats_(model->weights()),
        graph_(graph),
        make_(graph),
        values_(static_cast<size_t>(model->num_nodes())) {}

  Status AddNodes();
  Status AddOutput(int node, bool softmax);

 private:
  struct Row {
    Layer::Kind kind;
    OnnxValue (OnnxConverter::*convert)(const char* op);
    const char* op;
  };
  static const Row kConverters[];
  // A constant that is there: a variable, or a number for each channel.
  struct AddedWeight {
    const Variable* variable;
    float number;
    int dims;
    OnnxGraph::Order order;
    int tensor;
  };

  OnnxValue Pass(const char*) { return x(); }
  OnnxValue Activate(const char*) {
    return make_.Activated(x(), layer_->activation);
  }
  OnnxValue Flatten(const char*) { return make_.Flattened(&x()); }
  OnnxValue Reshape(const char*) {
    return output_.rank() == 1 ? make_.Flattened(&x())
                               : make_.Reshaped(&x(), output_);
  }
  OnnxValue Dense(const char*);
  OnnxValue Conv(const char*);
  OnnxValue DepthwiseConv(const char*);
  OnnxValue SeparableConv(const char*);
  OnnxValue Pool(const char* op);
  OnnxValue GlobalPool(const char* op);
  OnnxValue Pad(const char*);
  OnnxValue Crop(const char*);
  OnnxValue UpSample(const char*);
  OnnxValue Permute(const char*);
  OnnxValue ReLU(const char*);
  OnnxValue WithAlpha(const char* op);
  OnnxValue PReLU(const char*);
  OnnxValue Softmax(const char*);
  OnnxValue Merge(const char* op);
  OnnxValue Concatenate(const char*);
  OnnxValue BatchNormalization(const char*);
  OnnxValue LayerNormalization(const char*);
  OnnxValue Rescaling(const char*);
  OnnxValue Normalization(const char*);

  OnnxValue& x(size_t i = 0) { return values_[static_cast<size_t>(x_[i])]; }
  int axes() const { return ClassOf(*layer_).axes; }
  // Of a pair, that of each axis.
  OnnxInts Each(const int64_t pair[2]) const {
    return axes() == 1 ? OnnxInts{pair[1]} : OnnxInts{pair[0], pair[1]};
  }
  const Variable* Find(const char* weight) const;  // null: the layer has none
  int Weight(const char* weight, const OnnxInts& dims,
             const OnnxGraph::Order& order);
  int Weight(const char* weight, const OnnxInts& dims);  // as it stands
  int WeightOr(const char* weight, int64_t channels, float otherwise);
  int Bias() {
    return Find("bias") == nullptr ? -1 : Weight("bias", {output_.back()});
  }
  // Its strides, dilation and explicit padding over x.
  struct Window {
    OnnxInts window, strides, dilation, pads;
  };
  Window Place() const;
  int Kernel(const char* weight, const OnnxInts& spatial, int64_t in,
             int64_t out);
  int DepthwiseKernel(const char* weight);
  int Convolve(int x, int kernel, int bias, const Window& window,
               int64_t groups);
  int ConvolvePixels(int x, const char* weight, int axes, int64_t in);
  OnnxValue Activated(AxisOrder order, int tensor) {
    return make_.Activated(OnnxValues::Of(output_, order, tensor),
                           layer_->activation);
  }
  OnnxValue Affine(const std::vector<float>* minus,
                   const std::vector<float>* times,
                   const std::vector<float>* plus);
  OnnxValue NormalizedRows();
  int Mean(int tensor, const OnnxInts& axes);

  Model& model_;
  const float* const floats_;
  OnnxGraph* const graph_;
  OnnxValues make_;
  std::vector<OnnxValue> values_;  // of the nodes
  std::vector<AddedWeight> weights_;

  const Layer* layer_ = nullptr;
  std::string name_;
  std::vector<int> x_;
  Shape output_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_DEPLOY_ONNX_CONVERTER_H_
