#include "run_mark.h"

#include <cstdlib>
#include <tuple>

#include "safetensors.h"

namespace ringlet {
namespace {

constexpr char kAttemptKey[] = "attempt", kEpochKey[] = "epoch",
               kStepKey[] = "step";

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
         std::tie(epoch, step) > std::tie(other.epoch, other.step);
}

void AddMark(const RunMark& mark, Metadata* metadata) {
  (*metadata)[kAttemptKey] = std::to_string(mark.attempt);
  (*metadata)[kEpochKey] = std::to_string(mark.epoch);
  (*metadata)[kStepKey] = std::to_string(mark.step);
}

RunMark MarkAt(FileSystem* files, const std::string& path) {
  SafetensorsReader file;
  if (!file.Open(files, path).ok()) return {};
  const RunMark mark = {NumberIn(file.metadata(), kAttemptKey),
                        NumberIn(file.metadata(), kEpochKey),
                        NumberIn(file.metadata(), kStepKey)};
  const bool known = mark.attempt > 0 && mark.epoch >= 0 && mark.step >= 0;
  return known ? mark : RunMark();
}

Status GatherMarks(Collective* collective, const RunMark& mine,
                   std::vector<RunMark>* all) {
  static_assert(sizeof(RunMark) == 3 * sizeof(int64_t));
  all->resize(static_cast<size_t>(collective->size()));
  return GatherNumbers(collective, &mine, sizeof(int64_t), 3, all->data());
}

bool LaterStays::Keeps() {
  kept_ = MarkAt(&files_, path_).IsLaterThan(mark_);
  return kept_;
}

}  // namespace ringlet
