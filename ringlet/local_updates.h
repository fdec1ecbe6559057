// LocalUpdates: rounds of steps that each replica makes on its own, for workers
// with slow links between them.
//
// Each replica begins a round of `steps` steps with the same weights w and a
// new optimizer state, trains on its own part of every batch, and ends with
// weights w_r. The mean d of the changes d_r = w - w_r, weighted by the numbers
// of examples, moves the weights:
//
//   m = momentum m + d
//   w = w - learning_rate (d + momentum m)   with nesterov; else
//   w = w - learning_rate m
//
// State that training changes, such as the moving statistics of
// BatchNormalization, becomes the replicas' mean. Learning rate schedules,
// clipping and weight decay apply to the steps. Stops, backups and losses of
// workers take effect between rounds, and an epoch ends its last round.
// docs/slow_links.md has the sources, the timing with `overlap`, and
// measurements.
//
//   CompileOptions options(strategy.collective());
//   options.local.steps = LocalUpdates::kDefaultSteps;

#ifndef RINGLET_LOCAL_UPDATES_H_
#define RINGLET_LOCAL_UPDATES_H_

#include <cstdint>

#include "status.h"

namespace ringlet {

struct LocalUpdates {
  // Changes travel as integers, with a scale for each 256 neighbours (4,096
  // in kSparse), so that sums are exact.
  enum class Delta : uint8_t {
    kInt8,     // 8 bits; 16 with more than 18 replicas, 32 with more than 1,023
    kFloat32,  // 32 bits
    // The 64 largest of each 4,096 numbers, with 4 bits each. The rest, times
    // 0.95, is added to the replica's next change (error feedback).
    kSparse,
  };

  static constexpr int64_t kDefaultSteps = 30;
  // For `steps`: chooses 8 to 512, so that computing takes as long as the
  // exchange. Backups have the number, which gives the same bits.
  static constexpr int64_t kAutoSteps = -1;

  bool enabled() const { return steps != 0; }
  bool sparse() const { return enabled() && delta == Delta::kSparse; }
  bool overlaps() const { return enabled() && overlap; }
  // True if a part of the state is on one worker only between two rounds. After
  // a loss all workers return to the last backup. An elastic job refuses such
  // updates.
  bool keeps_state_per_worker() const { return sparse() || overlaps(); }
  Status Check() const;

  int64_t steps = 0;  // of a round; zero synchronizes every step
  float learning_rate = 0.7f;
  float momentum = 0.9f;
  bool nesterov = true;
  Delta delta = Delta::kInt8;
  // Sends a round's changes while the next is computed.
  bool overlap = false;
  // Replicas of a round, sampled by the seed and the number of steps before the
  // round; zero means all.
  int participation = 0;
  // The fewest replicas of a round, if not zero. Each worker of an elastic job
  // then has one replica and its own data, and the job continues without lost
  // replicas. A round with fewer is computed again without a deadline.
  int quorum = 0;
  // A slower replica is left out of the round. Zero means no deadline.
  double round_deadline_seconds = 0;
};

}  // namespace ringlet

#endif  // RINGLET_LOCAL_UPDATES_H_
