#include "net/doctor/host_checks.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "../../support/contains.h"
#include "../../support/temp_folder.h"

namespace ringlet {
namespace {

// The only finding.
Finding One(const Findings& findings) {
  EXPECT_EQ(findings.size(), 1u);
  return findings.empty() ? Finding() : findings[0];
}

void ExpectFix(const Findings& findings, Severity severity,
               const std::string& text, const std::string& fix) {
  const Finding found = One(findings);
  EXPECT_EQ(found.severity, severity) << found.text;
  EXPECT_TRUE(Contains(found.text, text));
  EXPECT_TRUE(Contains(found.fix, fix));
}

void ExpectOk(const Findings& findings) {
  const Finding found = One(findings);
  EXPECT_EQ(found.severity, Severity::kOk) << found.text;
  EXPECT_EQ(found.fix, "");
}

NameFacts Name(int worker, const std::string& host, const std::string& address,
               bool loopback = false) {
  NameFacts name;
  name.worker = worker;
  name.host = host;
  name.address = address;
  name.loopback = loopback;
  return name;
}

TEST(HostChecksTest, CheckNames_ResolverSilentOrWithoutTheName_NamesTheWorker) {
  Findings found;
  std::vector<NameFacts> names = {Name(0, "a", "10.0.0.1"), Name(1, "b", "")};
  names[1].answered = false;
  CheckNames(names, 0, 3, &found);
  ExpectFix(found, Severity::kError, "worker 1's name b", "/etc/resolv.conf");
  found.clear();
  names[1].answered = true;
  names[1].status = Error(Code::kUnavailable, "unknown");
  CheckNames(names, 0, 3, &found);
  ExpectFix(found, Severity::kError, "unknown", "/etc/hosts");
}

TEST(HostChecksTest,
     CheckNames_OwnNameOnLoopback_WarnsIfAnotherHostIsElsewhere) {
  Findings found;
  CheckNames(
      {Name(0, "a", "127.0.1.1", /*loopback=*/true), Name(1, "b", "10.0.0.2")},
      0, 3, &found);
  ExpectFix(found, Severity::kWarning, "127.0.1.1", "in /etc/hosts give a");
  found.clear();
  CheckNames({Name(0, "a", "127.0.0.1", /*loopback=*/true),
              Name(1, "b", "127.0.0.1", /*loopback=*/true)},
             0, 3, &found);
  ExpectOk(found);
}

TEST(HostChecksTest, CheckNames_OtherNameOnLoopback_IsAnError) {
  Findings found;
  CheckNames(
      {Name(0, "a", "10.0.0.1"), Name(1, "b", "127.0.0.1", /*loopback=*/true)},
      0, 3, &found);
  ExpectFix(found, Severity::kError, "worker 1's name b", "/etc/hosts");
}

TEST(HostChecksTest, CheckPort_EachError_HasItsFix) {
  const struct {
    int error;
    const char* fix;
  } rows[] = {{EADDRINUSE, "sport = :7000"},
              {EADDRNOTAVAIL, "ip address"},
              {EACCES, "above 1023"}};
  for (const auto& [error, fix] : rows) {
    Findings found;
    CheckPort({"10.0.0.1:7000", 7000, OsError(error, "cannot bind"), false},
              &found);
    ExpectFix(found, Severity::kError, "10.0.0.1:7000", fix);
  }
  Findings found;
  CheckPort({"10.0.0.1:7000", 7000, OsError(EADDRINUSE, "cannot bind"), true},
            &found);
  ExpectOk(found);
}

TEST(HostChecksTest, CheckCores_MoreThreadsThanProcessors_NamesTheLimit) {
  Findings found;
  CheckCores({4, 8, 2, 0}, &found);
  ExpectFix(found, Severity::kWarning, "2 of 8 processors", "--threads 2");
  found.clear();
  CheckCores({4, 8, 8, 1.5}, &found);
  ExpectFix(found, Severity::kWarning, "1.5 processors", "cpu.max");
  found.clear();
  CheckCores({1, 8, 8, 0.5}, &found);
  ExpectFix(found, Severity::kWarning, "0.5 processors", "cpu.max");
  found.clear();
  CheckCores({4, 2, 2, 0}, &found);
  ExpectFix(found, Severity::kWarning, "the host has 2", "--threads 2");
  found.clear();
  CheckCores({2, 2, 2, 2}, &found);
  ExpectOk(found);
}

TEST(HostChecksTest, CheckMemory_LeastLimit_ErrorNamesIt) {
  Findings found;
  CheckPlannedMemory({100, 50, 200, kUnlimited}, &found);
  ExpectFix(found, Severity::kError, "the host has available 50", "swap");
  found.clear();
  CheckPlannedMemory({100, 500, 99, kUnlimited}, &found);
  ExpectFix(found, Severity::kError, "the control group", "memory.max");
  found.clear();
  CheckPlannedMemory({100, 500, 400, 105}, &found);
  ExpectFix(found, Severity::kWarning, "RLIMIT_AS", "ulimit -v");
  found.clear();
  CheckPlannedMemory({100, 500, 400, kUnlimited}, &found);
  ExpectOk(found);
  found.clear();
  CheckPlannedMemory({100, kUnlimited, kUnlimited, kUnlimited}, &found);
  ExpectOk(found);
}

TEST(HostChecksTest, CheckDisk_EachFault_HasItsFix) {
  DiskFacts disk;
  disk.folder = "/d";
  disk.use = "--save";
  disk.needed = 1000;
  disk.free_bytes = 5000;
  const struct {
    int error;
    const char* fix;
  } rows[] = {{EROFS, "remount,rw"},
              {EACCES, "chown"},
              {ENOSPC, "free room"},
              {ENOENT, "make the folder"}};
  for (const auto& [error, fix] : rows) {
    DiskFacts bad = disk;
    bad.writable = OsError(error, "nothing can be written");
    Findings found;
    CheckDisk(bad, &found);
    ExpectFix(found, Severity::kError, "/d (--save)", fix);
  }
  Findings found;
  DiskFacts full = disk;
  full.free_bytes = 999;
  CheckDisk(full, &found);
  ExpectFix(found, Severity::kError, "999 bytes free", "free room");
  found.clear();
  DiskFacts no_files = disk;
  no_files.free_files = 0;
  CheckDisk(no_files, &found);
  ExpectFix(found, Severity::kError, "df -i", "remove files");
  found.clear();
  DiskFacts slow = disk;
  slow.sync_seconds = 3;
  CheckDisk(slow, &found);
  ExpectFix(found, Severity::kWarning, "takes 3 s", "save_freq");
  found.clear();
  slow.synced = false;
  CheckDisk(slow, &found);
  ExpectFix(found, Severity::kWarning, "more than 3 s", "save_freq");
  found.clear();
  CheckDisk(disk, &found);
  ExpectOk(found);
}

TEST(HostChecksTest, CheckDescriptorsAndDate_Faults_HaveTheirFix) {
  Findings found;
  CheckDescriptors(3, 10, 16, &found);
  ExpectFix(found, Severity::kError, "3 are left of 16", "ulimit -n 26");
  found.clear();
  CheckDescriptors(10, 10, 16, &found);
  ExpectOk(found);
  found.clear();
  CheckDate(1000, &found);
  ExpectFix(found, Severity::kWarning, "before 2024", "timedatectl");
  found.clear();
  CheckDate(1800000000, &found);
  EXPECT_TRUE(found.empty());
}

void Put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  WriteWhole(path, text);
}

TEST(HostChecksTest, GroupMemoryLeft_NestedGroups_IsTheLeastWithoutTheCache) {
  TempFolder folder;
  const std::string root = folder.path();
  EXPECT_EQ(GroupMemoryLeft("0::/a/b\n", root), kUnlimited);
  Put(root + "/a/b/memory.max", "max\n");
  EXPECT_EQ(GroupMemoryLeft("0::/a/b\n", root), kUnlimited);
  Put(root + "/a/memory.max", "1000\n");
  Put(root + "/a/memory.current", "700\n");
  EXPECT_EQ(GroupMemoryLeft("0::/a/b\n", root), 300u);
  Put(root + "/a/memory.stat", "anon 600\nfile 100\n");
  EXPECT_EQ(GroupMemoryLeft("0::/a/b\n", root), 400u);
  Put(root + "/a/memory.stat", "anon 100\nfile 600\nshmem 550\n");
  EXPECT_EQ(GroupMemoryLeft("0::/a/b\n", root), 350u);
  Put(root + "/a/memory.current", "5000\n");
  EXPECT_EQ(GroupMemoryLeft("0::/a/b\n", root), 0u);
  Put(root + "/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(GroupMemoryLeft("4:memory:/c\n", root), kUnlimited);
  Put(root + "/memory/c/memory.limit_in_bytes", "500\n");
  Put(root + "/memory/c/memory.usage_in_bytes", "200\n");
  EXPECT_EQ(GroupMemoryLeft("4:cpu,memory:/c\n", root), 300u);
}

}  // namespace
}  // namespace ringlet
