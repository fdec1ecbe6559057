// A zip archive is read from its end: the directory has the places of the
// entries, and the header of each entry must agree with it. Sizes are compared
// with the file, and with the greatest expansion of deflate, before memory is
// allocated. An entry is measured (MeasureRaw) before it is unpacked.

#include "npz.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "../../../core/base/byte_order.h"
#include "../../../core/base/json.h"
#include "../../../core/base/text.h"
#include "../../files/input_file.h"
#include "npy_layout.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

constexpr int64_t kMaxBytes = 0xffffffff;
constexpr int64_t kMaxArrays = 0xffff;
constexpr uint64_t kVersion = 20;
constexpr uint64_t kDate = 0x21;  // 1980-01-01: equal arrays give equal files

void Put16(uint64_t value, std::string* out) {
  AppendLittle(static_cast<uint16_t>(value), out);
}
void Put32(uint64_t value, std::string* out) {
  AppendLittle(static_cast<uint32_t>(value), out);
}

// Returns the common fields of an entry's header and its directory record.
std::string FileFields(uint32_t crc, size_t size, const std::string& name) {
  std::string fields;
  Put16(kVersion, &fields);
  Put16(0, &fields);  // flags
  Put16(0, &fields);  // stored
  Put16(0, &fields);  // time
  Put16(kDate, &fields);
  Put32(crc, &fields);
  Put32(size, &fields);  // compressed
  Put32(size, &fields);
  Put16(name.size(), &fields);
  Put16(0, &fields);  // extra field
  return fields;
}

constexpr int64_t kEndBytes = 22;        // the record at the file's end
constexpr int64_t kEnd64Bytes = 56;      // the end record of Zip64
constexpr int64_t kLocator64Bytes = 20;  // the record with its place
constexpr int64_t kDirectoryBytes = 46;  // bytes of an entry, besides its texts
// Bytes before an entry's name and data.
constexpr int64_t kLocalBytes = 30;
constexpr int64_t kDeflateLimit = 1032;  // the greatest expansion of deflate
constexpr int64_t kUsualHeader = 4096;
constexpr int64_t kLongestHeader =
    65548;  // the longest header of NPY's version 1

// Sizes of an entry, and the place of its header.
struct EntrySizes {
  int64_t content = 0, stored = 0, offset = 0;
};

// Reads the sizes in a record of the directory, with its texts. Zip64 has those
// beyond 32 bits in an extra field, in this order. A size beyond the size of
// any file is INT64_MAX.
EntrySizes SizesOf(const unsigned char* fields) {
  uint64_t sizes[] = {LoadLittle<uint32_t>(fields + 24),
                      LoadLittle<uint32_t>(fields + 20),
                      LoadLittle<uint32_t>(fields + 42)};
  const unsigned char* extra =
      fields + kDirectoryBytes + LoadLittle<uint16_t>(fields + 28);
  const unsigned char* const end = extra + LoadLittle<uint16_t>(fields + 30);
  while (end - extra >= 4) {
    const unsigned char* value = extra + 4;
    extra =
        value + std::min<int64_t>(LoadLittle<uint16_t>(value - 2), end - value);
    if (LoadLittle<uint16_t>(value - 4) != 1) continue;
    for (uint64_t& size : sizes) {
      if (size != static_cast<uint64_t>(kMaxBytes) || extra - value < 8) {
        continue;
      }
      size = LoadLittle<uint64_t>(value);
      value += 8;
    }
    break;
  }
  for (uint64_t& size : sizes) size = std::min<uint64_t>(size, INT64_MAX);
  return {static_cast<int64_t>(sizes[0]), static_cast<int64_t>(sizes[1]),
          static_cast<int64_t>(sizes[2])};
}

}  // namespace

