#include "idx.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "input_file.h"

namespace ringlet {
namespace {

// The header of `file`, checked against what can follow it.
Status ReadHeader(InputFile* file, DType* dtype, Shape* shape) {
  unsigned char magic[4];
  RINGLET_RETURN_IF_ERROR(file->Read(magic, 4, "the IDX magic number"));
  const char* path = file->path().c_str();
  if (magic[0] != 0 || magic[1] != 0) {
    return Corruption("%s: offset 0: %02x %02x %02x %02x is not the magic "
                      "number of an IDX file",
                      path, magic[0], magic[1], magic[2], magic[3]);
  }
  switch (magic[2]) {
    case 0x08: *dtype = DType::kUint8; break;
    case 0x0C: *dtype = DType::kInt32; break;
    case 0x0D: *dtype = DType::kFloat32; break;
    case 0x0E: *dtype = DType::kFloat64; break;
    default:
      return Corruption("%s: offset 2: elements of type 0x%02x; ringlet reads "
                        "uint8 (08), int32 (0c), float32 (0d), float64 (0e)",
                        path, magic[2]);
  }
  if (magic[3] < 1 || magic[3] > Shape::kMaxRank) {
    return Corruption("%s: offset 3: %d dimensions; ringlet reads 1 to %d",
                      path, magic[3], Shape::kMaxRank);
  }
  *shape = Shape();
  int64_t most = 0;
  int64_t left = 1;
  for (int i = 0; i < magic[3]; ++i) {
    unsigned char b[4];
    RINGLET_RETURN_IF_ERROR(file->Read(b, 4, "the IDX dimensions"));
    const int64_t dim = int64_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3];
    most = file->MostLeft() / static_cast<int64_t>(SizeOf(*dtype));
    if (dim > 0 && left > most / dim) {
      return Corruption("%s: offset %" PRId64 ": dimension %d is %" PRId64
                        ", but no more than %" PRId64
                        " elements can follow; the file is cut or mislabelled",
                        path, file->offset() - 4, i, dim, most);
    }
    left *= std::max<int64_t>(dim, 1);
    shape->Append(dim);
  }
  return Status();
}

// Big-endian to native, in place.
void ToNative(DType dtype, std::vector<unsigned char>* data) {
  const size_t size = SizeOf(dtype);
  const uint16_t probe = 1;
  unsigned char first;
  std::memcpy(&first, &probe, 1);
  if (size == 1 || first == 0) return;
  for (size_t i = 0; i + size <= data->size(); i += size) {
    std::reverse(data->begin() + i, data->begin() + i + size);
  }
}

Status CheckPair(const std::string& images, const Shape& x,
                 const std::string& labels, const Shape& y) {
  if (x[0] != y[0]) {
    return InvalidArgument("%s has %" PRId64 " examples, but %s has %" PRId64
                           " labels; they are not of one set",
                           images.c_str(), x[0], labels.c_str(), y[0]);
  }
  return Status();
}

Shape WithoutFirst(const Shape& shape) {
  Shape rest;
  for (int i = 1; i < shape.rank(); ++i) rest.Append(shape[i]);
  return rest;
}

std::string BaseName(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

class IdxSource final : public Source {
 public:
  // The images are in `x`, or with an empty x.data in `file` from `offset` on.
  IdxSource(const std::string& path, IdxArray x, IdxArray y, int file,
            int64_t offset)
      : name_(BaseName(path)),
        path_(path),
        x_(std::move(x)),
        y_(std::move(y)),
        x_spec_{x_.dtype, WithoutFirst(x_.shape)},
        y_spec_{y_.dtype, WithoutFirst(y_.shape)},
        file_(file),
        offset_(offset) {}
  ~IdxSource() override {
    if (file_ >= 0) close(file_);
  }

  int64_t size() const override { return x_.shape[0]; }
  ExampleSpec x() const override { return x_spec_; }
  ExampleSpec y() const override { return y_spec_; }
  std::string name() const override { return name_; }

  Status Read(const int64_t* index, int count, void* x, void* y) override {
    const size_t x_bytes = x_spec_.bytes(), y_bytes = y_spec_.bytes();
    for (int i = 0; i < count; ++i) {
      const size_t from = static_cast<size_t>(index[i]);
      unsigned char* to = static_cast<unsigned char*>(x) + x_bytes * i;
      if (file_ >= 0) {
        RINGLET_RETURN_IF_ERROR(ReadAt(index[i], x_bytes, to));
      } else {
        std::memcpy(to, x_.data.data() + from * x_bytes, x_bytes);
      }
      if (y != nullptr) {
        std::memcpy(static_cast<unsigned char*>(y) + y_bytes * i,
                    y_.data.data() + from * y_bytes, y_bytes);
      }
    }
    return Status();
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

  const std::string name_, path_;
  const IdxArray x_, y_;
  const ExampleSpec x_spec_, y_spec_;
  const int file_;  // -1: in memory
  const int64_t offset_;
};

Status OpenOnDisk(const std::string& images, IdxArray y,
                  std::shared_ptr<Source>* source) {
  InputFile header;
  RINGLET_RETURN_IF_ERROR(header.Open(images));
  if (header.compressed()) {
    return InvalidArgument(
        "%s: compressed files are read into memory whole; unpack it, or set "
        "in_memory",
        images.c_str());
  }
  IdxArray x;
  RINGLET_RETURN_IF_ERROR(ReadHeader(&header, &x.dtype, &x.shape));
  if (x.dtype != DType::kUint8) {
    return InvalidArgument("%s: only uint8 files are read from disk",
                           images.c_str());
  }
  if (x.shape.elements() != header.MostLeft()) {
    return Corruption("%s: %" PRId64 " bytes follow the header, but %" PRId64
                      " elements were promised",
                      images.c_str(), header.MostLeft(), x.shape.elements());
  }
  const int file = open(images.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return OsError(errno, "%s", images.c_str());
  *source = std::make_shared<IdxSource>(images, std::move(x), std::move(y),
                                        file, header.offset());
  return Status();
}

}  // namespace

Status ReadIdx(const std::string& path, IdxArray* array) {
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path));
  RINGLET_RETURN_IF_ERROR(ReadHeader(&file, &array->dtype, &array->shape));
  const uint64_t bytes = static_cast<uint64_t>(array->shape.elements()) *
                         SizeOf(array->dtype);
  if (bytes > SIZE_MAX / 2) {
    return ResourceExhausted("%s: %" PRIu64 " bytes do not fit this machine",
                             path.c_str(), bytes);
  }
  // A compressed file may promise a thousand times its size: grow with what
  // is really there.
  constexpr size_t kPiece = size_t{64} << 20;
  array->data.clear();
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min<size_t>(kPiece, bytes - done);
    if (done == 0) array->data.reserve(piece);
    array->data.resize(done + piece);
    RINGLET_RETURN_IF_ERROR(
        file.Read(array->data.data() + done, piece, "the elements"));
    done += piece;
  }
  RINGLET_RETURN_IF_ERROR(file.ExpectEnd());
  ToNative(array->dtype, &array->data);
  return Status();
}

Status OpenIdx(const std::string& images, const std::string& labels,
               const IdxOptions& options, std::shared_ptr<Source>* source) {
  IdxArray x, y;
  RINGLET_RETURN_IF_ERROR(ReadIdx(labels, &y));
  if (!options.in_memory) {
    const Shape y_shape = y.shape;
    RINGLET_RETURN_IF_ERROR(OpenOnDisk(images, std::move(y), source));
    Shape x_shape = {(*source)->size()};
    return CheckPair(images, x_shape, labels, y_shape);
  }
  RINGLET_RETURN_IF_ERROR(ReadIdx(images, &x));
  RINGLET_RETURN_IF_ERROR(CheckPair(images, x.shape, labels, y.shape));
  *source = std::make_shared<IdxSource>(images, std::move(x), std::move(y), -1,
                                        0);
  return Status();
}

Dataset IdxDataset(const std::string& images, const std::string& labels,
                   const IdxOptions& options) {
  std::shared_ptr<Source> source;
  const Status status = OpenIdx(images, labels, options, &source);
  return status.ok() ? Dataset(std::move(source)) : Dataset(status);
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
