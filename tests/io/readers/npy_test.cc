#include "ringlet/readers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/full_disk.h"
#include "../../support/peak_memory.h"
#include "npy_files.h"

namespace ringlet {
namespace {

template <typename T>
void ExpectReads(const std::string& type, DType dtype,
                 const std::vector<T>& values) {
  const DataFiles files;
  const int64_t half = static_cast<int64_t>(values.size()) / 2;
  const std::string shape = "(2, " + std::to_string(half) + ")";
  for (int version = 1; version <= 3; ++version) {
    for (const char order : {'<', '>', '|'}) {
      if (order == '|' && sizeof(T) > 1) continue;
      const std::string bytes = Npy(version, Dictionary(order + type, shape),
                                    Packed(values, order == '>'));
      for (const std::string& path : {files.Write("a.npy", bytes),
                                      files.Write("a.npy.gz", Gzip(bytes))}) {
        SCOPED_TRACE(path + ": " + order + type);
        NpyArray array;
        ASSERT_OK(ReadNpy(path, &array));
        EXPECT_EQ(array.dtype, dtype);
        EXPECT_EQ(array.shape, (Shape{2, half}));
        EXPECT_EQ(Values<T>(array.data), values);
      }
    }
  }
  // A written array reads back as the same array.
  const std::string path = files.Path("written.npy");
  ASSERT_OK(WriteNpy(path, dtype, {half, 2, 1}, values.data()));
  NpyArray array;
  ASSERT_OK(ReadNpy(path, &array));
  EXPECT_EQ(array.dtype, dtype);
  EXPECT_EQ(array.shape, (Shape{half, 2, 1}));
  EXPECT_EQ(Values<T>(array.data), values);
}

TEST(NpyTest, Read_EveryTypeOrderAndVersion_HasTheSameValues) {
  ExpectReads<uint8_t>("u1", DType::kUint8, {0, 1, 127, 128, 254, 255});
  ExpectReads<int32_t>(
      "i4", DType::kInt32,
      {0, 1, -1, 0x01020304, std::numeric_limits<int32_t>::min(),
       std::numeric_limits<int32_t>::max()});
  ExpectReads<int64_t>(
      "i8", DType::kInt64,
      {0, 1, -1, 0x0102030405060708, std::numeric_limits<int64_t>::min(),
       std::numeric_limits<int64_t>::max()});
  ExpectReads<float>("f4", DType::kFloat32,
                     {0, -1.5f, 3.14159f, std::numeric_limits<float>::max(),
                      std::numeric_limits<float>::denorm_min(),
                      std::numeric_limits<float>::infinity()});
  ExpectReads<double>("f8", DType::kFloat64,
                      {0, -1.5, 3.14159, std::numeric_limits<double>::max(),
                       std::numeric_limits<double>::denorm_min(),
                       std::numeric_limits<double>::infinity()});
}

TEST(NpyTest, RoundTrip_AnyShapeUpToEightDimensions_IsTheSame) {
  const DataFiles files;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{6}, Shape{2, 3}, Shape{1, 1, 6},
        Shape{1, 1, 2, 1, 1, 3, 1, 1}, Shape{0}, Shape{0, 3}, Shape{3, 0},
        Shape{4, 0, 1000000}}) {
    SCOPED_TRACE(shape.ToString());
    const std::string path = files.Path("a.npy");
    ASSERT_OK(WriteNpy(path, DType::kFloat32, shape, values.data()));
    NpyArray array;
    ASSERT_OK(ReadNpy(path, &array));
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(
        Values<float>(array.data),
        std::vector<float>(values.begin(), values.begin() + shape.elements()));
  }
}

TEST(NpyTest, Header_AnySpacingAndOrder_IsRead) {
  const DataFiles files;
  const std::string elements =
      Packed(std::vector<float>{1, 2, 3, 4, 5, 6}, /*big_endian=*/false);
  for (const char* header :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
        "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
        "{'shape': (2, 3), 'descr': '<f4', 'fortran_order': False}",
        "{ 'shape' : ( 2 , 3 ) , 'descr' : '<f4' , 'fortran_order' : False }",
        "{'shape': (2, 3,), 'descr': '=f4', 'fortran_order': False, }"}) {
    SCOPED_TRACE(header);
    NpyArray array;
    ASSERT_OK(ReadNpy(files.Write("a.npy", Npy(1, header, elements)), &array));
    EXPECT_EQ(array.shape, (Shape{2, 3}));
    EXPECT_EQ(array.dtype, DType::kFloat32);
  }
}