Status NpzReader::FindDirectory(int64_t file_bytes, int64_t* begin,
                                int64_t* bytes, int64_t* count) const {
  const int64_t tail_bytes = std::min<int64_t>(file_bytes, kEndBytes + 0xffff);
  std::vector<unsigned char> tail(static_cast<size_t>(tail_bytes));
  RINGLET_RETURN_IF_ERROR(
      file_->Read(file_bytes - tail_bytes, tail.data(), tail.size()));
  for (int64_t at = tail_bytes - kEndBytes; at >= 0; --at) {
    const unsigned char* end = tail.data() + at;
    if (LoadLittle<uint32_t>(end) != 0x06054b50 ||
        LoadLittle<uint16_t>(end + 20) != tail_bytes - at - kEndBytes) {
      continue;
    }
    *count = LoadLittle<uint16_t>(end + 10);
    *bytes = LoadLittle<uint32_t>(end + 12);
    *begin = LoadLittle<uint32_t>(end + 16);
    if (*count == kMaxArrays || *bytes == kMaxBytes || *begin == kMaxBytes) {
      return FindDirectory64(file_bytes - tail_bytes + at, begin, bytes, count);
    }
    if (LoadLittle<uint16_t>(end + 4) == 0 &&
        LoadLittle<uint16_t>(end + 8) == *count &&
        *begin + *bytes <= file_bytes - tail_bytes + at) {
      return Status();
    }
    return Corruption("%s: offset %" PRId64
                      ": the end of the zip archive names a directory that is "
                      "not in the file",
                      path_.c_str(), file_bytes - tail_bytes + at);
  }
  return Corruption(
      "%s: no end of a zip archive is in it: cut short, or no npz file",
      path_.c_str());
}

// Finds the directory by the records of Zip64, which stand before the end
// record.
Status NpzReader::FindDirectory64(int64_t end, int64_t* begin, int64_t* bytes,
                                  int64_t* count) const {
  unsigned char locator[kLocator64Bytes] = {}, record[kEnd64Bytes] = {};
  const int64_t before = end - kLocator64Bytes;
  if (before >= 0) {
    RINGLET_RETURN_IF_ERROR(file_->Read(before, locator, sizeof(locator)));
  }
  const auto at = LoadLittle<uint64_t>(locator + 8);
  const bool found = LoadLittle<uint32_t>(locator) == 0x07064b50 &&
                     before >= kEnd64Bytes &&
                     at <= static_cast<uint64_t>(before - kEnd64Bytes);
  if (found) {
    RINGLET_RETURN_IF_ERROR(
        file_->Read(static_cast<int64_t>(at), record, sizeof(record)));
  }
  const auto entries = LoadLittle<uint64_t>(record + 32);
  const auto size = LoadLittle<uint64_t>(record + 40);
  const auto start = LoadLittle<uint64_t>(record + 48);
  if (!found || LoadLittle<uint32_t>(record) != 0x06064b50 ||
      LoadLittle<uint32_t>(record + 16) != 0 ||
      LoadLittle<uint64_t>(record + 24) != entries || size > at ||
      start > at - size || entries > size) {
    return Corruption("%s: offset %" PRId64
                      ": the end of the zip archive has no directory of Zip64 "
                      "before it",
                      path_.c_str(), end);
  }
  *begin = static_cast<int64_t>(start);
  *bytes = static_cast<int64_t>(size);
  *count = static_cast<int64_t>(entries);
  return Status();
}

Status NpzReader::CheckEntry(const std::string& where,
                             const StoredTensor& tensor, const Entry& entry,
                             int flags, int method) const {
  if ((flags & 1) != 0) {
    return Error(Code::kUnimplemented, "%s: is encrypted; save it without",
                 where.c_str());
  }
  if (method != 0 && method != 8) {
    return Error(
        Code::kUnimplemented,
        "%s: is compressed by method %d; ringlet reads what numpy's savez and "
        "savez_compressed write",
        where.c_str(), method);
  }
  if (method == 8 && std::max(entry.size, tensor.bytes) >= kMaxBytes) {
    return Error(Code::kUnimplemented,
                 "%s: is compressed, and has 4 GiB or more; save it by "
                 "numpy.savez",
                 where.c_str());
  }
  const bool possible = method == 0
                            ? entry.size == tensor.bytes
                            : entry.size / kDeflateLimit <= tensor.bytes;
  if (!possible || entry.size < 1) {
    return Corruption("%s: %" PRId64 " bytes cannot be the content of %" PRId64,
                      where.c_str(), entry.size, tensor.bytes);
  }
  if (static_cast<uint64_t>(entry.size) > SIZE_MAX / 4) {
    return ResourceExhausted("%s: %" PRId64 " bytes do not fit this machine",
                             where.c_str(), entry.size);
  }
  return Status();
}

