// Keras does not keep the order in which layers were made. It sorts the layers
// of a functional model by their depth: the number of calls on the longest path
// to an output. All calls of a shared layer have the depth of the deepest one.
// Layers of one depth are in the order in which a search from the outputs finds
// them.

#include "keras_order.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "../../core/base/stable_sort.h"
#include "../../core/layers/nested_model.h"

namespace ringlet {
namespace {

class DepthOrder {
 public:
  explicit DepthOrder(const NestedModel& model)
      : model_(model),
        entered_(model.calls.size(), false),
        found_(model.layers.size(), static_cast<int>(model.calls.size())),
        depths_(model.layers.size(), -1) {}

  // The indices of the layers.
  std::vector<size_t> Run() {
    for (const int output : model_.outputs) SearchFrom(output);
    SetDepths();
    return SortedPlaces(model_.layers.size(), [this](size_t a, size_t b) {
      return depths_[a] != depths_[b] ? depths_[a] > depths_[b]
                                      : found_[a] < found_[b];
    });
  }

 private:
  // Appends the calls that `output` depends on to sorted_, each after its
  // inputs.
  void SearchFrom(int output) {
    std::vector<std::pair<int, size_t>> path;  // a call, and its next input
    Enter(output, &path);
    while (!path.empty()) {
      const int call = path.back().first;
      const std::vector<int>& inputs = CallOf(call).inputs;
      if (path.back().second == inputs.size()) {
        sorted_.push_back(call);
        path.pop_back();
      } else {
        Enter(inputs[path.back().second++], &path);
      }
    }
  }

  void Enter(int call, std::vector<std::pair<int, size_t>>* path) {
    if (entered_[static_cast<size_t>(call)]) return;
    entered_[static_cast<size_t>(call)] = true;
    int& found = found_[LayerOf(call)];
    found = std::min(found, num_found_++);
    path->emplace_back(call, 0);
  }

  void SetDepths() {
    std::vector<int> calls(model_.calls.size(), 0);
    for (size_t i = sorted_.size(); i-- > 0;) {
      int& depth = depths_[LayerOf(sorted_[i])];
      depth = std::max(depth, calls[static_cast<size_t>(sorted_[i])]);
      for (const int input : CallOf(sorted_[i]).inputs) {
        int& before = calls[static_cast<size_t>(input)];
        before = std::max(before, depth + 1);
      }
    }
  }

  const NestedModel::Call& CallOf(int call) const {
    return model_.calls[static_cast<size_t>(call)];
  }
  size_t LayerOf(int call) const {
    return static_cast<size_t>(CallOf(call).layer);
  }

  const NestedModel& model_;
  std::vector<bool> entered_;  // calls
  std::vector<int> sorted_;    // calls
  int num_found_ = 0;
  std::vector<int> found_, depths_;  // the found layers and their depths
};

void AppendLayers(const NestedModel& model, const std::string& before,
                  std::vector<std::string>* paths) {
  std::vector<size_t> order(model.layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (model.class_name != "Sequential") order = DepthOrder(model).Run();
  for (const size_t i : order) {
    const Layer& layer = model.layers[i];
    const std::string path = before + layer.name;
    if (layer.model != nullptr) {
      AppendLayers(*layer.model, path + "/", paths);
    } else {
      paths->push_back(path);
    }
  }
}

}  // namespace

std::vector<std::string> LayersInKerasOrder(const Model& model) {
  std::vector<std::string> paths;
  const Layer root = model.AsLayer(/*with_weights=*/false);
  if (root.model->status.ok()) AppendLayers(*root.model, "", &paths);
  return paths;
}

}  // namespace ringlet
