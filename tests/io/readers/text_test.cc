#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/expect_ok.h"
#include "../../support/random_cases.h"
#include "ringlet/readers.h"

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;
using Numbers = std::vector<int32_t>;

TextVectorization With(const Strings& vocabulary, int64_t length) {
  TextVectorization v;
  v.vocabulary = vocabulary;
  v.output_sequence_length = length;
  return v;
}

// The examples of Keras's documentation.
TEST(TextTest, Vectorize_UnknownWordsAndEnds_AreOneAndZero) {
  const TextVectorization v = With({"foo", "bar", "baz"}, 4);
  EXPECT_EQ(Vectorize(v, "foo qux bar"), (Numbers{2, 1, 3, 0}));
  EXPECT_EQ(Vectorize(v, "qux baz"), (Numbers{1, 4, 0, 0}));
  EXPECT_EQ(Vectorize(v, " Foo,\tfoo-Bar\n!? baz foo bar"),
            (Numbers{2, 1, 4, 2}));
  EXPECT_EQ(Vectorize(v, ""), (Numbers{0, 0, 0, 0}));
}

TEST(TextTest, Vectorize_OtherStandards_KeepWhatTheySay) {
  TextVectorization v = With({"Foo!", "foo!", "Foo", "foo"}, 1);
  using Standardize = TextVectorization::Standardize;
  v.standardize = Standardize::kNone;
  EXPECT_EQ(Vectorize(v, "Foo!"), Numbers{2});
  v.standardize = Standardize::kLower;
  EXPECT_EQ(Vectorize(v, "Foo!"), Numbers{3});
  v.standardize = Standardize::kStripPunctuation;
  EXPECT_EQ(Vectorize(v, "Foo!"), Numbers{4});
}

TEST(TextTest, Split_Characters_EqualUtf8s) {
  TextVectorization v = With({"\u00e9", "a", " ", "\U0001F600"}, 6);
  v.split = TextVectorization::Split::kCharacter;
  EXPECT_EQ(Vectorize(v, "A \u00e9\U0001F600\xc3"),
            (Numbers{3, 4, 2, 5, 1, 0}));
}

class TextFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& text) { return files_.Write("f", text); }
  DataFiles files_;
};

TEST_F(TextFileTest, Vocabulary_WithSpecialTokensOrWithout_IsTheSame) {
  TextVectorization v;
  ASSERT_OK(ReadVocabulary(Write("\n[UNK]\nthe\r\n cat\n"), &v));
  EXPECT_EQ(v.vocabulary, (Strings{"the", "cat"}));
  ASSERT_OK(ReadVocabulary(Write("the\ncat"), &v));
  EXPECT_EQ(v.vocabulary, (Strings{"the", "cat"}));
  for (const char* right : {"\xef\xbb\xbf\n[UNK]\nthe\ncat\n",
                            "[UNK]\nthe\ncat\n", "the\r\ncat\r\n\r\n\n"}) {
    ASSERT_OK(ReadVocabulary(Write(right), &v));
    EXPECT_EQ(v.vocabulary, (Strings{"the", "cat"}));
  }
  for (const std::string& wrong :
       {std::string("the\nthe\n"), std::string("the\n\ncat\n"),
        std::string("the\n[UNK]\n"), std::string("[UNK]\n[UNK]\n"),
        std::string("the\rcat\r"), std::string("t\0h\0", 4)}) {
    EXPECT_EQ(ReadVocabulary(Write(wrong), &v).code(), Code::kCorruption);
  }
  v.max_tokens = 3;
  EXPECT_EQ(ReadVocabulary(Write("the\ncat\n"), &v).code(),
            Code::kInvalidArgument);
}

TEST_F(TextFileTest, Vocabulary_OfCharacters_MayHaveABlank) {
  TextVectorization v;
  v.split = TextVectorization::Split::kCharacter;
  ASSERT_OK(ReadVocabulary(Write("\n[UNK]\na\r\n \r\nb\n"), &v));
  EXPECT_EQ(v.vocabulary, (Strings{"a", " ", "b"}));
}

TEST_F(TextFileTest, Learn_TokensOfOneFrequency_AreInReverseOrder) {
  const std::string path = Write("text\nb a\n\"a, c\"\nB\n\"a\nd\"\n");
  TextVectorization v;
  CsvOptions options;
  options.has_label = false;
  ASSERT_OK(LearnVocabulary(path, "text", options, &v));
  EXPECT_EQ(v.vocabulary, (Strings{"a", "b", "d", "c"}));
  v.max_tokens = 4;
  ASSERT_OK(LearnVocabulary(path, "0", options, &v));
  EXPECT_EQ(v.vocabulary, (Strings{"a", "b"}));
  EXPECT_FALSE(LearnVocabulary(path, "words", options, &v).ok());
}

// A file without names has one row more.
TEST_F(TextFileTest, Dataset_NamesOrNot_HasEachTextWithItsLabel) {
  const TextVectorization v = With({"a", "b"}, 2);
  for (const char* names : {"kind,text\n", ""}) {
    const std::string path =
        Write(std::string(names) + "x,a\ny,\"b, a\"\nx,\ny,c\n");
    CsvOptions options;
    options.label_column = 0;
    options.header = *names != '\0';
    const Dataset data = TextDataset(path, *names ? "text" : "1", v, options);
    ASSERT_OK(data.Batch(1).status());
    ASSERT_EQ(data.size(), 4);
    EXPECT_EQ(data.source()->Description().classes, (Strings{"x", "y"}));
    const int64_t index[] = {1, 0, 3, 2};
    int32_t x[8], y[4];
    ASSERT_OK(data.source()->Read(index, 4, x, y));
    EXPECT_EQ(Numbers(x, x + 8), (Numbers{3, 2, 2, 0, 1, 0, 0, 0}));
    EXPECT_EQ(Numbers(y, y + 4), (Numbers{1, 0, 1, 0}));
  }
}