// Reads the header of the data, which end before `end`.
Status NpzReader::FindData(const std::string& where,
                           const std::string& file_name, int64_t end,
                           StoredTensor* tensor) const {
  unsigned char local[kLocalBytes];
  const int64_t at = tensor->offset;
  if (at > end - kLocalBytes) {
    return Corruption("%s: offset %" PRId64 " is not before the directory",
                      where.c_str(), at);
  }
  RINGLET_RETURN_IF_ERROR(file_->Read(at, local, sizeof(local)));
  const size_t name_bytes =
      static_cast<size_t>(LoadLittle<uint16_t>(local + 26));
  tensor->offset = at + kLocalBytes + static_cast<int64_t>(name_bytes) +
                   LoadLittle<uint16_t>(local + 28);
  if (LoadLittle<uint32_t>(local) != 0x04034b50 ||
      name_bytes != file_name.size() || tensor->offset > end - tensor->bytes) {
    return Corruption("%s: offset %" PRId64 ": is not where its data are",
                      where.c_str(), at);
  }
  std::string name(name_bytes, '\0');
  RINGLET_RETURN_IF_ERROR(file_->Read(at + kLocalBytes, &name[0], name_bytes));
  if (name == file_name) return Status();
  return Corruption("%s: offset %" PRId64 ": the data there are of '%s'",
                    where.c_str(), at, Printable(name).c_str());
}

// Reads up to `max_bytes` bytes of the entry's content, inflated.
Status NpzReader::ReadContentStart(const std::string& where,
                                   const StoredTensor& tensor,
                                   const Entry& entry, int64_t max_bytes,
                                   std::vector<unsigned char>* start) const {
  std::vector<unsigned char> stored(
      static_cast<size_t>(std::min(tensor.bytes, 2 * max_bytes)));
  RINGLET_RETURN_IF_ERROR(
      file_->Read(tensor.offset, stored.data(), stored.size()));
  if (!entry.deflated) {
    start->swap(stored);
    return Status();
  }
  start->resize(static_cast<size_t>(std::min(entry.size, max_bytes)));
  size_t content_bytes = 0;
  bool ended = false;
  if (!InflateRaw(stored.data(), stored.size(), start->data(), start->size(),
                  &content_bytes, &ended)) {
    return Corruption("%s: damaged deflate data", where.c_str());
  }
  start->resize(content_bytes);
  return Status();
}

Status NpzReader::ReadNpyHeader(const std::string& where, StoredTensor* tensor,
                                Entry* entry) const {
  NpyLayout* layout = &entry->layout;
  std::vector<unsigned char> start;
  Status parsed;
  // A file may have thousands of arrays.
  for (const int64_t max_bytes : {kUsualHeader, kLongestHeader}) {
    RINGLET_RETURN_IF_ERROR(
        ReadContentStart(where, *tensor, *entry, max_bytes, &start));
    parsed = ParseNpyHeader(where, start.data(), start.size(), entry->size,
                            layout, &entry->data_at);
    if (parsed.ok() || !layout->unread.empty()) break;
  }
  tensor->unread = layout->unread;
  if (!tensor->unread.empty()) return Status();  // other arrays can be read
  RINGLET_RETURN_IF_ERROR(parsed);
  tensor->storage = layout->storage();
  tensor->shape = layout->shape;
  const int64_t bytes = layout->stored_bytes();
  if (entry->data_at + bytes == entry->size) return Status();
  return Corruption("%s: %" PRId64 " bytes, but its header says %" PRId64,
                    where.c_str(), entry->size, entry->data_at + bytes);
}

// Adds the entry with these fields of the directory, which begins at `end`.
// *data_bytes: the bytes of the entries before it.
Status NpzReader::AddEntry(const unsigned char* fields, int64_t end,
                           int64_t* data_bytes) {
  const std::string file_name(
      reinterpret_cast<const char*>(fields) + kDirectoryBytes,
      static_cast<size_t>(LoadLittle<uint16_t>(fields + 28)));
  const std::string where = path_ + ": '" + Printable(file_name) + "'";
  if (!EndsWith(file_name, ".npy")) {
    return InvalidArgument(
        "%s: is not an .npy file, so this is not an npz archive; of PyTorch's "
        "own files save the state_dict with numpy.savez or as safetensors",
        where.c_str());
  }
  const EntrySizes sizes = SizesOf(fields);
  if (sizes.stored > end - *data_bytes || sizes.offset > end) {
    return Corruption("%s: more data than the file has", where.c_str());
  }
  *data_bytes += sizes.stored;
  StoredTensor tensor;
  tensor.name = WithoutSuffix(file_name, ".npy");
  tensor.crc = LoadLittle<uint32_t>(fields + 16);
  tensor.bytes = sizes.stored;
  tensor.offset = sizes.offset;
  Entry entry;
  entry.size = sizes.content;
  const int method = LoadLittle<uint16_t>(fields + 10);
  entry.deflated = method == 8;
  RINGLET_RETURN_IF_ERROR(CheckEntry(where, tensor, entry,
                                     LoadLittle<uint16_t>(fields + 8), method));
  RINGLET_RETURN_IF_ERROR(FindData(where, file_name, end, &tensor));
  RINGLET_RETURN_IF_ERROR(ReadNpyHeader(where, &tensor, &entry));
  if (!by_name_.emplace(tensor.name, tensors_.size()).second) {
    return Corruption("%s: is given twice", where.c_str());
  }
  tensors_.push_back(std::move(tensor));
  entries_.push_back(entry);
  return Status();
}

