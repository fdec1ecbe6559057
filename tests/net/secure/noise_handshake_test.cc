#include "net/secure/noise.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../support/expect_ok.h"

namespace ringlet {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes FromHex(const std::string& hex) {
  Bytes out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(
        static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::string ToHex(const uint8_t* data, size_t bytes) {
  const char digits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes; ++i) {
    out += digits[data[i] >> 4];
    out += digits[data[i] & 15];
  }
  return out;
}

JobKey KeyOf(const Bytes& bytes) {
  JobKey key;
  std::memcpy(key.bytes, bytes.data(), sizeof(key.bytes));
  return key;
}

// One of cacophony's vectors (vectors/cacophony.txt), which also test other
// implementations of Noise.
struct Vector {
  Bytes prologue = FromHex("4a6f686e2047616c74");
  Bytes psk = FromHex(
      "54686973206973206d7920417573747269616e20706572737065637469766521");
  Bytes first = FromHex(
      "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a");
  Bytes second = FromHex(
      "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b");
  std::string hash =
      "ed5e9692d0ab507b6c2beec3f584fd5b127817a9d20b26cd50aa72c507260fa31aa7d88d"
      "d3723316338af37ce0b4cfb2923aeb848bbf2b934911306f01ffc963";
  struct {
    const char* payload;
    const char* message;
  } messages[6] = {
      {"4c756477696720766f6e204d69736573",
       "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944ed63df2"
       "f5a12aee1185ee9c50305f2ecf12421dcb53c047a63b784cf7c54a105"},
      {"4d757272617920526f746862617264",
       "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088430e0fe7d"
       "5c0c9b92f7478716c8852f1b4f389edb75e3ebe546fafafd5b6f0f7"},
      {"462e20412e20486179656b",
       "0fe04b26dcfbb69f8a6a94c61f1a26ef88769218d32f5d17c068a6"},
      {"4361726c204d656e676572",
       "2239e0c540c01f09eb1f4cc5258fd5acfefff18a5a3773f21b7bfe"},
      {"4a65616e2d426170746973746520536179",
       "f216cb03d30fb8af1e561fe02a07552d09b416e27a75e62c77d193718b0bdaae9f"},
      {"457567656e2042f6686d20766f6e2042617765726b",
       "6e8baf98b944184dd7dc5ef14d8108cbeca626de118a5460f3308e294d61e17238bce2"
       "9bd9"}};
};

class NoiseTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(SecureStart()); }

  NoiseHandshake Side(bool connects, const Bytes& prologue, const Bytes& psk) {
    return NoiseHandshake(connects, prologue.data(), prologue.size(),
                          KeyOf(psk),
                          connects ? v_.first.data() : v_.second.data());
  }
  static void Exchange(const char* payload_hex, const char* message_hex,
                       NoiseHandshake* from, NoiseHandshake* to) {
    const Bytes payload = FromHex(payload_hex);
    Bytes message(payload.size() + kNoiseMessageBytes);
    ASSERT_TRUE(from->Write(payload.data(), payload.size(), message.data()));
    EXPECT_EQ(ToHex(message.data(), message.size()), message_hex);
    Bytes read(payload.size());
    ASSERT_TRUE(to->Read(message.data(), message.size(), read.data()));
    EXPECT_EQ(read, payload);
  }

  Vector v_;
};

TEST_F(NoiseTest, Handshake_PublishedVector_HasItsBytes) {
  NoiseHandshake one = Side(/*connects=*/true, v_.prologue, v_.psk);
  NoiseHandshake other = Side(/*connects=*/false, v_.prologue, v_.psk);
  Exchange(v_.messages[0].payload, v_.messages[0].message, &one, &other);
  Exchange(v_.messages[1].payload, v_.messages[1].message, &other, &one);
  EXPECT_EQ(ToHex(one.hash(), kNoiseHashBytes), v_.hash);
  EXPECT_EQ(ToHex(other.hash(), kNoiseHashBytes), v_.hash);
  NoiseCipher seals[2], opens[2];
  one.Split(&seals[0], &opens[0]);
  other.Split(&seals[1], &opens[1]);
  for (int i = 2; i < 6; ++i) {
    const Bytes payload = FromHex(v_.messages[i].payload);
    Bytes message(payload.size() + kNoiseTagBytes);
    seals[i % 2].Seal(payload.data(), payload.size(), message.data());
    EXPECT_EQ(ToHex(message.data(), message.size()), v_.messages[i].message);
    ASSERT_TRUE(opens[1 - i % 2].Open(message.data(), payload.size()));
    message.resize(payload.size());
    EXPECT_EQ(message, payload);
  }
}

