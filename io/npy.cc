#include "npy.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "array_source.h"
#include "input_file.h"

namespace ringlet {
namespace {

constexpr size_t kMostHeader = 64 << 10;
constexpr char kMagic[] = "\x93NUMPY";

bool LittleEndianMachine() {
  const uint16_t probe = 1;
  unsigned char first;
  std::memcpy(&first, &probe, 1);
  return first == 1;
}

void ReverseElements(size_t size, std::vector<unsigned char>* data) {
  for (size_t i = 0; i + size <= data->size(); i += size) {
    std::reverse(data->begin() + i, data->begin() + i + size);
  }
}

// What stands behind 'key': in the header's dictionary, up to the next key.
std::string Value(const std::string& header, const char* key) {
  const size_t at = header.find(std::string("'") + key + "'");
  if (at == std::string::npos) return "";
  const size_t colon = header.find(':', at);
  if (colon == std::string::npos) return "";
  const size_t begin = header.find_first_not_of(' ', colon + 1);
  if (begin == std::string::npos) return "";
  if (header[begin] == '(') {
    const size_t end = header.find(')', begin);
    return header.substr(begin,
                         end == std::string::npos ? end : end - begin + 1);
  }
  const size_t end = std::min(header.find_first_of(",}", begin), header.size());
  const size_t last = header.find_last_not_of(' ', end - 1);
  return last < begin ? "" : header.substr(begin, last - begin + 1);
}

// "'<f4'" -> the type and whether its bytes are the other way round.
bool ParseDescr(const std::string& descr, DType* dtype, bool* reversed) {
  if (descr.size() != 5 || descr[0] != '\'' || descr[4] != '\'') return false;
  const std::string type = descr.substr(2, 2);
  if (type == "u1") {
    *dtype = DType::kUint8;
  } else if (type == "i4") {
    *dtype = DType::kInt32;
  } else if (type == "i8") {
    *dtype = DType::kInt64;
  } else if (type == "f4") {
    *dtype = DType::kFloat32;
  } else if (type == "f8") {
    *dtype = DType::kFloat64;
  } else {
    return false;
  }
  const char order = descr[1];
  *reversed = order == (LittleEndianMachine() ? '>' : '<');
  return order == '<' || order == '>' || order == '|' || order == '=';
}

// "(3, 4)" -> a shape; false where it is none, or more than `most` elements.
// One with a zero has no elements, but shapes cut from it may: they are
// bounded.
bool ParseShape(const std::string& text, int64_t most, Shape* shape) {
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
  return none || elements <= most;
}

// Checks the first 8 bytes. The length of the header takes *length_bytes more.
Status CheckStart(const char* path, const unsigned char* start,
                  size_t* length_bytes) {
  if (std::memcmp(start, kMagic, 6) != 0) {
    return Corruption("%s: offset 0: not the magic number of an NPY file",
                      path);
  }
  if (start[6] < 1 || start[6] > 3) {
    return Corruption("%s: offset 6: NPY version %d; ringlet reads 1 to 3",
                      path, start[6]);
  }
  *length_bytes = start[6] == 1 ? 2 : 4;
  return Status();
}

Status HeaderLength(const char* path, const unsigned char* bytes,
                    size_t length_bytes, size_t* length) {
  *length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    *length |= static_cast<size_t>(bytes[i]) << (8 * i);
  }
  if (*length <= kMostHeader) return Status();
  return Corruption(
      "%s: offset 8: a header of %zu bytes is more than an "
      "array needs",
      path, *length);
}

// `most_left`: bytes that can follow the header.
Status ParseDictionary(const char* path, const std::string& header,
                       int64_t most_left, NpyArray* array, bool* reversed) {
  const std::string descr = Value(header, "descr");
  if (!ParseDescr(descr, &array->dtype, reversed)) {
    return Corruption(
        "%s: header: elements of type %.40s; ringlet reads u1, "
        "i4, i8, f4 and f8",
        path, descr.empty() ? "(none)" : descr.c_str());
  }
  if (Value(header, "fortran_order") != "False") {
    return InvalidArgument(
        "%s: header: fortran_order must be False; save "
        "numpy.ascontiguousarray(a)",
        path);
  }
  const std::string shape = Value(header, "shape");
  const int64_t most = most_left / static_cast<int64_t>(SizeOf(array->dtype));
  if (!ParseShape(shape, most, &array->shape)) {
    return Corruption(
        "%s: header: shape %.200s is none, or more than the file "
        "can hold (%" PRId64 " elements)",
        path, shape.c_str(), most);
  }
  return Status();
}

Status ReadHeader(InputFile* file, NpyArray* array, bool* reversed) {
  const char* path = file->path().c_str();
  unsigned char start[8];
  RINGLET_RETURN_IF_ERROR(file->Read(start, 8, "the NPY magic number"));
  size_t length_bytes = 0, length = 0;
  RINGLET_RETURN_IF_ERROR(CheckStart(path, start, &length_bytes));
  unsigned char b[4] = {};
  RINGLET_RETURN_IF_ERROR(
      file->Read(b, length_bytes, "the length of the NPY header"));
  RINGLET_RETURN_IF_ERROR(HeaderLength(path, b, length_bytes, &length));
  std::string header(length, '\0');
  RINGLET_RETURN_IF_ERROR(file->Read(&header[0], length, "the NPY header"));
  return ParseDictionary(path, header, file->MostLeft(), array, reversed);
}

// A file whose header was read, and what it says.
struct NpyInput {
  InputFile file;
  NpyArray array;
  bool reversed = false;

