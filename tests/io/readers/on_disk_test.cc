// Data that stay in their files are compared with the same data in memory.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "core/data/dataset_parts.h"
#include "io/files/file_version.h"
#include "io/files/input_file.h"
#include "io/readers/arrays/npz.h"
#include "io/readers/memory_sizes.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

ArrayOptions OnDisk() {
  ArrayOptions options;
  options.in_memory = false;
  return options;
}

// `count` drawn bytes.
std::string Drawn(size_t count) {
  std::string bytes;
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

std::string Npy(const std::string& descr, const std::string& shape,
                const std::string& elements,
                const std::string& fortran = "False") {
  std::string header = "{'descr': " + descr + ", 'fortran_order': " + fortran +
                       ", 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) +
         '\0' + header + elements;
}

std::string Idx(char type, const std::vector<uint32_t>& dims,
                const std::string& elements) {
  return std::string("\0\0", 2) + type + static_cast<char>(dims.size()) +
         Packed(dims, /*big_endian=*/true) + elements;
}

// The examples of these numbers, x and then y, in the sources' types.
std::string Bytes(Source* source, const std::vector<int64_t>& index) {
  const auto bytes = [&](const ExampleSpec& spec) {
    return std::string(index.size() * spec.bytes(), '\0');
  };
  std::string x = bytes(source->x()), y = bytes(source->y());
  const Status read = source->Read(index.data(), static_cast<int>(index.size()),
                                   x.data(), y.data());
  EXPECT_OK(read);
  return x + y;
}

void ExpectSame(const Dataset& memory, const Dataset& disk) {
  ASSERT_OK(memory.Batch(1).status());
  ASSERT_OK(disk.Batch(1).status());
  Source *const a = memory.source().get(), *const b = disk.source().get();
  ASSERT_EQ(a->size(), b->size());
  EXPECT_EQ(a->x().dtype, b->x().dtype);
  EXPECT_EQ(a->x().shape, b->x().shape);
  EXPECT_EQ(a->y().dtype, b->y().dtype);
  EXPECT_EQ(a->y().shape, b->y().shape);
  EXPECT_EQ(a->name(), b->name());
  EXPECT_EQ(a->y_name(), b->y_name());
  EXPECT_EQ(a->Description().classes, b->Description().classes);
  EXPECT_EQ(ValueNames(a->Description().columns),
            ValueNames(b->Description().columns));
  EXPECT_EQ(memory.parts().weights == nullptr, disk.parts().weights == nullptr);
  if (memory.parts().weights != nullptr) {
    EXPECT_EQ(*memory.parts().weights, *disk.parts().weights);
  }
  const int64_t size = a->size();
  std::vector<int64_t> forward, jumps;
  for (int64_t i = 0; i < size; ++i) {
    forward.push_back(i);
    jumps.push_back(i * 7919 % size);
  }
  EXPECT_TRUE(Bytes(a, forward) == Bytes(b, forward));
  EXPECT_TRUE(Bytes(a, jumps) == Bytes(b, jumps));
  for (const int64_t i : {size - 1, int64_t{0}, size / 2}) {
    EXPECT_TRUE(Bytes(a, {i}) == Bytes(b, {i}));
    EXPECT_TRUE(Bytes(a, {i, i, i / 2}) == Bytes(b, {i, i, i / 2}));
  }
  EXPECT_TRUE(Bytes(a, {}) == Bytes(b, {}));
}

TEST(OnDiskTest, Npy_EveryTypeAndOrder_HasTheBitsInMemory) {
  const DataFiles files;
  for (const char* type :
       {"|b1", "|u1", "|i1", "<u2", ">u2", "<i2", ">i2", "<f2", ">f2", "<u4",
        ">u4", "<i4", ">i4", "<f4", ">f4", "<i8", ">i8", "<f8", ">f8"}) {
    SCOPED_TRACE(type);
    const size_t width = static_cast<size_t>(type[2] - '0');
    const std::string descr = std::string("'") + type + "'";
    const std::string x =
        files.Write("x.npy", Npy(descr, "(131, 3, 2)", Drawn(131 * 6 * width)));
    const std::string y =
        files.Write("y.npy", Npy(descr, "(131,)", Drawn(131 * width)));
    ExpectSame(NpyDataset(x, y), NpyDataset(x, y, {}, OnDisk()));
    ExpectSame(NpyDataset(x, x), NpyDataset(x, x, {}, OnDisk()));
    ExpectSame(NpyDataset(x), NpyDataset(x, OnDisk()));
    ExpectSame(NpyDataset(y), NpyDataset(y, OnDisk()));
  }
}

TEST(OnDiskTest, Npy_FieldOfRecordsOrTextLabels_EqualThoseInMemory) {
  const DataFiles files;
  const std::string path = files.Write(
      "a.npy", Npy("[('a', '|u1'), ('b', '>i2', (2, 1)), ('c', '|S2')]",
                   "(40,)", Drawn(40 * 7)));
  ExpectSame(NpyDataset(path + ":b", path + ":a"),
             NpyDataset(path + ":b", path + ":a", {}, OnDisk()));
  ExpectSame(NpyDataset(path + ":a", path + ":b"),
             NpyDataset(path + ":a", path + ":b", {}, OnDisk()));
  ExpectSame(NpyDataset(path + ":b", path + ":c"),
             NpyDataset(path + ":b", path + ":c", {}, OnDisk()));
  const std::string y =
      files.Write("y.npy", Npy("'|u1'", "(40, 1)", std::string(40, '\7')));
  ExpectSame(NpyDataset(path + ":b", y, {"3", "7"}),
             NpyDataset(path + ":b", y, {"3", "7"}, OnDisk()));
}

TEST(OnDiskTest, Idx_EveryType_EqualsTheReaderInMemory) {
  const DataFiles files;
  const struct {
    char type;
    size_t width;
  } types[] = {{0x08, 1}, {0x09, 1}, {0x0B, 2},
               {0x0C, 4}, {0x0D, 4}, {0x0E, 8}};
  for (const auto& [type, width] : types) {
    SCOPED_TRACE(static_cast<int>(type));
    const std::string x =
        files.Write("x", Idx(type, {131, 3, 2}, Drawn(131 * 6 * width)));
    const std::string y =
        files.Write("y", Idx(type, {131}, Drawn(131 * width)));
    ExpectSame(IdxDataset(x, y), IdxDataset(x, y, OnDisk()));
    ExpectSame(IdxDataset(x, x), IdxDataset(x, x, OnDisk()));
    ExpectSame(IdxDataset(x), IdxDataset(x, OnDisk()));
    const std::vector<std::string> xs = {x, x}, ys = {y, y};
    ExpectSame(IdxDataset(xs, ys), IdxDataset(xs, ys, OnDisk()));
  }
}

TEST(OnDiskTest, Npz_StoredArray_EqualsTheOneInMemory) {
  const DataFiles files;
  const std::string path = files.Path("a.npz");
  std::vector<float> x(120);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 7;
  const std::vector<int64_t> y = {4, 5, 6, 7, 8};
  NpzWriter writer;
  ASSERT_OK(writer.Open(PosixFiles(), path));
  ASSERT_OK(writer.Add("y", DType::kInt64, {5}, y.data()));
  ASSERT_OK(writer.Add("x", DType::kFloat32, {5, 4, 6}, x.data()));
  ASSERT_OK(writer.Finish());
  ExpectSame(NpyDataset(path + ":x", path + ":y"),
             NpyDataset(path + ":x", path + ":y", {}, OnDisk()));
}

TEST(OnDiskTest, Open_FileThatCannotStayOnDisk_IsRefused) {
  const DataFiles files;
  const std::string x = files.Write("x.npy", Npy("'|u1'", "(4, 3)", Drawn(12)));
  const std::string y = files.Write("y.npy", Npy("'|u1'", "(4,)", Drawn(4)));
  const auto refused = [&](const std::string& path, Code code,
                           const std::string& message) {
    ExpectError(NpyDataset(path, y, {}, OnDisk()).status(), code, path,
                message);
    ExpectError(NpyDataset(path, OnDisk()).status(), code, path, message);
  };
  refused(files.Write("a.npy.gz", Gzip(Npy("'|u1'", "(4, 3)", Drawn(12)))),
          Code::kInvalidArgument, "unpack it");
  const std::string fortran =
      files.Write("f.npy", Npy("'|u1'", "(4, 3)", Drawn(12), "True"));
  refused(fortran, Code::kInvalidArgument, "ascontiguousarray");
  ExpectError(NpyDataset(x, fortran, {}, OnDisk()).status(),
              Code::kInvalidArgument, fortran, "ascontiguousarray");
  refused(files.Write("t.npy", Npy("'|S2'", "(4, 3)", Drawn(24))),
          Code::kInvalidArgument, "text");
  refused(files.Write("long.npy", Npy("'|u1'", "(4, 3)", Drawn(13))),
          Code::kCorruption, "13 bytes follow the header, but it says 12");
  refused(files.Write("short.npy", Npy("'|u1'", "(4, 3)", Drawn(11))),
          Code::kCorruption, "more than the file can hold");
  refused(files.Path("none.npy"), Code::kNotFound, "");
  ExpectError(
      NpyDataset(files.Write("s.npy", Npy("'|u1'", "()", "a")), OnDisk())
          .status(),
      Code::kInvalidArgument, "s.npy", "holds no examples");
  const std::string images = Idx(0x0D, {4, 3}, Drawn(48));
  const std::string packed = files.Write("x.gz", Gzip(images));
  ExpectError(IdxDataset(packed, OnDisk()).status(), Code::kInvalidArgument,
              packed, "unpack it");
  // Labels are in memory.
  const std::string labels =
      files.Write("y.gz", Gzip(Npy("'|u1'", "(4,)", Drawn(4))));
  EXPECT_OK(NpyDataset(x, labels, {}, OnDisk()).Batch(1).status());
}

// Gives the file the time of a write long ago, so that a later one has another.
void MakeOld(const std::string& path) {
  const timespec times[] = {{1000000000, 0}, {1000000000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// Each reader of files that stay on disk, of 1000 examples.
struct OpenOnDisk {
  const char* name;
  std::string bytes;
  std::function<Dataset(const std::string&)> open;
};

std::vector<OpenOnDisk> ReadersOnDisk(const DataFiles& files) {
  std::vector<float> x(3000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  NpzWriter writer;
  EXPECT_OK(writer.Open(PosixFiles(), files.Path("written.npz")));
  EXPECT_OK(writer.Add("x", DType::kFloat32, {1000, 3}, x.data()));
  EXPECT_OK(writer.Finish());
  std::string rows;
  for (int i = 0; i < 1000; ++i) rows += "1,2,3,4,5,6\n";
  CsvOptions csv;
  csv.header = csv.in_memory = false;
  const auto npy = [](const std::string& path) {
    return NpyDataset(path, OnDisk());
  };
  return {
      {"a.npy", Npy("'<i2'", "(1000, 3)", Drawn(6000)), npy},
      {"b.npy", Npy("'<f2'", "(1000, 3)", Drawn(6000)), npy},
      {"c.npz", ReadWhole(files.Path("written.npz")), npy},
      {"d.idx", Idx(0x0B, {1000, 3}, Drawn(6000)),
       [](const std::string& path) { return IdxDataset(path, OnDisk()); }},
      {"e.csv", rows,
       [csv](const std::string& path) { return CsvDataset(path, csv); }},
  };
}

// Rows of the same width in place of others would be other numbers.
TEST(OnDiskTest, Read_FileChangedWhileOpen_IsAnError) {
  const DataFiles files;
  for (const OpenOnDisk& reader : ReadersOnDisk(files)) {
    SCOPED_TRACE(reader.name);
    const std::string& bytes = reader.bytes;
    std::string other = bytes;
    std::swap(other[bytes.size() - 2], other[bytes.size() / 2]);
    const struct {
      const char* message;
      std::function<void(const std::string&)> change;
    } changes[] = {
        {"it was written to, though its size is the same",
         [&](const std::string&) { files.Write(reader.name, other); }},
        {"bytes and has",
         [&](const std::string& path) {
           const auto less = static_cast<off_t>(bytes.size() - 12);
           ASSERT_EQ(truncate(path.c_str(), less), 0);
         }},
        {"bytes and has",
         [&](const std::string&) { files.Write(reader.name, bytes + bytes); }},
    };
    for (const auto& [message, change] : changes) {
      SCOPED_TRACE(message);
      const std::string path = files.Write(reader.name, bytes);
      MakeOld(path);
      const Dataset data = reader.open(path);
      ASSERT_OK(data.Batch(1).status());
      std::vector<unsigned char> x(2 * data.source()->x().bytes()), y(16);
      const auto read = [&](std::vector<int64_t> index) {
        return data.source()->Read(index.data(), 2, x.data(), y.data());
      };
      EXPECT_OK(read({999, 0}));
      change(path);
      ExpectError(read({500, 999}), Code::kCorruption, path, message);
      ExpectError(read({0, 999}), Code::kCorruption, path,
                  "start again, and leave the file alone");
    }
  }
}

// As touch(1), or a copy over the file.
TEST(OnDiskTest, Read_OnlyTheTimeOfWritingChanged_GoesOn) {
  const DataFiles files;
  for (const OpenOnDisk& reader : ReadersOnDisk(files)) {
    SCOPED_TRACE(reader.name);
    const std::string path = files.Write(reader.name, reader.bytes);
    MakeOld(path);
    const Dataset data = reader.open(path);
    ASSERT_OK(data.Batch(1).status());
    const std::string before = Bytes(data.source().get(), {999, 0});
    files.Write(reader.name, reader.bytes);
    EXPECT_TRUE(Bytes(data.source().get(), {999, 0}) == before);
    EXPECT_TRUE(Bytes(data.source().get(), {999, 0}) == before);
  }
}

// The open file stays as it is.
TEST(OnDiskTest, Read_AnotherFileOfItsName_ReadsTheOpenOne) {
  const DataFiles files;
  for (const OpenOnDisk& reader : ReadersOnDisk(files)) {
    SCOPED_TRACE(reader.name);
    const std::string path = files.Write(reader.name, reader.bytes);
    const Dataset data = reader.open(path);
    ASSERT_OK(data.Batch(1).status());
    const std::string before = Bytes(data.source().get(), {999, 0});
    const std::string other = files.Write("other", "other");
    ASSERT_EQ(rename(other.c_str(), path.c_str()), 0);
    EXPECT_TRUE(Bytes(data.source().get(), {999, 0}) == before);
  }
}

TEST(OnDiskTest, CheckUnchanged_AnotherFile_IsAnError) {
  const DataFiles files;
  const std::string path = files.Write("a.npy", Npy("'|u1'", "(1,)", "1"));
  InputFile header;
  ASSERT_OK(header.Open(path));
  const std::string other = files.Write("other", ReadWhole(path));
  ASSERT_EQ(rename(other.c_str(), path.c_str()), 0);
  std::unique_ptr<File> again;
  ASSERT_OK(PosixFiles()->Open(path, &again));
  ExpectError(CheckUnchanged(again.get(), header.version()), Code::kCorruption,
              path, "another file has its name now");
}

TEST(OnDiskTest, Read_Uint64BeyondInt64_IsAnErrorWhenItIsRead) {
  const DataFiles files;
  const std::vector<uint64_t> values = {1, ~uint64_t{0}, 3};
  const std::string x = files.Write(
      "x.npy", Npy("'<u8'", "(3, 1)", Packed(values, /*big_endian=*/false)));
  const Dataset data = NpyDataset(x, OnDisk());
  ASSERT_OK(data.Batch(1).status());
  int64_t value = 0;
  for (const int64_t i : {0, 1, 2}) {
    const Status read = data.source()->Read(&i, 1, &value, nullptr);
    if (i != 1) {
      ASSERT_OK(read);
      EXPECT_EQ(value, i + 1);
    } else {
      ExpectError(read, Code::kInvalidArgument, x, "a uint64 is above");
    }
  }
}

// As training and validation read ahead of a file that was split.
TEST(OnDiskTest, Read_TwoThreads_HaveTheirOwnExamples) {
  const DataFiles files;
  const std::string x =
      files.Write("x.npy", Npy("'>i2'", "(1000, 3)", Drawn(6000)));
  const Dataset memory = NpyDataset(x), disk = NpyDataset(x, OnDisk());
  ASSERT_OK(disk.Batch(1).status());
  const auto check = [&](int64_t first) {
    for (int64_t i = first; i < 1000; i += 2) {
      const std::vector<int64_t> index = {i, 999 - i, i / 2};
      ASSERT_EQ(Bytes(memory.source().get(), index),
                Bytes(disk.source().get(), index));
    }
  };
  std::thread other([&] { check(1); });
  check(0);
  other.join();
}

// --- CSV ---------------------------------------------------------------------

// Tables of a few blocks, with content that is hard to parse.
std::string Rows(const std::string& end, int count = 2000) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string kind = i % 7 == 3   ? "\"a " + end + " \"\"b\"\"\""
                             : i % 5 == 0 ? "dog"
                                          : "cat";
    text += std::to_string(i * 37 % 101 / 8.) + "," + kind + "," +
            (i % 11 == 4 ? "" : std::to_string(i)) + "," +
            std::to_string(i % 4 + 1) + ",c" + std::to_string(i % 3) + end;
    if (i % 17 == 0) text += end;
    if (i % 300 == 0) text += "  # " + std::string(9000, 'x') + end;
    if (i % 400 == 7) {
      text += "1,\"" + std::string(10000, 'y') + "\",2,5,c0" + end;
    }
    if (i % 13 == 0)
      text += "NA,only here " + std::to_string(i) + ",7,6,c9" + end;
  }
  return text;
}

CsvOptions DiskOf(CsvOptions options) {
  options.in_memory = false;
  return options;
}

TEST(OnDiskTest, Csv_AnyTable_HasTheBitsInMemory) {
  using Missing = CsvOptions::Missing;
  const DataFiles files;
  for (const char* end : {"\n", "\r\n", "\r"}) {
    for (const char* start : {"", "a,kind,b,w,class\n", "\xEF\xBB\xBF",
                              "sep=,\n", "\n\n # head\n"}) {
      SCOPED_TRACE(std::string(start) + ": " + std::to_string(end[0]));
      const std::string path = files.Write("a.csv", start + Rows(end));
      CsvOptions options;
      options.comment = '#';
      options.header = std::string(start)[0] == 'a';
      options.categorical = {{"1", true, false}};
      options.missing.kind = Missing::kDrop;
      options.missing_by_column["2"].kind = Missing::kMean;
      ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
      options.missing_by_column["2"].kind = Missing::kConstant;
      options.missing_by_column["0"].kind = Missing::kMean;
      options.categorical = {{"1", false, true}};
      options.na_values = {"5", "dog"};
      options.weight_column = 3;
      options.missing_by_column.erase("2");
      ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
      options.for_prediction = true;
      options.missing.kind = Missing::kConstant;
      ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
    }
  }
}

TEST(OnDiskTest, Csv_NumbersAndLabels_HaveTheBitsInMemory) {
  const DataFiles files;
  std::string text = "0;1e-40;,5;7\n";
  for (int i = 0; i < 3000; ++i) {
    text += std::to_string(i) + ";" + std::to_string(i % 9) + ",25;-" +
            std::to_string(i) + "e3;" + std::to_string(i % 10) + "\n";
  }
  text.pop_back();
  const std::string path = files.Write("a.csv", text);
  CsvOptions options;
  options.separator = ';';
  options.decimal = ',';
  options.header = false;
  ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
  options.classes = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
  options.classes.clear();
  options.has_label = false;
  ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
}

// Other data are encoded as the training data were.
TEST(OnDiskTest, Csv_EncodingOfTrainingData_IsUsed) {
  const DataFiles files;
  const std::string path =
      files.Write("a.csv", "a,kind,b,w,class\n" + Rows("\n"));
  CsvOptions options;
  options.comment = '#';
  options.categorical = {{"kind", true, true}};
  options.missing.kind = CsvOptions::Missing::kDrop;
  const Dataset train = CsvDataset(path, options);
  ASSERT_OK(train.Batch(1).status());
  options.encoding = train.source()->Description().encoding;
  options.classes = train.source()->Description().classes;
  const std::string other = files.Write(
      "b.csv", "b,class,w,kind,a\n" + std::string("4,c1,1,fish,6\n"
                                                  "5,c2,2,cat,7\n"));
  options.training_columns = train.source()->Description().columns;
  ExpectSame(CsvDataset(path, options), CsvDataset(path, DiskOf(options)));
  ExpectSame(CsvDataset(other, options), CsvDataset(other, DiskOf(options)));
}

TEST(OnDiskTest, Csv_CompressedOrWrong_IsRefused) {
  const DataFiles files;
  const std::string packed = files.Write("a.csv.gz", Gzip("1,2\n3,4\n"));
  ExpectError(CsvDataset(packed, DiskOf({})).status(), Code::kInvalidArgument,
              packed, "unpack it");
  const std::string wrong = files.Write("b.csv", "1,2\n3,x4,5\n");
  ExpectError(CsvDataset(wrong, DiskOf({})).status(), Code::kCorruption, wrong,
              "line 2 has 3 fields");
}

TEST(OnDiskTest, Csv_FileChangedOrCutWhileOpen_IsAnError) {
  const DataFiles files;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "1,2,3\n";
  const std::string path = files.Write("a.csv", text);
  CsvOptions options;
  options.header = options.in_memory = false;
  MakeOld(path);
  const Dataset data = CsvDataset(path, options);
  ASSERT_OK(data.Batch(1).status());
  float x[2], y;
  const auto read = [&](int64_t i) {
    return data.source()->Read(&i, 1, x, &y);
  };
  EXPECT_OK(read(10));
  EXPECT_EQ(x[1], 2);
  EXPECT_EQ(y, 3);
  ASSERT_EQ(truncate(path.c_str(), 9000), 0);
  ExpectError(read(1999), Code::kCorruption, path,
              "it had 12000 bytes and has 9000");
  ExpectError(read(1999), Code::kCorruption, path, "was changed");
  files.Write("a.csv", std::string(12000, '\n'));
  ExpectError(read(1000), Code::kCorruption, path, "was changed");
}

TEST(OnDiskTest, BytesInMemory_OfACsv_EqualItsIndex) {
  const DataFiles files;
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "1,2,3\n";
  const std::string path = files.Write("a.csv", text);
  CsvOptions options;
  options.header = false;
  uint64_t bytes = 0;
  ASSERT_OK(CsvBytesInMemory(path, options, &bytes));
  EXPECT_EQ(bytes, 10000u * 3 * 4);
  ASSERT_OK(CsvBytesInMemory(path, DiskOf(options), &bytes));
  // A block for each 4 KiB, of whole rows of 6 bytes.
  EXPECT_EQ(bytes, (60000 + 4097) / 4098 * 16u);
  options.weight_column = 0;
  ASSERT_OK(CsvBytesInMemory(path, DiskOf(options), &bytes));
  EXPECT_EQ(bytes, (60000 + 4097) / 4098 * 16u + 10000 * 4);
}

TEST(OnDiskTest, BytesInMemory_OfArrays_EqualTheLabels) {
  const DataFiles files;
  const std::string classes =
      files.Write("y.npy", Npy("'<i8'", "(10,)", Drawn(80)));
  const std::string values =
      files.Write("v.npy", Npy("'<i8'", "(10, 2)", Drawn(160)));
  const std::string idx = files.Write("v", Idx(0x08, {10, 2}, Drawn(20)));
  uint64_t bytes = 0;
  ASSERT_OK(NpyBytesInMemory(classes, OnDisk(), &bytes));
  EXPECT_EQ(bytes, 80u);
  ASSERT_OK(NpyBytesInMemory(values, OnDisk(), &bytes));
  EXPECT_EQ(bytes, 0u);
  ASSERT_OK(NpyBytesInMemory(values, {}, &bytes));
  EXPECT_EQ(bytes, 160u);
  ASSERT_OK(IdxBytesInMemory(idx, OnDisk(), &bytes));
  EXPECT_EQ(bytes, 0u);
  ASSERT_OK(IdxBytesInMemory(idx, {}, &bytes));
  EXPECT_EQ(bytes, 20u);
}

}  // namespace
}  // namespace ringlet
