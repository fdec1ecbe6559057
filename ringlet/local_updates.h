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
// With `overlap` the change of a round is sent while the next round is
// computed. It moves the weights at the end of that round. A replica begins the
// next round with the step that its own change would make. For round t of an
// epoch, with step(w, d) as above, the mean change d_t and the change d_(t,r)
// of replica r:
//
//   w_(t+1) = step(w_t, d_t)        made where round t + 1, or the epoch, ends
//   x_(t+1,r) = step(w_t, d_(t,r))  its weights as round t + 1 begins
//   d_(t,r) = x_(t,r) - its weights as round t ends; x_(0,r) = w_0
//
// The model's state becomes the replicas' mean, but each replica begins the
// next round with its own state. The last change is applied before the epoch's
// validation and OnEpochEnd.
//
// For callbacks a round is what `steps_per_execution` is in Keras. Callbacks
// get the last step of a round, between two rounds. Stops, backups and losses
// of workers take effect there. An epoch ends its last round.
//
// Federated use: with `participation` a round has k replicas, sampled from the
// present replicas by the seed and the number of steps before the round. With
// `quorum` each worker has one replica and its own data. While a worker is lost
// its replica is absent, and no other worker computes it.

#ifndef RINGLET_LOCAL_UPDATES_H_
#define RINGLET_LOCAL_UPDATES_H_

#include <cstdint>

#include "status.h"

namespace ringlet {

struct LocalUpdates {
  // The format of changes on the wire. All formats are integers, with one scale
  // for a block of neighbours: 256 of them, 4,096 in kSparse. So no bit of the
  // sums depends on which worker computed which replica.
  enum class Delta : uint8_t {
    // With R replicas each number is in [-L, L] for L = 127 / R, rounded down.
    // The scale is a power of two. It puts a block's greatest magnitude between
    // P / 2 and P, where P is the greatest power of two up to L + 1. With more
    // than 18 replicas numbers have 16 bits, with more than 1,023 they have 32.
    kInt8,
    kFloat32,  // 32 bits
    // The 64 largest of each 4,096 numbers of a replica's tensor, with 4 bits
    // each. The replica keeps the rest, times 0.95, and adds it to its next
    // change. This error feedback begins at zero in each Fit, and is in
    // backups.
    kSparse,
  };

  static constexpr int64_t kDefaultSteps = 30;
  // For `steps`: chooses the number of steps, from 8 to 512, so that computing
  // them takes as long as a round's exchange. It is measured before the first
  // round, on steps that are undone. The number is a part of the run's state
  // and of its backups. A run with this number as `steps` ends with the same
  // bits.
  static constexpr int64_t kAutoSteps = -1;

  bool enabled() const { return steps != 0; }
  bool sparse() const { return enabled() && delta == Delta::kSparse; }
  bool overlaps() const { return enabled() && overlap; }
  // True if each worker has a part of the state that no other worker has
  // between two rounds. If a worker is lost, all return to the last backup. Not
  // in an elastic job.
  bool keeps_state_per_worker() const { return sparse() || overlaps(); }
  Status Check() const;

  int64_t steps = 0;  // of a round; 0: every step is synchronized
  float learning_rate = 0.7f;
  float momentum = 0.9f;
  bool nesterov = true;
  Delta delta = Delta::kInt8;
  // A round's changes are sent while the next round is computed.
  bool overlap = false;
  int participation = 0;  // replicas of a round; 0: all present ones
  // The fewest replicas of a round; 0: no quorum. With a quorum each worker of
  // an elastic job has one replica, and the job continues without lost
  // replicas. With FitOptions::cross_check the job then computes the rounds
  // since the last check again, without the lost replicas. If fewer replicas
  // end their steps before the deadline, the round is computed again without a
  // deadline.
  int quorum = 0;
  // A replica that takes longer is left out of the round; 0: no deadline.
  double round_deadline_seconds = 0;
};

}  // namespace ringlet

#endif  // RINGLET_LOCAL_UPDATES_H_
