#include "array_on_disk.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "../../files/file_version.h"

namespace ringlet {

Status RefuseCompressed(const std::string& path) {
  return InvalidArgument(
      "%s: compressed files are read into memory whole; unpack it, or leave "
      "out \"in_memory\": false",
      path.c_str());
}

Status ArrayOnDisk::Open(const std::string& path, const FileVersion& version,
                         int64_t offset, const NpyLayout& layout,
                         std::shared_ptr<ArrayOnDisk>* array) {
  if (layout.fortran && layout.shape.rank() > 1) {
    return InvalidArgument(
        "%s: the elements of an example are apart in an array of Fortran "
        "order; save it by numpy.ascontiguousarray, or leave out "
        "\"in_memory\": false",
        path.c_str());
  }
  auto opened = std::make_shared<ArrayOnDisk>();
  RINGLET_RETURN_IF_ERROR(PosixFiles()->Open(path, &opened->file_));
  RINGLET_RETURN_IF_ERROR(CheckUnchanged(opened->file_.get(), version));
  opened->version_ = version;
  RINGLET_RETURN_IF_ERROR(
      ChecksumParts(opened->file_.get(), version.bytes, &opened->sample_));
  opened->offset_ = offset;
  opened->layout_ = layout;
  opened->layout_.fortran = false;
  opened->layout_.shape[0] = 1;
  const int64_t bytes = opened->layout_.stored_bytes();
  const int64_t max_bytes = opened->layout_.shape.elements() * 8;
  RINGLET_RETURN_IF_ERROR(
      CheckMemoryFor(path, static_cast<uint64_t>(std::max(bytes, max_bytes))));
  opened->per_example_ = static_cast<size_t>(bytes);
  *array = std::move(opened);
  return Status();
}

Status ArrayOnDisk::Open(const InputFile& header, const NpyLayout& layout,
                         std::shared_ptr<ArrayOnDisk>* array) {
  if (header.compressed()) return RefuseCompressed(header.path());
  const int64_t bytes = layout.stored_bytes();
  if (header.MostLeft() != bytes) {
    return Corruption("%s: offset %" PRId64 ": %" PRId64
                      " bytes follow the header, but it says %" PRId64,
                      header.path().c_str(), header.offset(), header.MostLeft(),
                      bytes);
  }
  return Open(header.path(), header.version(), header.offset(), layout, array);
}

Status ArrayOnDisk::Read(const int64_t* index, int count, void* to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool native = layout_.native();
  if (!native) stored_.resize(static_cast<size_t>(count) * per_example_);
  auto* const bytes = native ? static_cast<unsigned char*>(to) : stored_.data();
  Status read;
  for (int i = 0, run; i < count && read.ok(); i += run) {
    for (run = 1; i + run < count && index[i + run] == index[i] + run;) ++run;
    read = file_->Read(offset_ + index[i] * static_cast<int64_t>(per_example_),
                       bytes + static_cast<size_t>(i) * per_example_,
                       static_cast<size_t>(run) * per_example_);
  }
  RINGLET_RETURN_IF_ERROR(CheckUnchanged(file_.get(), sample_, &version_));
  RINGLET_RETURN_IF_ERROR(read);
  if (native || count == 0) return Status();
  layout_.shape[0] = count;
  return DecodeNumbers(file_->path(), layout_, stored_.data(), to);
}

}  // namespace ringlet
