// The checks of the other workers, as functions of the doctors' exchange.
//
// Pure.

#ifndef RINGLET_NET_DOCTOR_PEER_CHECKS_H_
#define RINGLET_NET_DOCTOR_PEER_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exchange.h"
#include "finding.h"

namespace ringlet {

// Facts that a doctor sends about its worker. On the wire: "name\tvalue\n" for
// each field.
struct WorkerFacts {
  std::string version;        // the program's version
  std::string arithmetic;     // ArithmeticClassName()
  std::string byte_order;     // "little" or "big"
  uint64_t settings_sum = 0;  // the sum of the whole text of the settings
  int64_t packet_bytes = 0;   // its network's largest packet, or zero
};
std::string EncodeFacts(const WorkerFacts& facts);
// Any bytes. A missing field, or a field with another form, keeps its default.
WorkerFacts DecodeFacts(const std::string& text);

// The first difference of two texts of lines "name\tvalue\n":
// "compile.optimizer.config.learning_rate is 0.1 here and 0.01 there". Empty if
// they are equal.
std::string FirstDifference(const std::string& local,
                            const std::string& remote);

struct PeerContext {
  std::vector<std::string> addresses;  // "host:port", by worker
  int self = 0;
  bool listens = true;  // this worker's port is held by this doctor
  WorkerFacts facts;
  std::string settings;
  // The arithmetic must be the same on all workers (exact sums, local updates).
  bool same_arithmetic = false;
  double timeout_seconds = 5;  // the job's timeout
};
// Adds the findings about another worker.
void CheckPeerReport(const PeerContext& self, int peer,
                     const PeerReport& report, Findings* out);

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_PEER_CHECKS_H_
