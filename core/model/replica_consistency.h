// ReplicaConsistency: gives all ranks the same model and the same start, and
// compares their states.
//
// All ranks call the same function.

#ifndef RINGLET_CORE_MODEL_REPLICA_CONSISTENCY_H_
#define RINGLET_CORE_MODEL_REPLICA_CONSISTENCY_H_

#include <cstdint>
#include <vector>

#include "../exchange/compile_config.h"
#include "../graph/graph.h"
#include "../graph/model_memory.h"
#include "../step/check_pass.h"
#include "../step/updater.h"
#include "fingerprint.h"
#include "ringlet/status.h"

namespace ringlet {

// A worker's number in the job's list, and its incarnation. A restarted worker
// has the same number and another incarnation. net draws its own for a ring.
struct Member {
  int64_t worker, state_incarnation;
};

class ReplicaConsistency {
 public:
  // All arguments outlive the ReplicaConsistency.
  ReplicaConsistency(const Graph* graph, const CompileConfig* config,
                     const ModelMemory* memory, Updater* updater)
      : graph_(*graph),
        config_(*config),
        memory_(*memory),
        updater_(*updater) {}

  // Sets whether this Compile loaded a state. Called before the ranks join.
  void SetLoaded(bool loaded) { loaded_ = loaded; }
  // Compares the ranks' models. If no rank `has_state`, all ranks also get one
  // start: the state of rank 0, or of the lowest incumbent. If a rank has
  // loaded its start, all ranks must have the same start (kOutOfSync). If a
  // rank has a state of the run, Recovery::EnterView sends it to the other
  // ranks.
  Status Join(bool has_state);
  // The ranks form a new view, so the last check was not in the present view.
  void LeaveView() {
    check_failed_ = false;
    passed_ = {-1, 0};
  }
  // The members by rank, from the last Join.
  const std::vector<Member>& members() const { return members_; }

  // A digest of the weights and the optimizer's slots. It misses a difference
  // of weights once in 2^64, and a difference of slots alone once in 2^32.
  int64_t StateDigest() const;
  // kOutOfSync if the ranks' states differ.
  Status Check() const;
  // In elastic jobs: compares the ranks' states, and the digests of the pass
  // that all ranks have made. MakeVoteError (majority_vote.h) makes the error
  // of a difference.
  Status CrossCheck(const PassDigests& own_digests);
  // True if the members of this view have passed a CrossCheck of the present
  // state.
  bool PassedCheck() const;
  // The StateDigest that passed the last CrossCheck of this view.
  int64_t passed_digest() const { return passed_.digest; }
  // True if the last error was a failed check, which every rank has.
  bool check_failed() const { return check_failed_; }

 private:
  // The step and the StateDigest that passed the last CrossCheck.
  struct Passed {
    int64_t step, digest;
  };
  // The state with which a rank starts.
  struct Start {
    int64_t has_state;
    int64_t digest;  // StateDigest; 0 if the rank has a state of the run
    int64_t loaded;  // see LoadedDigest
    Member member;
    bool HasEqualDigest(const Start& other) const {
      return digest == other.digest;
    }
  };
  static int64_t DrawStateIncarnation();
  Fingerprint MakeFingerprint() const;
  Status CompareArithmetic() const;
  Status GatherStarts(bool has_state, std::vector<Start>* all);
  // The digest of the loaded steps and rate; 0 if nothing was loaded.
  int64_t LoadedDigest() const;
  Status CompareStarts(const std::vector<Start>& all) const;
  // All ranks get the weights and the updater of `root`.
  Status BroadcastStart(int root);
  uint32_t SlotsDigest(uint32_t digest) const;

  const Graph& graph_;
  const CompileConfig& config_;
  const ModelMemory& memory_;
  Updater& updater_;
  bool loaded_ = false;            // true if CompileOptions::restore loaded it
  int64_t state_incarnation_ = 0;  // drawn in the first Join of an elastic job
  std::vector<Member> members_;
  bool check_failed_ = false;
  Passed passed_ = {-1, 0};  // the result of the last passed CrossCheck
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_REPLICA_CONSISTENCY_H_
