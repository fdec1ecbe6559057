// Candidates: the endpoints of one rank, tried in turn.
//
// Internal to net/. Pure. Each address that the rank's name has, one at a time.
// Whatever goes wrong with one leads to the next, for nobody vouches for who
// listens on a local socket. After the last comes a pause that doubles, and the
// name is looked up anew: a worker that starts again may be elsewhere.

#ifndef RINGLET_NET_RING_CANDIDATES_H_
#define RINGLET_NET_RING_CANDIDATES_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

// One way to reach a rank: TCP, or the local socket named after the address.
struct Endpoint {
  sockaddr_storage address = {};
  bool local = false;
};

class Candidates {
 public:
  // None is known: they are to be looked up.
  bool empty() const { return endpoints_.empty(); }
  void Found(std::vector<Endpoint> endpoints);
  // The next to try; false where all have been.
  bool Next(Endpoint* out);
  // The last one, or the lookup, has failed; `why` may be "". `longest`: of the
  // pause, if less than a second. Returns what is known of all that were tried
  // in this turn.
  std::string Failed(const std::string& why, int64_t now,
                     int64_t longest = INT64_MAX);
  // When the next attempt is due.
  bool Due(int64_t now) const { return now >= next_attempt_; }
  // It was reached: should it be lost again, all begins anew.
  void Reached();

 private:
  void Forget();

  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;     // the one before is under way, or has failed
  std::string failed_;  // of those tried in this turn
  int64_t next_attempt_ = 0;
  int64_t backoff_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_CANDIDATES_H_
