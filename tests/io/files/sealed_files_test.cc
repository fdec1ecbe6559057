#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/simulated_file_system.h"
#include "../../support/some_state.h"
#include "../../support/temp_folder.h"
#include "../../support/tiny_model.h"
#include "io/files/atomic_file.h"
#include "io/files/file_system.h"
#include "ringlet/checkpoint.h"

namespace ringlet {
namespace {

constexpr char kKey[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
constexpr char kOther[] = "//////////////////////////////////////////8=\n";
constexpr int64_t kPiece = 65536, kHeader = 64, kTag = 16;

// Computed by hashlib.blake2b and ChaCha20-Poly1305 in Python (RFC 8439), with
// the key above and the 32 random bytes 100, 101, ...
constexpr char kVector[] =
    "52494e475345414c01000000700849f36465666768696a6b6c6d6e6f7071727374757677"
    "78797a7b7c7d7e7f8081828386ae51473cce8b4007a1f3298b13d7d363a887143f88be8e"
    "0248cc9064867d17eb21f7149325b4ae6157d18ffb6ca2840123f9870c9e6196736c223a";
constexpr char kVectorText[] = "a sealed file of 28 bytes ..";

std::string Unhex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string SomeBytes(int64_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::string bytes(static_cast<size_t>(size), '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

class SealedFilesTest : public testing::Test {
 protected:
  void SetUp() override {
#ifndef RINGLET_SECURE
    GTEST_SKIP() << "a build without libsodium";
#endif
    ASSERT_OK(disk_.MakeFolder("d"));
  }
  std::string KeyFile(const std::string& text) {
    const std::string path =
        folder_ / ("key" + std::to_string(std::hash<std::string>()(text)));
    WriteWhole(path, text);
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  // Writes like AtomicFile.
  void Write(FileSystem* files, const std::string& path,
             const std::string& bytes, size_t longest = SIZE_MAX) {
    std::unique_ptr<File> file;
    ASSERT_OK(files->Create(path, &file));
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min(longest, bytes.size() - at);
      ASSERT_OK(file->Write(&bytes[at], n));
      at += n;
    }
    ASSERT_OK(file->Sync());
    ASSERT_OK(file->Close());
  }
  static Status Read(FileSystem* files, const std::string& path,
                     std::string* bytes) {
    return ReadWholeFile(files, path, 1 << 30, bytes);
  }
  // The bytes as a file on the disk are refused. If they begin like a sealed
  // file, the error has `code`.
  void ExpectRefused(const std::string& bytes, const std::string& was,
                     const std::string& what) {
    if (disk_.Content("d/x") != nullptr) {
      ASSERT_OK(disk_.Remove("d/x"));
    }
    Write(&disk_, "d/x", bytes);
    std::string read;
    const Status status = Read(sealed_.get(), "d/x", &read);
    if (bytes.compare(0, 8, "RINGSEAL") == 0) {
      ASSERT_EQ(status.code(), Code::kCorruption)
          << what << ": " << status.message();
      ASSERT_NE(std::strstr(status.message(), "d/x"), nullptr);
    } else {
      ASSERT_OK(status) << what;  // read as a plain file
      ASSERT_NE(read, was) << what;
    }
  }

  TempFolder folder_{TempFolder::InMemory()};
  SimulatedFileSystem disk_;
  const std::shared_ptr<FileSystem> sealed_ =
      SealedFiles(KeyFile(kKey), /*seal=*/true, &disk_);
};

TEST_F(SealedFilesTest, Write_AnySize_IsReadBackAndHidden) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{100}, kPiece - 1,
                             kPiece, kPiece + 1, 2 * kPiece, 3 * kPiece + 5}) {
    for (const size_t longest : {size_t{777}, SIZE_MAX}) {
      const std::string bytes = SomeBytes(size);
      const std::string path =
          "d/" + std::to_string(size) + "-" + std::to_string(longest);
      disk_.set_longest_write(longest == SIZE_MAX ? 0 : 1000);
      Write(sealed_.get(), path, bytes, longest);
      disk_.set_longest_write(0);
      std::string read;
      ASSERT_OK(Read(sealed_.get(), path, &read));
      ASSERT_EQ(read, bytes);
      const std::string& stored = *disk_.Content(path);
      const int64_t pieces = std::max<int64_t>(1, (size + kPiece - 1) / kPiece);
      EXPECT_EQ(static_cast<int64_t>(stored.size()),
                kHeader + size + pieces * kTag);
      if (size >= 100) {
        EXPECT_FALSE(Contains(stored, bytes.substr(0, 16)));
        EXPECT_FALSE(Contains(stored, bytes.substr(bytes.size() - 16)));
      }
      // In any order, across the pieces' ends.
      std::unique_ptr<File> file;
      ASSERT_OK(sealed_->Open(path, &file));
      std::mt19937 random(1);
      for (int i = 0; i < 50; ++i) {
        const size_t from = random() % (bytes.size() + 1);
        const size_t count = random() % (bytes.size() - from + 1);
        std::string part(count, '\0');
        ASSERT_OK(file->Read(static_cast<int64_t>(from), part.data(), count));
        ASSERT_EQ(part, bytes.substr(from, count));
      }
      char byte;
      EXPECT_EQ(file->Read(size, &byte, 1).code(), Code::kCorruption);
      EXPECT_FALSE(file->Write("x", 1).ok());
    }
  }
}

TEST_F(SealedFilesTest, Read_FileOfAnotherProgram_GivesItsText) {
  Write(&disk_, "d/vector", Unhex(kVector));
  std::string read;
  ASSERT_OK(Read(sealed_.get(), "d/vector", &read));
  EXPECT_EQ(read, kVectorText);
}

TEST_F(SealedFilesTest, Write_SameBytesTwice_FilesDiffer) {
  Write(sealed_.get(), "d/a", "the same");
  Write(sealed_.get(), "d/b", "the same");
  EXPECT_NE(disk_.Content("d/a")->substr(16), disk_.Content("d/b")->substr(16));
}

TEST_F(SealedFilesTest, Read_AnyBitChanged_IsRefused) {
  const std::string bytes = SomeBytes(200);
  Write(sealed_.get(), "d/a", bytes);
  const std::string stored = *disk_.Content("d/a");
  for (size_t i = 0; i < stored.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = stored;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      ExpectRefused(other, bytes, std::to_string(i));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SealedFilesTest, Read_CutOrLonger_IsRefused) {
  const std::string bytes = SomeBytes(kPiece + 30);
  Write(sealed_.get(), "d/a", bytes);
  const std::string stored = *disk_.Content("d/a");
  std::vector<size_t> lengths;
  for (size_t n = 0; n < 200; ++n) lengths.push_back(n);
  const size_t first = static_cast<size_t>(kHeader + kPiece + kTag);
  for (size_t n = first - 20; n < stored.size(); ++n) lengths.push_back(n);
  for (const size_t n : lengths) {
    ExpectRefused(stored.substr(0, n), bytes, std::to_string(n));
    if (HasFatalFailure()) return;
  }
  ExpectRefused(stored + "x", bytes, "longer");
  ExpectRefused(stored + std::string(70000, '\0'), bytes, "much longer");
}

// Pieces of one file, or of two of the same key, put together in another way.
TEST_F(SealedFilesTest, Read_PiecesRearranged_IsRefused) {
  const std::string bytes = SomeBytes(3 * kPiece);
  Write(sealed_.get(), "d/a", bytes);
  Write(sealed_.get(), "d/b", bytes);
  const auto parts = [&](const char* path) {
    std::vector<std::string> all;
    const std::string& stored = *disk_.Content(path);
    all.push_back(stored.substr(0, kHeader));
    for (size_t at = kHeader; at < stored.size(); at += kPiece + kTag) {
      all.push_back(stored.substr(at, kPiece + kTag));
    }
    return all;
  };
  const auto a = parts("d/a"), b = parts("d/b");
  ASSERT_EQ(a.size(), 4u);
  ExpectRefused(a[0] + a[2] + a[1] + a[3], bytes, "swapped");
  ExpectRefused(a[0] + a[1] + a[3], bytes, "one left out");
  ExpectRefused(a[0] + a[1] + a[2], bytes, "the last left out");
  ExpectRefused(a[0] + a[1] + a[2] + a[3] + a[3], bytes, "one twice");
  ExpectRefused(a[0] + a[1] + b[2] + a[3], bytes, "another file's piece");
  ExpectRefused(b[0] + a[1] + a[2] + a[3], bytes, "another file's header");
}

TEST_F(SealedFilesTest, Read_AfterADamagedPiece_GivesTheOneBeforeAgain) {
  Write(sealed_.get(), "d/a", SomeBytes(3 * kPiece));
  std::string stored = *disk_.Content("d/a");
  stored[static_cast<size_t>(kHeader + kPiece + kTag)] ^= 1;
  Write(&disk_, "d/x", stored);
  std::unique_ptr<File> file;
  ASSERT_OK(sealed_->Open("d/x", &file));
  std::string first(16, ' '), again = first;
  ASSERT_OK(file->Read(0, &first[0], first.size()));
  EXPECT_EQ(file->Read(kPiece, &again[0], again.size()).code(),
            Code::kCorruption);
  ASSERT_OK(file->Read(0, &again[0], again.size()));
  EXPECT_EQ(again, first);
}

TEST_F(SealedFilesTest, Read_AnotherKeyOrNone_IsRefusedButNotAsDamage) {
  Write(sealed_.get(), "d/a", "text");
  std::string read;
  const std::shared_ptr<FileSystem> other =
      SealedFiles(KeyFile(kOther), /*seal=*/true, &disk_);
  Status status = Read(other.get(), "d/a", &read);
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_NE(std::strstr(status.message(), "another key"), nullptr);
  unsetenv("RINGLET_KEY_FILE");
  const std::shared_ptr<FileSystem> none =
      SealedFiles("", /*seal=*/false, &disk_);
  status = Read(none.get(), "d/a", &read);
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_NE(std::strstr(status.message(), "RINGLET_KEY_FILE"), nullptr);
  const std::shared_ptr<FileSystem> sealing =
      SealedFiles("", /*seal=*/true, &disk_);
  EXPECT_EQ(sealing->CheckKey().code(), Code::kInvalidArgument);
  std::unique_ptr<File> file;
  EXPECT_FALSE(sealing->Create("d/new", &file).ok());
  EXPECT_EQ(disk_.Content("d/new"), nullptr);
}

// An error of the key's file is not reported as damage of the sealed file,
// which would be set aside, nor as its absence.
TEST_F(SealedFilesTest, Read_UnusableKeyFile_IsNamedAndNotAsDamage) {
  Write(sealed_.get(), "d/a", "text");
  Write(&disk_, "d/plain", "more");
  const std::string shared = KeyFile(kOther), text = KeyFile("no key\n");
  ASSERT_EQ(chmod(shared.c_str(), 0644), 0);
  for (const std::string& key : {shared, text, folder_ / "none"}) {
    const std::shared_ptr<FileSystem> files =
        SealedFiles(key, /*seal=*/false, &disk_);
    std::string read;
    const Status status = Read(files.get(), "d/a", &read);
    EXPECT_EQ(status.code(), Code::kUnimplemented) << status.message();
    EXPECT_NE(std::strstr(status.message(), key.c_str()), nullptr);
    EXPECT_OK(Read(files.get(), "d/plain", &read));
  }
}

// Otherwise the run would continue from the older backup, which is plain.
TEST_F(SealedFilesTest, Resume_UnusableKeyFile_KeepsTheSealedBackup) {
  const std::string key = KeyFile(kKey);
  const auto fit = [&](bool seal, int epochs) {
    const std::shared_ptr<FileSystem> files = SealedFiles(key, seal, &disk_);
    BackupAndRestoreOptions options;
    options.files = files.get();
    options.delete_checkpoint = false;
    options.double_checkpoint = true;
    FitOptions fit = Quiet(epochs);
    fit.callbacks = {BackupAndRestore("d", options)};
    return TinyModel()->Fit(Points(20).Batch(10), fit).status();
  };
  ASSERT_OK(fit(/*seal=*/false, 1));
  ASSERT_OK(fit(/*seal=*/true, 2));
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  EXPECT_EQ(fit(/*seal=*/false, 3).code(), Code::kUnimplemented);
  EXPECT_NE(disk_.Content("d/backup-2.safetensors"), nullptr);
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  EXPECT_OK(fit(/*seal=*/false, 3));
}

TEST_F(SealedFilesTest, KeyRotation_TwoKeys_BothOpenAndTheFirstSeals) {
  Write(sealed_.get(), "d/old", "old");
  const std::shared_ptr<FileSystem> both =
      SealedFiles(KeyFile(std::string(kOther) + kKey), /*seal=*/true, &disk_);
  Write(both.get(), "d/new", "new");
  std::string read;
  ASSERT_OK(Read(both.get(), "d/old", &read));
  EXPECT_EQ(read, "old");
  ASSERT_OK(Read(both.get(), "d/new", &read));
  EXPECT_EQ(read, "new");
  EXPECT_EQ(Read(sealed_.get(), "d/new", &read).code(), Code::kUnimplemented);
}

TEST_F(SealedFilesTest, Read_PlainFile_IsReadAsItIs) {
  for (const int64_t size : {int64_t{0}, int64_t{3}, int64_t{100}}) {
    const std::string path = "d/plain" + std::to_string(size);
    Write(&disk_, path, SomeBytes(size));
    std::string read;
    ASSERT_OK(Read(sealed_.get(), path, &read));
    EXPECT_EQ(read, SomeBytes(size));
  }
  const std::shared_ptr<FileSystem> reads =
      SealedFiles(KeyFile(kKey), /*seal=*/false, &disk_);
  Write(reads.get(), "d/new", "text");
  EXPECT_EQ(*disk_.Content("d/new"), "text");
}

// A program without the key can replace a sealed backup by a plain one, but
// then a warning is printed. It is also printed if a run's backups become
// plain.
TEST_F(SealedFilesTest, Resume_SealedToPlainOrBack_Warns) {
  const auto warning_of = [&](FileSystem* files, int epochs) {
    BackupAndRestoreOptions options;
    options.files = files;
    options.delete_checkpoint = false;
    FitOptions fit = Quiet(epochs);
    fit.callbacks = {BackupAndRestore("d", options)};
    testing::internal::CaptureStderr();
    EXPECT_OK(TinyModel()->Fit(Points(20).Batch(10), fit));
    return testing::internal::GetCapturedStderr();
  };
  const std::shared_ptr<FileSystem> reads =
      SealedFiles(KeyFile(kKey), /*seal=*/false, &disk_);
  EXPECT_EQ(warning_of(sealed_.get(), 1), "");  // begins
  EXPECT_EQ(warning_of(sealed_.get(), 2), "");  // goes on from a sealed one
  const std::string opened = warning_of(reads.get(), 3);  // leaves a plain one
  EXPECT_TRUE(Contains(opened, "is sealed, and this run's backups are not"));
  EXPECT_EQ(warning_of(reads.get(), 4), "");
  EXPECT_TRUE(Contains(warning_of(sealed_.get(), 5), "is not sealed"));
  EXPECT_EQ(warning_of(sealed_.get(), 6), "");
}

TEST_F(SealedFilesTest, Write_AfterTheFirstSync_IsRefused) {
  std::unique_ptr<File> file;
  ASSERT_OK(sealed_->Create("d/a", &file));
  ASSERT_OK(file->Write("text", 4));
  ASSERT_OK(file->Sync());
  EXPECT_EQ(file->Write("more", 4).code(), Code::kInvalidArgument);
  ASSERT_OK(file->Sync());
  ASSERT_OK(file->Close());
  std::string read;
  ASSERT_OK(Read(sealed_.get(), "d/a", &read));
  EXPECT_EQ(read, "text");
}

TEST_F(SealedFilesTest, LoadCheckpoint_SealedFile_NeedsTheKey) {
  SomeState state(7, /*rows=*/9000);
  SaveOptions saving;
  saving.files = sealed_.get();
  ASSERT_OK(SaveCheckpoint("d/a", {&state}, {}, saving));
  SomeState loaded(0, 9000);
  LoadOptions loading;
  loading.files = sealed_.get();
  ASSERT_OK(LoadCheckpoint("d/a", {&loaded}, loading));
  EXPECT_TRUE(loaded == state);
  loading.files = &disk_;
  const Status plain = LoadCheckpoint("d/a", {&loaded}, loading);
  EXPECT_EQ(plain.code(), Code::kUnimplemented);
  EXPECT_NE(std::strstr(plain.message(), "is sealed"), nullptr);
}

TEST_F(SealedFilesTest, SaveCheckpoint_Mode_IsOwnerOnlyUntilShared) {
  const mode_t before = umask(022);
  for (const bool sealed : {false, true}) {
    const std::string path = folder_ / (sealed ? "sealed" : "plain");
    SomeState state(1);
    const std::shared_ptr<FileSystem> files =
        SealedFiles(KeyFile(kKey), sealed);
    SaveOptions options;
    options.files = files.get();
    struct stat about;
    ASSERT_OK(SaveCheckpoint(path, {&state}, {}, options));
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
    // A file that was readable by the group stays so.
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
    ASSERT_OK(SaveCheckpoint(path, {&state}, {}, options));
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0640u);
  }
  umask(before);
}

}  // namespace
}  // namespace ringlet
