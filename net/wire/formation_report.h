// FormationReport: a rank's report on the connected ranks, while a large ring
// forms.
//
// Pure. Layout: docs/wire_format.md, "Formation report"; meaning:
// net/membership/formation.h.

#ifndef RINGLET_NET_WIRE_FORMATION_REPORT_H_
#define RINGLET_NET_WIRE_FORMATION_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "abort.h"

namespace ringlet {

struct FormationReport {
  int level = 0;
  int missing = -1;         // a rank that the sender waits for, if known
  uint32_t generation = 0;  // the greatest proposal that the sender knows
  // True if the level is lower than in the last report; `why` is the reason.
  bool lowered = false;
  AbortNotice why;
};

std::vector<uint8_t> EncodeFormationReport(const FormationReport& report);
Status DecodeFormationReport(const uint8_t* payload, size_t bytes, int size,
                             int sender, FormationReport* out);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_FORMATION_REPORT_H_
