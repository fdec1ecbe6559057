#include "http_request.h"

#include <algorithm>
#include <string>

#include "../../core/base/text.h"
#include "../cluster/address.h"
#include "../transport/socket_address.h"

namespace ringlet {

HttpRequestReader::State HttpRequestReader::Add(const char* bytes,
                                                size_t count) {
  bytes_.append(bytes, std::min(count, kMaxBytes + 1 - bytes_.size()));
  const size_t end = bytes_.find("\r\n\r\n");
  if (end != std::string::npos) {
    return Parse(std::string_view(bytes_).substr(0, end));
  }
  return bytes_.size() > kMaxBytes ? State::kTooLong : State::kIncomplete;
}

// "GET /path HTTP/1.1", then a field a line.
HttpRequestReader::State HttpRequestReader::Parse(std::string_view head) {
  if (head.find('\0') != std::string_view::npos) return State::kMalformed;
  size_t end = std::min(head.find("\r\n"), head.size());
  const std::string_view first = head.substr(0, end);
  const size_t one = first.find(' '), two = first.rfind(' ');
  if (one == std::string_view::npos || one == two ||
      !StartsWith(first.substr(two + 1), "HTTP/1.")) {
    return State::kMalformed;
  }
  request_.method = first.substr(0, one);
  const std::string_view target = first.substr(one + 1, two - one - 1);
  if (!StartsWith(target, "/") || target.find(' ') != std::string_view::npos) {
    return State::kMalformed;
  }
  request_.path = target.substr(0, target.find('?'));
  while (end < head.size()) {
    const size_t begin = end + 2;
    end = std::min(head.find("\r\n", begin), head.size());
    if (!ParseField(head.substr(begin, end - begin))) return State::kMalformed;
  }
  return State::kComplete;
}

bool HttpRequestReader::ParseField(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string name = LowerAscii(std::string(line.substr(0, colon)));
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value[0] == ' ' || value[0] == '\t')) {
    value.remove_prefix(1);
  }
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) {
    value.remove_suffix(1);
  }
  if (name == "host") request_.host = value;
  if (name == "authorization") request_.authorization = value;
  return true;
}

bool IsHostOfThisMachine(const std::string& host) {
  if (host.empty()) return true;  // a program, not a page
  Address address;
  sockaddr_storage numeric;
  return (ParseAddress(host, &address).ok() ||
          ParseAddress(host + ":80", &address).ok()) &&
         NumericAddress(address, &numeric).ok();
}

}  // namespace ringlet
