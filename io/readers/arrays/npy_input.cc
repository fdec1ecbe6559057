#include "npy_input.h"

#include <cstring>

#include "../../../core/base/large_pages.h"
#include "../../../core/base/text.h"
#include "../../files/file_kind.h"
#include "../files/class_names.h"

namespace ringlet {
namespace {

Status ReadNpyHeader(InputFile* file, const std::string& field,
                     NpyLayout* layout) {
  const std::string& path = file->path();
  unsigned char start[8];
  RINGLET_RETURN_IF_ERROR(file->Read(start, 8, "the NPY magic number"));
  size_t length_bytes = 0, length = 0;
  RINGLET_RETURN_IF_ERROR(WrongKindError(
      PosixFiles(), path, {FileKind::Format::kNpy, FileKind::Format::kGzip},
      CheckNpyStart(path, start, &length_bytes)));
  unsigned char b[4] = {};
  RINGLET_RETURN_IF_ERROR(
      file->Read(b, length_bytes, "the length of the NPY header"));
  RINGLET_RETURN_IF_ERROR(NpyHeaderLength(path, b, length_bytes, &length));
  std::string header(length, '\0');
  RINGLET_RETURN_IF_ERROR(file->Read(&header[0], length, "the NPY header"));
  return ParseNpyDictionary(path, NpyHeaderText(start, header),
                            file->MostLeft(), layout, field);
}

// Reads the first bytes, by which a reader is chosen.
Status StartsAsZip(const std::string& path, bool* zip) {
  InputFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(path));
  char start[4] = {};
  size_t got = 0;
  RINGLET_RETURN_IF_ERROR(file.ReadSome(start, sizeof(start), &got));
  *zip = !file.compressed() && (std::memcmp(start, "PK\3\4", 4) == 0 ||
                                std::memcmp(start, "PK\5\6", 4) == 0);
  return Status();
}

}  // namespace

Status NpyInput::Open(const std::string& path) {
  path_ = path;
  const ArrayPath array = SplitArrayPath(path);
  bool zip = false;
  RINGLET_RETURN_IF_ERROR(StartsAsZip(array.file, &zip));
  if (zip) {
    return WrongKindError(PosixFiles(), array.file,
                          {FileKind::Format::kNpy, FileKind::Format::kNpz},
                          OpenArchive(array));
  }
  RINGLET_RETURN_IF_ERROR(file_.Open(array.file));
  return ReadNpyHeader(&file_, array.name, &layout_);
}

Status NpyInput::OpenArchive(const ArrayPath& array) {
  RINGLET_RETURN_IF_ERROR(archive_.Open(PosixFiles(), array.file));
  std::vector<std::string> names;
  std::string readable = "NAME";
  for (const StoredTensor& tensor : archive_.tensors()) {
    names.push_back(tensor.name);
    if (tensor.unread.empty() && readable == "NAME") readable = tensor.name;
  }
  if (array.name.empty() && names.size() == 1) array_ = &archive_.tensors()[0];
  if (array.name.empty() && names.size() > 1) {
    return InvalidArgument("%s: has %zu arrays: %s; name one, as in \"%s:%s\"",
                           array.file.c_str(), names.size(),
                           ListNames(names).c_str(), array.file.c_str(),
                           Printable(readable).c_str());
  }
  if (!array.name.empty()) array_ = archive_.Find(array.name);
  if (array_ == nullptr) {
    return InvalidArgument(
        "%s: has no array%s; it has %s", array.file.c_str(),
        array.name.empty() ? "" : (" '" + Printable(array.name) + "'").c_str(),
        names.empty() ? "none" : ListNames(names).c_str());
  }
  layout_ = archive_.LayoutOf(*array_);
  if (array_->unread.empty()) return Status();
  return InvalidArgument(
      "%s: '%s': elements of type %s; ringlet reads numbers, bool and, as "
      "labels, text",
      array.file.c_str(), Printable(array_->name).c_str(),
      array_->unread.c_str());
}

Status NpyInput::RefuseText() const {
  return InvalidArgument(
      "%s: its elements are text, which is read as labels only", path_.c_str());
}

Status NpyInput::OpenOnDisk(std::shared_ptr<ArrayOnDisk>* array) const {
  if (layout_.is_text()) return RefuseText();
  if (array_ == nullptr) return ArrayOnDisk::Open(file_, layout_, array);
  const int64_t offset = archive_.ElementsOffset(*array_);
  if (offset < 0) return RefuseCompressed(path_);
  RINGLET_RETURN_IF_ERROR(ArrayOnDisk::Open(archive_.path(), archive_.version(),
                                            offset, layout_, array));
  (*array)->set_digest(array_->crc);
  return Status();
}

Status NpyInput::ReadElements(NpyArray* array,
                              std::vector<std::string>* names) {
  if (layout_.is_text() && names == nullptr) return RefuseText();
  array->shape = layout_.shape;
  array->dtype = layout_.is_text() ? DType::kInt32 : layout_.dtype();
  RINGLET_RETURN_IF_ERROR(ReadStored(&array->data));
  if (layout_.native()) return Status();
  const uint64_t bytes =
      static_cast<uint64_t>(layout_.shape.elements()) * SizeOf(array->dtype);
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(path_, bytes));
  std::vector<unsigned char> stored(static_cast<size_t>(bytes));
  stored.swap(array->data);
  return layout_.is_text()
             ? DecodeClassNumbers(
                   path_, layout_, stored.data(),
                   reinterpret_cast<int32_t*>(array->data.data()), names)
             : DecodeNumbers(path_, layout_, stored.data(), array->data.data());
}

Status NpyInput::ReadStored(std::vector<unsigned char>* bytes) {
  const auto count = static_cast<uint64_t>(layout_.stored_bytes());
  if (array_ == nullptr) return file_.ReadArray(count, bytes);
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(path_, count));
  bytes->clear();
  return archive_.ReadBytes(*array_, [&] {
    bytes->reserve(static_cast<size_t>(count));
    AdviseLargePages(bytes->data(), static_cast<size_t>(count));
    bytes->resize(static_cast<size_t>(count));
    return bytes->data();
  });
}

}  // namespace ringlet
