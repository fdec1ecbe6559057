// RollCall: what a worker says while it waits for the others.
//
// Internal to net/. Pure: time comes in as an argument, in nanoseconds of a
// monotonic clock; what is to be said comes out as lines, without their end.
// Who is missing is said after 1 s and then every 10 s. A refused handshake is
// said at once, the same one again after a minute at the earliest, and of all
// kMostRefusals in a time that doubles whenever it was used up: a stranger
// cannot fill a log.

#ifndef RINGLET_NET_RING_ROLL_CALL_H_
#define RINGLET_NET_RING_ROLL_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ringlet {

class RollCall {
 public:
  static constexpr int64_t kSecond = 1000000000;
  static constexpr int64_t kFirst = 1 * kSecond;
  static constexpr int64_t kEvery = 10 * kSecond;
  static constexpr int kMostRefusals = 5;
  static constexpr int64_t kRefusalsWindow = 10 * kSecond;
  static constexpr int64_t kLongestWindow = 640 * kSecond;
  static constexpr int64_t kSameRefusal = 60 * kSecond;

  // `deadline_seconds`: when the wait is over, for the lines.
  // `enough`: how many workers suffice; 0: all are needed.
  RollCall(int rank, std::vector<std::string> addresses,
           double deadline_seconds, int enough = 0);

  // All others that this one is to be linked with are missing from now on.
  void Begin(int64_t now);
  void Came(int peer) { peers_[peer].missing = false; }
  // Was there, and is missing anew.
  void Lost(int peer, int64_t now);
  // A rank that another misses; -1: none is known. Of one that is missing here
  // Missing() tells anyway. At the end of a vain wait those who waited give up
  // one after another: another name counts once it has held for a second.
  void Elsewhere(int peer, int64_t now);
  // What is known of why it is missing.
  void Trouble(int peer, const std::string& why) { peers_[peer].why = why; }

  // The line that is due; "" for none. Where others live and compute it does
  // not give up.
  std::string Due(int64_t now, bool gives_up = true);
  // All are there: a line where one was due before, else "".
  std::string Complete(int64_t now) const;
  // A connection was refused here, or by a peer: the line to say, "" where it
  // is kept back, as all is that is `quiet`. Remembered for Missing().
  std::string Refused(const std::string& from, const std::string& why,
                      int64_t now, bool quiet = false);
  std::string RefusedBy(int peer, const std::string& why, int64_t now);

  // "rank 0 (a:1), missing for 11 s: cannot connect; …", with what was refused.
  std::string Missing(int64_t now) const;

 private:
  struct Peer {
    bool missing = false;
    int64_t since = 0;
    std::string why = "has not connected";
  };
  struct Said {
    std::string text;
    int64_t at = 0;
  };
  std::string Limited(const std::string& key, const std::string& line,
                      int64_t now);
  std::string Self() const;

  const int rank_;
  const std::vector<std::string> addresses_;
  const double deadline_seconds_;
  const int enough_;
  std::vector<Peer> peers_;  // by rank
  int64_t begin_ = 0;
  int64_t next_ = 0;
  bool said_ = false;
  int elsewhere_ = -1;
  int named_ = -1;  // last, since named_at_
  int64_t named_at_ = 0;
  std::string refused_;  // about the last connection refused here
  Said last_[kMostRefusals];
  int oldest_ = 0;
  int64_t window_ = kRefusalsWindow;
  int64_t window_begin_ = 0;
  int in_window_ = 0;
  int64_t hidden_ = 0;  // since the last that was said
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_ROLL_CALL_H_
