// RunPage: the page of ringlet report.
//
// Pure.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_RUN_PAGE_H_
#define RINGLET_TOOLS_RINGLET_REPORT_RUN_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "event_history.h"
#include "log_table.h"

namespace ringlet {

struct RunReport {
  struct Model {
    std::string path, summary, compiled;
  };
  struct Memory {
    std::string path;
    int64_t batch = 0;
    struct Row {
      std::string name;
      uint64_t bytes = 0;
      bool subtracted = false;
    };
    std::vector<Row> rows;
    uint64_t total = 0;
  };
  std::string title;
  std::vector<std::string> files;  // files that were read
  std::vector<std::string> notes;  // one for each file that could not be read
  std::vector<LogTable> tables;
  EventHistory events;
  std::vector<Model> models;
  std::vector<Memory> memory;
};

std::string RunPage(const RunReport& report);
// The part of the page below its title.
std::string RunHtml(const RunReport& report);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_RUN_PAGE_H_
