#include "../../core/base/text.h"
#include "wav.h"

namespace ringlet {

bool LooksLikeWav(std::string_view bytes) {
  return bytes.size() >= 12 && StartsWith(bytes, "RIFF") &&
         bytes.substr(8, 4) == "WAVE";
}

bool HasSoundName(const std::string& path) {
  std::string end = path.substr(path.size() < 4 ? 0 : path.size() - 4);
  for (char& c : end) c = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  return end == ".wav";
}

}  // namespace ringlet
