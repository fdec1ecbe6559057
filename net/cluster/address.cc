// An address has one text: host names in lower case, IPv6 as inet_ntop writes
// it. ClusterHash and CheckDistinct compare these texts, so two forms of one
// address would be two workers. Any text may come from an environment
// variable: it is shown by Quoted alone.

#include "address.h"

#include <arpa/inet.h>

#include <map>

#include "../../core/base/text.h"
#include "resolvers.h"

namespace ringlet {

namespace {

constexpr size_t kMaxHostBytes = 253;  // a DNS name
constexpr size_t kMaxLabelBytes = 63;
constexpr size_t kMaxZoneBytes = 15;  // an interface's name on Linux

bool IsAlnum(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

Status ParseIpv6(const std::string& text, std::string* host) {
  const size_t percent = text.find('%');
  const std::string zone =
      percent == std::string::npos ? "" : text.substr(percent);
  in6_addr binary;
  bool good =
      inet_pton(AF_INET6, text.substr(0, percent).c_str(), &binary) == 1 &&
      zone.size() <= 1 + kMaxZoneBytes && zone != "%";
  for (size_t i = 1; i < zone.size(); ++i) {
    good = good && (IsAlnum(zone[i]) || zone[i] == '.' || zone[i] == '_' ||
                    zone[i] == '-');
  }
  if (!good) {
    return InvalidArgument("host %s is not an IPv6 address",
                           Quoted(text).c_str());
  }
  if (IN6_IS_ADDR_UNSPECIFIED(&binary)) {
    return InvalidArgument(
        "host [::] means every address of a machine: give the one at which the "
        "other workers reach this task");
  }
  char canonical[INET6_ADDRSTRLEN];
  *host =
      std::string(inet_ntop(AF_INET6, &binary, canonical, sizeof(canonical))) +
      zone;
  return Status();
}

Status ParseName(const std::string& text, std::string* host) {
  size_t label = 0;
  bool good = text.size() <= kMaxHostBytes;
  for (const char c : text) {
    if (c == '.') {
      good = good && label > 0;
      label = 0;
    } else {
      good = good && (IsAlnum(c) || c == '-' || c == '_') &&
             ++label <= kMaxLabelBytes;
    }
  }
  if (!good) {
    return InvalidArgument(
        "host %s is not a name (letters, digits, '-', '_' and single dots, at "
        "most 253, 63 between dots)",
        Quoted(text).c_str());
  }
  *host = LowerAscii(text);
  return Status();
}

}  // namespace

std::string Quoted(const std::string& text) {
  constexpr size_t kMaxQuoted = 60;
  std::string quoted = "'";
  for (size_t i = 0; i < text.size() && i < kMaxQuoted; ++i) {
    quoted += text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
  }
  return quoted + (text.size() > kMaxQuoted ? "...'" : "'");
}

int ParseDigits(const std::string& text, int limit) {
  int64_t value = 0;
  if (text.empty() || text.size() > 10) return -1;
  for (char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value > limit ? -1 : static_cast<int>(value);
}

Status ParseHost(const std::string& text, std::string* host) {
  if (text.empty()) return InvalidArgument("the host is empty");
  if (text.find(':') != std::string::npos) return ParseIpv6(text, host);
  if (text.find_first_not_of("0123456789.") != std::string::npos) {
    return ParseName(text, host);
  }
  in_addr binary;
  if (inet_pton(AF_INET, text.c_str(), &binary) != 1) {
    return InvalidArgument("host %s is not an IPv4 address",
                           Quoted(text).c_str());
  }
  if (binary.s_addr == 0) {
    return InvalidArgument(
        "host 0.0.0.0 means every address of a machine: give the one at which "
        "the other workers reach this task");
  }
  *host = text;
  return Status();
}

Status ParseAddress(const std::string& text, Address* address) {
  const std::string quoted = Quoted(text);
  if (text.find("://") != std::string::npos) {
    return InvalidArgument("address %s: write host:port, without a scheme",
                           quoted.c_str());
  }
  std::string host, port;
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == std::string::npos || close + 1 >= text.size() ||
        text[close + 1] != ':') {
      return InvalidArgument("address %s: write [IPv6 address]:port",
                             quoted.c_str());
    }
    host = text.substr(1, close - 1);
    port = text.substr(close + 2);
    if (host.find(':') == std::string::npos) {
      return InvalidArgument("address %s: only an IPv6 address has brackets",
                             quoted.c_str());
    }
  } else {
    const size_t colon = text.find(':');
    if (colon == std::string::npos) {
      return InvalidArgument("address %s has no port: write host:port",
                             quoted.c_str());
    }
    if (text.find(':', colon + 1) != std::string::npos) {
      return InvalidArgument(
          "address %s has several colons: write host:port, or [IPv6 "
          "address]:port",
          quoted.c_str());
    }
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  Address parsed;
  RINGLET_RETURN_IF_ERROR(
      ParseHost(host, &parsed.host).Annotate("address %s", quoted.c_str()));
  parsed.port = ParseDigits(port, 65535);
  if (parsed.port < 1) {
    return InvalidArgument(
        "address %s: port %s is not a number from 1 to "
        "65535",
        quoted.c_str(), Quoted(port).c_str());
  }
  *address = parsed;
  return Status();
}

std::string ToString(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" +
         std::to_string(address.port);
}

Status CheckDistinct(const std::vector<Address>& addresses) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto [at, fresh] = seen.emplace(ToString(addresses[i]), i);
    if (!fresh) {
      return InvalidArgument(
          "address %s is given twice (addresses %zu and %zu): give each task "
          "its own host or port",
          at->first.c_str(), at->second, i);
    }
  }
  return Status();
}

}  // namespace ringlet
