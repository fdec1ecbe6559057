// The header is Python source. Only the dictionary that numpy writes is
// accepted, with its three keys. Shape and element size are multiplied with
// checks, and compared with the bytes that follow before memory is allocated.

#include "npy_layout.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "../../../core/base/byte_order.h"
#include "../../../core/base/float16.h"
#include "../../../core/base/json.h"
#include "../../../core/base/text.h"
#include "../../files/file_kind.h"
#include "../files/class_names.h"

namespace ringlet {
namespace {

constexpr size_t kMaxHeader = 64 << 10;
constexpr int64_t kMaxRecord = int64_t{1} << 30;  // bytes
constexpr uint32_t kMaxCodePoint = 0x10ffff;      // the last one of Unicode

// Returns the offset after the list that begins at `at`, such as
// "[('x', '<f4')]".
size_t EndOfList(const std::string& text, size_t at) {
  char quote = '\0';
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
      if (c == '\\') ++at;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']' && --depth == 0) {
      return at + 1;
    }
  }
  return std::min(at, text.size());
}

// Returns the text after 'key': in the header's dictionary, up to the next key.
std::string Value(const std::string& header, const char* key) {
  const size_t at = header.find(std::string("'") + key + "'");
  if (at == std::string::npos) return "";
  const size_t colon = header.find(':', at);
  if (colon == std::string::npos) return "";
  const size_t begin = header.find_first_not_of(' ', colon + 1);
  if (begin == std::string::npos) return "";
  if (header[begin] == '[') {
    return header.substr(begin, EndOfList(header, begin) - begin);
  }
  if (header[begin] == '(') {
    const size_t end = header.find(')', begin);
    return header.substr(begin,
                         end == std::string::npos ? end : end - begin + 1);
  }
  const size_t end = std::min(header.find_first_of(",}", begin), header.size());
  const size_t last = header.find_last_not_of(' ', end - 1);
  return last < begin ? "" : header.substr(begin, last - begin + 1);
}

// "'<f4'" -> kind, width, and if the bytes are reversed.
bool ParseDescr(const std::string& descr, NpyLayout* layout) {
  if (descr.size() < 5 || descr.size() > 12 || descr.front() != '\'' ||
      descr.back() != '\'') {
    return false;
  }
  const char order = descr[1];
  int64_t size = 0;
  for (size_t i = 3; i + 1 < descr.size(); ++i) {
    if (descr[i] < '0' || descr[i] > '9') return false;
    size = 10 * size + (descr[i] - '0');
  }
  layout->kind = descr[2];
  layout->width = layout->kind == 'U' ? 4 * size : size;
  layout->reversed = order == (kBigEndian ? '<' : '>') && layout->kind != 'S';
  if (order != '<' && order != '>' && order != '|' && order != '=') {
    return false;
  }
  switch (layout->kind) {
    case 'b':
      return size == 1;
    case 'i':
    case 'u':
      return size == 1 || size == 2 || size == 4 || size == 8;
    case 'f':
      return size == 2 || size == 4 || size == 8;
    case 'S':
    case 'U':
      return size > 0;
    default:
      return false;
  }
}

// "(3, 4)" -> a shape. False if it is not a shape, or has more than
// `max_elements` elements. A shape with a zero has no elements, but parts of it
// may have some, so its other sizes are limited too.
bool ParseShape(const std::string& text, int64_t max_elements, Shape* shape) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') {
    return false;
  }
  constexpr int64_t kLargest = int64_t{1} << 56;
  int64_t elements = 1;
  bool none = false;
  const char* p = text.c_str() + 1;
  while (*p == ' ') ++p;
  while (*p != ')') {
    char* end;
    if (*p < '0' || *p > '9') return false;
    errno = 0;
    const long long dim = std::strtoll(p, &end, 10);
    if (errno != 0 || shape->rank() == Shape::kMaxRank) return false;
    if (dim > 0 && elements > kLargest / dim) return false;
    none = none || dim == 0;
    elements *= std::max<long long>(dim, 1);
    shape->Append(dim);
    for (p = end; *p == ',' || *p == ' '; ++p) {
    }
  }
  return none || elements <= max_elements;
}

