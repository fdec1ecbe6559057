#include "io/weights/safetensors.h"
#include "io/readers/storage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

#include "../../support/contains.h"
#include "../../support/documented_bytes.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "../../support/reference.h"
#include "../../support/simulated_file_system.h"
#include "../../support/some_state.h"
#include "../../support/temp_folder.h"
#include "core/base/crc32c.h"
#include "core/base/float16.h"

namespace ringlet {
namespace {

constexpr char kPath[] = "d/file.safetensors";

// In a 32-bit process a tensor that its memory cannot hold is an error, before
// memory is allocated or the tensor is read.
TEST(StorageTest, Tensor_BeyondTheAddressSpace_IsRefused) {
  constexpr uint64_t kMax = 0x7fffffff;  // SIZE_MAX / 2 on 32 bits
  constexpr int64_t kGig = int64_t{1} << 30;
  const struct {
    Storage storage;
    int64_t elements;
    bool fits;
  } tensors[] = {
      {Storage::kF16, kGig, false},      {Storage::kBF16, kGig, false},
      {Storage::kF32, kGig, false},      {Storage::kF64, kGig / 4, false},
      {Storage::kF16, kGig / 2, false},  {Storage::kF16, kGig / 2 - 1, true},
      {Storage::kU8, kGig, true},        {Storage::kU8, 2 * kGig, false},
      {Storage::kF32, 16 * kGig, false}, {Storage::kF32, 1000, true},
  };
  for (const auto& each : tensors) {
    StoredTensor tensor;
    tensor.name = "dense/kernel";
    tensor.storage = each.storage;
    tensor.shape = Shape({each.elements});
    const Status status = CheckAddressable("m.safetensors", tensor, kMax);
    EXPECT_EQ(status.code(), each.fits ? Code::kOk : Code::kResourceExhausted);
    if (each.fits) continue;
    EXPECT_TRUE(Contains(status, "m.safetensors: tensor 'dense"));
  }
}

struct Disk {
  Disk() { EXPECT_OK(files.MakeFolder("d")); }

  void Put(const std::string& bytes) {
    if (files.Content(kPath) != nullptr) {
      *files.Content(kPath) = bytes;
      return;
    }
    std::unique_ptr<File> file;
    ASSERT_OK(files.Create(kPath, &file));
    ASSERT_OK(file->Write(bytes.data(), bytes.size()));
  }
  Status Write(const std::vector<StateSpan>& spans, const Metadata& metadata,
               const SafetensorsWriter::Options& options = {}) {
    SafetensorsWriter writer;
    RINGLET_RETURN_IF_ERROR(writer.Plan(spans, metadata, options));
    std::unique_ptr<File> file;
    RINGLET_RETURN_IF_ERROR(files.Create(kPath, &file));
    RINGLET_RETURN_IF_ERROR(writer.Write(file.get()));
    EXPECT_EQ(files.Content(kPath)->size(),
              static_cast<size_t>(writer.file_bytes()));
    return Status();
  }
  // Opens the file and reads every tensor.
  Status ReadAll() {
    SafetensorsReader reader;
    RINGLET_RETURN_IF_ERROR(reader.Open(&files, kPath));
    for (const StoredTensor& t : reader.tensors()) {
      std::vector<char> to(static_cast<size_t>(t.shape.elements()) *
                           SizeOf(DTypeOf(t.storage)));
      RINGLET_RETURN_IF_ERROR(reader.Read(t, to.data()));
    }
    return reader.verifiable() ? reader.Verify() : Status();
  }

