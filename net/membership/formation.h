// How a ring that is not elastic forms: the barrier, and its reports.

#ifndef RINGLET_NET_MEMBERSHIP_FORMATION_H_
#define RINGLET_NET_MEMBERSHIP_FORMATION_H_

#include <cstdint>
#include <vector>

#include "../wire/abort.h"
#include "../wire/formation_report.h"
#include "peer_table.h"

namespace ringlet {

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
// `rank + 2^k`, which need it. A rank that loses a link falls back to 0, and so
// do the ranks that relied on it. A circle of ranks cannot keep its levels,
// since each level needs a lower one. If a rank with a formed ring falls back,
// its ring has ended.
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
  std::vector<int> links_;  // the linked ranks, ascending
  std::vector<int> below_;  // rank - 2^k, by k; empty if all pairs are linked
  std::vector<int> receivers_;            // rank + 2^k, by k
  std::vector<uint32_t> proposals_;       // proposals over links_, or zero
  std::vector<FormationReport> reports_;  // the reports of below_
};

// Formation: how a ring that is not elastic forms.
//
// It owns the FormationBarrier, and the last report that other ranks have of
// this rank. The Session passes links and reports to it, and after each calls
// Update, which returns whether all ranks are connected. The ranks that need
// this rank's report get each change of it.
class Formation {
 public:
  // `fully_connected` is true if every pair of ranks is linked, and none sends
  // reports.
  Formation(int rank, int size, uint32_t proposal, bool fully_connected,
            PeerTable* links);

  void AddLink(int peer, uint32_t proposal);
  void RemoveLink(int peer) { barrier_.RemoveLink(peer); }
  // Reads a report; an error means that the link is not usable.
  Status Decode(int peer, const FrameHeader& header, const uint8_t* payload,
                FormationReport* out) const;
  void SetReport(int peer, const FormationReport& report) {
    barrier_.SetReport(peer, report);
  }
  // True if the peer reports that it is not in this rank's ring any more, or
  // that it is in a ring of another generation.
  bool HasDeparted(int peer) const { return barrier_.HasDeparted(peer); }
  bool IsInOtherGeneration(const FormationReport& report,
                           uint32_t generation) const {
    return report.level == barrier_.highest() &&
           report.generation != generation;
  }

  // Reports what has changed. `lowered` says why this rank's level may be lower
  // than before, and is null if it is not lower. Returns true if all ranks are
  // connected.
  bool Update(const AbortNotice* lowered);
  // The missing rank may change often: it is reported with the heartbeats.
  void UpdateMissing();
  // The generation of the ring, once all ranks are connected.
  uint32_t generation() const { return barrier_.OwnReport().generation; }
  // A rank that is not connected, here or elsewhere; -1 if there is none.
  int missing() const { return barrier_.OwnReport().missing; }

 private:
  void SendTo(int peer, const FormationReport& report);
  void SendToAll(const FormationReport& report);

  const int size_;
  const bool fully_connected_;
  PeerTable* const links_;
  FormationBarrier barrier_;
  FormationReport sent_;  // the last report to the receivers
};

}  // namespace ringlet

#endif  // RINGLET_NET_MEMBERSHIP_FORMATION_H_
