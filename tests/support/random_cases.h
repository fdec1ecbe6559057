// RandomCases: the numbers of the cases that a random test runs.
//
//   RandomCases cases("RINGLET_VIEW", {1464});
//   while (cases.Next()) {
//     SCOPED_TRACE(cases.command());
//     ASSERT_EQ(RunCase(cases.number()), "");
//   }
//
// The numbers that failed in the past come first, then 0, 1, 2 and so on, for
// RINGLET_TEST_SECONDS seconds (5). In the environment NAME_SEEDS is a count of
// cases in place of the seconds, and NAME_FIRST is the first number. NAME_SEED
// is the number of a single case. The destructor prints the numbers that were
// run.

#ifndef RINGLET_TESTS_SUPPORT_RANDOM_CASES_H_
#define RINGLET_TESTS_SUPPORT_RANDOM_CASES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringlet {

// The seconds that a random test takes.
inline double TestSeconds() {
  const char* const text = std::getenv("RINGLET_TEST_SECONDS");
  return text != nullptr ? std::atof(text) : 5;
}
// True if a test runs all cases of a set. A limit below 5 seconds means a slow
// build, which runs a third of them.
inline bool RunsAllCases() { return TestSeconds() >= 5; }

// True if such a test runs the case of this number. The third is the same in
// each run. The golden ratio spreads it over the set.
inline bool RunsCase(uint64_t number) {
  return RunsAllCases() ||
         static_cast<uint32_t>(number * 0x9e3779b9u) < 0x55555555;
}

class RandomCases {
 public:
  // `part` divides NAME_SEEDS and NAME_FIRST, for cases that take longer than
  // others of the same name. `share` multiplies the seconds. `alone` is the
  // variable for a single case, by default NAME_SEED.
  explicit RandomCases(const std::string& name,
                       std::vector<uint64_t> failed_once = {},
                       uint64_t part = 1, double share = 1,
                       const std::string& alone = "")
      : alone_name_(alone.empty() ? name + "_SEED" : alone),
        alone_(Variable(alone_name_)),
        count_(Variable(name + "_SEEDS")),
        first_(Variable(name + "_FIRST").value_or(0) / part),
        failed_once_(std::move(failed_once)),
        seconds_(share * TestSeconds()),
        next_(first_) {
    if (!count_) return;
    const uint64_t begin = Variable(name + "_FIRST").value_or(0);
    count_ = std::max<uint64_t>((begin + *count_) / part - first_, 1);
  }
  RandomCases(const RandomCases&) = delete;
  RandomCases& operator=(const RandomCases&) = delete;

  ~RandomCases() {
    std::printf("%llu cases:", static_cast<unsigned long long>(begun_));
    if (alone_) std::printf(" %llu", static_cast<unsigned long long>(*alone_));
    if (next_ > first_) {
      std::printf(" %llu to %llu", static_cast<unsigned long long>(first_),
                  static_cast<unsigned long long>(next_ - 1));
    }
    if (old_ > 0) std::printf(", and %zu that once failed", old_);
    std::printf("\n");
  }

  // Goes to the next case and returns true if there is one. Its number is
  // number().
  bool Next() {
    if (alone_) {
      number_ = *alone_;
      return begun_++ == 0;
    }
    if (old_ < failed_once_.size() && first_ == 0) {
      number_ = failed_once_[old_++];
    } else if (Left()) {
      number_ = next_++;
    } else {
      return false;
    }
    ++begun_;
    return true;
  }
  uint64_t number() const { return number_; }
  // The environment that runs this case alone: "RINGLET_VIEW_SEED=7".
  std::string command() const {
    return alone_name_ + "=" + std::to_string(number_);
  }
  // The cases so far.
  uint64_t count() const { return begun_; }
  // True if a single case is run, for debugging.
  bool alone() const { return alone_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;

  static std::optional<uint64_t> Variable(const std::string& name) {
    const char* const text = std::getenv(name.c_str());
    if (text == nullptr) return std::nullopt;
    return std::strtoull(text, nullptr, 10);
  }

  // Allows at least one case, even if the time is over.
  bool Left() const {
    if (count_) return next_ - first_ < *count_;
    return next_ == first_ ||
           Clock::now() - begin_ < std::chrono::duration<double>(seconds_);
  }

  const std::string alone_name_;
  const std::optional<uint64_t> alone_;
  std::optional<uint64_t> count_;
  const uint64_t first_;
  const std::vector<uint64_t> failed_once_;
  const double seconds_;
  const Clock::time_point begin_ = Clock::now();
  uint64_t next_, number_ = 0, begun_ = 0;
  size_t old_ = 0;  // the number of failed_once_ that were run
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_RANDOM_CASES_H_
