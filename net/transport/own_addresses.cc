// Look-ups may block for long, so OwnAddressSearch runs them on a detached
// thread. Its State is shared with that thread: the search may be destroyed
// while the thread still waits for the resolver.

#include "own_addresses.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "../cluster/address.h"
#include "detached_thread.h"
#include "name_lookup.h"
#include "socket_address.h"

namespace ringlet {
namespace {

using Clock = std::chrono::steady_clock;

// The longest time that the lookup of other workers' names delays the start.
constexpr double kOthersSeconds = 5;

// Connects a datagram socket, which sends nothing, and reads its own address.
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

// Returns the first worker on another host, with its addresses; -1 if there is
// none. *all_known becomes true if the resolver answered for every worker in
// time. If this worker's own address is numeric, names are not looked up.
int FindRemoteWorker(const std::vector<Address>& hosts, int worker,
                     double seconds, std::vector<sockaddr_storage>* addresses,
                     bool* all_known) {
  *all_known = true;
  sockaddr_storage self;
  const bool by_number = NumericAddress(hosts[worker], &self).ok();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  std::vector<std::unique_ptr<NameLookup>> lookups(hosts.size());
  for (size_t r = 0; r < hosts.size(); ++r) {
    const bool known = std::any_of(
        hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(r),
        [&](const Address& before) { return before.host == hosts[r].host; });
    if (known || hosts[r].host == hosts[worker].host) continue;
    sockaddr_storage numeric;
    if (by_number && !NumericAddress(hosts[r], &numeric).ok()) continue;
    lookups[r] = std::make_unique<NameLookup>(hosts[r]);
  }
  for (size_t r = 0; r < hosts.size(); ++r) {
    const double seconds_left =
        std::chrono::duration<double>(end - Clock::now()).count();
    if (lookups[r] == nullptr) continue;
    std::vector<sockaddr_storage> answers;
    const bool done = lookups[r]->Wait(std::max(seconds_left, 0.0));
    if (!done || !lookups[r]->Answer(&answers).ok() || answers.empty()) {
      *all_known = false;
      continue;
    }
    if (std::any_of(answers.begin(), answers.end(), IsLocalAddress)) continue;
    *addresses = answers;
    return static_cast<int>(r);
  }
  return -1;
}

bool WaitWithLines(const NameLookup& lookup, const Address& self, int worker,
                   double seconds,
                   void (*print_line)(const std::string& line)) {
  double waited = 0;
  for (double next = 1; next < seconds; next += 10) {
    if (lookup.Wait(next - waited)) return true;
    waited = next;
    if (print_line == nullptr) continue;
    print_line("worker " + std::to_string(worker) + " (" + ToString(self) +
               ") has waited " + std::to_string(static_cast<int>(next)) +
               " s for the resolver to find its own name");
  }
  return lookup.Wait(seconds - waited);
}

// The name of this worker has a loopback address, and worker `other` is on
// another host, with the addresses `remote`. Adds the address that this host
// uses to reach that host, if it has a route.
void AddRouteAddress(const std::vector<Address>& hosts, int worker, int other,
                     const std::vector<sockaddr_storage>& remote,
                     OwnAddresses* own_addresses) {
  const Address& self = hosts[worker];
  const std::string loopback = AddressText(own_addresses->addresses.front());
  const std::string problem =
      "worker " + std::to_string(worker) + "'s own address " + ToString(self) +
      " is " + loopback + " on this host, where worker " +
      std::to_string(other) + " (" + ToString(hosts[other]) +
      ") on another host cannot reach it";
  sockaddr_storage numeric;
  if (NumericAddress(self, &numeric).ok()) {
    own_addresses->complete = true;  // the user chose this address
    own_addresses->warning =
        problem + ": put this host's address in the network in its place";
    return;
  }
  const std::string remedy =
      "in /etc/hosts give " + self.host +
      " this host's address in the network instead of " +
      loopback.substr(0, loopback.rfind(':')) +
      ", or put numeric addresses into the configuration";
  sockaddr_storage route = {};
  // There may be no route to some of them, such as to IPv6 on a host without.
  own_addresses->complete = std::any_of(
      remote.begin(), remote.end(),
      [&](const sockaddr_storage& to) { return route_finder(to, &route); });
  if (!own_addresses->complete) {
    own_addresses->warning = problem + ": " + remedy;
    return;
  }
  SetPort(self.port, &route);
  own_addresses->addresses.push_back(route);
  own_addresses->warning =
      problem + ", so it listens on " + AddressText(route) + " too: " + remedy;
}

}  // namespace

RouteFinder route_finder = FindRoute;

Status FindOwnAddresses(const std::vector<Address>& hosts, int worker,
                        double seconds, OwnAddresses* own_addresses,
                        void (*print_line)(const std::string& line)) {
  const Address& self = hosts[worker];
  *own_addresses = OwnAddresses();
  const NameLookup lookup(self);
  if (!WaitWithLines(lookup, self, worker, seconds, print_line)) {
    return Error(
        Code::kDeadlineExceeded,
        "worker %d waited %g s for the resolver to find its own name %s",
        worker, seconds, self.host.c_str());
  }
  const Status found = lookup.Answer(&own_addresses->addresses);
  if (!found.ok()) {  // the name may resolve once the network is up
    return Error(Code::kUnavailable, "worker %d: %s", worker, found.message());
  }
  own_addresses->complete = true;
  if (!AllLoopback(own_addresses->addresses)) return Status();
  std::vector<sockaddr_storage> remote;
  const int other =
      FindRemoteWorker(hosts, worker, std::min(seconds / 2, kOthersSeconds),
                       &remote, &own_addresses->complete);
  if (other >= 0) AddRouteAddress(hosts, worker, other, remote, own_addresses);
  return Status();
}

struct OwnAddressSearch::State {
  std::mutex mutex;  // guards what follows
  bool done = false;
  Status status;
  OwnAddresses addresses;

  void Run(const std::vector<Address>& hosts, int worker, double seconds) {
    OwnAddresses found;
    const Status result = FindOwnAddresses(hosts, worker, seconds, &found);
    const std::lock_guard<std::mutex> lock(mutex);
    status = result;
    addresses = std::move(found);
    done = true;
  }
};

OwnAddressSearch::OwnAddressSearch(const std::vector<Address>& hosts,
                                   int worker, double seconds)
    : state_(std::make_shared<State>()) {
  sockaddr_storage numeric;
  if (NumericAddress(hosts[worker], &numeric).ok()) {
    state_->Run(hosts, worker, seconds);
    return;
  }
  const int error =
      StartDetachedThread([share = state_, hosts, worker, seconds] {
        share->Run(hosts, worker, seconds);
      });
  if (error == 0) return;
  state_->status =
      OsError(error, "worker %d cannot start a thread to look up %s", worker,
              hosts[worker].host.c_str());
  state_->done = true;
}

bool OwnAddressSearch::done() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->done;
}

Status OwnAddressSearch::Answer(OwnAddresses* own_addresses) const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  *own_addresses = state_->addresses;
  return state_->status;
}

}  // namespace ringlet
