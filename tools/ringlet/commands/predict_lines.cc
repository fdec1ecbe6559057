// Line n of the output answers line n of the input, so that the reader can
// match them. It needs the memory of one line, of at most kLongest bytes.

#include "predict_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "../command_line.h"
#include "../data/prediction_text.h"
#include "io/readers/tables/csv_lines.h"
#include "io/readers/tables/text.h"

namespace ringlet {
namespace {

constexpr char kName[] = "stdin";

// The lines of stdin, which end by LF, CR LF or CR. After a CR nothing is
// waited for: the next byte may come late.
class LineReader {
 public:
  // *has_line is false at the end of stdin. A line that is too long is cut to
  // one byte more than CsvLines takes.
  Status Next(std::string* line, bool* has_line) {
    line->clear();
    for (*has_line = false;;) {
      if (at_ == end_) RINGLET_RETURN_IF_ERROR(Fill());
      if (end_ == 0) return Status();
      if (skip_newline_ && buffer_[at_] == '\n') ++at_;
      skip_newline_ = false;
      if (at_ == end_) continue;
      *has_line = true;
      const std::string_view rest(buffer_ + at_, end_ - at_);
      const size_t count = std::min(rest.find_first_of("\r\n"), rest.size());
      const size_t room = CsvLines::kLongest + 1 - line->size();
      line->append(rest.substr(0, std::min(count, room)));
      at_ += count;
      if (at_ == end_) continue;
      skip_newline_ = buffer_[at_++] == '\r';
      return Status();
    }
  }

 private:
  Status Fill() {
    at_ = end_ = 0;
    ssize_t got = 0;
    // Another program may have made its end of the pipe nonblocking, and with
    // it this end.
    pollfd readable = {STDIN_FILENO, POLLIN, 0};
    do {
      poll(&readable, 1, /*timeout=*/-1);
      got = read(STDIN_FILENO, buffer_, sizeof(buffer_));
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got < 0) return OsError(errno, "%s: reading", kName);
    end_ = static_cast<size_t>(got);
    return Status();
  }

  char buffer_[16 << 10];
  size_t at_ = 0, end_ = 0;  // places in the buffer
  bool skip_newline_ = false;
};

class Answers {
 public:
  // `encoder` reads a text, and is null if the values are numbers.
  Answers(Model* model, const DataConfig& data, const TextEncoder* encoder)
      : model_(model),
        scale_(data.scale.value_or(Scale())),
        lines_(kName, encoder == nullptr
                          ? data.table
                          : TextRowOptions(data.text.column, data.table)),
        encoder_(encoder),
        text_(*model) {}

  // *answer becomes the row for a line, without its end.
  Status Next(const std::string& line, std::string* answer) {
    answer->clear();
    CsvLines::Kind kind = CsvLines::Kind::kBlank;
    RINGLET_RETURN_IF_ERROR(lines_.Next(line, &kind));
    if (kind == CsvLines::Kind::kNames) *answer = text_.HeaderLine();
    if (kind != CsvLines::Kind::kExample) return Status();
    const Result<std::vector<float>> values =
        model_->Predict(Dataset(Example()).Map(scale_).Batch(1));
    RINGLET_RETURN_IF_ERROR(
        values.status().Annotate("%s: line %" PRId64, kName, lines_.line()));
    *answer = text_.RowLine(SplitOutputs(*model_, values.value()), 0);
    return Status();
  }

 private:
  std::shared_ptr<Source> Example() {
    if (encoder_ == nullptr) return lines_.source();
    numbers_.clear();
    encoder_->Append(lines_.text(), &numbers_);
    const ExampleSpec x = {DType::kInt32,
                           {static_cast<int64_t>(numbers_.size())}};
    return MemorySource(x, numbers_.data(), {DType::kFloat32, {0}}, nullptr, 1);
  }

  Model* const model_;
  const Scale scale_;
  CsvLines lines_;
  const TextEncoder* const encoder_;
  std::vector<int32_t> numbers_;
  const PredictionText text_;
};

Status AnswerLines(Model* model, const DataConfig& data, Status* first_wrong) {
  std::optional<TextEncoder> encoder;
  if (!data.text.empty()) {
    TextVectorization text;
    RINGLET_RETURN_IF_ERROR(
        OpenVocabulary("", data.text, &text).Annotate("text"));
    encoder.emplace(text);
  }
  Answers answers(model, data, encoder ? &*encoder : nullptr);
  LineReader reader;
  std::string line, answer;
  for (bool has_line = true;;) {
    RINGLET_RETURN_IF_ERROR(reader.Next(&line, &has_line));
    if (!has_line) return Status();
    const Status status = answers.Next(line, &answer);
    if (!status.ok()) {
      Notice("error: %s", status.message());
      if (first_wrong->ok()) *first_wrong = status;
    }
    answer += '\n';
    std::fwrite(answer.data(), 1, answer.size(), stdout);
    // The program's end reports it.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) return Status();
  }
}

}  // namespace

int PredictLines(const std::string& model_path, const ModelAndDataFlags& use) {
  std::unique_ptr<Model> model;
  DataConfig data;
  Status wrong;
  Status status = use.OpenForLines(model_path, &model, &data);
  if (status.ok()) status = AnswerLines(model.get(), data, &wrong);
  return status.ok() ? ExitCodeOf(wrong) : InputExitCode(status);
}

}  // namespace ringlet
