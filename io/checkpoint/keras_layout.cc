// Names of other programs are matched in steps, from the exact one to the
// looser ones; a tensor that two weights could take, or a weight that could
// take two, is an error and never a guess.

#include "keras_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "../../core/base/json.h"
#include "../../core/base/text.h"

namespace ringlet {
namespace {

// "dense/kernel" of "dense/kernel:0", as TensorFlow numbers a variable.
std::string WithoutNumber(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || colon + 1 == name.size() ||
      name.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
    return name;
  }
  return name.substr(0, colon);
}

bool IsOptimizers(const std::string& name) {
  for (const char* prefix : {"optimizer/", "optimizer_weights/", "training/"}) {
    if (StartsWith(name, prefix)) return true;
  }
  return false;
}

class Finder {
 public:
  Finder(const WeightsFile& file, const Model& model,
         std::vector<const StoredTensor*>* tensors)
      : file_(file), variables_(model.variables()), found_(*tensors) {}

  Status Run() {
    found_.assign(variables_.size(), nullptr);
    FindByWholeNames();
    if (file_.is_ringlets()) return Status();
    if (AreUnnamed()) return TakeInOrder();
    FindCandidates();
    return TakeCandidates();
  }

 private:
  void FindByWholeNames() {
    for (size_t v = 0; v < variables_.size(); ++v) {
      const std::string& path = variables_[v].path;
      found_[v] = file_.Find(kWeightsPrefix + path);
      if (found_[v] == nullptr && !file_.is_ringlets()) {
        found_[v] = file_.Find(path);
      }
    }
  }

  // numpy.savez(file, *arrays) names them arr_0, arr_1 and so on.
  bool AreUnnamed() const {
    for (size_t i = 0; i < file_.tensors().size(); ++i) {
      if (file_.Find("arr_" + std::to_string(i)) == nullptr) return false;
    }
    return !file_.tensors().empty();
  }

  Status TakeInOrder() {
    if (file_.tensors().size() != variables_.size()) {
      return InvalidArgument(
          "%s: holds %zu arrays without names (arr_0 and so on), but the model "
          "has %zu weights; write numpy.savez(file, *model.get_weights()), or "
          "arrays with names, as \"%s\"",
          file_.path().c_str(), file_.tensors().size(), variables_.size(),
          variables_.empty() ? "dense/kernel" : variables_[0].path.c_str());
    }
    for (size_t v = 0; v < variables_.size(); ++v) {
      found_[v] = file_.Find("arr_" + std::to_string(v));
    }
    return Status();
  }

  // Of each weight not found yet: the tensors whose names end with its path,
  // and of those that end with several paths the longest; or that are its last
  // part alone.
  void FindCandidates() {
    candidates_.resize(variables_.size());
    std::map<std::string, size_t> by_path;
    std::map<std::string, std::vector<size_t>> by_role;
    for (size_t v = 0; v < variables_.size(); ++v) {
      if (found_[v] != nullptr) continue;
      const std::string& path = variables_[v].path;
      by_path[path] = v;
      by_role[path.substr(path.rfind('/') + 1)].push_back(v);
    }
    const std::set<const StoredTensor*> taken(found_.begin(), found_.end());
    for (const StoredTensor& tensor : file_.tensors()) {
      if (taken.count(&tensor) != 0 || IsOptimizers(tensor.name)) continue;
      const std::string name = WithoutNumber(tensor.name);
      if (name.find('/') == std::string::npos) {
        for (const size_t v : by_role[name]) candidates_[v].push_back(&tensor);
        continue;
      }
      for (size_t at = 0; at != std::string::npos;) {
        const auto path = by_path.find(name.substr(at));
        if (path != by_path.end()) {
          candidates_[path->second].push_back(&tensor);
          break;
        }
        at = name.find('/', at);
        if (at != std::string::npos) ++at;
      }
    }
  }

  // A tensor's name that is a weight's but for ":0" before one that only ends
  // with it.
  Status TakeCandidates() {
    std::map<const StoredTensor*, size_t> takers;
    for (size_t v = 0; v < variables_.size(); ++v) {
      std::vector<const StoredTensor*>& all = candidates_[v];
      for (const StoredTensor* tensor : all) {
        if (WithoutNumber(tensor->name) != variables_[v].path) continue;
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

  Status Ambiguous(const std::string& what, const std::string& a,
                   const std::string& b) const {
    return InvalidArgument(
        "%s: %s may be '%s' or '%s'; name the arrays as ringlet summary and "
        "export do: \"<layer>/<weight>\"",
        file_.path().c_str(), what.c_str(), Printable(a).c_str(),
        Printable(b).c_str());
  }

  const WeightsFile& file_;
  const std::vector<Variable>& variables_;
  std::vector<const StoredTensor*>& found_;
  std::vector<std::vector<const StoredTensor*>> candidates_;
};

}  // namespace

Status FindKerasWeights(const WeightsFile& file, const Model& model,
                        std::vector<const StoredTensor*>* tensors) {
  return Finder(file, model, tensors).Run();
}

}  // namespace ringlet
