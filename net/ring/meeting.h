// Meeting: when all ranks of a ring have met, and which generation it is.
//
// Internal to net/. Pure. Where every pair of workers is linked, all have met
// for a rank whose links are all up. In a large ring it is told the rest, by
// statements that hold until they are replaced. A rank's level is
//   0            one of its links is missing;
//   1            all are up;
//   L + 1        and rank - 2^(L-1) has said level L, or a higher one.
// At level L the 2^(L-1) ranks up to this one have all their links, so at the
// highest level all have met. Each tells its level to those that ask for it,
// the ranks + 2^k. One that loses a link falls back to 0, and whoever relied on
// it falls too: no circle holds itself up, for a level rests on lower ones.
// Where that reaches a rank that took the ring for formed, its ring has ended.

#ifndef RINGLET_NET_RING_MEETING_H_
#define RINGLET_NET_RING_MEETING_H_

#include <cstdint>
#include <vector>

#include "../wire/met.h"

namespace ringlet {

class Meeting {
 public:
  Meeting(int rank, int size, uint32_t proposal);

  // A link is up, and its other end proposes a generation; or no longer.
  void Joined(int peer, uint32_t proposal);
  void Lost(int peer);
  void Said(int peer, const Met& met);

  // What this rank can say now; `why` is not of it.
  Met Mine() const;
  bool complete() const { return Mine().level == highest(); }
  // Whether complete() rests on more than what `peer` says now.
  bool Deserted(int peer) const;
  // Whom to tell.
  const std::vector<int>& audience() const { return audience_; }
  int highest() const { return static_cast<int>(below_.size()) + 1; }

 private:
  const uint32_t proposal_;
  std::vector<int> links_;     // ascending
  std::vector<int> below_;     // rank - 2^k, by k; empty: every pair is linked
  std::vector<int> audience_;  // rank + 2^k, by k
  std::vector<uint32_t> proposals_;  // of links_; 0: no link
  std::vector<Met> said_;            // of below_
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_MEETING_H_
