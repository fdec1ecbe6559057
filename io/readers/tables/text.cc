// The rows and labels are as in a CsvDataset with the column of text as its
// only value, which is not used.

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "../../../core/base/guarded.h"
#include "../../../core/base/text.h"
#include "../../../core/data/dataset_parts.h"
#include "../../files/atomic_file.h"
#include "../../files/file_system.h"
#include "csv_reader.h"
#include "ringlet/dataset.h"
#include "ringlet/readers.h"
#include "text.h"

namespace ringlet {
namespace {

constexpr int kFirstToken = 2;  // it follows padding and unknown token
constexpr char kUnknown[] = "[UNK]";
constexpr char kUtf8Bom[] = "\xef\xbb\xbf";
constexpr size_t kMaxVocabularyBytes = 64 << 20;

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// True for the ASCII characters that Keras's expression strips.
bool IsPunctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string Standardized(const TextVectorization& v, const std::string& text) {
  using Standardize = TextVectorization::Standardize;
  const bool both = v.standardize == Standardize::kLowerAndStripPunctuation;
  std::string result;
  for (char c : text) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper && (both || v.standardize == Standardize::kLower)) {
      c = static_cast<char>(c - 'A' + 'a');
    }
    const bool strips = both || v.standardize == Standardize::kStripPunctuation;
    if (!strips || !IsPunctuation(c)) result += c;
  }
  return result;
}

// The bytes of the first character; a byte that begins none is a character by
// itself.
size_t CharacterBytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const int lead = byte(0);
  const size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 1;
  }
  return bytes;
}

std::vector<std::string> TokensOf(const TextVectorization& v,
                                  const std::string& raw) {
  const std::string text = Standardized(v, raw);
  std::vector<std::string> tokens;
  if (v.split == TextVectorization::Split::kCharacter) {
    for (size_t at = 0; at < text.size();) {
      tokens.push_back(text.substr(at, CharacterBytes(text, at)));
      at += tokens.back().size();
    }
    return tokens;
  }
  bool inside = false;
  for (const char c : text) {
    if (!IsSpace(c) && !inside) tokens.emplace_back();
    inside = !IsSpace(c);
    if (inside) tokens.back() += c;
  }
  return tokens;
}

// Opens the rows of a table, and calls take(text) for each.
Dataset OpenColumn(const std::string& path, const std::string& column,
                   const CsvOptions& options, const CsvPass& pass) {
  CsvOptions table = TextRowOptions(column, options);
  table.in_memory = true;
  table.values = options.for_prediction ? 1 : 0;
  return OpenCsv(path, table, &pass);
}

// A label that is not needed may be absent. If it is there, it shows whether
// the first line is a row or has the columns' names, as in training.
Dataset OpenRows(const std::string& path, const std::string& column,
                 const CsvOptions& options, const CsvPass& pass) {
  bool has_rows = false;
  const CsvPass first = {pass.is_silent, [&](std::string_view text) {
                           has_rows = true;
                           pass.take(text);
                         }};
  Dataset rows = OpenColumn(path, column, options, first);
  if (!options.for_prediction || has_rows ||
      rows.Batch(1).status().code() != Code::kInvalidArgument) {
    return rows;
  }
  CsvOptions unlabelled = options;
  unlabelled.has_label = false;
  unlabelled.label_name.clear();
  unlabelled.label_column.reset();
  unlabelled.weight_name.clear();
  unlabelled.weight_column.reset();
  return OpenColumn(path, column, unlabelled, pass);
}

// The tokens of texts, with numbers from 0 in the order of their first use.
class TokenCounts {
 public:
  int32_t Add(const std::string& token) {
    const auto next = static_cast<int32_t>(counts_.size());
    const int32_t number = numbers_.emplace(token, next).first->second;
    if (number == next) counts_.push_back(0);
    ++counts_[static_cast<size_t>(number)];
    return number;
  }

  // Sets text->vocabulary. `path` and `column` are for the error.
  Status Learn(const std::string& path, const std::string& column,
               TextVectorization* text) const {
    std::vector<std::pair<int64_t, std::string>> order;
    for (const auto& [token, number] : numbers_) {
      if (token == kUnknown) continue;
      order.emplace_back(counts_[static_cast<size_t>(number)], token);
    }
    std::sort(order.rbegin(), order.rend());
    const auto max_tokens = text->max_tokens == 0
                                ? order.size()
                                : static_cast<size_t>(std::max<int64_t>(
                                      text->max_tokens - kFirstToken, 0));
    if (order.size() > max_tokens) order.resize(max_tokens);
    text->vocabulary.clear();
    for (auto& [count, token] : order) {
      text->vocabulary.push_back(std::move(token));
    }
    return text->vocabulary.empty()
               ? InvalidArgument(
                     "%s: column '%s' has no token for a vocabulary",
                     path.c_str(), column.c_str())
               : Status();
  }

