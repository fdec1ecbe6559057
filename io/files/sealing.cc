// A sealed file is a header and pieces (docs/security.md). Each file has its
// own key, derived from the job's key and 32 random bytes. So a piece's number
// can be its nonce, and no nonce is used twice. The nonce of the last piece
// marks it as the last: a truncated file, or one joined from two, is detected.
// A reader gets no byte of a piece before the whole piece was checked.

#include "sealing.h"

#include <sodium.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/crc32c.h"
#include "../../core/base/key_file.h"
#include "sealed_format.h"

namespace ringlet {
namespace {

constexpr size_t kPieceBytes = 65536;
constexpr size_t kTagBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;
constexpr size_t kSealedBytes = kPieceBytes + kTagBytes;
constexpr unsigned char kKeyContext[] = "ringlet sealed file 1";
constexpr unsigned char kCheckContext[] = "ringlet sealed file 1: whose key";

// OFFSET SIZE
//  0      8   "RINGSEAL"
//  8      4   version, 1
// 12      4   CRC32C of the 64 bytes, with zeros here
// 16     32   random
// 48     16   identifies the key
struct Header {
  static constexpr size_t kBytes = 64, kVersion = 8, kCrc = 12, kRandom = 16,
                          kRandomBytes = 32, kCheck = 48, kCheckBytes = 16;
  unsigned char bytes[kBytes] = {};

  uint32_t Crc() const {
    unsigned char plain[kBytes];
    std::memcpy(plain, bytes, kBytes);
    std::memset(plain + kCrc, 0, 4);
    return Crc32c(plain, kBytes);
  }
};

// Seals the pieces of one file with its key. The destructor wipes the key.
class FileKey {
 public:
  FileKey(const JobKey& key, const Header& header) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, key.bytes, sizeof(key.bytes),
                            sizeof(bytes_));
    crypto_generichash_update(&state, kKeyContext, sizeof(kKeyContext));
    crypto_generichash_update(&state, header.bytes + Header::kRandom,
                              Header::kRandomBytes);
    crypto_generichash_final(&state, bytes_, sizeof(bytes_));
    sodium_memzero(&state, sizeof(state));
  }
  ~FileKey() { sodium_memzero(bytes_, sizeof(bytes_)); }
  FileKey(const FileKey&) = default;
  FileKey& operator=(const FileKey&) = delete;

  void Check(unsigned char* out) const {
    crypto_generichash(out, Header::kCheckBytes, kCheckContext,
                       sizeof(kCheckContext), bytes_, sizeof(bytes_));
  }
  // Encrypts in place; `piece` has room for the tag after `bytes`.
  void Seal(int64_t number, bool last, unsigned char* piece,
            size_t bytes) const {
    unsigned char nonce[12];
    Nonce(number, last, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(
        piece, nullptr, piece, bytes, nullptr, 0, nullptr, nonce, bytes_);
  }
  // Decrypts `bytes`, with the tag, in place. Returns false if the piece was
  // changed.
  bool Unseal(int64_t number, bool last, unsigned char* piece,
              size_t bytes) const {
    unsigned char nonce[12];
    Nonce(number, last, nonce);
    return crypto_aead_chacha20poly1305_ietf_decrypt(piece, nullptr, nullptr,
                                                     piece, bytes, nullptr, 0,
                                                     nonce, bytes_) == 0;
  }

 private:
  static void Nonce(int64_t number, bool last, unsigned char* nonce) {
    StoreLittle(static_cast<uint64_t>(number), nonce);
    StoreLittle(uint32_t{last}, nonce + 8);
  }

  unsigned char bytes_[crypto_aead_chacha20poly1305_ietf_KEYBYTES];
};

// Returns the size of the sealed file for this number of bytes.
int64_t SealedSize(int64_t bytes) {
  const int64_t piece = kPieceBytes, tag = kTagBytes;
  const int64_t pieces = std::max<int64_t>(1, (bytes + piece - 1) / piece);
  return static_cast<int64_t>(Header::kBytes) + bytes + pieces * tag;
}

// The base of SealingFile, which only writes, and of UnsealingFile, which only
// reads. All other calls fail.
class SealedFile : public File {
 public:
  SealedFile(std::unique_ptr<File> below, const FileKey& key)
      : below_(std::move(below)),
        key_(key),
        piece_(new unsigned char[kSealedBytes]) {}

