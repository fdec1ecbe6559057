// WAV files of a few samples.

#ifndef RINGLET_TESTS_SUPPORT_SOUND_FILES_H_
#define RINGLET_TESTS_SUPPORT_SOUND_FILES_H_

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace ringlet {

inline std::string LittleBytes(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(number >> (8 * i) & 255);
  }
  return text;
}

inline std::string Chunk(const std::string& name, const std::string& content) {
  return name + LittleBytes(content.size(), 4) + content +
         (content.size() % 2 == 1 ? std::string(1, '\0') : "");
}

// The chunk "fmt ": code 1 has integers, and 3 floats.
inline std::string WavFormatChunk(int code, int channels, int rate, int bits) {
  const int frame = channels * bits / 8;
  return Chunk("fmt ", LittleBytes(code, 2) + LittleBytes(channels, 2) +
                           LittleBytes(rate, 4) + LittleBytes(rate * frame, 4) +
                           LittleBytes(frame, 2) + LittleBytes(bits, 2));
}

inline std::string Riff(const std::string& chunks) {
  return "RIFF" + LittleBytes(chunks.size() + 4, 4) + "WAVE" + chunks;
}

inline std::string Wav(int code, int channels, int rate, int bits,
                       const std::string& samples) {
  return Riff(WavFormatChunk(code, channels, rate, bits) +
              Chunk("data", samples));
}

// Integers of 16 bits.
inline std::string Wav16(const std::vector<int>& samples, int rate = 16000,
                         int channels = 1) {
  std::string bytes;
  for (const int sample : samples) {
    bytes += LittleBytes(static_cast<uint64_t>(sample), 2);
  }
  return Wav(1, channels, rate, 16, bytes);
}

// Writes `count` files of 4 samples into a folder for each class. File i of
// class c begins with (80 c + i) / 32768.
inline void WriteWords(const std::string& folder,
                       const std::vector<std::string>& classes, int count) {
  for (size_t c = 0; c < classes.size(); ++c) {
    const std::string name = folder + "/" + classes[c];
    std::filesystem::create_directories(name);
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(80 * c) + i;
      WriteWhole(name + "/" + std::to_string(100 + i) + ".wav",
                 Wav16({first, 1, 2, 3}));
    }
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_SOUND_FILES_H_
