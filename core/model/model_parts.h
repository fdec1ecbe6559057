// ModelParts: the access of fit and recovery to the parts of a model.
//
// It reads each part from the model in every call: a callback may move the
// model during a fit, and a model that was moved from is empty.

#ifndef RINGLET_CORE_MODEL_MODEL_PARTS_H_
#define RINGLET_CORE_MODEL_MODEL_PARTS_H_

#include "model_impl.h"
#include "ringlet/model.h"

namespace ringlet {

class ModelParts {
 public:
  explicit ModelParts(const Model* model) : model_(model) {}

  CompileConfig& config() const { return impl().config; }
  Stepper& stepper() const { return impl().stepper; }
  LocalTrainer& local_trainer() const { return impl().local_trainer; }
  ReplicaConsistency& consistency() const { return impl().consistency; }
  Updater& updater() const { return impl().updater; }
  FitRecord& record() const { return impl().record; }
  const Graph& graph() const { return impl().graph; }
  Graph* mutable_graph() const { return &impl().graph; }

  // Returns an error if the model cannot train.
  Status CheckUsable() const { return impl().CheckUsable(); }
  // Call after `config().job_replicas` has changed.
  void ApplyReplicaAssignment() const { impl().ApplyReplicaAssignment(); }
  Status Rejoin(bool incumbent, bool has_state) const {
    return impl().Rejoin(incumbent, has_state);
  }

 private:
  Model::Impl& impl() const { return *model_->impl_; }

  const Model* model_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MODEL_PARTS_H_
