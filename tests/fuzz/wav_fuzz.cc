// Fuzz entry: any bytes as a WAV file, with its own channels and with one.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "io/sound/wav.h"

namespace {

using namespace ringlet;

class BytesFile final : public File {
 public:
  explicit BytesFile(std::string_view bytes) : bytes_(bytes) {}
  Status ReadSome(int64_t offset, void* data, size_t bytes,
                  size_t* bytes_read) override {
    RINGLET_CHECK(offset >= 0);
    const auto size = static_cast<int64_t>(bytes_.size());
    const auto from = static_cast<size_t>(std::min(offset, size));
    *bytes_read = std::min(bytes, bytes_.size() - from);
    if (*bytes_read > 0) std::memcpy(data, bytes_.data() + from, *bytes_read);
    return Status();
  }
  Status Size(int64_t* bytes) override {
    *bytes = static_cast<int64_t>(bytes_.size());
    return Status();
  }
  Status WriteSome(const void*, size_t, size_t*) override { return Status(); }
  Status Preallocate(int64_t) override { return Status(); }
  Status Sync() override { return Status(); }
  Status Truncate(int64_t) override { return Status(); }
  Status Close() override { return Status(); }
  const std::string& path() const override { return path_; }

 private:
  const std::string_view bytes_;
  const std::string path_ = "fuzz.wav";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  BytesFile file(bytes);
  WavFormat format;
  if (!ReadWavFormat(&file, &format).ok()) return 0;
  RINGLET_CHECK(format.rate >= 1 && format.frames >= 1);
  RINGLET_CHECK(format.begin + format.frames * format.frame_bytes() <=
                static_cast<int64_t>(size));
  for (const int64_t channels : {int64_t{1}, int64_t{format.channels}}) {
    constexpr int64_t kFrames = 100;
    std::vector<float> samples(static_cast<size_t>(kFrames * channels));
    const Status read =
        ReadWavSamples(&file, format, channels, kFrames, samples.data());
    RINGLET_CHECK(read.ok() || format.is_float);
    if (!read.ok()) continue;
    for (const float sample : samples) RINGLET_CHECK(std::isfinite(sample));
  }
  return 0;
}
