// LocalUpdates: rounds of steps that each replica makes on its own.
//
// Public. For workers whose links are slower than their computing. A round is
// `steps` steps. Each replica begins it with the same weights w and a fresh
// state of the optimizer, trains on its own part of every batch, and ends with
// weights w_r. What the replicas changed, d_r = w - w_r, is averaged by the
// examples that each has seen, and the mean d moves the weights:
//
//   m = momentum m + d
//   w = w - learning_rate (d + momentum m)   with nesterov; else
//   w = w - learning_rate m
//
// State that training changes, as the moving statistics of BatchNormalization,
// becomes the replicas' mean. Learning rate schedules, clipping and weight
// decay belong to the steps. Sources: DiLoCo (arXiv 2311.08105); with
// learning_rate 1 and momentum 0 it is FedAvg (arXiv 1602.05629).
//
// With `overlap` the change of a round travels while the next one is computed,
// and moves the weights where that ends. A replica begins the next round with
// the step that its own change would make. Of rounds t of an epoch, with
// step(w, d) as above, d_t the mean and d_(t,r) the change of replica r:
//
//   w_(t+1) = step(w_t, d_t)        made where round t + 1, or the epoch, ends
//   x_(t+1,r) = step(w_t, d_(t,r))  its weights as round t + 1 begins
//   d_(t,r) = x_(t,r) - its weights as round t ends; x_(0,r) = w_0
//
// State becomes the replicas' mean, and a replica goes on with its own. The
// last round's change is applied before the epoch's validation and OnEpochEnd.
//
// To callbacks a round is what `steps_per_execution` is in Keras: between two
// rounds they are told of its last step, and stops, backups and losses of
// workers take effect there. An epoch's last round ends with it.
//
// Federated use: with `participation` a round is made of k replicas, drawn by
// (seed, the steps before the round) from those that are there. With `quorum`
// a replica is its worker's, whose data nobody else has: where that is away
// the replica is, and no other worker computes it.

#ifndef RINGLET_CORE_MODEL_LOCAL_UPDATES_H_
#define RINGLET_CORE_MODEL_LOCAL_UPDATES_H_

#include <cstdint>

#include "../base/status.h"

namespace ringlet {

class Attendance;

struct LocalUpdates {
  // What changes are while they travel: whole numbers, of which 256 neighbours
  // have a scale in common, so that no bit of their sums depends on which
  // worker computed which replica.
  enum class Delta : uint8_t {
    // Of R replicas up to +-(127 / R) levels each, the scale being a power of
    // two by which a block's greatest number has at least half of the power of
    // two within 127 / R + 1; of more than 18 replicas with 16 bits, and of
    // more than 1,023 with 32.
    kInt8,
    kFloat32,  // 32 bits
    // Of each 4,096 numbers of a replica's tensor the 64 largest, with 4 bits;
    // what they lack is kept, 0.95 of it, and added to its next change. This
    // error feedback is the replica's, begins at zero in each Fit, and is in
    // backups.
    kSparse,
  };

  static constexpr int64_t kUsualSteps = 30;
  // As `steps`: as many as take as long to compute as a round's exchange does,
  // from 8 to 512. Measured before the first round, on steps that are taken
  // back; the number is part of the run's state and of its backups, and with it
  // as `steps` a run ends with the same bits.
  static constexpr int64_t kAutoSteps = -1;

  bool on() const { return steps != 0; }
  bool sparse() const { return on() && delta == Delta::kSparse; }
  bool overlaps() const { return on() && overlap; }
  // Between two rounds a worker has what no other has: where it is lost all go
  // back to the last border at which each had all of it, or to the last backup.
  bool scatters() const { return sparse() || overlaps(); }
  Status Check() const;

  int64_t steps = 0;  // of a round; 0: every step is synchronized
  float learning_rate = 0.7f;
  float momentum = 0.9f;
  bool nesterov = true;
  Delta delta = Delta::kInt8;
  // What changed in a round travels while the next one is computed.
  bool overlap = false;
  int participation = 0;  // replicas of a round; 0: all that are there
  // Where it is not 0 each worker has one replica, and the job goes on without
  // those that are lost. So many replicas make a round: where fewer have made
  // their steps by the deadline, it is computed again without one.
  int quorum = 0;
  // A replica whose steps take longer is left out of the round; 0: none is.
  double round_deadline_seconds = 0;
  const Attendance* attendance =
      nullptr;  // outlives the model; null: all there
};

}  // namespace ringlet

#endif  // RINGLET_CORE_MODEL_LOCAL_UPDATES_H_
