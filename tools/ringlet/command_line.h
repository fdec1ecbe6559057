// CommandLine: the strict flags of one command, and its help.
//
// Each flag may occur once, as "--epochs 3" or "--epochs=3", before or between
// the arguments; "--" ends the flags. An error is one line with the nearest
// known flag.

#ifndef RINGLET_TOOLS_RINGLET_COMMAND_LINE_H_
#define RINGLET_TOOLS_RINGLET_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringlet/status.h"

namespace ringlet {

class CommandLine {
 public:
  // `arguments` are shown in the usage: "RUN.json". `about` describes the
  // command, and `description` is the end of its help; both end with a newline.
  CommandLine(const char* command, const char* arguments, const char* about,
              const char* description = "")
      : command_(command),
        arguments_shown_(arguments),
        about_(about),
        more_(description) {}

  // `names` is "--epochs" or "-n, --workers"; `value` is the word after it in
  // the help. The variables hold the defaults and outlive Parse.
  void Switch(const char* names, bool* value, const char* help);
  void Text(const char* names, const char* value, std::string* text,
            const char* help);
  void Int(const char* names, int64_t low, int64_t high, int64_t* number,
           const char* help);
  void Number(const char* names, const char* value, double low, double high,
              double* number, const char* help);
  // A flag of bytes: "64M", "512K", "1G" or a number.
  void Bytes(const char* names, int64_t* bytes, const char* help);
  // A flag of bits a second, in powers of 1000: "20M", "100M", "1G".
  void BitRate(const char* names, int64_t* rate, const char* help);

  // There are no flags after the first argument.
  void StopAtFirstArgument() { stops_ = true; }

  // Accepts between `min_arguments` and `max_arguments` arguments. If it
  // returns false, the command ends with exit code *code (0 after help, 2 for a
  // wrong line).
  bool Parse(const std::vector<std::string>& line, size_t min_arguments,
             size_t max_arguments, int* code);
  // As Parse, but prints nothing. Also returns false for --help.
  bool Accepts(const std::vector<std::string>& line, size_t min_arguments,
               size_t max_arguments) {
    return ParseAll(line, min_arguments, max_arguments).ok() && !help_;
  }
  const std::vector<std::string>& arguments() const { return arguments_; }

  std::string Help() const;
  // Prints `status` and how to get help. Returns the exit code.
  int UsageError(const Status& status) const;

 private:
  struct Flag {
    std::vector<std::string> names;
    std::string shown, value, help;
    bool given = false;
    std::function<Status(const std::string& flag, const std::string& text)> set;
  };
  void Add(const char* names, const char* value, const char* help,
           std::function<Status(const std::string&, const std::string&)> set);
  Status ParseAll(const std::vector<std::string>& line, size_t min_arguments,
                  size_t max_arguments);
  Status ParseFlag(const std::vector<std::string>& line, size_t* at);

  const std::string command_, arguments_shown_, about_, more_;
  std::vector<Flag> flags_;
  std::vector<std::string> arguments_;
  bool stops_ = false;
  bool help_ = false;
};

// ExitCode for a command that only reads its inputs: a missing file is a wrong
// input, 2.
int InputExitCode(const Status& status);

// Writes what is left of the output to stdout. True if all of it was written,
// or its reader has ended.
bool FlushStdout();

// `word`, quoted for a shell if necessary.
std::string ShellWord(const std::string& word);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_COMMAND_LINE_H_
