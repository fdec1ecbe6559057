// A file's bytes are hostile. Each dimension is compared with the bytes that
// can still follow before memory is taken. An IDX array has the layout of an
// npy file with big-endian numbers (NpyLayout), so both share the decoding and
// the reading on request.

#include "idx.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "../../../core/base/byte_order.h"
#include "../../files/file_kind.h"
#include "../../files/file_system.h"
#include "../../files/input_file.h"
#include "../memory_sizes.h"
#include "array_on_disk.h"
#include "array_path.h"
#include "array_source.h"
#include "npy_layout.h"

namespace ringlet {
namespace {

// Reads `count` dimensions. Their product is checked against the bytes that can
// follow.
Status ReadDimensions(InputFile* file, int count, size_t element_bytes,
                      Shape* shape) {
  *shape = Shape();
  const char* path = file->path().c_str();
  int64_t elements = 1;
  for (int i = 0; i < count; ++i) {
    unsigned char b[4];
    RINGLET_RETURN_IF_ERROR(file->Read(b, 4, "the IDX dimensions"));
    ReverseElements(b, 4, 1);  // big-endian
    const int64_t dim = LoadLittle<uint32_t>(b);
    if (dim == 0) {
      return Corruption("%s: offset %" PRId64
                        ": dimension %d is 0; the file holds no elements",
                        path, file->offset() - 4, i);
    }
    const int64_t max_elements =
        file->MostLeft() / static_cast<int64_t>(element_bytes);
    if (elements > max_elements / dim) {
      return Corruption("%s: offset %" PRId64 ": dimension %d is %" PRId64
                        ", but no more than %" PRId64
                        " elements can follow; the file is cut or mislabelled",
                        path, file->offset() - 4, i, dim, max_elements);
    }
    elements *= dim;
    shape->Append(dim);
  }
  return Status();
}

// Reads the header of `file` and checks it against the bytes that can follow.
Status ReadIdxHeader(InputFile* file, NpyLayout* layout) {
  unsigned char magic[4];
  RINGLET_RETURN_IF_ERROR(file->Read(magic, 4, "the IDX magic number"));
  const char* path = file->path().c_str();
  if (magic[0] != 0 || magic[1] != 0) {
    return WrongKindError(
        PosixFiles(), path, {FileKind::Format::kIdx, FileKind::Format::kGzip},
        Corruption("%s: offset 0: %02x %02x %02x %02x is not the magic "
                   "number of an IDX file",
                   path, magic[0], magic[1], magic[2], magic[3]));
  }
  const struct {
    unsigned char type;
    char kind;
    int width;
  } kTypes[] = {{0x08, 'u', 1}, {0x09, 'i', 1}, {0x0B, 'i', 2},
                {0x0C, 'i', 4}, {0x0D, 'f', 4}, {0x0E, 'f', 8}};
  layout->width = 0;
  for (const auto& known : kTypes) {
    if (magic[2] != known.type) continue;
    layout->kind = known.kind;
    layout->width = known.width;
    layout->reversed = !kBigEndian && known.width > 1;
  }
  if (layout->width == 0) {
    return Corruption(
        "%s: offset 2: elements of type 0x%02x; ringlet reads uint8 (08), int8 "
        "(09), int16 (0b), int32 (0c), float32 (0d), float64 (0e)",
        path, magic[2]);
  }
  if (magic[3] < 1 || magic[3] > Shape::kMaxRank) {
    return Corruption("%s: offset 3: %d dimensions; ringlet reads 1 to %d",
                      path, magic[3], Shape::kMaxRank);
  }
  return ReadDimensions(file, magic[3], static_cast<size_t>(layout->width),
                        &layout->shape);
}

Status ReadElements(InputFile* file, const NpyLayout& layout, NpyArray* array) {
  array->dtype = layout.dtype();
  array->shape = layout.shape;
  const size_t width = SizeOf(array->dtype);
  const auto count = static_cast<uint64_t>(layout.shape.elements());
  RINGLET_RETURN_IF_ERROR(file->ReadArray(
      static_cast<uint64_t>(layout.stored_bytes()), &array->data));
  if (static_cast<size_t>(layout.width) == width) {
    SwapToBig(array->data.data(), width, static_cast<size_t>(count));
    return Status();
  }
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(file->path(), count * width));
  std::vector<unsigned char> stored(static_cast<size_t>(count) * width);
  stored.swap(array->data);
  return DecodeNumbers(file->path(), layout, stored.data(), array->data.data());
}

// Reads the elements after the header, or only their place in the file.
Status ReadExamples(bool in_memory, InputFile* file, const NpyLayout& layout,
                    ExampleArray* examples) {
  *examples = {
      file->path(), {layout.dtype(), ExampleShape(layout.shape)}, {}, nullptr};
  if (!in_memory) return ArrayOnDisk::Open(*file, layout, &examples->on_disk);
  NpyArray array;
  RINGLET_RETURN_IF_ERROR(ReadElements(file, layout, &array));
  examples->data = std::move(array.data);
  return Status();
}

// An npz with the name of an array is found to be no IDX file.
Status OpenHeader(const std::string& path, InputFile* file, NpyLayout* layout) {
  RINGLET_RETURN_IF_ERROR(file->Open(SplitArrayPath(path).file));
  return ReadIdxHeader(file, layout);
}

}  // namespace

