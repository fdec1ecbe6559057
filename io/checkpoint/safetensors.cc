#include "safetensors.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <set>

#include "../../core/base/byte_order.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/float16.h"
#include "../../core/base/json.h"
#include "../../core/base/text.h"

namespace ringlet {

namespace {

constexpr char kFooterName[] = "ringlet.footer";
constexpr char kFooterMagic[] = "rgltftr1";  // 8 bytes; the 1 is its version
constexpr char kFormatVersion[] = "1";
constexpr size_t kFooterFixedBytes = 20;  // before the tensors' checksums
constexpr size_t kAlignment = 64;
constexpr size_t kPieceBytes = 256 << 10;
constexpr int64_t kLargest = int64_t{1} << 53;  // exact in JSON's numbers

struct StorageTraits {
  Storage storage;
  const char* name;
  size_t bytes;
  DType dtype;
};
constexpr StorageTraits kStorages[] = {
    {Storage::kF32, "F32", 4, DType::kFloat32},
    {Storage::kF64, "F64", 8, DType::kFloat64},
    {Storage::kI32, "I32", 4, DType::kInt32},
    {Storage::kI64, "I64", 8, DType::kInt64},
    {Storage::kU8, "U8", 1, DType::kUint8},
    {Storage::kF16, "F16", 2, DType::kFloat32},
    {Storage::kBF16, "BF16", 2, DType::kFloat32},
};

const StorageTraits& TraitsOf(Storage storage) {
  return kStorages[static_cast<size_t>(storage)];
}

bool StorageNamed(const std::string& name, Storage* storage) {
  for (const StorageTraits& traits : kStorages) {
    if (name == traits.name) {
      *storage = traits.storage;
      return true;
    }
  }
  return false;
}

// Whether elements in memory are the file's bytes.
bool SameInMemory(Storage storage) {
  return storage == Storage::kU8 ||
         (!kBigEndian && storage != Storage::kF16 && storage != Storage::kBF16);
}

// Few, long writes: small ones are gathered, large ones go through.
class Output {
 public:
  explicit Output(File* file) : file_(file) { gathered_.reserve(kPieceBytes); }

  Status Append(const void* data, size_t bytes) {
    if (bytes == 0) return Status();
    if (gathered_.size() + bytes > kPieceBytes) {
      RINGLET_RETURN_IF_ERROR(Flush());
    }
    if (bytes > kPieceBytes) return file_->Write(data, bytes);
    const unsigned char* from = static_cast<const unsigned char*>(data);
    gathered_.insert(gathered_.end(), from, from + bytes);
    return Status();
  }

  Status Flush() {
    const Status status = file_->Write(gathered_.data(), gathered_.size());
    gathered_.clear();
    return status;
  }

 private:
  File* file_;
  std::vector<unsigned char> gathered_;
};

// Writes one tensor and takes its checksum.
Status AppendTensor(const StateSpan& span, Storage storage, Output* output,
                    uint32_t* crc) {
  *crc = 0;
  if (SameInMemory(storage)) {
    *crc = Crc32c(span.data, span.bytes());
    return output->Append(span.data, span.bytes());
  }
  const size_t in_memory = SizeOf(span.dtype), in_file = SizeOf(storage);
  const size_t count = span.bytes() / in_memory;
  std::vector<unsigned char> piece(std::min(count * in_file, kPieceBytes));
  const size_t most = kPieceBytes / in_file;
  for (size_t done = 0; done < count;) {
    const size_t n = std::min(most, count - done);
    EncodeElements(storage,
                   static_cast<const char*>(span.data) + done * in_memory, n,
                   piece.data());
    *crc = Crc32c(piece.data(), n * in_file, *crc);
    RINGLET_RETURN_IF_ERROR(output->Append(piece.data(), n * in_file));
    done += n;
  }
  return Status();
}

// shape's product times the element's size, or -1 beyond kLargest.
int64_t BytesOf(const Shape& shape, Storage storage) {
  int64_t bytes = static_cast<int64_t>(SizeOf(storage));
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] > 0 && bytes > kLargest / shape[i]) return -1;
    bytes *= shape[i];
  }
  return bytes;
}

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

// One member of the header; offsets from the data's begin.
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
  const int64_t bytes = BytesOf(tensor->shape, tensor->storage);
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

// What a JSON string of every reader can hold.
bool IsText(const std::string& text) {
  return text.find('\0') == std::string::npos && EndOfUtf8(text) == text.size();
}

