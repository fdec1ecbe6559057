// The numbers of ringlet summary and ringlet plan, for the page of ringlet
// report.

#ifndef RINGLET_TOOLS_RINGLET_COMMANDS_FILE_SUMMARIES_H_
#define RINGLET_TOOLS_RINGLET_COMMANDS_FILE_SUMMARIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

// Summarizes the layers of a RUN.json, of a saved model or of Keras's
// configuration. *compiled becomes the line with optimizer, loss and metrics;
// empty if there is none.
Status SummarizeFile(const std::string& path, std::string* summary,
                     std::string* compiled);

struct MemoryRow {
  std::string name;
  uint64_t bytes = 0;
  enum class Kind : uint8_t { kPart, kSubtracted, kTotal } kind = Kind::kPart;
};
// Plans the bytes of training a RUN.json with one worker.
Status PlanMemoryRows(const std::string& path, int64_t* batch,
                      std::vector<MemoryRow>* rows);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMANDS_FILE_SUMMARIES_H_
