// ExampleKey and RoundId are part of the file's format: with another function
// all examples of an existing state would be new, and its open round be
// repeated.

#include "watch_state.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/fnv1a.h"
#include "../../core/base/text.h"
#include "../weights/safetensors.h"
#include "ringlet/checkpoint.h"
#include "ringlet/shape.h"

namespace ringlet {
namespace {

constexpr char kWatchRoundKey[] = "watch_round", kWatchOpenKey[] = "watch_open",
               kWatchSettingsKey[] = "watch_settings",
               kWatchModelKey[] = "watch_model";
// This number of keys is kept in any case.
constexpr size_t kKeptKeys = 65536;
constexpr char kWatchFreshName[] = "watch/new", kWatchSeenName[] = "watch/seen";

void AddNumber(uint64_t number, Fnv1a* hash) {
  unsigned char bytes[sizeof(number)];
  StoreLittle(number, bytes);
  hash->Add(bytes, sizeof(bytes));
}

bool HasKey(const std::vector<uint64_t>& keys, uint64_t key) {
  return std::binary_search(keys.begin(), keys.end(), key);
}

// The keys as spans, without empty ones.
class WatchKeys final : public Saveable {
 public:
  explicit WatchKeys(WatchState* state) : state_(*state) {}
  void AppendState(std::vector<StateSpan>* spans) override {
    Append(kWatchFreshName, &state_.fresh, spans);
    Append(kWatchSeenName, &state_.seen, spans);
  }

 private:
  static void Append(const char* name, std::vector<uint64_t>* keys,
                     std::vector<StateSpan>* spans) {
    if (keys->empty()) return;
    spans->push_back({name,
                      DType::kInt64,
                      {static_cast<int64_t>(keys->size())},
                      keys->data()});
  }
  WatchState& state_;
};

Status ReadWatchKeys(const SafetensorsReader& file, const char* name,
                     std::vector<uint64_t>* keys) {
  keys->clear();
  const StoredTensor* const tensor = file.Find(name);
  if (tensor == nullptr) return Status();
  if (tensor->storage != Storage::kI64 || tensor->shape.rank() != 1) {
    return Corruption("%s: '%s' is not a list of numbers", file.path().c_str(),
                      name);
  }
  // The length of the file bounds the length of the tensor.
  keys->resize(static_cast<size_t>(tensor->shape[0]));
  RINGLET_RETURN_IF_ERROR(file.Read(*tensor, keys->data()));
  const auto twice = std::adjacent_find(keys->begin(), keys->end(),
                                        [](auto a, auto b) { return a >= b; });
  if (twice == keys->end()) return Status();
  return Corruption("%s: the numbers of '%s' are not ascending",
                    file.path().c_str(), name);
}

std::string WatchEntry(const SafetensorsReader& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

}  // namespace

uint64_t ExampleKey(const std::string& path, int64_t bytes) {
  Fnv1a hash;
  hash.Add(path);
  AddNumber(static_cast<uint64_t>(bytes), &hash);
  return hash.value();
}

bool WatchState::IsFresh(uint64_t key) const { return HasKey(fresh, key); }
bool WatchState::IsSeen(uint64_t key) const { return HasKey(seen, key); }

void WatchState::OpenRound(std::vector<uint64_t> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  fresh = std::move(keys);
  ++round;
  is_open = true;
}

void WatchState::CloseRound() {
  const auto middle = static_cast<ptrdiff_t>(seen.size());
  seen.insert(seen.end(), fresh.begin(), fresh.end());
  std::inplace_merge(seen.begin(), seen.begin() + middle, seen.end());
  fresh.clear();
  is_open = false;
}

void WatchState::AbandonRound() {
  fresh.clear();
  is_open = false;
}

void WatchState::DropRemoved(const std::vector<bool>& is_there) {
  const auto present =
      static_cast<size_t>(std::count(is_there.begin(), is_there.end(), true));
  if (seen.size() <= kKeptKeys || present > seen.size() / 2) return;
  size_t kept = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (is_there[i]) seen[kept++] = seen[i];
  }
  seen.resize(kept);
}

std::string WatchState::RoundId() const {
  Fnv1a hash;
  AddNumber(settings, &hash);
  for (const auto* keys : {&fresh, &seen}) {
    AddNumber(keys->size(), &hash);
    for (const uint64_t key : *keys) AddNumber(key, &hash);
  }
  return std::to_string(round) + " " + HexText(hash.value());
}

Status SaveWatchState(FileSystem* files, const std::string& path,
                      WatchState* state) {
  WatchKeys keys(state);
  SaveOptions options;
  options.files = files;
  return SaveCheckpoint(path, {&keys},
                        {{kWatchRoundKey, std::to_string(state->round)},
                         {kWatchOpenKey, state->is_open ? "1" : "0"},
                         {kWatchSettingsKey, HexText(state->settings)},
                         {kWatchModelKey, state->has_model ? "1" : "0"}},
                        options);
}

Status LoadWatchState(FileSystem* files, const std::string& path,
                      WatchState* state) {
  SafetensorsReader file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path));
  WatchState loaded;
  loaded.round =
      ParseWholeNumber(WatchEntry(file, kWatchRoundKey), INT64_MAX - 1);
  const std::string open = WatchEntry(file, kWatchOpenKey);
  if (loaded.round < 0 || (open != "0" && open != "1")) {
    return Corruption("%s: is not a state of --watch", path.c_str());
  }
  loaded.is_open = open == "1";
  const std::string settings = WatchEntry(file, kWatchSettingsKey);
  loaded.settings = state->settings;
  if (settings != HexText(state->settings)) {
    return InvalidArgument(
        "%s: was made with another seed or validation_split, which decide what "
        "is held out; give these again, or remove it to begin again",
        path.c_str());
  }
  RINGLET_RETURN_IF_ERROR(ReadWatchKeys(file, kWatchFreshName, &loaded.fresh));
  RINGLET_RETURN_IF_ERROR(ReadWatchKeys(file, kWatchSeenName, &loaded.seen));
  // Files of older versions have no such entry.
  loaded.has_model = WatchEntry(file, kWatchModelKey) == "1";
  if (loaded.is_open == loaded.fresh.empty()) {
    return Corruption("%s: its round is neither open nor closed", path.c_str());
  }
  *state = std::move(loaded);
  return Status();
}

}  // namespace ringlet
