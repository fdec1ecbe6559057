#include "export_training.h"

#include <set>
#include <vector>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/layers/layer_kind.h"
#include "core/model/model_parts.h"
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

// True if `name` is the layer of this node, or a model around it.
static bool IsIn(const std::string& name, const Graph& graph,
                 const GraphNode& node) {
  int i = node.layer_index;
  while (i >= 0 && graph.layers()[i].path != name) i = graph.layers()[i].parent;
  return i >= 0;
}

// Adds the weights that `name` lists to *listed, by their index. Returns true
// if one of them is trained.
static bool AddListed(const std::string& name, const Graph& graph,
                      std::set<int>* listed) {
  bool any = false;
  for (const GraphNode& node : graph.nodes()) {
    const bool is_in = name == "all"
                           ? node.layer.kind != Layer::Kind::kBatchNormalization
                           : IsIn(name, graph, node);
    for (int k = 0; k < node.num_variables; ++k) {
      const int i = node.first_variable + k;
      const Variable& v = graph.variables()[i];
      if (!is_in && v.path != name &&
          (name != "biases" || !EndsWith(v.path, "/bias"))) {
        continue;
      }
      listed->insert(i);
      any |= v.trained();
    }
  }
  return any;
}

// Trains the listed layers and weights from the next Compile on, and no others.
// *frozen becomes the weights that are not listed.
static Status ChooseWeights(const std::vector<std::string>& names,
                            const Graph& graph, Model* model,
                            std::vector<std::string>* frozen) {
  std::set<int> listed;
  for (const std::string& name : names) AddListed(name, graph, &listed);
  for (const GraphNode& node : graph.nodes()) {
    bool trains = false;
    for (int k = 0; k < node.num_variables; ++k) {
      const int i = node.first_variable + k;
      const bool is_listed = listed.count(i) > 0;
      if (!is_listed) frozen->push_back(graph.variables()[i].path);
      trains |= is_listed;
    }
    // A mask is a node without a layer of its own.
    if (node.num_variables == 0) continue;
    RINGLET_RETURN_IF_ERROR(model->SetTrainable(node.layer.name, trains));
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
  const std::vector<std::string> names = SplitAt(layers, ',');
  const Graph& graph = ModelParts(model).graph();
  RINGLET_RETURN_IF_ERROR(ChooseWeights(names, graph, model, frozen));
  CompileOptions options;
  options.threads = model->threads();
  model->Compile(chosen, losses, options);
  RINGLET_RETURN_IF_ERROR(model->status());
  for (const std::string& name : names) {
    std::set<int> listed;
    if (AddListed(name, graph, &listed)) continue;
    return InvalidArgument(
        "--train: the model has no layer or weight '%s' that can be trained "
        "(with LoRA, a kernel is a constant); `ringlet summary` shows its "
        "layers",
        Printable(name).c_str());
  }
  return Status();
}

}  // namespace ringlet
