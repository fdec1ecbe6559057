// Fuzz entry: any bytes as a file of background noise.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "io/readers/files/sound_changes.h"

using namespace ringlet;

namespace {

// A folder of this process, in memory if possible.
struct Folder {
  Folder() {
    std::error_code none;
    path =
        std::filesystem::is_directory("/dev/shm", none) ? "/dev/shm" : "/tmp";
    path += "/ringlet-noise-XXXXXX";
    RINGLET_CHECK(mkdtemp(path.data()) != nullptr);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string path = folder.path + "/noise.wav";
  FILE* const file = std::fopen(path.c_str(), "wb");
  RINGLET_CHECK(file != nullptr);
  if (size > 0) RINGLET_CHECK(std::fwrite(data, 1, size, file) == size);
  RINGLET_CHECK(std::fclose(file) == 0);
  AudioOptions options;
  options.background_noise = folder.path;
  options.background_frequency = options.background_volume = 1;
  options.time_shift_ms = 1;
  WavFormat format;
  options.sampling_rate =
      ReadSoundFormat(path, &format).ok() ? format.rate : 16000;
  for (const int64_t length : {int64_t{1}, int64_t{3}, format.frames}) {
    if (length < 1 || length > 4096) continue;
    options.output_sequence_length = length;
    std::unique_ptr<SoundChanges> changes;
    if (!SoundChanges::Open(options, &changes).ok()) continue;
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<float> x(static_cast<size_t>(length), 0.5f);
      RINGLET_CHECK(changes->Change({0, i}, i, x.data()).ok());
      for (const float sample : x) RINGLET_CHECK(std::fabs(sample) <= 1);
    }
  }
  return 0;
}
