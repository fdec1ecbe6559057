// SoundChanges: what training changes in sound, as TensorFlow's speech_commands
// tutorial does: a shift in time, and noise from a folder.

#ifndef RINGLET_IO_READERS_FILES_SOUND_CHANGES_H_
#define RINGLET_IO_READERS_FILES_SOUND_CHANGES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../sound/wav.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "ringlet/status.h"

namespace ringlet {

class SoundChanges {
 public:
  // Checks the options, and reads each file of noise once. *changes becomes
  // null if the options change nothing.
  static Status Open(const AudioOptions& options,
                     std::unique_ptr<SoundChanges>* changes);

  // Changes the samples x of example `index` in the batch at `position`. The
  // numbers that are drawn depend on the seed and on both of these.
  Status Change(const DataPosition& position, int64_t index, float* x) const;
  // A digest of the options and all noise; never 0.
  uint64_t digest() const { return digest_; }

 private:
  struct Noise {
    std::string path;
    WavFormat format;
  };

  explicit SoundChanges(const AudioOptions& options);
  Status ListNoise();
  Status ReadNoise();
  void Shift(int64_t frames, float* x) const;
  // Adds `volume` times the noise from `first` on, between -1 and 1.
  Status Mix(const Noise& noise, int64_t first, float volume, float* x) const;

  const AudioOptions options_;
  int64_t most_shift_ = 0;  // frames
  std::vector<Noise> noises_;
  uint64_t digest_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_FILES_SOUND_CHANGES_H_
