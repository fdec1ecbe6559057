// NPY and NPZ files of NumPy.

#include "ringlet/readers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "io/readers/arrays/array_path.h"
#include "io/readers/arrays/idx.h"
#include "io/readers/arrays/npz.h"
#include "npy_files.h"

namespace ringlet {
namespace {

// --- against numpy --------------------------------------------------------

bool HasNumpy() {
  const std::string command =
      std::string(kPython) + " -c 'import numpy' > /dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

// Returns true if `script`, run in the directory of `files`, succeeds. The
// script has kByteOrder as `byte_order`.
bool RunPython(const DataFiles& files, const std::string& script) {
  files.Write("script.py",
              std::string("byte_order = '") + kByteOrder + "'\n" + script);
  const std::string command =
      "cd '" + files.root() + "' && " + kPython + " script.py";
  return std::system(command.c_str()) == 0;
}

template <typename T>
void ExpectThirds(const NpyArray& array) {
  const std::vector<T> values = Values<T>(array.data);
  ASSERT_EQ(values.size(), 24u);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], static_cast<T>(static_cast<double>(i) * 10 / 3)) << i;
  }
}

TEST(NpyTest, Read_WrittenByNumpy_HasTheSameValues) {
  if (!HasNumpy()) GTEST_SKIP() << kPython << " has no numpy";
  const DataFiles files;
  ASSERT_TRUE(RunPython(files, R"(
import gzip, numpy
from numpy.lib import format
for kind in ('u1', 'i4', 'i8', 'f4', 'f8'):
  a = (numpy.arange(24.0) * 10 / 3).astype(kind).reshape(2, 3, 4)
  for order in '<>':
    for version in (1, 2, 3):
      name = '%s_%s_%d.npy' % (kind, 'lb'[order == '>'], version)
      with open(name, 'wb') as f:
        format.write_array(f, a.astype(order + kind), version=(version, 0))
      with gzip.open(name + '.gz', 'wb') as f:
        format.write_array(f, a.astype(order + kind), version=(version, 0))
numpy.save('scalar.npy', numpy.float32(2.5))
numpy.save('empty.npy', numpy.zeros((0, 3)))
numpy.save('text.npy', numpy.array(['a', 'b']))
)"));
  struct Kind {
    const char* name;
    DType dtype;
    void (*expect)(const NpyArray&);
  };
  for (const Kind& kind : {Kind{"u1", DType::kUint8, ExpectThirds<uint8_t>},
                           {"i4", DType::kInt32, ExpectThirds<int32_t>},
                           {"i8", DType::kInt64, ExpectThirds<int64_t>},
                           {"f4", DType::kFloat32, ExpectThirds<float>},
                           {"f8", DType::kFloat64, ExpectThirds<double>}}) {
    for (const char* order : {"_l_", "_b_"}) {
      for (const char* version :
           {"1.npy", "2.npy", "3.npy", "1.npy.gz", "2.npy.gz", "3.npy.gz"}) {
        const std::string path =
            files.Path(kind.name + std::string(order) + version);
        SCOPED_TRACE(path);
        NpyArray array;
        ASSERT_OK(ReadNpy(path, &array));
        EXPECT_EQ(array.dtype, kind.dtype);
        EXPECT_EQ(array.shape, (Shape{2, 3, 4}));
        kind.expect(array);
      }
    }
  }
  NpyArray array;
  ASSERT_OK(ReadNpy(files.Path("scalar.npy"), &array));
  EXPECT_EQ(array.shape, Shape());
  EXPECT_EQ(Values<float>(array.data), std::vector<float>{2.5f});
  ASSERT_OK(ReadNpy(files.Path("empty.npy"), &array));
  EXPECT_EQ(array.shape, (Shape{0, 3}));
  ExpectError(ErrorOf(files.Path("text.npy")), Code::kInvalidArgument,
              files.Path("text.npy"), "its elements are text");
}

// Arrays of each type, of random shapes and values (extremes among them), in
// either order of dimensions and of bytes, each beside its expected result.
constexpr char kMakeArrays[] = R"(
import gzip, numpy, sys
seed = SEED
rng = numpy.random.RandomState(seed)
becomes = {'b1': 'u1', 'i1': 'i4', 'i2': 'i4', 'i4': 'i4', 'i8': 'i8',
           'u1': 'u1', 'u2': 'i4', 'u4': 'i8', 'u8': 'i8',
           'f2': 'f4', 'f4': 'f4', 'f8': 'f8'}
cases = []
for kind, made in becomes.items():
  for order in 'CF':
    for endian in '<>':
      shape = tuple(rng.randint(1, 6, size=rng.randint(0, 6)))
      size = int(numpy.prod(shape))
      if kind[0] == 'f':
        a = rng.standard_normal(size).astype(kind)
        odd = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan,
               numpy.finfo(kind).max, numpy.finfo(kind).tiny,
               numpy.finfo(kind).tiny / 2]
        a[: len(odd)] = numpy.array(odd[:size], kind)
      elif kind == 'b1':
        a = rng.randint(0, 2, size=size).astype(bool)
      else:
        low, high = numpy.iinfo(kind).min, numpy.iinfo(kind).max
        high = min(high, numpy.iinfo('i8').max)
        a = numpy.frombuffer(rng.bytes(8 * size), 'u8').astype(kind)
        if kind == 'u8': a = a >> numpy.uint64(1)
        odd = [low, high, 0, 1]
        a[: len(odd)] = numpy.array(odd[:size], kind)
      a = numpy.array(a.reshape(shape), dtype=endian + kind, order=order)
      name = '%s%s%s' % (kind, order, 'lb'[endian == '>'])
      numpy.save(name + '.npy', a)
      with gzip.open(name + '.npy.gz', 'wb') as f: numpy.save(f, a)
      numpy.savez(name + '.npz', a=a)
      numpy.savez_compressed(name + '.z.npz', a=a)
      with open(name + '.raw', 'wb') as f:
        f.write(numpy.ascontiguousarray(a).astype(byte_order + made).tobytes())
      cases.append('%s %s %s' % (name, made, ' '.join(map(str, shape))))
