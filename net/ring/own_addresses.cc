#include "own_addresses.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "name_lookup.h"
#include "socket_address.h"

namespace ringlet {
namespace {

using Clock = std::chrono::steady_clock;

// The most that a look at the others' names holds up the start.
constexpr double kOthersSeconds = 5;

// Of a datagram's socket, which goes nowhere until something is sent.
bool FindRoute(const sockaddr_storage& to, sockaddr_storage* from) {
  const int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const socklen_t bytes =
      to.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  socklen_t from_bytes = sizeof(*from);
  const bool found =
      connect(fd, reinterpret_cast<const sockaddr*>(&to), bytes) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(from), &from_bytes) == 0;
  close(fd);
  return found;
}

bool AllLoopback(const std::vector<sockaddr_storage>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), IsLoopbackAddress);
}

// The first rank that is on another host, with one of its addresses; -1 where
// none is, or none that the resolver finds in time. Where this rank is given by
// number nobody is looked up.
int FindElsewhere(const std::vector<Address>& hosts, int rank, double seconds,
                  sockaddr_storage* address) {
  sockaddr_storage self;
  const bool by_number = NumericAddress(hosts[rank], &self).ok();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  std::vector<std::unique_ptr<NameLookup>> lookups(hosts.size());
  for (size_t r = 0; r < hosts.size(); ++r) {
    const bool known = std::any_of(
        hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(r),
        [&](const Address& before) { return before.host == hosts[r].host; });
    if (known || hosts[r].host == hosts[rank].host) continue;
    sockaddr_storage numeric;
    if (by_number && !NumericAddress(hosts[r], &numeric).ok()) continue;
    lookups[r] = std::make_unique<NameLookup>(hosts[r]);
  }
  for (size_t r = 0; r < hosts.size(); ++r) {
    const double left =
        std::chrono::duration<double>(end - Clock::now()).count();
    if (lookups[r] == nullptr || !lookups[r]->Wait(std::max(left, 0.0))) {
      continue;
    }
    std::vector<sockaddr_storage> answers;
    lookups[r]->Answer(&answers).IgnoreError();  // then there are none
    if (answers.empty() ||
        std::any_of(answers.begin(), answers.end(), IsLocalAddress)) {
      continue;
    }
    *address = answers.front();
    return static_cast<int>(r);
  }
  return -1;
}

bool WaitAloud(const NameLookup& lookup, const Address& self, int rank,
               double seconds, void (*say)(const std::string& line)) {
  double waited = 0;
  for (double next = 1; next < seconds; next += 10) {
    if (lookup.Wait(next - waited)) return true;
    waited = next;
    if (say == nullptr) continue;
    say("rank " + std::to_string(rank) + " (" + ToString(self) +
        ") has waited " + std::to_string(static_cast<int>(next)) +
        " s for the resolver to find its own name");
  }
  return lookup.Wait(seconds - waited);
}

}  // namespace

RouteFinder route_finder = FindRoute;

Status FindOwnAddresses(const std::vector<Address>& hosts, int rank,
                        double seconds, std::vector<sockaddr_storage>* own,
                        std::string* warning,
                        void (*say)(const std::string& line)) {
  const Address& self = hosts[rank];
  warning->clear();
  const NameLookup lookup(self);
  if (!WaitAloud(lookup, self, rank, seconds, say)) {
    return Error(Code::kDeadlineExceeded,
                 "rank %d waited %g s for the resolver to find its own name %s",
                 rank, seconds, self.host.c_str());
  }
  const Status found = lookup.Answer(own);
  if (!found.ok()) {  // it may have one when the network is up
    return Error(Code::kUnavailable, "rank %d: %s", rank, found.message());
  }
  if (!AllLoopback(*own)) return Status();
  sockaddr_storage there;
  const int other =
      FindElsewhere(hosts, rank, std::min(seconds / 2, kOthersSeconds), &there);
  if (other < 0) return Status();  // all are of this host
  const std::string what =
      "rank " + std::to_string(rank) + "'s own address " + ToString(self) +
      " is " + AddressText(own->front()) + " on this host, where rank " +
      std::to_string(other) + " (" + ToString(hosts[other]) +
      ") on another host cannot reach it";
  sockaddr_storage numeric;
  if (NumericAddress(self, &numeric).ok()) {
    *warning = what + ": put this host's address in the network in its place";
    return Status();
  }
  const std::string loopback = AddressText(own->front());
  const std::string cure = "in /etc/hosts give " + self.host +
                           " this host's address in the network instead of " +
                           loopback.substr(0, loopback.rfind(':')) +
                           ", or put numeric addresses into the configuration";
  sockaddr_storage way = {};
  if (route_finder(there, &way)) {
    SetPort(self.port, &way);
    own->push_back(way);
    *warning =
        what + ", so it listens on " + AddressText(way) + " too: " + cure;
  } else {
    *warning = what + ": " + cure;
  }
  return Status();
}

}  // namespace ringlet
