// OnnxConverter: a model's primitives as nodes of ONNX.
//
// It converts one primitive at a time. A converter returns the value of its
// output. Weights are not copied: a StridedLayout gives the order in which ONNX
// has the floats of Keras's kernel.

#ifndef RINGLET_IO_EXPORT_ONNX_ONNX_CONVERTER_H_
#define RINGLET_IO_EXPORT_ONNX_ONNX_CONVERTER_H_

#include <vector>

#include "../lowering.h"
#include "onnx_builder.h"
#include "ringlet/model.h"

namespace ringlet {

struct FramePlan;
struct SpectrogramPlan;
struct StftPlan;

class OnnxConverter {
 public:
  OnnxConverter(Model* model, OnnxGraph* graph)
      : model_(*model),
        floats_(model->weights()),
        graph_(graph),
        builder_(graph) {}

  Status AddNodes();
  Status AddOutput(int node, bool softmax);

 private:
  struct Row {
    Primitive::Kind kind;
    OnnxValue (OnnxConverter::*convert)();
  };
  static const Row kConverters[];
  // A constant of the graph: a variable, or one number for each channel.
  struct AddedWeight {
    const Variable* variable;
    float number;
    int dims;
    OnnxGraph::StridedLayout order;
    int tensor;
  };

  // The tensors from which the outputs of a masked recurrence are made, besides
  // the outputs of its node.
  struct MaskedSteps {
    int outputs;    // (steps, steps): the step computed last, for each output
    int last;       // the last of these
    int initial;    // the initial state; -1 means zeros
    int is_step;    // (steps, 1): true where the moved step counts
    int rows = -1;  // the outputs of the moved steps, once a tensor needs them
  };

  OnnxValue Input();
  OnnxValue PassThrough() { return x(); }
  OnnxValue Reshape();
  OnnxValue MatMul();
  OnnxValue Conv();
  OnnxValue Pool();
  OnnxValue Pad();
  OnnxValue Crop();
  OnnxValue Repeat();
  OnnxValue Transpose();
  OnnxValue Activate() { return builder_.Activated(x(), p_->activation); }
  OnnxValue Relu();
  OnnxValue LeakyRelu() { return WithAlpha("LeakyRelu", p_->slope); }
  OnnxValue Elu() { return WithAlpha("Elu", p_->alpha); }
  OnnxValue PRelu();
  OnnxValue Softmax();
  OnnxValue Merge();
  OnnxValue Concatenate();
  OnnxValue MultiplyAdd();
  OnnxValue BatchNormalize();
  OnnxValue Normalize();
  OnnxValue GroupNormalize();
  OnnxValue UnitNormalize();
  OnnxValue Recur();
  OnnxValue TakeTensor();
  OnnxValue Gather();
  OnnxValue ConvTranspose();
  OnnxValue Attend();
  OnnxValue Positions();
  OnnxValue Resize();
  OnnxValue Spectrogram();
  OnnxValue Stft();
  OnnxValue Mask();
  int StftNumbers(const StftPlan& plan, int real, int imaginary);
  int Part(const char* name, const FramePlan& plan,
           const std::vector<double>& circle, double sign, int64_t length,
           const OnnxInts& pads, int rows);
  int Powers(const SpectrogramPlan& plan);
  int Logarithm(const SpectrogramPlan& plan, int y);

  OnnxValue& x(size_t i = 0) {
    return values_[static_cast<size_t>(p_->inputs[i])];
  }
  // The numbers of a pair, one for each axis.
  OnnxInts AxisInts(const int64_t pair[2]) const {
    return p_->axes == 1 ? OnnxInts{pair[1]} : OnnxInts{pair[0], pair[1]};
  }
  // A constant of the layer.
  int Floats(const char* name, const OnnxInts& dims,
             const std::vector<float>& values);
  int Weight(const Variable* weight, const OnnxInts& dims,
             const OnnxGraph::StridedLayout& order);
  int Weight(const Variable* weight, const OnnxInts& dims);  // Keras's order
  int WeightOr(const Variable* weight, int64_t channels, float default_value);
  int Bias() {
    return p_->bias == nullptr ? -1 : Weight(p_->bias, {p_->output.back()});
  }
  OnnxInts Pads() const;  // the window's padding
  int Kernel(const OnnxInts& spatial, int64_t in, int64_t out);
  int DepthwiseKernel();
  int ConvolvePixels(int x, int axes, int64_t in);
  OnnxValue Activated(AxisOrder order, int tensor) {
    return builder_.Activated(OnnxBuilder::MakeValue(p_->output, order, tensor),
                              p_->activation);
  }
  OnnxValue WithAlpha(const char* op, float alpha);
  OnnxValue NormalizedRows();
  int Mean(int tensor, const OnnxInts& axes);
  int Standardized(int x, const OnnxInts& axes);
  int ScaledAndShifted(int y, const OnnxInts& dims);
  int TransposedGates(const char* name, const Variable* weight,
                      bool keeps_carry);
  int GateBiases();
  int InitialState(size_t input);
  int AddRecurrence(int x, bool keeps_carry);
  int WithoutDirection(int y, const Primitive& recurrence);
  int Reversed(int y, int axis);
  OnnxValue RecurMasked();
  int MaskedRows(int y, int matrix, MaskedSteps* steps);
  int MaskedOutput(int y, MaskedSteps* steps, const Primitive& recurrence);
  int MaskedState(int y, MaskedSteps* steps);
  int Heads(size_t input, const OnnxInts& turn);
  int Scores();
  int AddedScores();
  int AddCausalMask(int scores, float none);

  Model& model_;
  const float* floats_;
  OnnxGraph* const graph_;
  OnnxBuilder builder_;
  Lowering lowering_;
  std::vector<OnnxValue> values_;    // the primitives' values
  std::vector<MaskedSteps> masked_;  // masks of recurrences, by primitive
  std::vector<AddedWeight> weights_;
  // A setting that ONNX's operators lack: "the activation 'elu'".
  std::string unsupported_;

  const Primitive* p_ = nullptr;  // the present primitive
};

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_ONNX_ONNX_CONVERTER_H_
