#include "protobuf_reader.h"

#include <algorithm>
#include <cinttypes>

namespace ringlet {

Status ProtobufReader::Damaged(const char* fault) const {
  return Corruption("byte %" PRId64 ": %s", at_, fault);
}

Status ProtobufReader::Byte(unsigned char* byte) {
  if (at_ >= end_) return Damaged("a field goes beyond its message");
  if (at_ < window_begin_ || at_ >= window_end_) {
    size_t got = 0;
    const auto max_bytes =
        static_cast<size_t>(std::min<int64_t>(sizeof(window_), end_ - at_));
    RINGLET_RETURN_IF_ERROR(file_->ReadSome(at_, window_, max_bytes, &got));
    if (got == 0) return Damaged("the file ends within a field");
    window_begin_ = at_;
    window_end_ = at_ + static_cast<int64_t>(got);
  }
  *byte = window_[at_++ - window_begin_];
  return Status();
}

Status ProtobufReader::Varint(uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    unsigned char byte = 0;
    RINGLET_RETURN_IF_ERROR(Byte(&byte));
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return Status();
  }
  return Damaged("a number has more than ten bytes");
}

Status ProtobufReader::Fixed(int bytes, Field* field) {
  field->begin = at_;
  for (int i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    RINGLET_RETURN_IF_ERROR(Byte(&byte));
    field->value |= uint64_t{byte} << (8 * i);
  }
  field->end = at_;
  return Status();
}

Status ProtobufReader::Next(Field* field, bool* has) {
  *field = Field();
  *has = at_ < end_;
  if (!*has) return Status();
  uint64_t key = 0;
  RINGLET_RETURN_IF_ERROR(Varint(&key));
  if (key >> 3 == 0 || key >> 32 != 0) return Damaged("no number of a field");
  field->number = static_cast<int>(key >> 3);
  field->type = static_cast<ProtobufType>(key & 7);
  switch (field->type) {
    case ProtobufType::kVarint:
      return Varint(&field->value);
    case ProtobufType::kFixed64:
      return Fixed(8, field);
    case ProtobufType::kFixed32:
      return Fixed(4, field);
    case ProtobufType::kBytes: {
      uint64_t bytes = 0;
      RINGLET_RETURN_IF_ERROR(Varint(&bytes));
      if (bytes > static_cast<uint64_t>(end_ - at_)) {
        return Damaged("a field goes beyond its message");
      }
      field->begin = at_;
      field->end = at_ += static_cast<int64_t>(bytes);
      return Status();
    }
  }
  return Damaged("a field of no known type");
}

Status ProtobufReader::Text(const Field& field, std::string* text) const {
  constexpr int64_t kMax = 4096;
  if (field.type != ProtobufType::kBytes || field.end - field.begin > kMax) {
    return Damaged("no name, or one of more than 4096 bytes");
  }
  text->resize(static_cast<size_t>(field.end - field.begin));
  if (text->empty()) return Status();
  return file_->Read(field.begin, &(*text)[0], text->size());
}

Status ProtobufReader::Ints(const Field& field, size_t max_count,
                            std::vector<int64_t>* ints) {
  if (field.type == ProtobufType::kVarint) {
    ints->push_back(static_cast<int64_t>(field.value));
  } else if (field.type == ProtobufType::kBytes) {
    ProtobufReader packed(*this, field);
    while (packed.at_ < packed.end_ && ints->size() <= max_count) {
      uint64_t value = 0;
      RINGLET_RETURN_IF_ERROR(packed.Varint(&value));
      ints->push_back(static_cast<int64_t>(value));
    }
  }
  return ints->size() <= max_count ? Status() : Damaged("too many numbers");
}

Status ProtobufReader::CountInts(const Field& field, int64_t* count) const {
  ProtobufReader packed(*this, field);
  for (*count = 0; packed.at_ < packed.end_; ++*count) {
    uint64_t value = 0;
    RINGLET_RETURN_IF_ERROR(packed.Varint(&value));
  }
  return Status();
}

}  // namespace ringlet
