#include "io/files/file_kind.h"

#include <gtest/gtest.h>

#include "../../support/contains.h"
#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/python.h"
#include "../../support/tiny_model.h"
#include "core/base/crc32c.h"
#include "io/logs/event_file.h"
#include "io/readers/arrays/npz.h"
#include "io/weights/weights_file.h"
#include "ringlet/checkpoint.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

using Format = FileKind::Format;

FileKind KindOf(const std::string& path) {
  FileKind kind;
  EXPECT_OK(FindFileKind(PosixFiles(), path, &kind));
  return kind;
}

FileKind KindOfBytes(const std::string& bytes) {
  const DataFiles files;
  return KindOf(files.Write("a", bytes));
}

// The bytes are recognized as `format`, whatever the file's name is.
void ExpectKind(const std::string& bytes, Format format) {
  SCOPED_TRACE(FormatName(format) + std::string(": ") + bytes.substr(0, 40));
  const FileKind kind = KindOfBytes(bytes);
  EXPECT_STREQ(FormatName(kind.format), FormatName(format));
  EXPECT_EQ(kind.content, kind.format);
  EXPECT_EQ(kind.what.empty(), format == Format::kUnknown);
}

std::string Record(const std::string& event) {
  std::string length(8, '\0');
  length[0] = static_cast<char>(event.size());
  const uint32_t crc = MaskCrc32c(Crc32c(length.data(), 8));
  for (int i = 0; i < 4; ++i) length += static_cast<char>(crc >> (8 * i));
  return length + event;
}

TEST(FileKindTest, KindOfBytes_EveryFormat_IsRecognized) {
  ExpectKind("", Format::kEmpty);
  ExpectKind(std::string("\x89HDF\r\n\x1a\n", 8) + "x", Format::kHdf5);
  ExpectKind(std::string("\x93NUMPY\1\0", 8), Format::kNpy);
  ExpectKind(std::string("\x18\0\0\0TFL3\0\0", 10), Format::kTflite);
  ExpectKind(std::string("\x08\x07\x12\x07pytorch", 11), Format::kOnnx);
  // The length of a long safetensors header.
  EXPECT_FALSE(IsOnnx(std::string("\x08\x07\x12\0\0\0\0\0{", 9)));
  ExpectKind(std::string("\x80\x04\x95\x10\0\0\0\0\0\0\0", 11),
             Format::kPickle);
  ExpectKind(std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c", 12), Format::kIdx);
  ExpectKind(std::string("\2\0\0\0\0\0\0\0{}", 10), Format::kSafetensors);
  ExpectKind(Record("12345678brain.Event:2"), Format::kEvents);
  ExpectKind(Record("1234567890"), Format::kTfRecord);
  ExpectKind("PK\5\6" + std::string(18, '\0'), Format::kNpz);
  ExpectKind("a,b,c\n1,2,3\n", Format::kCsv);
  ExpectKind("5.1;3.5;setosa\n4.9;3.0;setosa\n", Format::kCsv);
  ExpectKind(
      "\xEF\xBB\xBF"
      "a\tb\n1\t2\n",
      Format::kCsv);
  ExpectKind("a,b,c\n1,2\n", Format::kText);
  ExpectKind("GGUF" + std::string("\3\0\0\0\1\0\0\0", 8), Format::kGguf);
  ExpectKind("HTTP/1.1 404 Not Found\r\nServer: x\r\n\r\n", Format::kHttp);
  ExpectKind("\n<!DOCTYPE html>\n<html lang=\"en\">", Format::kHtml);
  ExpectKind("<html><head>", Format::kHtml);
  ExpectKind("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
             Format::kLfs);
  ExpectKind("Hello, this is\na letter.\n", Format::kText);
  ExpectKind(" {\"model\": \"m\", \"data\": {}}", Format::kRun);
  ExpectKind("{\"class_name\": \"Sequential\", \"config\": {}}",
             Format::kKerasJson);
  ExpectKind("{\"keras_version\": \"2.4.0\", \"model_config\": {}}",
             Format::kKerasJson);
  ExpectKind("{\"modelTopology\": {}, \"weightsManifest\": []}", Format::kTfjs);
  ExpectKind("{\"modelTopology\": {\"class_name\": ", Format::kTfjs);
  ExpectKind("{\"weight_map\": {\"a\": \"model.safetensors\"}}",
             Format::kSafetensorsIndex);
  ExpectKind("{\"a\": 1}", Format::kJson);
  ExpectKind("{\"a\": ", Format::kJson);
  ExpectKind(std::string("\x7f"
                         "ELF\2\1\1\0\0\0",
                         10),
             Format::kUnknown);
  ExpectKind(std::string(100, '\xff'), Format::kUnknown);
}

// A reader of safetensors would take their first eight bytes for the length of
// a header.
TEST(FileKindTest, Weights_FileOfAnotherKind_ErrorNamesTheKind) {
  const DataFiles files;
  const struct {
    std::string bytes, what;
  } others[] = {
      {"GGUF" + std::string("\3\0\0\0", 4) + std::string(100, '\1'),
       "is a model of llama.cpp (GGUF), made for inference, not safetensors"},
      {"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n\r\n",
       "is a web server's answer with its header (HTTP), not safetensors"},
      {"<!DOCTYPE html><title>404</title>", "is a web page (HTML), not"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
       "is a pointer of Git LFS to a file, not safetensors"},
      {"Access denied.\n", "is a text, not safetensors or npz"},
  };
  for (const auto& other : others) {
    WeightsFile file;
    const Status status =
        file.Open(PosixFiles(), files.Write("w", other.bytes));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(status, other.what));
  }
}

