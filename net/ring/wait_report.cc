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

// What it computes, or takes part in.
std::string ActivityText(const Activity& activity) {
  if (!activity.computing()) return OperationText(activity);
  return "step " + std::to_string(activity.step) + ", after operation " +
         std::to_string(activity.sequence);
}

std::string OtherText(const Waiting::Other& other,
                      const std::vector<std::string>& addresses) {
  const bool computing = other.activity.computing();
  const std::string what = ActivityText(other.activity);
  char text[160];
  if (other.silent > 0) {
    std::snprintf(text, sizeof(text),
                  ", silent for %.1f s, which said last that it %s%s",
                  other.silent, computing ? "computes, " : "is ", what.c_str());
  } else if (computing) {
    std::snprintf(text, sizeof(text), ", which has computed for %.0f s, %s",
                  other.seconds, what.c_str());
  } else {
    std::snprintf(text, sizeof(text), ", which has been %s, for %.0f s",
                  what.c_str(), other.seconds);
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
