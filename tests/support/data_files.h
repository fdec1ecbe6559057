// DataFiles: data files for one test, good and damaged.

#ifndef RINGLET_TESTS_SUPPORT_DATA_FILES_H_
#define RINGLET_TESTS_SUPPORT_DATA_FILES_H_

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "contains.h"
#include "expect_ok.h"
#include "ringlet/dataset.h"
#include "ringlet/status.h"
#include "temp_folder.h"

namespace ringlet {

// A fresh directory, removed with all it holds at the end.
class DataFiles {
 public:
  const std::string& root() const { return folder_.path(); }
  std::string Path(const std::string& name) const { return folder_ / name; }
  // The path of a file with these contents.
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(Path(name), std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    EXPECT_TRUE(file.good()) << Path(name);
    return Path(name);
  }

 private:
  TempFolder folder_;
};

// `bytes` as gzip(1) would store them, without a name or time.
inline std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  constexpr int kGzipWindow = 15 + 16;
  EXPECT_EQ(
      deflateInit2(&stream, 9, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  std::string source = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(&source[0]);
  stream.avail_in = static_cast<uInt>(source.size());
  stream.next_out = reinterpret_cast<Bytef*>(&packed[0]);
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// Values one after another, in either byte order.
template <typename T>
std::string Packed(const std::vector<T>& values, bool big_endian) {
  std::string bytes;
  for (const T& value : values) {
    uint64_t bits = 0;
    if constexpr (sizeof(T) == 8) {
      std::memcpy(&bits, &value, 8);
    } else if constexpr (sizeof(T) == 4) {
      uint32_t narrow;
      std::memcpy(&narrow, &value, 4);
      bits = narrow;
    } else if constexpr (sizeof(T) == 2) {
      bits = static_cast<uint16_t>(value);
    } else {
      bits = static_cast<unsigned char>(value);
    }
    for (size_t i = 0; i < sizeof(T); ++i) {
      const size_t place = big_endian ? sizeof(T) - 1 - i : i;
      bytes += static_cast<char>(bits >> (8 * place) & 255);
    }
  }
  return bytes;
}

// Bytes in the machine's order as values.
template <typename T>
std::vector<T> Values(const std::vector<unsigned char>& bytes) {
  EXPECT_EQ(bytes.size() % sizeof(T), 0u);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

// All examples of `source`, in order.
template <typename X, typename Y>
void ReadAll(Source* source, std::vector<X>* x, std::vector<Y>* y) {
  std::vector<int64_t> index(static_cast<size_t>(source->size()));
  std::iota(index.begin(), index.end(), 0);
  ASSERT_EQ(source->x().bytes() % sizeof(X), 0u);
  ASSERT_EQ(source->y().bytes() % sizeof(Y), 0u);
  x->resize(index.size() * source->x().bytes() / sizeof(X));
  y->resize(index.size() * source->y().bytes() / sizeof(Y));
  ASSERT_OK(source->Read(index.data(), static_cast<int>(index.size()),
                         x->data(), y->data()));
}

// Expects an error of this kind that names the file and, with `where`, the
// place.
inline void ExpectError(const Status& status, Code code,
                        const std::string& path, const std::string& where) {
  const std::string message = status.message();
  EXPECT_EQ(CodeName(status.code()), std::string(CodeName(code))) << message;
  EXPECT_TRUE(Contains(message, path));
  EXPECT_TRUE(Contains(message, where));
}

// Reads the file at a path. If that is OK, gives its contents in any form.
using ReadFile = std::function<Status(const std::string&, std::string*)>;

// Expects that the file is refused if it is cut at any byte. The message has
// `where`.
inline void ExpectCutsAreFound(const DataFiles& files, const std::string& name,
                               const std::string& bytes, const ReadFile& read,
                               const std::string& where) {
  std::string content;
  ASSERT_OK(read(files.Write(name, bytes), &content));
  for (size_t n = 0; n < bytes.size(); ++n) {
    SCOPED_TRACE(name + " cut to " + std::to_string(n) + " bytes");
    const std::string path = files.Write(name, bytes.substr(0, n));
    ExpectError(read(path, &content), Code::kCorruption, path, where);
  }
}

// Flips each bit of a .gz. Expects that the file is refused, or read whole if
// the bit carries no data, as the time in its header.
inline void ExpectGzipDamageIsFound(const DataFiles& files,
                                    const std::string& name,
                                    const std::string& packed,
                                    const ReadFile& read) {
  std::string good;
  ASSERT_OK(read(files.Write(name, packed), &good));
  for (size_t i = 0; i < packed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      SCOPED_TRACE(name + ": byte " + std::to_string(i) + ", bit " +
                   std::to_string(bit));
      std::string damaged = packed;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << bit);
      const std::string path = files.Write(name, damaged);
      std::string content;
      const Status status = read(path, &content);
      if (status.ok()) {
        EXPECT_EQ(content, good);
        // Magic numbers, method, sum and length all count.
        EXPECT_FALSE(i < 3 || i + 8 >= packed.size());
      } else {
        ExpectError(status, Code::kCorruption, path, "");
        EXPECT_FALSE(Contains(status, "<fd:"));  // zlib's name for the file
      }
    }
  }
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_DATA_FILES_H_
