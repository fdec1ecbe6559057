#include "line_splitter.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ringlet {

void LineSplitter::Emit(std::vector<std::string>* lines) {
  lines->push_back(std::move(line_));
  line_.clear();
}

void LineSplitter::Feed(const char* data, size_t bytes, size_t max_bytes,
                        std::vector<std::string>* lines) {
  const char* const end = data + bytes;
  while (data < end) {
    const size_t remaining = static_cast<size_t>(end - data);
    const void* found = std::memchr(data, '\n', remaining);
    const char* stop = found == nullptr ? end : static_cast<const char*>(found);
    const size_t take =
        std::min(static_cast<size_t>(stop - data), max_bytes - line_.size());
    line_.append(data, take);
    data += take;
    if (data < end && *data == '\n') {
      ++data;
      Emit(lines);
    } else if (line_.size() == max_bytes) {
      Emit(lines);
    }
  }
}

void LineSplitter::End(std::vector<std::string>* lines) {
  if (!line_.empty()) Emit(lines);
}

}  // namespace ringlet
