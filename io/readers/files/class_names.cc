#include "class_names.h"

#include <cstdio>

#include "../../../core/base/json.h"
#include "../../../core/base/text.h"
#include "ringlet/status.h"

namespace ringlet {

int32_t ClassNumbers::Add(const std::string& name) {
  const auto found = seen_.find(name);
  if (found != seen_.end()) return found->second;
  if (seen_.size() == kMax) return -1;
  const int32_t number = static_cast<int32_t>(seen_.size());
  seen_.emplace(name, number);
  return number;
}

std::vector<std::string> ClassNumbers::Sort(int32_t* numbers,
                                            int64_t count) const {
  std::vector<std::string> names;
  std::vector<int32_t> sorted_index(seen_.size());
  for (const auto& [name, number] : seen_) {
    sorted_index[static_cast<size_t>(number)] =
        static_cast<int32_t>(names.size());
    names.push_back(name);
  }
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = sorted_index[static_cast<size_t>(numbers[i])];
  }
  return names;
}

namespace {

constexpr size_t kMaxListed = 20;
constexpr size_t kMaxShown = 40;  // bytes of a name

std::string AndMore(size_t count) {
  if (count <= kMaxListed) return "";
  return " and " + std::to_string(count - kMaxListed) + " more";
}

// "0 'bag', 1 'coat'".
std::string Numbered(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    list += (i > 0 ? ", " : "") + std::to_string(i) + " '" +
            Printable(names[i].substr(0, kMaxShown)) + "'";
  }
  return list + AndMore(names.size());
}

}  // namespace

std::string ListNames(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    list +=
        (i > 0 ? ", '" : "'") + Printable(names[i].substr(0, kMaxShown)) + "'";
  }
  return list + AndMore(names.size());
}

Status UnknownClass(const std::string& where, const std::string& label,
                    const std::vector<std::string>& classes) {
  return InvalidArgument("%s: the label '%s' is not one of the %zu classes: %s",
                         where.c_str(), Printable(label.substr(0, 40)).c_str(),
                         classes.size(), Numbered(classes).c_str());
}

void PrintClassNames(const std::string& path,
                     const std::vector<std::string>& names) {
  Notice("note: %s: labels are names, classes in their order: %s", path.c_str(),
         Numbered(names).c_str());
}

void PrintMissingClasses(const std::string& path,
                         const std::vector<std::string>& classes,
                         const std::vector<bool>& is_there) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (!is_there[i]) missing.push_back(classes[i]);
  }
  if (missing.empty()) return;
  Notice("note: %s: has no example of %zu of the %zu classes: %s", path.c_str(),
         missing.size(), classes.size(), ListNames(missing).c_str());
}

}  // namespace ringlet