Status NpzReader::ReadDirectory(const std::vector<unsigned char>& directory,
                                int64_t begin, int64_t count) {
  const int64_t bytes = static_cast<int64_t>(directory.size());
  // Without this sum entries with common data would have no limit.
  int64_t data_bytes = 0;
  for (int64_t i = 0, at = 0; i < count; ++i) {
    const unsigned char* const fields = directory.data() + at;
    const auto length = [fields](int place) {
      return int64_t{LoadLittle<uint16_t>(fields + place)};
    };
    if (at > bytes - kDirectoryBytes ||
        LoadLittle<uint32_t>(fields) != 0x02014b50 ||
        at + kDirectoryBytes + length(28) + length(30) > bytes) {
      return Corruption("%s: offset %" PRId64 ": no entry of a zip directory",
                        path_.c_str(), begin + at);
    }
    RINGLET_RETURN_IF_ERROR(AddEntry(fields, begin, &data_bytes));
    at += kDirectoryBytes + length(28) + length(30) + length(32);
  }
  return Status();
}

Status NpzReader::Open(FileSystem* files, const std::string& path) {
  *this = NpzReader();
  path_ = path;
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  file_ = std::move(file);
  int64_t begin = 0, bytes = 0, count = 0;
  RINGLET_RETURN_IF_ERROR(file_->Version(&version_));
  RINGLET_RETURN_IF_ERROR(
      FindDirectory(version_.bytes, &begin, &bytes, &count));
  std::vector<unsigned char> directory(static_cast<size_t>(bytes));
  RINGLET_RETURN_IF_ERROR(
      file_->Read(begin, directory.data(), directory.size()));
  return ReadDirectory(directory, begin, count);
}

Status NpzReader::ReadStored(const StoredTensor& tensor,
                             std::vector<unsigned char>* stored) const {
  stored->resize(static_cast<size_t>(tensor.bytes));
  return file_->Read(tensor.offset, stored->data(), stored->size());
}

Status NpzReader::Damaged(const StoredTensor& tensor, const char* fault) const {
  return Corruption("%s: '%s': %s; take another copy of it", path_.c_str(),
                    Printable(tensor.name).c_str(), fault);
}

Status NpzReader::CheckContent(const StoredTensor& tensor,
                               const std::vector<unsigned char>& stored) const {
  const Entry& entry = EntryOf(tensor);
  const uint64_t size = static_cast<uint64_t>(entry.size);
  uint64_t inflated_bytes = size;
  uint32_t crc = 0;
  bool is_whole = true;
  if (entry.deflated) {
    is_whole =
        MeasureRaw(stored.data(), stored.size(), size, &crc, &inflated_bytes) &&
        inflated_bytes == size;
  } else {
    crc = Crc32(stored.data(), stored.size());
  }
  if (!is_whole) return Damaged(tensor, "damaged deflate data");
  return crc == tensor.crc ? Status() : Damaged(tensor, "its CRC-32 differs");
}

Status NpzReader::VerifyTensor(const StoredTensor& tensor) const {
  std::vector<unsigned char> stored;
  RINGLET_RETURN_IF_ERROR(ReadStored(tensor, &stored));
  return CheckContent(tensor, stored);
}

Status NpzReader::Verify() const {
  for (const StoredTensor& tensor : tensors_) {
    RINGLET_RETURN_IF_ERROR(VerifyTensor(tensor));
  }
  return Status();
}