bool IsRinglets(const Metadata& metadata) {
  const auto format = metadata.find("format");
  return format != metadata.end() && format->second == "ringlet";
}

}  // namespace

const char* NameOf(Storage storage) { return TraitsOf(storage).name; }
size_t SizeOf(Storage storage) { return TraitsOf(storage).bytes; }
DType DTypeOf(Storage storage) { return TraitsOf(storage).dtype; }

Storage StorageOf(DType dtype) {
  for (const StorageTraits& traits : kStorages) {
    if (traits.dtype == dtype) return traits.storage;  // the exact are first
  }
  RINGLET_CHECK(false);
  return Storage::kF32;
}

void EncodeElements(Storage storage, const void* elements, size_t count,
                    unsigned char* bytes) {
  const float* floats = static_cast<const float*>(elements);
  if (storage == Storage::kF16) {
    for (size_t i = 0; i < count; ++i) {
      StoreLittle(Float16OfFloat(floats[i]), bytes + 2 * i);
    }
  } else if (storage == Storage::kBF16) {
    for (size_t i = 0; i < count; ++i) {
      StoreLittle(BFloat16OfFloat(floats[i]), bytes + 2 * i);
    }
  } else if (count > 0) {
    std::memcpy(bytes, elements, count * SizeOf(storage));
    SwapToLittle(bytes, SizeOf(storage), count);
  }
}

void DecodeElements(Storage storage, const unsigned char* bytes, size_t count,
                    void* elements) {
  float* floats = static_cast<float*>(elements);
  const auto half = [bytes](size_t i) {
    return LoadLittle<uint16_t>(bytes + 2 * i);
  };
  if (storage == Storage::kF16) {
    for (size_t i = 0; i < count; ++i) floats[i] = FloatOfFloat16(half(i));
  } else if (storage == Storage::kBF16) {
    for (size_t i = 0; i < count; ++i) floats[i] = FloatOfBFloat16(half(i));
  } else if (count > 0) {
    std::memcpy(elements, bytes, count * SizeOf(storage));
    SwapToLittle(elements, SizeOf(storage), count);
  }
}

// --- reading ----------------------------------------------------------------

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
    return Corruption("%s: %" PRId64 " bytes are no safetensors file",
                      path_.c_str(), file_bytes);
  }
  RINGLET_RETURN_IF_ERROR(file_->Read(0, length_bytes, 8));
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
  // Tensors without elements go before the one that begins where they do.
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const StoredTensor& a, const StoredTensor& b) {
                     return a.offset != b.offset ? a.offset < b.offset
                                                 : a.bytes < b.bytes;
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
    return Corruption("%s: %" PRId64 " bytes, but its header speaks of %" PRId64
                      "; it was cut short, or damaged",
                      path_.c_str(), file_bytes, data_begin + end);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
  return Status();
}