with open('cases', 'w') as f: f.write('\n'.join(cases) + '\n')
)";

DType ByName(const std::string& name) {
  return name == "u1"   ? DType::kUint8
         : name == "i4" ? DType::kInt32
         : name == "i8" ? DType::kInt64
         : name == "f4" ? DType::kFloat32
                        : DType::kFloat64;
}

TEST(NpyTest, Read_EveryTypeAndOrder_IsConvertedAsByNumpy) {
  if (!HasNumpy()) GTEST_SKIP() << kPython << " has no numpy";
  for (const int seed : {1, 2, 3}) {
    const DataFiles files;
    std::string script = kMakeArrays;
    script.replace(script.find("SEED"), 4, std::to_string(seed));
    ASSERT_TRUE(RunPython(files, script));
    std::istringstream cases(ReadWhole(files.Path("cases")));
    int count = 0;
    for (std::string line; std::getline(cases, line); ++count) {
      SCOPED_TRACE(line + ", seed " + std::to_string(seed));
      std::istringstream words(line);
      std::string name, made;
      words >> name >> made;
      Shape shape;
      for (int64_t dim; words >> dim;) shape.Append(dim);
      const std::string raw = ReadWhole(files.Path(name + ".raw"));
      for (const char* end : {".npy", ".npy.gz"}) {
        NpyArray array;
        ASSERT_OK(ReadNpy(files.Path(name + end), &array));
        EXPECT_EQ(array.dtype, ByName(made));
        EXPECT_EQ(array.shape, shape);
        EXPECT_EQ(std::string(array.data.begin(), array.data.end()), raw);
      }
      for (const char* end : {".npz", ".z.npz"}) {
        NpzReader reader;
        ASSERT_OK(reader.Open(PosixFiles(), files.Path(name + end)));
        ASSERT_EQ(reader.tensors().size(), 1u);
        const StoredTensor& tensor = reader.tensors()[0];
        EXPECT_EQ(tensor.shape, shape);
        EXPECT_EQ(DTypeOf(tensor.storage), ByName(made));
        std::vector<unsigned char> data(raw.size());
        ASSERT_OK(reader.Read(tensor, data.data()));
        EXPECT_EQ(std::string(data.begin(), data.end()), raw);
      }
    }
    EXPECT_EQ(count, 48);
  }
}

