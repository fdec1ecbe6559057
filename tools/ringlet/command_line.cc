// Switch, Text, Int and similar methods register a function for each flag,
// which checks the value and describes it. Parse, Help and the error messages
// use this one list. Numbers are stricter than for strtod and strtoll: no
// blanks, no hexadecimals, no names. The parser prints nothing, so that Accepts
// can use it.

#include "command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "config/scaled_number.h"
#include "core/base/reader_left.h"
#include "core/base/text.h"
#include "io/keras/keras_json.h"

namespace ringlet {
namespace {

bool ReadInt(const std::string& text, int64_t* value) {
  if (text.empty() || text.find_first_not_of("-0123456789") != text.npos) {
    return false;
  }
  char* end = nullptr;
  errno = 0;
  *value = std::strtoll(text.c_str(), &end, 10);
  return *end == '\0' && errno == 0;
}

bool ReadNumber(const std::string& text, double* value) {
  // No spaces, hexadecimals or names, which strtod takes too.
  if (text.empty() || text.find_first_not_of("-+.eE0123456789") != text.npos) {
    return false;
  }
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  return *end == '\0' && std::isfinite(*value);
}

Status WrongNumber(const std::string& flag, const std::string& text,
                   const std::string& rule) {
  return InvalidArgument("wrong number for %s: %s; it takes %s", flag.c_str(),
                         text.empty() ? "''" : Printable(text).c_str(),
                         rule.c_str());
}

}  // namespace

void CommandLine::Add(
    const char* names, const char* value, const char* help,
    std::function<Status(const std::string&, const std::string&)> set) {
  Flag flag;
  flag.shown = names;
  flag.value = value;
  flag.help = help;
  flag.set = std::move(set);
  const std::string all = names;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(", ", begin), all.size());
    flag.names.push_back(all.substr(begin, end - begin));
    begin = end + 2;
  }
  flags_.push_back(std::move(flag));
}

void CommandLine::Switch(const char* names, bool* value, const char* help) {
  Add(names, "", help, [value](const std::string&, const std::string&) {
    *value = true;
    return Status();
  });
}

void CommandLine::Text(const char* names, const char* value, std::string* text,
                       const char* help) {
  Add(names, value, help,
      [text](const std::string& flag, const std::string& argument) {
        if (argument.empty()) {
          return InvalidArgument("%s: its value is empty", flag.c_str());
        }
        *text = argument;
        return Status();
      });
}

void CommandLine::Int(const char* names, int64_t low, int64_t high,
                      int64_t* number, const char* help) {
  Add(names, "N", help, [=](const std::string& flag, const std::string& text) {
    int64_t value = 0;
    if (!ReadInt(text, &value) || value < low || value > high) {
      return WrongNumber(flag, text,
                         "a whole number from " + std::to_string(low) + " to " +
                             std::to_string(high));
    }
    *number = value;
    return Status();
  });
}

void CommandLine::Number(const char* names, const char* value_shown, double low,
                         double high, double* number, const char* help) {
  Add(names, value_shown, help,
      [=](const std::string& flag, const std::string& text) {
        double value = 0;
        if (!ReadNumber(text, &value) || value < low || value > high) {
          return WrongNumber(flag, text,
                             "a number from " + FormatText("%g", low) + " to " +
                                 FormatText("%g", high));
        }
        *number = value;
        return Status();
      });
}

void CommandLine::Bytes(const char* names, int64_t* bytes, const char* help) {
  Add(names, "BYTES", help,
      [=](const std::string& flag, const std::string& text) {
        if (ReadScaled(text, 1024, bytes)) return Status();
        return WrongNumber(flag, text, "bytes, as 64M, 512K, 1G or 1000000");
      });
}

void CommandLine::BitRate(const char* names, int64_t* rate, const char* help) {
  Add(names, "RATE", help,
      [=](const std::string& flag, const std::string& text) {
        if (ReadScaled(text, 1000, rate)) return Status();
        return WrongNumber(flag, text, "bits a second, as 20M, 100M or 1G");
      });
}

