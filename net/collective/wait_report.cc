#include "wait_report.h"

#include "../../core/base/text.h"

namespace ringlet {
namespace {

std::string OperationText(const Activity& activity) {
  return FormatText("in operation %llu (%s), step %llu",
                    static_cast<unsigned long long>(activity.sequence),
                    FrameTypeName(activity.type),
                    static_cast<unsigned long long>(activity.step));
}

// The computation, or the operation that the rank takes part in.
std::string ActivityText(const Activity& activity) {
  if (!activity.computing()) return OperationText(activity);
  return "step " + std::to_string(activity.step) + ", after operation " +
         std::to_string(activity.sequence);
}

std::string EntryText(const WaitChain::Entry& entry,
                      const std::vector<std::string>& addresses) {
  const bool computing = entry.activity.computing();
  const std::string activity_text = ActivityText(entry.activity);
  std::string out =
      "rank " + std::to_string(entry.rank) + " (" + addresses[entry.rank] + ")";
  if (entry.silent > 0) {
    out += FormatText(", silent for %.1f s, which last reported that it %s%s",
                      entry.silent, computing ? "computes, " : "is ",
                      activity_text.c_str());
  } else if (computing) {
    out += FormatText(", which has computed for %.0f s, %s", entry.seconds,
                      activity_text.c_str());
  } else {
    out += FormatText(", which has been %s, for %.0f s", activity_text.c_str(),
                      entry.seconds);
  }
  if (entry.activity.waiting_on >= 0) {
    out += ", waiting for rank " + std::to_string(entry.activity.waiting_on);
  }
  return out;
}

}  // namespace

std::string WaitEndMessage(int rank, double seconds) {
  return FormatText("rank %d has waited %.*f s, and continues", rank,
                    seconds < 10 ? 1 : 0, seconds);
}

std::string WaitMessage(const WaitChain& waiting, double seconds,
                        const std::vector<std::string>& addresses) {
  std::string out = FormatText("rank %d has waited %.*f s ", waiting.rank,
                               seconds < 10 ? 1 : 0, seconds) +
                    OperationText(waiting.activity) + ", for ";
  if (waiting.entries.empty()) {
    return out + "the network to accept its data";
  }
  out += EntryText(waiting.entries.front(), addresses);
  if (waiting.entries.size() == 1) return out;
  return out + "; at the end of that is " +
         EntryText(waiting.entries.back(), addresses);
}

}  // namespace ringlet
