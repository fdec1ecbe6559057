#include "wait_report.h"

#include <cstdio>

namespace ringlet {
namespace {

std::string OperationText(const Activity& activity) {
  char text[96];
  std::snprintf(text, sizeof(text), "in operation %llu (%s), step %llu",
                static_cast<unsigned long long>(activity.sequence),
                FrameTypeName(activity.type),
                static_cast<unsigned long long>(activity.step));
  return text;
}

std::string OtherText(const Waiting::Other& other,
                      const std::vector<std::string>& addresses) {
  char text[160];
  if (other.silent > 0 && other.activity.computing()) {
    std::snprintf(text, sizeof(text),
                  ", silent for %.1f s, which said last that it computes, step "
                  "%llu, after operation %llu",
                  other.silent,
                  static_cast<unsigned long long>(other.activity.step),
                  static_cast<unsigned long long>(other.activity.sequence));
  } else if (other.silent > 0) {
    std::snprintf(text, sizeof(text),
                  ", silent for %.1f s, which said last that it is %s",
                  other.silent, OperationText(other.activity).c_str());
  } else if (other.activity.computing()) {
    std::snprintf(text, sizeof(text),
                  ", which has computed for %.0f s, step %llu, after operation "
                  "%llu",
                  other.seconds,
                  static_cast<unsigned long long>(other.activity.step),
                  static_cast<unsigned long long>(other.activity.sequence));
  } else {
    std::snprintf(text, sizeof(text), ", which has been %s, for %.0f s",
                  OperationText(other.activity).c_str(), other.seconds);
  }
  std::string out = "rank " + std::to_string(other.rank) + " (" +
                    addresses[other.rank] + ")" + text;
  if (other.activity.waiting_on >= 0) {
    out += ", waiting for rank " + std::to_string(other.activity.waiting_on);
  }
  return out;
}

}  // namespace

std::string WaitedText(int rank, double seconds) {
  char text[96];
  std::snprintf(text, sizeof(text), "rank %d has waited %.*f s, and goes on",
                rank, seconds < 10 ? 1 : 0, seconds);
  return text;
}

std::string WaitText(const Waiting& waiting, double seconds,
                     const std::vector<std::string>& addresses) {
  char text[64];
  std::snprintf(text, sizeof(text), "rank %d has waited %.*f s ", waiting.rank,
                seconds < 10 ? 1 : 0, seconds);
  std::string out = text + OperationText(waiting.activity) + ", for ";
  if (waiting.chain.empty()) {
    return out + "the network to take what it sends";
  }
  out += OtherText(waiting.chain.front(), addresses);
  if (waiting.chain.size() == 1) return out;
  return out + "; at the end of that is " +
         OtherText(waiting.chain.back(), addresses);
}

}  // namespace ringlet
