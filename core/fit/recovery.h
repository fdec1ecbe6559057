// Recovery: what a fit goes on from after a worker was lost.
//
// Internal to core/. In a job that is elastic, or of several with a callback
// that RestoresAfterLoss, every rank keeps in memory its state at the last step
// boundary, and the weights of before what callbacks do to them at an epoch's
// end. Elsewhere nothing is kept. Where rounds scatter their state
// (LocalUpdates::scatters) no rank has all of that at each boundary: an elastic
// job goes back to the last Proven, another one to a backup.

#ifndef RINGLET_CORE_FIT_RECOVERY_H_
#define RINGLET_CORE_FIT_RECOVERY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "../base/status.h"
#include "../model/model.h"
#include "../model/worker_steps.h"
#include "callback.h"
#include "run_state.h"

namespace ringlet {

class Recovery {
 public:
  // `model` and `fit` outlive it.
  Recovery(Model* model, FitState* fit) : model_(*model), fit_(*fit) {}

  // --- a fit begins, after every callback's OnSetup
  // All ranks take the state of the one that had gone furthest among those that
  // were in this fit when a worker was lost. One that has not the whole of any,
  // for a callback was cut off behind a step, or another's state on its way,
  // has that of the last Proven. Sets fit->in_memory or fit->lost.
  Status TakeUpState();
  // The first snapshot: from here on a lost worker does not cost the others
  // what they have done.
  void Begin();

  // --- while it runs
  void TakeSnapshot();       // at a step boundary
  void TakeWholeSnapshot();  // and where callbacks may change large states
  void CopyWeights();
  void DropWeights() { weights_.reset(); }
  // A step has changed the weights: the last snapshot does not go with them.
  void StepTaken() {
    snapshot_.Invalidate();
    unproven_ = true;
  }

  // All workers have computed alike up to the last snapshot, and each has all
  // of the state.
  void Proven();

  // --- a worker is lost
  // Before the callbacks let go of their states.
  void Preserve();
  // … and where steps were trained since, the state is what the last Proven has
  // kept: a worker has computed other numbers, which are in everybody's, or has
  // had a part of the state alone. Where nothing is kept this worker's state is
  // no one's.
  void GoBack();
  // … and a worker may have done so: that, where something is kept, which is
  // not in doubt too where they were to compare and have not begun to.
  void GoBackInDoubt();
  // Rounds scatter it, and there were some since the last snapshot that all
  // have.
  bool scattered() const;
  // Steps were trained, or could have been.
  bool begun() const { return begun_; }
  // This worker has the state of the last snapshot.
  bool whole() const { return snapshot_.valid(); }
  // … and another state was written over this worker's, not to the end: as
  // GoBack.
  void Replaced();
  // Waits until all ranks are together again, however many are lost meanwhile;
  // in an elastic job those that are there.
  Status Rejoin(int lost_rank);

 private:
  // What a rank has for the others to go on from.
  struct Offer;
  int Furthest(const std::vector<Offer>& offers) const;
  static UncomparedSteps KeptWith(const std::vector<Offer>& offers, int source);
  bool enabled() const;
  // This worker's state is no one's whole state.
  void Forget();

  Model& model_;
  FitState& fit_;
  StepSnapshot snapshot_;
  bool begun_ = false;  // the run has a state beyond its start
  bool takes_snapshots_ = false;
  std::unique_ptr<float[]> weights_;
  // Of the last Proven: weights, slots and steps, and what goes with them.
  std::vector<StateSpan> ModelSpans() const;
  bool unproven_ = false;  // the state has steps, or is of one that has some
  std::unique_ptr<unsigned char[]> proven_;
  StepSnapshot proven_snapshot_;
  // … or, where nothing is kept here, what those have kept whose state this is:
  // so much they believe.
  UncomparedSteps proven_uncompared_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_FIT_RECOVERY_H_
