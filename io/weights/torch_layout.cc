// Modules are matched to layers by name or, where no name agrees, in order;
// then each weight's axes are permuted. An ambiguous match is an error, since
// exchanged weights of equal shape would not be noticed.

#include "torch_layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "../../core/base/check.h"
#include "../../core/base/json.h"
#include "../../core/base/stable_sort.h"
#include "../../core/base/text.h"
#include "../../core/layers/layer_table.h"
#include "torch_images.h"

namespace ringlet {
namespace {

// PyTorch's names of a layer's weights.
struct Role {
  const char* torch;
  const char* keras;
};
// A matrix that an ONNX model adds to sequences; it may be no weight.
constexpr char kPositions[] = "positions";
constexpr Role kRoles[] = {
    {"weight", "kernel"},
    {"weight", "gamma"},
    {"weight", "alpha"},
    {"weight", "embeddings"},
    {kPositions, "embeddings"},
    {"bias", "bias"},
    {"bias", "beta"},
    {"running_mean", "moving_mean"},
    {"running_var", "moving_variance"},
};

// The roles of a recurrent layer. The backward layer of a Bidirectional has a
// suffix.
constexpr Role kRecurrentRoles[] = {
    {"weight_ih_l0", "kernel"},
    {"weight_hh_l0", "recurrent_kernel"},
    {"bias_ih_l0", "bias"},
};
// The roles of PyTorch's MultiheadAttention. Its own module has the weights of
// query, key and value, which may be blocks of one tensor; `out_proj` has the
// weights of the output.
constexpr struct {
  const char *torch, *keras;
  int64_t part, parts;
} kAttentionRoles[] = {
    {"in_proj_weight", "query_kernel", 0, 3},
    {"in_proj_weight", "key_kernel", 1, 3},
    {"in_proj_weight", "value_kernel", 2, 3},
    {"in_proj_bias", "query_bias", 0, 3},
    {"in_proj_bias", "key_bias", 1, 3},
    {"in_proj_bias", "value_bias", 2, 3},
    {"q_proj_weight", "query_kernel", 0, 1},
    {"k_proj_weight", "key_kernel", 0, 1},
    {"v_proj_weight", "value_kernel", 0, 1},
};
constexpr char kAttentionOutput[] = "out_proj";
constexpr char kSecondBias[] = "bias_hh_l0";
constexpr char kBackward[] = "_reverse";

bool IsRole(const std::string& name) {
  const std::string forward_name = WithoutSuffix(name, kBackward);
  const auto has = [](const auto& roles, const std::string& torch) {
    return std::any_of(std::begin(roles), std::end(roles),
                       [&](const auto& r) { return torch == r.torch; });
  };
  return has(kRoles, name) || has(kAttentionRoles, name) ||
         has(kRecurrentRoles, forward_name) || forward_name == kSecondBias;
}

// "bn1" of "bn1.weight", "bn1.bias", "bn1.running_mean".
struct Module {
  std::string name;
  std::map<std::string, const StoredTensor*> tensors;  // the keys are roles
  const StoredTensor* Find(const std::string& role) const {
    const auto found = tensors.find(role);
    return found == tensors.end() ? nullptr : found->second;
  }
};

// "layers.2" before "layers.10".
bool NaturallyBefore(const std::string& a, const std::string& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (!IsDigit(a[i]) || !IsDigit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto number = [](const std::string& text, size_t* at) {
      while (*at < text.size() && text[*at] == '0') ++*at;
      const size_t begin = *at;
      while (*at < text.size() && IsDigit(text[*at])) ++*at;
      return text.substr(begin, *at - begin);
    };
    const std::string m = number(a, &i), n = number(b, &j);
    if (m != n) return m.size() != n.size() ? m.size() < n.size() : m < n;
  }
  return a.size() < b.size();
}

std::string WithoutDigits(std::string name) {
  name.erase(std::remove_if(name.begin(), name.end(), IsDigit), name.end());
  return name;
}

// Returns the modules in the file's order.
std::vector<Module> ModulesOf(const WeightsFile& file) {
  std::vector<Module> modules;
  for (const StoredTensor& tensor : file.tensors()) {
    const size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string name = tensor.name.substr(0, dot),
                      role = tensor.name.substr(dot + 1);
    if (!IsRole(role)) continue;
    auto module =
        std::find_if(modules.begin(), modules.end(),
                     [&name](const Module& m) { return m.name == name; });
    if (module == modules.end()) {
      module = modules.insert(module, Module());
      module->name = name;
    }
    module->tensors[role] = &tensor;
  }
  return modules;
}

// The last role that both have, if all roles of both have equal shapes;
// otherwise "". (A normalization may have no weight.)
std::string RoleOfOneShape(const Module& a, const Module& b) {
  std::string same;
  for (const auto& [role, tensor] : a.tensors) {
    const StoredTensor* const other = b.Find(role);
    if (other == nullptr) continue;
    if (other->shape != tensor->shape) return "";
    same = role;
  }
  return same;
}

// True if all names are sorted as text. A state_dict with a bias is not: its
// weight comes first.
bool SortedAsText(const WeightsFile& file) {
  return std::is_sorted(file.tensors().begin(), file.tensors().end(),
                        [](const StoredTensor& a, const StoredTensor& b) {
                          return a.name < b.name;
                        });
}

Status AmbiguousError(const WeightsFile& file, const Module& a, const Module& b,
                      const std::string& role, const char* why) {
  return InvalidArgument(
      "%s: '%s' and '%s' are of one shape, and %s. Give the layers these "
      "names, or save model.state_dict() as it is with numpy.savez: sorting "
      "its names, or reading them from a safetensors file, loses their order",
      file.path().c_str(), Printable(a.name + "." + role).c_str(),
      Printable(b.name + "." + role).c_str(), why);
}

// A safetensors file does not keep the order of the modules, and neither does a
// file with names in text order. The natural order is right if names differ in
// numbers alone, or if shapes decide.
Status PutInOrder(const WeightsFile& file, std::vector<Module>* modules) {
  if (file.is_onnx()) return Status();
  const bool ordered = file.is_npz() && !SortedAsText(file);
  if (!ordered) {
    StableSort(modules, [](const Module& a, const Module& b) {
      return NaturallyBefore(a.name, b.name);
    });
  }
  for (const Module& b : *modules) {
    for (const Module& a : *modules) {
      if (&a == &b) break;  // `a` is before `b`
      const std::string role = RoleOfOneShape(a, b);
      if (role.empty()) continue;
      const bool numbered = WithoutDigits(a.name) == WithoutDigits(b.name);
      if (ordered && numbered && !NaturallyBefore(a.name, b.name)) {
        return AmbiguousError(
            file, a, b, role,
            "their order in the file is not that of their numbers");
      }
      if (ordered || numbered) continue;
      return AmbiguousError(
          file, a, b, role,
          file.is_npz() ? "names sorted as text do not keep the modules' order"
                        : "a safetensors file does not keep their order");
    }
  }
  return Status();
}

// Returns the name of the module with a layer's kernel. A separable convolution
// has two.
std::string ModuleOf(const std::string& layer, const std::string& role) {
  const size_t end = role.find("_kernel");
  return end == std::string::npos ? layer : layer + "." + role.substr(0, end);
}

// "body.conv1" of "body/conv1".
std::string WithDots(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

// Returns the layer that corresponds to PyTorch's module: the node's own, or
// for both directions the Bidirectional.
std::string ModulePath(const Model& model, int node) {
  const std::string& path = model.layer(node).name;
  const bool is_forward = node + 1 < model.num_nodes() &&
                          model.layer(node + 1).keeps_order &&
                          model.inputs(node + 1) == model.inputs(node);
  if (!is_forward && !model.layer(node).keeps_order) return path;
  return path.substr(0, path.rfind('/'));
}

// The prefix of all modules' names, such as "module." of a DataParallel.
std::string CommonPrefix(const std::vector<Module>& modules) {
  if (modules.empty()) return "";
  std::string prefix = modules[0].name;
  for (const Module& module : modules) {
    size_t same = 0;
    while (same < prefix.size() && same < module.name.size() &&
           prefix[same] == module.name[same]) {
      ++same;
    }
    prefix.resize(same);
  }
  return prefix.substr(0, prefix.rfind('.') + 1);  // npos + 1 is 0
}

// Finds modules by layers' names, null if none: "body.conv1" for "body/conv1",
// and "conv1" if no other layer's path ends with it. A prefix of all names may
// be left out.
class ModulesByName {
 public:
  ModulesByName(const std::vector<Module>& modules, const Model& model)
      : modules_(modules), prefix_(CommonPrefix(modules)) {
    std::set<std::string> paths;
    for (int node = 0; node < model.num_nodes(); ++node) {
      if (model.first_call(node) != node) continue;
      paths.insert({ModulePath(model, node), model.layer(node).name});
    }
    for (const std::string& path : paths) {
      paths_.insert(WithDots(path));
      ++layers_[path];
      for (size_t at = path.find('/'); at != std::string::npos;
           at = path.find('/', at + 1)) {
        ++layers_[path.substr(at + 1)];
      }
    }
  }

  // Finds a layer's module, and for one direction of a Bidirectional first the
  // module of both.
  const Module* Find(const Model& model, int node,
                     const std::string& role) const {
    const Module* const found = Find(ModulePath(model, node), role);
    return found == nullptr ? Find(model.layer(node).name, role) : found;
  }

  // The role of a layer's variable, such as "kernel" or "depthwise_kernel".
  const Module* Find(const std::string& path, const std::string& role) const {
    const Module* found = FindNamed(path, role);
    for (size_t at = path.find('/');
         found == nullptr && at != std::string::npos;
         at = path.find('/', at + 1)) {
      const std::string end = path.substr(at + 1);
      if (layers_.at(end) == 1) found = FindNamed(end, role);
    }
    return found;
  }

 private:
  // Also tries the name with the prefix, unless another layer has this name.
  const Module* FindNamed(const std::string& name,
                          const std::string& role) const {
    const std::string module_name = ModuleOf(name, role);
    const Module* found = FindExactly(module_name);
    if (found == nullptr) found = FindExactly(WithDots(module_name));
    const std::string other = prefix_ + WithDots(name);
    if (found == nullptr && paths_.count(other) == 0) {
      found = FindExactly(prefix_ + WithDots(module_name));
    }
    return found;
  }
  const Module* FindExactly(const std::string& name) const {
    for (const Module& module : modules_) {
      if (module.name == name) return &module;
    }
    return nullptr;
  }

  const std::vector<Module>& modules_;
  const std::string prefix_;
  std::set<std::string> paths_;        // "body.conv1"
  std::map<std::string, int> layers_;  // the number of paths with this end
};

// True for PyTorch's MultiheadAttention, without its out_proj.
bool IsAttention(const Module& module) {
  return std::any_of(
      std::begin(kAttentionRoles), std::end(kAttentionRoles),
      [&](const auto& r) { return module.Find(r.torch) != nullptr; });
}

// True if the module has the backward layer of a Bidirectional too.
bool HasBackward(const Module* module) {
  return module != nullptr &&
         module->Find(std::string(kRecurrentRoles[0].torch) + kBackward);
}

// Finds a weight of a recurrent layer in PyTorch's module.
void FindInRecurrent(const Module& module, const std::string& keras_role,
                     const std::string& suffix, TorchWeight* weight) {
  for (const Role& role : kRecurrentRoles) {
    if (role.keras == keras_role)
      weight->tensor = module.Find(role.torch + suffix);
  }
  if (keras_role == "bias") weight->second = module.Find(kSecondBias + suffix);
}

bool IsOfOutput(const std::string& role) {
  return StartsWith(role, "attention_output");
}

// Finds a weight of a MultiHeadAttention in the module of PyTorch, or in a
// Linear of its own.
void FindInAttention(const Module& module, const std::string& keras_role,
                     TorchWeight* weight) {
  if (!IsAttention(module)) {
    weight->tensor =
        module.Find(EndsWith(keras_role, "kernel") ? "weight" : "bias");
    return;
  }
  for (const auto& role : kAttentionRoles) {
    const StoredTensor* const tensor = module.Find(role.torch);
    if (tensor == nullptr || keras_role != role.keras) continue;
    weight->tensor = tensor;
    weight->part = role.part;
    weight->parts = role.parts;
  }
}

// Returns the module with a weight of a MultiHeadAttention, by name.
const Module* FindAttention(const ModulesByName& by_names,
                            const std::string& path, const std::string& role) {
  const Module* const output =
      by_names.Find(path, std::string(kAttentionOutput) + "_kernel");
  if (IsOfOutput(role) && output != nullptr) return output;
  const Module* const match = by_names.Find(path, "");
  if (match != nullptr && IsAttention(*match)) return match;
  return by_names.Find(path, role.substr(0, role.rfind('_')) + "_kernel");
}

// True if a module has the name of a weight of the model.
bool AnyHasName(const Model& model, const ModulesByName& by_names) {
  for (int node = 0; node < model.num_nodes(); ++node) {
    const std::string prefix = model.layer(node).name + "/";
    const bool attends =
        StepLayer(model.layer(node)).kind == Layer::Kind::kMultiHeadAttention;
    for (const Variable& variable : model.variables()) {
      const std::string role = WithoutPrefix(variable.path, prefix);
      if (role == variable.path || role.find('/') != std::string::npos) {
        continue;
      }
      const Module* const found =
          attends ? FindAttention(by_names, ModulePath(model, node), role)
                  : by_names.Find(model, node, role);
      if (found != nullptr) return true;
    }
  }
  return false;
}

// Finds a weight of a layer of this kind in its module. With `backward` it is a
// weight of the backward direction.
void FindInModule(const Module& module, Layer::Kind kind,
                  const std::string& role, bool backward, TorchWeight* weight) {
  if (IsRecurrent(kind)) {
    FindInRecurrent(module, role, backward ? kBackward : "", weight);
    return;
  }
  if (kind == Layer::Kind::kMultiHeadAttention) {
    FindInAttention(module, role, weight);
    return;
  }
  const std::string keras_role = EndsWith(role, "kernel") ? "kernel" : role;
  for (const Role& known : kRoles) {
    const StoredTensor* const tensor =
        known.keras == keras_role ? module.Find(known.torch) : nullptr;
    if (tensor != nullptr) weight->tensor = tensor;
  }
}

// Finds the module of each weight, one layer after another.
class TorchMatcher {
 public:
  // Without `by_name` the modules are taken in their order.
  TorchMatcher(const WeightsFile& file, const Model& model, bool by_name,
               const ModulesByName& by_names,
               const std::vector<Module>& modules)
      : file_(file),
        model_(model),
        by_name_(by_name),
        by_names_(by_names),
        images_(model),
        modules_(modules) {}

  // Appends the weights of a layer. The model's variables are in the order of
  // their nodes.
  Status MatchLayer(int node, std::vector<TorchWeight>* weights) {
    const Layer& layer = model_.layer(node);
    // True if the previous module has both directions.
    const bool backward =
        layer.keeps_order && (!file_.is_onnx() || HasBackward(module_));
    if (!backward) module_ = nullptr;
    bool first = !backward;
    for (; weights->size() < model_.variables().size(); first = false) {
      const Variable& variable = model_.variables()[weights->size()];
      const size_t slash = variable.path.rfind('/');
      if (variable.path.substr(0, slash) != layer.name) break;
      const std::string role = variable.path.substr(slash + 1);
      ChooseModule(node, role, first);
      TorchWeight weight;
      weight.shape = variable.shape;
      if (module_ != nullptr) {
        FindInModule(*module_, StepLayer(layer).kind, role, backward, &weight);
      }
      if (weight.tensor != nullptr) {
        weight.channels_last = file_.channels_last(*weight.tensor);
        weight.channels_first = file_.channels_first(*weight.tensor);
      }
      RINGLET_RETURN_IF_ERROR(
          FindAxes(file_, model_, images_, node, role, &weight));
      weights->push_back(weight);
    }
    return Status();
  }

 private:
  // Sets module_ for the variable `role` of the layer. `first` is true for the
  // layer's first variable.
  void ChooseModule(int node, const std::string& role, bool first) {
    const Layer::Kind kind = StepLayer(model_.layer(node)).kind;
    const bool attends = kind == Layer::Kind::kMultiHeadAttention;
    const bool may_differ =
        first || (!IsRecurrent(kind) && EndsWith(role, "kernel"));
    if (by_name_ && attends) {
      module_ = FindAttention(by_names_, ModulePath(model_, node), role);
      return;
    }
    // The module of an attention has query, key and value.
    const bool again = attends && !first && !IsOfOutput(role) &&
                       module_ != nullptr && IsAttention(*module_);
    if (!may_differ || again) return;
    module_ = by_name_ ? by_names_.Find(model_, node, role) : NextModule(kind);
  }

  const Module* NextModule(Layer::Kind kind) {
    const bool adds = kind == Layer::Kind::kPositionEmbedding;
    while (next_ < modules_.size() && !adds && modules_[next_].Find(kPositions))
      ++next_;
    return next_ < modules_.size() ? &modules_[next_++] : nullptr;
  }

  const WeightsFile& file_;
  const Model& model_;
  const bool by_name_;
  const ModulesByName& by_names_;
  const TorchImages images_;
  const std::vector<Module>& modules_;
  size_t next_ = 0;                 // the first module that is not matched yet
  const Module* module_ = nullptr;  // null if no module has the weight
};

}  // namespace

Status FindTorchWeights(const WeightsFile& file, const Model& model,
                        bool names_only, std::vector<TorchWeight>* weights) {
  weights->clear();
  std::vector<Module> modules = ModulesOf(file);
  const ModulesByName by_names(modules, model);
  const bool by_name = names_only || AnyHasName(model, by_names);
  if (!by_name) RINGLET_RETURN_IF_ERROR(PutInOrder(file, &modules));
  TorchMatcher matcher(file, model, by_name, by_names, modules);
  for (int node = 0; node < model.num_nodes(); ++node) {
    RINGLET_RETURN_IF_ERROR(matcher.MatchLayer(node, weights));
  }
  RINGLET_CHECK(weights->size() == model.variables().size());
  return Status();
}

}  // namespace ringlet
