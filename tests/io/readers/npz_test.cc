#include "io/readers/arrays/npz.h"
#include "io/readers/storage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/peak_memory.h"
#include "../../support/python.h"
#include "../../support/simulated_file_system.h"
#include "core/base/byte_order.h"
#include "io/files/input_file.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

constexpr char kPath[] = "d/a.npz";

// A disk in memory with one file, of these bytes.
class OneFile {
 public:
  explicit OneFile(const std::string& bytes) {
    std::unique_ptr<File> file;
    EXPECT_OK(files_.MakeFolder("d"));
    EXPECT_OK(files_.Create(kPath, &file));
    EXPECT_OK(file->Write(bytes.data(), bytes.size()));
  }
  FileSystem* get() { return &files_; }
  std::string Bytes() { return *files_.Content(kPath); }

 private:
  SimulatedFileSystem files_;
};

// An archive of "a" (2, 3) float32 and "b/c" () int64, by NpzWriter.
std::string Small() {
  SimulatedFileSystem files;
  EXPECT_OK(files.MakeFolder("d"));
  NpzWriter writer;
  EXPECT_OK(writer.Open(&files, kPath));
  const float a[] = {1, 2, 3, 4, 5, 6};
  const int64_t b = -7;
  EXPECT_OK(writer.Add("a", DType::kFloat32, {2, 3}, a));
  EXPECT_OK(writer.Add("b/c", DType::kInt64, {}, &b));
  EXPECT_OK(writer.Finish());
  return *files.Content(kPath);
}

// Makes all calls of a reader on a file, and returns the first error.
Status ReadAll(FileSystem* files, const std::string& path,
               std::vector<std::string>* arrays = nullptr) {
  NpzReader reader;
  RINGLET_RETURN_IF_ERROR(reader.Open(files, path));
  RINGLET_RETURN_IF_ERROR(reader.Verify());
  for (const StoredTensor& tensor : reader.tensors()) {
    EXPECT_EQ(reader.Find(tensor.name), &tensor);
    std::string elements(static_cast<size_t>(tensor.shape.elements()) *
                             SizeOf(DTypeOf(tensor.storage)),
                         '\0');
    RINGLET_RETURN_IF_ERROR(reader.Read(tensor, &elements[0]));
    if (arrays != nullptr) arrays->push_back(elements);
  }
  return Status();
}

Status ErrorOf(const std::string& bytes) {
  OneFile file(bytes);
  return ReadAll(file.get(), kPath);
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

TEST(NpzTest, Read_WrittenByRinglet_HasTheSameArrays) {
  OneFile file(Small());
  NpzReader reader;
  ASSERT_OK(reader.Open(file.get(), kPath));
  ASSERT_EQ(reader.tensors().size(), 2u);
  EXPECT_EQ(reader.tensors()[0].name, "a");
  EXPECT_EQ(reader.tensors()[0].shape, Shape({2, 3}));
  EXPECT_EQ(reader.tensors()[1].name, "b/c");
  EXPECT_EQ(reader.tensors()[1].shape, Shape());
  EXPECT_EQ(reader.tensors()[1].storage, Storage::kI64);
  EXPECT_EQ(reader.Find("b"), nullptr);
  std::vector<std::string> arrays;
  ASSERT_OK(ReadAll(file.get(), kPath, &arrays));
  EXPECT_EQ(arrays, (std::vector<std::string>{Bytes<float>({1, 2, 3, 4, 5, 6}),
                                              Bytes<int64_t>({-7})}));
}

TEST(NpzTest, Read_WrittenByNumpy_HasTheSameArrays) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  DataFiles files;
  files.Write("make.py", R"(
import sys
import numpy
f = sys.argv[1] + "/"
arrays = {"fc.weight": numpy.arange(6, dtype="<f4").reshape(2, 3),
          "big": numpy.arange(6, dtype=">f8"),
          "none": numpy.zeros((0, 4), "f4"),
          "none of halves": numpy.zeros(0, "f2"),
          "count": numpy.array(3, "i8"),
          "long": numpy.tile(numpy.arange(50, dtype="u1"), 2000)}
numpy.savez(f + "plain.npz", **arrays)
numpy.savez_compressed(f + "packed.npz", **arrays)
numpy.savez(f + "unnamed.npz", numpy.ones(2, "i4"))
numpy.savez(f + "empty.npz")
numpy.savez(f + "text.npz", numpy.array(["a"]))
)");
  EXPECT_EQ(RunPython(files.Path("make.py") + " " + files.root()),
            std::vector<std::string>());
  std::vector<uint8_t> tiled;
  for (int i = 0; i < 100000; ++i) tiled.push_back(i % 50);
  for (const char* name : {"plain.npz", "packed.npz"}) {
    std::vector<std::string> arrays;
    ASSERT_OK(ReadAll(PosixFiles(), files.Path(name), &arrays));
    EXPECT_EQ(arrays, (std::vector<std::string>{
                          Bytes<float>({0, 1, 2, 3, 4, 5}),
                          Bytes<double>({0, 1, 2, 3, 4, 5}), "", "",
                          Bytes<int64_t>({3}), Bytes(tiled)}));
  }
  NpzReader reader;
  ASSERT_OK(reader.Open(PosixFiles(), files.Path("unnamed.npz")));
  EXPECT_EQ(reader.tensors()[0].name, "arr_0");
  ASSERT_OK(reader.Open(PosixFiles(), files.Path("empty.npz")));
  EXPECT_TRUE(reader.tensors().empty());
  // An array of text may be beside the weights, and is no weight.
  ASSERT_OK(reader.Open(PosixFiles(), files.Path("text.npz")));
  unsigned char text[4];
  const Status status = reader.Read(reader.tensors()[0], text);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Contains(status, "'arr_0': its elements are text"));
}

