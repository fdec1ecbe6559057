#include "run_mark.h"

#include <cstdlib>
#include <tuple>

#include "safetensors.h"

namespace ringlet {
namespace {

constexpr char kAttemptKey[] = "attempt", kVerdictsKey[] = "verdicts",
               kEpochKey[] = "epoch", kStepKey[] = "step";

// Of up to 18 digits, and nothing else; -1: it is not.
int64_t NumberIn(const Metadata& metadata, const char* key) {
  constexpr size_t kMost = 18;
  const auto found = metadata.find(key);
  if (found == metadata.end()) return -1;
  const std::string& text = found->second;
  const bool is_number =
      !text.empty() && text.size() <= kMost &&
      text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::strtoll(text.c_str(), nullptr, 10) : -1;
}

}  // namespace

bool RunMark::IsLaterThan(const RunMark& other) const {
  return attempt == other.attempt &&
         std::tie(verdicts, epoch, step) >
             std::tie(other.verdicts, other.epoch, other.step);
}

void AddMark(const RunMark& mark, Metadata* metadata) {
  (*metadata)[kAttemptKey] = std::to_string(mark.attempt);
  if (mark.verdicts > 0) {
    (*metadata)[kVerdictsKey] = std::to_string(mark.verdicts);
  }
  (*metadata)[kEpochKey] = std::to_string(mark.epoch);
  (*metadata)[kStepKey] = std::to_string(mark.step);
}

RunMark MarkAt(FileSystem* files, const std::string& path) {
  SafetensorsReader file;
  if (!file.Open(files, path).ok()) return {};
  const Metadata& metadata = file.metadata();
  const bool named = metadata.count(kVerdictsKey) > 0;
  const RunMark mark = {NumberIn(metadata, kAttemptKey),
                        named ? NumberIn(metadata, kVerdictsKey) : 0,
                        NumberIn(metadata, kEpochKey),
                        NumberIn(metadata, kStepKey)};
  const bool known = mark.attempt > 0 && mark.verdicts >= 0 &&
                     mark.epoch >= 0 && mark.step >= 0;
  return known ? mark : RunMark();
}

Status GatherMarks(Collective* collective, const RunMark& mine,
                   std::vector<RunMark>* all) {
  static_assert(sizeof(RunMark) == 4 * sizeof(int64_t));
  all->resize(static_cast<size_t>(collective->size()));
  return GatherNumbers(collective, &mine, sizeof(int64_t), 4, all->data());
}

bool LaterStays::Keeps() {
  const RunMark there = MarkAt(&files_, path_);
  kept_ = there.IsLaterThan(mark_);
  named_ = there.verdicts > mark_.verdicts;
  return kept_;
}

}  // namespace ringlet
