// Plan decides every offset, and Write writes in one sequential pass. Checksums
// cover the bytes in the file's form. The data begin 64-byte aligned, in the
// order of the spans.

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <set>

#include "../../core/base/byte_order.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/json.h"
#include "../../core/base/state_names.h"
#include "../../core/base/text.h"
#include "../files/atomic_file.h"
#include "footer.h"
#include "safetensors.h"

namespace ringlet {

namespace {

constexpr size_t kAlignment = 64;  // the first tensor's bytes are aligned to it

// Collects small writes into large ones; large ones are passed on.
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

// Writes one tensor and computes its checksum.
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
  const size_t max_count = kPieceBytes / in_file;
  for (size_t done = 0; done < count;) {
    const size_t n = std::min(max_count, count - done);
    EncodeElements(storage,
                   static_cast<const char*>(span.data) + done * in_memory, n,
                   piece.data());
    *crc = Crc32c(piece.data(), n * in_file, *crc);
    RINGLET_RETURN_IF_ERROR(output->Append(piece.data(), n * in_file));
    done += n;
  }
  return Status();
}

// True if every reader's JSON strings can have this text.
bool IsText(const std::string& text) {
  return text.find('\0') == std::string::npos &&
         ValidUtf8Bytes(text) == text.size();
}

}  // namespace

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
    json.Key("dtype").String(StorageName(storage)).Key("shape").BeginArray();
    for (int i = 0; i < shape.rank(); ++i) json.Int(shape[i]);
    json.EndArray().Key("data_offsets").BeginArray().Int(end);
    end += StoredBytes(shape, storage);
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
                           StorageName(options.weights));
  }
  file_bytes_ = 0;
  for (const StateSpan& span : spans) {
    const bool weight =
        span.dtype == DType::kFloat32 && StartsWith(span.name, kWeightsPrefix);
    const Storage storage = weight ? options.weights : StorageOf(span.dtype);
    entries_.push_back({span, storage});
    file_bytes_ += StoredBytes(span.shape, storage);
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

std::string SafetensorsWriter::FooterStart() const {
  std::string footer(kFooterMagic, 8);
  AppendLittle(static_cast<uint64_t>(file_bytes_), &footer);
  AppendLittle(Crc32c(header_.data(), header_.size()), &footer);
  return footer;
}

Status SafetensorsWriter::WriteFile(FileSystem* files,
                                    const std::string& path) const {
  AtomicFile file;
  RINGLET_RETURN_IF_ERROR(file.Open(files, path, file_bytes()));
  RINGLET_RETURN_IF_ERROR(Write(file.file()));
  return file.Commit();
}

Status SafetensorsWriter::Write(File* file) const {
  std::string footer = FooterStart();
  Output output(file);
  RINGLET_RETURN_IF_ERROR(output.Append(header_.data(), header_.size()));
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint32_t crc = 0;
    RINGLET_RETURN_IF_ERROR(
        AppendTensor(entries_[i].span, entries_[i].storage, &output, &crc));
    AppendLittle(crc, &footer);
  }
  if (options_.profile) {
    RINGLET_RETURN_IF_ERROR(output.Append(footer.data(), footer.size()));
  }
  return output.Flush();
}

}  // namespace ringlet