TEST(NpzTest, Write_ReadByNumpy_HasTheSameArrays) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  DataFiles files;
  files.Write("a.npz", Small());
  files.Write("read.py", R"(
import sys
import numpy
z = numpy.load(sys.argv[1])
print(z.files, z["a"].tolist(), z["b/c"].tolist())
)");
  EXPECT_EQ(RunPython(files.Path("read.py") + " " + files.Path("a.npz")),
            std::vector<std::string>{
                "['a', 'b/c'] [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] -7"});
}

TEST(NpzTest, Read_CutAnywhere_IsRefused) {
  const std::string whole = Small();
  ASSERT_OK(ErrorOf(whole));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Status status = ErrorOf(whole.substr(0, bytes));
    ASSERT_EQ(status.code(), Code::kCorruption) << bytes;
    ASSERT_EQ(std::string(status.message()).find(kPath), 0u)
        << status.message();
  }
}

// Each bit of the file is checked, except fields that do not concern the
// arrays.
TEST(NpzTest, Read_AnyBitChanged_IsRefusedOrChangesNothing) {
  const std::string whole = Small();
  std::vector<std::string> expected;
  OneFile undamaged(whole);
  ASSERT_OK(ReadAll(undamaged.get(), kPath, &expected));
  int unseen = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    OneFile file(damaged);
    std::vector<std::string> arrays;
    if (!ReadAll(file.get(), kPath, &arrays).ok()) continue;
    ++unseen;
    EXPECT_EQ(arrays, expected) << "bit " << bit;
  }
  // Versions, times and attributes: 2 * 18 + 2 * 26 bytes and some flags.
  EXPECT_LT(unseen, 8 * 110);
}

// `whole` with `change` made to the fields of its n-th directory entry.
std::string WithEntry(std::string whole, int n,
                      const std::function<void(char*)>& change) {
  size_t at = 0;
  for (int i = 0; i <= n; ++i) {
    at = whole.find(std::string("PK\1\2", 4), at + 1);
    EXPECT_NE(at, std::string::npos);
  }
  change(&whole[at]);
  return whole;
}

void Put32(char* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<char>(value >> (8 * i));
}

// `whole` with `change` made to the fields of its end of the directory.
std::string WithEnd(std::string whole,
                    const std::function<void(char*)>& change) {
  change(&whole[whole.size() - 22]);
  return whole;
}

struct HostileFile {
  const char* what;
  std::string bytes;
  Code code;
};

void ExpectRefused(const std::vector<HostileFile>& hostile_files) {
  for (const HostileFile& file : hostile_files) {
    SCOPED_TRACE(file.what);
    const Status status = ErrorOf(file.bytes);
    EXPECT_EQ(status.code(), file.code) << status.message();
    EXPECT_EQ(std::string(status.message()).find(kPath), 0u)
        << status.message();
  }
}

