// Fuzz entry: any bytes to a StatusServer, in pieces; the first byte is their
// length.
//
// For any bytes: the pieces change nothing, and a complete head has a path that
// begins with "/" and is no longer than the limit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "net/status/http_request.h"

using ringlet::HttpRequestReader;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  using State = HttpRequestReader::State;
  const size_t piece = std::max<size_t>(data[0], 1);
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  HttpRequestReader pieces;
  State state = State::kIncomplete;
  for (size_t at = 0; at < text.size() && state == State::kIncomplete;
       at += piece) {
    state = pieces.Add(text.data() + at, std::min(piece, text.size() - at));
  }
  if (state == State::kComplete) {
    const std::string& path = pieces.request().path;
    RINGLET_CHECK(path[0] == '/' && path.size() < HttpRequestReader::kMaxBytes);
    (void)ringlet::IsHostOfThisMachine(pieces.request().host);
  }
  HttpRequestReader whole;
  const State at_once = whole.Add(text.data(), text.size());
  RINGLET_CHECK(state == at_once || text.size() > HttpRequestReader::kMaxBytes);
  return 0;
}