TEST(NpyTest, Read_Uint64BeyondInt64_IsRefused) {
  const DataFiles files;
  const std::string whole =
      files.Write("b.npy", Npy(1, Dictionary("<u8", "(1,)"),
                               std::string(7, '\0') + std::string(1, '\x80')));
  ExpectError(ErrorOf(whole), Code::kInvalidArgument, whole,
              "9223372036854775807");
}

// Labels of text that numpy wrote in files with x.npy. `names_` are the classes
// in numpy's order, and `classes_` the labels' numbers as bytes.
class TextLabelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasNumpy()) GTEST_SKIP() << kPython << " has no numpy";
    ASSERT_TRUE(RunPython(files_, R"(
import numpy
names = ['dog', 'cat', 'élan', 'Zebra', 'cat', '', '猫', 'ca', 'dog']
y = numpy.array(names)
numpy.save('x.npy', numpy.arange(9.0))
numpy.save('u.npy', y)
numpy.save('big.npy', y.astype(y.dtype.newbyteorder('>')))
numpy.save('s.npy', numpy.array([n.encode() for n in names]))
numpy.save('wide.npy', y.astype('<U100'))
sorted_names, classes = numpy.unique(y, return_inverse=True)
classes.astype(byte_order + 'i4').tofile('classes')
open('names', 'w').write('\n'.join(sorted_names) + '\n')
numpy.save('many.npy', numpy.array(['n%d' % i for i in range(65537)]))
numpy.save('manyx.npy', numpy.zeros(65537, 'u1'))
)"));
    classes_ = ReadWhole(files_.Path("classes"));
    std::istringstream lines(ReadWhole(files_.Path("names")));
    for (std::string line; std::getline(lines, line);) names_.push_back(line);
  }

  const DataFiles files_;
  std::string classes_;
  std::vector<std::string> names_;
};

TEST_F(TextLabelsTest, Labels_OfText_AreClassesInTheOrderOfTheirNames) {
  for (const char* y : {"u.npy", "big.npy", "s.npy", "wide.npy"}) {
    SCOPED_TRACE(y);
    testing::internal::CaptureStderr();
    const Dataset d = NpyDataset(files_.Path("x.npy"), files_.Path(y));
    const std::string printed = testing::internal::GetCapturedStderr();
    ASSERT_OK(d.Batch(1).status());
    EXPECT_EQ(d.source()->y().dtype, DType::kInt32);
    EXPECT_EQ(d.source()->y().shape, Shape());
    EXPECT_EQ(d.source()->Description().classes, names_);
    std::vector<double> x;
    std::vector<int32_t> numbers;
    ReadAll(d.source().get(), &x, &numbers);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(numbers.data()),
                          numbers.size() * 4),
              classes_);
    EXPECT_EQ(printed.compare(0, 6, "note: "), 0) << printed;
    EXPECT_TRUE(Contains(printed, "0 '', 1 'Zebra', 2 'ca', 3 'cat', 4 'dog'"));
  }
}

// Given classes have their places as numbers, and a note lists a missing class.
TEST_F(TextLabelsTest, Labels_WithGivenClasses_HaveTheirNumbers) {
  std::vector<std::string> known = {"new"};
  known.insert(known.end(), names_.rbegin(), names_.rend());
  testing::internal::CaptureStderr();
  const Dataset numbered =
      NpyDataset(files_.Path("x.npy"), files_.Path("u.npy"), known);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: " + files_.Path("u.npy") +
                ": has no example of 1 of the 8 classes: 'new'\n");
  ASSERT_OK(numbered.Batch(1).status());
  EXPECT_EQ(numbered.source()->Description().classes, known);
  std::vector<double> x;
  std::vector<int32_t> numbers;
  ReadAll(numbered.source().get(), &x, &numbers);
  EXPECT_EQ(known[static_cast<size_t>(numbers[0])], "dog");
  EXPECT_EQ(known[static_cast<size_t>(numbers[6])], "猫");
  known.pop_back();
  ExpectError(
      NpyDataset(files_.Path("x.npy"), files_.Path("u.npy"), known).status(),
      Code::kInvalidArgument, files_.Path("u.npy"), "the label ''");
}