TEST(NpyTest, Header_NotPadded_IsRead) {
  const DataFiles files;
  const std::string header = Dictionary("|u1", "(3,)");
  const std::string path = files.Write(
      "a.npy", std::string("\x93NUMPY\1\0", 8) +
                   static_cast<char>(header.size()) + '\0' + header + "abc");
  NpyArray array;
  ASSERT_OK(ReadNpy(path, &array));
  EXPECT_EQ(Values<char>(array.data), (std::vector<char>{'a', 'b', 'c'}));
}

TEST(NpyTest, Read_FailsAfterAnother_LeavesTheArrayEmpty) {
  const DataFiles files;
  NpyArray array;
  ASSERT_OK(ReadNpy(files.Write("a.npy", Small()), &array));
  EXPECT_FALSE(ReadNpy(files.Path("none.npy"), &array).ok());
  EXPECT_EQ(array.shape, Shape());
  EXPECT_TRUE(array.data.empty());
}

TEST(NpyTest, SampleWeights_AnyAxes_AreReadOfEachExample) {
  const DataFiles files;
  const std::string path = files.Path("w.npy");
  const double values[] = {0.5, 2, -1, 0};
  std::vector<float> weights;
  int64_t each = 0;
  for (const Shape& shape : {Shape({4}), Shape({4, 1})}) {
    ASSERT_OK(WriteNpy(path, DType::kFloat64, shape, values));
    ASSERT_OK(ReadSampleWeights(path, &weights, &each));
    EXPECT_EQ(weights, (std::vector<float>{0.5f, 2, -1, 0}));
    EXPECT_EQ(each, 1);
  }
  for (const Shape& shape : {Shape({2, 2}), Shape({2, 1, 2})}) {
    ASSERT_OK(WriteNpy(path, DType::kFloat64, shape, values));
    ASSERT_OK(ReadSampleWeights(path, &weights, &each));
    EXPECT_EQ(weights, (std::vector<float>{0.5f, 2, -1, 0}));
    EXPECT_EQ(each, 2);
  }
  for (const Shape& shape : {Shape(), Shape({0}), Shape({2, 0})}) {
    ASSERT_OK(WriteNpy(path, DType::kFloat64, shape, values));
    EXPECT_FALSE(ReadSampleWeights(path, &weights, &each).ok());
  }
}

TEST(NpyTest, Dataset_TwoArrays_PairsTheFirstDimensions) {
  const DataFiles files;
  const std::vector<int64_t> classes = {1, 0};
  const std::string y =
      files.Write("y.npy.gz", Gzip(Npy(2, Dictionary(">i8", "(2,)"),
                                       Packed(classes, /*big_endian=*/true))));
  const Dataset d = NpyDataset(files.Write("x.npy", Small()), y);
  ASSERT_OK(d.Batch(1).status());
  EXPECT_EQ(d.size(), 2);
  EXPECT_EQ(d.source()->name(), "x.npy");
  EXPECT_EQ(d.source()->x().shape, (Shape{3}));
  EXPECT_EQ(d.source()->y().dtype, DType::kInt64);
  std::vector<float> x;
  std::vector<int64_t> labels;
  ReadAll(d.source().get(), &x, &labels);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(labels, classes);
}