  SimulatedFileSystem files;
};

std::vector<StateSpan> SpansOf(SomeState* state) {
  std::vector<StateSpan> spans;
  state->AppendState(&spans);
  return spans;
}

// Returns a file with `header` and `data` bytes of data.
std::string FileOf(const std::string& header, size_t data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(header.size() >> 8 * i);
  }
  return bytes + header + std::string(data, 'x');
}

std::string ErrorOf(const std::string& bytes) {
  Disk disk;
  disk.Put(bytes);
  return disk.ReadAll().message();
}

TEST(SafetensorsTest, RoundTrip_EveryType_IsTheSame) {
  Disk disk;
  SomeState saved(7);
  ASSERT_OK(disk.Write(SpansOf(&saved), {{"note", "a \"b\"\n"}}));
  SafetensorsReader reader;
  ASSERT_OK(reader.Open(&disk.files, kPath));
  EXPECT_TRUE(reader.verifiable());
  EXPECT_OK(reader.Verify());
  EXPECT_EQ(reader.metadata().at("note"), "a \"b\"\n");
  EXPECT_EQ(reader.metadata().at("format"), "ringlet");
  SomeState read(1);
  const std::vector<StateSpan> spans = SpansOf(&read);
  ASSERT_EQ(reader.tensors().size(), spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const StoredTensor& tensor = reader.tensors()[i];
    EXPECT_EQ(tensor.name, spans[i].name);
    EXPECT_EQ(tensor.shape, spans[i].shape);
    EXPECT_EQ(DTypeOf(tensor.storage), spans[i].dtype);
    EXPECT_OK(reader.Read(tensor, spans[i].data));
  }
  EXPECT_TRUE(read == saved);
  EXPECT_EQ(reader.tensors()[0].offset % 64, 0);
}

TEST(SafetensorsTest, RoundTrip_LargeTensorsInAnyStorage_AreTheSame) {
  for (const Storage storage : {Storage::kF32, Storage::kF16, Storage::kBF16}) {
    Disk disk;
    SomeState saved(3, 100000);
    for (float& f : saved.kernel) f = std::floor(std::fmod(f, 128.0f));
    SafetensorsWriter::Options options;
    options.weights = storage;
    disk.files.set_longest_write(100001);
    ASSERT_OK(disk.Write(SpansOf(&saved), {}, options));
    SafetensorsReader reader;
    ASSERT_OK(reader.Open(&disk.files, kPath));
    EXPECT_OK(reader.Verify());
    const StoredTensor* kernel = reader.Find("model/dense/kernel");
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->storage, storage);
    SomeState read(1, 100000);
    ASSERT_OK(reader.Read(*kernel, read.kernel.data()));
    EXPECT_EQ(read.kernel, saved.kernel);
  }
}

TEST(SafetensorsTest, Encode_AnyHost_IsLittleEndian) {
  const uint16_t one = 1;
  if (*reinterpret_cast<const unsigned char*>(&one) != 1) {
    GTEST_SKIP() << "memory is no oracle on a big-endian host";
  }
  SomeState state(5);
  for (const StateSpan& span : SpansOf(&state)) {
    std::vector<unsigned char> bytes(span.bytes()), back(span.bytes());
    const size_t count = static_cast<size_t>(span.shape.elements());
    EncodeElements(StorageOf(span.dtype), span.data, count, bytes.data());
    if (count == 0) continue;
    EXPECT_EQ(std::memcmp(bytes.data(), span.data, bytes.size()), 0);
    DecodeElements(StorageOf(span.dtype), bytes.data(), count, back.data());
    EXPECT_EQ(bytes, back);
  }
}