  Status Open(const std::string& path) {
    RINGLET_RETURN_IF_ERROR(file.Open(path));
    return ReadHeader(&file, &array, &reversed);
  }
  Status ReadElements() {
    RINGLET_RETURN_IF_ERROR(file.ReadArray(
        static_cast<uint64_t>(array.shape.elements()) * SizeOf(array.dtype),
        &array.data));
    if (reversed) ReverseElements(SizeOf(array.dtype), &array.data);
    return Status();
  }
};

// An array of examples.
Status OpenExamples(const std::string& path, NpyInput* input) {
  RINGLET_RETURN_IF_ERROR(input->Open(path));
  const Shape& shape = input->array.shape;
  if (shape.rank() < 1) {
    return InvalidArgument("%s: a single value, not an array of examples",
                           path.c_str());
  }
  if (ExampleShape(shape).elements() == 0) {
    return InvalidArgument("%s: an array of %s: its examples hold no values",
                           path.c_str(), shape.ToString().c_str());
  }
  return Status();
}

// Of files that do not go together no more than the headers is read.
Status OpenPair(const std::string& x, const std::string& y, NpyInput* inputs) {
  RINGLET_RETURN_IF_ERROR(OpenExamples(x, &inputs[0]));
  RINGLET_RETURN_IF_ERROR(OpenExamples(y, &inputs[1]));
  RINGLET_RETURN_IF_ERROR(
      CheckPair(x, inputs[0].array.shape[0], y, inputs[1].array.shape[0]));
  RINGLET_RETURN_IF_ERROR(inputs[0].ReadElements());
  return inputs[1].ReadElements();
}

}  // namespace

Status ReadNpy(const std::string& path, NpyArray* array) {
  *array = NpyArray();
  NpyInput input;
  RINGLET_RETURN_IF_ERROR(input.Open(path));
  RINGLET_RETURN_IF_ERROR(input.ReadElements());
  *array = std::move(input.array);
  return Status();
}

Status ParseNpyHeader(const std::string& where, const unsigned char* bytes,
                      size_t size, int64_t total, NpyArray* array,
                      bool* reversed, int64_t* data_at) {
  const char* path = where.c_str();
  const auto ends = [path] {
    return Corruption("%s: ends within the NPY header", path);
  };
  *array = NpyArray();
  if (size < 12) return ends();
  size_t length_bytes = 0, length = 0;
  RINGLET_RETURN_IF_ERROR(CheckStart(path, bytes, &length_bytes));
  RINGLET_RETURN_IF_ERROR(HeaderLength(path, bytes + 8, length_bytes, &length));
  const size_t begin = 8 + length_bytes;
  if (length > size - begin) return ends();
  *data_at = static_cast<int64_t>(begin + length);
  const std::string header(reinterpret_cast<const char*>(bytes) + begin,
                           length);
  return ParseDictionary(path, header, total - *data_at, array, reversed);
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
  // Magic, version and length take 10 bytes; the data begin at a multiple of
  // 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const size_t n = header.size();
  return std::string(kMagic, 6) + std::string("\1\0", 2) +
         static_cast<char>(n & 255) + static_cast<char>(n >> 8) + header;
}

Status WriteNpy(const std::string& path, DType dtype, const Shape& shape,
                const void* data) {
  const std::string header = NpyHeader(dtype, shape);
  std::vector<unsigned char> bytes(
      static_cast<const unsigned char*>(data),
      static_cast<const unsigned char*>(data) +
          SizeOf(dtype) * static_cast<size_t>(shape.elements()));
  if (!LittleEndianMachine()) ReverseElements(SizeOf(dtype), &bytes);
  FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return OsError(errno, "%s", path.c_str());
  const bool written =
      std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
      (bytes.empty() ||
       std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  const int error = errno;
  if (std::fclose(file) != 0 || !written) {
    return OsError(written ? errno : error, "%s: writing", path.c_str());
  }
  return Status();
}

Dataset NpyDataset(const std::string& x, const std::string& y) {
  NpyInput inputs[2];
  const Status status = OpenPair(x, y, inputs);
  if (!status.ok()) return Dataset(status);
  NpyArray &examples = inputs[0].array, &labels = inputs[1].array;
  return Dataset(std::make_shared<ArraySource>(
      examples.shape[0],
      ExampleArray{x,
                   {examples.dtype, ExampleShape(examples.shape)},
                   std::move(examples.data)},
      ExampleArray{y,
                   {labels.dtype, ExampleShape(labels.shape)},
                   std::move(labels.data)}));
}

}  // namespace ringlet
