// Logs of an elastic job with one worker, for the tests of RowFile.

#ifndef RINGLET_TESTS_IO_LOGS_ROW_FILE_JOBS_H_
#define RINGLET_TESTS_IO_LOGS_ROW_FILE_JOBS_H_

#include "io/logs/row_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../support/elastic_collective.h"
#include "../../support/expect_ok.h"

namespace ringlet {

// An elastic job of one worker.
struct ElasticSolo {
  ElasticSolo() : collective(Arrived(&job), 0) {}
  static ElasticJob* Arrived(ElasticJob* job) {
    job->Arrive(0);
    return job;
  }
  Collective* get() { return &collective; }
  ElasticJob job;
  ElasticCollective collective;
};

inline void CopyState(RowFile* from, RowFile* to) {
  std::vector<StateSpan> theirs, own;
  from->AppendState(&theirs);
  from->AppendLiveState(&theirs);
  to->AppendState(&own);
  to->AppendLiveState(&own);
  for (size_t i = 0; i < own.size(); ++i) {
    std::memcpy(own[i].data, theirs[i].data, own[i].bytes());
  }
  EXPECT_OK(to->StateLoaded());
}

inline std::string RowOf(int step, size_t bytes) {
  std::string row = std::to_string(step) + ",";
  return row + std::string(bytes - row.size() - 1, 'x') + "\n";
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_IO_LOGS_ROW_FILE_JOBS_H_
