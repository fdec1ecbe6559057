// Records, fields and numbers of a CSV file.

#ifndef RINGLET_IO_READERS_TABLES_CSV_RECORDS_H_
#define RINGLET_IO_READERS_TABLES_CSV_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../files/input_file.h"
#include "ringlet/status.h"

namespace ringlet {

struct CsvDialect {
  char separator = ',';  // ' ': any number of blanks and tabs
  char decimal = '.';
  // Outside quotes it begins a comment, up to the end of the line. Zero if
  // there are no comments.
  char comment = '\0';
};

using Fields = std::vector<std::string_view>;

// The records of a file, as in RFC 4180: a field in quotes may have separators,
// line ends, and quotes written twice. A line ends by LF, CR LF or CR. Blank
// lines are skipped. A first line "sep=;" sets the separator, as in Excel.
class RecordReader {
 public:
  // Reads up to the next `bytes` of the file. *got = 0 only at its end.
  using Read = std::function<Status(void* data, size_t bytes, size_t* got)>;

  RecordReader(InputFile* file, const CsvDialect& dialect);
  // Reads `piece` bytes at a time. `begin` is the offset of the file from which
  // on `read` reads: 0, or the begin() of a record.
  RecordReader(const std::string& path, Read read, const CsvDialect& dialect,
               size_t piece, int64_t begin);

  // Reads the fields of the next record, without their quotes, and without
  // blanks around them. The fields are valid until the next call. *has_record
  // is false at the end of the file.
  Status Next(Fields* fields, bool* has_record);
  // The line on which the record starts; the first is 1.
  int64_t line() const { return line_; }
  // The offset at which another reader must begin to read this record: the
  // offset of the record, or of the LF before the record.
  int64_t begin() const { return begin_; }
  // Returns the dialect, with the separator of a first line "sep=;" if there is
  // one.
  const CsvDialect& dialect() const { return dialect_; }

  // Reads *separator from a first line such as "sep=;". False for other lines.
  static bool ReadSeparator(std::string_view line, char* separator);
  // Splits a single line into its fields. Fields in quotes keep blanks at their
  // ends. kCorruption if a quote is not closed, or text follows a closing
  // quote.
  static Status SplitLine(const std::string& line, const CsvDialect& dialect,
                          std::vector<std::string>* fields);
  static Status SplitLine(const std::string& line, char separator,
                          std::vector<std::string>* fields) {
    CsvDialect dialect;
    dialect.separator = separator;
    return SplitLine(line, dialect, fields);
  }

 private:
  bool blanks() const { return dialect_.separator == ' '; }
  Status AppendLine(bool* has_line);
  Status CheckFirstLine();
  bool IsSkipped() const;
  Status Split();
  size_t SkipBlanks(size_t at) const;
  void ParsePlain(size_t begin, size_t* at);
  Status ParseQuoted(size_t begin, size_t* at);

  const std::string path_;
  const Read read_;  // null for SplitLine, which reads no file
  CsvDialect dialect_;
  const size_t piece_;
  int64_t begin_, read_to_;  // offsets of the record and of the buffer's end
  std::string buffer_;
  size_t at_ = 0;       // the index of the buffer's next byte
  size_t newline_ = 0;  // the next LF at or after at_, or the buffer's end
  bool skip_newline_ = false;  // the previous line ended by CR
  int64_t lines_ = 0, line_ = 0;
  std::string record_;
  // The ranges of the fields in record_.
  std::vector<std::pair<size_t, size_t>> ranges_;
};

// At most 40 bytes of a field, for a message.
std::string BeginningOf(std::string_view field);
// The field without blanks at its ends.
std::string_view Trim(std::string_view field);
// `text` as one field, in quotes if it needs them. A line end in it becomes a
// blank.
std::string CsvField(const std::string& text, char separator);
// Parses all of `field` as a float32. A float64 that is too small for float32
// becomes zero. False if it is not a number, or too large.
bool ParseNumber(std::string_view field, float* value, char decimal = '.');
// *value becomes 1 for true, True and TRUE, and 0 for false, False and FALSE.
// Returns false for any other field.
bool ParseBool(std::string_view field, float* value);
// True for a number of any size, even one outside the range of float32.
bool IsNumber(std::string_view field, char decimal = '.');

}  // namespace ringlet

#endif  // RINGLET_IO_READERS_TABLES_CSV_RECORDS_H_