TEST(NpzTest, Read_HostileEntry_IsRefusedBeforeMemoryIsTaken) {
  const std::string whole = Small();
  const size_t end = whole.size() - 22;
  ExpectRefused({
      {"an inflated size of 4 GiB",
       WithEntry(whole, 0, [](char* e) { Put32(e + 24, 0xfffffff0); }),
       Code::kCorruption},
      {"the same, said to be deflated",
       WithEntry(whole, 0,
                 [](char* e) {
                   e[10] = 8;
                   Put32(e + 24, 0xfffffff0);
                 }),
       Code::kCorruption},
      {"a stored size of 4 GiB",
       WithEntry(whole, 0,
                 [](char* e) {
                   Put32(e + 20, 0xfffffff0);
                   Put32(e + 24, 0xfffffff0);
                 }),
       Code::kCorruption},
      {"data behind the end",
       WithEntry(whole, 1, [](char* e) { Put32(e + 42, 0xfffffff0); }),
       Code::kCorruption},
      {"data of another entry",
       WithEntry(whole, 1, [](char* e) { Put32(e + 42, 0); }),
       Code::kCorruption},
      {"data within the directory",
       WithEntry(
           whole, 1,
           [end](char* e) { Put32(e + 42, static_cast<uint32_t>(end - 30)); }),
       Code::kCorruption},
      {"another name", WithEntry(whole, 0, [](char* e) { e[46] = 'x'; }),
       Code::kCorruption},
      {"no .npy", WithEntry(whole, 0, [](char* e) { e[46 + 4] = 'x'; }),
       Code::kInvalidArgument},
      {"encrypted", WithEntry(whole, 0, [](char* e) { e[8] = 1; }),
       Code::kUnimplemented},
      {"LZMA", WithEntry(whole, 0, [](char* e) { e[10] = 14; }),
       Code::kUnimplemented},
      {"no deflate data", WithEntry(whole, 0, [](char* e) { e[10] = 8; }),
       Code::kCorruption},
      {"another checksum", WithEntry(whole, 0, [](char* e) { e[16] ^= 1; }),
       Code::kCorruption},
      {"a longer name", WithEntry(whole, 1, [](char* e) { e[29] = 0x7f; }),
       Code::kCorruption},
  });
}

TEST(NpzTest, Read_HostileEndOrNoArchive_IsRefusedBeforeMemoryIsTaken) {
  const std::string whole = Small();
  ExpectRefused({
      {"too many entries", WithEnd(whole, [](char* e) { e[8] = e[10] = 3; }),
       Code::kCorruption},
      {"Zip64 without its records",
       WithEnd(whole, [](char* e) { Put32(e + 16, 0xffffffff); }),
       Code::kCorruption},
      {"a directory behind the end",
       WithEnd(whole, [](char* e) { Put32(e + 16, 0xfffffff0); }),
       Code::kCorruption},
      {"a directory of 4 GiB",
       WithEnd(whole, [](char* e) { Put32(e + 12, 0xfffffff0); }),
       Code::kCorruption},
      {"no zip archive", "PK\3\4 and so on", Code::kCorruption},
      {"nothing", "", Code::kCorruption},
  });
}

template <typename T>
std::string Little(T value) {
  std::string bytes;
  AppendLittle(value, &bytes);
  return bytes;
}

// The archive `whole` as zip writers have one beyond 4 GiB: all sizes and
// places are in extra fields, and the directory's in records of their own.
std::string AsZip64(const std::string& whole) {
  const size_t end = whole.size() - 22;
  const auto begin = LoadLittle<uint32_t>(
      reinterpret_cast<const unsigned char*>(&whole[end + 16]));
  std::string bytes = whole.substr(0, begin);
  for (size_t at = begin; at < end;) {
    std::string entry =
        whole.substr(at, 46 + static_cast<size_t>(whole[at + 28]));
    at += entry.size();
    const auto* const fields = reinterpret_cast<unsigned char*>(&entry[0]);
    const std::string extra =
        Little(uint16_t{9}) + Little(uint16_t{2}) + "??" + Little(uint16_t{1}) +
        Little(uint16_t{24}) +
        Little(uint64_t{LoadLittle<uint32_t>(fields + 24)}) +
        Little(uint64_t{LoadLittle<uint32_t>(fields + 20)}) +
        Little(uint64_t{LoadLittle<uint32_t>(fields + 42)});
    for (const size_t field : {size_t{20}, size_t{24}, size_t{42}}) {
      Put32(&entry[field], 0xffffffff);
    }
    entry[30] = static_cast<char>(extra.size());
    bytes += entry + extra;
  }
  const uint64_t record = bytes.size();
  const uint64_t count = static_cast<uint64_t>(whole[end + 10]);
  bytes += Little(uint32_t{0x06064b50}) + Little(uint64_t{44}) +
           Little(uint32_t{0}) + Little(uint64_t{0}) + Little(count) +
           Little(count) + Little(record - begin) + Little(uint64_t{begin});
  bytes += Little(uint32_t{0x07064b50}) + Little(uint32_t{0}) + Little(record) +
           Little(uint32_t{1});
  bytes += Little(uint32_t{0x06054b50}) + std::string(4, '\0') +
           std::string(12, '\xff') + std::string(2, '\0');
  return bytes;
}

TEST(NpzTest, Read_Zip64_HasTheSameArrays) {
  OneFile plain(Small()), large(AsZip64(Small()));
  std::vector<std::string> arrays, same;
  ASSERT_OK(ReadAll(plain.get(), kPath, &arrays));
  ASSERT_OK(ReadAll(large.get(), kPath, &same));
  EXPECT_EQ(same, arrays);
}

