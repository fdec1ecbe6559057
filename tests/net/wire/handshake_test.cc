#include "net/wire/handshake.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"

namespace ringlet {
namespace {

Identity Example() {
  Identity identity;
  identity.job = "mnist";
  identity.worker = 2;
  identity.size = 5;
  identity.incarnation = 0x0102030405060708;
  identity.cluster_hash = 0x1112131415161718;
  identity.timeout_ms = 5000;
  identity.bytes_per_pack = 0x2122232425262728;
  identity.implementation = 1;
  identity.dtype = 2;
  identity.byte_order = 1;
  return identity;
}

TEST(HandshakeTest, Encode_Identity_HasTheFixedBytes) {
  const std::vector<uint8_t> expected = {
      1,    1,    2,    0,    5,    0,    5,    0,  // orders, rank, size, job
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,  // incarnation
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  // cluster
      0x88, 0x13, 0,    0,    2,    0,    0,    0,     // timeout, dtype
      0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  // bytes_per_pack
      'm',  'n',  'i',  's',  't'};
  EXPECT_EQ(EncodeIdentity(Example()), expected);
}

TEST(HandshakeTest, Decode_EncodedIdentity_GivesTheSameIdentity) {
  const std::vector<uint8_t> bytes = EncodeIdentity(Example());
  Identity back;
  ASSERT_OK(DecodeIdentity(bytes.data(), bytes.size(), &back));
  EXPECT_EQ(EncodeIdentity(back), bytes);
  EXPECT_EQ(back.job, "mnist");
}

TEST(HandshakeTest, Decode_AnyOtherLength_IsRejected) {
  std::vector<uint8_t> bytes = EncodeIdentity(Example());
  const size_t right = bytes.size();
  bytes.resize(512);
  for (size_t n = 0; n <= bytes.size(); ++n) {
    // A buffer of exactly n bytes, so that a sanitizer sees a read beyond.
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + n);
    Identity back;
    EXPECT_EQ(DecodeIdentity(cut.data(), n, &back).ok(), n == right) << n;
  }
}

TEST(HandshakeTest, Decode_JobNameIsTooLong_IsRejected) {
  std::vector<uint8_t> bytes(40 + kMaxJobBytes + 1);
  bytes[6] = 1;
  bytes[7] = 1;
  Identity back;
  EXPECT_FALSE(DecodeIdentity(bytes.data(), bytes.size(), &back).ok());
}

TEST(HandshakeTest, Decode_ByteOutOfRange_IsRejected) {
  for (const size_t at : {29u, 30u, 31u}) {
    std::vector<uint8_t> bytes = EncodeIdentity(Example());
    bytes[at] = at == 30 ? 65 : 2;  // 30: min_workers, at most 64
    Identity back;
    EXPECT_FALSE(DecodeIdentity(bytes.data(), bytes.size(), &back).ok()) << at;
  }
}

// An older version accepts no other byte than 0 there, and reports another one.
TEST(HandshakeTest, Encode_LargeRing_SetsTheByteOfItsLinks) {
  Identity large = Example();
  large.links = 1;
  std::vector<uint8_t> bytes = EncodeIdentity(large);
  Identity back;
  ASSERT_OK(DecodeIdentity(bytes.data(), bytes.size(), &back));
  EXPECT_EQ(back.links, 1);
  EXPECT_EQ(bytes[29], 1);
  bytes[29] = 0;
  EXPECT_EQ(bytes, EncodeIdentity(Example()));
}

std::string Complaint(const Identity& self, const Identity& peer,
                      int expected) {
  return CheckPeer(self, peer, expected).message();
}

TEST(HandshakeTest, CheckPeer_AnyDifference_ErrorNamesIt) {
  const Identity self = Example();  // rank 2
  Identity peer = self;
  peer.worker = 3;
  EXPECT_EQ(Complaint(self, peer, -1), "");
  EXPECT_EQ(Complaint(self, peer, 3), "");
  EXPECT_TRUE(
      Contains(Complaint(self, peer, 1), "worker 3 answers where worker 1"));
  peer.job = "cifar\n";
  EXPECT_TRUE(Contains(Complaint(self, peer, 3), "job \"cifar?\""));
  peer.job = self.job;
  peer.cluster_hash ^= 1;
  EXPECT_TRUE(Contains(Complaint(self, peer, 3), "the same list"));
  peer.cluster_hash = self.cluster_hash;
  peer.timeout_ms = 7;
  EXPECT_TRUE(Contains(Complaint(self, peer, 3), "timeout"));
  peer.timeout_ms = self.timeout_ms;
  peer.implementation = 2;
  EXPECT_TRUE(Contains(Complaint(self, peer, 3), "TREE, worker 2 RING"));
  peer.implementation = self.implementation;
  peer.dtype = 7;
  EXPECT_TRUE(
      Contains(Complaint(self, peer, 3), "dtype unknown, worker 2 float16"));
  peer.dtype = self.dtype;
  peer.bytes_per_pack = 4096;
  EXPECT_TRUE(
      Contains(Complaint(self, peer, 3), "4096, worker 2 2387509390608836392"));
  peer.bytes_per_pack = self.bytes_per_pack;
  peer.links = 1;
  EXPECT_TRUE(Contains(Complaint(self, peer, 3), "the same version"));
  peer.links = self.links;
  peer.byte_order = 2;
  EXPECT_TRUE(Contains(Complaint(self, peer, 3), "byte orders"));
}

TEST(HandshakeTest, Withdraw_UnknownJobName_IsAMemberByItsList) {
  const Identity self = Example();
  Identity peer = self;
  peer.worker = 3;
  peer.job.clear();
  EXPECT_OK(CheckMember(self, peer));
  EXPECT_OK(CheckMember(peer, self));
  EXPECT_FALSE(CheckPeer(self, peer, 3).ok()) << "it takes no part";
  peer.cluster_hash ^= 1;
  EXPECT_FALSE(CheckMember(self, peer).ok());
  peer = self;
  peer.job = "cifar";
  EXPECT_FALSE(CheckMember(self, peer).ok());
}

TEST(HandshakeTest, Version_DiffersFromThePeers_IsRefusedWithBoth) {
  const uint64_t mine = uint64_t{1} << 32 | uint64_t{2} << 16 | 3;
  EXPECT_OK(CheckVersion(0, mine, 1, mine));
  EXPECT_OK(CheckVersion(0, mine, 1, 0));  // the peer sends no version
  for (const uint64_t theirs : {mine + 1, mine - (uint64_t{1} << 32)}) {
    EXPECT_EQ(CheckVersion(0, mine, 1, theirs).code(), Code::kInvalidArgument);
  }
  EXPECT_STREQ(
      CheckVersion(0, mine, 1, mine + 1).message(),
      "worker 1 is ringlet 1.2.4, worker 0 is ringlet 1.2.3, and their "
      "numbers may differ: give every worker the same version of "
      "ringlet");
  EXPECT_NE(ProgramVersion(), 0u);
}

TEST(HandshakeTest, CheckPeer_ConnectingRankIsNotHigher_IsRefused) {
  const Identity self = Example();  // rank 2 of 5
  Identity peer = self;
  for (int rank : {0, 1, 2, 5, 65535}) {
    peer.worker = rank;
    EXPECT_NE(Complaint(self, peer, -1), "") << rank;
  }
  peer.worker = 2;
  EXPECT_TRUE(Contains(Complaint(self, peer, -1), "the same index"));
}

TEST(HandshakeTest, Encode_Withdraw_HasTheFixedBytes) {
  Withdraw withdraw = {Example(), NotFound("no data")};
  const std::vector<uint8_t> identity = EncodeIdentity(Example());
  std::vector<uint8_t> expected = {2, 0, static_cast<uint8_t>(identity.size()),
                                   0};
  expected.insert(expected.end(), identity.begin(), identity.end());
  for (const char c : std::string("no data")) {
    expected.push_back(static_cast<uint8_t>(c));
  }
  const std::vector<uint8_t> bytes = EncodeWithdraw(withdraw);
  EXPECT_EQ(bytes, expected);
  Withdraw back;
  ASSERT_OK(DecodeWithdraw(bytes.data(), bytes.size(), &back));
  EXPECT_EQ(EncodeWithdraw(back), bytes);
  EXPECT_EQ(back.reason.code(), Code::kNotFound);
}

// Any job's name and any reason fit into a frame, and are decoded again.
TEST(HandshakeTest, Encode_WithdrawOfAnyLength_FitsAndComesBack) {
  for (const size_t job : {0u, 1u, 7u, 200u, 255u, 256u}) {
    for (const size_t text : {0u, 1u, 211u, 212u, 399u, 400u, 5000u}) {
      Withdraw withdraw = {
          Example(), Error(Code::kIo, "%s", std::string(text, 'x').c_str())};
      withdraw.identity.job = std::string(job, 'j');
      const std::vector<uint8_t> bytes = EncodeWithdraw(withdraw);
      ASSERT_LE(bytes.size(), MaxPayload(FrameType::kWithdraw));
      Withdraw back;
      ASSERT_OK(DecodeWithdraw(bytes.data(), bytes.size(), &back));
      EXPECT_EQ(back.identity.job, withdraw.identity.job);
      EXPECT_EQ(EncodeWithdraw(back), bytes);
      if (text <= 212) {
        EXPECT_STREQ(back.reason.message(), withdraw.reason.message());
      }
    }
  }
}

TEST(HandshakeTest, Decode_WithdrawIsDamaged_IsRejectedAndReadsNothingBeyond) {
  const std::vector<uint8_t> good =
      EncodeWithdraw({Example(), Corruption("a\x07 b")});
  for (size_t n = 0; n < 4 + EncodeIdentity(Example()).size(); ++n) {
    const std::vector<uint8_t> cut(good.begin(),
                                   good.begin() + static_cast<long>(n));
    Withdraw back;
    EXPECT_FALSE(DecodeWithdraw(cut.data(), n, &back).ok()) << n;
  }
  std::vector<uint8_t> bad = good;
  bad[2] = bad[3] = 0xff;
  Withdraw back;
  EXPECT_FALSE(DecodeWithdraw(bad.data(), bad.size(), &back).ok());
  bad = good;
  bad[0] = 200;  // a code that this version does not know
  ASSERT_OK(DecodeWithdraw(bad.data(), bad.size(), &back));
  EXPECT_EQ(back.reason.code(), Code::kInternal);
  EXPECT_STREQ(back.reason.message(), "a? b");
}

// The sender may have been unable to read its options; the list is from the
// environment.
TEST(HandshakeTest, CheckMember_OptionsDiffer_AcceptsTheSameListAlone) {
  const Identity self = Example();
  Identity peer = self;
  peer.timeout_ms = peer.bytes_per_pack = 1;
  peer.dtype = peer.implementation = 0;
  EXPECT_OK(CheckMember(self, peer));
  for (const int change : {0, 1, 2}) {
    Identity other = peer;
    if (change == 0) other.job = "cifar";
    if (change == 1) other.cluster_hash ^= 1;
    if (change == 2) ++other.size;
    EXPECT_FALSE(CheckMember(self, other).ok()) << change;
  }
}

TEST(HandshakeTest, CheckPeer_MinWorkersDiffer_IsRefused) {
  Identity self = Example();
  Identity peer = self;
  peer.worker = self.worker + 1;
  ASSERT_OK(CheckPeer(self, peer, -1));
  EXPECT_EQ(EncodeIdentity(self)[30], 0);
  peer.min_workers = 2;
  EXPECT_TRUE(Contains(CheckPeer(self, peer, -1), "waited for) 2, worker"));
  self.min_workers = 2;
  EXPECT_OK(CheckPeer(self, peer, -1));
  self.min_workers = 1;
  EXPECT_FALSE(CheckPeer(self, peer, -1).ok());
  std::vector<uint8_t> bytes = EncodeIdentity(peer);
  EXPECT_EQ(bytes[30], 2);
  Identity back;
  ASSERT_OK(DecodeIdentity(bytes.data(), bytes.size(), &back));
  EXPECT_EQ(back.min_workers, 2);
  bytes[30] = 65;
  EXPECT_FALSE(DecodeIdentity(bytes.data(), bytes.size(), &back).ok());
  bytes[30] = 0;
  bytes[31] = 1;
  EXPECT_FALSE(DecodeIdentity(bytes.data(), bytes.size(), &back).ok());
}

TEST(HandshakeTest, ClusterHash_ListsDiffer_Differs) {
  EXPECT_NE(ClusterHash({"a:1", "b:2"}), ClusterHash({"b:2", "a:1"}));
  EXPECT_NE(ClusterHash({"a:1", "b:2"}), ClusterHash({"a:1b:2"}));
  EXPECT_NE(ClusterHash({"a:1"}), ClusterHash({"a:1", ""}));
}

TEST(HandshakeTest, FrameIsLegal_EachPhase_AllowsItsTypes) {
  const auto legal = [](LinkPhase phase) {
    std::string types;
    for (int type : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 18, 19, 20}) {
      if (!FrameIsLegal(phase, static_cast<FrameType>(type))) continue;
      types += std::to_string(type) + " ";
    }
    return types;
  };
  EXPECT_EQ(legal(LinkPhase::kConnecting), "");
  EXPECT_EQ(legal(LinkPhase::kAwaitHello), "1 8 ");
  EXPECT_EQ(legal(LinkPhase::kAwaitWelcome), "2 3 8 ");
  EXPECT_EQ(legal(LinkPhase::kUp), "4 5 6 7 9 16 17 18 19 20 ");
  EXPECT_EQ(legal(LinkPhase::kDoctor), "12 ");
  EXPECT_EQ(legal(LinkPhase::kLeft), "");
  EXPECT_EQ(legal(LinkPhase::kClosed), "");
}

}  // namespace
}  // namespace ringlet
