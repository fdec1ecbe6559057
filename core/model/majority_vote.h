// The majority vote of a replica check.
//
// Workers that make the same pass from the same state get the same bits. If
// they do not, the processor or the memory of a machine is at fault. The
// check digests of more than half of the workers are right.

#ifndef RINGLET_CORE_MODEL_MAJORITY_VOTE_H_
#define RINGLET_CORE_MODEL_MAJORITY_VOTE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

// The check digests of a rank: one for each compared part.
using CheckDigests = std::vector<int64_t>;

struct Vote {
  // The ranks with digests that differ from the majority's digest. Without a
  // majority: all ranks. None if all digests are equal.
  std::vector<int> faulty;
  bool has_majority = true;
  int reference = 0;  // a rank of the majority; 0 without a majority
};

// `all` is by rank, not empty, and the same on every rank.
Vote CountVotes(const std::vector<CheckDigests>& all);

// Returns the error of a failed check: kOutOfSync on the faulty ranks,
// kPeerLost on the other ranks, which continue without them. Without a majority
// all ranks are faulty. `parts` names the part of each digest. `where` names
// the model and the step.
Status MakeVoteError(const Collective& collective, const Vote& vote,
                     const std::vector<CheckDigests>& all,
                     const std::vector<const char*>& parts,
                     const std::string& where);

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_MAJORITY_VOTE_H_