  Status WriteSome(const void*, size_t, size_t*) override { return Not(); }
  Status ReadSome(int64_t, void*, size_t, size_t*) override { return Not(); }
  Status Preallocate(int64_t) override { return Not(); }
  Status Sync() override { return Not(); }
  Status Size(int64_t*) override { return Not(); }
  Status Truncate(int64_t) override { return Not(); }
  const std::string& path() const override { return below_->path(); }
  bool sealed() const override { return true; }

 protected:
  Status Not() const {
    return InvalidArgument(
        "%s: is sealed, and can be read or written only once, from its begin "
        "to its end",
        path().c_str());
  }

  const std::unique_ptr<File> below_;
  const FileKey key_;
  const std::unique_ptr<unsigned char[]> piece_;
};

class SealingFile final : public SealedFile {
 public:
  SealingFile(std::unique_ptr<File> below, const FileKey& key,
              const Header& header)
      : SealedFile(std::move(below), key), header_(header) {}

  Status WriteSome(const void* data, size_t bytes, size_t* written) override {
    *written = 0;
    if (ended_) return failed_.ok() ? Not() : failed_;
    const auto* from = static_cast<const unsigned char*>(data);
    for (size_t n; *written < bytes; *written += n, filled_ += n) {
      // More bytes follow, so this piece is not the last.
      if (filled_ == kPieceBytes)
        RINGLET_RETURN_IF_ERROR(Flush(/*last=*/false));
      n = std::min(bytes - *written, kPieceBytes - filled_);
      std::memcpy(&piece_[filled_], from + *written, n);
    }
    return Status();
  }
  Status Preallocate(int64_t bytes) override {
    return bytes <= 0 ? Status() : below_->Preallocate(SealedSize(bytes));
  }
  Status Sync() override {
    RINGLET_RETURN_IF_ERROR(End());
    return below_->Sync();
  }
  Status Close() override {
    RINGLET_RETURN_IF_ERROR(End());
    return below_->Close();
  }

 private:
  Status End() { return ended_ ? failed_ : Flush(/*last=*/true); }

  Status Flush(bool last) {
    ended_ = true;  // unless all succeeds
    failed_ = Write(last);
    if (failed_.ok()) ended_ = last;
    return failed_;
  }
  Status Write(bool last) {
    if (number_ == 0) {
      RINGLET_RETURN_IF_ERROR(below_->Write(header_.bytes, Header::kBytes));
    }
    key_.Seal(number_, last, piece_.get(), filled_);
    RINGLET_RETURN_IF_ERROR(below_->Write(piece_.get(), filled_ + kTagBytes));
    ++number_;
    filled_ = 0;
    return Status();
  }

  const Header header_;
  int64_t number_ = 0;  // the number of the present piece
  size_t filled_ = 0;
  bool ended_ = false;
  Status failed_;
};

class UnsealingFile final : public SealedFile {
 public:
  // `body` are the bytes after the header.
  UnsealingFile(std::unique_ptr<File> below, const FileKey& key, int64_t body)
      : SealedFile(std::move(below), key),
        body_(body),
        pieces_((body + kSealed - 1) / kSealed) {}

  // The length is verified only by the mark of the last piece.
  Status CheckSize() {
    const int64_t last = body_ - (pieces_ - 1) * kSealed;
    const int64_t tag = kTagBytes;
    if (pieces_ > 0 && last >= tag && (pieces_ == 1 || last > tag)) {
      return Fetch(pieces_ - 1);
    }
    return Corruption("%s: is sealed, and was cut short", path().c_str());
  }
  Status ReadSome(int64_t offset, void* data, size_t bytes,
                  size_t* got) override {
    *got = 0;
    const int64_t size = body_ - pieces_ * static_cast<int64_t>(kTagBytes);
    if (offset < 0 || offset >= size) return Status();
    const int64_t piece = kPieceBytes, number = offset / piece;
    RINGLET_RETURN_IF_ERROR(Fetch(number));
    const int64_t begin = offset - number * piece;
    const int64_t end = std::min(piece, size - number * piece);
    *got = std::min(bytes, static_cast<size_t>(end - begin));
    std::memcpy(data, &piece_[static_cast<size_t>(begin)], *got);
    return Status();
  }
  Status Size(int64_t* bytes) override {
    *bytes = body_ - pieces_ * static_cast<int64_t>(kTagBytes);
    return Status();
  }
  Status Close() override { return below_->Close(); }