void AppendUtf8(uint32_t c, std::string* text) {
  if (c < 0x80) {
    *text += static_cast<char>(c);
    return;
  }
  const int continuation_bytes = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  *text += static_cast<char>(kFirst[continuation_bytes] |
                             c >> (6 * continuation_bytes));
  for (int i = continuation_bytes - 1; i >= 0; --i) {
    *text += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
  }
}

// Appends the character of Python's escape after a backslash at *at, and moves
// there after it. False if numpy writes no such escape.
bool ParseEscape(const std::string& list, size_t* at, std::string* text) {
  const char kind = list[*at];
  ++*at;
  constexpr std::string_view kEscapes = "nrt\\'\"", kMeanings = "\n\r\t\\'\"";
  const size_t known = kEscapes.find(kind);
  if (known != std::string_view::npos) {
    *text += kMeanings[known];
    return true;
  }
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
  if ((kind != 'U' && digits == 8) || list.size() - *at < digits) return false;
  uint32_t code = 0;
  const char* const end = list.data() + *at + digits;
  const auto parsed = std::from_chars(list.data() + *at, end, code, 16);
  if (parsed.ptr != end || code > kMaxCodePoint) return false;
  AppendUtf8(code, text);
  *at += digits;
  return true;
}

// Parses Python's text in quotes at *at of a list, and moves there after it.
bool ParseQuoted(const std::string& list, size_t* at, std::string* text) {
  text->clear();
  if (*at >= list.size()) return false;
  const char quote = list[*at];
  if (quote != '\'' && quote != '"') return false;
  for (++*at; *at < list.size();) {
    const char c = list[(*at)++];
    if (c == quote) return true;
    if (c != '\\') {
      *text += c;
    } else if (*at == list.size() || !ParseEscape(list, at, text)) {
      return false;
    }
  }
  return false;
}

// A field of a structured array: "('x', '<f4', (3,))".
struct NpyField {
  std::string name, descr;  // descr in quotes
  Shape shape;
};

// Parses the field at *at of a list, and moves there after it. False if it is
// none, or has fields of its own.
bool ParseField(const std::string& list, size_t* at, NpyField* field) {
  const auto skip = [&](const char* text) {
    const size_t count = std::strlen(text);
    if (list.compare(*at, count, text) != 0) return false;
    *at += count;
    return true;
  };
  if (!skip("(") || !ParseQuoted(list, at, &field->name) || !skip(", ") ||
      !ParseQuoted(list, at, &field->descr)) {
    return false;
  }
  field->descr = "'" + field->descr + "'";
  field->shape = Shape();
  if (!skip(", ")) return skip(")");
  const size_t end = std::min(list.find(')', *at), list.size() - 1) + 1;
  const std::string shape = list.substr(*at, end - *at);
  *at = end;
  return ParseShape(shape, kMaxRecord, &field->shape) &&
         field->shape.elements() > 0 && skip(")");
}

// The bytes of an element of any type that is not an object, or -1 if the type
// is not known. Texts may be empty: '|S0'.
int64_t WidthOf(const std::string& descr) {
  if (descr.size() < 5 || descr[2] == 'O') return -1;
  const char kind = descr[2];
  const int64_t size = std::strtol(descr.c_str() + 3, nullptr, 10);
  const bool is_text = kind == 'S' || kind == 'U' || kind == 'V';
  if (size <= 0 && !(is_text && descr.substr(3) == "0'")) return -1;
  return std::min(size, kMaxRecord) * (kind == 'U' ? 4 : 1);
}

// Finds `name` among the fields of `list`. *shape becomes its shape in a
// record. If it is not there *names has all names, which are none if the list
// cannot be read.
bool FindField(const std::string& list, const std::string& name,
               NpyLayout* layout, Shape* shape,
               std::vector<std::string>* names) {
  NpyField field;
  bool found = false;
  const auto refuse = [names] {
    names->clear();
    return false;
  };
  for (size_t at = 1; at < list.size();) {
    if (!ParseField(list, &at, &field)) return refuse();
    const int64_t width = WidthOf(field.descr);
    const int64_t count = field.shape.elements();
    if (width < 0 || width > (kMaxRecord - layout->record) / count) {
      return refuse();
    }
    if (!field.name.empty()) names->push_back(field.name);
    if (field.name == name && !name.empty()) {
      if (!ParseDescr(field.descr, layout)) return refuse();
      layout->before = layout->record;
      layout->per_record = count;
      *shape = field.shape;
      found = true;
    }
    layout->record += width * count;
    if (list[at] == ']') return found;
    if (list.compare(at, 2, ", ") != 0) return refuse();
    at += 2;
  }
  return refuse();
}

