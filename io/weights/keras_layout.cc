// Names that other programs have written are matched in steps: first equal
// names, then names with equal ends. If two weights match one tensor, or two
// tensors one weight, that is an error. ringlet does not guess.

#include "keras_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "../../core/base/check.h"
#include "../../core/base/json.h"
#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../../core/layers/basic/lora.h"
#include "../../core/layers/layer_kind.h"
#include "keras_order.h"

namespace ringlet {
namespace {

// Removes the number that TensorFlow adds to a variable's name: "dense/kernel"
// for "dense/kernel:0".
std::string WithoutNumber(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || colon + 1 == name.size() ||
      name.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
    return name;
  }
  return name.substr(0, colon);
}

// "lstm/kernel" of "lstm/lstm_cell/kernel" and "lstm/lstm_cell_2/kernel": Keras
// names the cell of a recurrent layer, and Keras 2 also numbers it.
std::string WithoutCell(const std::string& name) {
  const size_t end = name.rfind('/');
  const size_t before =
      end == std::string::npos || end == 0 ? end : name.rfind('/', end - 1);
  if (before == std::string::npos || end == 0) return name;
  std::string cell = name.substr(before + 1, end - before - 1);
  const size_t number = cell.rfind('_');
  if (number != std::string::npos && number + 1 < cell.size() &&
      cell.find_first_not_of("0123456789", number + 1) == std::string::npos) {
    cell.resize(number);
  }
  if (cell != "simple_rnn_cell" && cell != "lstm_cell" && cell != "gru_cell") {
    return name;
  }
  return name.substr(0, before) + name.substr(end);
}

// Returns the path of some weights in Keras, by the path here: "conv/kernel" is
// "conv/depthwise_kernel" in Keras 2, "time_distributed/kernel" is
// "time_distributed/dense/kernel" in Keras 3, and "heads/query_kernel" is
// "heads/query/kernel" in both.
std::map<std::string, std::string> OlderPaths(const Model& model) {
  std::map<std::string, std::string> older;
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer& layer = model.layer(node);
    if (layer.kind == Layer::Kind::kDepthwiseConv2D ||
        layer.kind == Layer::Kind::kDepthwiseConv1D) {
      older[layer.name + "/kernel"] = layer.name + "/depthwise_kernel";
    }
    const bool heads = layer.kind == Layer::Kind::kMultiHeadAttention;
    if (!heads && layer.kind != Layer::Kind::kTimeDistributed) continue;
    for (const Variable& v : model.variables()) {
      const std::string weight = WithoutPrefix(v.path, layer.name + "/");
      if (weight == v.path) continue;
      if (heads) {
        std::string& path = older[v.path] = v.path;
        path[path.rfind('_')] = '/';
        continue;
      }
      older[v.path] = layer.name + "/" + layer.layer->name + "/" + weight;
    }
  }
  return older;
}

// Finds an array by its number. numpy.savez(file, *arrays) names the arrays
// arr_0, arr_1 and so on.
const StoredTensor* FindArray(const WeightsFile& file, size_t number) {
  return file.Find("arr_" + std::to_string(number));
}

bool AreUnnamed(const WeightsFile& file) {
  if (file.is_from_ringlet()) return false;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    if (FindArray(file, i) == nullptr) return false;
  }
  return !file.tensors().empty();
}

constexpr size_t kNormalizationArrays = 3;  // mean, variance, count

// The arrays of model.get_weights(): the variables, and the arrays of
// Normalizations between them.
struct ArrayOrder {
  std::vector<size_t> variables;
  // The number of the first array, by name.
  std::map<std::string, size_t> normalizations;
};

ArrayOrder ArrayOrderOf(const Model& model) {
  std::set<std::string> normalizations;
  for (int node = 0; node < model.num_nodes(); ++node) {
    if (model.layer(node).kind != Layer::Kind::kNormalization) continue;
    normalizations.insert(model.layer(node).name);
  }
  // The variables of each layer.
  std::map<std::string, std::vector<size_t>> variables;
  for (size_t v = 0; v < model.variables().size(); ++v) {
    const std::string& path = model.variables()[v].path;
    variables[path.substr(0, path.rfind('/'))].push_back(v);
  }
  ArrayOrder order;
  for (const std::string& layer : LayersInKerasOrder(model)) {
    if (normalizations.count(layer) > 0) {
      const size_t before = order.normalizations.size();
      order.normalizations[layer] =
          order.variables.size() + kNormalizationArrays * before;
    }
    const std::vector<size_t>& own = variables[layer];
    order.variables.insert(order.variables.end(), own.begin(), own.end());
  }
  RINGLET_CHECK(order.variables.size() == model.variables().size());
  return order;
}