TEST_F(TextLabelsTest, Text_WrongUse_IsRefused) {
  ExpectError(NpyDataset(files_.Path("u.npy"), files_.Path("x.npy")).status(),
              Code::kInvalidArgument, files_.Path("u.npy"), "labels only");
  ExpectError(
      NpyDataset(files_.Path("manyx.npy"), files_.Path("many.npy")).status(),
      Code::kInvalidArgument, files_.Path("many.npy"), "65536 different");
  // A code point that is no character.
  const std::string path = files_.Write(
      "bad.npy", Npy(1, Dictionary("<U1", "(9,)"),
                     std::string(35, '\0') + std::string(1, '\x7f')));
  ExpectError(NpyDataset(files_.Path("x.npy"), path).status(),
              Code::kCorruption, path, "code point");
}

template <typename T>
void WriteThirds(const DataFiles& files, const std::string& name, DType dtype,
                 const Shape& shape) {
  std::vector<T> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<double>(i) * 10 / 3);
  }
  EXPECT_OK(WriteNpy(files.Path(name), dtype, shape, values.data()));
}

TEST(NpyTest, Write_ReadByNumpy_HasTheSameValues) {
  if (!HasNumpy()) GTEST_SKIP() << kPython << " has no numpy";
  const DataFiles files;
  struct Named {
    const char* name;
    Shape shape;
  };
  for (const Named& n : {Named{"_none", {}},
                         {"_one", {24}},
                         {"_three", {2, 3, 4}},
                         {"_eight", {1, 2, 1, 3, 1, 4, 1, 1}},
                         {"_empty", {0, 3}}}) {
    const std::string end = std::string(n.name) + ".npy";
    WriteThirds<uint8_t>(files, "u1" + end, DType::kUint8, n.shape);
    WriteThirds<int32_t>(files, "i4" + end, DType::kInt32, n.shape);
    WriteThirds<int64_t>(files, "i8" + end, DType::kInt64, n.shape);
    WriteThirds<float>(files, "f4" + end, DType::kFloat32, n.shape);
    WriteThirds<double>(files, "f8" + end, DType::kFloat64, n.shape);
  }
  EXPECT_TRUE(RunPython(files, R"(
import numpy
shapes = {'none': (), 'one': (24,), 'three': (2, 3, 4),
          'eight': (1, 2, 1, 3, 1, 4, 1, 1), 'empty': (0, 3)}
for kind in ('u1', 'i4', 'i8', 'f4', 'f8'):
  for name, shape in shapes.items():
    path = kind + '_' + name + '.npy'
    a = numpy.load(path)
    size = int(numpy.prod(shape))
    expected = (numpy.arange(float(size)) * 10 / 3).astype(kind)
    assert a.dtype == numpy.dtype(kind), (path, a.dtype)
    assert a.shape == shape, (path, a.shape)
    assert a.flags.c_contiguous, path
    assert numpy.array_equal(a.ravel(), expected), path
    numpy.load(path, mmap_mode='r') if size else None
    with open(path, 'rb') as f:
      f.seek(0, 2)
      assert (f.tell() - a.nbytes) % 64 == 0, path
)"));
}

TEST(NpyTest, XRange_AnyType_EqualsTheExamplesRange) {
  const DataFiles files;
  const std::string y = files.Write("y", Small());
  const auto range = [&](const std::string& type, const std::string& values) {
    double ends[2] = {-1, -2};
    const std::string x =
        files.Write("x", Npy(1, Dictionary(type, "(2, 2)"), values));
    const Dataset data = NpyDataset(x, y);
    EXPECT_OK(data.Batch(1).status());
    return data.source()->XRange(&ends[0], &ends[1])
               ? std::to_string(ends[0]) + " " + std::to_string(ends[1])
               : "none";
  };
  EXPECT_EQ(range("|u1", "abcd"), "0.000000 255.000000");
  EXPECT_EQ(range("<i4", Packed(std::vector<int32_t>{3, -4, 7, 0}, false)),
            "-4.000000 7.000000");
  EXPECT_EQ(range("<f8", Packed(std::vector<double>{3, 3, 3.5, 3}, false)),
            "3.000000 3.500000");
  EXPECT_EQ(range("<f4", Packed(std::vector<float>{3, 3, NAN, 3}, false)),
            "none");
}

// --- arrays of an npz --------------------------------------------------------

// Files as numpy writes them.
class NpzDataTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasNumpy()) GTEST_SKIP() << kPython << " has no numpy";
    ASSERT_TRUE(RunPython(files_, R"(
import numpy
arrays = {"x_train": numpy.arange(24, dtype="u1").reshape(3, 2, 4),
          "y_train": numpy.array([[2], [0], [1]], "u1"),
          "columns": numpy.asfortranarray(
              numpy.arange(6, dtype=">i2").reshape(3, 2)),
          "half": numpy.array([0.5, -2, 65504], "f2"),
          "names": numpy.array(["owl", "emu", "owl"]),
          "about": numpy.array([{"by": "hand"}], dtype=object)}
numpy.savez("plain.npz", **arrays)
numpy.savez_compressed("packed.npz", **arrays)
numpy.savez("one.npz", numpy.array([4, 5], "i8"))
numpy.savez("none.npz")
numpy.savez("a:b.npz", x=numpy.array([6, 7], "i4"))
table = numpy.zeros(3, [("x", ">f4", (2,)), ("label", "U3"), ("n", "i8")])
table["x"] = [[1, 2], [3, 4], [5, 6]]
table["label"] = ["owl", "emu", "owl"]
table["n"] = [-1, 0, 1]
numpy.save("table.npy", table)
numpy.savez(open("plain.npz:x_train", "wb"), numpy.array([8], "i4"))
numpy.savez(open("at:12:30.dat", "wb"), **{"x:0": numpy.array([9], "i4")})
numpy.save(open("table.bin", "wb"), table)
)"));
  }

  using Strings = std::vector<std::string>;

  template <typename T>
  void ExpectArray(const std::string& name, const Shape& shape,
                   const std::vector<T>& values) {
    SCOPED_TRACE(name);
    NpyArray array;
    ASSERT_OK(ReadNpy(files_.Path(name), &array));
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(Values<T>(array.data), values);
  }

  DataFiles files_;
};