TEST(NpyTest, Dataset_ArraysThatDoNotMatch_AreRefused) {
  const DataFiles files;
  const std::string x = files.Write("x.npy", Small());
  const float values[3] = {1, 2, 3};
  const std::string three = files.Path("three.npy");
  ASSERT_OK(WriteNpy(three, DType::kFloat32, {3}, values));
  Status status = NpyDataset(x, three).status();
  ExpectError(status, Code::kInvalidArgument, x + " has 2 examples", "");
  ExpectError(status, Code::kInvalidArgument, three + " has 3 labels", "");
  const std::string one = files.Path("one.npy");
  ASSERT_OK(WriteNpy(one, DType::kFloat32, {}, values));
  ExpectError(NpyDataset(one, x).status(), Code::kInvalidArgument, one,
              "a single value");
  ExpectError(NpyDataset(x, one).status(), Code::kInvalidArgument, one,
              "a single value");
  const std::string hollow = files.Path("hollow.npy");
  ASSERT_OK(WriteNpy(hollow, DType::kFloat32, {2, 3, 0}, values));
  for (const bool first : {true, false}) {
    ExpectError(NpyDataset(first ? hollow : x, first ? x : hollow).status(),
                Code::kInvalidArgument, hollow, "hold no values");
  }
  const std::string none = files.Path("none.npy");
  ASSERT_OK(WriteNpy(none, DType::kFloat32, {0, 3}, values));
  ExpectError(NpyDataset(none, none).Batch(1).status(), Code::kInvalidArgument,
              "none.npy", "no examples");
  ExpectError(NpyDataset(x, files.Path("missing")).status(), Code::kNotFound,
              files.Path("missing"), "");
}

TEST(NpyTest, Read_CutAtAnyByte_IsRefused) {
  const DataFiles files;
  for (int version = 1; version <= 3; ++version) {
    const std::string bytes =
        Npy(version, Dictionary(">f8", "(3,)"),
            Packed(std::vector<double>{1, 2, 3}, /*big_endian=*/true));
    const std::string data = bytes.substr(bytes.size() - 24);
    const size_t header = bytes.size() - data.size();
    ExpectCutsAreFound(files, "a.npy", bytes, ReadOne, "");
    ExpectCutsAreFound(files, "a.npy.gz", Gzip(bytes), ReadOne, "offset ");
    // Before the elements the place is an offset, after that the header's
    // shape.
    for (size_t n = 0; n < bytes.size(); ++n) {
      const std::string path = files.Write("a.npy", bytes.substr(0, n));
      ExpectError(ErrorOf(path), Code::kCorruption, path,
                  n < header ? "ends at offset " + std::to_string(n)
                             : "header: shape (3,)");
    }
  }
}

TEST(NpyTest, Read_GzipHoldsTooLittle_SaysWhereItEnds) {
  const DataFiles files;
  const std::string path = files.Write(
      "a.npy.gz", Gzip(Npy(1, Dictionary("|u1", "(1000,)"), "only this")));
  ExpectError(ErrorOf(path), Code::kCorruption, path,
              "ends at offset 137, within the elements");
}

TEST(NpyTest, Read_DamagedGzip_IsRefused) {
  const DataFiles files;
  ExpectGzipDamageIsFound(files, "a.npy.gz", Gzip(Small()), ReadOne);
}

TEST(NpyTest, Header_AnyByteChanged_IsReadOrRefused) {
  const DataFiles files;
  const std::string small = Small();
  const size_t elements = small.size() - 24;
  for (size_t i = 0; i < elements; ++i) {
    for (const char value : std::string("\0\1\t'():,9{}\xFF", 12)) {
      std::string bytes = small;
      bytes[i] = value;
      const std::string path = files.Write("a.npy", bytes);
      const Status status = ErrorOf(path);
      if (!status.ok()) ExpectError(status, status.code(), path, "");
      EXPECT_TRUE(status.ok() || status.code() == Code::kCorruption ||
                  status.code() == Code::kInvalidArgument)
          << status.message();
    }
  }
}

TEST(NpyTest, Read_OtherMagicNumberOrVersion_IsRefused) {
  const DataFiles files;
  for (size_t i = 0; i < 6; ++i) {
    std::string bytes = Small();
    bytes[i] = static_cast<char>(bytes[i] ^ 0x20);
    const std::string path = files.Write("a.npy", bytes);
    ExpectError(ErrorOf(path), Code::kCorruption, path, "offset 0: ");
  }
  for (const int version : {0, 4, 255}) {
    std::string bytes = Small();
    bytes[6] = static_cast<char>(version);
    const std::string path = files.Write("a.npy", bytes);
    ExpectError(ErrorOf(path), Code::kCorruption, path,
                "offset 6: NPY version " + std::to_string(version));
  }
  const std::string zip = files.Write("a.npz", "PK\3\4aaaaaaaa");
  ExpectError(ErrorOf(zip), Code::kInvalidArgument, zip,
              "is a zip archive, not npy or npz; unpack it");
}

