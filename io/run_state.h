// RunState: all that a resumed fit needs, as one Saveable.
//
// Internal to io/.

#ifndef RINGLET_IO_RUN_STATE_H_
#define RINGLET_IO_RUN_STATE_H_

#include <string>
#include <vector>

#include "../core/callback.h"
#include "../core/saveable.h"
#include "../core/status.h"

namespace ringlet {

// Model, optimizer, position, running metrics, and every callback's state. A
// second callback of one kind is saved as "callback/<name>_1/...".
class RunState final : public Saveable {
 public:
  explicit RunState(FitState* fit) : fit_(fit) {}
  void AppendState(std::vector<StateSpan>* spans) override;
  Status StateLoaded() override;

 private:
  std::vector<Saveable*> Parts() const;

  FitState* const fit_;
};

// A line for each layer of the model: its class, its input where that is not
// the layer before, and what the shapes of weights do not tell, "Dense relu".
// Two models of one description and the same weights compute alike; rates,
// initializers and regularizers, which may be tuned in a run, are left out.
std::string DescribeLayers(const Model& model);

// Whether `saved`, a description, is that of `model`; otherwise
// kInvalidArgument names the first difference.
Status CheckLayers(const std::string& saved, const Model& model);

// What of a fit's data a resume depends on: "2000 examples, shuffled with seed
// 1, batches of 32, 63 steps an epoch". "" without data.
std::string DescribeData(const FitState& fit);

}  // namespace ringlet

#endif  // RINGLET_IO_RUN_STATE_H_
