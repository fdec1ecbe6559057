// A part of Python's str.format: what it accepts has Python's output, and
// anything else is refused. One pass serves both functions: CheckPathFormat
// parses without values, so a wrong name in RUN.json is an error before the
// first epoch.

#include "format_path.h"

#include <cmath>

#include "../../core/base/json.h"
#include "../../core/base/number_text.h"
#include "../../core/base/text.h"
#include "../keras/keras_json.h"

namespace ringlet {
namespace {

// One "{name:spec}".
struct Replacement {
  std::string name;
  bool zeros = false;
  int width = 0;
  int precision = -1;  // < 0 if not given
  char type = 0;       // 0 if not given
};

// Parses one or two digits; -1 for more or none.
int ParseNumber(const std::string& text, size_t* at) {
  int value = 0, digits = 0;
  for (; *at < text.size() && IsDigit(text[*at]); ++*at, ++digits) {
    value = digits < 2 ? value * 10 + (text[*at] - '0') : value;
  }
  return digits == 1 || digits == 2 ? value : -1;
}

bool ParseSpec(const std::string& spec, Replacement* replacement) {
  size_t at = 0;
  if (at < spec.size() && spec[at] == '0') {
    replacement->zeros = true;
    ++at;
  }
  if (at < spec.size() && IsDigit(spec[at])) {
    replacement->width = ParseNumber(spec, &at);
    if (replacement->width < 0) return false;
  }
  if (at < spec.size() && spec[at] == '.') {
    ++at;
    replacement->precision = ParseNumber(spec, &at);
    if (replacement->precision < 0) return false;
  }
  if (at < spec.size()) replacement->type = spec[at++];
  const bool floating = replacement->type == 'f' || replacement->type == 'e' ||
                        replacement->type == 'g';
  const bool is_integer = replacement->type == 'd' || replacement->type == 0;
  return at == spec.size() &&
         (floating || (is_integer && replacement->precision < 0));
}

std::string Padded(const Replacement& r, const std::string& digits) {
  const size_t width = static_cast<size_t>(r.width);
  if (digits.size() >= width) return digits;
  const size_t missing = width - digits.size();
  if (!r.zeros) return std::string(missing, ' ') + digits;
  const size_t sign = digits[0] == '-' ? 1 : 0;
  return digits.substr(0, sign) + std::string(missing, '0') +
         digits.substr(sign);
}

// Python's repr: like 0.5, 10.0, 1e-05, 1e+16.
std::string ShortestFloat(double value) {
  const double size = std::fabs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  std::string text =
      ShortestText(value, fixed ? NumberForm::kFixed : NumberForm::kScientific);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string FloatText(const Replacement& r, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (r.type == 0) return ShortestFloat(value);
  const char type = r.type == 'f' || r.type == 'e' ? r.type : 'g';
  return PrintedText(value, type, r.precision < 0 ? 6 : r.precision);
}

// "" with *reason if the field cannot have this format.
std::string FieldText(const Replacement& r, const PathField& field,
                      std::string* reason) {
  if (field.whole && (r.type == 'd' || r.type == 0)) {
    return Padded(r, std::to_string(field.integer));
  }
  if (r.type == 'd') {
    *reason =
        "Unknown format code 'd' for object of type 'float' ('" + r.name + "')";
    return "";
  }
  const double value =
      field.whole ? static_cast<double>(field.integer) : field.number;
  return Padded(r, FloatText(r, value));
}

// Parses one replacement. *at is after its opening brace, and then after its
// closing brace. False with a reason on an error.
bool ParseReplacement(const std::string& text, size_t* at,
                      Replacement* replacement, std::string* reason) {
  const size_t end = text.find('}', *at);
  if (end == std::string::npos) {
    *reason = "expected '}' before end of string";
    return false;
  }
  const std::string inside = text.substr(*at, end - *at);
  *at = end + 1;
  const size_t colon = inside.find(':');
  replacement->name = inside.substr(0, colon);
  const std::string spec =
      colon == std::string::npos ? "" : inside.substr(colon + 1);
  if (replacement->name.empty() ||
      inside.find_first_of("{!") != std::string::npos ||
      !ParseSpec(spec, replacement)) {
    *reason = "'{" + Printable(inside) +
              "}' is not among {name}, {name:02d}, {name:.2f}, {name:.2e} and "
              "{name:.3g}";
    return false;
  }
  return true;
}

const PathField* FindField(const std::vector<PathField>& fields,
                           const std::string& name, std::string* reason) {
  std::vector<std::string> names;
  for (const PathField& field : fields) {
    names.push_back(field.name);
    if (field.name == name) return &field;
  }
  *reason = "'" + Printable(name) + "'" + NearestOrAll(name, names);
  return nullptr;
}

// If `fields` is null, only parses. If `names` is not null, it gets the names
// of the replacements.
Status Format(const std::string& text, const std::vector<PathField>* fields,
              std::string* path, std::vector<std::string>* names) {
  std::string reason;
  path->clear();
  for (size_t at = 0; at < text.size() && reason.empty();) {
    const char c = text[at++];
    if (c != '{' && c != '}') {
      *path += c;
      continue;
    }
    if (at < text.size() && text[at] == c) {
      *path += text[at++];
      continue;
    }
    if (c == '}') {
      reason = "Single '}' encountered in format string";
      break;
    }
    Replacement replacement;
    if (!ParseReplacement(text, &at, &replacement, &reason)) break;
    if (names != nullptr) names->push_back(replacement.name);
    if (fields == nullptr) continue;
    const PathField* field = FindField(*fields, replacement.name, &reason);
    if (field != nullptr) *path += FieldText(replacement, *field, &reason);
  }
  if (reason.empty()) return Status();
  return InvalidArgument(
      "Failed to format this callback filepath: \"%s\". Reason: %s",
      text.c_str(), reason.c_str());
}

}  // namespace

Status FormatPath(const std::string& text, const std::vector<PathField>& fields,
                  std::string* path) {
  return Format(text, &fields, path, nullptr);
}

Status CheckPathFormat(const std::string& text) {
  std::string ignored;
  return Format(text, nullptr, &ignored, nullptr);
}

std::vector<std::string> PathFieldNames(const std::string& text) {
  std::string ignored;
  std::vector<std::string> names;
  Format(text, nullptr, &ignored, &names).IgnoreError();
  return names;
}

}  // namespace ringlet