Status SafetensorsReader::ReadFooter(int64_t file_bytes) {
  const StoredTensor* found = Find(kFooterName);
  if (found == nullptr) {
    if (!IsRinglets(metadata_)) return Status();  // a plain file
    return Corruption("%s: a ringlet checkpoint without its footer",
                      path_.c_str());
  }
  const auto bad = [this](const char* what) {
    return Corruption("%s: the footer %s; the file is damaged", path_.c_str(),
                      what);
  };
  const StoredTensor footer = *found;
  if (footer.name != tensors_.back().name) return bad("is not at the end");
  tensors_.pop_back();
  by_name_.erase(kFooterName);
  // What may be longer in a later version begins alike in all of them.
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
    return bad("tells another length of the file");
  }
  if (LoadLittle<uint32_t>(&fixed[16]) != header_crc_) {
    return bad("tells another checksum of the header");
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

const StoredTensor* SafetensorsReader::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
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

// --- writing ----------------------------------------------------------------

Status SafetensorsWriter::CheckNames(const Metadata& metadata) const {
  if (static_cast<int64_t>(entries_.size()) >= SafetensorsLimits::kTensors) {
    return InvalidArgument(
        "%zu tensors; a checkpoint holds fewer than %" PRId64, entries_.size(),
        SafetensorsLimits::kTensors);
  }
  std::set<std::string> names;
  for (const Entry& entry : entries_) {
    const std::string& name = entry.span.name;
    if (name.empty() || !IsText(name) || name == kFooterName ||
        name == "__metadata__") {
      return InvalidArgument(
          "'%s' is not a name that a tensor may have: UTF-8 without the "
          "character zero, and none of the format's own",
          Printable(name).c_str());
    }
    if (!names.insert(name).second) {
      return InvalidArgument("two tensors are named '%s'",
                             Printable(name).c_str());
    }
  }
  for (const auto& [key, value] : metadata) {
    if (!IsText(key) || !IsText(value)) {
      return InvalidArgument(
          "metadata '%s' holds a character zero, or is not UTF-8",
          Printable(key).c_str());
    }
  }
  return Status();
}

std::string SafetensorsWriter::HeaderText(const Metadata& metadata) const {
  JsonWriter json;
  json.BeginObject();
  if (!metadata.empty()) {
    json.Key("__metadata__").BeginObject();
    for (const auto& [key, value] : metadata) json.Key(key).String(value);
    json.EndObject();
  }
  int64_t end = 0;
  const auto add = [&](const std::string& name, Storage storage,
                       const Shape& shape) {
    json.Key(name).BeginObject();
    json.Key("dtype").String(NameOf(storage)).Key("shape").BeginArray();
    for (int i = 0; i < shape.rank(); ++i) json.Int(shape[i]);
    json.EndArray().Key("data_offsets").BeginArray().Int(end);
    end += BytesOf(shape, storage);
    json.Int(end).EndArray().EndObject();
  };
  for (const Entry& entry : entries_) {
    add(entry.span.name, entry.storage, entry.span.shape);
  }
  const size_t footer_bytes = kFooterFixedBytes + 4 * entries_.size();
  if (options_.profile) {
    add(kFooterName, Storage::kU8, {static_cast<int64_t>(footer_bytes)});
  }
  return json.EndObject().text();
}

Status SafetensorsWriter::Plan(const std::vector<StateSpan>& spans,
                               Metadata metadata, const Options& options) {
  options_ = options;
  entries_.clear();
  if (DTypeOf(options.weights) != DType::kFloat32) {
    return InvalidArgument("weights are stored as F32, F16 or BF16, not %s",
                           NameOf(options.weights));
  }
  file_bytes_ = 0;
  for (const StateSpan& span : spans) {
    const bool weight =
        span.dtype == DType::kFloat32 && StartsWith(span.name, kWeightsPrefix);
    const Storage storage = weight ? options.weights : StorageOf(span.dtype);
    entries_.push_back({span, storage});
    file_bytes_ += BytesOf(span.shape, storage);
  }
  RINGLET_RETURN_IF_ERROR(CheckNames(metadata));
  if (options.profile) {
    metadata["format"] = "ringlet";
    metadata["format_version"] = kFormatVersion;
    file_bytes_ +=
        static_cast<int64_t>(kFooterFixedBytes + 4 * entries_.size());
  }
  std::string text = HeaderText(metadata);
  text.resize((text.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8,
              ' ');
  if (text.size() > SafetensorsLimits::kHeaderBytes) {
    return InvalidArgument("the header takes %zu bytes; it may have %" PRId64
                           ". Shorten the metadata or the tensors' names",
                           text.size(), SafetensorsLimits::kHeaderBytes);
  }
  header_.clear();
  AppendLittle(uint64_t{text.size()}, &header_);
  header_ += text;
  file_bytes_ += static_cast<int64_t>(header_.size());
  return Status();
}

Status SafetensorsWriter::Write(File* file) const {
  std::vector<unsigned char> footer(kFooterFixedBytes + 4 * entries_.size());
  std::memcpy(footer.data(), kFooterMagic, 8);
  StoreLittle(static_cast<uint64_t>(file_bytes_), &footer[8]);
  StoreLittle(Crc32c(header_.data(), header_.size()), &footer[16]);
  Output output(file);
  RINGLET_RETURN_IF_ERROR(output.Append(header_.data(), header_.size()));
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint32_t crc = 0;
    RINGLET_RETURN_IF_ERROR(
        AppendTensor(entries_[i].span, entries_[i].storage, &output, &crc));
    StoreLittle(crc, &footer[kFooterFixedBytes + 4 * i]);
  }
  if (options_.profile) {
    RINGLET_RETURN_IF_ERROR(output.Append(footer.data(), footer.size()));
  }
  return output.Flush();
}

}  // namespace ringlet
