// Match pairs the callbacks of this run with parts of the file: first by the
// identity in the metadata, then by order. AppendState gives spans the names
// of the file, and leaves out tensors without a part, so LoadCheckpoint need
// not know of it. A part is loaded whole or not at all.

#include "resumed_state.h"

#include <algorithm>
#include <set>

#include "../../core/base/fnv1a.h"
#include "../../core/base/text.h"

namespace ringlet {
namespace {

constexpr char kCallbacks[] = "callback/", kMetrics[] = "metric/";

// "callback/csv_logger_1" for "callback/csv_logger_1/offset". For a metric's
// tensor its whole name. Empty for any other tensor.
std::string PartOf(const std::string& tensor) {
  if (StartsWith(tensor, kMetrics)) return tensor;
  if (!StartsWith(tensor, kCallbacks)) return "";
  return tensor.substr(0, tensor.find('/', sizeof(kCallbacks) - 1));
}

// Returns "csv_logger" for "callback/csv_logger_1".
std::string ClassOf(const std::string& part) {
  std::string name = WithoutPrefix(part, kCallbacks);
  size_t end = name.size();
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  const bool has_number = end < name.size() && end > 1 && name[end - 1] == '_';
  return has_number ? name.substr(0, end - 1) : name;
}

using PartsOfClass = std::map<std::string, std::vector<std::string>>;

PartsOfClass ByClass(const std::vector<std::string>& parts) {
  PartsOfClass classes;
  for (const std::string& part : parts) {
    if (!part.empty()) classes[ClassOf(part)].push_back(part);
  }
  return classes;
}

std::string IdentityOf(const Callback& callback) {
  Fnv1a hash;
  hash.Add(callback.Identity());
  return HexText(hash.value());
}

// Returns the identity of each part. Backups of older versions have none.
std::map<std::string, std::string> ReadIdentities(const Metadata& metadata) {
  std::map<std::string, std::string> identities;
  const auto entry = metadata.find(kCallbacksKey);
  if (entry == metadata.end()) return identities;
  std::string_view rest = entry->second;
  for (std::string line; TakeLine(&rest, &line);) {
    const size_t space = line.find(' ');
    if (space != std::string::npos) {
      identities[line.substr(0, space)] = line.substr(space + 1);
    }
  }
  return identities;
}

bool HasTensorOf(const SafetensorsReader& file, const StateSpan& span,
                 const std::string& name) {
  const StoredTensor* const tensor = file.Find(name);
  if (tensor == nullptr) return span.optional;
  return DTypeOf(tensor->storage) == span.dtype && tensor->shape == span.shape;
}

}  // namespace

std::string CallbacksText(FitState* fit) {
  const std::vector<std::string> parts = RunState(fit).CallbackParts();
  std::string text;
  for (size_t c = 0; c < parts.size(); ++c) {
    if (parts[c].empty()) continue;
    text += (text.empty() ? "" : "\n") + parts[c] + " " +
            IdentityOf(*(*fit->callbacks)[c]);
  }
  return text;
}

void ResumedState::Match(const SafetensorsReader& file) {
  parts_.clear();
  others_.clear();
  noted_.clear();
  notes_.clear();
  callbacks_differ_ = false;
  MatchCallbacks(file);
  std::vector<StateSpan> spans;
  state_.AppendState(&spans);
  for (const StateSpan& span : spans) MatchSpan(file, span);
  DescribeUnusedParts(file);
}

void ResumedState::MatchCallbacks(const SafetensorsReader& file) {
  const std::vector<std::string> current = state_.CallbackParts();
  for (size_t c = 0; c < current.size(); ++c) {
    if (current[c].empty()) continue;
    identities_[current[c]] = IdentityOf(*(*fit_.callbacks)[c]);
  }
  std::vector<std::string> saved;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string part = PartOf(tensor.name);
    if (!StartsWith(part, kCallbacks)) continue;
    if (std::find(saved.begin(), saved.end(), part) == saved.end()) {
      saved.push_back(part);
    }
  }
  PartsOfClass theirs = ByClass(saved);
  const auto saved_identities = ReadIdentities(file.metadata());
  for (const auto& [name, own] : ByClass(current)) {
    MatchClass(own, theirs[name], saved_identities);
    theirs.erase(name);
  }
  callbacks_differ_ = callbacks_differ_ || !theirs.empty();
}