// The offsets of elements in a file of Fortran order, in C order.
class FortranOrder {
 public:
  explicit FortranOrder(const Shape& shape) : shape_(shape) {}
  int64_t Next() {
    const int64_t at = at_;
    for (int i = shape_.rank() - 1; i >= 0; --i) {
      int64_t stride = 1;
      for (int k = 0; k < i; ++k) stride *= shape_[k];
      at_ += stride;
      if (++index_[i] < shape_[i]) break;
      at_ -= stride * shape_[i];
      index_[i] = 0;
    }
    return at;
  }

 private:
  const Shape shape_;
  int64_t index_[Shape::kMaxRank] = {};
  int64_t at_ = 0;
};

// Calls take(bytes of an element, in native byte order) for each, in C order.
template <typename Take>
void ForEach(const NpyLayout& layout, const unsigned char* stored, Take take) {
  const size_t width = static_cast<size_t>(layout.width);
  const size_t unit = layout.kind == 'U' ? 4 : width;
  std::vector<unsigned char> element(width);
  const auto take_from = [&](const unsigned char* from) {
    if (layout.reversed) {
      for (size_t k = 0; k < width; k += unit) {
        std::reverse_copy(from + k, from + k + unit, element.begin() + k);
      }
      from = element.data();
    }
    take(from);
  };
  const size_t stride =
      layout.record > 0 ? static_cast<size_t>(layout.record) : width;
  const auto per_record = static_cast<size_t>(layout.per_record);
  FortranOrder order(layout.shape);
  const int64_t records = layout.shape.elements() / layout.per_record;
  for (int64_t i = 0; i < records; ++i) {
    const int64_t at = layout.fortran ? order.Next() : i;
    const unsigned char* const from =
        stored + static_cast<size_t>(at) * stride + layout.before;
    for (size_t k = 0; k < per_record; ++k) take_from(from + k * width);
  }
}

template <typename Stored, typename T, typename Convert>
void DecodeAs(const NpyLayout& layout, const unsigned char* stored, void* to,
              Convert convert) {
  unsigned char* next = static_cast<unsigned char*>(to);
  ForEach(layout, stored, [&](const unsigned char* from) {
    Stored value;
    std::memcpy(&value, from, sizeof(value));
    const T converted = convert(value);
    std::memcpy(next, &converted, sizeof(converted));
    next += sizeof(converted);
  });
}

template <typename Stored, typename T>
void DecodeAs(const NpyLayout& layout, const unsigned char* stored, void* to) {
  DecodeAs<Stored, T>(layout, stored, to,
                      [](Stored value) { return static_cast<T>(value); });
}

// Reads an element without its trailing zeros. False for an invalid code
// point.
bool ReadText(const unsigned char* from, int64_t width, bool wide,
              std::string* text) {
  text->clear();
  size_t zeros = 0;
  for (int64_t at = 0; at < width; at += wide ? 4 : 1) {
    uint32_t c = from[at];
    if (wide) std::memcpy(&c, from + at, 4);
    if (c > kMaxCodePoint) return false;
    if (c == 0) {
      ++zeros;
      continue;
    }
    text->append(zeros, '\0');
    zeros = 0;
    wide ? AppendUtf8(c, text) : text->push_back(static_cast<char>(c));
  }
  return true;
}

// Parses the type of the elements, or of one field of them. *inner: the shape
// of the field in a record.
Status ParseType(const std::string& where, const std::string& descr,
                 const std::string& field, NpyLayout* layout, Shape* inner) {
  const bool structured = !descr.empty() && descr[0] == '[';
  std::vector<std::string> names;
  if (structured ? FindField(descr, field, layout, inner, &names)
                 : ParseDescr(descr, layout)) {
    if (structured || field.empty()) return Status();
    return InvalidArgument("%s: is one array, without names; leave out ':%s'",
                           where.c_str(), Printable(field).c_str());
  }
  layout->unread = Printable(descr.substr(0, 40));
  const bool unknown =
      std::find(names.begin(), names.end(), field) == names.end();
  if (!names.empty() && unknown) {
    return InvalidArgument(
        "%s: has the fields %s%s; name one, as in \"%s:%s\"", where.c_str(),
        ListNames(names).c_str(),
        field.empty() ? "" : (", not '" + Printable(field) + "'").c_str(),
        where.c_str(), Printable(names[0]).c_str());
  }
  return Corruption(
      "%s: header: elements of type %.40s; ringlet reads bool, int8 to "
      "int64, uint8 to uint64, float16 to float64 and, as labels, text",
      where.c_str(), descr.empty() ? "(none)" : Printable(descr).c_str());
}

}  // namespace

