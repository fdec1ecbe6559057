#include "ringlet/status.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/sanitized.h"

namespace ringlet {
namespace {

TEST(StatusTest, Status_Ok_IsOnePointerWideWithoutMessage) {
  Status ok;
  EXPECT_EQ(sizeof(ok), sizeof(void*));
  EXPECT_OK(ok);
  EXPECT_EQ(ok.code(), Code::kOk);
  EXPECT_STREQ(ok.message(), "");
}

TEST(StatusTest, Message_5000Characters_IsKeptWhole) {
  const std::string path(5000, 'p');
  Status s = NotFound("%s: no such layer", path.c_str());
  EXPECT_EQ(s.message(), path + ": no such layer");
  Status copy = s;
  s = Status();
  EXPECT_EQ(copy.message(), path + ": no such layer");
}

TEST(StatusTest, OsError_DiskIsFull_KeepsItsNumberAndNamesTheError) {
  Status s = OsError(ENOSPC, "write %s", "a.bin");
  EXPECT_EQ(s.code(), Code::kResourceExhausted);
  EXPECT_EQ(s.os_error(), ENOSPC);
  EXPECT_STREQ(s.message(), "write a.bin: No space left on device");
}

TEST(StatusTest, OsError_UnknownNumber_NamesTheNumber) {
  EXPECT_TRUE(Contains(OsError(12345, "write"), "12345"));
}

// Threads that run out of memory at the same time take constant records: each
// has its own code. The limit of memory comes after the threads, which need
// stacks. (Sanitizers cannot work under it.)
TEST(StatusTest, Error_NoMemoryOnSeveralThreads_KeepsTheCodeOfEach) {
#ifdef RINGLET_SANITIZED
  GTEST_SKIP() << "a sanitizer takes more memory than the limit";
#else
  const auto child = [] {
    constexpr int kTooLarge = 1 << 27;
    const Code codes[] = {Code::kIo, Code::kCorruption, Code::kNotFound};
    std::atomic<bool> limited{false};
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (const Code code : codes) {
      threads.emplace_back([code, &limited, &right] {
        while (!limited) std::this_thread::yield();
        const Status status = Error(code, "%*d", kTooLarge, 1);
        const Status copy = status.Annotate("within");
        const std::string message = status.message();
        right += status.code() == code && copy.code() == code &&
                 status.rank() == -1 && status.os_error() == 0 &&
                 message.find("no memory left") != std::string::npos;
      });
    }
    const rlimit limit = {kTooLarge, kTooLarge};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    // An emulator sets no limit.
    void* volatile taken = std::malloc(kTooLarge);
    if (taken != nullptr) std::_Exit(0);
    limited = true;
    for (std::thread& thread : threads) thread.join();
    std::_Exit(right == 3 ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
#endif
}

TEST(StatusTest, Annotate_Error_AddsContextAndKeepsTheRest) {
  Status s = PeerLost(3, "silent for %d ms", 1000).Annotate("step %d", 7);
  EXPECT_EQ(s.code(), Code::kPeerLost);
  EXPECT_EQ(s.rank(), 3);
  EXPECT_STREQ(s.message(), "step 7: silent for 1000 ms");
  EXPECT_OK(Status().Annotate("nothing"));
}

TEST(ResultTest, Result_MoveOnlyTypeWithoutDefault_HoldsIt) {
  struct Handle {
    explicit Handle(int n) : number(n) {}  // no default
    Handle(Handle&& other) noexcept : number(other.number) { other.number = 0; }
    int number;
  };
  Result<Handle> made = Handle(7);
  ASSERT_OK(made);
  EXPECT_EQ(made->number, 7);
  const Handle taken = std::move(made).value();
  EXPECT_EQ(taken.number, 7);
  EXPECT_EQ(made.value().number, 0);
  const Result<Handle> none = NotFound("no handle");
  EXPECT_EQ(none.status().code(), Code::kNotFound);
}

TEST(ResultDeathTest, Value_OfAnError_EndsTheProgramWithItsMessage) {
  Result<int> result = NotFound("data/x.csv: no such file");
  EXPECT_DEATH((void)result.value(), "error: data/x.csv: no such file");
  const Result<int>& constant = result;
  EXPECT_DEATH((void)constant.value(), "error: data/x.csv: no such file");
  EXPECT_DEATH((void)Result<int>(NotFound("gone")).value(), "error: gone");
}

TEST(StatusTest, ExitCode_UsageFailureOrResumable_Differs) {
  EXPECT_EQ(ExitCode(Status()), 0);
  EXPECT_EQ(ExitCode(InvalidArgument("flag")), 2);
  EXPECT_EQ(ExitCode(Corruption("file")), 1);
  EXPECT_EQ(ExitCode(PeerLost(1, "gone")), 75);
  EXPECT_EQ(ExitCode(Interrupted(SIGINT, "Ctrl-C")), 130);
  EXPECT_EQ(ExitCode(Interrupted(15, "stop").Annotate("fit")), 143);
}

// Supervisors depend on these codes (docs/porting.md). The list has every code.
TEST(StatusTest, ExitCode_EveryCode_IsTheDocumentedOne) {
  const std::map<Code, int> all = {{Code::kOk, 0},
                                   {Code::kInvalidArgument, 2},
                                   {Code::kNotFound, 1},
                                   {Code::kAlreadyExists, 1},
                                   {Code::kCorruption, 1},
                                   {Code::kResourceExhausted, 1},
                                   {Code::kUnavailable, 1},
                                   {Code::kPeerLost, 75},
                                   {Code::kDeadlineExceeded, 1},
                                   {Code::kCancelled, 75},
                                   {Code::kInterrupted, 128},
                                   {Code::kUnimplemented, 2},
                                   {Code::kIo, 1},
                                   {Code::kInternal, 1},
                                   {Code::kOutOfSync, 3}};
  ASSERT_EQ(all.size(), static_cast<size_t>(kLastCode) + 1);
  for (const auto& [code, exit_code] : all) {
    if (code == Code::kOk) continue;
    EXPECT_EQ(ExitCodeOf(Error(code, "x")), exit_code) << CodeName(code);
    EXPECT_EQ(ExitCode(Error(code, "x")), exit_code) << CodeName(code);
    // A permanent error is one that no restart ends.
    const bool permanent = IsPermanent(Error(code, "x"));
    EXPECT_TRUE(permanent || exit_code != 2) << CodeName(code);
    EXPECT_FALSE(permanent && exit_code == 75) << CodeName(code);
  }
  EXPECT_TRUE(IsPermanent(OsError(EACCES, "data")));
  EXPECT_FALSE(IsPermanent(OsError(EIO, "data")));
  EXPECT_FALSE(IsPermanent(Status()));
}

}  // namespace
}  // namespace ringlet