TEST(NpyTest, Header_TooLong_IsRefused) {
  const DataFiles files;
  const std::string start("\x93NUMPY\2\0", 8);
  for (const uint32_t length : {65537u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    const std::string path = files.Write(
        "a.npy",
        start + Packed(std::vector<uint32_t>{length}, /*big_endian=*/false));
    ExpectError(ErrorOf(path), Code::kCorruption, path,
                "offset 8: a header of " + std::to_string(length) + " bytes");
  }
  const std::string path = files.Write(
      "a.npy", start + Packed(std::vector<uint32_t>{0}, /*big_endian=*/false));
  ExpectError(ErrorOf(path), Code::kCorruption, path, "(none)");
}

TEST(NpyTest, Header_OtherElementTypes_AreRefusedAndNamed) {
  const DataFiles files;
  for (const char* descr :
       {"<f1",     "<f16", "<c8",  "|O",   "|S0",
        "<U0",     "|S",   "<i3",  "<u16", "<b2",
        "<M8[ns]", "|V4",  "f4",   "<f",   "",
        "!f4",     "<<f4", "<f-4", "<i4 ", "<U99999999999999999999"}) {
    const std::string path = files.Write(
        "a.npy", Npy(1, Dictionary(descr, "(2,)"), "0123456789abcdef"));
    ExpectError(ErrorOf(path), Code::kCorruption, path,
                (std::string("header: elements of type '") + descr + "'")
                    .substr(0, 65));
  }
  const std::string records =
      files.Write("a.npy", Npy(1,
                               "{'descr': [('a', '<f4'), ('b', '<i4')], "
                               "'fortran_order': False, 'shape': (1,), }",
                               "01234567"));
  ExpectError(ErrorOf(records), Code::kInvalidArgument, records,
              "has the fields 'a', 'b'; name one, as in \"" + records + ":a\"");
}

// An array of three records of 12 bytes.
std::string Records(const std::string& fields,
                    const std::string& shape = "(3,)") {
  return Npy(1,
             "{'descr': [" + fields +
                 "], 'fortran_order': False, 'shape': " + shape + ", }",
             std::string("abcdefghijkl"
                         "ABCDEFGHIJKL"
                         "0123456789+-"));
}

TEST(NpyTest, Field_OfAStructuredArray_HasItsElements) {
  const DataFiles files;
  // A name may be a key of the header, and have a bracket.
  const std::string path =
      files.Write("a.npy", Records("('shape', '|u1'), ('', '|V1'), "
                                   "(\"b]'\", '>i2', (2, 1)), ('t', '|S2'), "
                                   "('c', '<c8', (0,)), ('k', '|u1', (4,))"));
  ExpectError(ErrorOf(path + ":k"), Code::kCorruption, path,
              "header: elements of type [('shape'");
  const std::string fields =
      "('shape', '|u1'), ('', '|V1'), (\"b]'\", '>i2', (2, 1)), "
      "('t', '|S2'), ('k', '|u1', (4,))";
  // numpy writes "fortran_order" True for a copy with order="F".
  std::string fortran = Records(fields);
  fortran.replace(fortran.find("False"), 5, "True ");
  for (const std::string& bytes :
       {Records(fields), Gzip(Records(fields)), fortran}) {
    files.Write("a.npy", bytes);
    NpyArray array;
    ASSERT_OK(ReadNpy(path + ":shape", &array));
    EXPECT_EQ(array.shape, Shape({3}));
    EXPECT_EQ(Values<uint8_t>(array.data),
              (std::vector<uint8_t>{'a', 'A', '0'}));
    ASSERT_OK(ReadNpy(path + ":b]'", &array));
    EXPECT_EQ(array.shape, Shape({3, 2, 1}));
    EXPECT_EQ(
        Values<int32_t>(array.data),
        (std::vector<int32_t>{'c' << 8 | 'd', 'e' << 8 | 'f', 'C' << 8 | 'D',
                              'E' << 8 | 'F', '2' << 8 | '3', '4' << 8 | '5'}));
    ASSERT_OK(ReadNpy(path + ":k", &array));
    EXPECT_EQ(std::string(array.data.begin(), array.data.end()),
              "ijklIJKL89+-");
    const Dataset data = NpyDataset(path + ":k", path + ":t");
    ASSERT_OK(data.Batch(1).status());
    EXPECT_EQ(data.source()->Description().classes,
              (std::vector<std::string>{"67", "GH", "gh"}));
  }
  ExpectError(ErrorOf(path + ":x"), Code::kInvalidArgument, path,
              "has the fields 'shape', 'b]'', 't', 'k', not 'x'; name one");
  ExpectError(ErrorOf(path), Code::kInvalidArgument, path, "name one, as in");
}

// numpy writes names in Latin-1 if it can, otherwise in UTF-8 with version 3. A
// field may be a text of no length.
TEST(NpyTest, Field_NameBeyondAscii_IsGivenInUtf8) {
  const DataFiles files;
  const std::string rest =
      "'|u1'), ('e', '|S0'), ('u', '<U0', (2,)), ('v', "
      "'|V0'), ('k', '|u1', (11,))";
  for (const int version : {1, 2, 3}) {
    std::string bytes = Records(
        "('gr" + std::string(version < 3 ? "\xf6\xdf" : "öß") + "e', " + rest);
    if (version > 1) {
      bytes = Npy(version, bytes.substr(10, bytes.find('\n') - 10),
                  bytes.substr(bytes.find('\n') + 1));
    }
    const std::string path = files.Write("a.npy", bytes);
    NpyArray array;
    const Status status = ReadNpy(path + ":größe", &array);
    ASSERT_OK(status);
    EXPECT_EQ(Values<uint8_t>(array.data),
              (std::vector<uint8_t>{'a', 'A', '0'}));
    ASSERT_OK(ReadNpy(path + ":k", &array));
    EXPECT_EQ(std::string(array.data.begin(), array.data.end()),
              "bcdefghijklBCDEFGHIJKL123456789+-");
    ExpectError(ErrorOf(path), Code::kInvalidArgument, path,
                "has the fields 'größe', 'e', 'u', 'v', 'k'; name one");
    ExpectError(ErrorOf(path + ":e"), Code::kCorruption, path,
                "header: elements of type");
  }
  // No element has bytes.
  const std::string none = files.Write(
      "b.npy", Records("('e', '|S0'), ('u', '<U0')", "(1152921504606846976,)"));
  ExpectError(ErrorOf(none + ":e"), Code::kCorruption, none,
              "header: elements of type");
}

// numpy writes names as Python's repr does.
TEST(NpyTest, Field_NameWithAnEscape_IsFound) {
  const DataFiles files;
  const std::string path = files.Write(
      "a.npy",
      Records("('a\\\\', '|u1'), ('b\\'\"]', '|u1'), ('c\\n\\t\\r', '|u1'), "
              "('d\\x07\\xad\\u200b\\U000e0001', '|u1'), ('k', '|u1', (8,))"));
  const std::vector<std::string> names = {"a\\", "b'\"]", "c\n\t\r",
                                          "d\x07\u00ad\u200b\U000e0001"};
  for (size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(i);
    NpyArray array;
    ASSERT_OK(ReadNpy(path + ":" + names[i], &array));
    ASSERT_EQ(array.data.size(), 3u);
    EXPECT_EQ(array.data[0], 'a' + i);
  }
  NpyArray array;
  ASSERT_OK(ReadNpy(path + ":k", &array));
  EXPECT_EQ(array.shape, Shape({3, 8}));
}

TEST(NpyTest, Field_InvalidHeader_IsRefused) {
  const DataFiles files;
  const std::string nested = "('k', '|u1'), ('n', [('a', '<f4')])";
  const std::string huge(
      "('k', '|V1000000000'), ('b', '|V1000000000'), ('c', '|u1')");
  for (const std::string& fields :
       {nested, huge, std::string("('k', '|O')"), std::string("('k', '<f4'"),
        std::string("('k', '<f4', (4294967296, 4294967296))"),
        std::string("('k', '<f4', (-1,))"), std::string("('k'"),
        std::string("("), std::string(), std::string("('k\\q', '<f4')"),
        std::string("('k\\x4', '<f4')"), std::string("('k\\"),
        std::string("('k\\U00110000', '<f4')"),
        std::string("('k', '<f4') ('l', '<f4')"),
        std::string("('k', '<f4'), ('l', '|S0x')"),
        std::string("('k', '<f4'), ('l', '|S')"),
        std::string("('k', '<f4'), ('l', '<f0')"),
        std::string("('k', '<f4'), ('l', '|S-1')")}) {
    SCOPED_TRACE(fields);
    const std::string path = files.Write("a.npy", Records(fields));
    const Status status = ErrorOf(path + ":k");
    ExpectError(status, Code::kCorruption, path, "header: elements of type");
  }
  const std::string good = "('k', '|u1'), ('l', '|V11')";
  std::string path = files.Write("a.npy", Records(good, "(4,)"));
  ExpectError(ErrorOf(path + ":k"), Code::kCorruption, path,
              "shape (4,) is none, or more than the file can hold (3 elements");
  path = files.Write("a.npy", Records(good, "(3, 1)"));
  ExpectError(ErrorOf(path + ":k"), Code::kInvalidArgument, path,
              "an array of one axis, not of (3, 1)");
  path = files.Write("a.npy", Records(good, "()"));
  ExpectError(ErrorOf(path + ":k"), Code::kInvalidArgument, path, "one axis");
}

TEST(NpyTest, Header_FortranOrderNotABool_IsRefused) {
  const DataFiles files;
  for (const char* order : {"0", "''", "", "true", "None"}) {
    const std::string path = files.Write(
        "a.npy", Npy(1, Dictionary("|u1", "(2, 2)", order), "abcd"));
    ExpectError(ErrorOf(path), Code::kCorruption, path,
                "fortran_order must be False or True");
  }
}

TEST(NpyTest, Read_FortranOrder_IsTransposed) {
  const DataFiles files;
  NpyArray array;
  ASSERT_OK(ReadNpy(
      files.Write("a.npy",
                  Npy(1, Dictionary("|u1", "(2, 3)", "True"), "adbecf")),
      &array));
  EXPECT_EQ(std::string(array.data.begin(), array.data.end()), "abcdef");
}

TEST(NpyTest, Header_KeyIsMissing_IsRefused) {
  const DataFiles files;
  struct Case {
    const char* header;
    Code code;
    const char* where;
  };
  for (const Case& c :
       {Case{"", Code::kCorruption, "elements of type (none)"},
        {"{}", Code::kCorruption, "elements of type (none)"},
        {"'descr'", Code::kCorruption, "elements of type (none)"},
        {"'descr':", Code::kCorruption, "elements of type"},
        {"{'fortran_order': False, 'shape': (1,), }", Code::kCorruption,
         "elements of type (none)"},
        {"{'descr': '<f4', 'shape': (1,), }", Code::kCorruption,
         "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, }", Code::kCorruption,
         "header: shape "},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
         Code::kCorruption, "header: shape "}}) {
    const std::string path = files.Write("a.npy", Npy(1, c.header, "0123"));
    ExpectError(ErrorOf(path), c.code, path, c.where);
  }
}

