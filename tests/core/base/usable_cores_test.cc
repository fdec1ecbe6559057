#include "core/base/thread.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../../support/temp_folder.h"
#include "ringlet/compute.h"

namespace ringlet {
namespace {

void Put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  WriteWhole(path, text);
}

TEST(UsableCoresTest, UsableCores_ProcessBoundToOneProcessor_IsOne) {
  EXPECT_GE(UsableCores(), 1);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_LE(UsableCores(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCores(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(UsableCoresTest, CpuQuota_NestedGroups_IsTheLeastOfThem) {
  TempFolder folder;
  const std::string root = folder.path();
  EXPECT_EQ(CpuQuota("0::/a/b\n", root), 0);
  Put(root + "/cpu.max", "max 100000\n");
  Put(root + "/a/cpu.max", "150000 100000\n");
  Put(root + "/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(CpuQuota("0::/a/b\n", root), 1.5);
  EXPECT_EQ(CpuQuota("0::/a/gone\n", root), 1.5);
  EXPECT_EQ(CpuQuota("0::/\n", root), 0);
  EXPECT_EQ(CpuQuota("0::/c", root), 0);
  EXPECT_EQ(CpuQuota("0::/../..\n", root), 0);
}

TEST(UsableCoresTest, GroupFolders_BothVersions_GroupsAndThoseAbove) {
  using Folders = std::vector<std::string>;
  EXPECT_EQ(GroupFolders("0::/a/b\n", "memory", "/r"),
            (Folders{"/r/a/b", "/r/a", "/r"}));
  EXPECT_EQ(GroupFolders("2:cpu,memory:/c\n1:pids:/d\n", "memory", "/r"),
            (Folders{"/r/memory/c", "/r/memory"}));
  EXPECT_EQ(GroupFolders("no colons", "memory", "/r"), Folders());
}

TEST(UsableCoresTest, CpuQuota_CgroupVersionOne_IsRead) {
  TempFolder folder;
  const std::string root = folder.path();
  Put(root + "/cpu/docker/1/cpu.cfs_quota_us", "250000\n");
  Put(root + "/cpu/docker/1/cpu.cfs_period_us", "100000\n");
  Put(root + "/cpu/cpu.cfs_quota_us", "-1\n");
  Put(root + "/cpu/cpu.cfs_period_us", "100000\n");
  const std::string lines =
      "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n2:cpuset:/\n";
  EXPECT_EQ(CpuQuota(lines, root), 2.5);
  EXPECT_EQ(CpuQuota("3:cpuset:/docker/1\n", root), 0);
}

TEST(UsableCoresTest, CpuQuota_InvalidText_IsNone) {
  TempFolder folder;
  for (const char* text : {"", " ", "max", "0 100000", "-5 1", "x y", "1 0"}) {
    Put(folder.path() + "/cpu.max", text);
    EXPECT_EQ(CpuQuota("0::/\n", folder.path()), 0) << text;
  }
  EXPECT_EQ(CpuQuota("", folder.path()), 0);
  EXPECT_EQ(CpuQuota("no colons", folder.path()), 0);
  EXPECT_EQ(CpuQuota("one:colon\n::\n", folder.path()), 0);
}

}  // namespace
}  // namespace ringlet
