#include "net/launch/terminal_line.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ringlet {
namespace {

using Strings = std::vector<std::string>;

Strings Lines(const std::string& bytes, size_t each) {
  TerminalLine line;
  Strings lines;
  for (size_t at = 0; at < bytes.size(); at += each) {
    const std::string piece = bytes.substr(at, each);
    line.Feed(piece.data(), piece.size(), 1000, &lines);
  }
  line.End(&lines);
  return lines;
}

TEST(TerminalLineTest, Feed_BarSplitAnywhere_GivesItsLastDrawing) {
  const std::string bytes =
      "Epoch 1/2\n\r1/6 \u2501\u2501 10s\b\b\b\b\r6/6 \u2501\u2501\u2501 1s\n"
      "dos\r\n\nlast";
  for (size_t each = 1; each <= bytes.size(); ++each) {
    EXPECT_EQ(
        Lines(bytes, each),
        (Strings{"Epoch 1/2", "6/6 \u2501\u2501\u2501 1s", "dos", "", "last"}))
        << each;
  }
}

TEST(TerminalLineTest, Feed_EndlessLine_IsCutInPieces) {
  TerminalLine line;
  Strings lines;
  const std::string bytes(2500, 'x');
  line.Feed(bytes.data(), bytes.size(), 1000, &lines);
  EXPECT_EQ(lines, (Strings{std::string(1000, 'x'), std::string(1000, 'x')}));
}

TEST(TerminalLineTest, Draw_ErasedBeforeOthers_IsDrawnAgainOnce) {
  TerminalLine line;
  Strings lines;
  EXPECT_EQ(line.Erase(), "");
  EXPECT_EQ(line.Draw("[0] ", 80), "");
  line.Feed("ab", 2, 100, &lines);
  EXPECT_EQ(line.Draw("[0] ", 80), "[0] ab");
  EXPECT_EQ(line.Draw("[0] ", 80), "");  // nothing has changed
  EXPECT_EQ(line.Erase(), "\r\x1b[K");
  EXPECT_EQ(line.Erase(), "");
  EXPECT_EQ(line.Draw("[0] ", 80), "[0] ab");
  line.Feed("\rc", 2, 100, &lines);
  EXPECT_EQ(line.Draw("[0] ", 80), "\r\x1b[K[0] c");
  line.Feed("\n", 1, 100, &lines);
  EXPECT_EQ(line.Draw("[0] ", 80), "\r\x1b[K");
  EXPECT_EQ(lines, Strings{"c"});
}

// Bytes of any kind: no cut is wider than requested, and none reads beyond the
// text.
TEST(TerminalLineTest, CutToColumns_AnyBytes_KeepsABeginningOfThem) {
  std::mt19937 random(7);
  const std::string some[] = {"\x1b[1m", "\x1b[", "\x1b",
                              "\u2501",  "a",     "\x80"};
  for (int n = 0; n < 2000; ++n) {
    std::string text;
    for (unsigned i = random() % 40; i > 0; --i) text += some[random() % 6];
    const int columns = static_cast<int>(random() % 30);
    const std::string cut = CutToColumns(text, columns);
    EXPECT_LE(cut.size(), text.size() + 4);
    if (cut == text) continue;
    EXPECT_EQ(cut.substr(cut.size() - 4), "\x1b[0m");
    EXPECT_EQ(text.compare(0, cut.size() - 4, cut, 0, cut.size() - 4), 0);
  }
  EXPECT_EQ(CutToColumns("\x1b[1mab\u2501\u2501\x1b[0m c", 3),
            "\x1b[1mab\u2501\x1b[0m");
}

}  // namespace
}  // namespace ringlet