// First pairs the callbacks of equal identity. If both sides have the same
// number left, pairs these in order: their options have changed.
void ResumedState::MatchClass(
    std::vector<std::string> current, std::vector<std::string> saved,
    const std::map<std::string, std::string>& saved_identities) {
  for (std::string& path : current) {
    const auto same = std::find_if(
        saved.begin(), saved.end(), [&](const std::string& theirs) {
          const auto found = saved_identities.find(theirs);
          return found != saved_identities.end() &&
                 found->second == identities_[path];
        });
    if (same == saved.end()) continue;
    parts_[path] = *same;
    saved.erase(same);
    path.clear();
  }
  current.erase(std::remove(current.begin(), current.end(), ""), current.end());
  if (!saved_identities.empty() && !(current.empty() && saved.empty())) {
    callbacks_differ_ = true;
  }
  const bool in_order =
      current.size() == saved.size() || saved_identities.empty();
  for (size_t i = 0; i < current.size(); ++i) {
    parts_[current[i]] = in_order && i < saved.size() ? saved[i] : "";
    if (parts_[current[i]].empty()) {
      notes_.push_back("the callback " + ClassOf(current[i]) +
                       " is new in this run, and begins here");
    }
  }
}

// A callback loads all tensors of its part of the file, or none.
void ResumedState::MatchSpan(const SafetensorsReader& file,
                             const StateSpan& span) {
  const std::string part = PartOf(span.name);
  if (part.empty()) return;
  const bool is_metric = StartsWith(part, kMetrics);
  if (is_metric) parts_[part] = part;
  std::string& theirs = parts_[part];
  if (theirs.empty() || HasTensorOf(file, span, NameInFile(span.name))) return;
  noted_.insert(theirs);
  theirs.clear();
  notes_.push_back(
      is_metric ? "the metric " + WithoutPrefix(part, kMetrics) +
                      " is new in this run; its value for this epoch covers "
                      "only the steps from here on"
                : "the callback " + ClassOf(part) +
                      " had other options in the run that saved it, and "
                      "begins here");
}

void ResumedState::DescribeUnusedParts(const SafetensorsReader& file) {
  for (const auto& [current, saved] : parts_) noted_.insert(saved);
  std::vector<StateSpan> spans;
  AppendState(&spans);
  std::set<std::string> names;
  for (const StateSpan& span : spans) names.insert(span.name);
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string part = PartOf(tensor.name);
    if (part.empty() || names.count(tensor.name) > 0) continue;
    others_.insert(tensor.name);
    if (!noted_.insert(part).second) continue;
    const bool is_metric = StartsWith(part, kMetrics);
    notes_.push_back(
        "the " +
        (is_metric ? "metric " + WithoutPrefix(part, kMetrics)
                   : "callback " + ClassOf(part)) +
        " of the run that saved it is not in this one: its state is dropped");
  }
}

std::string ResumedState::NameInFile(const std::string& name) const {
  const std::string part = PartOf(name);
  const auto found = parts_.find(part);
  if (part.empty() || found == parts_.end()) return name;
  return found->second + name.substr(part.size());
}

void ResumedState::AppendState(std::vector<StateSpan>* spans) {
  std::vector<StateSpan> all;
  state_.AppendState(&all);
  for (StateSpan& span : all) {
    const auto found = parts_.find(PartOf(span.name));
    if (found != parts_.end() && found->second.empty()) continue;
    span.name = NameInFile(span.name);
    spans->push_back(std::move(span));
  }
}

}  // namespace ringlet
