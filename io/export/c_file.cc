#include "ringlet/export.h"

#include <memory>
#include <utility>

#include "../files/atomic_file.h"
#include "c_header.h"
#include "c_interface.h"
#include "c_model.h"
#include "int8_model.h"
#include "lowering.h"
#include "ringlet/custom_layer.h"
#include "ringlet/fit.h"

namespace ringlet {
namespace {

// Wraps an int8 model as the only layer of another model, to compute the int8
// model's metrics.
class Int8Layer final : public CustomLayer {
 public:
  explicit Int8Layer(const Int8Model* model) : model_(*model) {}

  const char* class_name() const override { return "Int8"; }
  Status Build(const std::vector<Shape>&, LayerPlan* plan) const override {
    plan->output = model_.output();
    return Status();
  }
  Status Forward(const LayerCall& call) const override {
    const int64_t in = model_.input().elements(),
                  out = model_.output().elements();
    call.Parallel(call.batch, [&](int64_t begin, int64_t end) {
      Int8Memory memory = model_.NewMemory();
      for (int64_t i = begin; i < end; ++i) {
        model_.Run(call.x[0] + i * in, call.y + i * out, &memory);
      }
    });
    return Status();
  }
  Status Backward(const LayerCall&) const override {
    return InvalidArgument("an int8 model is not trained");
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
  std::vector<OutputLoss> losses = model->losses();
  losses[0].output.clear();
  CompileOptions options;
  options.threads = model->threads();
  Sequential whole(
      {Input(int8.input()), Custom(std::make_shared<Int8Layer>(&int8))});
  whole.Compile(SGD(), losses, options);
  RINGLET_RETURN_IF_ERROR(whole.status());
  RINGLET_RETURN_IF_ERROR(Evaluate(model, data, &report->before));
  return Evaluate(&whole, data, &report->after);
}

}  // namespace

Status ExportC(Model* model, const std::string& path,
               const ExportCOptions& options, Int8Report* report) {
  RINGLET_RETURN_IF_ERROR(CheckHasWeights(*model, path));
  CInterface interface;
  RINGLET_RETURN_IF_ERROR(
      MakeCInterface(*model, options, &interface).Annotate("%s", path.c_str()));
  CModel c(model, interface);
  RINGLET_RETURN_IF_ERROR(
      c.AddLayers(options.softmax).Annotate("%s", path.c_str()));
  Int8Model int8;
  if (interface.int8) {
    RINGLET_RETURN_IF_ERROR(
        int8.Make(model, options.calibration, options.calibration_examples)
            .Annotate("%s", path.c_str()));
    interface.tokens = int8.takes_tokens();
    if (report != nullptr && !options.test.empty()) {
      RINGLET_RETURN_IF_ERROR(Measure(model, int8, options.test, report));
    }
  }
  AtomicFile header;
  RINGLET_RETURN_IF_ERROR(OpenCHeader(options.files, CHeaderPath(path),
                                      CHeaderText(interface), &header));
  RINGLET_RETURN_IF_ERROR(
      interface.int8
          ? int8.Write(options.softmax, interface, options.files, path)
          : c.Write(options.files, path));
  return header.Commit();
}

}  // namespace ringlet
