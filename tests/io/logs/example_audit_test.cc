#include "io/logs/example_audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/thread_collective.h"
#include "../../support/tiny_model.h"
#include "core/data/dataset_parts.h"
#include "core/fit/fit_details.h"
#include "ringlet/loggers.h"

namespace ringlet {
namespace {

constexpr char kHeader[] = "epoch,step,replica,pass,used,size,examples\n";

Status Audit(const std::vector<std::string>& logs, std::string* proof) {
  ExampleAudit audit;
  for (size_t i = 0; i < logs.size(); ++i) {
    RINGLET_RETURN_IF_ERROR(audit.Add("log" + std::to_string(i), logs[i]));
  }
  return audit.Finish(proof);
}

// The error, or the proof.
std::string AuditText(const std::vector<std::string>& logs) {
  std::string proof;
  const Status status = Audit(logs, &proof);
  EXPECT_TRUE(status.ok() || status.code() == Code::kCorruption);
  return status.ok() ? proof : status.message();
}

std::string LogOf(const std::string& rows) { return kHeader + rows; }

TEST(ExampleAuditTest, Audit_RightAndWrongLogs_ProvesOrNamesTheError) {
  const std::string good =
      "0,0,all,0,0,4,1 3\n0,1,all,0,2,4,0 2\n1,0,all,1,0,4,2 0\n";
  EXPECT_EQ(AuditText({LogOf(good)}),
            "3 steps; 1 whole passes of 4 examples, no example twice in one; 2 "
            "of the next");
  const struct {
    std::vector<std::string> logs;
    const char* message;
  } cases[] = {
      {{LogOf("0,0,all,0,0,4,1 3\n0,1,all,0,2,4,0 3\n")},
       "example 3 is used twice in pass 0: in epoch 0, step 0, and in epoch 0, "
       "step 1"},
      {{LogOf("0,0,all,0,0,4,1 3\n1,0,all,1,0,4,2 0\n")},
       "pass 0, which ends before epoch 1, step 0, used 2 of its 4 examples"},
      {{LogOf("0,0,all,0,0,4,1\n0,2,all,0,2,4,2\n")},
       "no log has the step before epoch 0, step 2, nor any since epoch 0, "
       "step 0"},
      {{LogOf("0,0,all,0,0,4,1 3\n"), LogOf("0,0,all,0,0,4,1 2\n")},
       "epoch 0, step 0 has other examples than in log0"},
      {{LogOf("0,0,all,0,0,4,1\n0,1,all,0,2,4,2\n")},
       "epoch 0, step 1 begins in pass 0 after 2 examples, and the steps "
       "before end in pass 0 after 1"},
      {{LogOf("0,0,all,0,0,4,1 3\n0,1,all,2,2,4,0\n")}, "pass 0, which ends"},
      {{LogOf("0,0,0,0,0,0,1 3\n0,1,0,0,0,0,3\n")}, "step 1, replica 0"},
      {{LogOf("0,0,0,0,0,0,1\n0,0,1,0,0,0,2\n0,1,1,0,0,0,3\n")},
       "replica 1 has other steps than replica 0"},
      {{LogOf("0,0,0,0,0,0,1\n0,1,0,0,0,0,2\n1,0,0,1,0,0,1\n2,0,0,2,0,0,1\n")},
       "no log has the step before epoch 2, step 0, replica 0"},
      {{LogOf("0,0,1,0,0,0,1\n")}, "there are rows of replica '1'"},
      {{LogOf("0,1,all,0,0,4,1\n")}, "no log has the steps before epoch 0"},
      {{LogOf("3,0,all,1,0,4,1\n")}, "no log has the steps before epoch 3"},
      {{LogOf("0,0,all,0,9223372036854775807,4,1\n")}, "is not a number"},
      {{LogOf("")}, "the logs hold no step"},
      {{"", "epoch,st"}, "the logs hold no step"},
      {{"epoch,steps"}, "log0, line 1: it has no header"},
      {{"0,0,all,0,0,4,1\n"}, "log0, line 1: it has no header"},
      {{LogOf("0,0,all,0,4,1\n")},
       "log0, line 2: has 5 fields before the examples, not 6"},
      {{LogOf("0,x,all,0,0,4,1\n")}, "'x' is not a number"},
      {{LogOf("0,0,all,0,-1,4,1\n")}, "'-1' is not a number"},
      {{LogOf("0,0,all,0,0,4,1  2\n")}, "the example '' is not a number"},
      {{LogOf("0,0,all,0,0,4,99999999999999999999\n")}, "is not a number"},
  };
  for (const auto& c : cases) {
    const std::string printed = AuditText(c.logs);
    EXPECT_TRUE(Contains(printed, c.message));
  }
  // The first log is cut off in its last row. The second begins there, in the
  // middle of a pass.
  EXPECT_EQ(AuditText({LogOf("0,0,all,0,0,4,1 3\n0,1,all,0"),
                       LogOf("0,1,all,0,2,4,0 2\n")}),
            "2 steps; 1 whole passes of 4 examples, no example twice in one");
  // The log of a chief may be empty or a header: it was lost at its start.
  EXPECT_EQ(AuditText({"", LogOf("0,0,all,0,0,2,1 0\n"), "epoch,step"}),
            "1 steps; 1 whole passes of 2 examples, no example twice in one");
}

// The audit accepts the log of a fit, whatever its batches, and rejects any
// change of it.
TEST(ExampleAuditTest, Audit_RealAndChangedLogs_ProvesOnlyTheReal) {
  int noticed = 0, changed = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TempFolder folder;
    const int workers = 1 + static_cast<int>(random() % 3);
    const int examples = 3 + static_cast<int>(random() % 30);
    const int batch = workers + static_cast<int>(random() % 40);
    const bool crosses = random() % 2 == 0, drops = random() % 3 == 0;
    const AutoShardPolicy policy =
        random() % 4 == 0 ? AutoShardPolicy::kOff : AutoShardPolicy::kAuto;
    if (drops && !crosses && batch > examples) continue;
    RunRanks(workers, [&](Collective* collective) {
      auto model = TinyModel(SGD(0.1f), 0, collective);
      FitOptions options = Quiet(3);
      options.steps_per_epoch = crosses ? 5 : 0;
      options.callbacks = {
          ExampleLogger(folder / ("log" + std::to_string(collective->rank())))};
      Dataset data = Points(examples).Shuffle(seed).AutoShard(policy);
      if (crosses) data = data.Repeat();
      EXPECT_OK(model->Fit(data.Batch(batch, drops), options).status());
    });
    const std::string log = ReadWhole(folder / "log0");
    std::string proof;
    const Status status = Audit({log}, &proof);
    ASSERT_OK(status) << "\n" << log;
    if (policy == AutoShardPolicy::kOff && workers > 1) continue;
    // Leaves out a row between the first and the last, or replaces an example
    // of this row.
    std::vector<std::string> rows;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      rows.push_back(line + "\n");
    }
    if (rows.size() < 4) continue;
    const size_t middle = 2 + random() % (rows.size() - 3);
    for (const bool whole : {true, false}) {
      std::string other;
      for (size_t i = 0; i < rows.size(); ++i) {
        const size_t last = rows[i].find_last_of(", ");
        if (i != middle) {
          other += rows[i];
        } else if (!whole) {
          other += rows[i].substr(0, last + 1) + "1000\n";
        }
      }
      ++changed;
      // An example that the source has not is no double one, and may be the
      // only one that a pass lacks.
      if (!Audit({other}, &proof).ok()) ++noticed;
      if (whole) {
        EXPECT_FALSE(Audit({other}, &proof).ok());
      }
    }
  }
  EXPECT_GT(changed, 40);
  EXPECT_GT(noticed, changed / 2 - 1);
}

