#include "core/base/key_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "../../support/expect_ok.h"
#include "../../support/temp_folder.h"

namespace ringlet {
namespace {

// The bytes 0 to 31, and 32 bytes of 255, as the program `base64` writes them.
constexpr char kText[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr char kOther[] = "//////////////////////////////////////////8=";

class KeyFileTest : public testing::Test {
 protected:
  Status Read(const std::string& text, mode_t mode = 0600) {
    WriteWhole(path_, text);
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return ReadKeyFile(path_, &keys_);
  }
  void ExpectRefused(const std::string& text, const std::string& message,
                     mode_t mode = 0600) {
    SCOPED_TRACE(text);
    const Status status = Read(text, mode);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_NE(std::strstr(status.message(), path_.c_str()), nullptr);
    EXPECT_NE(std::strstr(status.message(), message.c_str()), nullptr)
        << status.message();
    EXPECT_EQ(std::strstr(status.message(), "AAECAwQ"), nullptr)
        << status.message();
  }

  TempFolder folder_{TempFolder::InMemory()};
  const std::string path_ = folder_ / "job.key";
  JobKeysPtr keys_;
};

TEST_F(KeyFileTest, Read_OneKeyOrTwoWithComments_HasTheirBytes) {
  ASSERT_OK(Read(kText));
  ASSERT_EQ(keys_->count, 1);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(keys_->keys[0].bytes[i], i);
  ASSERT_OK(Read(std::string("# new\r\n\r\n\t") + kOther + " \r\n# old\n" +
                 kText + "\n\n"));
  ASSERT_EQ(keys_->count, 2);
  EXPECT_EQ(keys_->keys[0].bytes[31], 0xff);
  EXPECT_EQ(keys_->keys[1].bytes[31], 31);
}

TEST_F(KeyFileTest, Read_NotAKey_IsRefusedWithItsLineAndWithoutItsText) {
  const std::string key = kText;
  ExpectRefused("", "has no key");
  ExpectRefused("# nothing\n", "has no key");
  ExpectRefused("\n" + key.substr(1) + "\n", "line 2");
  ExpectRefused(key + "A\n", "line 1");
  ExpectRefused(key + "\n" + key + "\n" + key, "third key");
  ExpectRefused(key.substr(0, 43) + "A", "line 1");
  ExpectRefused(key.substr(0, 42) + "9=", "line 1");  // bits of no byte
  ExpectRefused(key.substr(0, 10) + "-" + key.substr(11), "line 1");
  ExpectRefused(key.substr(0, 10) + std::string(1, '\0') + key.substr(11),
                "line 1");
  ExpectRefused(std::string(5000, '#'), "4096 bytes");
  ExpectRefused("#" + std::string(5000, '\n') + key, "4096 bytes");
}

// A user may write RINGLET_KEY_FILE=$(ringlet keygen).
TEST_F(KeyFileTest, Read_PathIsAKey_MessageDoesNotShowIt) {
  for (const std::string& path :
       {std::string(kText), "# A key\n" + std::string(kText) + "\n",
        folder_ / kText}) {
    const Status status = ReadKeyFile(path, &keys_);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    EXPECT_EQ(std::strstr(status.message(), "AAECAwQ"), nullptr)
        << status.message();
  }
  const Status none = ReadKeyFile(folder_ / "none=", &keys_);
  EXPECT_EQ(none.code(), Code::kNotFound) << none.message();
}

TEST_F(KeyFileTest, Read_AnyCharacterChanged_IsRefusedOrAnotherKey) {
  const std::string key = kText;
  for (size_t i = 0; i < key.size(); ++i) {
    for (const char c : std::string("+/09AaZz=-_. \0\x80\xff", 16)) {
      std::string other = key;
      other[i] = c;
      if (other == key || !Read(other).ok()) continue;
      int same = 0;
      for (int b = 0; b < 32; ++b) same += keys_->keys[0].bytes[b] == b;
      EXPECT_LT(same, 32) << i << " " << c;
    }
  }
}

TEST_F(KeyFileTest, Read_ModeGivesOthersAccess_IsRefused) {
  for (const mode_t mode : {0604, 0602, 0601, 0644, 0666, 0620, 0660, 0777}) {
    ExpectRefused(kText, "chmod 600", mode);
  }
  for (const mode_t mode : {0600, 0400, 0700}) {
    EXPECT_OK(Read(kText, mode));
  }
  // Root may let a group read its file, as a volume of Kubernetes does.
  if (geteuid() == 0) {
    EXPECT_OK(Read(kText, 0440));
    EXPECT_OK(Read(kText, 0640));
    ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
    ExpectRefused(kText, "user 12345");
  } else {
    ExpectRefused(kText, "chmod 600", 0640);
  }
}

TEST_F(KeyFileTest, Read_NotARegularFile_IsRefused) {
  EXPECT_EQ(ReadKeyFile(folder_ / "none", &keys_).code(), Code::kNotFound);
  EXPECT_EQ(ReadKeyFile(folder_.path(), &keys_).code(), Code::kInvalidArgument);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(ReadKeyFile(path_, &keys_).code(), Code::kInvalidArgument);
  // Volumes of Kubernetes are links to links.
  WriteWhole(folder_ / "real", kText);
  ASSERT_EQ(chmod((folder_ / "real").c_str(), 0600), 0);
  ASSERT_EQ(symlink("real", (folder_ / "link").c_str()), 0);
  EXPECT_OK(ReadKeyFile(folder_ / "link", &keys_));
}

TEST_F(KeyFileTest, FindKeys_SeveralSources_TakesNameVariableThenCredential) {
  unsetenv("RINGLET_KEY_FILE");
  unsetenv("CREDENTIALS_DIRECTORY");
  ASSERT_OK(FindKeys("", &keys_));
  EXPECT_EQ(keys_, nullptr);
  setenv("CREDENTIALS_DIRECTORY", folder_.path().c_str(), 1);
  ASSERT_OK(FindKeys("", &keys_));
  EXPECT_EQ(keys_, nullptr);
  WriteWhole(folder_ / "ringlet.key", kText);
  ASSERT_EQ(chmod((folder_ / "ringlet.key").c_str(), 0400), 0);
  ASSERT_OK(FindKeys("", &keys_));
  EXPECT_EQ(keys_->keys[0].bytes[1], 1);
  ASSERT_OK(Read(kOther));
  setenv("RINGLET_KEY_FILE", path_.c_str(), 1);
  ASSERT_OK(FindKeys("", &keys_));
  EXPECT_EQ(keys_->keys[0].bytes[1], 0xff);
  ASSERT_OK(FindKeys(folder_ / "ringlet.key", &keys_));
  EXPECT_EQ(keys_->keys[0].bytes[1], 1);
  // A named file that does not exist is an error, not "none".
  setenv("RINGLET_KEY_FILE", (folder_ / "none").c_str(), 1);
  EXPECT_EQ(FindKeys("", &keys_).code(), Code::kNotFound);
  EXPECT_EQ(keys_, nullptr);
  unsetenv("RINGLET_KEY_FILE");
  unsetenv("CREDENTIALS_DIRECTORY");
}

TEST_F(KeyFileTest, NewKeyText_CalledTwice_DiffersAndReadsBack) {
  std::string one, other;
  ASSERT_OK(NewKeyText(&one));
  ASSERT_OK(NewKeyText(&other));
  EXPECT_NE(one, other);
  ASSERT_OK(Read(one));
  EXPECT_EQ(keys_->count, 1);
  Wipe(&one);
  EXPECT_EQ(one, std::string(one.size(), '\0'));
}

TEST_F(KeyFileTest, LauncherKeys_DescriptorIsClosed_AreGone) {
  int fd = -1;
  std::string path;
  MakeLauncherKey(&fd, &path);
  if (fd < 0) GTEST_SKIP() << "no memory without a name here";
  setenv(kLauncherKeyVariable, path.c_str(), 1);
  ASSERT_NE(LauncherKeys(), nullptr);
  EXPECT_EQ(LauncherKeys()->count, 1);
  struct stat about;
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  close(fd);
  EXPECT_EQ(LauncherKeys(), nullptr);
  unsetenv(kLauncherKeyVariable);
  EXPECT_EQ(LauncherKeys(), nullptr);
}

#ifdef __linux__
// Field `name` of the mapping that holds `address`; "" if there is none.
std::string OfMapping(const void* address, const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = at >= begin && at < end;
    } else if (inside && line.compare(0, name.size(), name) == 0) {
      return line.substr(name.size());
    }
  }
  return "";
}

TEST_F(KeyFileTest, Keys_InMemory_AreLeftOutOfCoreDumps) {
  ASSERT_OK(Read(kText));
  const std::string flags = OfMapping(keys_.get(), "VmFlags:");
  if (flags.empty()) GTEST_SKIP() << "no /proc/self/smaps here";
  // Checks first that a page with MADV_DONTDUMP is shown as such; under an
  // emulator it is not.
  constexpr size_t kPage = 65536;
  void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  ASSERT_EQ(madvise(page, kPage, MADV_DONTDUMP), 0);
  const std::string page_flags = OfMapping(page, "VmFlags:");
  munmap(page, kPage);
  const auto kept_out = [](const std::string& f) {
    return f.find(" dd") != std::string::npos;
  };
  EXPECT_EQ(kept_out(flags), kept_out(page_flags))
      << flags << "; " << page_flags;
}
#endif

}  // namespace
}  // namespace ringlet