  // Replaces these numbers + kFirstToken by the vocabulary's numbers.
  void Renumber(const TextEncoder& encoder,
                std::vector<int32_t>* numbers) const {
    std::vector<int32_t> changed(counts_.size());
    for (const auto& [token, number] : numbers_) {
      changed[static_cast<size_t>(number)] = encoder.Find(token);
    }
    for (int32_t& n : *numbers) {
      if (n >= kFirstToken) n = changed[static_cast<size_t>(n - kFirstToken)];
    }
  }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<int64_t> counts_;
};

// Opens the rows with the numbers of their texts. The same pass over the file
// learns the vocabulary.
Dataset OpenAndLearn(const std::string& path, const std::string& column,
                     const CsvOptions& options, TextVectorization* text,
                     std::vector<int32_t>* numbers) {
  const auto length = static_cast<size_t>(text->output_sequence_length);
  TokenCounts counts;
  CsvPass pass;
  pass.take = [&](std::string_view text_value) {
    std::vector<int32_t> row;
    for (const std::string& token : TokensOf(*text, std::string(text_value))) {
      row.push_back(counts.Add(token) + kFirstToken);
    }
    row.resize(length);
    numbers->insert(numbers->end(), row.begin(), row.end());
  };
  Dataset rows = OpenRows(path, column, options, pass);
  if (!rows.Batch(1).status().ok()) return rows;
  const Status learned = counts.Learn(path, column, text);
  if (!learned.ok()) return Dataset(learned);
  counts.Renumber(TextEncoder(*text), numbers);
  return rows;
}

class TextSource final : public Source {
 public:
  TextSource(std::shared_ptr<Source> rows, const TextVectorization& text,
             std::vector<int32_t> numbers)
      : rows_(std::move(rows)), text_(text), numbers_(std::move(numbers)) {}
  int64_t size() const override { return rows_->size(); }
  ExampleSpec x() const override {
    return {DType::kInt32, {text_.output_sequence_length}};
  }
  ExampleSpec y() const override { return rows_->y(); }
  std::string name() const override { return rows_->name(); }
  DataDescription Description() const override {
    DataDescription text = rows_->Description();
    text.encoding = {};
    text.text = text_;
    return text;
  }
  Status Read(const int64_t* index, int count, void* x, void* y) override {
    const auto length = static_cast<size_t>(text_.output_sequence_length);
    for (int i = 0; i < count && x != nullptr; ++i) {
      std::memcpy(static_cast<int32_t*>(x) + static_cast<size_t>(i) * length,
                  numbers_.data() + static_cast<size_t>(index[i]) * length,
                  length * sizeof(int32_t));
    }
    return y == nullptr ? Status()
                        : CallRead(rows_.get(), index, count, nullptr, y);
  }

 private:
  const std::shared_ptr<Source> rows_;
  const TextVectorization text_;
  const std::vector<int32_t> numbers_;
};

