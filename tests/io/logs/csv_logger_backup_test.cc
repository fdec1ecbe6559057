// CSVLogger in a run that continues from a backup.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "ringlet/checkpoint.h"
#include "ringlet/fit.h"
#include "ringlet/loggers.h"

namespace ringlet {
namespace {

// Ends a fit at the begin of epoch 1, as a kill does.
class EndAtEpochOne final : public Callback {
 public:
  const char* name() const override { return "end"; }
  Status OnEpochBegin(FitState& fit) override {
    return fit.epoch == 1 ? Error(Code::kInternal, "killed") : Status();
  }
};

// The newest backup is of a step of epoch 0, before the first row.
TEST(CSVLoggerTest, Append_KilledAfterABackupOfEpochZero_EachRowIsThereOnce) {
  TempFolder folder;
  const std::string path = folder / "log.csv";
  BackupAndRestoreOptions backups = SaveEvery(3);
  backups.background = false;
  for (const bool killed : {true, false}) {
    auto model = TinyModel();
    FitOptions options = Quiet(2);
    options.callbacks = {CSVLogger(path, ',', /*append=*/true),
                         BackupAndRestore(folder / "backups", backups)};
    if (killed) options.callbacks.push_back(std::make_shared<EndAtEpochOne>());
    EXPECT_EQ(model->Fit(Points(8).Batch(2), options).ok(), !killed);
    EXPECT_EQ(CountOf(ReadWhole(path), "\r\n0,"), 1) << ReadWhole(path);
  }
  EXPECT_EQ(CountOf(ReadWhole(path), "\r\n"), 3) << ReadWhole(path);
}

}  // namespace
}  // namespace ringlet
