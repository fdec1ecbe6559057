// A column is given by name or by number. A name needs a header, which only
// the file's reader can look up (io/readers/tables/csv_columns.cc), so here a
// column stays the text of RUN.json.

#include "table_config.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "column_fields.h"

namespace ringlet {
namespace {

constexpr char kCategoricalTakes[] =
    "a list of columns' names or numbers, or an object: columns' names and "
    "one_hot or index";

constexpr Named<bool> kUnknown[] = {{"error", false}, {"other", true}};

void ReadCategorical(FieldReader* fields, CsvOptions* table) {
  const char kKey[] = "categorical";
  bool other = false;
  fields->Choice("unknown_categories", kUnknown, &other);
  if (!fields->MarkOptional(kKey)) return;
  const Json json = fields->Take(kKey, kCategoricalTakes);
  const bool by_name = json.is_object();
  for (Json m = json.first(); m && (by_name || json.is_array()); m = m.next()) {
    CsvOptions::Categorical column;
    column.has_unknown_category = other;
    if (by_name) {
      column.column = m.key();
      column.one_hot = m.is_string() && m.text() == "one_hot";
      if (!column.one_hot && (!m.is_string() || m.text() != "index")) {
        return fields->MustBe(kKey, kCategoricalTakes);
      }
    } else if (!ReadColumn(m, &column.column)) {
      return fields->MustBe(kKey, kCategoricalTakes);
    }
    table->categorical.push_back(column);
  }
  if (json && table->categorical.empty()) {
    fields->MustBe(kKey, kCategoricalTakes);
  }
}

// False if `json` is not a rule.
bool ReadMissingRule(const Json& json, CsvOptions::MissingRule* rule) {
  using Missing = CsvOptions::Missing;
  if (json.is_number()) {
    rule->kind = Missing::kConstant;
    rule->value = static_cast<float>(json.number());
    return std::isfinite(rule->value);
  }
  const std::string text = json.text();
  rule->kind = text == "drop"   ? Missing::kDrop
               : text == "mean" ? Missing::kMean
                                : Missing::kError;
  return rule->kind != Missing::kError || text == "error";
}

void ReadMissing(FieldReader* fields, CsvOptions* table) {
  const char kKey[] = "missing";
  const char kTakes[] =
      "\"error\", \"drop\", \"mean\" or a number, or an object with one of "
      "these by columns' names";
  if (fields->MarkOptional(kKey)) {
    const Json json = fields->Take(kKey, kTakes, "\"error\"");
    if (json && !json.is_object() && !ReadMissingRule(json, &table->missing)) {
      fields->MustBe(kKey, kTakes);
    }
    for (Json m = json.first(); m && json.is_object(); m = m.next()) {
      if (!ReadMissingRule(m, &table->missing_by_column[m.key()])) {
        fields->MustBe(kKey, kTakes);
      }
    }
  }
  fields->List("na_values", 0, "a list of texts", [&](const Json& item) {
    table->na_values.push_back(item.text());
    return item.is_string();
  });
}

void ReadDialect(FieldReader* fields, CsvOptions* table) {
  fields->Bool("header", &table->header);
  fields->Character("separator", &table->separator);
  fields->Character("decimal", &table->decimal);
  if (fields->MarkOptional("comment")) {
    fields->Character("comment", &table->comment);
  }
  if (table->decimal == table->separator) {
    fields->Refuse("decimal", "\"separator\" must be another character");
  }
}

// Reads the column of the label or of the weights.
void ReadOneColumn(const char* key, const std::string& takes,
                   const char* standard, FieldReader* fields, CsvOptions* table,
                   std::string* name, std::optional<int>* number) {
  const Json json = fields->Take(key, takes, standard);
  if (json.is_string()) {
    fields->Text(key, "a column's name or number", name);
    if (!table->header.value_or(true)) {
      fields->Refuse(key, "a name needs a header; give the column's number");
    }
  } else if (fields->MarkOptional(key)) {
    int64_t column = -1;
    fields->Int(key, -kMaxColumn, kMaxColumn, &column);
    *number = static_cast<int>(column);
  }
}

}  // namespace

void ReadTable(FieldReader* fields, CsvOptions* table) {
  ReadDialect(fields, table);
  ReadOneColumn("label", ColumnTakes(), "-1", fields, table, &table->label_name,
                &table->label_column);
  ReadOneColumn("sample_weight", kSampleWeightTakes, "null", fields, table,
                &table->weight_name, &table->weight_column);
  ReadColumns("columns", fields, &table->take);
  ReadColumns("drop", fields, &table->drop);
  if (!table->take.empty() && !table->drop.empty()) {
    fields->Refuse("drop", "\"columns\" lists the others; give one of the two");
  }
  ReadCategorical(fields, table);
  ReadMissing(fields, table);
}

}  // namespace ringlet