Status CommandLine::ParseFlag(const std::vector<std::string>& line,
                              size_t* at) {
  const std::string& word = line[*at];
  const size_t equals =
      word.compare(0, 2, "--") == 0 ? word.find('=') : std::string::npos;
  const std::string name = word.substr(0, equals);
  std::vector<std::string> known = {"--help"};
  for (Flag& flag : flags_) {
    known.insert(known.end(), flag.names.begin(), flag.names.end());
    if (std::count(flag.names.begin(), flag.names.end(), name) == 0) continue;
    if (flag.given) {
      return InvalidArgument("%s is given twice; give it once", name.c_str());
    }
    flag.given = true;
    if (flag.value.empty()) {
      if (equals != std::string::npos) {
        return InvalidArgument("%s takes no value", name.c_str());
      }
      return flag.set(name, "");
    }
    if (equals != std::string::npos) {
      return flag.set(name, word.substr(equals + 1));
    }
    if (*at + 1 >= line.size()) {
      return InvalidArgument("%s is the last word; %s must follow it",
                             name.c_str(), flag.value.c_str());
    }
    ++*at;
    return flag.set(name, line[*at]);
  }
  return UnknownName("", "flag", name, known);
}

Status CommandLine::ParseAll(const std::vector<std::string>& line,
                             size_t min_arguments, size_t max_arguments) {
  size_t i = 0;
  for (; i < line.size(); ++i) {
    const std::string& word = line[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (stops_) break;
      arguments_.push_back(word);
      continue;
    }
    if (word == "-h" || word == "--help") {
      help_ = true;
      return Status();
    }
    RINGLET_RETURN_IF_ERROR(ParseFlag(line, &i));
  }
  for (; i < line.size(); ++i) arguments_.push_back(line[i]);
  if (!stops_ && std::count(arguments_.begin(), arguments_.end(), "") > 0) {
    return InvalidArgument("an argument is empty; it takes %s",
                           arguments_shown_.c_str());
  }
  if (arguments_.size() < min_arguments) {
    return InvalidArgument("%s is missing",
                           WithoutSuffix(arguments_shown_, "...").c_str());
  }
  if (arguments_.size() > max_arguments) {
    return InvalidArgument(
        "'%s' is one argument too many; it takes %s",
        Printable(arguments_[max_arguments]).c_str(),
        arguments_shown_.empty() ? "none" : arguments_shown_.c_str());
  }
  return Status();
}

bool CommandLine::Parse(const std::vector<std::string>& line,
                        size_t min_arguments, size_t max_arguments, int* code) {
  const Status parsed = ParseAll(line, min_arguments, max_arguments);
  if (help_) {
    std::fputs(Help().c_str(), stdout);
    *code = 0;
    return false;
  }
  if (parsed.ok()) return true;
  *code = UsageError(parsed);
  return false;
}

int CommandLine::UsageError(const Status& status) const {
  return ExitCode(InvalidArgument("%s (see 'ringlet %s --help')",
                                  status.message(), command_.c_str()));
}

bool FlushStdout() {
  // Lines are flushed one by one, so an earlier line may have failed.
  return (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) ||
         ReaderHasLeft(STDOUT_FILENO);
}

int InputExitCode(const Status& status) {
  const int code = ExitCode(status);
  return status.code() == Code::kNotFound ? 2 : code;
}

std::string CommandLine::Help() const {
  std::string text = "usage: ringlet " + command_ + " [flags]" +
                     (arguments_shown_.empty() ? "" : " ") + arguments_shown_ +
                     "\n\n" + about_ + "\n";
  const auto row = [&](const std::string& left, const std::string& right) {
    constexpr size_t kColumn = 26;
    text += "  " + left;
    text += left.size() + 2 < kColumn
                ? std::string(kColumn - left.size() - 2, ' ')
                : "\n" + std::string(kColumn, ' ');
    for (char c : right) {
      text += c;
      if (c == '\n') text += std::string(kColumn, ' ');
    }
    text += "\n";
  };
  for (const Flag& flag : flags_) {
    row(flag.shown + (flag.value.empty() ? "" : " " + flag.value), flag.help);
  }
  row("-h, --help", "this text");
  return text + more_;
}

std::string ShellWord(const std::string& word) {
  if (word[0] == '-') return ShellWord("./" + word);  // no flag
  const std::string plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+,:@";
  if (word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace ringlet
