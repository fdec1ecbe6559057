// The training of the workers of a simulated job: the shipped Fit, or a loop of
// their own, with backups on the disks of their hosts. Undisturbed() has the
// digests of a run without faults.

#ifndef RINGLET_TESTS_NET_RING_SIM_TRAINING_H_
#define RINGLET_TESTS_NET_RING_SIM_TRAINING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "../../support/one_bit_layer.h"
#include "io/files/file_system.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace sim {

// The settings of all workers, drawn from the seed.
struct Training {
  int replicas = 5;
  // The model has a layer with a kernel large enough to be sent alone.
  bool wide = false;
  int64_t local_steps = 0;    // the steps of a round; 0: sums in every step
  bool floats = false;        // deltas of 32 bits
  int participation = 0;      // the replicas of a round; 0: all
  bool in_loop = false;       // trains by a TrainingLoop, not by Fit
  int optimizer = 0;          // see OptimizerOf
  bool repeats = false;       // the data repeat, across epochs
  bool callbacks = false;     // some with state that change the model
  int64_t model_freq = -1;    // save_freq of ModelCheckpoint; -1 if none
  int64_t check_every = 100;  // steps between two replica checks
  int64_t save_freq = -1;     // save_freq of BackupAndRestore; -1 if none

  // The fields that change the numbers.
  auto Key() const {
    return std::make_tuple(replicas, wide, local_steps, floats, participation,
                           optimizer, repeats, callbacks);
  }
};

// The arguments of one worker.
struct Trainee {
  Collective* collective = nullptr;  // null: trains alone, undisturbed
  FileSystem* disk = nullptr;
  Clock* clock = nullptr;
  std::shared_ptr<OneBitLayer> layer;
  // `begins` is called before each step. `ends` is called after each step,
  // after each epoch with step -1, -2, …, and after the training with step 0.
  // The digest is of weights and losses.
  std::function<void(int64_t step)> begins;
  std::function<void(int64_t step, uint64_t digest)> ends;
  // Called if this worker resumes from a backup.
  std::function<void(const std::string& from)> resumes;
  // Called when this worker learns which other worker is faulty.
  std::function<void()> hears;
};

Status Train(const Training& training, const Trainee& trainee);

// The digest after each step of one worker without faults; keys as for `ends`.
using Digests = std::map<int64_t, uint64_t>;
const Digests& Undisturbed(const Training& training);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_TRAINING_H_
