// Cause: how a member of a ring was lost.

#ifndef RINGLET_NET_TRANSPORT_LOSS_CAUSE_H_
#define RINGLET_NET_TRANSPORT_LOSS_CAUSE_H_

#include <cstdint>

namespace ringlet {

enum class LossCause : uint8_t {
  kExited,       // its end of the connection was closed without a goodbye
  kSilent,       // nothing heard for T
  kRefused,      // its host answers that no process listens
  kCut,          // the network gave up on the connection
  kStalled,      // it sends heartbeats, but its operation moves no byte
  kLeft,         // it sent a goodbye while other workers need it
  kProtocol,     // it sent an invalid frame
  kSelfStalled,  // this worker itself did not run for longer than T
  kIsolated,     // this worker has heard no other worker for T
};
const char* LossCauseName(LossCause cause);

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_LOSS_CAUSE_H_
