// A new format needs its first bytes in FindFormat, a reader behind the same
// list of StoredTensors, and its name in io/files/file_kind.cc. Names and
// shapes may come from hostile files: readers check them as they open, so a
// caller may rely on `bytes` and `shape`.

#include "weights_file.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <new>

#include "../../core/base/text.h"
#include "../files/atomic_file.h"
#include "../files/file_kind.h"
#include "../readers/arrays/npy_layout.h"
#include "../readers/arrays/npz.h"
#include "safetensors.h"
#include "safetensors_index.h"
#include "tfjs_weights.h"

namespace ringlet {
namespace {

constexpr size_t kMaxNpyHeaderBytes = (64 << 10) + 12;

// Finds the format by the file's first six bytes: the bytes of a zip archive,
// also of an empty one, of an NPY file, of an ONNX model, or of JSON. Any other
// file counts as safetensors. A safetensors file does not begin with these
// bytes: as the length of its header they would be above the limit.
Status FindFormat(FileSystem* files, const std::string& path,
                  WeightsFile::Format* format) {
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  std::string start;
  RINGLET_RETURN_IF_ERROR(ReadUpTo(file.get(), 0, 6, &start));
  start.resize(6);
  const bool binary = std::count(start.begin(), start.end(), 0) > 0;
  const size_t text = start.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const bool json = !binary && text < start.size() && start[text] == '{';
  const auto begins = [&start](const char* magic, size_t bytes) {
    return std::memcmp(start.data(), magic, bytes) == 0;
  };
  if (begins("PK\3\4", 4) || begins("PK\5\6", 4)) {
    *format = WeightsFile::Format::kNpz;
  } else if (begins(kNpyMagic, 6)) {
    *format = WeightsFile::Format::kNpy;
  } else if (IsOnnx(start)) {
    *format = WeightsFile::Format::kOnnx;
  } else {
    *format = WeightsFile::Format::kSafetensors;
  }
  if (!json) return Status();
  FileKind kind;
  RINGLET_RETURN_IF_ERROR(FindFileKind(files, path, &kind));
  *format = kind.format == FileKind::Format::kSafetensorsIndex
                ? WeightsFile::Format::kIndex
                : WeightsFile::Format::kTfjs;
  return Status();
}

// If `path` is a folder, returns an error that names a file in it to give
// instead; otherwise `error`.
Status FolderError(FileSystem* files, const std::string& path,
                   const Status& error) {
  std::vector<std::string> names;
  if (error.ok() || !files->List(path, &names).ok()) return error;
  for (const char* ending :
       {".safetensors.index.json", ".safetensors", ".onnx", ".npz"}) {
    for (const std::string& name : names) {
      if (!EndsWith(name, ending)) continue;
      return InvalidArgument("%s: is a folder; give a file in it, as %s/%s",
                             path.c_str(), WithoutSuffix(path, "/").c_str(),
                             Printable(name).c_str());
    }
  }
  return error;
}

// The array of an npy file.
class NpyReader : public TensorFile {
 public:
  Status Open(FileSystem* files, const std::string& path) override;
  Status Read(const StoredTensor& tensor, void* elements) const override;

 private:
  std::shared_ptr<File> file_;
  NpyLayout layout_;
};

Status NpyReader::Open(FileSystem* files, const std::string& path) {
  path_ = path;
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path_, &file));
  file_ = std::move(file);
  int64_t size = 0;
  RINGLET_RETURN_IF_ERROR(file_->Size(&size));
  std::string start;
  RINGLET_RETURN_IF_ERROR(ReadUpTo(file_.get(), 0, kMaxNpyHeaderBytes, &start));
  StoredTensor array;
  RINGLET_RETURN_IF_ERROR(ParseNpyHeader(
      path_, reinterpret_cast<const unsigned char*>(start.data()), start.size(),
      size, &layout_, &array.offset));
  array.name = "arr_0";
  array.storage = layout_.storage();
  array.shape = layout_.shape;
  array.bytes = layout_.stored_bytes();
  tensors_.push_back(array);
  IndexNames();
  if (static_cast<uint64_t>(array.bytes) > SIZE_MAX / 8) {
    return ResourceExhausted("%s: %" PRId64 " bytes do not fit this machine",
                             path_.c_str(), array.bytes);
  }
  if (array.offset + array.bytes == size) return Status();
  return Corruption("%s: %" PRId64 " bytes, but its header says %" PRId64,
                    path_.c_str(), size, array.offset + array.bytes);
}

Status NpyReader::Read(const StoredTensor& tensor, void* elements) const {
  if (layout_.is_text()) {
    return InvalidArgument("%s: its elements are text", path_.c_str());
  }
  std::vector<unsigned char> stored(static_cast<size_t>(tensor.bytes));
  RINGLET_RETURN_IF_ERROR(
      file_->Read(tensor.offset, stored.data(), stored.size()));
  return DecodeNumbers(path_, layout_, stored.data(), elements);
}

std::shared_ptr<TensorFile> MakeReader(WeightsFile::Format format) {
  switch (format) {
    case WeightsFile::Format::kIndex:
      return std::make_shared<SafetensorsIndex>();
    case WeightsFile::Format::kNpz:
      return std::make_shared<NpzReader>();
    case WeightsFile::Format::kNpy:
      return std::make_shared<NpyReader>();
    case WeightsFile::Format::kOnnx:
      return std::make_shared<OnnxWeights>();
    case WeightsFile::Format::kTfjs:
      return std::make_shared<TfjsWeights>();
    default:
      return std::make_shared<SafetensorsReader>();
  }
}

}  // namespace

Status WeightsFile::Open(FileSystem* files, const std::string& path) {
  *this = WeightsFile();
  path_ = path;
  RINGLET_RETURN_IF_ERROR(
      FolderError(files, path, FindFormat(files, path, &format_)));
  file_ = MakeReader(format_);
  const Status status = file_->Open(files, path);
  using Format = FileKind::Format;
  return WrongKindError(
      files, path,
      {Format::kSafetensors, Format::kSafetensorsIndex, Format::kNpz,
       Format::kNpy, Format::kOnnx, Format::kTfjs},
      status);
}

bool WeightsFile::is_from_ringlet() const { return IsRinglets(metadata()); }

Status WeightsFile::Read(const StoredTensor& tensor, Elements* elements) const {
  if (!tensor.unread.empty()) return Read(tensor, static_cast<void*>(nullptr));
  const uint64_t bytes = static_cast<uint64_t>(tensor.shape.elements()) *
                         SizeOf(DTypeOf(tensor.storage));
  if (bytes < std::numeric_limits<size_t>::max()) {
    elements->reset(
        new (std::nothrow) unsigned char[static_cast<size_t>(bytes) + 1]);
  }
  if (*elements == nullptr) {
    return ResourceExhausted(
        "%s: no memory for the %" PRIu64 " bytes of tensor '%s'", path_.c_str(),
        bytes, Printable(tensor.name).c_str());
  }
  return Read(tensor, elements->get());
}

}  // namespace ringlet
