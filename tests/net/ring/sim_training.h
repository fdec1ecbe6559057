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
  bool wide =
      false;  // with a layer that has a kernel large enough to travel alone
  int64_t local_steps = 0;    // of a round, 0 for sums of every step
  bool floats = false;        // deltas of 32 bits
  int participation = 0;      // replicas of a round, 0 for all
  bool in_loop = false;       // of its own, else in Fit
  int optimizer = 0;          // which, see OptimizerOf
  bool repeats = false;       // the data, across epochs
  bool callbacks = false;     // that have a state, and change the model
  int64_t model_freq = -1;    // steps, or 0: epochs, of ModelCheckpoint
  int64_t check_every = 100;  // steps, the workers compare
  int64_t save_freq = -1;     // of the backups, -1 without backups

  // The fields that change the numbers.
  auto Key() const {
    return std::make_tuple(replicas, wide, local_steps, floats, participation,
                           optimizer, repeats, callbacks);
  }
};

// The arguments of one worker.
struct Trainee {
  Collective* collective = nullptr;  // null: alone, undisturbed
  FileSystem* disk = nullptr;
  Clock* clock = nullptr;
  std::shared_ptr<OneBitLayer> layer;
  // A step begins; one has ended, or an epoch: step -1, -2, …; or the whole
  // training: step 0. The digest is of weights and losses.
  std::function<void(int64_t step)> begins;
  std::function<void(int64_t step, uint64_t digest)> ends;
  std::function<void(const std::string& from)> resumes;  // from a backup
  // The others have named one that computes wrong.
  std::function<void()> hears;
};

Status Train(const Training& training, const Trainee& trainee);

// The digest after each step of one worker without faults; keys as for `ends`.
using Digests = std::map<int64_t, uint64_t>;
const Digests& Undisturbed(const Training& training);

}  // namespace sim
}  // namespace ringlet

#endif  // RINGLET_TESTS_NET_RING_SIM_TRAINING_H_
