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
// query, key and value, which may be blocks of one tensor; `out_proj` has those
// of the output.
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

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

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

// The last role that both have, if all roles of both have equal shapes; else
// "". (A normalization may have no weight.)
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
    std::sort(modules->begin(), modules->end(),
              [](const Module& a, const Module& b) {
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
          file.is_npz() ? "names sorted as text do not keep the modules' "
                          "order"
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

// Finds modules by layers' names: "body.conv1" for "body/conv1", and "conv1" if
// no other layer's path ends with it. A prefix of all names may be left out.
class ModulesByName {
 public:
  ModulesByName(std::vector<Module>* modules, const Model& model)
      : modules_(*modules), prefix_(CommonPrefix(*modules)) {
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
  std::vector<Module>::iterator Find(const Model& model, int node,
                                     const std::string& role) const {
    const auto found = Find(ModulePath(model, node), role);
    return found == modules_.end() ? Find(model.layer(node).name, role) : found;
  }

  // The role of a layer's variable, such as "kernel" or "depthwise_kernel".
  std::vector<Module>::iterator Find(const std::string& path,
                                     const std::string& role) const {
    auto found = FindNamed(path, role);
    for (size_t at = path.find('/');
         found == modules_.end() && at != std::string::npos;
         at = path.find('/', at + 1)) {
      const std::string end = path.substr(at + 1);
      if (layers_.at(end) == 1) found = FindNamed(end, role);
    }
    return found;
  }

 private:
  // Also tries the name with the prefix, unless another layer has this name.
  std::vector<Module>::iterator FindNamed(const std::string& name,
                                          const std::string& role) const {
    const std::string own = ModuleOf(name, role);
    auto found = FindExactly(own);
    if (found == modules_.end()) found = FindExactly(WithDots(own));
    const std::string other = prefix_ + WithDots(name);
    if (found == modules_.end() && paths_.count(other) == 0) {
      found = FindExactly(prefix_ + WithDots(own));
    }
    return found;
  }
  std::vector<Module>::iterator FindExactly(const std::string& name) const {
    return std::find_if(modules_.begin(), modules_.end(),
                        [&](const Module& m) { return m.name == name; });
  }

  std::vector<Module>& modules_;
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
bool HasBackward(const std::vector<Module>& modules,
                 std::vector<Module>::const_iterator module) {
  return module != modules.end() &&
         module->Find(std::string(kRecurrentRoles[0].torch) + kBackward);
}

// Finds a weight of a recurrent layer in PyTorch's module.
void FindInRecurrent(const Module& module, const std::string& own,
                     const std::string& suffix, TorchWeight* weight) {
  for (const Role& role : kRecurrentRoles) {
    if (role.keras == own) weight->tensor = module.Find(role.torch + suffix);
  }
  if (own == "bias") weight->second = module.Find(kSecondBias + suffix);
}

bool IsOfOutput(const std::string& role) {
  return StartsWith(role, "attention_output");
}

// Finds a weight of a MultiHeadAttention in the module of PyTorch, or in a
// Linear of its own.
void FindInAttention(const Module& module, const std::string& own,
                     TorchWeight* weight) {
  if (!IsAttention(module)) {
    weight->tensor = module.Find(EndsWith(own, "kernel") ? "weight" : "bias");
    return;
  }
  for (const auto& role : kAttentionRoles) {
    const StoredTensor* const tensor = module.Find(role.torch);
    if (tensor == nullptr || own != role.keras) continue;
    weight->tensor = tensor;
    weight->part = role.part;
    weight->parts = role.parts;
  }
}

// Returns the module with a weight of a MultiHeadAttention, by name.
std::vector<Module>::iterator FindAttention(const ModulesByName& by_names,
                                            std::vector<Module>::iterator none,
                                            const std::string& path,
                                            const std::string& own) {
  const auto output =
      by_names.Find(path, std::string(kAttentionOutput) + "_kernel");
  if (IsOfOutput(own) && output != none) return output;
  const auto match = by_names.Find(path, "");
  if (match != none && IsAttention(*match)) return match;
  return by_names.Find(path, own.substr(0, own.rfind('_')) + "_kernel");
}

// True if a module has the name of a weight of the model.
bool AnyHasName(const Model& model, const ModulesByName& by_names,
                std::vector<Module>::iterator none) {
  for (int node = 0; node < model.num_nodes(); ++node) {
    const std::string own = model.layer(node).name + "/";
    const bool attends =
        StepLayer(model.layer(node)).kind == Layer::Kind::kMultiHeadAttention;
    for (const Variable& variable : model.variables()) {
      const std::string role = WithoutPrefix(variable.path, own);
      if (role == variable.path || role.find('/') != std::string::npos) {
        continue;
      }
      const auto found =
          attends ? FindAttention(by_names, none, ModulePath(model, node), role)
                  : by_names.Find(model, node, role);
      if (found != none) return true;
    }
  }
  return false;
}

// Finds a weight of a layer of this kind in its module. `backward`: of the
// backward direction.
void FindInModule(const Module& module, Layer::Kind kind,
                  const std::string& own, bool backward, TorchWeight* weight) {
  if (IsRecurrent(kind)) {
    FindInRecurrent(module, own, backward ? kBackward : "", weight);
    return;
  }
  if (kind == Layer::Kind::kMultiHeadAttention) {
    FindInAttention(module, own, weight);
    return;
  }
  const std::string keras_role = EndsWith(own, "kernel") ? "kernel" : own;
  for (const Role& role : kRoles) {
    const StoredTensor* const tensor =
        role.keras == keras_role ? module.Find(role.torch) : nullptr;
    if (tensor != nullptr) weight->tensor = tensor;
  }
}

}  // namespace

Status FindTorchWeights(const WeightsFile& file, const Model& model,
                        bool names_only, std::vector<TorchWeight>* weights) {
  weights->clear();
  std::vector<Module> modules = ModulesOf(file);
  const ModulesByName by_names(&modules, model);
  const bool by_name = names_only || AnyHasName(model, by_names, modules.end());
  if (!by_name) RINGLET_RETURN_IF_ERROR(PutInOrder(file, &modules));

  const TorchImages images(model);
  auto next = modules.begin();
  size_t v = 0;  // variables are in the order of their nodes
  auto module = modules.end();
  for (int node = 0; node < model.num_nodes(); ++node) {
    const Layer& layer = model.layer(node);
    const std::string &name = layer.name, path = ModulePath(model, node);
    const Layer::Kind kind = StepLayer(layer).kind;
    const bool recurrent = IsRecurrent(kind);
    const bool attends = kind == Layer::Kind::kMultiHeadAttention;
    // True if the previous module has both directions.
    const bool backward =
        layer.keeps_order && (!file.is_onnx() || HasBackward(modules, module));
    if (!backward) module = modules.end();
    bool first = !backward;  // first variable of the layer
    for (; v < model.variables().size(); ++v) {
      const Variable& variable = model.variables()[v];
      const size_t slash = variable.path.rfind('/');
      if (variable.path.substr(0, slash) != name) break;
      const std::string own = variable.path.substr(slash + 1);
      const bool kernel = !recurrent && EndsWith(own, "kernel");
      if (attends && by_name) {
        module = FindAttention(by_names, modules.end(), path, own);
      } else if ((first || kernel) && by_name) {
        module = by_names.Find(model, node, own);
      }
      // The module of an attention has query, key and value.
      const bool again = attends && !first && !IsOfOutput(own) &&
                         module != modules.end() && IsAttention(*module);
      if ((first || kernel) && !by_name && !again) {
        const bool adds = kind == Layer::Kind::kPositionEmbedding;
        while (next != modules.end() && !adds && next->Find(kPositions)) ++next;
        module = next != modules.end() ? next++ : modules.end();
      }
      first = false;
      TorchWeight weight;
      weight.shape = variable.shape;
      if (module != modules.end()) {
        FindInModule(*module, kind, own, backward, &weight);
      }
      weight.channels_last =
          weight.tensor != nullptr && file.channels_last(*weight.tensor);
      weight.channels_first =
          weight.tensor != nullptr && file.channels_first(*weight.tensor);
      RINGLET_RETURN_IF_ERROR(
          FindAxes(file, model, images, node, own, &weight));
      weights->push_back(weight);
    }
  }
  RINGLET_CHECK(weights->size() == model.variables().size());
  return Status();
}

}  // namespace ringlet