// Returns the lines of a text, without the empty lines at its end.
std::vector<std::string> LinesOf(const std::string& text, bool strips) {
  std::vector<std::string> lines;
  for (size_t at = text.rfind(kUtf8Bom, 0) == 0 ? sizeof(kUtf8Bom) - 1 : 0;
       at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    size_t first = at, last = end;
    if (last > first && text[last - 1] == '\r') --last;
    while (strips && first < last && IsSpace(text[first])) ++first;
    while (strips && last > first && IsSpace(text[last - 1])) --last;
    lines.push_back(text.substr(first, last - first));
    at = end + 1;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// `before` is the number of lines before the first token.
Status CheckTokens(const std::string& path,
                   const std::vector<std::string>& tokens, size_t before) {
  std::set<std::string_view> seen;
  for (const std::string& token : tokens) {
    ++before;
    const bool cr = token.find('\r') != std::string::npos;
    const bool first = seen.insert(token).second;
    if (!token.empty() && token != kUnknown && !cr && first) continue;
    return Corruption(
        "%s: line %zu: the token '%s' is %s; a vocabulary has each token once "
        "on a line of its own, and may begin with an empty line and [UNK]",
        path.c_str(), before, BeginningOf(token).c_str(),
        token.empty()       ? "empty"
        : token == kUnknown ? "not at the beginning"
        : cr                ? "several, with CR (\\r) alone between them"
                            : "there twice");
  }
  return Status();
}

// The first tokens of Keras: "[UNK]", or "" and "[UNK]".
size_t CountSpecial(const std::vector<std::string>& tokens) {
  if (!tokens.empty() && tokens[0] == kUnknown) return 1;
  const bool has_padding =
      tokens.size() >= 2 && tokens[0].empty() && tokens[1] == kUnknown;
  return has_padding ? 2 : 0;
}

}  // namespace

CsvOptions TextRowOptions(const std::string& column,
                          const CsvOptions& options) {
  CsvOptions rows = options;
  rows.values = 0;
  rows.take = {column};
  rows.drop.clear();
  rows.categorical.clear();
  rows.encoding.emplace();
  TableEncoding::Column& any = rows.encoding->columns[0];
  any.categories = {""};
  any.one_hot = false;
  any.has_unknown_category = true;
  return rows;
}

TextEncoder::TextEncoder(const TextVectorization& vectorization)
    : vectorization_(vectorization) {
  for (const std::string& token : vectorization.vocabulary) {
    known_.emplace(token, kFirstToken + static_cast<int32_t>(known_.size()));
  }
}

void TextEncoder::Append(const std::string& text,
                         std::vector<int32_t>* numbers) const {
  std::vector<std::string> tokens = TokensOf(vectorization_, text);
  tokens.resize(static_cast<size_t>(vectorization_.output_sequence_length));
  for (const std::string& token : tokens) {
    numbers->push_back(token.empty() ? 0 : Find(token));
  }
}

int32_t TextEncoder::Find(const std::string& token) const {
  const auto found = known_.find(token);
  return found == known_.end() ? 1 : found->second;
}

std::vector<int32_t> Vectorize(const TextVectorization& vectorization,
                               const std::string& text) {
  std::vector<int32_t> numbers;
  TextEncoder(vectorization).Append(text, &numbers);
  return numbers;
}

Status ReadVocabulary(const std::string& path, TextVectorization* text) {
  std::string all;
  RINGLET_RETURN_IF_ERROR(
      ReadWholeFile(PosixFiles(), path, kMaxVocabularyBytes, &all));
  if (all.find('\0') != std::string::npos) {
    return Corruption(
        "%s: has bytes that are NUL, as UTF-16 has; save it as UTF-8",
        path.c_str());
  }
  // With kCharacter a blank may be a token.
  const bool strips = text->split != TextVectorization::Split::kCharacter;
  std::vector<std::string> tokens = LinesOf(all, strips);
  const size_t special = CountSpecial(tokens);
  tokens.erase(tokens.begin(), tokens.begin() + special);
  RINGLET_RETURN_IF_ERROR(CheckTokens(path, tokens, special));
  const auto size = static_cast<int64_t>(tokens.size()) + kFirstToken;
  if (text->max_tokens > 0 && size > text->max_tokens) {
    return InvalidArgument("%s: %" PRId64
                           " tokens with padding and [UNK], but max_tokens is "
                           "%" PRId64,
                           path.c_str(), size, text->max_tokens);
  }
  text->vocabulary = std::move(tokens);
  return Status();
}

Status LearnVocabulary(const std::string& path, const std::string& column,
                       const CsvOptions& options, TextVectorization* text) {
  CsvOptions table = options;
  table.for_prediction = true;
  TokenCounts counts;
  CsvPass pass;
  pass.is_silent = true;  // TextDataset prints the notes
  pass.take = [&](std::string_view text_value) {
    for (const std::string& token : TokensOf(*text, std::string(text_value))) {
      counts.Add(token);
    }
  };
  RINGLET_RETURN_IF_ERROR(
      OpenRows(path, column, table, pass).Batch(1).status());
  return counts.Learn(path, column, text);
}

Dataset OpenTexts(const std::string& path, const std::string& column,
                  const CsvOptions& options, std::vector<std::string>* texts) {
  CsvPass pass;
  pass.take = [&](std::string_view text) { texts->emplace_back(text); };
  return OpenRows(path, column, options, pass);
}

Dataset TextDataset(const std::string& path, const std::string& column,
                    const TextVectorization& text, const CsvOptions& options) {
  if (text.output_sequence_length < 1) {
    return Dataset(
        InvalidArgument("output_sequence_length: is %" PRId64
                        "; give the numbers of an example, at least 1",
                        text.output_sequence_length));
  }
  TextVectorization known = text;
  std::vector<int32_t> numbers;
  Dataset rows;
  if (text.vocabulary.empty()) {
    rows = OpenAndLearn(path, column, options, &known, &numbers);
  } else {
    const TextEncoder encoder(text);
    CsvPass pass;
    pass.take = [&](std::string_view text_value) {
      encoder.Append(std::string(text_value), &numbers);
    };
    rows = OpenRows(path, column, options, pass);
  }
  if (!rows.Batch(1).status().ok()) return rows;
  const Dataset dataset(
      std::make_shared<TextSource>(rows.source(), known, std::move(numbers)));
  const auto& weights = rows.parts().weights;
  return weights == nullptr ? dataset : dataset.SampleWeight(*weights);
}

}  // namespace ringlet