TEST(SafetensorsTest, HalfPrecision_Ties_RoundToEven) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const uint16_t half = static_cast<uint16_t>(h);
    const float f = FloatOfFloat16(half), b = FloatOfBFloat16(half);
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(FloatOfFloat16(Float16OfFloat(f))));
    } else {
      ASSERT_EQ(Float16OfFloat(f), half);
    }
    if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(FloatOfBFloat16(BFloat16OfFloat(b))));
    } else {
      ASSERT_EQ(BFloat16OfFloat(b), half);
    }
    // Between two neighbours: to the nearer, a tie to the even one.
    if ((h & 0x7FFF) >= 0x7BFF) continue;
    const double next = FloatOfFloat16(static_cast<uint16_t>(h + 1));
    const float tie = static_cast<float>((double{f} + next) / 2);
    const uint16_t even = static_cast<uint16_t>(h + (h & 1));
    ASSERT_EQ(Float16OfFloat(tie), even) << h;
    ASSERT_EQ(Float16OfFloat(std::nextafter(tie, f)), half);
    ASSERT_EQ(Float16OfFloat(std::nextafter(tie, static_cast<float>(next))),
              h + 1);
  }
  EXPECT_EQ(FloatOfFloat16(0x3C00), 1.0f);
  EXPECT_EQ(FloatOfFloat16(0x7BFF), 65504.0f);
  EXPECT_EQ(FloatOfFloat16(0x0001), 0x1p-24f);
  EXPECT_EQ(Float16OfFloat(65519.9f), 0x7BFF);
  EXPECT_EQ(Float16OfFloat(65520.0f), 0x7C00);
  EXPECT_EQ(Float16OfFloat(-1e30f), 0xFC00);
  EXPECT_EQ(Float16OfFloat(0x1p-25f), 0);
  EXPECT_EQ(FloatOfBFloat16(0x3F80), 1.0f);
  EXPECT_EQ(BFloat16OfFloat(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(BFloat16OfFloat(FloatOfBits(0x7F800001)), 0x7FC0);
}

TEST(SafetensorsTest, Read_CutAtAnyByteOrLonger_IsRefused) {
  Disk disk;
  SomeState saved(7);
  ASSERT_OK(disk.Write(SpansOf(&saved), {{"epoch", "3"}}));
  const std::string whole = *disk.files.Content(kPath);
  for (size_t n = 0; n < whole.size(); ++n) {
    disk.Put(whole.substr(0, n));
    ASSERT_EQ(disk.ReadAll().code(), Code::kCorruption) << n;
  }
  disk.Put(whole + "x");
  EXPECT_EQ(disk.ReadAll().code(), Code::kCorruption);
  disk.Put(whole);
  EXPECT_OK(disk.ReadAll());
}

TEST(SafetensorsTest, Read_AnyBitOf16KibFlipped_IsRefused) {
  Disk disk;
  SomeState saved(7, 740);
  ASSERT_OK(disk.Write(SpansOf(&saved), {{"epoch", "3"}}));
  std::string* const bytes = disk.files.Content(kPath);
  ASSERT_GT(bytes->size(), 15000u);
  ASSERT_LE(bytes->size(), 16384u);
  // A slow build flips about one bit of each byte.
  const size_t step = RunsAllCases() ? 1 : 9;
  for (size_t bit = 0; bit < 8 * bytes->size(); bit += step) {
    const char flip = static_cast<char>(1 << bit % 8);
    (*bytes)[bit / 8] ^= flip;
    ASSERT_EQ(disk.ReadAll().code(), Code::kCorruption) << bit;
    (*bytes)[bit / 8] ^= flip;
  }
  EXPECT_OK(disk.ReadAll());
}

TEST(SafetensorsTest, Read_ReferenceFiles_HaveTheirValues) {
  const std::vector<std::string> paths = ReferenceCases("");
  ASSERT_FALSE(paths.empty()) << "none in " << ReferenceFolder();
  for (const std::string& path : paths) {
    const Reference expected = LoadReference(path);
    SafetensorsReader reader;
    ASSERT_OK(reader.Open(PosixFiles(), path));
    EXPECT_FALSE(reader.verifiable());
    EXPECT_EQ(reader.Verify().code(), Code::kCorruption);
    EXPECT_EQ(reader.metadata().count("case"), 1u);
    ASSERT_EQ(reader.tensors().size(), expected.tensors.size());
    for (const StoredTensor& tensor : reader.tensors()) {
      const ReferenceTensor& other = expected.tensors.at(tensor.name);
      const size_t count = static_cast<size_t>(tensor.shape.elements());
      EXPECT_EQ(tensor.shape, other.shape);
      std::vector<uint32_t> read(count);
      ASSERT_OK(reader.Read(tensor, read.data()));
      const void* same = tensor.storage == Storage::kI32
                             ? static_cast<const void*>(other.ints.data())
                             : static_cast<const void*>(other.floats.data());
      EXPECT_EQ(std::memcmp(read.data(), same, 4 * count), 0) << tensor.name;
    }
  }
}

TEST(SafetensorsTest, Read_OtherOrderAndSpaces_IsAccepted) {
  // Members in any order, no metadata, spaces after the header.
  EXPECT_EQ(
      ErrorOf(FileOf("{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
                     "[1,9]},\"a\":{\"dtype\":\"U8\",\"shape\":[],"
                     "\"data_offsets\":[0,1]}}   ",
                     9)),
      "");
  EXPECT_EQ(ErrorOf(FileOf("{}", 0)), "");
}

TEST(SafetensorsTest, Read_RulesOfTheFormatBroken_IsRefused) {
  const auto tensor = [](const std::string& what) {
    return ErrorOf(FileOf("{\"a\":{" + what + "}}", 8));
  };
  const auto expect_part = [](const std::string& text,
                              const std::string& part) {
    EXPECT_TRUE(Contains(text, part));
  };
  EXPECT_EQ(tensor("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"),
            "");
  expect_part(tensor("\"dtype\":\"F8\",\"shape\":[2],\"data_offsets\":[0,8]"),
              "dtype \"F8\"");
  expect_part(tensor("\"shape\":[2],\"data_offsets\":[0,8]"), "dtype \"\"");
  expect_part(tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]"),
              "does not take the 8 bytes");
  expect_part(tensor("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"),
              "not a count");
  expect_part(
      tensor("\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,8]"),
      "not a count");
  expect_part(tensor("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],"
                     "\"data_offsets\":[0,8]"),
              "does not take");
  expect_part(tensor("\"dtype\":\"U8\",\"shape\":[8,1,1,1,1,1,1,1,1],"
                     "\"data_offsets\":[0,8]"),
              "more than 8 dimensions");
  expect_part(tensor("\"dtype\":\"U8\",\"shape\":8,\"data_offsets\":[0,8]"),
              "not a list");
  expect_part(tensor("\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,0]"),
              "not a begin and an end");
  expect_part(tensor("\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8,9]"),
              "not a begin and an end");
  expect_part(tensor("\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[1,8]"),
              "begins at 1");
  expect_part(tensor("\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[0,7]"),
              "its header says");
  expect_part(ErrorOf(FileOf("{\"a\":3}", 0)), "no description");
  expect_part(ErrorOf(FileOf("[]", 0)), "not an object");
  expect_part(ErrorOf(FileOf("{\"__metadata__\":{\"a\":1}}", 0)),
              "not a string");
  expect_part(ErrorOf(FileOf("{\"__metadata__\":[]}", 0)), "not an object");
  expect_part(ErrorOf(FileOf("{\"__metadata__\":{\"format\":\"ringlet\"}}", 0)),
              "without its footer");
  expect_part(
      ErrorOf(FileOf("{\"ringlet.footer\":{\"dtype\":\"U8\",\"shape\":[8],"
                     "\"data_offsets\":[0,8]}}",
                     8)),
      "of the wrong size");
  expect_part(ErrorOf(FileOf("{\"a\":{},\"a\":{}}", 0)), " twice");
  expect_part(ErrorOf(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)),
              "18446744073709551615");
  expect_part(ErrorOf(FileOf(std::string((1 << 20) + 1, ' '), 0)),
              "at most 1048576");
  // Overlap.
  expect_part(
      ErrorOf(FileOf("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":"
                     "[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
                     "\"data_offsets\":[3,7]}}",
                     7)),
      "ends at 4");
}

