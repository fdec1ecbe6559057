// Replaces the ring, the launcher and the relay in a build without them.

#include "../core/base/left_out.h"
#include "doctor/doctor.h"
#include "launch/launcher.h"
#include "relay/relay.h"
#include "ring/withdrawal.h"
#include "status/http_get.h"
#include "status/status_server.h"
#include "transport/socket_address.h"

namespace ringlet {

Status OpenRing(const RingOptions&, std::unique_ptr<Collective>*,
                std::unique_ptr<Withdrawal>*) {
  return LeftOut("a job of several workers", "workers");
}
std::unique_ptr<Withdrawal> Withdrawal::Begin(const RingOptions&,
                                              const Status&) {
  return nullptr;
}
// True, so that the user gets OpenRing's error, and not one about a missing
// key.
bool IsLoopback(const Address&) { return true; }

Result<int> Launch(const LaunchOptions&) {
  return LeftOut("ringlet launch", "workers");
}
Status Examine(const DoctorPlan&, Findings*) {
  return LeftOut("ringlet doctor", "workers");
}
Status Relay::Start(const RelayOptions&, std::unique_ptr<Relay>*) {
  return LeftOut("ringlet relay", "workers");
}

Status StatusServer::Start(const StatusServerOptions&, const Answerer&,
                           std::unique_ptr<StatusServer>*) {
  return LeftOut("--status", "workers");
}
Status HttpGet(const std::string&, const std::string&, const std::string&,
               double, std::string*) {
  return LeftOut("the status of another machine", "workers");
}

}  // namespace ringlet