Storage NpyLayout::storage() const {
  switch (kind) {
    case 'f':
      return width == 2   ? Storage::kF16
             : width == 4 ? Storage::kF32
                          : Storage::kF64;
    case 'i':
      return width == 8 ? Storage::kI64 : Storage::kI32;
    case 'u':
      return width == 1   ? Storage::kU8
             : width == 2 ? Storage::kI32
                          : Storage::kI64;
    default:
      return Storage::kU8;
  }
}

bool NpyLayout::native() const {
  if (reversed || fortran || is_text() || kind == 'b' || record > 0) {
    return false;
  }
  return width == static_cast<int64_t>(SizeOf(dtype())) &&
         (kind != 'u' || width == 1);
}

// Checks the first 8 bytes. The header's length has *length_bytes more.
Status CheckNpyStart(const std::string& where, const unsigned char* start,
                     size_t* length_bytes) {
  if (std::memcmp(start, kNpyMagic, sizeof(kNpyMagic) - 1) != 0) {
    return Corruption("%s: offset 0: not the magic number of an NPY file",
                      where.c_str());
  }
  if (start[6] < 1 || start[6] > 3) {
    return Corruption("%s: offset 6: NPY version %d; ringlet reads 1 to 3",
                      where.c_str(), start[6]);
  }
  *length_bytes = start[6] == 1 ? 2 : 4;
  return Status();
}

Status NpyHeaderLength(const std::string& where, const unsigned char* bytes,
                       size_t length_bytes, size_t* length) {
  *length = length_bytes == 2 ? LoadLittle<uint16_t>(bytes)
                              : LoadLittle<uint32_t>(bytes);
  if (*length <= kMaxHeader) return Status();
  return Corruption(
      "%s: offset 8: a header of %zu bytes is more than an "
      "array needs",
      where.c_str(), *length);
}

std::string NpyHeaderText(const unsigned char* start,
                          const std::string& header) {
  if (start[6] >= 3) return header;
  std::string text;
  for (const char c : header) AppendUtf8(static_cast<unsigned char>(c), &text);
  return text;
}

Status ParseNpyDictionary(const std::string& where, const std::string& header,
                          int64_t most_left, NpyLayout* layout,
                          const std::string& field) {
  *layout = NpyLayout();
  const std::string descr = Value(header, "descr");
  Shape inner;
  RINGLET_RETURN_IF_ERROR(ParseType(where, descr, field, layout, &inner));
  // A field may have the name of a key.
  std::string rest = header;
  if (layout->record > 0) rest.erase(rest.find(descr), descr.size());
  const std::string fortran = Value(rest, "fortran_order");
  if (fortran != "False" && fortran != "True") {
    return Corruption("%s: header: fortran_order must be False or True",
                      where.c_str());
  }
  layout->fortran = fortran == "True";
  const std::string shape = Value(rest, "shape");
  const int64_t max_elements =
      most_left / (layout->record > 0 ? layout->record : layout->width);
  if (!ParseShape(shape, max_elements, &layout->shape)) {
    return Corruption(
        "%s: header: shape %.200s is none, or more than the file "
        "can hold (%" PRId64 " elements)",
        where.c_str(), shape.c_str(), max_elements);
  }
  if (layout->record == 0) return Status();
  if (layout->shape.rank() != 1 || inner.rank() == Shape::kMaxRank) {
    return InvalidArgument(
        "%s: fields are read of an array of one axis, not of %s", where.c_str(),
        shape.c_str());
  }
  layout->fortran = false;  // the same order of one axis
  for (int i = 0; i < inner.rank(); ++i) layout->shape.Append(inner[i]);
  return Status();
}

