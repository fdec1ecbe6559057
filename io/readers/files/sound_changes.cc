// The numbers drawn for an example are a function of the seed, the position of
// its batch and its number in the data: other threads, workers or a resumed run
// draw the same. A new draw takes a word of a or b in Change that is not yet
// used, so that other draws keep their words.

#include "sound_changes.h"

#include <algorithm>
#include <cinttypes>

#include "../../../core/base/byte_order.h"
#include "../../../core/base/crc32c.h"
#include "../../../core/base/fnv1a.h"
#include "../../../core/base/number_text.h"
#include "../../../core/base/text.h"
#include "../../files/file_system.h"
#include "picture_list.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

constexpr int64_t kBlock = 2048;  // frames that are read at a time

// A whole number in [0, count), with count <= 2^32.
int64_t Below(int64_t count, uint32_t word) {
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(count)) >>
                              32);
}

// Calls body(samples, frames) for each block of `frames` frames from `first`
// on.
template <typename Body>
Status ForEachBlock(const std::string& path, const WavFormat& format,
                    int64_t channels, int64_t first, int64_t frames,
                    const Body& body) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file));
  std::vector<float> block(static_cast<size_t>(kBlock * channels));
  for (int64_t i = 0; i < frames; i += kBlock) {
    const int64_t now = std::min(kBlock, frames - i);
    WavFormat part = format;
    part.begin += (first + i) * format.frame_bytes();
    part.frames = now;
    RINGLET_RETURN_IF_ERROR(
        ReadWavSamples(file.get(), part, channels, now, block.data())
            .Annotate("%s", path.c_str()));
    body(block.data(), now);
  }
  return Status();
}

Status CheckOptions(const AudioOptions& options) {
  const struct {
    const char* name;
    float value, most;
  } numbers[] = {{"background_frequency", options.background_frequency, 1},
                 {"background_volume", options.background_volume, 1},
                 {"time_shift_ms", options.time_shift_ms, 3e38f}};
  for (const auto& number : numbers) {
    if (number.value >= 0 && number.value <= number.most) continue;
    return InvalidArgument("%s: is %g; must be from 0 to %g", number.name,
                           double{number.value}, double{number.most});
  }
  return Status();
}

}  // namespace

SoundChanges::SoundChanges(const AudioOptions& options) : options_(options) {
  const double shift = double{options.time_shift_ms} *
                       static_cast<double>(options.sampling_rate) / 1000;
  most_shift_ = static_cast<int64_t>(
      std::min(shift, static_cast<double>(options.output_sequence_length)));
}

Status SoundChanges::Open(const AudioOptions& options,
                          std::unique_ptr<SoundChanges>* changes) {
  RINGLET_RETURN_IF_ERROR(CheckOptions(options));
  changes->reset(new SoundChanges(options));
  SoundChanges& new_changes = **changes;
  const bool has_noise = !options.background_noise.empty() &&
                         options.background_frequency > 0 &&
                         options.background_volume > 0;
  if (has_noise) {
    RINGLET_RETURN_IF_ERROR(new_changes.ListNoise());
  }
  RINGLET_RETURN_IF_ERROR(new_changes.ReadNoise());
  if (new_changes.noises_.empty() && new_changes.most_shift_ == 0)
    changes->reset();
  return Status();
}

Status SoundChanges::ListNoise() {
  FileList list;
  RINGLET_RETURN_IF_ERROR(ListFiles(kSoundFiles, options_.background_noise,
                                    /*labelled=*/false, {}, &list)
                              .Annotate("background_noise"));
  for (const std::string& path : list.paths) {
    Noise noise = {path, {}};
    RINGLET_RETURN_IF_ERROR(ReadSoundFormat(path, &noise.format));
    if (noise.format.rate != options_.sampling_rate) {
      return InvalidArgument(
          "%s: has %" PRId64 " samples a second, not %" PRId64
          " as the examples; convert it, such as by \"sox FILE -r %" PRId64
          " NEW\"",
          path.c_str(), noise.format.rate, options_.sampling_rate,
          options_.sampling_rate);
    }
    if (noise.format.frames < options_.output_sequence_length) {
      return InvalidArgument(
          "%s: has %" PRId64 " samples, fewer than the %" PRId64
          " of an example; remove it from the background_noise",
          path.c_str(), noise.format.frames, options_.output_sequence_length);
    }
    noises_.push_back(std::move(noise));
  }
  return Status();
}

// Reads all noise at the start, so that damage is found before the training,
// and workers with different noise notice it by the digest.
Status SoundChanges::ReadNoise() {
  Fnv1a hash;
  for (const float number :
       {options_.background_frequency, options_.background_volume}) {
    hash.Add(ShortestText(number));
  }
  for (const int64_t number :
       {most_shift_, int64_t{options_.seed}, options_.channels}) {
    hash.Add(std::to_string(number));
  }
  for (const Noise& noise : noises_) {
    uint32_t crc = 0;
    RINGLET_RETURN_IF_ERROR(ForEachBlock(
        noise.path, noise.format, options_.channels, 0, noise.format.frames,
        [&](float* samples, int64_t frames) {
          const auto count = static_cast<size_t>(frames * options_.channels);
          SwapToLittle(samples, sizeof(float), count);
          crc = Crc32c(samples, count * sizeof(float), crc);
        }));
    hash.Add(HexText(uint64_t{crc}));
  }
  digest_ = hash.value() | 1;
  return Status();
}

Status SoundChanges::Change(const DataPosition& position, int64_t index,
                            float* x) const {
  const auto pass = static_cast<uint64_t>(position.pass),
             used = static_cast<uint64_t>(position.used);
  const Philox::Block batch = Philox(options_.seed, pass).At(used);
  const Philox numbers(uint64_t{batch[0]} << 32 | batch[1],
                       uint64_t{batch[2]} << 32 | batch[3]);
  const uint64_t place = 2 * static_cast<uint64_t>(index);
  const Philox::Block a = numbers.At(place), b = numbers.At(place + 1);
  Shift(Below(2 * most_shift_ + 1, a[0]) - most_shift_, x);
  if (noises_.empty() || Philox::Unit(a[1]) >= options_.background_frequency) {
    return Status();
  }
  const auto which = Below(static_cast<int64_t>(noises_.size()), a[2]);
  const Noise& noise = noises_[static_cast<size_t>(which)];
  const int64_t places =
      noise.format.frames - options_.output_sequence_length + 1;
  return Mix(noise, Below(places, a[3]),
             Philox::Unit(b[0]) * options_.background_volume, x);
}

void SoundChanges::Shift(int64_t frames, float* x) const {
  const int64_t n = options_.output_sequence_length * options_.channels;
  const int64_t by = frames * options_.channels;
  if (by > 0) {
    std::copy_backward(x, x + n - by, x + n);
    std::fill_n(x, by, 0.0f);
  } else if (by < 0) {
    std::copy(x - by, x + n, x);
    std::fill(x + n + by, x + n, 0.0f);
  }
}

Status SoundChanges::Mix(const Noise& noise, int64_t first, float volume,
                         float* x) const {
  return ForEachBlock(
      noise.path, noise.format, options_.channels, first,
      options_.output_sequence_length, [&](const float* block, int64_t frames) {
        for (int64_t i = 0; i < frames * options_.channels; ++i, ++x) {
          *x = std::clamp(block[i] * volume + *x, -1.0f, 1.0f);
        }
      });
}

}  // namespace ringlet
