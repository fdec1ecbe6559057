#include "loss_cause.h"

namespace ringlet {

const char* CauseName(Cause cause) {
  switch (cause) {
    case Cause::kExited:
      return "exited";
    case Cause::kSilent:
      return "silent";
    case Cause::kRefused:
      return "refused";
    case Cause::kCut:
      return "cut";
    case Cause::kStalled:
      return "stalled";
    case Cause::kLeft:
      return "left";
    case Cause::kProtocol:
      return "protocol";
    case Cause::kSelfStalled:
      return "held up";
    case Cause::kIsolated:
      return "received nothing from other workers";
  }
  return "unknown";
}

}  // namespace ringlet