TEST(SafetensorsTest, Read_LaterVersion_IsNotCalledDamage) {
  Disk disk;
  float x = 0;
  ASSERT_OK(disk.Write({{"a", DType::kFloat32, {}, &x}}, {}));
  std::string* const bytes = disk.files.Content(kPath);
  const std::string version = "format_version\":\"";
  (*bytes)[bytes->find(version) + version.size()] = '2';
  const size_t data = 8 + static_cast<unsigned char>((*bytes)[0]);
  const uint32_t crc = Crc32c(bytes->data(), data);
  for (size_t i = 0; i < 4; ++i) {
    (*bytes)[data + 4 + 16 + i] = static_cast<char>(crc >> 8 * i);
  }
  const Status status = disk.ReadAll();
  EXPECT_EQ(status.code(), Code::kUnimplemented) << status.message();
}

// docs/checkpoint_format.md has a whole file in hex.
TEST(SafetensorsTest, Write_ExampleOfTheDocumentation_HasItsBytes) {
  const std::string documented = DocumentedBytes("checkpoint_format.md");
  float bias[2] = {1, -2.5f};
  int64_t step = 70;
  Disk disk;
  ASSERT_OK(disk.Write({{"model/dense/bias", DType::kFloat32, {2}, bias},
                        {"fit/step", DType::kInt64, {}, &step}},
                       {{"epoch", "3"}}));
  EXPECT_EQ(documented, *disk.files.Content(kPath));
}

