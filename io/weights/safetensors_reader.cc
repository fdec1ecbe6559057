// The whole header is checked before a byte of a tensor is read. Ranges are in
// order, without holes, up to the end of the file, and each has the length of
// its shape. So Read needs no further checks of offsets. A length from the file
// is compared with the file's length before memory is allocated for it.

#include "safetensors.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "../../core/base/byte_order.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/json.h"
#include "../../core/base/stable_sort.h"
#include "../../core/base/text.h"
#include "../files/file_system.h"
#include "../files/sealed_format.h"
#include "footer.h"

namespace ringlet {

namespace {

Status ParseShape(const Json& json, const std::string& where, Shape* shape) {
  if (!json.is_array()) {
    return Corruption("%s: \"shape\" is not a list", where.c_str());
  }
  for (Json m = json.first(); m; m = m.next()) {
    int64_t dim = 0;
    if (!m.ToInt64(&dim) || dim < 0) {
      return Corruption("%s: a dimension is not a count", where.c_str());
    }
    if (shape->rank() == Shape::kMaxRank) {
      return Corruption("%s: more than %d dimensions", where.c_str(),
                        Shape::kMaxRank);
    }
    shape->Append(dim);
  }
  return Status();
}

// Parses one member of the header. Offsets count from the start of the data.
Status ParseTensor(const Json& json, const std::string& path,
                   StoredTensor* tensor) {
  tensor->name = json.key();
  const std::string where = path + ": tensor '" + Printable(tensor->name) + "'";
  if (!json.is_object() || tensor->name.empty()) {
    return Corruption("%s: no description of a tensor", where.c_str());
  }
  const std::string dtype = json["dtype"].text();
  if (!StorageNamed(dtype, &tensor->storage)) {
    return Corruption(
        "%s: dtype \"%s\"; ringlet reads F32, F64, I32, I64, U8, "
        "F16 and BF16",
        where.c_str(), Printable(dtype).c_str());
  }
  RINGLET_RETURN_IF_ERROR(ParseShape(json["shape"], where, &tensor->shape));
  const Json offsets = json["data_offsets"];
  int64_t begin = 0, end = 0;
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets.first().ToInt64(&begin) ||
      !offsets.first().next().ToInt64(&end) || begin < 0 || end < begin) {
    return Corruption("%s: \"data_offsets\" are not a begin and an end",
                      where.c_str());
  }
  const int64_t bytes = StoredBytes(tensor->shape, tensor->storage);
  if (bytes != end - begin) {
    return Corruption("%s: %s of shape %s does not take the %" PRId64
                      " bytes of its data_offsets",
                      where.c_str(), dtype.c_str(),
                      tensor->shape.ToString().c_str(), end - begin);
  }
  tensor->offset = begin;
  tensor->bytes = bytes;
  return Status();
}

Status ParseMetadata(const Json& json, const std::string& path,
                     Metadata* metadata) {
  if (!json.is_object()) {
    return Corruption("%s: \"__metadata__\" is not an object", path.c_str());
  }
  for (Json m = json.first(); m; m = m.next()) {
    if (!m.is_string()) {
      return Corruption("%s: \"__metadata__\": '%s' is not a string",
                        path.c_str(), Printable(m.key()).c_str());
    }
    (*metadata)[m.key()] = m.text();
  }
  return Status();
}

}  // namespace

bool IsRinglets(const Metadata& metadata) {
  const auto format = metadata.find("format");
  return format != metadata.end() && format->second == "ringlet";
}

Status SafetensorsReader::Open(FileSystem* files, const std::string& path) {
  *this = SafetensorsReader();
  path_ = path;
  std::unique_ptr<File> file;
  RINGLET_RETURN_IF_ERROR(files->Open(path, &file));
  file_ = std::move(file);
  int64_t file_bytes = 0;
  RINGLET_RETURN_IF_ERROR(file_->Size(&file_bytes));
  RINGLET_RETURN_IF_ERROR(ReadHeader(file_bytes));
  return ReadFooter(file_bytes);
}