 private:
  static constexpr int64_t kSealed = kSealedBytes;

  Status Fetch(int64_t number) {
    if (number == fetched_) return Status();
    fetched_ = -1;
    const int64_t at = number * kSealed;
    const size_t bytes = static_cast<size_t>(std::min(kSealed, body_ - at));
    RINGLET_RETURN_IF_ERROR(below_->Read(
        static_cast<int64_t>(Header::kBytes) + at, piece_.get(), bytes));
    if (!key_.Unseal(number, number == pieces_ - 1, piece_.get(), bytes)) {
      return Corruption("%s: is not what was sealed, from offset %" PRId64
                        " on: it was damaged, cut short or changed",
                        path().c_str(), number * int64_t{kPieceBytes});
    }
    fetched_ = number;
    return Status();
  }

  const int64_t body_, pieces_;
  int64_t fetched_ = -1;  // the piece in memory
};

Status ReadHeader(File* file, const std::string& path, Header* header) {
  RINGLET_RETURN_IF_ERROR(file->Read(0, header->bytes, Header::kBytes));
  if (header->Crc() != LoadLittle<uint32_t>(&header->bytes[Header::kCrc])) {
    return Corruption("%s: is sealed, and its header is damaged", path.c_str());
  }
  const uint32_t version =
      LoadLittle<uint32_t>(&header->bytes[Header::kVersion]);
  if (version == 1) return Status();
  return Error(Code::kUnimplemented,
               "%s: is sealed by version %" PRIu32
               " of the format; this ringlet reads version 1. Use a newer one",
               path.c_str(), version);
}

}  // namespace

Status BeginSealing() {
  if (sodium_init() >= 0) return Status();
  return Error(Code::kInternal, "libsodium does not start");
}

Status Unseal(std::unique_ptr<File> below, const JobKeys& keys,
              const std::string& path, std::unique_ptr<File>* file) {
  Header header;
  RINGLET_RETURN_IF_ERROR(ReadHeader(below.get(), path, &header));
  int64_t size = 0;
  RINGLET_RETURN_IF_ERROR(below->Size(&size));
  for (int k = 0; k < keys.count; ++k) {
    const FileKey key(keys.keys[k], header);
    unsigned char check[Header::kCheckBytes];
    key.Check(check);
    if (sodium_memcmp(check, &header.bytes[Header::kCheck], sizeof(check)) !=
        0) {
      continue;
    }
    auto unsealing = std::make_unique<UnsealingFile>(
        std::move(below), key, size - static_cast<int64_t>(Header::kBytes));
    RINGLET_RETURN_IF_ERROR(unsealing->CheckSize());
    *file = std::move(unsealing);
    return Status();
  }
  return Error(Code::kUnimplemented,
               "%s: is sealed with another key than the key file has",
               path.c_str());
}

Status SealNew(const JobKeys& keys, std::unique_ptr<File>* file) {
  Header header;
  std::memcpy(header.bytes, kSealedMagic, 8);
  StoreLittle(uint32_t{1}, &header.bytes[Header::kVersion]);
  RINGLET_RETURN_IF_ERROR(
      RandomBytes(&header.bytes[Header::kRandom], Header::kRandomBytes));
  const FileKey key(keys.keys[0], header);
  key.Check(&header.bytes[Header::kCheck]);
  StoreLittle(header.Crc(), &header.bytes[Header::kCrc]);
  *file = std::make_unique<SealingFile>(std::move(*file), key, header);
  return Status();
}

}  // namespace ringlet
