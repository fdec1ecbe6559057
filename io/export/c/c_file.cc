#include "ringlet/export.h"

#include <memory>
#include <utility>

#include "../../files/atomic_file.h"
#include "../int8/int8_model.h"
#include "../lowering.h"
#include "c_header.h"
#include "c_interface.h"
#include "c_model.h"
#include "c_training.h"
#include "ringlet/custom_layer.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// Examples for the ranges of the layers' outputs.
constexpr int64_t kCalibrationExamples = 512;

// Wraps an int8 model as a layer of another model, to compute the int8 model's
// metrics. Its output has all outputs, one after the other.
class Int8Layer final : public CustomLayer {
 public:
  explicit Int8Layer(const Int8Model* model) : model_(*model) {}

  const char* class_name() const override { return "Int8"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->output = {Elements()};
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    call.Parallel(call.batch, [&](int64_t begin, int64_t end) {
      Int8Memory memory = model_.NewMemory();
      for (int64_t i = begin; i < end; ++i) {
        std::vector<const float*> in;
        in.reserve(static_cast<size_t>(model_.num_inputs()));
        for (int k = 0; k < model_.num_inputs(); ++k) {
          in.push_back(call.x[k] + i * model_.given(k).elements());
        }
        std::vector<float*> out;
        float* y = call.y + i * Elements();
        for (int k = 0; k < model_.num_outputs(); ++k) {
          out.push_back(y);
          y += model_.output(k).elements();
        }
        model_.Run(in.data(), out.data(), &memory);
      }
    });
    return Status();
  }
  Status Backward(const LayerCall&) const override {
    return InvalidArgument("an int8 model is not trained");
  }

  int64_t Elements() const {
    int64_t all = 0;
    for (int k = 0; k < model_.num_outputs(); ++k) {
      all += model_.output(k).elements();
    }
    return all;
  }

 private:
  const Int8Model& model_;
};

Status Evaluate(Model* model, const Dataset& data, Logs* logs) {
  EvaluateOptions options;
  options.verbose = Verbose::kSilent;
  Result<Logs> result = model->Evaluate(data, options);
  if (result.ok()) *logs = result.value();
  return result.status();
}

Status Measure(Model* model, const Int8Model& int8, const Dataset& data,
               Int8Report* report) {
  const auto layer = std::make_shared<Int8Layer>(&int8);
  Functional whole;
  std::vector<int> inputs, outputs;
  for (int i = 0; i < int8.num_inputs(); ++i) {
    inputs.push_back(whole.Add(Input(int8.given(i))));
  }
  const int64_t all = layer->Elements();
  const int line =
      whole.Add(Reshape({all, 1}), {whole.Add(Custom(layer), inputs)});
  int64_t begin = 0;
  for (int k = 0; k < int8.num_outputs(); ++k) {
    const int64_t end = begin + int8.output(k).elements();
    const int part = whole.Add(Cropping1D(begin, all - end), {line});
    outputs.push_back(
        whole.Add(Reshape(int8.output(k)).Name(model->output_name(k)), {part}));
    begin = end;
  }
  whole.Outputs(outputs);
  CompileOptions options;
  options.threads = model->threads();
  whole.Compile(SGD(), model->losses(), options);
  RINGLET_RETURN_IF_ERROR(whole.status());
  RINGLET_RETURN_IF_ERROR(Evaluate(model, data, &report->before));
  return Evaluate(&whole, data, &report->after);
}

Status MakeTraining(Model* model, const ExportCOptions& options,
                    CTraining* training, CInterface* interface) {
  constexpr int64_t kMostExamples = 1 << 20;
  if (options.train_batch < 1 || options.train_batch > kMostExamples) {
    return InvalidArgument("a step has from 1 to %lld examples, not %lld",
                           static_cast<long long>(kMostExamples),
                           static_cast<long long>(options.train_batch));
  }
  if (options.softmax || options.with_preprocessing ||
      options.anomaly_score != ReconstructionError::kNone) {
    return InvalidArgument(
        "a C file that trains is without softmax, preprocessing or anomaly "
        "score");
  }
  RINGLET_RETURN_IF_ERROR(
      training->Make(*model, options.train_batch, options.frozen_weights));
  interface->batch = training->batch;
  interface->takes_classes = training->loss.takes_classes();
  interface->targets = training->loss.targets(model->output_shape());
  interface->state_bytes = training->state_bytes();
  return Status();
}

}  // namespace

Status ExportC(Model* model, const std::string& path,
               const ExportCOptions& options, Int8Report* report) {
  RINGLET_RETURN_IF_ERROR(CheckHasWeights(*model, path));
  CInterface interface;
  RINGLET_RETURN_IF_ERROR(
      MakeCInterface(*model, options, &interface).Annotate("%s", path.c_str()));
  CTraining training;
  const bool trains = options.train_batch != 0;
  if (trains) {
    RINGLET_RETURN_IF_ERROR(MakeTraining(model, options, &training, &interface)
                                .Annotate("%s", path.c_str()));
  }
  CModel c(model, interface, trains ? &training : nullptr);
  RINGLET_RETURN_IF_ERROR(
      c.AddLayers(options.softmax).Annotate("%s", path.c_str()));
  Int8Model int8;
  // Before the long work. Both C files begin so (c_model.cc, int8_file.cc).
  RINGLET_RETURN_IF_ERROR(CheckReplaceable(options.files, path, "/* A model "));
  if (interface.int8) {
    RINGLET_RETURN_IF_ERROR(int8.Make(model, options.calibration,
                                      kCalibrationExamples, c.body_end())
                                .Annotate("%s", path.c_str()));
    for (int i = 0; i < int8.num_inputs(); ++i) {
      interface.inputs[static_cast<size_t>(i)].tokens = int8.takes_tokens(i);
    }
    if (trains) {
      c.SetBody(int8.Body(interface));
    } else if (report != nullptr && !options.test.empty()) {
      RINGLET_RETURN_IF_ERROR(Measure(model, int8, options.test, report));
    }
  }
  AtomicFile header;
  RINGLET_RETURN_IF_ERROR(OpenCHeader(options.files, CHeaderPath(path),
                                      CHeaderText(interface), &header));
  RINGLET_RETURN_IF_ERROR(
      interface.int8 && !trains
          ? int8.Write(options.softmax, interface, options.files, path)
          : c.Write(options.files, path));
  return header.Commit();
}

}  // namespace ringlet
