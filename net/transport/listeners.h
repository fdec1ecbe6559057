// Listeners: the ports and local sockets at which a worker listens.
//
// A worker's address may appear late: DHCP and IPv6 remove it from a link
// without a carrier. On a host without a route, the host's own name may have a
// loopback address only. So the class looks the addresses up again, and tries
// to listen again, until both succeed.

#ifndef RINGLET_NET_TRANSPORT_LISTENERS_H_
#define RINGLET_NET_TRANSPORT_LISTENERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../core/base/time_units.h"
#include "../cluster/ring_options.h"
#include "own_addresses.h"
#include "uv_stream.h"

namespace ringlet {

class Listeners {
 public:
  // `own_addresses` are the addresses known so far; empty ones are looked up.
  // The other arguments outlive this object.
  Listeners(const RingOptions& options, const std::vector<Address>& hosts,
            OwnAddresses own_addresses, UvHandles* handles,
            UvListener::Owner* accepts)
      : options_(options),
        hosts_(hosts),
        own_(std::move(own_addresses)),
        handles_(handles),
        accepts_(accepts),
        warned_(own_.warning) {}

  // Listens on the known addresses. After a failure Tick tries again and Begin
  // returns OK in two cases: with `retries`, or in an elastic ring if the host
  // does not have the address yet. Otherwise Begin returns an error that names
  // the address.
  Status Begin(bool retries, int64_t now);
  // Tries again if it is time. Returns a line for the user, or "".
  std::string Tick(int64_t now);
  // Idempotent. No try follows.
  void Close();

  // Why other workers may not be able to reach this one yet, or OK.
  const Status& unreachable_reason() const { return unreachable_reason_; }
  const std::vector<std::unique_ptr<UvListener>>& all() const {
    return listeners_;
  }

 private:
  UvListener* Add();
  void ListenLocal(const sockaddr_storage& address);
  Status ListenOn(const sockaddr_storage& address);
  // *may_succeed_later becomes true if a later try may succeed.
  Status ListenOnAll(bool* may_succeed_later);
  Status MakeError(const Status& why) const;
  void StartLookup();
  void HandleAnswer(int64_t now);
  void RecordAttempt(const Status& status, int64_t now);
  std::string DueLine(int64_t now);
  void DeleteClosed();
  int64_t pause() const;  // nanoseconds between two tries

  const RingOptions& options_;
  const std::vector<Address>& hosts_;
  OwnAddresses own_;
  UvHandles* const handles_;
  UvListener::Owner* const accepts_;
  std::unique_ptr<OwnAddressSearch> search_;  // null if no search is running
  std::vector<std::unique_ptr<UvListener>> listeners_;
  std::vector<sockaddr_storage> listens_on_;
  Status unreachable_reason_;
  bool trying_ = false;
  int64_t next_try_ = 0;
  int64_t next_line_ = 0;
  int64_t line_interval_ = 5 * kSecond;  // doubles with each line
  bool failed_ = false;                  // the last try failed
  bool reported_ = false;                // a line has reported the failure
  std::string warned_;                   // the last warning about the addresses
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_LISTENERS_H_