TEST(NpyTest, Header_VeryLongType_IsNotPrintedWhole) {
  const DataFiles files;
  const std::string path =
      files.Write("a.npy", Npy(1, "{'descr': '" + std::string(60000, 'x'), ""));
  const Status status = ErrorOf(path);
  ExpectError(status, Code::kCorruption, path, "elements of type 'xxx");
  EXPECT_LT(std::strlen(status.message()), 1000u);
}

TEST(NpyTest, Header_InvalidOrTooLargeShape_IsRefused) {
  const DataFiles files;
  for (const char* shape : {"3",
                            "[3]",
                            "(-1,)",
                            "(3.0,)",
                            "(a,)",
                            "('3',)",
                            "(0x3,)",
                            "(3L,)",
                            "(4,)",
                            "(1000000,)",
                            "(4294967296, 4294967296)",
                            "(9223372036854775807,)",
                            "(9223372036854775808,)",
                            "(99999999999999999999999,)",
                            "(3, 9223372036854775807, 2)",
                            "(0, 9223372036854775807, 9223372036854775807)",
                            "(9223372036854775807, 9223372036854775807, 0)",
                            "(1, 1, 1, 1, 1, 1, 1, 1, 1)",
                            "None",
                            "(3, +1)"}) {
    const std::string path =
        files.Write("a.npy", Npy(1, Dictionary("<f4", shape), "0123456789ab"));
    ExpectError(ErrorOf(path), Code::kCorruption, path, "header: shape ");
  }
  for (const char* shape : {"(4294967296, 4294967296)",
                            "(0, 9223372036854775807, 9223372036854775807)"}) {
    const std::string path = files.Write(
        "a.npy.gz", Gzip(Npy(1, Dictionary("<f4", shape), "0123456789ab")));
    ExpectError(ErrorOf(path), Code::kCorruption, path, "header: shape ");
  }
}

