#include "npz.h"

#include "input_file.h"
#include "npy.h"
#include "safetensors.h"

namespace ringlet {
namespace {

constexpr int64_t kMostBytes = 0xffffffff;
constexpr int64_t kMostArrays = 0xffff;
constexpr uint64_t kVersion = 20;
constexpr uint64_t kDate = 0x21;  // 1980-01-01: of equal arrays equal files

// `bytes` bytes of `value`, the lowest first.
void Append(std::string* text, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    *text += static_cast<char>(value >> (8 * i) & 255);
  }
}

// What the header before a file and its entry in the directory share.
std::string FileFields(uint32_t crc, size_t size, const std::string& name) {
  std::string fields;
  Append(&fields, kVersion, 2);
  Append(&fields, 0, 2);  // flags
  Append(&fields, 0, 2);  // stored
  Append(&fields, 0, 2);  // time
  Append(&fields, kDate, 2);
  Append(&fields, crc, 4);
  Append(&fields, size, 4);  // compressed
  Append(&fields, size, 4);
  Append(&fields, name.size(), 2);
  Append(&fields, 0, 2);  // extra field
  return fields;
}

}  // namespace

Status NpzWriter::Write(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    size_t written = 0;
    RINGLET_RETURN_IF_ERROR(file_.file()->WriteSome(
        bytes.data() + done, bytes.size() - done, &written));
    done += written;
  }
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
  // The headers around a file take less than 4 KiB besides its name, twice.
  if (name.size() > 1024 || count_ >= kMostArrays ||
      static_cast<int64_t>(size) > kMostBytes - offset_ -
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
  Append(entry, 0x02014b50, 4);
  Append(entry, kVersion, 2);  // made by
  *entry += fields;
  Append(entry, 0, 2);  // comment
  Append(entry, 0, 2);  // disk
  Append(entry, 0, 2);  // internal attributes
  Append(entry, 0, 4);  // external attributes
  Append(entry, static_cast<uint64_t>(offset_), 4);
  *entry += file_name;
  ++count_;

  std::string start;
  Append(&start, 0x04034b50, 4);
  RINGLET_RETURN_IF_ERROR(Write(start + fields + file_name));
  return Write(content);
}

Status NpzWriter::Finish() {
  std::string end;
  Append(&end, 0x06054b50, 4);
  Append(&end, 0, 4);  // disks
  Append(&end, static_cast<uint64_t>(count_), 2);
  Append(&end, static_cast<uint64_t>(count_), 2);
  Append(&end, directory_.size(), 4);
  Append(&end, static_cast<uint64_t>(offset_), 4);
  Append(&end, 0, 2);  // comment
  RINGLET_RETURN_IF_ERROR(Write(directory_ + end));
  return file_.Commit();
}

}  // namespace ringlet
