#include "io/readers/arrays/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <type_traits>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/peak_memory.h"
#include "io/files/open_error.h"

namespace ringlet {
namespace {

constexpr char kUint8 = 0x08, kInt8 = 0x09, kInt16 = 0x0B, kInt32 = 0x0C,
               kFloat32 = 0x0D, kFloat64 = 0x0E;

std::string Header(char type, const std::vector<uint32_t>& dims) {
  return std::string("\0\0", 2) + type + static_cast<char>(dims.size()) +
         Packed(dims, /*big_endian=*/true);
}

template <typename T>
std::string Idx(char type, const std::vector<uint32_t>& dims,
                const std::vector<T>& values) {
  return Header(type, dims) + Packed(values, /*big_endian=*/true);
}

// Three images of 2x2 and their labels.
const std::vector<uint8_t> kPixels = {0,  1,  2,   3,   10,  11,
                                      12, 13, 252, 253, 254, 255};
const std::vector<uint8_t> kClasses = {7, 0, 9};

std::string Images() { return Idx(kUint8, {3, 2, 2}, kPixels); }
std::string Labels() { return Idx(kUint8, {3}, kClasses); }

Status ReadOne(const std::string& path, std::string* content) {
  NpyArray array;
  const Status status = ReadIdx(path, &array);
  content->assign(array.data.begin(), array.data.end());
  return status;
}

Status OpenError(const std::string& images, const std::string& labels,
                 bool in_memory = true) {
  ArrayOptions options;
  options.in_memory = in_memory;
  return IdxDataset(images, labels, options).Batch(1).status();
}

template <typename T>
void ExpectReads(char type, DType dtype, const std::vector<T>& values) {
  using InMemory =
      std::conditional_t<(sizeof(T) < 4 && std::is_signed_v<T>), int32_t, T>;
  const DataFiles files;
  const uint32_t half = static_cast<uint32_t>(values.size()) / 2;
  const std::string bytes = Idx(type, {2, half}, values);
  for (const std::string& path :
       {files.Write("plain", bytes), files.Write("packed.gz", Gzip(bytes)),
        files.Write("packed-but-not-named-so", Gzip(bytes))}) {
    NpyArray array;
    ASSERT_OK(ReadIdx(path, &array));
    EXPECT_EQ(array.dtype, dtype);
    EXPECT_EQ(array.shape, (Shape{2, half}));
    EXPECT_EQ(Values<InMemory>(array.data),
              std::vector<InMemory>(values.begin(), values.end()));
  }
}

TEST(IdxTest, Read_EveryElementType_IsConvertedFromBigEndian) {
  ExpectReads<uint8_t>(kUint8, DType::kUint8, {0, 1, 127, 128, 254, 255});
  ExpectReads<int8_t>(kInt8, DType::kInt32, {0, 1, -1, 127, -128, 5});
  ExpectReads<int16_t>(kInt16, DType::kInt32,
                       {0, 1, -1, 0x0102, 32767, -32768});
  ExpectReads<int32_t>(
      kInt32, DType::kInt32,
      {0, 1, -1, 0x01020304, std::numeric_limits<int32_t>::min(),
       std::numeric_limits<int32_t>::max()});
  ExpectReads<float>(kFloat32, DType::kFloat32,
                     {0, -1.5f, 3.14159f, std::numeric_limits<float>::max(),
                      std::numeric_limits<float>::denorm_min(),
                      std::numeric_limits<float>::infinity()});
  ExpectReads<double>(kFloat64, DType::kFloat64,
                      {0, -1.5, 3.14159, std::numeric_limits<double>::max(),
                       std::numeric_limits<double>::denorm_min(),
                       std::numeric_limits<double>::infinity()});
}

TEST(IdxTest, Read_OneToEightDimensions_HaveTheirShape) {
  const DataFiles files;
  std::vector<uint32_t> dims;
  for (int rank = 1; rank <= Shape::kMaxRank; ++rank) {
    dims.push_back(rank == 3 ? 3 : 1);
    const std::vector<uint8_t> values(rank < 3 ? 1 : 3, 5);
    NpyArray array;
    ASSERT_OK(ReadIdx(files.Write("a", Idx(kUint8, dims, values)), &array));
    EXPECT_EQ(array.shape.rank(), rank);
    EXPECT_EQ(Values<uint8_t>(array.data), values);
  }
}

TEST(IdxTest, Open_InMemoryOrOnDisk_GivesTheSameExamples) {
  const DataFiles files;
  const std::string images = files.Write("images", Images());
  const std::string images_gz = files.Write("images.gz", Gzip(Images()));
  const std::string labels = files.Write("labels", Labels());
  const std::string labels_gz = files.Write("labels.gz", Gzip(Labels()));
  struct Case {
    std::string images, labels;
    bool in_memory;
  };
  for (const Case& c : {Case{images, labels, true},
                        {images, labels, false},
                        {images_gz, labels, true},
                        {images, labels_gz, true},
                        {images_gz, labels_gz, true},
                        {images, labels_gz, false}}) {
    ArrayOptions options;
    options.in_memory = c.in_memory;
    std::shared_ptr<Source> source;
    ASSERT_OK(OpenIdx(c.images, c.labels, options, &source));
    EXPECT_EQ(source->size(), 3);
    EXPECT_EQ(source->x().dtype, DType::kUint8);
    EXPECT_EQ(source->x().shape, (Shape{2, 2}));
    EXPECT_EQ(source->y().dtype, DType::kUint8);
    EXPECT_EQ(source->y().shape, Shape());
    EXPECT_EQ(files.Path(source->name()), c.images);
    std::vector<uint8_t> x, y;
    ReadAll(source.get(), &x, &y);
    EXPECT_EQ(x, kPixels);
    EXPECT_EQ(y, kClasses);
    // Any order, the same example twice, without labels.
    const int64_t index[] = {2, 0, 2};
    x.assign(12, 0);
    ASSERT_OK(source->Read(index, 3, x.data(), nullptr));
    EXPECT_EQ(x, (std::vector<uint8_t>{252, 253, 254, 255, 0, 1, 2, 3, 252, 253,
                                       254, 255}));
  }
}

TEST(IdxTest, Dataset_AnyElementTypes_EqualTheFiles) {
  const DataFiles files;
  const std::vector<double> values = {1e300, -2, 0.25, 4};
  const std::vector<float> targets = {0.5f, -1e-30f};
  const Dataset d =
      IdxDataset(files.Write("x", Idx(kFloat64, {2, 2}, values)),
                 files.Write("y.gz", Gzip(Idx(kFloat32, {2, 1}, targets))));
  ASSERT_OK(d.Batch(2).status());
  EXPECT_EQ(d.source()->x().dtype, DType::kFloat64);
  EXPECT_EQ(d.source()->y().dtype, DType::kFloat32);
  EXPECT_EQ(d.source()->y().shape, (Shape{1}));
  std::vector<double> x;
  std::vector<float> y;
  ReadAll(d.source().get(), &x, &y);
  EXPECT_EQ(x, values);
  EXPECT_EQ(y, targets);
}

TEST(IdxTest, Dataset_SignedTypes_AreInt32) {
  const DataFiles files;
  const std::vector<int16_t> values = {-300, 2, 300, -4};
  const std::vector<int8_t> labels = {1, 0};
  const std::string x = files.Write("x.gz", Gzip(Idx(kInt16, {2, 2}, values)));
  const Dataset d = IdxDataset(x, files.Write("y", Idx(kInt8, {2, 1}, labels)));
  ASSERT_OK(d.Batch(2).status());
  std::vector<int32_t> read, classes;
  ReadAll(d.source().get(), &read, &classes);
  EXPECT_EQ(read, (std::vector<int32_t>{-300, 2, 300, -4}));
  EXPECT_EQ(classes, (std::vector<int32_t>{1, 0}));
  double least = 0, largest = 0;
  ASSERT_TRUE(d.source()->XRange(&least, &largest));
  EXPECT_EQ(least, -300);
  EXPECT_EQ(largest, 300);
  EXPECT_EQ(IdxDataset(x).source()->x().dtype, DType::kInt32);
}

TEST(IdxTest, Dataset_SeveralPairsOfFiles_ReadAsOne) {
  const DataFiles files;
  const std::string images = files.Write("images", Images());
  const std::string labels = files.Write("labels", Labels());
  const std::string more = files.Write(
      "more.gz", Gzip(Idx<uint8_t>(kUint8, {1, 2, 2}, {4, 5, 6, 7})));
  const std::string more_labels =
      files.Write("more-labels", Idx<uint8_t>(kUint8, {1}, {5}));
  const Dataset d = IdxDataset(std::vector<std::string>{images, more},
                               std::vector<std::string>{labels, more_labels});
  ASSERT_OK(d.Batch(1).status());
  EXPECT_EQ(d.source()->FileStarts(), (std::vector<int64_t>{0, 3}));
  std::vector<uint8_t> x, y;
  ReadAll(d.source().get(), &x, &y);
  EXPECT_EQ(y, (std::vector<uint8_t>{7, 0, 9, 5}));
  EXPECT_EQ(x.back(), 7);
}

TEST(IdxTest, Dataset_PairsThatDoNotMatch_AreRefused) {
  const DataFiles files;
  const std::string images = files.Write("images", Images());
  const std::string labels = files.Write("labels", Labels());
  const std::string wide = files.Write("wide", Idx(kUint8, {3, 1, 4}, kPixels));
  using Paths = std::vector<std::string>;
  ExpectError(IdxDataset(Paths{images, images}, Paths{labels}).status(),
              Code::kInvalidArgument, "2 files of images but 1 of labels", "");
  ExpectError(IdxDataset(Paths{}, Paths{}).status(), Code::kInvalidArgument,
              "no sources", "");
  ExpectError(IdxDataset(Paths{images, wide}, Paths{labels, labels}).status(),
              Code::kInvalidArgument, "wide", "differ in type or shape");
  ExpectError(
      IdxDataset(Paths{images, files.Path("none")}, Paths{labels, labels})
          .status(),
      Code::kNotFound, files.Path("none"), "");
}

TEST(IdxTest, Open_OnDiskPacked_IsRefused) {
  const DataFiles files;
  const std::string labels = files.Write("labels", Labels());
  const std::string packed = files.Write("images.gz", Gzip(Images()));
  ExpectError(OpenError(packed, labels, /*in_memory=*/false),
              Code::kInvalidArgument, packed, "in_memory");
}

TEST(IdxTest, Read_CutAtAnyByte_IsRefusedWithItsOffset) {
  const DataFiles files;
  const std::string floats =
      Idx<double>(kFloat64, {2, 1, 2}, {1.5, 2.5, 3.5, 4.5});
  for (const std::string& bytes : {Images(), Labels(), floats}) {
    ExpectCutsAreFound(files, "cut", bytes, ReadOne, "offset ");
    ExpectCutsAreFound(files, "cut.gz", Gzip(bytes), ReadOne, "offset ");
  }
  const std::string images = files.Write("images", Images());
  const std::string labels = files.Write("labels", Labels());
  for (const bool in_memory : {true, false}) {
    ExpectCutsAreFound(
        files, "cut-images", Images(),
        [&](const std::string& path, std::string*) {
          return OpenError(path, labels, in_memory);
        },
        "offset ");
    ExpectCutsAreFound(
        files, "cut-labels", Labels(),
        [&](const std::string& path, std::string*) {
          return OpenError(images, path, in_memory);
        },
        "offset ");
  }
}

TEST(IdxTest, Read_CutFile_SaysWhereItEnds) {
  const DataFiles files;
  NpyArray array;
  std::string path = files.Write("a", Images().substr(0, 3));
  ExpectError(ReadIdx(path, &array), Code::kCorruption, path,
              "ends at offset 3, within the IDX magic number");
  path = files.Write("a", Header(kUint8, {0x01000000}).substr(0, 6));
  ExpectError(ReadIdx(path, &array), Code::kCorruption, path,
              "ends at offset 6, within the IDX dimensions");
  path = files.Write("a", Labels().substr(0, 9));
  ExpectError(ReadIdx(path, &array), Code::kCorruption, path,
              "offset 4: dimension 0 is 3, but no more than 1 elements");
  // This number of compressed bytes could hold all elements, but does not.
  path = files.Write("a.gz", Gzip(Images().substr(0, 20)));
  ExpectError(ReadIdx(path, &array), Code::kCorruption, path,
              "ends at offset 20, within the elements");
}

TEST(IdxTest, Read_DamagedGzip_IsRefused) {
  const DataFiles files;
  ExpectGzipDamageIsFound(files, "images.gz", Gzip(Images()), ReadOne);
  std::vector<uint8_t> noise(1000);
  for (size_t i = 0; i < noise.size(); ++i) {
    noise[i] = static_cast<uint8_t>(i * i / 7 % 13);
  }
  ExpectGzipDamageIsFound(files, "noise.gz", Gzip(Idx(kUint8, {1000}, noise)),
                          ReadOne);
}

TEST(IdxTest, Read_OtherMagicNumber_IsRefusedAndShown) {
  const DataFiles files;
  NpyArray array;
  for (const int at : {0, 1}) {
    std::string bytes = Images();
    bytes[static_cast<size_t>(at)] = 0x50;
    const std::string path = files.Write("a", bytes);
    ExpectError(ReadIdx(path, &array), Code::kCorruption, path, "offset 0: ");
  }
  const std::string png = files.Write("a.png", "\x89PNG\r\n\x1a\n");
  ExpectError(ReadIdx(png, &array), Code::kCorruption, png, "89 50 4e 47");
}

TEST(IdxTest, Read_AnyOtherElementType_IsRefused) {
  const DataFiles files;
  NpyArray array;
  for (int type = 0; type < 256; ++type) {
    std::string bytes = Idx<uint8_t>(kUint8, {8}, std::vector<uint8_t>(8));
    bytes[2] = static_cast<char>(type);
    if (type == 0x0B) bytes[7] = 4;
    if (type == 0x0C || type == 0x0D) bytes[7] = 2;
    if (type == 0x0E) bytes[7] = 1;
    const std::string path = files.Write("a", bytes);
    const Status status = ReadIdx(path, &array);
    if (type == 0x08 || type == 0x09 || (type >= 0x0B && type <= 0x0E)) {
      EXPECT_OK(status) << type;
    } else {
      ExpectError(status, Code::kCorruption, path, "offset 2: ");
    }
  }
}

TEST(IdxTest, Read_NoneOrTooManyDimensions_IsRefused) {
  const DataFiles files;
  NpyArray array;
  for (const int rank : {0, 9, 128, 255}) {
    std::string bytes = Header(kUint8, std::vector<uint32_t>(255, 1)) + "1";
    bytes[3] = static_cast<char>(rank);
    const std::string path = files.Write("a", bytes);
    ExpectError(ReadIdx(path, &array), Code::kCorruption, path, "offset 3: ");
  }
}

TEST(IdxTest, Read_DimensionOfZero_IsRefused) {
  const DataFiles files;
  const std::string labels = files.Write("labels", Labels());
  struct Case {
    std::vector<uint32_t> dims;
    const char* where;
  };
  for (const Case& c : {Case{{0}, "offset 4: dimension 0 is 0"},
                        {{0, 28, 28}, "offset 4: dimension 0 is 0"},
                        {{0, 0xFFFFFFFF, 0xFFFFFFFF}, "offset 4: "},
                        {{3, 0}, "offset 8: dimension 1 is 0"},
                        {{1, 2, 0}, "offset 12: dimension 2 is 0"}}) {
    // The bytes behind the header suffice for the dimensions before the zero.
    const std::string bytes = Header(kUint8, c.dims) + "abc";
    for (const std::string& path :
         {files.Write("zero", bytes), files.Write("zero.gz", Gzip(bytes))}) {
      NpyArray array;
      ExpectError(ReadIdx(path, &array), Code::kCorruption, path, c.where);
      ExpectError(OpenError(path, labels), Code::kCorruption, path, c.where);
    }
  }
}

TEST(IdxTest, Read_HugeDimensions_AreRefusedBeforeMemoryIsTaken) {
  const DataFiles files;
  const std::string labels = files.Write("labels", Labels());
  for (const std::vector<uint32_t>& dims :
       {std::vector<uint32_t>{0xFFFFFFFF},
        {0x80000000, 0x80000000},
        {3, 0xFFFFFFFF, 2},
        {65536, 65536, 65536, 65536},
        std::vector<uint32_t>(8, 0xFFFFFFFF)}) {
    for (const char type : {kUint8, kInt32, kFloat32, kFloat64}) {
      const std::string bytes = Header(type, dims) + "0123456789ab";
      for (const std::string& path :
           {files.Write("huge", bytes), files.Write("huge.gz", Gzip(bytes))}) {
        NpyArray array;
        ExpectError(ReadIdx(path, &array), Code::kCorruption, path,
                    "elements can follow");
        EXPECT_LT(array.data.capacity(), 1u << 20);
      }
      ExpectError(OpenError(files.Path("huge"), labels, /*in_memory=*/false),
                  Code::kCorruption, files.Path("huge"), "offset ");
    }
  }
}

TEST(IdxTest, Read_BytesAfterTheElements_IsRefused) {
  const DataFiles files;
  const std::string labels = files.Write("labels", Labels());
  for (const std::string& extra : {std::string(1, '\0'), Labels()}) {
    const std::string bytes = Images() + extra;
    const std::string path = files.Write("long", bytes);
    NpyArray array;
    ExpectError(ReadIdx(path, &array), Code::kCorruption, path, "offset 28");
    ExpectError(OpenError(path, labels, /*in_memory=*/false), Code::kCorruption,
                path, "offset 16");
    const std::string packed = files.Write("long.gz", Gzip(bytes));
    ExpectError(ReadIdx(packed, &array), Code::kCorruption, packed,
                "offset 28");
    // A second gzip member continues where the first ends.
    const std::string two = files.Write("two.gz", Gzip(Images()) + Gzip(extra));
    ExpectError(ReadIdx(two, &array), Code::kCorruption, two, "offset 28");
  }
}

TEST(IdxTest, Read_GzipOfSeveralMembersAndPadding_IsWhole) {
  const DataFiles files;
  const std::string bytes = Images();
  const std::string packed =
      Gzip(bytes.substr(0, 9)) + Gzip("") + Gzip(bytes.substr(9));
  for (const std::string& path :
       {files.Write("members.gz", packed),
        files.Write("padded.gz", packed + std::string(512, '\0'))}) {
    NpyArray array;
    ASSERT_OK(ReadIdx(path, &array));
    EXPECT_EQ(Values<uint8_t>(array.data), kPixels);
  }
}

TEST(IdxTest, Open_ImagesAndLabelsOfOtherCounts_AreRefused) {
  const DataFiles files;
  const std::string images = files.Write("images", Images());
  const std::string labels =
      files.Write("labels", Idx<uint8_t>(kUint8, {2}, {1, 2}));
  for (const bool in_memory : {true, false}) {
    const Status status = OpenError(images, labels, in_memory);
    ExpectError(status, Code::kInvalidArgument, images + " has 3 examples", "");
    ExpectError(status, Code::kInvalidArgument, labels + " has 2 labels", "");
  }
}

TEST(IdxTest, Open_MissingEmptyOrNotRegular_IsRefused) {
  const DataFiles files;
  const std::string images = files.Write("images", Images());
  const std::string labels = files.Write("labels", Labels());
  const std::string missing = files.Path("missing");
  const std::string empty = files.Write("empty", "");
  const std::string inside = labels + "/labels";
  const std::string pipe = files.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  struct Case {
    std::string path;
    Code code;
    const char* where;
  };
  for (const Case& c :
       {Case{missing, Code::kNotFound, "No such file"},
        {"", Code::kNotFound, "No such file"},
        {files.root(), Code::kInvalidArgument, "not a regular file"},
        {pipe, Code::kInvalidArgument, "not a regular file"},
        {inside, Code::kInvalidArgument, "Not a directory"},
        {empty, Code::kCorruption, "ends at offset 0, within the IDX magic"}}) {
    NpyArray array;
    ExpectError(ReadIdx(c.path, &array), c.code, c.path, c.where);
    for (const bool in_memory : {true, false}) {
      ExpectError(OpenError(c.path, labels, in_memory), c.code, c.path,
                  c.where);
      ExpectError(OpenError(images, c.path, in_memory), c.code, c.path,
                  c.where);
    }
  }
}

TEST(IdxTest, Read_FileCutWhileOpen_IsNoticed) {
  const DataFiles files;
  const std::string images = files.Write("images", Images());
  const std::string labels = files.Write("labels", Labels());
  ArrayOptions options;
  options.in_memory = false;
  std::shared_ptr<Source> source;
  ASSERT_OK(OpenIdx(images, labels, options, &source));
  ASSERT_EQ(truncate(images.c_str(), 22), 0);
  uint8_t x[12], y[3];
  const int64_t index[] = {0, 1, 2};
  for (const int count : {1, 3}) {
    ExpectError(source->Read(index, count, x, y), Code::kCorruption, images,
                "it had 28 bytes and has 22");
  }
}

// Before memory is allocated, the content of a compressed file is measured, and
// its size is compared with the other file.
TEST(IdxTest, Read_RefusedFile_TakesLittleMemory) {
  constexpr uint32_t kMany = 16 << 20;
  constexpr long kLittle = kMany >> 11;  // KiB: half of it
  const DataFiles files;
  const std::string zeros(kMany, '\0');
  const std::string less =
      files.Write("less.gz", Gzip(Header(kUint8, {kMany + 1}) + zeros));
  const std::string more =
      files.Write("more.gz", Gzip(Header(kUint8, {kMany - 1}) + zeros));
  const std::string members =
      files.Write("members.gz", Gzip(Header(kUint8, {kMany + 1})) +
                                    Gzip(zeros.substr(kMany / 2)) +
                                    Gzip(zeros.substr(kMany / 2)));
  for (const std::string& path : {less, more, members}) {
    NpyArray array;
    EXPECT_LT(PeakKiB([&] {
                if (ReadIdx(path, &array).code() != Code::kCorruption) abort();
              }),
              kLittle)
        << path;
  }
  const std::string whole =
      files.Write("whole.gz", Gzip(Header(kUint8, {kMany}) + zeros));
  const std::string images = files.Write("images", Images());
  EXPECT_LT(PeakKiB([&] {
              if (OpenError(images, whole).ok()) abort();
              if (OpenError(whole, files.Write("labels", Labels())).ok()) {
                abort();
              }
            }),
            kLittle);
  // A file that is read takes no more memory than its content.
  NpyArray array;
  EXPECT_LT(PeakKiB([&] {
              if (!ReadIdx(whole, &array).ok()) abort();
            }),
            static_cast<long>(kMany >> 10) + kLittle);
}

}  // namespace
}  // namespace ringlet
