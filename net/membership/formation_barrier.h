// FormationBarrier: decides when all ranks of a ring are connected, and in
// which generation.
//
// Pure. It owns the known proposals and reports of the other ranks. Formation
// passes links and reports to it. All complete ranks have the same generation.
//
// If every pair of ranks is linked, a rank has passed the barrier when all its
// links are up. In a large ring it also needs the reports of other ranks. A
// report is valid until the next one replaces it. A rank's level is
//   0            if one of its links is missing;
//   1            if all its links are up;
//   L + 1        if also rank - 2^(L-1) has reported level L or higher.
// At level L the 2^(L-1) ranks up to this one have all their links, so at the
// highest level all ranks are connected. Each rank sends its level to the ranks
// + 2^k, which need it. A rank that loses a link falls back to 0, and so do the
// ranks that relied on it. A circle of ranks cannot keep its levels, since each
// level needs a lower one. If a rank with a formed ring falls back, its ring
// has ended.

#ifndef RINGLET_NET_MEMBERSHIP_FORMATION_BARRIER_H_
#define RINGLET_NET_MEMBERSHIP_FORMATION_BARRIER_H_

#include <cstdint>
#include <vector>

#include "../wire/formation_report.h"

namespace ringlet {

class FormationBarrier {
 public:
  FormationBarrier(int rank, int size, uint32_t proposal);

  // AddLink: the link to `peer` is up, and `peer` proposes a generation.
  // RemoveLink: the link is no longer up.
  void AddLink(int peer, uint32_t proposal);
  void RemoveLink(int peer);
  void SetReport(int peer, const FormationReport& report);

  // The report of this rank's present level; its `why` is not set.
  FormationReport OwnReport() const;
  bool complete() const { return OwnReport().level == highest(); }
  // True if `peer` now reports less than complete() needs.
  bool HasDeparted(int peer) const;
  // The ranks that get this rank's reports.
  const std::vector<int>& receivers() const { return receivers_; }
  int highest() const { return static_cast<int>(below_.size()) + 1; }

 private:
  const uint32_t proposal_;
  std::vector<int> links_;      // the linked ranks, ascending
  std::vector<int> below_;      // rank - 2^k, by k; empty: every pair is linked
  std::vector<int> receivers_;  // rank + 2^k, by k
  std::vector<uint32_t> proposals_;  // the proposals over links_; 0: no link
  std::vector<FormationReport> reports_;  // the reports of below_
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_FORMATION_BARRIER_H_