TEST_F(NpzDataTest, Read_PlainOrCompressed_HasNumpysValues) {
  std::vector<uint8_t> x(24);
  std::iota(x.begin(), x.end(), uint8_t{0});
  ExpectArray<uint8_t>("packed.npz:x_train", {3, 2, 4}, x);
  for (const std::string file : {"plain.npz:", "packed.npz:"}) {
    ExpectArray<uint8_t>(file + "y_train", {3, 1}, {2, 0, 1});
    ExpectArray<int32_t>(file + "columns", {3, 2}, {0, 1, 2, 3, 4, 5});
    ExpectArray<float>(file + "half", {3}, {0.5f, -2, 65504});
  }
}

TEST_F(NpzDataTest, Dataset_ImagesAndLabels_AreOfOneFile) {
  const Dataset data = NpyDataset(files_.Path("packed.npz:x_train"),
                                  files_.Path("packed.npz:y_train"));
  ASSERT_OK(data.Batch(1).status());
  EXPECT_EQ(data.source()->name(), "packed.npz:x_train");
  EXPECT_EQ(data.source()->x().shape, Shape({2, 4}));
  std::vector<uint8_t> x, y;
  ReadAll(data.source().get(), &x, &y);
  EXPECT_EQ(y, (std::vector<uint8_t>{2, 0, 1}));
  EXPECT_EQ(x[23], 23);

  const Dataset named = NpyDataset(files_.Path("plain.npz:columns"),
                                   files_.Path("plain.npz:names"));
  ASSERT_OK(named.Batch(1).status());
  EXPECT_EQ(named.source()->Description().classes, (Strings{"emu", "owl"}));
  std::vector<float> weights;
  int64_t each = 0;
  ASSERT_OK(ReadSampleWeights(files_.Path("packed.npz:half"), &weights, &each));
  EXPECT_EQ(weights, (std::vector<float>{0.5f, -2, 65504}));
}