TEST(NpyTest, Read_BytesAfterTheElements_IsRefused) {
  const DataFiles files;
  const std::string offset = "offset " + std::to_string(Small().size());
  for (const std::string& extra : {std::string(1, '\0'), Small()}) {
    const std::string path = files.Write("a.npy", Small() + extra);
    ExpectError(ErrorOf(path), Code::kCorruption, path, offset);
    const std::string packed = files.Write("a.npy.gz", Gzip(Small() + extra));
    ExpectError(ErrorOf(packed), Code::kCorruption, packed, offset);
  }
  const std::string empty =
      files.Write("a.npy", Npy(1, Dictionary("<f4", "(0,)"), "0123"));
  ExpectError(ErrorOf(empty), Code::kCorruption, empty, "offset ");
}

TEST(NpyTest, Read_MissingEmptyOrNotRegular_IsRefused) {
  const DataFiles files;
  const std::string missing = files.Path("missing.npy");
  ExpectError(ErrorOf(missing), Code::kNotFound, missing, "No such file");
  ExpectError(ErrorOf(files.root()), Code::kInvalidArgument, files.root(),
              "not a regular file");
  const std::string empty = files.Write("empty.npy", "");
  ExpectError(ErrorOf(empty), Code::kCorruption, empty,
              "ends at offset 0, within the NPY magic number");
}

