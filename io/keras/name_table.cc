#include "name_table.h"

#include <algorithm>

#include "../../core/base/text.h"
#include "keras_json.h"
#include "keras_names.h"

namespace ringlet {

std::vector<std::string> Words(const char* names) {
  return SplitAt(names, ' ');
}

void NameTable::Add(const char* name, const char* aliases) {
  rows_.push_back({name});
  if (*aliases == 0) return;
  for (const std::string& alias : Words(aliases)) rows_.back().push_back(alias);
}

std::vector<std::string> NameTable::All() const {
  std::vector<std::string> all;
  for (const std::vector<std::string>& row : rows_) {
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

Status ChooseRow(const NameTable& table, const std::string& path,
                 const char* kind, const std::string& word, size_t* row) {
  for (size_t i = 0; i < table.size(); ++i) {
    const std::vector<std::string>& names = table.Row(i);
    if (std::find(names.begin(), names.end(), word) == names.end()) continue;
    *row = i;
    return Status();
  }
  return NotAmong(path, kind, word, table.All());
}

Status NotAmong(const std::string& path, const char* kind,
                const std::string& word,
                const std::vector<std::string>& known) {
  const std::string keras = KerasName(kind, word);
  if (keras.empty() ||
      std::find(known.begin(), known.end(), keras) != known.end()) {
    return UnknownName(path, kind, word, known);
  }
  std::string all;
  std::vector<std::string> listed;  // the names without other spellings
  for (const std::string& name : known) {
    const std::string spelt = KerasName(kind, name);
    if (spelt.empty() ||
        std::find(listed.begin(), listed.end(), spelt) != listed.end()) {
      continue;
    }
    listed.push_back(spelt);
    all += (all.empty() ? "; it has " : ", ") + name;
  }
  if (keras == "RandomWidth" || keras == "RandomHeight") {
    all =
        ": it gives each batch another size, and shapes are fixed; use "
        "RandomZoom, or Resizing to one size";
  }
  return InvalidArgument("%s%sKeras has the %s '%s', ringlet does not%s",
                         path.c_str(), path.empty() ? "" : ": ", kind,
                         keras.c_str(), all.c_str());
}

}  // namespace ringlet
