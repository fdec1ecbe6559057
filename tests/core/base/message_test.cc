#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "../../support/captured_output.h"
#include "core/base/open_line.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

// Sets JOURNAL_STREAM as systemd does for the current stderr. If `other`, sets
// it as for another file.
class JournalStream {
 public:
  explicit JournalStream(bool other = false) {
    struct stat own;
    EXPECT_EQ(fstat(STDERR_FILENO, &own), 0);
    const std::string text = std::to_string(own.st_dev) + ":" +
                             std::to_string(own.st_ino + (other ? 1 : 0));
    setenv("JOURNAL_STREAM", text.c_str(), 1);
  }
  ~JournalStream() { unsetenv("JOURNAL_STREAM"); }
};

TEST(MessageTest, Notice_StderrGoesToTheJournal_HasTheLevel) {
  const CapturedOutput output;
  const JournalStream journal;
  Notice("error: %s", "no space");
  Notice("warning: slow");
  Notice("note: 2 classes");
  EXPECT_EQ(output.text(),
            "<3>error: no space\n<4>warning: slow\n<5>note: 2 classes\n");
}

TEST(MessageTest, Notice_BehindAnOpenLine_MarkBeginsTheNextLine) {
  const CapturedOutput output;
  const JournalStream journal;
  OpenLine bar(stderr);
  bar.Write("1/10", /*ends=*/false);
  Notice("note: here");
  EXPECT_EQ(output.text(), "1/10\n<5>note: here\n");
}

TEST(MessageTest, Notice_JournalReadsAnotherFile_HasNoLevel) {
  const CapturedOutput output;
  const JournalStream journal(/*other=*/true);
  Notice("warning: slow");
  EXPECT_EQ(output.text(), "warning: slow\n");
}

TEST(MessageTest, Notice_WrongJournalStream_HasNoLevel) {
  const CapturedOutput output;
  for (const char* text : {"", ":", "8", "8:", "x:y", "-1:-1"}) {
    setenv("JOURNAL_STREAM", text, 1);
    Notice("note: %s", text);
  }
  unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(Contains(output.text(), "<")) << output.text();
}

TEST(MessageTest, Print_ToTheJournal_HasNoLevel) {
  const CapturedOutput output;
  const JournalStream journal;
  Print("Epoch 1/2");
  EXPECT_EQ(output.text(), "Epoch 1/2\n");
}

}  // namespace
}  // namespace ringlet
