// Files of examples: their shape, type, range, classes and use.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "io/checkpoint/inspect.h"
#include "io/readers/arrays/npy_layout.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

std::string Inspected(const std::string& path) {
  FileInfo info;
  const Status status = InspectFile(path, &info);
  return status.ok() ? ToText(info) : status.message();
}

// Two images of 1 x 3 pixels.
const std::string kIdx =
    std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\3", 16) + "\1\2\3\4\5\xff";

TEST(InspectDataTest, Inspect_IdxPlainOrPacked_ShowsItsArrayAndUse) {
  const DataFiles files;
  const std::string row = "arr_0  U8  (2, 1, 3)  min 1  max 255  mean 45\n";
  const std::string use =
      "as data: \"images\" or \"labels\" of RUN.json, --images or --labels\n";
  const std::string plain = Inspected(files.Write("a", kIdx));
  EXPECT_TRUE(Contains(plain, "an IDX file, as MNIST's\ntensors:\n  " + row));
  EXPECT_TRUE(Contains(plain, row + use));
  const std::string packed = Inspected(files.Write("a.gz", Gzip(kIdx)));
  EXPECT_TRUE(Contains(packed, "a gzip file of an IDX file"));
  EXPECT_TRUE(Contains(packed, row + use));
  for (const std::string& bytes :
       {kIdx.substr(0, kIdx.size() - 1), Gzip(kIdx).substr(0, 30)}) {
    FileInfo info;
    EXPECT_EQ(InspectFile(files.Write("a", bytes), &info).code(),
              Code::kCorruption);
  }
}

TEST(InspectDataTest, Inspect_LabelsOfText_ShowsTheirClasses) {
  const DataFiles files;
  std::string header = NpyHeader(DType::kUint8, {3});
  const size_t type = header.find("'|u1'");
  ASSERT_NE(type, std::string::npos);
  header.replace(type, 5, "'|S3'");
  const std::string bytes = header + "dogcatdog";
  const std::string note = "(3,)  text, 2 different: 'cat', 'dog'\n";
  const std::string use = "as data: \"x\" or \"y\" of RUN.json, --x or --y\n";
  EXPECT_TRUE(Contains(Inspected(files.Write("y.npy", bytes)), note + use));
  EXPECT_TRUE(
      Contains(Inspected(files.Write("y.npy.gz", Gzip(bytes))), note + use));
}

TEST(InspectDataTest, Inspect_Npy_ShowsWhatIsNotFiniteAndItsUse) {
  const DataFiles files;
  const float x[4] = {1, NAN, 3, -INFINITY};
  ASSERT_OK(WriteNpy(files.Path("x.npy"), DType::kFloat32, {2, 2}, x));
  EXPECT_TRUE(Contains(Inspected(files.Path("x.npy")),
                       "arr_0  F32  (2, 2)  min 1  max 3  mean 2  2 not "
                       "finite\nas data: \"x\" or \"y\" of RUN.json"));
}

}  // namespace
}  // namespace ringlet
