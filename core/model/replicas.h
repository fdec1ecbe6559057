// Replicas: that all ranks have the same model, and whose state they begin
// with.
//
// Internal to core/. Every rank calls the same function.

#ifndef RINGLET_CORE_MODEL_REPLICAS_H_
#define RINGLET_CORE_MODEL_REPLICAS_H_

#include <cstdint>
#include <vector>

#include "../base/status.h"
#include "compile_config.h"
#include "fingerprint.h"
#include "graph.h"
#include "model_memory.h"
#include "stepper.h"
#include "updater.h"
#include "verdict.h"
#include "worker_steps.h"

namespace ringlet {

class Replicas {
 public:
  // All outlive it.
  Replicas(const Graph* graph, const CompileConfig* config,
           const ModelMemory* memory, Updater* updater)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater) {}

  // The weights were placed anew: they are whole, and not another rank's.
  void Begin() {
    torn_ = took_ = holds_others_ = judged_ = spoiled_ = undecided_ = false;
    disbelief_.Clear();
    EndDoubt();
    uncompared_ = {};
    marks_.clear();
  }
  // Compares the ranks' models, and gives all of them the state of one: of
  // those that `lived` through a loss the one that has made most steps, else
  // rank 0's. A state that has a named worker's numbers nobody takes, nor keeps
  // it who has it. Where none that was in the run has its state whole nobody
  // takes any: see CheckWhole.
  Status Join(bool lived);
  // By the last Join nobody has the model whole, since the worker that gave it
  // to the others was lost meanwhile.
  Status CheckWhole() const;
  bool torn() const { return torn_; }
  // It is that of another, which had trained: without that one's position in
  // its fit it is of no use.
  bool holds_others() const { return holds_others_; }
  // The ranks meet anew: the last Join is of before.
  void Meet() {
    took_ = judged_ = spoiled_ = undecided_ = false;
    checked_ = {-1, 0};
    named_.clear();
    absent_doubt_ = doubt_;
  }
  // A state that was not this rank's has arrived by Join, in part or whole.
  bool changed() const { return torn_ || took_; }
  // What is not Join has written over the state, and was cut off …
  void Tear() { torn_ = true; }
  // … and this rank has gone back to an own one that is whole …
  void Mend() { torn_ = holds_others_ = false; }
  // … or the whole state has come from elsewhere.
  void Restored() { torn_ = holds_others_ = false; }
  // A step was made by the workers that there are.
  void StepTaken();
  // Whose numbers are in this rank's state.
  const UncomparedSteps& uncompared() const { return uncompared_; }
  // The state is another one, with these.
  void SetUncompared(const UncomparedSteps& of) { uncompared_ = of; }
  // The last verdict is on workers of whose steps a state with `kept` has fewer
  // than this rank's has.
  bool FreesFrom(const UncomparedSteps& kept) const;
  // This rank has gone back after a verdict, to a state with these, which is
  // the present one now; nor are more of the named ones' steps believed …
  void WentBack(const UncomparedSteps& kept);
  // … or has none, and others have gone back to one with these.
  void Disbelieve(const UncomparedSteps& kept);
  // A loss cut a comparison off, which may have named one, and this rank goes
  // back to a state with these. What others have added to its own is in doubt,
  // by the next Join for all: where they can they go on from a state without,
  // until all have passed a comparison, or this rank has made a step alone.
  void Doubt(const UncomparedSteps& kept);
  // A state that has these may be wrong, by a verdict …
  bool Disbelieves(const UncomparedSteps& of) const {
    return of.AreOf(disbelief_);
  }
  // … or is to give way to one of before, where there is one. Not for those who
  // are in the run and here: they compare with all before any step, and were
  // not named before, or have not heard it.
  bool Doubts(const UncomparedSteps& of) const {
    return of.AreOf(absent_doubt_);
  }
  // … until that comparison they may be lost all the same.
  bool MayDoubt(const UncomparedSteps& of) const { return of.AreOf(doubt_); }
  const Disbelief& disbelief() const { return disbelief_; }
  // Of the weights and the optimizer's slots. Of two kinds, so that other
  // weights go unnoticed once in 2^64, and slots alone once in 2^32.
  int64_t StateDigest() const;
  // kOutOfSync where the ranks' states differ.
  Status Check() const;
  // Elastic jobs: that, and what each rank has computed in one and the same
  // pass. Errors as Judge has them.
  Status CrossCheck(const PassDigests& mine);
  // The last CrossCheck since they met was after so many steps.
  bool checked(int64_t step) const { return checked_.step == step; }
  // The last error was a verdict, which the others know or need not …
  bool judged() const { return judged_; }
  // … on one whose numbers are in this rank's state.
  bool spoiled() const { return spoiled_; }
  // A worker was lost while they compared. Perhaps it was the one that is
  // wrong, and nobody else has heard the verdict.
  bool undecided() const { return undecided_; }
  // Between two steps, at fixed numbers of steps, and at once after the check
  // of these: the digest of the state is kept, for the next Join to compare
  // with what those have who were elsewhere.
  void Mark();
  // What comes after the present step is not history.
  void ForgetLaterMarks();
  // No rank's state is gone on from, as where a backup is all that is left: nor
  // is what was before.
  void ForgetMarks() { marks_.clear(); }

 private:
  // The state after so many steps.
  struct StateMark {
    int64_t step, digest;
  };
  static constexpr size_t kMarks = 16;
  // What a rank has to give, and what its history is.
  struct Standing {
    int64_t age, digest;
    std::vector<StateMark> marks;
    UncomparedSteps uncompared;
    bool SameState(const Standing& other) const {
      return age == other.age && digest == other.digest;
    }
  };
  void EndDoubt() {
    doubt_.Clear();
    absent_doubt_.Clear();
  }
  Fingerprint MakeFingerprint() const;
  int Root(const std::vector<Standing>& all) const;
  Status CompareArithmetic() const;
  Status GatherStandings(int64_t age, std::vector<Standing>* all);
  Status Judged(const std::vector<Findings>& all,
                const std::vector<const char*>& parts,
                const std::string& where);
  Status CompareMarks(const std::vector<Standing>& all);
  int64_t Age(bool lived) const;
  uint32_t SlotsDigest(uint32_t digest) const;
  Status TakeStateOf(int root, bool with_optimizer);

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  Updater& updater_;
  bool torn_ = false;  // this rank's state is no one's whole state
  bool took_ = false;  // the last Join changed it
  bool holds_others_ = false;
  bool judged_ = false, spoiled_ = false, undecided_ = false;
  std::vector<int64_t> workers_;  // by rank
  std::vector<int64_t> named_;    // by the last verdict
  Disbelief disbelief_;           // by verdicts, all ranks' of a view
  Disbelief doubt_;               // as if by one more; see Doubt
  Disbelief absent_doubt_;        // … on whom the last Join did not meet
  UncomparedSteps uncompared_;
  StateMark checked_ = {-1, 0};   // by the last CrossCheck, until a Mark
  std::vector<StateMark> marks_;  // the last ones, in the order of their steps
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICAS_H_
