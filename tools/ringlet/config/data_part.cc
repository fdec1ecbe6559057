#include "data_part.h"

#include <cstdint>

#include "column_fields.h"
#include "core/base/text.h"
#include "io/files/path.h"
#include "io/keras/keras_json.h"

namespace ringlet {
namespace {

constexpr char kParts[] =
    "the path of a file, a list, or an object by layers' names";

Status ReadPart(const Json& json, const std::string& path,
                const std::string& folder, DataPart* part) {
  if (json.is_string() && !json.text().empty()) {
    part->path = PathIn(folder, json.text());
    return Status();
  }
  FieldReader fields(json, path);
  fields.Require("file");
  ReadPath("file", folder, &fields, &part->path);
  ReadScale(&fields, &part->scale);
  return fields.Finish();
}

}  // namespace

void ReadScale(FieldReader* fields, std::optional<Scale>* scale) {
  if (fields->Take("scale") || fields->Take("offset")) scale->emplace();
  Scale unused;
  Scale* const read = *scale ? &**scale : &unused;
  fields->Float("scale", &read->factor);
  fields->Float("offset", &read->offset);
}

void ReadParts(const char* key, const std::string& folder, FieldReader* fields,
               std::string* path, std::vector<DataPart>* parts) {
  fields->Require(key);
  const Json json = fields->Take(key, kParts);
  if (json.is_string()) return ReadPath(key, folder, fields, path);
  if (!json.is_array() && !json.is_object()) {
    if (json) fields->MustBe(key, kParts);
    return;
  }
  int64_t i = 0;
  for (Json m = json.first(); m && fields->ok(); m = m.next(), ++i) {
    parts->emplace_back();
    const std::string at = fields->PathOf(key);
    const bool named = json.is_object();
    if (named) parts->back().name = m.key();
    fields->Fail(
        ReadPart(m, named ? JoinPath(at, Printable(m.key())) : JoinPath(at, i),
                 folder, &parts->back()));
  }
  if (i == 0) fields->MustBe(key, kParts);
}

}  // namespace ringlet