Status ReadIdx(const std::string& path, NpyArray* array) {
  InputFile file;
  NpyLayout layout;
  RINGLET_RETURN_IF_ERROR(OpenHeader(path, &file, &layout));
  return ReadElements(&file, layout, array);
}

Status IdxBytesInMemory(const std::string& path, const ArrayOptions& options,
                        uint64_t* bytes) {
  InputFile file;
  NpyLayout layout;
  RINGLET_RETURN_IF_ERROR(OpenHeader(path, &file, &layout));
  *bytes = 0;
  if (!LabelsInMemory(options, layout, file.compressed())) {
    std::shared_ptr<ArrayOnDisk> array;
    return ArrayOnDisk::Open(file, layout, &array);
  }
  *bytes =
      static_cast<uint64_t>(layout.shape.elements()) * SizeOf(layout.dtype());
  return Status();
}

// If files do not match, only the headers are read.
Status OpenIdx(const std::string& images, const std::string& labels,
               const ArrayOptions& options, std::shared_ptr<Source>* source) {
  NpyLayout x_layout, y_layout;
  InputFile x_file, y_file;
  RINGLET_RETURN_IF_ERROR(OpenHeader(labels, &y_file, &y_layout));
  RINGLET_RETURN_IF_ERROR(OpenHeader(images, &x_file, &x_layout));
  RINGLET_RETURN_IF_ERROR(
      CheckPair(images, x_layout.shape[0], labels, y_layout.shape[0]));
  ExampleArray x, y;
  RINGLET_RETURN_IF_ERROR(
      ReadExamples(LabelsInMemory(options, y_layout, y_file.compressed()),
                   &y_file, y_layout, &y));
  RINGLET_RETURN_IF_ERROR(
      ReadExamples(options.in_memory, &x_file, x_layout, &x));
  *source = std::make_shared<ArraySource>(x_layout.shape[0], std::move(x),
                                          std::move(y));
  return Status();
}

Dataset IdxDataset(const std::string& images, const std::string& labels,
                   const ArrayOptions& options) {
  std::shared_ptr<Source> source;
  const Status status = OpenIdx(images, labels, options, &source);
  return status.ok() ? Dataset(std::move(source)) : Dataset(status);
}

Dataset IdxDataset(const std::string& x, const ArrayOptions& options) {
  InputFile file;
  NpyLayout layout;
  ExampleArray array;
  Status status = OpenHeader(x, &file, &layout);
  if (status.ok()) {
    status = ReadExamples(options.in_memory, &file, layout, &array);
  }
  return status.ok() ? WithoutLabels(layout.shape[0], std::move(array))
                     : Dataset(status);
}

Dataset IdxDataset(const std::vector<std::string>& images,
                   const std::vector<std::string>& labels,
                   const ArrayOptions& options) {
  if (images.size() != labels.size()) {
    return Dataset(InvalidArgument("%zu files of images but %zu of labels",
                                   images.size(), labels.size()));
  }
  std::vector<std::shared_ptr<Source>> sources(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const Status status = OpenIdx(images[i], labels[i], options, &sources[i]);
    if (!status.ok()) return Dataset(status);
  }
  return Concatenate(sources);
}

}  // namespace ringlet
