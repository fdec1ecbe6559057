#include "run_mark.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "../../core/base/text.h"
#include "safetensors.h"

namespace ringlet {
namespace {

constexpr char kAttemptKey[] = "attempt", kFitKey[] = "fit",
               kEpochKey[] = "epoch", kStepKey[] = "step",
               kUncomparedKey[] = "uncompared", kNamedKey[] = "named";

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

// Each three numbers: a worker, verdicts on it, and a step.
using Triple = std::array<int64_t, 3>;

void AddTriple(int64_t worker, int64_t verdicts, int64_t step,
               std::string* text) {
  if (!text->empty()) *text += ' ';
  *text += std::to_string(worker) + ':' + std::to_string(verdicts) + ':' +
           std::to_string(step);
}

std::string TextOf(const UncomparedSteps& of) {
  std::string text;
  for (int64_t w = 0; w < kMostInTable; ++w) {
    if (of.last(w) > 0) AddTriple(w, of.verdicts(w), of.last(w), &text);
  }
  return text;
}

std::string TextOf(const Disbelief& disbelief) {
  std::string text;
  for (int64_t w = 0; w < kMostInTable; ++w) {
    if (disbelief.verdicts(w) == 0) continue;
    AddTriple(w, disbelief.verdicts(w), disbelief.believed(w), &text);
  }
  return text;
}

// As far as they make sense.
std::vector<Triple> TriplesIn(const Metadata& metadata, const char* key) {
  std::vector<Triple> triples;
  const auto found = metadata.find(key);
  if (found == metadata.end()) return triples;
  std::string_view rest = found->second;
  const auto number_up_to = [&](char end, int64_t most) {
    const size_t length = std::min(rest.find(end), rest.size());
    const std::string_view part = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    return WholeNumber(part, most);
  };
  while (!rest.empty()) {
    const Triple triple = {number_up_to(':', kMostInTable - 1),
                           number_up_to(':', kMostVerdicts),
                           number_up_to(' ', UINT32_MAX)};
    for (const int64_t number : triple) {
      if (number < 0) return triples;
    }
    triples.push_back(triple);
  }
  return triples;
}

}  // namespace

bool RunMark::IsLaterThan(const RunMark& other) const {
  if (attempt != other.attempt) return false;
  if (IsOfBefore(other) != other.IsOfBefore(*this)) return !IsOfBefore(other);
  return std::tie(fit, epoch, step) >
         std::tie(other.fit, other.epoch, other.step);
}

RunMark MarkOf(const FitState& fit, int64_t attempt, int64_t fits,
               int64_t step) {
  RunMark mark;
  mark.attempt = attempt;
  mark.fit = fits;
  mark.epoch = fit.epoch;
  mark.step = step;
  if (fit.uncompared != nullptr) mark.uncompared = *fit.uncompared;
  if (fit.disbelief != nullptr) mark.disbelief = *fit.disbelief;
  return mark;
}

void AddMark(const RunMark& mark, Metadata* metadata) {
  (*metadata)[kAttemptKey] = std::to_string(mark.attempt);
  const std::string uncompared = TextOf(mark.uncompared),
                    named = TextOf(mark.disbelief);
  if (mark.fit > 0) (*metadata)[kFitKey] = std::to_string(mark.fit);
  if (!uncompared.empty()) (*metadata)[kUncomparedKey] = uncompared;
  if (!named.empty()) (*metadata)[kNamedKey] = named;
  (*metadata)[kEpochKey] = std::to_string(mark.epoch);
  (*metadata)[kStepKey] = std::to_string(mark.step);
}

RunMark MarkAt(FileSystem* files, const std::string& path) {
  SafetensorsReader file;
  if (!file.Open(files, path).ok()) return {};
  const Metadata& metadata = file.metadata();
  RunMark mark;
  mark.attempt = NumberIn(metadata, kAttemptKey);
  mark.fit = std::max<int64_t>(NumberIn(metadata, kFitKey), 0);
  mark.epoch = NumberIn(metadata, kEpochKey);
  mark.step = NumberIn(metadata, kStepKey);
  if (mark.attempt <= 0 || mark.epoch < 0 || mark.step < 0) return {};
  for (const auto& [worker, verdicts, step] :
       TriplesIn(metadata, kUncomparedKey)) {
    mark.uncompared.Took(worker, static_cast<uint32_t>(verdicts), step);
  }
  for (const auto& [worker, verdicts, step] : TriplesIn(metadata, kNamedKey)) {
    mark.disbelief.Add(worker, static_cast<uint32_t>(verdicts), step);
  }
  return mark;
}

Status GatherMarks(Collective* collective, const RunMark& mine,
                   std::vector<RunMark>* all) {
  constexpr size_t kNumbers = sizeof(RunMark) / sizeof(int64_t);
  static_assert(kNumbers == 4 + 2 * kMostInTable);
  all->resize(static_cast<size_t>(collective->size()));
  return GatherNumbers(collective, &mine, sizeof(int64_t), kNumbers,
                       all->data());
}

int64_t MostAttempts(const std::vector<RunMark>& all) {
  int64_t most = 0;
  for (const RunMark& mark : all) most = std::max(most, mark.attempt);
  return most;
}

Status CountComers(Collective* collective, bool counted, const RunMark& now,
                   const std::function<RunMark()>& file, int64_t* attempt) {
  constexpr int64_t kCounted = -1;  // of one that has no file to count
  RunMark mine = counted ? RunMark() : file();
  if (counted) mine.attempt = kCounted;
  std::vector<RunMark> all;
  RINGLET_RETURN_IF_ERROR(GatherMarks(collective, mine, &all));
  int64_t most = MostAttempts(all);
  // Where nobody is left who was here one that is no later is this job's.
  bool asks = false, found = false;
  for (const RunMark& mark : all) asks |= mark.attempt == kCounted;
  RunMark last = asks ? RunMark() : now;
  for (const RunMark& mark : all) {
    if (mark.attempt != *attempt) continue;
    if (last.attempt != 0 && !mark.IsLaterThan(last)) continue;
    last = mark;
    found = true;
  }
  if (!found) return Status();
  // Read once theirs was.
  RINGLET_RETURN_IF_ERROR(
      GatherMarks(collective, counted ? file() : RunMark(), &all));
  // One of these may have an older file of more, from when it came.
  most = std::max(most, MostAttempts(all));
  const bool seen =
      std::any_of(all.begin(), all.end(), [&](const RunMark& mark) {
        return mark.attempt == last.attempt && !last.IsLaterThan(mark);
      });
  if (!seen) *attempt = most + 1;
  return Status();
}

bool LaterStays::Keeps() {
  const RunMark there = MarkAt(&files_, path_);
  kept_ = there.IsLaterThan(mark_);
  named_ = mark_.IsOfBefore(there);
  return kept_;
}

}  // namespace ringlet
