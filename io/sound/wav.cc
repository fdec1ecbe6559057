// Chunks may be in any order, and a recorder may have left a length unknown:
// then the samples end with the file. Integers become floats in [-1, 1) by a
// power of two, so every machine has the same bits.

#include "wav.h"

#include <algorithm>
#include <cfloat>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <memory>

#include "../files/atomic_file.h"

namespace ringlet {
namespace {

constexpr int64_t kHeadBytes = 12;       // "RIFF", a length, "WAVE"
constexpr size_t kMostFormatBytes = 40;  // the most bytes that are read
constexpr int kMaxChunks = 4096;
// A recorder that does not know the length yet writes a length from here on.
constexpr uint32_t kUnknownLength = 0x7FFFF000;
constexpr uint32_t kIntegers = 1, kFloats = 3, kExtensible = 0xFFFE;

uint64_t Little(const char* bytes, size_t count) {
  uint64_t number = 0;
  for (size_t i = count; i > 0; --i) {
    number = number << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return number;
}

// A part of the file.
struct Chunk {
  std::string name;
  uint32_t bytes = 0;  // the length that the file gives
  int64_t begin = 0;

  // An odd length is padded.
  int64_t end() const { return begin + int64_t{bytes} + bytes % 2; }
};

Status ReadFormatChunk(File* file, const Chunk& chunk, WavFormat* format) {
  std::string all;
  RINGLET_RETURN_IF_ERROR(
      ReadUpTo(file, chunk.begin,
               std::min(size_t{chunk.bytes}, kMostFormatBytes), &all));
  if (all.size() < 16) {
    return Corruption("is damaged: its WAV format has %zu bytes", all.size());
  }
  const auto number = [&](size_t at, size_t count) {
    return static_cast<uint32_t>(Little(all.data() + at, count));
  };
  uint32_t code = number(0, 2);
  const uint32_t channels = number(2, 2), rate = number(4, 4),
                 frame_bytes = number(12, 2), bits = number(14, 2);
  // The format is then the beginning of a longer number.
  if (code == kExtensible && all.size() == kMostFormatBytes) {
    code = number(24, 2);
  }
  const bool is_float = code == kFloats && (bits == 32 || bits == 64);
  const bool is_integer = code == kIntegers &&
                          (bits == 8 || bits == 16 || bits == 24 || bits == 32);
  if (!is_float && !is_integer) {
    return InvalidArgument(
        "is a WAV of format %u with %u bits; only integers of 8, 16, 24 and 32 "
        "bits and floats are read; convert it, such as by \"sox FILE -b 16 -e "
        "signed-integer NEW\"",
        code, bits);
  }
  if (channels < 1 || channels > kMaxSoundChannels || rate < 1 ||
      rate > kMaxSamplingRate || frame_bytes != channels * (bits / 8)) {
    return Corruption(
        "is damaged: its WAV format has %u channels of %u bits in %u bytes, at "
        "a rate of %u",
        channels, bits, frame_bytes, rate);
  }
  format->rate = rate;
  format->channels = static_cast<int>(channels);
  format->bits = static_cast<int>(bits);
  format->is_float = is_float;
  return Status();
}

// Computes the bytes of the samples, of which `available` are in the file.
Status SampleBytes(const Chunk& data, int64_t available, bool has_length,
                   int64_t* bytes) {
  const bool unknown =
      data.bytes >= kUnknownLength || (data.bytes == 0 && !has_length);
  *bytes = unknown ? available : int64_t{data.bytes};
  if (*bytes <= available) return Status();
  return Corruption("ends early: after %" PRId64 " of %" PRId64
                    " bytes of samples; take another copy of it",
                    available, *bytes);
}

// Finds the format and the samples, in any order.
Status FindChunks(File* file, int64_t file_bytes, Chunk* format, Chunk* data) {
  int64_t at = kHeadBytes;
  for (int i = 0; i < kMaxChunks && at + 8 <= file_bytes; ++i) {
    std::string head;
    RINGLET_RETURN_IF_ERROR(ReadUpTo(file, at, 8, &head));
    if (head.size() < 8) break;
    Chunk chunk;
    chunk.name = head.substr(0, 4);
    chunk.bytes = static_cast<uint32_t>(Little(head.data() + 4, 4));
    chunk.begin = at + 8;
    if (chunk.name == "fmt " && format->begin == 0) *format = chunk;
    if (chunk.name == "data" && data->begin == 0) *data = chunk;
    if (format->begin > 0 && data->begin > 0) return Status();
    at = chunk.end();
  }
  return Corruption("is damaged, or ends early: this WAV has no %s",
                    format->begin == 0 ? "format" : "samples");
}

// --- samples -----------------------------------------------------------------

float IntegerSample(const char* bytes, int bits) {
  if (bits == 8) {
    return static_cast<float>(static_cast<unsigned char>(*bytes) - 128) / 128;
  }
  // The highest bits of 32, so that the sign is in its place.
  const auto count = static_cast<size_t>(bits / 8);
  const auto high = static_cast<uint32_t>(Little(bytes, count) << (32 - bits));
  int32_t number;
  std::memcpy(&number, &high, sizeof(number));
  return static_cast<float>(number) * 0x1p-31f;
}

float FloatSample(const char* bytes, int bits) {
  if (bits == 32) {
    const auto word = static_cast<uint32_t>(Little(bytes, 4));
    float sample;
    std::memcpy(&sample, &word, sizeof(sample));
    return sample;
  }
  const uint64_t word = Little(bytes, 8);
  double sample;
  std::memcpy(&sample, &word, sizeof(sample));
  // A cast of more than a float can have is undefined.
  return std::fabs(sample) <= FLT_MAX ? static_cast<float>(sample) : NAN;
}

float SampleAt(const WavFormat& format, const char* bytes) {
  return format.is_float ? FloatSample(bytes, format.bits)
                         : IntegerSample(bytes, format.bits);
}

// Writes a frame. False if a sample is not a finite number.
bool WriteFrame(const WavFormat& format, const char* frame, int64_t channels,
                float* out) {
  const int bytes = format.bits / 8;
  double sum = 0;
  bool finite = true;
  for (int c = 0; c < format.channels; ++c) {
    const float sample = SampleAt(format, frame + c * bytes);
    finite = finite && std::isfinite(sample);
    if (channels == 1) {
      sum += sample;
    } else {
      out[c] = sample;
    }
  }
  if (channels == 1) out[0] = static_cast<float>(sum / format.channels);
  return finite;
}

}  // namespace

Status ReadWavFormat(File* file, WavFormat* format) {
  *format = {};
  std::string head;
  RINGLET_RETURN_IF_ERROR(ReadUpTo(file, 0, kHeadBytes, &head));
  if (head.empty()) return Corruption("is empty");
  if (!LooksLikeWav(head)) {
    const std::string kind = head.substr(0, 4);
    if (kind != "RF64" && kind != "RIFX") {
      return Corruption("is not a WAV file");
    }
    return InvalidArgument(
        "is an %s file; convert it, such as by \"sox FILE NEW\"", kind.c_str());
  }
  int64_t file_bytes = 0;
  RINGLET_RETURN_IF_ERROR(file->Size(&file_bytes));
  Chunk header, data;
  RINGLET_RETURN_IF_ERROR(FindChunks(file, file_bytes, &header, &data));
  RINGLET_RETURN_IF_ERROR(ReadFormatChunk(file, header, format));
  const bool has_length =
      static_cast<int64_t>(Little(head.data() + 4, 4)) == file_bytes - 8;
  int64_t bytes = 0;
  RINGLET_RETURN_IF_ERROR(SampleBytes(
      data, std::max<int64_t>(file_bytes - data.begin, 0), has_length, &bytes));
  format->begin = data.begin;
  format->frames = bytes / format->frame_bytes();
  return format->frames > 0 ? Status() : Corruption("has no samples");
}

Status ReadWavSamples(File* file, const WavFormat& format, int64_t channels,
                      int64_t frames, float* samples) {
  if (channels != 1 && channels != format.channels) {
    return InvalidArgument("has %d channels, not %" PRId64
                           "; convert it, such as by \"sox FILE NEW remix\"",
                           format.channels, channels);
  }
  const int64_t count = std::min(frames, format.frames);
  const int64_t frame_bytes = format.frame_bytes();
  char block[4096];  // (No frame has more bytes.)
  const auto max_frames = static_cast<int64_t>(sizeof(block)) / frame_bytes;
  for (int64_t i = 0; i < count; i += max_frames) {
    const int64_t now = std::min(max_frames, count - i);
    const Status read = file->Read(format.begin + i * frame_bytes, block,
                                   static_cast<size_t>(now * frame_bytes));
    if (read.code() == Code::kCorruption) return Corruption("ends early");
    RINGLET_RETURN_IF_ERROR(read);
    for (int64_t k = 0; k < now; ++k) {
      if (WriteFrame(format, block + k * frame_bytes, channels,
                     samples + (i + k) * channels)) {
        continue;
      }
      return Corruption("is damaged: a sample at offset %" PRId64
                        " is not a finite number",
                        format.begin + (i + k) * frame_bytes);
    }
  }
  std::fill(samples + count * channels, samples + frames * channels, 0.0f);
  return Status();
}

Status ReadSoundFormat(const std::string& path, WavFormat* format) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file));
  return ReadWavFormat(file.get(), format).Annotate("%s", path.c_str());
}

Status ReadSound(const std::string& path, int64_t rate, int64_t channels,
                 int64_t frames, float* samples) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &file));
  WavFormat format;
  Status status = ReadWavFormat(file.get(), &format);
  if (status.ok() && format.rate != rate) {
    status = InvalidArgument("has %" PRId64 " samples a second, not %" PRId64
                             "; convert it, such as by \"sox FILE -r %" PRId64
                             " NEW\"",
                             format.rate, rate, rate);
  }
  if (status.ok()) {
    status = ReadWavSamples(file.get(), format, channels, frames, samples);
  }
  return status.Annotate("%s", path.c_str());
}

}  // namespace ringlet
