// Replicas: that all ranks have the same model, and whose state they begin
// with.
//
// Internal to core/. Every rank calls the same function.

#ifndef RINGLET_CORE_MODEL_REPLICAS_H_
#define RINGLET_CORE_MODEL_REPLICAS_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../base/status.h"
#include "compile_config.h"
#include "fingerprint.h"
#include "graph.h"
#include "model_memory.h"
#include "stepper.h"
#include "updater.h"
#include "verdict.h"

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
    torn_ = took_ = holds_others_ = judged_ = spoiled_ = went_back_ = false;
    undecided_ = false;
    verdicts_ = trusted_ = witnesses_ = 0;
    marks_.clear();
  }
  // Compares the ranks' models, and gives all of them the state of one: of
  // those that `lived` through a loss the one that has made most steps, else
  // rank 0's. Where none that was in the run has its state whole nobody takes
  // any: see CheckWhole.
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
    took_ = judged_ = spoiled_ = undecided_ = missed_verdict_ = false;
    checked_ = {-1, 0};
    doubt_ = 0;
  }
  // A state that was not this rank's has arrived by Join, in part or whole.
  bool changed() const { return torn_ || took_; }
  // What is not Join has written over the state, and was cut off …
  void Tear() { torn_ = true; }
  // … and this rank has gone back to an own one that is whole …
  void Mend() { torn_ = holds_others_ = false; }
  // … or the whole state has come from elsewhere.
  void Restored() {
    torn_ = holds_others_ = went_back_ = false;
    witnesses_ = 0;
  }
  // After a verdict, or where a loss cut one off, this rank goes on from what
  // was before: what the workers `witnesses` have compared. Others, who have
  // gone further, may not have heard a verdict: by the next Join they take this
  // rank's state, and not it theirs. Those that were elsewhere take at any
  // later one the state of those that have gone back after more verdicts, and
  // of those that have taken it. Where one was elsewhere for a while, and has
  // heard the verdict, the state that counts is that of those who had compared
  // theirs with who was named.
  void WentBack(const std::vector<int64_t>& witnesses);
  // The workers that there are have compared this state; their numbers in the
  // job's list.
  const std::vector<int64_t>& Proven() { return compared_ = workers_; }
  // So many, in all, are behind this rank's state.
  int64_t verdicts() const { return verdicts_; }
  // The last Join told this rank of one, or of a state that counts: what it had
  // may be spoiled, also what had passed a comparison where the one that is
  // wrong was not.
  bool missed_verdict() const { return missed_verdict_; }
  // The last Join gave this rank the state of one that had just gone back in
  // doubt, to what so many workers had compared; 0: it did not.
  int64_t doubt() const { return doubt_; }
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
  // … on one that was in the run: what it computed is in everybody's state.
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
    int64_t verdicts;   // after which the state went back
    int64_t trusted;    // that many of whom the last one named had compared it
    int64_t witnesses;  // of what this rank has just gone back to in doubt
    std::vector<StateMark> marks;
    bool SameState(const Standing& other) const {
      return age == other.age && digest == other.digest;
    }
    // The other's state is one to go on from, and this one perhaps spoiled.
    bool MissedVerdict(const Standing& other) const {
      return std::tie(verdicts, trusted) <
             std::tie(other.verdicts, other.trusted);
    }
  };
  static bool Has(const std::vector<int64_t>& workers, int64_t worker) {
    return std::count(workers.begin(), workers.end(), worker) > 0;
  }
  Fingerprint MakeFingerprint() const;
  int Root(const std::vector<Standing>& all) const;
  bool Missed(const Standing& mine, const Standing& root) const;
  Status CompareArithmetic() const;
  Status GatherStandings(int64_t age, std::vector<Standing>* all);
  Status Judged(const std::vector<Findings>& all,
                const std::vector<const char*>& parts,
                const std::string& where);
  Status CompareMarks(const std::vector<Standing>& all, const Standing& root);
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
  bool went_back_ = false;
  bool missed_verdict_ = false;
  int64_t doubt_ = 0;
  std::vector<int64_t> workers_;   // by rank
  std::vector<int64_t> compared_;  // by the last Proven
  std::vector<int64_t> named_;     // those that were in the run, by a verdict
  int64_t verdicts_ = 0, trusted_ = 0, witnesses_ = 0;  // see Standing
  StateMark checked_ = {-1, 0};   // by the last CrossCheck, until a Mark
  std::vector<StateMark> marks_;  // the last ones, in the order of their steps
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICAS_H_