// The number of the text is a label of the first row, and of no name.
// One pass learns the vocabulary and gives the numbers.
TEST_F(TextFileTest, Dataset_WithoutAVocabulary_LearnsIt) {
  const std::string path =
      Write("text,y\n\"b, a\",1\na a c [UNK],0\n,1\nc d a b b,0\n");
  for (const int64_t max_tokens : {0, 4, 3}) {
    SCOPED_TRACE(max_tokens);
    TextVectorization v = With({}, 3), learned = v;
    v.max_tokens = learned.max_tokens = max_tokens;
    v.standardize = learned.standardize = TextVectorization::Standardize::kNone;
    ASSERT_OK(LearnVocabulary(path, "text", {}, &learned));
    const Dataset data = TextDataset(path, "text", v);
    ASSERT_OK(data.Batch(1).status());
    ASSERT_TRUE(data.source()->Description().text.has_value());
    EXPECT_EQ(data.source()->Description().text->vocabulary,
              learned.vocabulary);
    const Dataset known = TextDataset(path, "text", learned);
    ASSERT_EQ(data.size(), 4);
    for (int64_t i = 0; i < 4; ++i) {
      Numbers a(3), b(3);
      float label[2] = {};
      ASSERT_OK(data.source()->Read(&i, 1, a.data(), &label[0]));
      ASSERT_OK(known.source()->Read(&i, 1, b.data(), &label[1]));
      EXPECT_EQ(a, b);
      EXPECT_EQ(label[0], label[1]);
    }
  }
}

TEST_F(TextFileTest, Dataset_NumbersOfColumnsAsLabels_HasTheFirstRow) {
  const std::string path = Write("good film,0\nbad film,1\n");
  CsvOptions options;
  options.label_column = 1;
  TextVectorization v = With({}, 2);
  ASSERT_OK(LearnVocabulary(path, "0", options, &v));
  EXPECT_EQ(v.vocabulary, (Strings{"film", "good", "bad"}));
  for (const bool for_prediction : {false, true}) {
    options.for_prediction = for_prediction;
    const Dataset data = TextDataset(path, "0", v, options);
    ASSERT_OK(data.Batch(1).status());
    ASSERT_EQ(data.size(), 2);
    const int64_t index[] = {0, 1};
    int32_t x[4];
    ASSERT_OK(data.source()->Read(index, 2, x, nullptr));
    EXPECT_EQ(Numbers(x, x + 4), (Numbers{3, 2, 4, 2}));
  }
}

TEST_F(TextFileTest, Dataset_ForPrediction_MayLackTheLabel) {
  CsvOptions options;
  options.label_name = "mood";
  options.for_prediction = true;
  const Dataset data =
      TextDataset(Write("text\na\nb\n"), "text", With({"a"}, 1), options);
  ASSERT_OK(data.Batch(1).status());
  EXPECT_EQ(data.size(), 2);
}

// The words of a text: lower case, without punctuation.
Strings WordsOf(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (std::strchr(".,!-~`", c) != nullptr) continue;
    plain += static_cast<char>(std::tolower(c));
  }
  Strings words;
  std::istringstream stream(plain);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// All words of the texts, the most frequent first. Words of equal frequency are
// in reverse alphabetical order.
Strings ByFrequency(const Strings& texts) {
  std::map<std::string, int> counts;
  for (const std::string& text : texts) {
    for (const std::string& word : WordsOf(text)) ++counts[word];
  }
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [word, count] : counts) order.emplace_back(count, word);
  std::sort(order.rbegin(), order.rend());
  Strings words;
  for (const auto& [count, word] : order) words.push_back(word);
  return words;
}

// 0 for padding, 1 for an unknown word, and then the vocabulary.
Numbers NumbersOf(const std::string& text, const Strings& by_frequency,
                  const TextVectorization& v) {
  Numbers numbers;
  for (const std::string& word : WordsOf(text)) {
    const auto at = std::find(by_frequency.begin(), by_frequency.end(), word) -
                    by_frequency.begin();
    numbers.push_back(at + 2 < v.max_tokens ? static_cast<int32_t>(at + 2) : 1);
  }
  numbers.resize(static_cast<size_t>(v.output_sequence_length), 0);
  return numbers;
}

TEST_F(TextFileTest, LearnedNumbers_RandomTexts_EqualASearch) {
  RandomCases cases("RINGLET_TEXT", {}, 1, 0.4);
  while (cases.Next()) {
    SCOPED_TRACE(cases.command());
    std::mt19937 random(static_cast<uint32_t>(cases.number()));
    Strings texts(1 + random() % 6);
    std::string csv = "t\n";
    for (std::string& text : texts) {
      text = "x";
      for (size_t k = random() % 30; k > 0; --k) {
        text += "aAbBc .,!-\t~`z"[random() % 14];
      }
      csv += "\"" + text + "\"\n";
    }
    TextVectorization v;
    v.max_tokens = 2 + 1 + static_cast<int64_t>(random() % 8);
    v.output_sequence_length = 1 + static_cast<int64_t>(random() % 6);
    CsvOptions options;
    options.has_label = false;
    options.header = true;
    ASSERT_OK(LearnVocabulary(Write(csv), "t", options, &v));
    const Strings by_frequency = ByFrequency(texts);
    for (const std::string& text : texts) {
      ASSERT_EQ(Vectorize(v, text), NumbersOf(text, by_frequency, v)) << text;
    }
  }
}

}  // namespace
}  // namespace ringlet
