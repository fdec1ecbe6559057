// Writes the result of an inspection or a comparison as text and as JSON.

#include <algorithm>
#include <cmath>

#include "../../core/base/json.h"
#include "../../core/base/named.h"
#include "../../core/base/number_text.h"
#include "../../core/base/text.h"
#include "inspect.h"

namespace ringlet {
namespace {

std::string Number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return PrintedText(value, 'g', 6);
}

// Cells of a row in columns of equal width, two spaces between them.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  " + row[i] + std::string(widths[i] - row[i].size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::vector<std::string> RowOf(const TensorInfo& tensor) {
  std::vector<std::string> row = {Printable(tensor.name),
                                  StorageName(tensor.storage),
                                  tensor.shape.ToString()};
  if (tensor.damaged) {
    row.push_back("DAMAGED");
  } else if (!tensor.note.empty()) {
    row.push_back(tensor.note);
  } else {
    row.push_back("min " + Number(tensor.min));
    row.push_back("max " + Number(tensor.max));
    row.push_back("mean " + Number(tensor.mean));
    if (tensor.not_finite > 0) {
      row.push_back(WithCommas(tensor.not_finite) + " not finite");
    }
  }
  return row;
}

std::string TextOf(const FileDifference& d) {
  const std::string name = "'" + Printable(d.name) + "'";
  switch (d.kind) {
    case FileDifference::Kind::kValues:
      return "tensor " + name + ": " + WithCommas(d.differing) + " of " +
             WithCommas(d.elements) + " elements differ, from element " +
             std::to_string(d.first) + " on, by at most " + Number(d.largest);
    case FileDifference::Kind::kDType:
    case FileDifference::Kind::kShape:
      return "tensor " + name + ": " + DifferenceName(d.kind) + " " + d.a +
             " in A, " + d.b + " in B";
    case FileDifference::Kind::kOnlyInA:
    case FileDifference::Kind::kOnlyInB:
      return "tensor " + name + ": " + DifferenceName(d.kind);
    case FileDifference::Kind::kMetadata:
      return "metadata " + name + ": '" + Printable(d.a) + "' in A, '" +
             Printable(d.b) + "' in B";
    default:
      return "metadata " + name + ": " +
             (d.kind == FileDifference::Kind::kMetadataOnlyInA ? "only in A"
                                                               : "only in B");
  }
}

void WriteShape(const Shape& shape, JsonWriter* w) {
  w->BeginArray();
  for (int i = 0; i < shape.rank(); ++i) w->Int(shape[i]);
  w->EndArray();
}

}  // namespace

constexpr Named<Verification> kVerifications[] = {
    {"verified", Verification::kVerified},
    {"unverified", Verification::kUnverified},
    {"damaged", Verification::kDamaged},
};

const char* VerificationName(Verification verification) {
  return NameIn(kVerifications, verification, "");
}

constexpr Named<FileDifference::Kind> kDifferences[] = {
    {"only in A", FileDifference::Kind::kOnlyInA},
    {"only in B", FileDifference::Kind::kOnlyInB},
    {"dtype", FileDifference::Kind::kDType},
    {"shape", FileDifference::Kind::kShape},
    {"values", FileDifference::Kind::kValues},
    {"metadata only in A", FileDifference::Kind::kMetadataOnlyInA},
    {"metadata only in B", FileDifference::Kind::kMetadataOnlyInB},
    {"metadata", FileDifference::Kind::kMetadata},
};

const char* DifferenceName(FileDifference::Kind kind) {
  return NameIn(kDifferences, kind, "");
}

std::string ToText(const FileInfo& info) {
  std::string text = info.path + ": " + WithCommas(info.bytes) + " bytes, " +
                     (info.sealed ? "sealed, " : "");
  const size_t count = info.tensors.size();
  if (!info.what.empty()) {
    text += info.what + "\n";
  } else {
    if (info.format != "safetensors") text += info.format + ", ";
    text += std::to_string(count) + (count == 1 ? " tensor, " : " tensors, ") +
            VerificationName(info.verification) + "\n";
  }
  if (!info.damage.empty()) text += info.damage + "\n";
  if (!info.metadata.empty()) text += "metadata:\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : info.metadata) {
    rows.push_back({Printable(key), Printable(value)});
  }
  text += Table(rows) + info.summary;
  if (!info.compiled.empty()) text += "compiled: " + info.compiled + "\n";
  if (!info.text.empty()) text += "text: " + info.text + "\n";
  if (!info.tensors.empty()) text += "tensors:\n";
  rows.clear();
  for (const TensorInfo& tensor : info.tensors) rows.push_back(RowOf(tensor));
  text += Table(rows);
  return info.advice.empty() ? text : text + info.advice + "\n";
}

std::string ToJson(const FileInfo& info) {
  JsonWriter w;
  w.BeginObject().Key("path").String(info.path).Key("bytes").Int(info.bytes);
  w.Key("format").String(info.format);
  if (info.sealed) w.Key("sealed").Bool(true);
  if (!info.what.empty()) {
    w.Key("what").String(info.what).Key("advice").String(info.advice);
    if (info.tensors.empty()) return w.EndObject().text();
  }
  w.Key("verification").String(VerificationName(info.verification));
  if (!info.damage.empty()) w.Key("damage").String(info.damage);
  w.Key("metadata").BeginObject();
  for (const auto& [key, value] : info.metadata) w.Key(key).String(value);
  w.EndObject().Key("tensors").BeginArray();
  for (const TensorInfo& tensor : info.tensors) {
    w.BeginObject().Key("name").String(tensor.name);
    w.Key("dtype").String(StorageName(tensor.storage)).Key("shape");
    WriteShape(tensor.shape, &w);
    if (tensor.damaged) {
      w.Key("damaged").Bool(true);
    } else {
      w.Key("min").Number(tensor.min).Key("max").Number(tensor.max);
      w.Key("mean").Number(tensor.mean);
      w.Key("not_finite").Int(tensor.not_finite);
      if (!tensor.note.empty()) w.Key("note").String(tensor.note);
    }
    w.EndObject();
  }
  return w.EndArray().EndObject().text();
}

std::string ToText(const FileComparison& comparison) {
  std::string text =
      "A: " + comparison.path_a + "\nB: " + comparison.path_b + "\n";
  for (const FileDifference& difference : comparison.first) {
    text += TextOf(difference) + "\n";
  }
  const auto listed = static_cast<int64_t>(comparison.first.size());
  if (comparison.count > listed) {
    text +=
        "and " + WithCommas(comparison.count - listed) + " more differences\n";
  }
  if (!comparison.same()) return text;
  return text + "no difference in metadata and " +
         WithCommas(comparison.tensors_compared) + " tensors\n";
}

std::string ToJson(const FileComparison& comparison) {
  JsonWriter w;
  w.BeginObject().Key("a").String(comparison.path_a);
  w.Key("b").String(comparison.path_b).Key("same").Bool(comparison.same());
  w.Key("tensors_compared").Int(comparison.tensors_compared);
  w.Key("count").Int(comparison.count).Key("first").BeginArray();
  for (const FileDifference& d : comparison.first) {
    w.BeginObject().Key("kind").String(DifferenceName(d.kind));
    w.Key("name").String(d.name);
    if (d.kind == FileDifference::Kind::kValues) {
      w.Key("differing").Int(d.differing).Key("elements").Int(d.elements);
      w.Key("first").Int(d.first).Key("largest").Number(d.largest);
    } else {
      w.Key("a").String(d.a).Key("b").String(d.b);
    }
    w.EndObject();
  }
  return w.EndArray().EndObject().text();
}

}  // namespace ringlet
