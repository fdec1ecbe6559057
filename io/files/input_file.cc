// zlib reads plain files too, so there is one path for both. The length at the
// end of a gzip file is the length of its last member, modulo 2^32. It only
// decides if the content is measured before memory is allocated.

#include "input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "../../core/base/byte_order.h"
#include "../../core/base/large_pages.h"
#include "file_version.h"
#include "open_error.h"

namespace ringlet {

namespace {

// Returns the last four bytes of a gzip file: the length of its last member's
// content, modulo 2^32. 0 if they cannot be read.
uint32_t LastLength(int file, int64_t file_bytes) {
  unsigned char b[4] = {};
  const ssize_t n = pread(file, b, 4, static_cast<off_t>(file_bytes - 4));
  if (n != 4) return 0;
  return LoadLittle<uint32_t>(b);
}

// Opens a regular file, without waiting for the writer of a pipe.
Status OpenRegular(const std::string& path, int* file, FileVersion* version) {
  do {
    *file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (*file < 0 && errno == EINTR);
  if (*file < 0) return OpenError(errno, path);
  struct stat info;
  Status regular;
  if (fstat(*file, &info) != 0) {
    regular = OpenError(errno, path);
  } else if (!S_ISREG(info.st_mode)) {
    regular = InvalidArgument("%s: not a regular file", path.c_str());
  } else {
    *version = VersionOf(info);
  }
  if (!regular.ok()) close(*file);
  return regular;
}

}  // namespace

InputFile::~InputFile() {
  if (file_ != nullptr) gzclose_r(static_cast<gzFile>(file_));
}

Status InputFile::Open(const std::string& path) {
  path_ = path;
  int opened = -1;
  RINGLET_RETURN_IF_ERROR(OpenRegular(path, &opened, &version_));
  gzFile file = gzdopen(opened, "rb");
  if (file == nullptr) {
    close(opened);
    return OpenError(ENOMEM, path);
  }
  file_ = file;
  gzbuffer(file, 64 << 10);
  compressed_ = gzdirect(file) == 0;
  if (compressed_) last_length_ = LastLength(opened, version_.bytes);
  return Status();
}

int64_t InputFile::MostLeft() const {
  constexpr int64_t kDeflateLimit = 1032;
  const int64_t bytes = version_.bytes;
  return (compressed_ ? bytes * kDeflateLimit : bytes) - offset_;
}

Status InputFile::ReadSome(void* data, size_t bytes, size_t* got) {
  *got = 0;
  const gzFile file = static_cast<gzFile>(file_);
  while (*got < bytes) {
    const unsigned want =
        static_cast<unsigned>(std::min<size_t>(bytes - *got, 1 << 30));
    errno = 0;
    const int n = gzread(file, static_cast<char*>(data) + *got, want);
    if (n < 0) {
      int code = 0;
      const char* text = gzerror(file, &code);
      if (code == Z_ERRNO) {
        return OsError(errno, "%s: reading at offset %" PRId64, path_.c_str(),
                       offset_);
      }
      if (code == Z_MEM_ERROR) {
        return ResourceExhausted("%s: no memory to read it", path_.c_str());
      }
      // zlib's text begins with its name of the file and ": ".
      const char* const separator = std::strstr(text, ": ");
      return Corruption("%s: damaged gzip data at offset %" PRId64
                        " of the content (%s); fetch the file again",
                        path_.c_str(), offset_,
                        separator == nullptr ? text : separator + 2);
    }
    *got += static_cast<size_t>(n);
    offset_ += n;
    if (n == 0) break;
  }
  int code = 0;
  gzerror(file, &code);
  if (*got < bytes && code == Z_BUF_ERROR) {
    return Corruption("%s: the gzip data end early, at offset %" PRId64
                      " of the content; fetch the file again",
                      path_.c_str(), offset_);
  }
  return Status();
}

Status InputFile::Read(void* data, size_t bytes, const char* part) {
  const int64_t begin = offset_;
  size_t got = 0;
  RINGLET_RETURN_IF_ERROR(ReadSome(data, bytes, &got));
  if (got == bytes) return Status();
  return Corruption("%s: ends at offset %" PRId64
                    ", within %s (%zu bytes from offset %" PRId64
                    "); fetch the file again",
                    path_.c_str(), offset_, part, bytes, begin);
}

Status CheckMemoryFor(const std::string& path, uint64_t bytes) {
  if (bytes > SIZE_MAX / 2) {
    return ResourceExhausted("%s: %" PRIu64 " bytes do not fit this machine",
                             path.c_str(), bytes);
  }
  // A vector that cannot be allocated ends the program without an error that
  // names the file.
  void* volatile const probe = std::malloc(static_cast<size_t>(bytes));
  if (probe == nullptr && bytes > 0) {
    return ResourceExhausted("%s: no memory for its %" PRIu64 " bytes",
                             path.c_str(), bytes);
  }
  std::free(probe);
  return Status();
}

Status InputFile::ReadArray(uint64_t bytes, std::vector<unsigned char>* data) {
  if (bytes <= SIZE_MAX / 2) RINGLET_RETURN_IF_ERROR(CheckLength(bytes));
  RINGLET_RETURN_IF_ERROR(CheckMemoryFor(path_, bytes));
  data->clear();
  data->reserve(static_cast<size_t>(bytes));
  AdviseLargePages(data->data(), static_cast<size_t>(bytes));
  // Memory grows with the data that were read.
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(kPiece, static_cast<size_t>(bytes) - done);
    data->resize(done + piece);
    RINGLET_RETURN_IF_ERROR(Read(data->data() + done, piece, "the elements"));
    done += piece;
  }
  return ExpectEnd();
}

// Checks a compressed file; the size of a plain one is known.
Status InputFile::CheckLength(uint64_t bytes) const {
  const uint64_t begin = static_cast<uint64_t>(offset_), end = begin + bytes;
  if (!compressed_ || static_cast<uint32_t>(end) == last_length_) {
    return Status();
  }
  InputFile reopened;
  RINGLET_RETURN_IF_ERROR(reopened.Open(path_));
  std::vector<char> buffer(64 << 10);
  for (uint64_t at = 0; at < end;) {
    const size_t want =
        std::min<uint64_t>(buffer.size(), at < begin ? begin - at : end - at);
    RINGLET_RETURN_IF_ERROR(reopened.Read(
        buffer.data(), want, at < begin ? "its header" : "the elements"));
    at += want;
  }
  return reopened.ExpectEnd();
}

Status InputFile::ExpectEnd() {
  char byte;
  size_t got = 0;
  RINGLET_RETURN_IF_ERROR(ReadSome(&byte, 1, &got));
  if (got == 0) return Status();
  return Corruption("%s: more data than its header says, from offset %" PRId64,
                    path_.c_str(), offset_ - 1);
}

uint32_t Crc32(const void* data, size_t bytes, uint32_t before) {
  if (bytes == 0) return before;  // zlib begins again if it is null
  return static_cast<uint32_t>(
      crc32_z(before, static_cast<const unsigned char*>(data), bytes));
}

bool MeasureRaw(const unsigned char* data, size_t bytes, uint64_t max_bytes,
                uint32_t* crc, uint64_t* num_bytes) {
  unsigned char buffer[16 << 10];
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  stream.next_in = const_cast<unsigned char*>(data);  // zlib only reads it
  stream.avail_in = static_cast<uInt>(bytes);
  *crc = 0;
  *num_bytes = 0;
  int code = Z_OK;
  while (code == Z_OK && *num_bytes <= max_bytes) {
    stream.next_out = buffer;
    stream.avail_out = sizeof(buffer);
    code = inflate(&stream, Z_NO_FLUSH);
    const size_t n = sizeof(buffer) - stream.avail_out;
    *crc = static_cast<uint32_t>(crc32_z(*crc, buffer, n));
    *num_bytes += n;
  }
  const bool is_whole = code == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return is_whole || *num_bytes > max_bytes;
}

bool InflateRaw(const unsigned char* data, size_t bytes, unsigned char* out,
                size_t max_bytes, size_t* num_bytes, bool* ended, size_t skip) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  stream.next_in = const_cast<unsigned char*>(data);  // zlib only reads it
  stream.avail_in = static_cast<uInt>(bytes);
  unsigned char skipped[4 << 10];
  int code = Z_OK;
  while (skip > 0 && code == Z_OK) {
    const size_t piece = std::min(skip, sizeof(skipped));
    stream.next_out = skipped;
    stream.avail_out = static_cast<uInt>(piece);
    code = inflate(&stream, Z_NO_FLUSH);
    skip -= piece - stream.avail_out;
  }
  stream.next_out = out;
  stream.avail_out = static_cast<uInt>(max_bytes);
  if (code == Z_OK) code = inflate(&stream, Z_FINISH);
  *num_bytes = max_bytes - stream.avail_out;
  *ended = code == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return code == Z_STREAM_END || code == Z_BUF_ERROR || code == Z_OK;
}

}  // namespace ringlet
