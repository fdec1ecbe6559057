// ringlet init and inspect of tables: each written RUN.json trains.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "../support/contains.h"
#include "../support/program.h"
#include "../support/temp_folder.h"

namespace ringlet {
namespace {

class InitTest : public ProgramTest {
 protected:
  // Birds of two kinds, which differ in their length. `line` makes a row of a
  // number from 0 and the row's kind.
  template <typename Line>
  void WriteTable(const std::string& names, const Line& line) {
    std::string text = names;
    for (int i = 0; i < 60; ++i) text += line(i, i % 2 == 0 ? "auk" : "emu");
    WriteWhole(folder_ / "d.csv", text);
  }

  // Trains and evaluates what `init` writes. Returns the RUN.json.
  std::string Trained(const Strings& flags, const std::string& result) {
    Strings line = {"init", "d.csv"};
    line.insert(line.end(), flags.begin(), flags.end());
    EXPECT_EQ(Run(line), 0) << err_;
    const std::string json = out_;
    WriteWhole(folder_ / "run.json", json);
    EXPECT_EQ(Run({"train", "run.json", "--save", "m"}), 0) << err_ << json;
    EXPECT_EQ(Run({"evaluate", "m", "--data", "run.json", "--part", "train"}),
              0)
        << err_;
    EXPECT_TRUE(Contains(out_, result)) << json;
    return json;
  }
};

std::string LengthOf(int i, const std::string& kind) {
  return std::to_string((kind == "auk" ? 20 : 40) + i % 5);
}

TEST_F(InitTest, Table_TextGapsAndIndex_GivesARunThatTrains) {
  WriteTable("id,island,sex,length,note,kind\n", [](int i, const char* kind) {
    const std::string length = i % 10 == 3 ? "?" : LengthOf(i, kind);
    return std::to_string(i + 1) + (i % 3 == 0 ? ",Dream," : ",Biscoe,") +
           (i % 7 == 0   ? "NA"
            : i % 3 == 0 ? "male"
                         : "female") +
           "," + length + ",seen " + std::to_string(i * 7) + "," + kind + "\n";
  });
  const std::string json = Trained({"--label", "kind"}, "accuracy: 1.0000");
  for (const char* part :
       {"\"drop\": [\"id\", \"note\"]",
        "\"categorical\": [\"island\", \"sex\"]", "\"missing\": \"mean\"",
        "\"na_values\": [\"?\"]", "[null, 6]", "\"units\": 2"}) {
    EXPECT_TRUE(Contains(json, part));
  }
  ASSERT_EQ(Run({"inspect", "d.csv"}), 0) << err_;
  for (const char* part :
       {"60 rows, 6 columns, separator ','", "0  id      numbers, 1 to 60",
        "text, 2 different: Biscoe, Dream",
        "text, 2 different: female, male; 9 "
        "missing",
        "and text: ?"}) {
    EXPECT_TRUE(Contains(out_, part));
  }
}

TEST_F(InitTest, Table_SemicolonsAndDecimalCommas_AreFound) {
  WriteTable("kind;length\n", [](int i, const std::string& kind) {
    return kind + ";" + LengthOf(i, kind) + ",5\n";
  });
  const std::string json = Trained({"--label", "0"}, "accuracy: 1.0000");
  EXPECT_TRUE(Contains(json, "\"separator\": \";\", \"decimal\": \",\""));
  ASSERT_EQ(Run({"evaluate", "m", "--csv", "d.csv", "--separator", ";",
                 "--decimal", ","}),
            0)
      << err_;
  EXPECT_TRUE(Contains(out_, "accuracy: 1.0000"));
}

TEST_F(InitTest, Table_BlanksAndNoNames_HasNumbersForColumns) {
  WriteTable("", [](int i, const std::string& kind) {
    return "  " + LengthOf(i, kind) + "   " + std::to_string(i % 3) + " " +
           (kind == "auk" ? "1" : "0") + "\n";
  });
  const std::string json = Trained({}, "accuracy: 1.0000");
  EXPECT_TRUE(
      Contains(json, "\"label\": 2, \"separator\": \" \", \"header\": false"));
}

TEST_F(InitTest, Label_AQuantity_IsPredictedAsOne) {
  WriteTable("x,y\n", [](int i, const std::string&) {
    return std::to_string(i % 6) + "," + std::to_string(0.5 * (i % 6)) + "\n";
  });
  const std::string json =
      Trained({"--label", "y"}, "mean_absolute_error: 0.0");
  EXPECT_TRUE(Contains(json, "mean_squared_error"));
}

TEST_F(InitTest, Label_MissingInSomeRows_LeavesThemOut) {
  WriteTable("length,kind\n", [](int i, const std::string& kind) {
    return LengthOf(i, kind) + "," + (i % 9 == 4 ? "" : kind) + "\n";
  });
  const std::string json = Trained({}, "accuracy: 1.0000");
  EXPECT_TRUE(Contains(json, "\"missing\": \"drop\""));
}

TEST_F(InitTest, Out_FileThatIsThereOrInAFolder_IsKeptOrFindsTheTable) {
  WriteTable("length,kind\n", [](int i, const std::string& kind) {
    return LengthOf(i, kind) + "," + kind + "\n";
  });
  ASSERT_EQ(mkdir((folder_ / "runs").c_str(), 0700), 0);
  ASSERT_EQ(Run({"init", "d.csv", "--out", "runs/run.json"}), 0) << err_;
  EXPECT_EQ(Run({"train", "runs/run.json", "--save", "m"}), 0) << err_;
  const std::string table = ReadWhole(folder_ / "d.csv");
  ExpectError({"init", "d.csv", "--out", "d.csv"}, 2,
              {"--out d.csv: already exists"});
  EXPECT_EQ(ReadWhole(folder_ / "d.csv"), table);
}

TEST_F(InitTest, Table_OfNoUse_IsRefused) {
  WriteWhole(folder_ / "d.csv", "a,kind\n1,x\n");
  ExpectError({"init", "d.csv", "--label", "king"}, 2,
              {"--label", "'king'", "kind"});
  ExpectError({"init", "none.csv"}, 2, {"none.csv"});
  WriteWhole(folder_ / "d.csv", "a,b\n1,2\n3\n");
  ExpectError({"init", "d.csv"}, 1, {"d.csv"});
  WriteWhole(folder_ / "d.csv", "");
  ExpectError({"init", "d.csv"}, 1, {"d.csv: no rows"});
}

}  // namespace
}  // namespace ringlet