// For a file with the arrays of model.get_weights(): the number of the first
// array of each Normalization. Empty if the file has no arrays of
// Normalizations.
std::map<std::string, size_t> ArraysOfNormalizations(const WeightsFile& file,
                                                     const Model& model,
                                                     const ArrayOrder& order) {
  const bool has = AreUnnamed(file) &&
                   file.tensors().size() ==
                       model.variables().size() +
                           kNormalizationArrays * order.normalizations.size();
  return has ? order.normalizations : std::map<std::string, size_t>();
}

bool IsOptimizers(const std::string& name) {
  for (const char* prefix : {"optimizer/", "optimizer_weights/", "training/"}) {
    if (StartsWith(name, prefix)) return true;
  }
  return false;
}

class KerasWeightFinder {
 public:
  KerasWeightFinder(const WeightsFile& file, const Model& model, bool parts,
                    std::vector<const StoredTensor*>* tensors)
      : file_(file),
        model_(model),
        variables_(model.variables()),
        older_(OlderPaths(model)),
        parts_(parts),
        found_(*tensors) {}

  Status Run() {
    found_.assign(variables_.size(), nullptr);
    FindByWholeNames();
    if (AreUnnamed(file_)) return MatchInOrder();
    FindCandidates();
    return ChooseCandidates();
  }

 private:
  // The indices of variables, by the end of their path.
  using ByEnd = std::map<std::string, std::vector<size_t>>;

  void FindByWholeNames() {
    for (size_t v = 0; v < variables_.size(); ++v) {
      const std::string& path = variables_[v].path;
      found_[v] = file_.Find(kWeightsPrefix + path);
      if (found_[v] == nullptr && !file_.is_from_ringlet()) {
        found_[v] = file_.Find(path);
      }
    }
  }

  Status MatchInOrder() {
    const size_t arrays = file_.tensors().size();
    const ArrayOrder order = ArrayOrderOf(model_);
    const auto others = ArraysOfNormalizations(file_, model_, order);
    if (!others.empty()) {
      MatchAround(order.variables, others);
      return Status();
    }
    std::vector<size_t> places = order.variables;
    const std::vector<size_t> before_lora = WithoutLora(places);
    if (arrays == before_lora.size()) places = before_lora;
    if (arrays != places.size() && !parts_) {
      return InvalidArgument(
          "%s: holds %zu arrays without names (arr_0 and so on), but the model "
          "has %zu weights; write numpy.savez(file, *model.get_weights()), or "
          "arrays with names, as \"%s\"; by_name (--by-name) takes as many as "
          "there are, from the first",
          file_.path().c_str(), file_.tensors().size(), variables_.size(),
          variables_.empty() ? "dense/kernel" : variables_[0].path.c_str());
    }
    for (size_t v = 0; v < std::min(arrays, places.size()); ++v) {
      found_[places[v]] = FindArray(file_, v);
    }
    return Status();
  }

  // `places` without the matrices of LoRA.
  std::vector<size_t> WithoutLora(std::vector<size_t> places) const {
    const auto is_lora = [this](size_t v) {
      return IsLoraMatrix(variables_[v].path);
    };
    places.erase(std::remove_if(places.begin(), places.end(), is_lora),
                 places.end());
    return places;
  }

  // Matches the arrays in order, without the arrays of Normalizations
  // (`others`).
  void MatchAround(const std::vector<size_t>& variables,
                   const std::map<std::string, size_t>& others) {
    std::set<size_t> skipped;
    for (const auto& [name, first] : others) {
      for (size_t i = 0; i < kNormalizationArrays; ++i)
        skipped.insert(first + i);
    }
    size_t array = 0;
    for (const size_t v : variables) {
      while (skipped.count(array) > 0) ++array;
      found_[v] = FindArray(file_, array++);
    }
  }

  // The tensor's name as ringlet writes it; empty if it is not the name of a
  // weight.
  std::string WeightName(const StoredTensor& tensor) const {
    if (file_.is_from_ringlet()) {
      const bool weight = StartsWith(tensor.name, kWeightsPrefix);
      return weight ? WithoutPrefix(tensor.name, kWeightsPrefix) : "";
    }
    if (IsOptimizers(tensor.name)) return "";
    return WithoutCell(WithoutNumber(tensor.name));
  }

