// The replica check: the ranks gather digests of their states and of the pass
// that all have made, and a majority vote finds the faulty ranks.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../base/collective_numbers.h"
#include "majority_vote.h"
#include "replica_consistency.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

int64_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

bool ReplicaConsistency::PassedCheck() const {
  return passed_.step == updater_.iterations() &&
         passed_.digest == StateDigest();
}

Status ReplicaConsistency::CrossCheck(const PassDigests& own_digests) {
  Collective* const c = config_.collective;
  const int64_t rate = FloatBits(updater_.LearningRate());
  const Passed now = {updater_.iterations(), StateDigest()};
  const CheckDigests sent = {now.step << 32 ^ rate, now.digest,
                             static_cast<int64_t>(own_digests.metrics),
                             static_cast<int64_t>(own_digests.gradients)};
  const size_t n = sent.size();
  std::vector<int64_t> gathered(static_cast<size_t>(c->size()) * n);
  RINGLET_RETURN_IF_ERROR(
      AllGatherNumbers(c, sent.data(), sizeof(int64_t), n, gathered.data()));
  std::vector<CheckDigests> all;
  for (auto at = gathered.begin(); at != gathered.end(); at += n) {
    all.emplace_back(at, at + n);
  }
  const Vote vote = CountVotes(all);
  if (vote.faulty.empty()) {
    passed_ = now;
    return Status();
  }
  check_failed_ = true;
  const Status status = MakeVoteError(
      *c, vote, all,
      {"number of steps or learning rate", "weights or optimizer slots",
       "losses or metrics of the same examples",
       "gradients of the same examples"},
      "model '" + graph_.name() + "' after " +
          std::to_string(updater_.iterations()) + " steps");
  // A rank that misses the outcome because of a loss would otherwise continue
  // alone.
  if (!vote.has_majority) AbortOthers(c, status);
  return status;
}

}  // namespace ringlet
