#include "export_training.h"

#include <vector>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/layers/layer_kind.h"
#include "io/keras/compile_json.h"

namespace ringlet {

void ExportTrainingFlags::Add(CommandLine* flags) {
  flags->Text("--train", "LAYERS", &layers,
              "for C: the file also trains these layers, or weights such as\n"
              "dense/bias, with commas; biases: those of all layers; all: all\n"
              "but BatchNormalization; as `train --threads 1` does");
  flags->Text("--optimizer", "NAME", &optimizer,
              "for --train: SGD, Adam or AdamW, or its JSON (default: the\n"
              "model's)");
  flags->Number("--learning-rate", "NUMBER", 1e-37, 1e9, &learning_rate,
                "for --train (default: the optimizer's)");
  flags->Int("--batch", 1, 1 << 20, &batch,
             "for --train: the most examples of a step (1)");
}

const char* ExportTrainingFlags::FlagWithoutTrain() const {
  if (!layers.empty()) return nullptr;
  if (!optimizer.empty()) return "--optimizer";
  if (learning_rate != 0) return "--learning-rate";
  return batch != 0 ? "--batch" : nullptr;
}

// Finds a layer by name; -1 if there is none.
static int FindLayer(const Model& model, const std::string& name) {
  int i = model.num_nodes() - 1;
  while (i >= 0 && model.layer(i).name != name) --i;
  return i;
}

static bool IsListed(const std::string& name, const Model& model,
                     const Variable& weight) {
  if (name == "biases") return EndsWith(weight.path, "/bias");
  if (name != "all") {
    return weight.path == name || StartsWith(weight.path, name + "/");
  }
  const int i = FindLayer(model, weight.path.substr(0, weight.path.rfind('/')));
  return i < 0 || model.layer(i).kind != Layer::Kind::kBatchNormalization;
}

// Trains the listed layers and weights, and no others. *frozen becomes the
// weights of these layers that are not listed.
static Status ChooseWeights(const std::string& list, Model* model,
                            std::vector<std::string>* frozen) {
  const std::vector<Variable>& weights = model->variables();
  std::vector<bool> listed(weights.size());
  for (const std::string& name : SplitAt(list, ',')) {
    bool known =
        name == "all" || name == "biases" || FindLayer(*model, name) >= 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!IsListed(name, *model, weights[i])) continue;
      listed[i] = known = true;
    }
    if (!known) {
      return InvalidArgument(
          "--train: the model has no layer or weight '%s'; `ringlet summary` "
          "shows its layers",
          Printable(name).c_str());
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!listed[i]) frozen->push_back(weights[i].path);
  }
  for (int n = 0; n < model->num_nodes(); ++n) {
    const Layer& layer = model->layer(n);
    if (layer.kind == Layer::Kind::kInput) continue;
    bool trains = false;
    for (size_t i = 0; i < weights.size(); ++i) {
      trains |= listed[i] && StartsWith(weights[i].path, layer.name + "/");
    }
    RINGLET_RETURN_IF_ERROR(model->SetTrainable(layer.name, trains));
  }
  return Status();
}

Status ExportTrainingFlags::Compile(bool compiled, Model* model,
                                    std::vector<std::string>* frozen) const {
  if (!compiled) {
    return InvalidArgument(
        "--train: the model has no loss and no optimizer, since it was saved "
        "without them; give a RUN.json with `compile`, and the model by "
        "--init");
  }
  Optimizer chosen = model->optimizer();
  if (!optimizer.empty()) {
    const bool is_json = optimizer[0] == '{';
    RINGLET_RETURN_IF_ERROR(
        OptimizerFromJson(
            is_json ? optimizer : JsonWriter().String(optimizer).text(),
            &chosen)
            .Annotate("--optimizer"));
  }
  if (learning_rate != 0) {
    chosen.learning_rate = static_cast<float>(learning_rate);
  }
  std::vector<OutputLoss> losses = model->losses();
  for (OutputLoss& each : losses) each.metrics.clear();
  RINGLET_RETURN_IF_ERROR(ChooseWeights(layers, model, frozen));
  CompileOptions options;
  options.threads = model->threads();
  model->Compile(chosen, losses, options);
  return model->status();
}

}  // namespace ringlet
