#include "loss_cause.h"

namespace ringlet {

const char* LossCauseName(LossCause cause) {
  switch (cause) {
    case LossCause::kExited:
      return "exited";
    case LossCause::kSilent:
      return "silent";
    case LossCause::kRefused:
      return "refused";
    case LossCause::kCut:
      return "cut";
    case LossCause::kStalled:
      return "stalled";
    case LossCause::kLeft:
      return "left";
    case LossCause::kProtocol:
      return "protocol";
    case LossCause::kSelfStalled:
      return "held up";
    case LossCause::kIsolated:
      return "received nothing from other workers";
  }
  return "unknown";
}

}  // namespace ringlet