TEST(NpyTest, Write_MissingFolderOrFullDisk_IsRefused) {
  const DataFiles files;
  const std::vector<float> values(100000, 1);
  const Shape shape = {100000};
  const auto error = [&](const std::string& path) {
    return WriteNpy(path, DType::kFloat32, shape, values.data());
  };
  const std::string nowhere = files.Path("no/such/a.npy");
  ExpectError(error(nowhere), Code::kNotFound, files.Path("no/such"), "");
  ExpectError(error(files.root()), Code::kInvalidArgument, files.root(), "");
  const std::string earlier = files.Write("a.npy", "earlier");
  {
    const FullDisk full(1000);
    ExpectError(error(earlier), Code::kIo, earlier, "");  // EFBIG
  }
  EXPECT_EQ(ReadWhole(earlier), "earlier");
}

TEST(NpyTest, Read_RefusedFile_TakesLittleMemory) {
  constexpr size_t kMany = 16 << 20;
  constexpr long kLittle = kMany >> 11;  // KiB: half of it
  const DataFiles files;
  const std::string zeros(kMany, '\0');
  const auto npy = [&](size_t promised) {
    return Npy(1, Dictionary("|u1", "(" + std::to_string(promised) + ", 1)"),
               zeros);
  };
  const std::string less = files.Write("less.npy.gz", Gzip(npy(kMany + 1)));
  EXPECT_LT(PeakKiB([&] {
              if (ErrorOf(less).code() != Code::kCorruption) abort();
            }),
            kLittle);
  const std::string whole = files.Write("whole.npy.gz", Gzip(npy(kMany)));
  const std::string small = files.Write("small.npy", Small());
  EXPECT_LT(PeakKiB([&] {
              if (NpyDataset(whole, small).Batch(1).status().ok()) abort();
            }),
            kLittle);
}

}  // namespace
}  // namespace ringlet
