#include "core/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace ringlet {
namespace {

TEST(StatusTest, OkIsAPointerWideAndHasNoMessage) {
  Status ok;
  EXPECT_EQ(sizeof(ok), sizeof(void*));
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.code(), Code::kOk);
  EXPECT_STREQ(ok.message(), "");
}

TEST(StatusTest, MessageOfAnyLengthIsKeptWhole) {
  const std::string path(5000, 'p');
  Status s = NotFound("%s: no such layer", path.c_str());
  EXPECT_EQ(s.message(), path + ": no such layer");
  Status copy = s;
  s = Status();
  EXPECT_EQ(copy.message(), path + ": no such layer");
}

TEST(StatusTest, OsErrorsKeepTheirNumberAndSayWhatToDo) {
  Status s = OsError(ENOSPC, "write %s", "a.bin");
  EXPECT_EQ(s.code(), Code::kResourceExhausted);
  EXPECT_EQ(s.os_error(), ENOSPC);
  EXPECT_STREQ(s.message(), "write a.bin: No space left on device");
}

TEST(StatusTest, AnnotateAddsWhereAndKeepsTheRest) {
  Status s = PeerLost(3, "silent for %d ms", 1000).Annotate("step %d", 7);
  EXPECT_EQ(s.code(), Code::kPeerLost);
  EXPECT_EQ(s.rank(), 3);
  EXPECT_STREQ(s.message(), "step 7: silent for 1000 ms");
  EXPECT_TRUE(Status().Annotate("nothing").ok());
}

TEST(StatusTest, ExitCodesTellUsageFromFailureFromResumable) {
  EXPECT_EQ(ExitCode(Status()), 0);
  EXPECT_EQ(ExitCode(InvalidArgument("flag")), 2);
  EXPECT_EQ(ExitCode(Corruption("file")), 1);
  EXPECT_EQ(ExitCode(PeerLost(1, "gone")), 75);
}

}  // namespace
}  // namespace ringlet