Status SafetensorsReader::ReadHeader(int64_t file_bytes) {
  unsigned char length_bytes[8];
  if (file_bytes < 8) {
    return Corruption("%s: %" PRId64 " bytes are not a safetensors file",
                      path_.c_str(), file_bytes);
  }
  RINGLET_RETURN_IF_ERROR(file_->Read(0, length_bytes, 8));
  if (IsSealed(length_bytes)) return MissingKeyError(path_);
  const uint64_t length = LoadLittle<uint64_t>(length_bytes);
  if (length > SafetensorsLimits::kHeaderBytes ||
      length > static_cast<uint64_t>(file_bytes) - 8) {
    return Corruption(
        "%s: not a safetensors file, or cut short: a header of "
        "%" PRIu64 " bytes in a file of %" PRId64 " (at most %" PRId64 ")",
        path_.c_str(), length, file_bytes, SafetensorsLimits::kHeaderBytes);
  }
  std::string text(static_cast<size_t>(length), '\0');
  RINGLET_RETURN_IF_ERROR(file_->Read(8, &text[0], text.size()));
  header_crc_ = Crc32c(text.data(), text.size(), Crc32c(length_bytes, 8));
  RINGLET_RETURN_IF_ERROR(ParseHeader(text));
  return CheckRanges(8 + static_cast<int64_t>(length), file_bytes);
}

Status SafetensorsReader::ParseHeader(const std::string& text) {
  Json header;
  RINGLET_RETURN_IF_ERROR(Json::Parse(text, path_ + ": header", &header));
  if (!header.is_object()) {
    return Corruption("%s: the header is not an object", path_.c_str());
  }
  for (Json m = header.first(); m; m = m.next()) {
    if (m.key() == "__metadata__") {
      RINGLET_RETURN_IF_ERROR(ParseMetadata(m, path_, &metadata_));
      continue;
    }
    if (tensors_.size() == SafetensorsLimits::kTensors) {
      return Corruption("%s: more than %" PRId64 " tensors", path_.c_str(),
                        SafetensorsLimits::kTensors);
    }
    tensors_.emplace_back();
    RINGLET_RETURN_IF_ERROR(ParseTensor(m, path_, &tensors_.back()));
  }
  return Status();
}

Status SafetensorsReader::CheckRanges(int64_t data_begin, int64_t file_bytes) {
  // Empty tensors come before the tensor that begins at their offset.
  StableSort(&tensors_, [](const StoredTensor& a, const StoredTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  int64_t end = 0;
  for (StoredTensor& tensor : tensors_) {
    if (tensor.offset != end) {
      return Corruption("%s: tensor '%s' begins at %" PRId64
                        " of the data, but the one before ends at %" PRId64,
                        path_.c_str(), Printable(tensor.name).c_str(),
                        tensor.offset, end);
    }
    end += tensor.bytes;
    tensor.offset += data_begin;
    if (end > file_bytes) break;
  }
  if (end != file_bytes - data_begin) {
    return Corruption("%s: %" PRId64 " bytes, but its header says %" PRId64
                      "; it was cut short, or damaged",
                      path_.c_str(), file_bytes, data_begin + end);
  }
  IndexNames();
  return Status();
}

Status SafetensorsReader::ReadFooter(int64_t file_bytes) {
  const StoredTensor* found = Find(kFooterName);
  if (found == nullptr) {
    if (!IsRinglets(metadata_)) return Status();  // a plain file
    return Corruption("%s: a ringlet checkpoint without its footer",
                      path_.c_str());
  }
  const auto bad = [this](const char* fault) {
    return Corruption("%s: the footer %s; the file is damaged", path_.c_str(),
                      fault);
  };
  const StoredTensor footer = *found;
  if (footer.name != tensors_.back().name) return bad("is not at the end");
  tensors_.pop_back();
  by_name_.erase(kFooterName);
  // Later versions may be longer, and begin with the same fields.
  if (footer.storage != Storage::kU8 ||
      footer.bytes < static_cast<int64_t>(kFooterFixedBytes)) {
    return bad("is of the wrong size");
  }
  unsigned char fixed[kFooterFixedBytes];
  RINGLET_RETURN_IF_ERROR(file_->Read(footer.offset, fixed, sizeof(fixed)));
  if (std::memcmp(fixed, kFooterMagic, 8) != 0) {
    return bad("has another magic number");
  }
  if (LoadLittle<uint64_t>(&fixed[8]) != static_cast<uint64_t>(file_bytes)) {
    return bad("has another length of the file");
  }
  if (LoadLittle<uint32_t>(&fixed[16]) != header_crc_) {
    return bad("has another checksum of the header");
  }
  const std::string version = metadata_["format_version"];
  if (!IsRinglets(metadata_) || version != kFormatVersion) {
    return Error(Code::kUnimplemented,
                 "%s: checkpoint format '%s' version '%s'; this ringlet reads "
                 "version %s. Use a newer one",
                 path_.c_str(), Printable(metadata_["format"]).c_str(),
                 Printable(version).c_str(), kFormatVersion);
  }
  return ReadChecksums(footer);
}

Status SafetensorsReader::ReadChecksums(const StoredTensor& footer) {
  const size_t bytes = 4 * tensors_.size();
  if (footer.bytes != static_cast<int64_t>(kFooterFixedBytes + bytes)) {
    return Corruption("%s: a footer of %" PRId64 " bytes for %zu tensors",
                      path_.c_str(), footer.bytes, tensors_.size());
  }
  std::vector<unsigned char> checksums(bytes);
  RINGLET_RETURN_IF_ERROR(
      file_->Read(footer.offset + static_cast<int64_t>(kFooterFixedBytes),
                  checksums.data(), bytes));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].crc = LoadLittle<uint32_t>(&checksums[4 * i]);
  }
  verifiable_ = true;
  return Status();
}

