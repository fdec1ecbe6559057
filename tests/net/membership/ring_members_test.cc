#include "net/membership/ring_members.h"

#include <gtest/gtest.h>

#include "net/membership/failure_detector.h"

namespace ringlet {
namespace {

// A view of the workers 1 and 3, of four.
const View kView = {5, 0b1010};

TEST(RingMembersTest, NameOf_Member_HasItsRank) {
  RingMembers members(4, /*elastic=*/true);
  members.SetView(kView);
  EXPECT_EQ(members.WorkerName(3), "rank 1");
}

TEST(RingMembersTest, NameOf_WorkerOutsideTheView_HasItsNumber) {
  RingMembers members(4, /*elastic=*/true);
  members.SetView(kView);
  EXPECT_EQ(members.WorkerName(2), "worker 2");
}

TEST(RingMembersTest, NameOf_RingWithoutViews_IsTheNumberAsRank) {
  const RingMembers members(4, /*elastic=*/false);
  EXPECT_EQ(members.WorkerName(2), "rank 2");
}

TEST(RingMembersTest, LossError_WorkersOutsideTheView_NamesTheirNumbers) {
  RingMembers members(4, /*elastic=*/true);
  members.SetView(kView);
  FailureDetector::Options options;
  options.worker = 3;
  options.elastic = true;
  options.addresses = {"a:1", "b:2", "c:3", "d:4"};
  FailureDetector detector(options, 0);
  detector.SetRanks(members.ranks());
  EXPECT_STREQ(detector.LossError({2, LossCause::kExited, 0}, "").message(),
               "worker 2 (c:3) was lost: exited, generation 1, step 0, while "
               "rank 1 computed");
}

}  // namespace
}  // namespace ringlet
