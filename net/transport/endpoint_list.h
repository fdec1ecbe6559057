// EndpointList: the list of one worker's endpoints, tried in turn.
//
// Pure. The endpoints are the addresses of the worker's name. After any failure
// the next one is tried, for any process may listen on a local socket. After
// the last one there is a pause, which doubles each time. Then the name is
// looked up again, since a restarted worker may have another address.

#ifndef RINGLET_NET_TRANSPORT_ENDPOINT_LIST_H_
#define RINGLET_NET_TRANSPORT_ENDPOINT_LIST_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

// One way to reach a worker: TCP, or the local socket named after the address.
struct Endpoint {
  sockaddr_storage address = {};
  bool local = false;
};

class EndpointList {
 public:
  // True if no endpoint is known, so the name must be looked up.
  bool empty() const { return endpoints_.empty(); }
  void SetEndpoints(std::vector<Endpoint> endpoints);
  // Sets *out to the next endpoint to try; false if all were tried.
  bool Next(Endpoint* out);
  // The last endpoint, or the lookup, has failed; `why` may be "". `longest`
  // bounds the pause, if it is less than a second. Returns the errors of all
  // endpoints tried since the lookup.
  std::string RecordFailure(const std::string& why, int64_t now,
                            int64_t longest = INT64_MAX);
  // True if the next attempt is due.
  bool IsDue(int64_t now) const { return now >= next_attempt_; }
  // The worker was reached: after its next loss the list starts again.
  void RecordSuccess();

 private:
  void Clear();

  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;     // the index of the next endpoint to try
  std::string failed_;  // the errors since the lookup
  int64_t next_attempt_ = 0;
  int64_t backoff_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_ENDPOINT_LIST_H_
