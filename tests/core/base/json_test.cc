#include "core/base/json.h"
#include "core/base/text.h"

#include <gtest/gtest.h>

#include <string>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"

namespace ringlet {
namespace {

std::string ErrorOf(const std::string& text) {
  Json json;
  return Json::Parse(text, "file", &json).message();
}

TEST(JsonTest, Parse_ValueOfEachKind_IsRead) {
  Json json;
  ASSERT_OK(
      Json::Parse("{\"a\": [1, -2.5, \"x\\u00e4\\n\", true, null],"
                  " \"b\": {}} \n",
                  "file", &json));
  const Json a = json["a"];
  ASSERT_TRUE(a.is_array());
  EXPECT_EQ(a.size(), 5);
  Json m = a.first();
  int64_t whole = 0;
  EXPECT_TRUE(m.ToInt64(&whole));
  EXPECT_EQ(whole, 1);
  m = m.next();
  EXPECT_EQ(m.number(), -2.5);
  EXPECT_FALSE(m.ToInt64(&whole));
  m = m.next();
  EXPECT_EQ(m.text(), "x\xc3\xa4\n");
  m = m.next();
  EXPECT_TRUE(m.as_bool());
  m = m.next();
  EXPECT_EQ(m.kind(), Json::Kind::kNull);
  EXPECT_FALSE(m.next());
  EXPECT_EQ(json["b"].kind(), Json::Kind::kObject);
  EXPECT_EQ(json["c"]["d"].kind(), Json::Kind::kNone);
  EXPECT_EQ(json.first().next().key(), "b");
}

TEST(JsonTest, Parse_SyntaxError_NamesLineAndColumn) {
  EXPECT_EQ(ErrorOf("{\"a\": 1,\n \"b\": }"),
            "file: line 2, near column 7: not JSON from here on: look for a "
            "missing or extra comma, bracket or quote (strings take \"\")");
  EXPECT_EQ(
      ErrorOf("[1,\n2"),
      "file: line 2, near column 2: the text ends too early: is a bracket "
      "missing?");
  // cJSON reports the place after the bracket, which is the end of the text.
  // The message must not say that the text ends too early.
  EXPECT_EQ(ErrorOf("{\"a\": 1,}"),
            "file: line 1, near column 10: not JSON from here on: look for a "
            "missing or extra comma, bracket or quote (strings take \"\")");
  EXPECT_EQ(ErrorOf("[\"a\", \"b]"),
            "file: line 1, column 10: the text ends inside a string: is its "
            "closing quote missing?");
  EXPECT_EQ(ErrorOf("[\"a\nb\"]"),
            "file: line 1, column 4: a control character inside a string: is "
            "its closing quote missing?");
  EXPECT_EQ(ErrorOf("[1] 2"),
            "file: line 1, column 5: more after the end of the JSON value");
  EXPECT_NE(ErrorOf(""), "");
  EXPECT_NE(ErrorOf("{"), "");
}

TEST(JsonTest, SyntaxErrors_WordsOfOtherLanguages_SayWhatToWrite) {
  const struct {
    const char *text, *message;
  } cases[] = {
      {"{\"a\": None}", "None is not JSON, which has null for it"},
      {"[1, True]", "True is not JSON, which has true for it"},
      {"[False]", "False is not JSON, which has false for it"},
      {"NaN", "NaN is not JSON, which has no number for it"},
      {"{\"a\": 1} # b", "more after the end"},
      {"{\"a\": 1 // b\n}", "JSON has no comments"},
      {"{# b\n\"a\": 1}", "JSON has no comments"},
      {"{/* b */\"a\": 1}", "JSON has no comments"},
      {"{\"a\": /data/x}", "quote (strings take \"\")"},
      {"{\"a\": nONE}", "not JSON from here on"},
  };
  for (const auto& c : cases) {
    const std::string error = ErrorOf(c.text);
    EXPECT_TRUE(Contains(error, c.message)) << c.text;
  }
}

TEST(JsonTest, Parse_ByteOrderMark_IsSkippedAndNotCounted) {
  const std::string mark = "\xEF\xBB\xBF";
  Json json;
  ASSERT_OK(Json::Parse(mark + "{\"a\": 1}", "file", &json));
  EXPECT_EQ(json["a"].number(), 1);
  EXPECT_EQ(ErrorOf(mark + "{\"a\": x}"), ErrorOf("{\"a\": x}"));
  EXPECT_NE(ErrorOf("{} " + mark), "");
  EXPECT_NE(ErrorOf(mark), "");
  std::string many;
  for (int i = 0; i < 100000; ++i) many += mark;
  EXPECT_NE(ErrorOf(many + "{}"), "");
}

TEST(JsonTest, TypeName_EachKindOrMissing_NamesItForMessages) {
  Json json;
  ASSERT_OK(Json::Parse("[null, true, 1, \"\", [], {}]", "file", &json));
  std::string names = json.type_name();
  for (Json m = json.first(); m; m = m.next()) {
    names += std::string(", ") + m.type_name();
  }
  EXPECT_EQ(names,
            "a list, null, a boolean, a number, a string, a list, an object");
  EXPECT_STREQ(json["a"].type_name(), "missing");
}

TEST(JsonTest, Parse_NestedMoreThan16Deep_IsRejected) {
  const auto nested = [](int n) {
    return std::string(n, '[') + std::string(n, ']');
  };
  EXPECT_EQ(ErrorOf(nested(16)), "");
  EXPECT_EQ(ErrorOf(nested(17)),
            "file: line 1, column 17: nested too deeply (more than 16)");
  EXPECT_NE(ErrorOf(std::string(1000000, '[')), "");
  EXPECT_EQ(ErrorOf("[\"" + std::string(40, '[') + "\\\"[\"]"), "");
}

TEST(JsonTest, Parse_DuplicateKey_IsRejected) {
  EXPECT_EQ(ErrorOf("[{\"a\": 1, \"b\": {\"k\": 1, \"k\": 1}}]"),
            "file: the key \"k\" is in \"b\" twice: keep one");
  EXPECT_EQ(ErrorOf("[{\"a\": 1, \"a\": 1}]"),
            "file: the key \"a\" is in one object twice: keep one");
  EXPECT_EQ(ErrorOf("[{\"a\": 1}, {\"a\": 1, \"A\": 1}]"), "");
}

TEST(JsonTest, Parse_ZeroCharacter_IsRejected) {
  EXPECT_NE(ErrorOf("[\"a\\u0000b\"]"), "");
  EXPECT_EQ(ErrorOf("[\"a\\\\u0000b\"]"), "");
  EXPECT_NE(ErrorOf(std::string("[1]\0", 4)), "");
}

// Other readers would refuse the JSON that is written from such a text.
TEST(JsonTest, Parse_TextIsNotUtf8_IsRejected) {
  for (const char* good :
       {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ErrorOf("[\"a" + std::string(good) + "b\"]"), "");
  }
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xdf\x7f",
        "\xe0\x9f\xbf", "\xe1\x80", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf1\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(ErrorOf("[\"a" + std::string(bad) + "b\"]"),
              "file: line 1, column 4: not UTF-8");
    EXPECT_EQ(ValidUtf8Bytes("ab" + std::string(bad)), 2u);
  }
}

TEST(JsonTest, JsonWriter_ValuesOfAllKinds_ReadBack) {
  JsonWriter w;
  w.BeginObject().Key("a\"\\\x01").BeginArray();
  w.Int(-3).Number(0.1).Number(1e300).Bool(false).Null().String("\xc3\xa4");
  w.BeginObject().EndObject().EndArray().Key("b").Int(1).EndObject();
  EXPECT_EQ(w.text(),
            "{\"a\\\"\\\\\\u0001\":[-3,0.1,1e+300,false,null,\"\xc3\xa4\",{}],"
            "\"b\":1}");
  Json json;
  ASSERT_OK(Json::Parse(w.text(), "text", &json));
  EXPECT_EQ(json.first().key(), "a\"\\\x01");
  EXPECT_EQ(json.first().first().next().number(), 0.1);
}

}  // namespace
}  // namespace ringlet