TEST(NpzTest, Read_Zip64CutOrChanged_IsRefusedOrChangesNothing) {
  const std::string whole = AsZip64(Small());
  std::vector<std::string> arrays, read;
  ASSERT_OK(ReadAll(OneFile(whole).get(), kPath, &arrays));
  for (size_t at = 0; at < whole.size(); ++at) {
    EXPECT_FALSE(ErrorOf(whole.substr(0, at)).ok()) << at;
    for (const char change : {'\1', '\x7f', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      OneFile file(bytes);
      read.clear();
      if (ReadAll(file.get(), kPath, &read).ok()) {
        EXPECT_EQ(read, arrays) << at;
      }
    }
  }
}

TEST(NpzTest, Read_EmptyArray_IsWhole) {
  SimulatedFileSystem files;
  ASSERT_OK(files.MakeFolder("d"));
  NpzWriter writer;
  ASSERT_OK(writer.Open(&files, kPath));
  ASSERT_OK(writer.Add("none", DType::kFloat32, {0, 4}, nullptr));
  ASSERT_OK(writer.Finish());
  // An array without elements needs no address.
  NpzReader reader;
  ASSERT_OK(reader.Open(&files, kPath));
  ASSERT_OK(reader.Verify());
  EXPECT_OK(reader.Read(reader.tensors()[0], nullptr));
  EXPECT_EQ(Crc32(nullptr, 0, 0x12345678), 0x12345678u);
}

TEST(NpzTest, Read_DuplicateName_IsRefused) {
  SimulatedFileSystem files;
  ASSERT_OK(files.MakeFolder("d"));
  NpzWriter writer;
  ASSERT_OK(writer.Open(&files, kPath));
  const float a = 1;
  ASSERT_OK(writer.Add("a", DType::kFloat32, {}, &a));
  ASSERT_OK(writer.Add("a", DType::kFloat32, {}, &a));
  ASSERT_OK(writer.Finish());
  const Status status = ReadAll(&files, kPath);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_TRUE(Contains(status, "twice"));
}

TEST(NpzTest, Read_AnyCallFails_IsAnError) {
  OneFile file(Small());
  auto* files = static_cast<SimulatedFileSystem*>(file.get());
  const int64_t before = files->operations();
  ASSERT_OK(ReadAll(files, kPath));
  const int64_t calls = files->operations() - before;
  for (int64_t i = 1; i <= calls; ++i) {
    files->FailAfter(i, EIO);
    EXPECT_FALSE(ReadAll(files, kPath).ok()) << i << " of " << calls;
    files->FailNoMore();
  }
}

// A record type of many fields has a header of 8 KB.
TEST(NpzTest, Read_ArrayBesideALongHeader_HasItsElements) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  DataFiles files;
  files.Write("make.py", R"(
import sys
import numpy
records = numpy.zeros(3, [("field%d" % i, "<f4") for i in range(400)])
x = numpy.arange(6, dtype="f4").reshape(3, 2)
numpy.savez(sys.argv[1] + "/stored.npz", r=records, x=x)
numpy.savez_compressed(sys.argv[1] + "/deflated.npz", r=records, x=x)
)");
  RunPython(files.Path("make.py") + " " + files.root());
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    NpyArray array;
    ASSERT_OK(ReadNpy(files.Path(name) + ":x", &array));
    EXPECT_EQ(array.shape, Shape({3, 2}));
    const auto* const x = reinterpret_cast<const float*>(array.data.data());
    EXPECT_EQ(std::vector<float>(x, x + 6),
              (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

// An entry is measured before there is memory for it.
TEST(NpzTest, Read_RefusedEntry_TakesLittleMemory) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  DataFiles files;
  files.Write("make.py", R"(
import sys
import numpy
numpy.savez_compressed(sys.argv[1] + "/a.npz", a=numpy.zeros(48 << 20, "u1"))
)");
  RunPython(files.Path("make.py") + " " + files.root());
  std::string bytes = ReadWhole(files.Path("a.npz"));
  const size_t entry = bytes.find("PK\x01\x02");
  ASSERT_NE(entry, std::string::npos);
  // Changes the entry's CRC.
  bytes[entry + 16] = static_cast<char>(bytes[entry + 16] ^ 1);
  OneFile file(bytes);
  EXPECT_LT(PeakKiB([&] {
              if (ReadAll(file.get(), kPath).code() != Code::kCorruption) {
                abort();
              }
            }),
            16 << 10);  // KiB, of 48 MiB
  const std::string damaged = files.Write("damaged.npz", bytes);
  EXPECT_LT(PeakKiB([&] {
              NpyArray array;
              if (ReadNpy(damaged, &array).code() != Code::kCorruption) abort();
            }),
            16 << 10);
}

}  // namespace
}  // namespace ringlet
