// WAV: files of sound as floats.
//
// The bytes of a file are hostile. Memory does not depend on the lengths in its
// header, and a file that ends early is an error.

#ifndef RINGLET_IO_SOUND_WAV_H_
#define RINGLET_IO_SOUND_WAV_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "../files/file_system.h"
#include "ringlet/status.h"

namespace ringlet {

constexpr int64_t kMaxSamplingRate = int64_t{1} << 30;
constexpr int kMaxSoundChannels = 256;

struct WavFormat {
  int64_t rate = 0;  // frames of a second
  int channels = 0;
  int bits = 0;  // bits of a sample
  bool is_float = false;
  int64_t begin = 0;   // the place of the samples in the file
  int64_t frames = 0;  // a frame has a sample for each channel

  int64_t frame_bytes() const { return int64_t{channels} * (bits / 8); }
};

// True if the file begins as a WAV.
bool LooksLikeWav(std::string_view bytes);
// True for a name that ends in .wav, in any case: Keras reads these.
bool HasSoundName(const std::string& path);

// Reads the header. kCorruption for a damaged file, kInvalidArgument for a file
// of another format. A length of 0, or of more than a file can have, comes from
// a recorder which could not write it: the samples then end with the file.
Status ReadWavFormat(File* file, WavFormat* format);

// Reads the first `frames` as (frames, channels). The frames beyond the end of
// the file are zeros. With channels = 1, several channels become their mean.
// Otherwise the file must have this number of channels.
Status ReadWavSamples(File* file, const WavFormat& format, int64_t channels,
                      int64_t frames, float* samples);

// Reads the header of a file. The error names its path.
Status ReadSoundFormat(const std::string& path, WavFormat* format);
// Reads the samples of a file of this rate, as ReadWavSamples.
Status ReadSound(const std::string& path, int64_t rate, int64_t channels,
                 int64_t frames, float* samples);

}  // namespace ringlet

#endif  // RINGLET_IO_SOUND_WAV_H_