// A worker without a log on its disk becomes the chief behind step 1.
TEST(ExampleLoggerTest, Takeover_NewFile_BeginsWithHeaderAndLastRow) {
  TempFolder folder;
  const std::shared_ptr<Callback> loggers[] = {ExampleLogger(folder / "0"),
                                               ExampleLogger(folder / "1")};
  auto model = TinyModel(SGD(0.1f), 0, nullptr);
  const Dataset data = Points(9).Batch(2);
  FitState fit;
  fit.model = model.get();
  fit.dataset = &data;
  std::vector<StateSpan> spans[2];
  for (const int i : {0, 1}) {
    ASSERT_OK(loggers[i]->OnSetup(fit));
    loggers[i]->AppendState(&spans[i]);
    loggers[i]->AppendLiveState(&spans[i]);
  }
  for (fit.step = 0; fit.step < 2; ++fit.step) {
    ASSERT_OK(loggers[0]->OnTrainBatchBegin(fit));
    ASSERT_OK(loggers[0]->OnTrainBatchEnd(fit, {}));
    fit.position = data.parts().Plan(fit.position, 0, 1).next;
  }
  for (size_t i = 0; i < spans[0].size(); ++i) {
    std::memcpy(spans[1][i].data, spans[0][i].data, spans[0][i].bytes());
  }
  ASSERT_OK(loggers[1]->StateLoaded());
  fit.details->source = RestoreSource::kMemory;
  testing::internal::CaptureStderr();
  ASSERT_OK(loggers[1]->OnTrainBatchBegin(fit));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(ReadWhole(folder / "1"),
            std::string(kHeader) + "0,1,all,0,2,9,2 3\n");
}

}  // namespace
}  // namespace ringlet
