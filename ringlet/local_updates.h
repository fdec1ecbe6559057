// LocalUpdates: rounds of steps that each replica makes on its own.
//
// For workers with slow links between them. A round is `steps` steps. Each
// replica begins it with the same weights w and a new optimizer state. It
// trains on its own part of every batch, and ends with weights w_r. The
// replicas' changes d_r = w - w_r are averaged, weighted by their numbers of
// examples, and the mean d moves the weights:
//
//   m = momentum m + d
//   w = w - learning_rate (d + momentum m)   with nesterov; else
//   w = w - learning_rate m
//
// State that training changes, such as the moving statistics of
// BatchNormalization, becomes the replicas' mean. Learning rate schedules,
// clipping and weight decay apply to the steps. Sources: DiLoCo (arXiv
// 2311.08105); with learning_rate 1 and momentum 0 it is FedAvg (arXiv
// 1602.05629).
//
// With `overlap` the mean change d_t of round t is sent while round t + 1 is
// computed:
//
//   round t            each replica r computes d_(t,r)
//   round t + 1        d_t is sent; replica r begins with step(w_t, d_(t,r))
//   end of round t + 1 w_(t+1) = step(w_t, d_t)
//
// step(w, d) is the update above. The last change is applied before the epoch's
// validation and OnEpochEnd. docs/slow_links.md has measurements.
//
// For callbacks a round is what `steps_per_execution` is in Keras: they get its
// last step. Stops, backups and losses of workers take effect between rounds.
// An epoch ends its last round.
//
// With `participation` a round has k replicas, sampled from the present ones by
// the seed and the number of steps before the round.

#ifndef RINGLET_LOCAL_UPDATES_H_
#define RINGLET_LOCAL_UPDATES_H_

#include <cstdint>

#include "status.h"

namespace ringlet {

struct LocalUpdates {
  // The format of changes on the wire: integers, with one scale for a block of
  // 256 neighbours (4,096 in kSparse; core/exchange/delta_exchange.h). So no
  // bit of the sums depends on which worker computed which replica.
  enum class Delta : uint8_t {
    // 8-bit integers; 16 bits with more than 18 replicas, 32 with more than
    // 1,023.
    kInt8,
    kFloat32,  // 32 bits
    // The 64 largest of each 4,096 numbers, with 4 bits each. A replica adds
    // the rest, times 0.95, to its next change (error feedback).
    kSparse,
  };

  static constexpr int64_t kDefaultSteps = 30;
  // For `steps`: chooses 8 to 512 steps, so that computing them takes as long
  // as a round's exchange. The number is in backups. A run with this number as
  // `steps` ends with the same bits.
  static constexpr int64_t kAutoSteps = -1;

  bool enabled() const { return steps != 0; }
  bool sparse() const { return enabled() && delta == Delta::kSparse; }
  bool overlaps() const { return enabled() && overlap; }
  // True if each worker alone has a part of the state between two rounds. After
  // a loss all workers return to the last backup. Not in an elastic job.
  bool keeps_state_per_worker() const { return sparse() || overlaps(); }
  Status Check() const;

  int64_t steps = 0;  // the steps of a round; 0: every step is synchronized
  float learning_rate = 0.7f;
  float momentum = 0.9f;
  bool nesterov = true;
  Delta delta = Delta::kInt8;
  // A round's changes are sent while the next round is computed.
  bool overlap = false;
  int participation = 0;  // replicas of a round; 0: all present ones
  // The fewest replicas of a round; 0: no quorum. With one, each worker of an
  // elastic job has one replica and its own data, and the job continues without
  // lost replicas. A round with fewer replicas before the deadline is computed
  // again without a deadline.
  int quorum = 0;
  // A replica that takes longer is left out of the round; 0: no deadline.
  double round_deadline_seconds = 0;
};

}  // namespace ringlet

#endif  // RINGLET_LOCAL_UPDATES_H_