Status SafetensorsReader::CheckCrc(const StoredTensor& tensor,
                                   uint32_t crc) const {
  if (!verifiable_ || crc == tensor.crc) return Status();
  return Corruption("%s: tensor '%s' (%" PRId64 " bytes at offset %" PRId64
                    ") has CRC32C %08" PRIx32 ", its footer says %08" PRIx32
                    "; the file is damaged",
                    path_.c_str(), Printable(tensor.name).c_str(), tensor.bytes,
                    tensor.offset, crc, tensor.crc);
}

Status SafetensorsReader::Verify() const {
  if (!verifiable_) {
    return Corruption("%s: has no checksums; it is not a ringlet checkpoint",
                      path_.c_str());
  }
  std::vector<unsigned char> piece(kPieceBytes);
  for (const StoredTensor& tensor : tensors_) {
    uint32_t crc = 0;
    for (int64_t done = 0; done < tensor.bytes;) {
      const size_t n = static_cast<size_t>(
          std::min<int64_t>(kPieceBytes, tensor.bytes - done));
      RINGLET_RETURN_IF_ERROR(
          file_->Read(tensor.offset + done, piece.data(), n));
      crc = Crc32c(piece.data(), n, crc);
      done += static_cast<int64_t>(n);
    }
    RINGLET_RETURN_IF_ERROR(CheckCrc(tensor, crc));
  }
  return Status();
}

Status SafetensorsReader::Read(const StoredTensor& tensor,
                               void* elements) const {
  RINGLET_RETURN_IF_ERROR(CheckAddressable(path_, tensor));
  if (SameInMemory(tensor.storage)) {
    const size_t bytes = static_cast<size_t>(tensor.bytes);
    RINGLET_RETURN_IF_ERROR(file_->Read(tensor.offset, elements, bytes));
    return CheckCrc(tensor, verifiable_ ? Crc32c(elements, bytes) : 0);
  }
  const size_t in_file = SizeOf(tensor.storage);
  const size_t in_memory = SizeOf(DTypeOf(tensor.storage));
  const size_t count = static_cast<size_t>(tensor.bytes) / in_file;
  std::vector<unsigned char> piece(std::min(count * in_file, kPieceBytes));
  uint32_t crc = 0;
  for (size_t done = 0; done < count;) {
    const size_t n = std::min(kPieceBytes / in_file, count - done);
    RINGLET_RETURN_IF_ERROR(
        file_->Read(tensor.offset + static_cast<int64_t>(done * in_file),
                    piece.data(), n * in_file));
    crc = Crc32c(piece.data(), n * in_file, crc);
    DecodeElements(tensor.storage, piece.data(), n,
                   static_cast<char*>(elements) + done * in_memory);
    done += n;
  }
  return CheckCrc(tensor, crc);
}

}  // namespace ringlet
