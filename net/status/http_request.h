// HttpRequestReader: the head of one HTTP/1.x request, from hostile bytes.
//
// Pure. Reads as much of RFC 9112 as a GET without a body needs.

#ifndef RINGLET_NET_STATUS_HTTP_REQUEST_H_
#define RINGLET_NET_STATUS_HTTP_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringlet {

struct HttpRequest {
  std::string method;
  std::string path;           // the path without "?" and what follows it
  std::string host;           // the field Host; empty if there is none
  std::string authorization;  // the field Authorization; empty if there is none
};

class HttpRequestReader {
 public:
  // The most bytes of a head.
  static constexpr size_t kMaxBytes = 8192;

  enum class State : uint8_t { kIncomplete, kComplete, kMalformed, kTooLong };

  // Adds received bytes. What follows the head is ignored.
  State Add(const char* bytes, size_t count);
  // Requires that the head is complete.
  const HttpRequest& request() const { return request_; }

 private:
  State Parse(std::string_view head);
  bool ParseField(std::string_view line);

  std::string bytes_;
  HttpRequest request_;
};

// True if the field Host names an address, or localhost. It has a different
// name in the request of a page of another site, also if this name resolves to
// this machine.
bool IsHostOfThisMachine(const std::string& host);

}  // namespace ringlet

#endif  // RINGLET_NET_STATUS_HTTP_REQUEST_H_
