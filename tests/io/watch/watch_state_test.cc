#include "io/watch/watch_state.h"

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"

namespace ringlet {
namespace {

class WatchStateTest : public testing::Test {
 protected:
  WatchStateTest() {
    EXPECT_OK(files_.MakeFolder("d"));
    state_.settings = 5;
    state_.OpenRound({9, 3, UINT64_MAX});
    state_.CloseRound();
    state_.OpenRound({4});
    state_.has_model = true;
  }

  SimulatedFileSystem files_;
  WatchState state_;
  const std::string path_ = "d/m.watch";
};

TEST_F(WatchStateTest, Save_Load_GivesTheSame) {
  EXPECT_OK(SaveWatchState(&files_, path_, &state_));
  WatchState loaded;
  loaded.settings = 5;
  EXPECT_OK(LoadWatchState(&files_, path_, &loaded));
  EXPECT_EQ(loaded.round, 2);
  EXPECT_TRUE(loaded.is_open);
  EXPECT_TRUE(loaded.has_model);
  EXPECT_EQ(loaded.fresh, state_.fresh);
  EXPECT_EQ(loaded.seen, (std::vector<uint64_t>{3, 9, UINT64_MAX}));
  EXPECT_EQ(loaded.RoundId(), state_.RoundId());
}

TEST_F(WatchStateTest, Load_OtherSettings_IsRefused) {
  EXPECT_OK(SaveWatchState(&files_, path_, &state_));
  WatchState loaded;
  loaded.settings = 6;
  const Status status = LoadWatchState(&files_, path_, &loaded);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status.message(), "validation_split"));
  EXPECT_EQ(loaded.round, 0);
}

TEST_F(WatchStateTest, Load_DamagedFile_IsCorruption) {
  EXPECT_OK(SaveWatchState(&files_, path_, &state_));
  const std::string whole = *files_.Content(path_);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string* const bytes = files_.Content(path_);
    *bytes = whole;
    (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 4);
    WatchState loaded;
    loaded.settings = 5;
    EXPECT_FALSE(LoadWatchState(&files_, path_, &loaded).ok()) << at;
    bytes->resize(at);
    EXPECT_FALSE(LoadWatchState(&files_, path_, &loaded).ok()) << at;
    EXPECT_EQ(loaded.round, 0);
  }
}

// After a power cut at any operation the file has the state before or after.
TEST_F(WatchStateTest, Save_PowerCut_LeavesOneOfTwoStates) {
  EXPECT_OK(SaveWatchState(&files_, path_, &state_));
  for (uint64_t seed = 0; seed < 200; ++seed) {
    WatchState next = state_;
    next.CloseRound();
    files_.HaltAfter(1 + static_cast<int64_t>(seed % 12));
    SaveWatchState(&files_, path_, &next).IgnoreError();
    files_.CutPower(seed);
    WatchState loaded;
    loaded.settings = 5;
    SCOPED_TRACE(seed);
    EXPECT_OK(LoadWatchState(&files_, path_, &loaded));
    EXPECT_EQ(loaded.round, 2);
    EXPECT_TRUE(loaded.is_open ? loaded.fresh == state_.fresh
                               : loaded.seen == next.seen);
    EXPECT_OK(SaveWatchState(&files_, path_, &state_));
  }
}

}  // namespace
}  // namespace ringlet
