// Formation: how a ring that is not elastic forms.
//
// It owns the FormationBarrier, and the last report that others have of this
// rank. The Session passes links and reports to it, and after each calls
// Update, which returns whether all ranks are connected. The ranks that need
// this rank's report get each change of it.

#ifndef RINGLET_NET_MEMBERSHIP_FORMATION_H_
#define RINGLET_NET_MEMBERSHIP_FORMATION_H_

#include <cstdint>

#include "../wire/abort.h"
#include "formation_barrier.h"
#include "peer_table.h"

namespace ringlet {

class Formation {
 public:
  // `fully_connected`: every pair of ranks is linked, and none sends reports.
  Formation(int rank, int size, uint32_t proposal, bool fully_connected,
            PeerTable* links);

  void AddLink(int peer, uint32_t proposal);
  void RemoveLink(int peer) { barrier_.RemoveLink(peer); }
  // Reads a report; an error is one of the link.
  Status Decode(int peer, const FrameHeader& header, const uint8_t* payload,
                FormationReport* out) const;
  void SetReport(int peer, const FormationReport& report) {
    barrier_.SetReport(peer, report);
  }
  // True if the peer reports that it is not in this rank's ring any more, or
  // that it is in one of another generation.
  bool HasDeparted(int peer) const { return barrier_.HasDeparted(peer); }
  bool InOther(const FormationReport& report, uint32_t generation) const {
    return report.level == barrier_.highest() &&
           report.generation != generation;
  }

  // Reports what has changed. `lowered`: why this rank's level may be lower
  // than before; null: it is not. Returns true if all ranks are connected.
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