TEST_F(NoiseTest, Read_OtherKeyPrologueOrByte_IsRejected) {
  const Bytes payload = FromHex(v_.messages[0].payload);
  const Bytes message = FromHex(v_.messages[0].message);
  Bytes read(payload.size());
  Bytes psk = v_.psk;
  psk[31] ^= 1;
  EXPECT_FALSE(Side(/*connects=*/false, v_.prologue, psk)
                   .Read(message.data(), message.size(), read.data()));
  EXPECT_FALSE(Side(/*connects=*/false, {1}, v_.psk)
                   .Read(message.data(), message.size(), read.data()));
  for (size_t i = 0; i < message.size(); ++i) {
    Bytes changed = message;
    changed[i] ^= 0x80;
    EXPECT_FALSE(Side(/*connects=*/false, v_.prologue, v_.psk)
                     .Read(changed.data(), changed.size(), read.data()))
        << i;
    EXPECT_FALSE(Side(/*connects=*/false, v_.prologue, v_.psk)
                     .Read(message.data(), i, read.data()))
        << i;
  }
  EXPECT_TRUE(Side(/*connects=*/false, v_.prologue, v_.psk)
                  .Read(message.data(), message.size(), read.data()));
}

// A public key of small order makes a secret that is public.
TEST_F(NoiseTest, Read_PublicKeyOfSmallOrder_IsRejected) {
  NoiseHandshake one = Side(/*connects=*/true, v_.prologue, v_.psk);
  Bytes message(kNoiseMessageBytes);
  ASSERT_TRUE(one.Write(nullptr, 0, message.data()));
  const Bytes zero(kNoiseMessageBytes);
  EXPECT_FALSE(one.Read(zero.data(), zero.size(), nullptr));
}

TEST_F(NoiseTest, Open_MessageRepeatedOrOutOfTurn_IsRejected) {
  NoiseCipher seals, opens;
  seals.Begin(v_.psk.data());
  opens.Begin(v_.psk.data());
  Bytes sealed[3];
  for (uint8_t i = 0; i < 3; ++i) {
    sealed[i] = Bytes(100 + kNoiseTagBytes, i);
    seals.Seal(sealed[i].data(), 100, sealed[i].data());
  }
  Bytes later = sealed[1];
  EXPECT_FALSE(opens.Open(later.data(), 100));
  Bytes first = sealed[0];
  EXPECT_TRUE(opens.Open(first.data(), 100));
  Bytes again = sealed[0];
  EXPECT_FALSE(opens.Open(again.data(), 100));
  Bytes shorter = sealed[1];
  EXPECT_FALSE(opens.Open(shorter.data(), 99));
  seals.Rekey();
  opens.Rekey();
  Bytes old_message = sealed[1];
  EXPECT_FALSE(opens.Open(old_message.data(), 100));
}

// Section 4.2: the first 32 bytes of zeros sealed with the number 2^64 - 1. The
// numbers are from Python's cryptography.
TEST_F(NoiseTest, Rekey_KnownKey_SealsAsSpecified) {
  NoiseCipher seals;
  seals.Begin(v_.psk.data());
  seals.Rekey();
  Bytes text(64 + kNoiseTagBytes, 3);
  seals.Seal(text.data(), 64, text.data());
  EXPECT_EQ(ToHex(text.data(), text.size()),
            "5bcb3005101151709e1f996a7b237239d15c3573694611e7a145fe0360d5e70367"
            "3f17c4a7814922ad450605d12c168f734273b7a94cc30ffd2aef920eb0eb4f2dd8"
            "7de71ae5eb43e0c81617d348a43e");
}

TEST_F(NoiseTest, Rekey_OfAesGcm_SealsWithTheNewKey) {
  if (!HasAesGcm()) GTEST_SKIP() << "needs AES instructions";
  NoiseCipher before, after;
  for (NoiseCipher* const cipher : {&before, &after}) {
    cipher->Begin(v_.psk.data());
    cipher->UseAes();
  }
  after.Rekey();
  Bytes sealed_before(64 + kNoiseTagBytes), sealed_after(64 + kNoiseTagBytes);
  before.Seal(sealed_before.data(), 64, sealed_before.data());
  after.Seal(sealed_after.data(), 64, sealed_after.data());
  EXPECT_NE(sealed_before, sealed_after);
}

}  // namespace
}  // namespace ringlet
