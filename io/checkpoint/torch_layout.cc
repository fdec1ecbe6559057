// Modules are matched to layers by name or, where no name agrees, in order;
// then each weight's axes are permuted. What cannot be decided by name or shape
// is refused, since weights of equal shape in the wrong layers would go
// unnoticed.

#include "torch_layout.h"

#include <algorithm>
#include <cstring>

#include "../../core/base/json.h"
#include "../../core/base/text.h"

namespace ringlet {
namespace {

// "conv1" of "conv1.weight" and "conv1.bias".
struct Module {
  std::string name;
  const StoredTensor* weight = nullptr;
  const StoredTensor* bias = nullptr;
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

// In the file's order.
std::vector<Module> Modules(const WeightsFile& file) {
  std::vector<Module> modules;
  for (const StoredTensor& tensor : file.tensors()) {
    const size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string name = tensor.name.substr(0, dot),
                      role = tensor.name.substr(dot + 1);
    if (role != "weight" && role != "bias") continue;
    auto module =
        std::find_if(modules.begin(), modules.end(),
                     [&name](const Module& m) { return m.name == name; });
    if (module == modules.end()) {
      module = modules.insert(module, Module());
      module->name = name;
    }
    (role == "weight" ? module->weight : module->bias) = &tensor;
  }
  return modules;
}

// safetensors files are sorted by who writes them; natural order puts them
// right where names differ in numbers alone, or where shapes tell.
Status PutInOrder(const WeightsFile& file, std::vector<Module>* modules) {
  if (file.is_npz()) return Status();
  std::sort(modules->begin(), modules->end(),
            [](const Module& a, const Module& b) {
              return NaturallyBefore(a.name, b.name);
            });
  for (const Module& a : *modules) {
    for (const Module& b : *modules) {
      if (&a == &b) break;
      if (a.weight == nullptr || b.weight == nullptr ||
          a.weight->shape != b.weight->shape ||
          WithoutDigits(a.name) == WithoutDigits(b.name)) {
        continue;
      }
      return InvalidArgument(
          "%s: '%s' and '%s' are of one shape, and a safetensors file does not "
          "keep their order; give the layers these names, or save the "
          "state_dict with numpy.savez",
          file.path().c_str(), Printable(b.weight->name).c_str(),
          Printable(a.weight->name).c_str());
    }
  }
  return Status();
}

// What PyTorch has as (channels, height, width) before it flattens it: the
// shape, here (height, width, channels), of the images whose elements stand
// one after another in `node`'s output; rank 0 where there are none, or their
// order is the same.
Status FlattenedImage(const Model& model, int node, Shape* image) {
  *image = Shape();
  const Layer& layer = model.layer(node);
  switch (layer.kind) {
    case Layer::Kind::kFlatten:
    case Layer::Kind::kReshape: {
      const int from = model.inputs(node)[0];
      if (model.output_shape(node).rank() != 1) return Status();
      if (model.output_shape(from).rank() != 3) {
        return FlattenedImage(model, from, image);
      }
      const Shape& shape = model.output_shape(from);
      if (shape[2] > 1 && shape[0] * shape[1] > 1) *image = shape;
      return Status();
    }
    case Layer::Kind::kDropout:
    case Layer::Kind::kActivation:
    case Layer::Kind::kAdd:
      return FlattenedImage(model, model.inputs(node)[0], image);
    case Layer::Kind::kConcatenate:
      for (const int input : model.inputs(node)) {
        RINGLET_RETURN_IF_ERROR(FlattenedImage(model, input, image));
        if (image->rank() == 0) continue;
        return InvalidArgument(
            "layer '%s': joins flattened images, which PyTorch orders in "
            "another way; concatenate them before they are flattened",
            layer.name.c_str());
      }
      return Status();
    default:
      return Status();
  }
}

Status FindKernel(const Model& model, int node, const Shape& kernel,
                  TorchWeight* weight) {
  const bool conv = model.layer(node).kind == Layer::Kind::kConv2D;
  weight->height = conv ? kernel[0] : 1;
  weight->width = conv ? kernel[1] : 1;
  weight->channels = kernel[conv ? 2 : 0];
  weight->filters = kernel[conv ? 3 : 1];
  if (conv) {
    weight->shape = {weight->filters, weight->channels, weight->height,
                     weight->width};
    return Status();
  }
  weight->shape = {weight->filters, weight->channels};
  const int from = model.inputs(node)[0];
  Shape image;
  if (model.output_shape(from).rank() == 1) {
    RINGLET_RETURN_IF_ERROR(FlattenedImage(model, from, &image));
  }
  if (image.rank() == 0) return Status();
  weight->height = image[0];
  weight->width = image[1];
  weight->channels = image[2];
  return Status();
}

}  // namespace

Status FindTorchWeights(const WeightsFile& file, const Model& model,
                        bool names_only, std::vector<TorchWeight>* weights) {
  weights->clear();
  std::vector<Module> modules = Modules(file);
  const auto named = [&modules](const std::string& name) {
    return std::find_if(modules.begin(), modules.end(),
                        [&name](const Module& m) { return m.name == name; });
  };
  bool by_name = names_only;
  for (int node = 0; node < model.num_nodes(); ++node) {
    by_name = by_name || named(model.layer(node).name) != modules.end();
  }
  if (!by_name) RINGLET_RETURN_IF_ERROR(PutInOrder(file, &modules));

  auto next = modules.begin();
  size_t v = 0;  // variables stand in the order of their nodes
  for (int node = 0; node < model.num_nodes(); ++node) {
    const std::string& name = model.layer(node).name;
    auto module = modules.end();
    for (bool first = true; v < model.variables().size(); ++v, first = false) {
      const Variable& variable = model.variables()[v];
      const size_t slash = variable.path.rfind('/');
      if (variable.path.substr(0, slash) != name) break;
      if (first && by_name) module = named(name);
      if (first && !by_name && next != modules.end()) module = next++;
      const bool kernel = variable.path.substr(slash) == "/kernel";
      TorchWeight weight;
      weight.shape = variable.shape;
      if (module != modules.end()) {
        weight.tensor = kernel ? module->weight : module->bias;
      }
      if (kernel) {
        RINGLET_RETURN_IF_ERROR(
            FindKernel(model, node, variable.shape, &weight));
      }
      weights->push_back(weight);
    }
  }
  RINGLET_CHECK(weights->size() == model.variables().size());
  return Status();
}

void FromTorch(const TorchWeight& how, const float* stored, float* weight) {
  const int64_t h = how.height, w = how.width, c = how.channels,
                o = how.filters;
  if (o == 0) {
    std::memcpy(weight, stored,
                static_cast<size_t>(how.shape.elements()) * sizeof(float));
    return;
  }
  const int64_t pixels = h * w;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t f = 0; f < o; ++f) {
        *weight++ = stored[(f * c + k) * pixels + p];
      }
    }
  }
}

}  // namespace ringlet
