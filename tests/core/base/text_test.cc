#include "core/base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringlet {
namespace {

TEST(TextTest, WithArticle_ClassOfLayer_HasTheArticleOfItsSound) {
  EXPECT_EQ(WithArticle("Dense"), "a Dense");
  EXPECT_EQ(WithArticle("Embedding"), "an Embedding");
  EXPECT_EQ(WithArticle("InputLayer"), "an InputLayer");
  EXPECT_EQ(WithArticle("LSTM"), "an LSTM");
  EXPECT_EQ(WithArticle("LeakyReLU"), "a LeakyReLU");
  EXPECT_EQ(WithArticle("MFCC"), "an MFCC");
  EXPECT_EQ(WithArticle("UpSampling2D"), "an UpSampling2D");
  EXPECT_EQ(WithArticle("UnitNormalization"), "a UnitNormalization");
}

TEST(TextTest, SnakeCase_ClassName_IsKerasName) {
  EXPECT_EQ(SnakeCase("Conv2D"), "conv2d");
  EXPECT_EQ(SnakeCase("MyLayer"), "my_layer");
}

TEST(TextTest, Format_AnyLength_IsWhole) {
  EXPECT_EQ(FormatText("%d of %s", 3, "a"), "3 of a");
  EXPECT_EQ(FormatText("%s", ""), "");
  const std::string large(5000, 'x');
  EXPECT_EQ(FormatText("<%s>", large.c_str()), "<" + large + ">");
}

TEST(TextTest, Bytes_EachSize_HasItsUnit) {
  EXPECT_EQ(BytesText(999), "999 bytes");
  EXPECT_EQ(BytesText(1000), "1.0 kB");
  EXPECT_EQ(BytesText(123456789), "123 MB");
  EXPECT_EQ(BytesText(UINT64_MAX), "18446744 TB");
  EXPECT_EQ(BinaryBytesText(1023), "1023 bytes");
  EXPECT_EQ(BinaryBytesText(1536), "1.5 KiB");
  EXPECT_EQ(BinaryBytesText(-1536), "-1536 bytes");
}

TEST(TextTest, Lines_LastMayLackItsEnd_AreTakenInOrder) {
  using Parts = std::vector<std::string>;
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, Parts>>{
           {"", {}},
           {"\n", {""}},
           {"a", {"a"}},
           {"a\n", {"a"}},
           {"a\n\nb\r\n", {"a", "", "b\r"}},
           {"a\nb", {"a", "b"}}}) {
    Parts lines;
    std::string_view rest = text;
    for (std::string line; TakeLine(&rest, &line);) lines.push_back(line);
    EXPECT_EQ(lines, expected);
    EXPECT_TRUE(rest.empty());
  }
  std::string_view rest = "a,b";
  std::string part;
  ASSERT_TRUE(TakeLine(&rest, &part, ','));
  EXPECT_EQ(part, "a");
  EXPECT_EQ(rest, "b");
}

TEST(TextTest, SplitAt_AnyText_HasAPartMoreThanSeparators) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(SplitAt("", ','), Parts{""});
  EXPECT_EQ(SplitAt("a", ','), Parts{"a"});
  EXPECT_EQ(SplitAt("a,,b", ','), (Parts{"a", "", "b"}));
  EXPECT_EQ(SplitAt(",a,", ','), (Parts{"", "a", ""}));
}

}  // namespace
}  // namespace ringlet