Status ParseNpyHeader(const std::string& where, const unsigned char* bytes,
                      size_t size, int64_t total, NpyLayout* layout,
                      int64_t* data_at) {
  const auto ends = [&where] {
    return Corruption("%s: ends within the NPY header", where.c_str());
  };
  if (size < 12) return ends();
  size_t length_bytes = 0, length = 0;
  RINGLET_RETURN_IF_ERROR(CheckNpyStart(where, bytes, &length_bytes));
  RINGLET_RETURN_IF_ERROR(
      NpyHeaderLength(where, bytes + 8, length_bytes, &length));
  const size_t begin = 8 + length_bytes;
  if (length > size - begin) return ends();
  *data_at = static_cast<int64_t>(begin + length);
  const std::string header(reinterpret_cast<const char*>(bytes) + begin,
                           length);
  return ParseNpyDictionary(where, NpyHeaderText(bytes, header),
                            total - *data_at, layout);
}

Status DecodeNumbers(const std::string& where, const NpyLayout& layout,
                     const unsigned char* stored, void* elements) {
  bool too_large = false;
  const auto to_int64 = [&too_large](uint64_t value) {
    too_large = too_large || value > INT64_MAX;
    return static_cast<int64_t>(value);
  };
  const auto to_bool = [](uint8_t value) -> uint8_t { return value != 0; };
  const auto decode = [&](auto from, auto to) {
    DecodeAs<decltype(from), decltype(to)>(layout, stored, elements);
  };
  if (layout.kind == 'b') {
    DecodeAs<uint8_t, uint8_t>(layout, stored, elements, to_bool);
  } else if (layout.kind == 'u' && layout.width == 8) {
    DecodeAs<uint64_t, int64_t>(layout, stored, elements, to_int64);
  } else if (layout.kind == 'f' && layout.width == 2) {
    DecodeAs<uint16_t, float>(layout, stored, elements, FloatOfFloat16);
  } else if (layout.kind == 'i' && layout.width < 4) {
    layout.width == 1 ? decode(int8_t(), int32_t())
                      : decode(int16_t(), int32_t());
  } else if (layout.kind == 'u' && layout.width > 1) {
    layout.width == 2 ? decode(uint16_t(), int32_t())
                      : decode(uint32_t(), int64_t());
  } else if (layout.width == 1) {
    decode(uint8_t(), uint8_t());
  } else {  // bits are kept, also of a NaN
    layout.width == 4 ? decode(uint32_t(), uint32_t())
                      : decode(uint64_t(), uint64_t());
  }
  if (!too_large) return Status();
  return InvalidArgument(
      "%s: a uint64 is above 9223372036854775807; save smaller numbers",
      where.c_str());
}

Status DecodeClassNumbers(const std::string& where, const NpyLayout& layout,
                          const unsigned char* stored, int32_t* numbers,
                          std::vector<std::string>* names) {
  ClassNumbers classes;
  bool wrong = false, too_many = false;
  const bool wide = layout.kind == 'U';
  std::string text;
  int64_t count = 0;
  ForEach(layout, stored, [&](const unsigned char* from) {
    wrong = !ReadText(from, layout.width, wide, &text) || wrong;
    numbers[count] = classes.Add(text);
    too_many = too_many || numbers[count++] < 0;
  });
  if (wrong) {
    return Corruption(
        "%s: its text has a number that is not a code point of Unicode",
        where.c_str());
  }
  if (too_many) {
    return InvalidArgument(
        "%s: more than %zu different names; these are not classes",
        where.c_str(), ClassNumbers::kMax);
  }
  *names = classes.Sort(numbers, count);
  return Status();
}

std::string NpyHeader(DType dtype, const Shape& shape) {
  const char* type = dtype == DType::kUint8     ? "u1"
                     : dtype == DType::kInt32   ? "i4"
                     : dtype == DType::kInt64   ? "i8"
                     : dtype == DType::kFloat32 ? "f4"
                                                : "f8";
  std::string header =
      std::string("{'descr': '") + (SizeOf(dtype) == 1 ? "|" : "<") + type +
      "', 'fortran_order': False, 'shape': " + shape.ToString() + ", }";
  // Magic, version and length take 10 bytes. The data begin at a multiple of
  // 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes = kNpyMagic;
  AppendLittle(uint16_t{1}, &bytes);  // the version, 1.0
  AppendLittle(static_cast<uint16_t>(header.size()), &bytes);
  return bytes + header;
}

}  // namespace ringlet
