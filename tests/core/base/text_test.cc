#include "core/base/text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ringlet