TEST_F(NpzDataTest, Dataset_OnDisk_HasStoredArrays) {
  ArrayOptions options;
  options.in_memory = false;
  const Dataset data = NpyDataset(files_.Path("plain.npz:y_train"), options);
  ASSERT_OK(data.Batch(1).status());
  std::vector<uint8_t> x(3);
  const int64_t index[] = {2, 0, 1};
  ASSERT_OK(data.source()->Read(index, 3, x.data(), nullptr));
  EXPECT_EQ(x, (std::vector<uint8_t>{1, 2, 0}));
  ExpectError(NpyDataset(files_.Path("packed.npz:x_train"), options).status(),
              Code::kInvalidArgument, "packed.npz:x_train", "unpack it");
  ExpectError(NpyDataset(files_.Path("plain.npz:columns"), options).status(),
              Code::kInvalidArgument, "plain.npz", "ascontiguousarray");
}

TEST_F(NpzDataTest, Path_WithoutANameOrWithAColon_OpensTheFile) {
  ExpectArray<int64_t>("one.npz", {2}, {4, 5});
  ExpectArray<int64_t>("one.npz:arr_0", {2}, {4, 5});
  ExpectArray<int32_t>("a:b.npz:x", {2}, {6, 7});
  ExpectArray<int32_t>("a:b.npz", {2}, {6, 7});
  ExpectArray<float>("table.npy:x", {3, 2}, {1, 2, 3, 4, 5, 6});
  ExpectArray<int64_t>("table.npy:n", {3}, {-1, 0, 1});
  // With other endings the part before a colon is a file.
  ExpectArray<int32_t>("at:12:30.dat:x:0", {1}, {9});
  ExpectArray<int32_t>("at:12:30.dat", {1}, {9});
  ExpectArray<int64_t>("table.bin:n", {3}, {-1, 0, 1});
  EXPECT_EQ(SplitArrayPath(files_.root() + ":x").name, "");
  // A file of this name comes before the array.
  ExpectArray<int32_t>("plain.npz:x_train", {1}, {8});
}

TEST_F(NpzDataTest, Path_OfNoArray_ListsTheNames) {
  const auto expect = [&](const std::string& name, Code code,
                          const std::string& where) {
    SCOPED_TRACE(name);
    const ArrayPath at = SplitArrayPath(files_.Path(name));
    ExpectError(ErrorOf(files_.Path(name)), code, at.file, where);
    ExpectError(NpyDataset(files_.Path(name)).status(), code, at.file, where);
  };
  expect("plain.npz", Code::kInvalidArgument,
         "has 6 arrays: 'x_train', 'y_train', 'columns', 'half', 'names', "
         "'about'; name one, as in \"" +
             files_.Path("plain.npz:x_train") + "\"");
  expect("packed.npz:x_test", Code::kInvalidArgument,
         "has no array 'x_test'; it has 'x_train', 'y_train'");
  expect("packed.npz:", Code::kInvalidArgument, "has 6 arrays");
  expect("none.npz", Code::kInvalidArgument, "has no array; it has none");
  expect("none.npz:x", Code::kInvalidArgument, "has no array 'x'; it has none");
  expect("packed.npz:about", Code::kInvalidArgument,
         "'about': elements of type '|O'");
  expect("packed.npz:names", Code::kInvalidArgument, "its elements are text");
  expect("missing.npz:x", Code::kNotFound, "");
  WriteNpy(files_.Path("a.npy"), DType::kFloat32, {1}, "0123").IgnoreError();
  expect("a.npy:x", Code::kInvalidArgument, "leave out ':x'");
}

TEST_F(NpzDataTest, Idx_OfAnNpz_SaysWhereItBelongs) {
  NpyArray array;
  const Status status = ReadIdx(files_.Path("packed.npz:y_train"), &array);
  ExpectError(status, Code::kInvalidArgument, files_.Path("packed.npz"),
              "not idx; as data: \"x\": ");
}

TEST_F(NpzDataTest, Read_DamagedArray_IsRefused) {
  for (const char* name : {"plain.npz", "packed.npz"}) {
    std::string bytes = ReadWhole(files_.Path(name));
    // The data of the array, behind the name, a field of 20 bytes and, where it
    // is not compressed, the NPY header.
    const size_t at = bytes.find("half.npy") + 28 + (name[1] == 'l' ? 128 : 40);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    const std::string path = files_.Write("damaged.npz", bytes);
    EXPECT_EQ(ErrorOf(path + ":half").code(), Code::kCorruption) << name;
  }
}

}  // namespace
}  // namespace ringlet
