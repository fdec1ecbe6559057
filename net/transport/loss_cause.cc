#include "loss_cause.h"

#include "../../core/base/named.h"

namespace ringlet {

constexpr Named<LossCause> kLossCauses[] = {
    {"exited", LossCause::kExited},
    {"silent", LossCause::kSilent},
    {"refused", LossCause::kRefused},
    {"cut", LossCause::kCut},
    {"stalled", LossCause::kStalled},
    {"left", LossCause::kLeft},
    {"protocol", LossCause::kProtocol},
    {"held up", LossCause::kSelfStalled},
    {"received nothing from other workers", LossCause::kIsolated},
};

const char* LossCauseName(LossCause cause) {
  return NameIn(kLossCauses, cause);
}

}  // namespace ringlet