TEST(FileKindTest, KindOfBytes_GzipFile_NamesItsContent) {
  const std::string idx("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c", 12);
  const FileKind kind = KindOfBytes(Gzip(idx));
  EXPECT_EQ(kind.format, Format::kGzip);
  EXPECT_EQ(kind.content, Format::kIdx);
  EXPECT_EQ(kind.what, "a gzip file of an IDX file, as MNIST's");
  EXPECT_EQ(KindOfBytes(Gzip("a,b\n1,2\n")).content, Format::kCsv);
  EXPECT_EQ(KindOfBytes(Gzip("\x89HDF\r\n\x1a\n")).what,
            "a gzip file of an HDF5 file, as Keras's .h5 and .weights.h5");
  // Any beginning of a gzip file is recognized as one.
  const std::string packed = Gzip(std::string(10000, 'x') + "\n");
  for (size_t n = 3; n < packed.size(); ++n) {
    EXPECT_EQ(KindOfBytes(packed.substr(0, n)).format, Format::kGzip) << n;
  }
}

// A reader that does not unpack names the kind of the packed file.
TEST(FileKindTest, OtherKind_ReaderUnpacksNoGzip_NamesIt) {
  const DataFiles files;
  const Status error = Corruption("no weights");
  for (const std::string& content :
       {std::string("\x93NUMPY\x01\0", 8), std::string("\0\1\2", 3)}) {
    const std::string path = files.Write("a.gz", Gzip(content));
    const auto check = [&](std::initializer_list<Format> wanted) {
      return WrongKindError(PosixFiles(), path, wanted, error);
    };
    const Status other = check({Format::kSafetensors, Format::kNpy});
    EXPECT_EQ(other.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Contains(other, "a.gz: is a gzip file"));
    EXPECT_EQ(check({Format::kNpy, Format::kGzip}).code(), error.code());
  }
}

TEST(FileKindTest, KindOf_FilesWrittenByPython_AreRecognized) {
  if (!HavePython()) GTEST_SKIP() << "needs python3-numpy";
  const DataFiles files;
  files.Write("make.py", R"(
import gzip, io, json, pickle, sys, zipfile
import numpy
f = sys.argv[1] + "/"
def keras(name, order):
    with zipfile.ZipFile(f + name, "w") as z:
        for n in order: z.writestr(n, "x" * 100)
keras("keras", ["metadata.json", "config.json", "model.weights.h5"])
keras("keras-other-order", ["model.weights.h5", "metadata.json", "config.json"])
with zipfile.ZipFile(f + "torch", "w") as z:
    for n in ["archive/data.pkl", "archive/byteorder", "archive/data/0",
              "archive/version"]: z.writestr(n, "x" * 100)
with zipfile.ZipFile(f + "zip", "w") as z:
    for i in range(100): z.writestr("%d.txt" % i, "x" * 1000)
with open(f + "torch-legacy", "wb") as out:
    pickle.dump(0x1950a86a20f9469cfc6c, out, 2)
    pickle.dump(1001, out, 2)
for protocol in (2, 3, 4, 5):
    pickle.dump({"a": 1}, open(f + "pickle-%d" % protocol, "wb"), protocol)
numpy.savez(f + "npz", a=numpy.ones(3))
numpy.savez_compressed(f + "npz-packed", numpy.ones(3))
numpy.save(f + "npy", numpy.ones(3)); import os
os.rename(f + "npz.npz", f + "npz"); os.rename(f + "npz-packed.npz", f + "npz-packed")
os.rename(f + "npy.npy", f + "npy")
)");
  RunPython(files.Path("make.py") + " " + files.root());
  const struct {
    const char* name;
    Format format;
  } cases[] = {
      {"keras", Format::kKeras},     {"keras-other-order", Format::kKeras},
      {"torch", Format::kTorch},     {"torch-legacy", Format::kTorch},
      {"zip", Format::kZip},         {"pickle-2", Format::kPickle},
      {"pickle-3", Format::kPickle}, {"pickle-4", Format::kPickle},
      {"pickle-5", Format::kPickle}, {"npz", Format::kNpz},
      {"npz-packed", Format::kNpz},  {"npy", Format::kNpy}};
  for (const auto& c : cases) {
    EXPECT_STREQ(FormatName(KindOf(files.Path(c.name)).format),
                 FormatName(c.format))
        << c.name;
  }
  // The error of a reader of weights has the remedy.
  WeightsFile file;
  const std::string path = files.Path("keras");
  const Status status = file.Open(PosixFiles(), path);
  ExpectError(
      status, Code::kInvalidArgument, path,
      "is a model of Keras 3 (.keras), not safetensors or npz or npy or onnx "
      "or tfjs; in Python: m = keras.models.load_model(\"" +
          path + "\"); numpy.savez(\"w.npz\", *m.get_weights())");
}

TEST(FileKindTest, KindOf_FilesWrittenByRinglet_AreRecognized) {
  TempFolder folder;
  auto model = TinyModel();
  ASSERT_OK(SaveModel(model.get(), folder / "m"));
  EXPECT_EQ(KindOf(folder / "m").format, Format::kSafetensors);
  EventFile events;
  ASSERT_OK(events.Open(folder / "e"));
  ASSERT_OK(events.Close());
  EXPECT_EQ(KindOf(events.path()).format, Format::kEvents);
  const float one = 1;
  ASSERT_OK(WriteNpy(folder / "a", DType::kFloat32, {}, &one));
  EXPECT_EQ(KindOf(folder / "a").format, Format::kNpy);
  NpzWriter npz;
  ASSERT_OK(npz.Open(PosixFiles(), folder / "z"));
  ASSERT_OK(npz.Add("k", DType::kFloat32, {}, &one));
  ASSERT_OK(npz.Finish());
  EXPECT_EQ(KindOf(folder / "z").format, Format::kNpz);
}

}  // namespace
}  // namespace ringlet