  // Lists candidates for each weight that is not found yet. A tensor is first a
  // candidate for the weight with the longest path that ends the tensor's name.
  // If there is none, it is a candidate for all weights with a path that ends
  // with its name, as in a nested model.
  void FindCandidates() {
    candidates_.resize(variables_.size());
    std::map<std::string, size_t> by_path;
    ByEnd by_end;
    for (size_t v = 0; v < variables_.size(); ++v) {
      if (found_[v] != nullptr) continue;
      const std::string& path = variables_[v].path;
      AddPath(path, v, &by_path, &by_end);
      const auto older = older_.find(path);
      if (older == older_.end()) continue;
      AddPath(older->second, v, &by_path, &by_end);
    }
    const std::set<const StoredTensor*> found(found_.begin(), found_.end());
    for (const StoredTensor& tensor : file_.tensors()) {
      const std::string name = WeightName(tensor);
      if (found.count(&tensor) != 0 || name.empty()) continue;
      auto path = by_path.find(name);
      for (size_t at = 0; path == by_path.end() && NextPart(name, &at);) {
        path = by_path.find(name.substr(at));
      }
      if (path != by_path.end()) {
        candidates_[path->second].push_back(&tensor);
        continue;
      }
      for (const size_t v : by_end[name]) candidates_[v].push_back(&tensor);
    }
  }

  static void AddPath(const std::string& path, size_t v,
                      std::map<std::string, size_t>* by_path, ByEnd* by_end) {
    (*by_path)[path] = v;
    for (size_t at = 0; NextPart(path, &at);) {
      std::vector<size_t>& takers = (*by_end)[path.substr(at)];
      if (takers.empty() || takers.back() != v) takers.push_back(v);
    }
  }

  // Moves *at after the next '/'; false if there is none.
  static bool NextPart(const std::string& path, size_t* at) {
    const size_t slash = path.find('/', *at);
    if (slash == std::string::npos) return false;
    *at = slash + 1;
    return true;
  }

  // Chooses among the candidates of each weight. A tensor with the weight's
  // whole name (a ":0" does not count) is preferred to a tensor with a name
  // that only ends with it.
  Status ChooseCandidates() {
    std::map<const StoredTensor*, size_t> takers;
    for (size_t v = 0; v < variables_.size(); ++v) {
      std::vector<const StoredTensor*>& all = candidates_[v];
      for (const StoredTensor* tensor : all) {
        if (WeightName(*tensor) != variables_[v].path) continue;
        all = {tensor};
        break;
      }
      if (all.empty()) continue;
      const std::string& path = variables_[v].path;
      if (all.size() > 1) {
        return Ambiguous("weight '" + path + "'", all[0]->name, all[1]->name);
      }
      const auto taker = takers.emplace(all[0], v);
      if (!taker.second) {
        return Ambiguous("'" + Printable(all[0]->name) + "'",
                         variables_[taker.first->second].path, path);
      }
      found_[v] = all[0];
    }
    return Status();
  }

  Status Ambiguous(const std::string& subject, const std::string& a,
                   const std::string& b) const {
    return InvalidArgument(
        "%s: %s may be '%s' or '%s'; name the arrays as ringlet summary and "
        "export do: \"<layer>/<weight>\"",
        file_.path().c_str(), subject.c_str(), Printable(a).c_str(),
        Printable(b).c_str());
  }

  const WeightsFile& file_;
  const Model& model_;
  const std::vector<Variable>& variables_;
  const std::map<std::string, std::string> older_;
  const bool parts_;
  std::vector<const StoredTensor*>& found_;
  std::vector<std::vector<const StoredTensor*>> candidates_;
};

bool IsRead(const StoredTensor* tensor) {
  return tensor != nullptr && tensor->unread.empty();
}

// Finds the tensor with this name, or the only tensor that has groups in front
// of it ("body/norm/mean" for "norm/mean").
const StoredTensor* FindByPath(const WeightsFile& file,
                               const std::string& path) {
  const StoredTensor* found = nullptr;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string name = WithoutNumber(tensor.name);
    if (name == path) return &tensor;
    if (!EndsWith(name, "/" + path)) continue;
    if (found != nullptr) return nullptr;
    found = &tensor;
  }
  return found;
}

}  // namespace

std::vector<StoredNormalization> FindNormalizations(const WeightsFile& file,
                                                    const Model& model) {
  std::vector<StoredNormalization> all;
  if (file.is_from_ringlet()) return all;
  const ArrayOrder order = ArrayOrderOf(model);
  const auto arrays = ArraysOfNormalizations(file, model, order);
  for (const auto& [name, first] : order.normalizations) {
    StoredNormalization stored = {name, FindByPath(file, name + "/mean"),
                                  FindByPath(file, name + "/variance"),
                                  FindByPath(file, name + "/count")};
    const auto array = arrays.find(name);
    if (array != arrays.end()) {
      stored = {name, FindArray(file, array->second),
                FindArray(file, array->second + 1),
                FindArray(file, array->second + 2)};
    }
    if (IsRead(stored.mean) && IsRead(stored.variance)) all.push_back(stored);
  }
  return all;
}

Status FindKerasWeights(const WeightsFile& file, const Model& model, bool parts,
                        std::vector<const StoredTensor*>* tensors) {
  return KerasWeightFinder(file, model, parts, tensors).Run();
}

}  // namespace ringlet