TEST(SafetensorsTest, Write_ImpossibleNames_AreRefused) {
  Disk disk;
  float x = 0;
  const auto write = [&](const std::string& a, const std::string& b) {
    return disk
        .Write({{a, DType::kFloat32, {}, &x}, {b, DType::kFloat32, {}, &x}}, {})
        .code();
  };
  EXPECT_EQ(write("a", "a"), Code::kInvalidArgument);
  EXPECT_EQ(write("a", ""), Code::kInvalidArgument);
  EXPECT_EQ(write("a", "ringlet.footer"), Code::kInvalidArgument);
  EXPECT_EQ(write("a", "__metadata__"), Code::kInvalidArgument);
  EXPECT_EQ(write("a", std::string("b\0c", 3)), Code::kInvalidArgument);
  EXPECT_EQ(write("a", "m\xfcll"), Code::kInvalidArgument);  // Latin-1
  EXPECT_EQ(write("a", "m\xc3\xbcll\"\\\n"), Code::kOk);
  EXPECT_OK(disk.ReadAll());
}

TEST(SafetensorsTest, Write_ReadByPython_HasEveryTensorAndChecksum) {
  const std::string script =
      EnvironmentOr("RINGLET_SOURCE", ".") + "/tests/safetensors_reader.py";
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3 with numpy is not installed";
  }
  TempFolder folder;
  const std::string path = folder / "x.safetensors";
  SomeState state(7);
  const auto read = [&](Storage weights) {
    SafetensorsWriter writer;
    SafetensorsWriter::Options options;
    options.weights = weights;
    EXPECT_OK(writer.Plan(SpansOf(&state), {}, options));
    std::unique_ptr<File> file;
    PosixFiles()->Remove(path).IgnoreError();
    EXPECT_OK(PosixFiles()->Create(path, &file));
    EXPECT_OK(writer.Write(file.get()));
    const std::string out = folder / "out";
    const std::string command =
        "/usr/bin/python3 '" + script + "' " + path + " >" + out + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << ReadWhole(out);
    return ReadWhole(out);
  };
  // Computes the text that the script prints.
  const auto expected = [&](const char* type, float (*rounded)(float)) {
    double sum = 0;
    for (size_t i = 0; i < state.kernel.size(); ++i) {
      sum += static_cast<double>(i + 1) * rounded(state.kernel[i]);
    }
    char kernel[100];
    std::snprintf(kernel, sizeof(kernel), "model/dense/kernel %s (3, 5) %.12g",
                  type, sum);
    return std::string(kernel) +
           "\nfit/step I64 () 7\n"
           "metric/mean F64 (2,) -13.9\n"
           "callback/bytes U8 (7,) 6188\n"
           "callback/ints I32 (7,) 196000476\n"
           "callback/none F32 (0, 4) 0\nok\n";
  };
  EXPECT_EQ(read(Storage::kF32), expected("F32", [](float f) { return f; }));
  EXPECT_EQ(read(Storage::kF16), expected("F16", [](float f) {
              return FloatOfFloat16(Float16OfFloat(f));
            }));
  EXPECT_EQ(read(Storage::kBF16), expected("BF16", [](float f) {
              return FloatOfBFloat16(BFloat16OfFloat(f));
            }));
}

}  // namespace
}  // namespace ringlet
