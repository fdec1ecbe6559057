// Computes the sizes of the blocks of model_memory.cc without allocating them.

#include "../base/check.h"
#include "../base/state_names.h"
#include "model_memory.h"

namespace ringlet {

GridLayout MakeGridLayout(const Graph& graph) {
  GridLayout layout;
  for (const Variable& v : graph.variables()) {
    if (!v.trained()) continue;
    RINGLET_CHECK(v.gradient_offset == layout.numbers());
    layout.Add(v.size());
  }
  for (const Variable& v : graph.variables()) {
    if (v.change_offset < 0) continue;
    RINGLET_CHECK(graph.num_trained() + v.change_offset == layout.numbers());
    layout.Add(v.size());
  }
  return layout;
}

MemoryPlan ModelMemory::Plan(int64_t batch) const {
  MemoryPlan sizes;
  sizes.weights = Arena::RoundUp(static_cast<uint64_t>(graph_.num_weights()) *
                                 sizeof(float));
  const auto trained =
      static_cast<uint64_t>(graph_.num_trained()) * sizeof(float);
  sizes.gradients = Arena::RoundUp(
      trained + static_cast<uint64_t>(graph_.num_changes()) * sizeof(float));
  if (options_.sums) sizes.gradients *= 2;
  if (options_.exact) {
    sizes.gradients +=
        Arena::RoundUp(static_cast<uint64_t>(MakeGridLayout(graph_).blocks()));
  }
  sizes.slots =
      Arena::RoundUp(trained) * static_cast<uint64_t>(options_.num_slots);
  if (options_.local_replicas > 0) {
    const auto summed =
        static_cast<uint64_t>(graph_.num_trained() + graph_.num_changes());
    const auto others = static_cast<uint64_t>(options_.local_replicas - 1);
    sizes.local = sizes.weights + Arena::RoundUp(trained) +
                  Arena::RoundUp(others * summed * sizeof(float));
    const auto all = static_cast<uint64_t>(options_.all_replicas);
    if (options_.errors) sizes.local += Arena::RoundUp(all * trained);
    if (options_.starts) {
      sizes.local +=
          Arena::RoundUp(summed * sizeof(float)) +
          Arena::RoundUp(all * static_cast<uint64_t>(graph_.num_weights()) *
                         sizeof(float));
    }
  }
  RINGLET_CHECK(sizes.kept() == persistent_bytes_);

  const StepPlan plan = MakeStepPlan(batch, /*training=*/true);
  plan.AddSizesTo(&sizes);
  const uint64_t planned =
      sizes.activations + sizes.activation_gradients + sizes.scratch;
  sizes.shared = planned - plan.bytes();
  const uint64_t losses =
      Arena::RoundUp(static_cast<uint64_t>(batch) * sizeof(float));
  sizes.scratch += losses;
  Arena counting;
  PlaceStep(batch, plan, &counting);
  sizes.batches = counting.used() - losses - Arena::RoundUp(plan.bytes());
  return sizes;
}

void WeightsState::AppendState(std::vector<StateSpan>* spans) {
  for (const Variable& v : graph_.variables()) {
    spans->push_back({kWeightsPrefix + v.path, DType::kFloat32, v.shape,
                      memory_.persistent().weights + v.offset});
  }
}

}  // namespace ringlet
