// Images of an uncompressed file stay there. They are read when needed, by
// pread, which does not move the file's position. Labels, and all data of a
// gzip file, are in memory.

#include "ringlet/readers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "../../core/base/byte_order.h"
#include "../files/file_kind.h"
#include "../files/input_file.h"
#include "../files/open_error.h"
#include "../files/path.h"
#include "array_path.h"
#include "array_source.h"
#include "memory_sizes.h"
#include "npy_layout.h"
#include "ringlet/files.h"

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
                        ": dimension %d is 0; the file "
                        "holds no elements",
                        path, file->offset() - 4, i);
    }
    const int64_t most = file->MostLeft() / static_cast<int64_t>(element_bytes);
    if (elements > most / dim) {
      return Corruption("%s: offset %" PRId64 ": dimension %d is %" PRId64
                        ", but no more than %" PRId64
                        " elements can follow; the file is cut or mislabelled",
                        path, file->offset() - 4, i, dim, most);
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
        FileSystem::Posix(), path,
        {FileKind::Format::kIdx, FileKind::Format::kGzip},
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
    layout->reversed = !kBigEndian;
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

// Images are read when needed; labels are in memory.
class IdxFileSource final : public Source {
 public:
  // Owns `file`. The images begin at `offset`.
  IdxFileSource(const std::string& path, int file, int64_t offset, int64_t size,
                const ExampleSpec& x, ExampleArray y)
      : path_(path),
        file_(file),
        offset_(offset),
        size_(size),
        x_(x),
        y_(std::move(y)) {}
  ~IdxFileSource() override { close(file_); }

  int64_t size() const override { return size_; }
  ExampleSpec x() const override { return x_; }
  ExampleSpec y() const override { return y_.spec; }
  std::string name() const override { return FileNameOf(path_); }
  std::string y_name() const override { return FileNameOf(y_.name); }

  Status Read(const int64_t* index, int count, void* x, void* y) override {
    const size_t bytes = x_.bytes();
    for (int i = 0; i < count && x != nullptr; ++i) {
      RINGLET_RETURN_IF_ERROR(
          ReadAt(index[i], bytes, static_cast<unsigned char*>(x) + bytes * i));
    }
    if (y != nullptr) y_.Copy(index, count, y);
    return Status();
  }
  bool XRange(double* least, double* largest) const override {  // of bytes
    *least = 0;
    *largest = 255;
    return true;
  }

 private:
  Status ReadAt(int64_t example, size_t bytes, unsigned char* to) {
    const int64_t begin = offset_ + example * static_cast<int64_t>(bytes);
    for (size_t done = 0; done < bytes;) {
      const int64_t at = begin + static_cast<int64_t>(done);
      const ssize_t n =
          pread(file_, to + done, bytes - done, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        return OsError(errno, "%s: reading at offset %" PRId64, path_.c_str(),
                       at);
      }
      if (n == 0) {
        return Corruption("%s: ends at offset %" PRId64
                          ", within example %" PRId64 "; it was cut while open",
                          path_.c_str(), at, example);
      }
      done += static_cast<size_t>(n);
    }
    return Status();
  }

  const std::string path_;
  const int file_;
  const int64_t offset_, size_;
  const ExampleSpec x_;
  const ExampleArray y_;
};

Status ReadElements(InputFile* file, const NpyLayout& layout, IdxArray* array) {
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
  RINGLET_RETURN_IF_ERROR(CheckRoom(file->path(), count * width));
  std::vector<unsigned char> stored(static_cast<size_t>(count) * width);
  stored.swap(array->data);
  return DecodeNumbers(file->path(), layout, stored.data(), array->data.data());
}

Status CheckPlain(const InputFile& images) {
  if (!images.compressed()) return Status();
  return InvalidArgument(
      "%s: compressed files are read into memory whole; unpack it, or set "
      "in_memory",
      images.path().c_str());
}

// `header` was read up to the elements of `x`.
Status OpenOnDisk(const InputFile& header, const NpyLayout& x,
                  ExampleArray labels, std::shared_ptr<Source>* source) {
  const std::string& images = header.path();
  if (x.dtype() != DType::kUint8) {
    return InvalidArgument("%s: only uint8 files are read from disk",
                           images.c_str());
  }
  if (x.shape.elements() != header.MostLeft()) {
    return Corruption(
        "%s: offset %" PRId64 ": %" PRId64
        " bytes follow the header, but %" PRId64 " elements were promised",
        images.c_str(), header.offset(), header.MostLeft(), x.shape.elements());
  }
  const int file = open(images.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return OpenError(errno, images);
  *source = std::make_shared<IdxFileSource>(
      images, file, header.offset(), x.shape[0],
      ExampleSpec{x.dtype(), ExampleShape(x.shape)}, std::move(labels));
  return Status();
}

// An npz with the name of an array is found to be no IDX file.
Status OpenHeader(const std::string& path, InputFile* file, NpyLayout* layout) {
  RINGLET_RETURN_IF_ERROR(file->Open(SplitArrayPath(path).file));
  return ReadIdxHeader(file, layout);
}

}  // namespace

Status ReadIdx(const std::string& path, IdxArray* array) {
  InputFile file;
  NpyLayout layout;
  RINGLET_RETURN_IF_ERROR(OpenHeader(path, &file, &layout));
  return ReadElements(&file, layout, array);
}

Status IdxBytesInMemory(const std::string& path, uint64_t* bytes) {
  InputFile file;
  NpyLayout layout;
  RINGLET_RETURN_IF_ERROR(OpenHeader(path, &file, &layout));
  *bytes =
      static_cast<uint64_t>(layout.shape.elements()) * SizeOf(layout.dtype());
  return Status();
}

// If files do not match, only the headers are read.
Status OpenIdx(const std::string& images, const std::string& labels,
               const IdxOptions& options, std::shared_ptr<Source>* source) {
  NpyLayout x_layout, y_layout;
  InputFile x_file, y_file;
  RINGLET_RETURN_IF_ERROR(OpenHeader(labels, &y_file, &y_layout));
  RINGLET_RETURN_IF_ERROR(x_file.Open(SplitArrayPath(images).file));
  if (!options.in_memory) RINGLET_RETURN_IF_ERROR(CheckPlain(x_file));
  RINGLET_RETURN_IF_ERROR(ReadIdxHeader(&x_file, &x_layout));
  RINGLET_RETURN_IF_ERROR(
      CheckPair(images, x_layout.shape[0], labels, y_layout.shape[0]));
  IdxArray x, y;
  RINGLET_RETURN_IF_ERROR(ReadElements(&y_file, y_layout, &y));
  ExampleArray targets = {
      labels, {y.dtype, ExampleShape(y.shape)}, std::move(y.data)};
  if (!options.in_memory) {
    return OpenOnDisk(x_file, x_layout, std::move(targets), source);
  }
  RINGLET_RETURN_IF_ERROR(ReadElements(&x_file, x_layout, &x));
  *source = std::make_shared<ArraySource>(
      x.shape[0],
      ExampleArray{images, {x.dtype, ExampleShape(x.shape)}, std::move(x.data)},
      std::move(targets));
  return Status();
}

Dataset IdxDataset(const std::string& images, const std::string& labels,
                   const IdxOptions& options) {
  std::shared_ptr<Source> source;
  const Status status = OpenIdx(images, labels, options, &source);
  return status.ok() ? Dataset(std::move(source)) : Dataset(status);
}

Dataset IdxDataset(const std::string& x) {
  return WithoutLabels<IdxArray>(x, ReadIdx);
}

Dataset IdxDataset(const std::vector<std::string>& images,
                   const std::vector<std::string>& labels,
                   const IdxOptions& options) {
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