Status NpzReader::ReadBytes(const StoredTensor& tensor,
                            const Memory& memory) const {
  const Entry& entry = EntryOf(tensor);
  if (!tensor.unread.empty()) {
    return InvalidArgument("%s: '%s': elements of type %s are not read",
                           path_.c_str(), Printable(tensor.name).c_str(),
                           tensor.unread.c_str());
  }
  const size_t begin = static_cast<size_t>(entry.data_at);
  const size_t count = static_cast<size_t>(entry.layout.stored_bytes());
  if (entry.deflated) {
    std::vector<unsigned char> stored;
    RINGLET_RETURN_IF_ERROR(ReadStored(tensor, &stored));
    RINGLET_RETURN_IF_ERROR(CheckContent(tensor, stored));
    size_t inflated_bytes = 0;
    bool ended = false;
    if (count == 0 || InflateRaw(stored.data(), stored.size(), memory(), count,
                                 &inflated_bytes, &ended, begin)) {
      return Status();
    }
    return ResourceExhausted("%s: no memory to unpack it", path_.c_str());
  }
  std::vector<unsigned char> header(begin);
  RINGLET_RETURN_IF_ERROR(file_->Read(tensor.offset, header.data(), begin));
  unsigned char* const bytes = memory();
  RINGLET_RETURN_IF_ERROR(
      file_->Read(tensor.offset + entry.data_at, bytes, count));
  return Crc32(bytes, count, Crc32(header.data(), begin)) == tensor.crc
             ? Status()
             : Damaged(tensor, "its CRC-32 differs");
}

Status NpzReader::Read(const StoredTensor& tensor, void* elements) const {
  const NpyLayout& layout = LayoutOf(tensor);
  if (layout.native() || !tensor.unread.empty()) {
    return ReadBytes(tensor,
                     [&] { return static_cast<unsigned char*>(elements); });
  }
  const std::string where = path_ + ": '" + Printable(tensor.name) + "'";
  if (layout.is_text()) {
    return InvalidArgument("%s: its elements are text", where.c_str());
  }
  std::vector<unsigned char> bytes;
  RINGLET_RETURN_IF_ERROR(ReadBytes(tensor, [&] {
    bytes.resize(static_cast<size_t>(layout.stored_bytes()));
    return bytes.data();
  }));
  return DecodeNumbers(where, layout, bytes.data(), elements);
}

Status NpzWriter::Write(const std::string& bytes) {
  RINGLET_RETURN_IF_ERROR(file_.file()->Write(bytes.data(), bytes.size()));
  offset_ += static_cast<int64_t>(bytes.size());
  return Status();
}

Status NpzWriter::Open(FileSystem* files, const std::string& path) {
  path_ = path;
  return file_.Open(files, path, 0);
}

Status NpzWriter::Add(const std::string& name, DType dtype, const Shape& shape,
                      const void* data) {
  const std::string file_name = name + ".npy";
  const size_t elements = static_cast<size_t>(shape.elements());
  const size_t size = elements * SizeOf(dtype);
  // An entry's headers take less than 4 KiB, and its name is there twice.
  if (name.size() > 1024 || count_ >= kMaxArrays ||
      static_cast<int64_t>(size) > kMaxBytes - offset_ -
                                       static_cast<int64_t>(directory_.size()) -
                                       8192) {
    return InvalidArgument(
        "%s: '%s' would make the file larger than an npz may be (4 GiB, 65535 "
        "arrays, names of 1024 bytes); write safetensors",
        path_.c_str(), name.c_str());
  }
  std::string content = NpyHeader(dtype, shape);
  const size_t header = content.size();
  content.resize(header + size);
  EncodeElements(StorageOf(dtype), data, elements,
                 reinterpret_cast<unsigned char*>(&content[header]));
  const uint32_t crc = Crc32(content.data(), content.size());
  const std::string fields = FileFields(crc, content.size(), file_name);

  std::string* entry = &directory_;
  Put32(0x02014b50, entry);
  Put16(kVersion, entry);  // made by
  *entry += fields;
  Put16(0, entry);  // comment
  Put16(0, entry);  // disk
  Put16(0, entry);  // internal attributes
  Put32(0, entry);  // external attributes
  Put32(static_cast<uint64_t>(offset_), entry);
  *entry += file_name;
  ++count_;

  std::string start;
  Put32(0x04034b50, &start);
  RINGLET_RETURN_IF_ERROR(Write(start + fields + file_name));
  return Write(content);
}

Status NpzWriter::Finish() {
  std::string end;
  Put32(0x06054b50, &end);
  Put32(0, &end);  // disks
  Put16(static_cast<uint64_t>(count_), &end);
  Put16(static_cast<uint64_t>(count_), &end);
  Put32(directory_.size(), &end);
  Put32(static_cast<uint64_t>(offset_), &end);
  Put16(0, &end);  // comment
  RINGLET_RETURN_IF_ERROR(Write(directory_ + end));
  return file_.Commit();
}

}  // namespace ringlet
