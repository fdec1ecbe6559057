// Html: the pieces of a page that needs nothing but itself.
//
// Pure. A page has its style and its drawings in it, no program, and no
// reference to another file; its Content-Security-Policy forbids all requests.
// It is well-formed XML too, so that any XML parser reads its figures.

#ifndef RINGLET_TOOLS_RINGLET_REPORT_HTML_H_
#define RINGLET_TOOLS_RINGLET_REPORT_HTML_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet {

// `text`, which is not trusted, as the text of an element or of an attribute in
// double quotes. Control bytes and bytes that are not UTF-8 become U+FFFD, and
// so do the characters that reverse the direction of what follows.
std::string EscapeHtml(std::string_view text);

// `text` cut to `max_bytes` bytes, at a character, with "…" if it was longer.
std::string Shortened(const std::string& text, size_t max_bytes);

// The whole page of title `title` (not escaped) around `body`. `head` has more
// elements of the page's head.
std::string HtmlPage(const std::string& title, const std::string& body,
                     const std::string& head = "");

// A figure at the head of a page: "lowest val_loss", "0.0312", "epoch 7".
// Nothing is escaped yet.
struct KeyFigure {
  std::string name, value, note;
};
std::string TilesHtml(const std::vector<KeyFigure>& tiles);

// A table with a row of headings. Cells are HTML. Columns from `first_number`
// on have numbers, which are aligned at the right.
class HtmlTable {
 public:
  HtmlTable(const std::vector<std::string>& headings, size_t first_number);
  void Row(const std::vector<std::string>& cells);
  size_t rows() const { return rows_; }
  // `caption` is HTML; empty if there is none.
  std::string Html(const std::string& caption = "") const;

 private:
  const size_t first_number_;
  size_t rows_ = 0;
  std::string head_, body_;
};

// A bar of parts, with the name of each large part in it. Escapes the names.
constexpr size_t kBarColors = 7;
struct BarPart {
  std::string name;
  double value = 0;
  std::string text;  // its value with its unit
  int color = 0;     // below kBarColors
};
std::string BarHtml(const std::vector<BarPart>& parts, double whole);

// --- numbers -----------------------------------------------------------------

// All digits, as in the log: the shortest that read back equal.
std::string ExactText(double value);
// Four digits: "0.03125", "12.35", "1.235e+09".
std::string ShortText(double value);
// "95 ms", "12.3 s", "4 min 05 s", "3 h 12 min", "2 d 03 h".
std::string DurationText(double seconds);
std::string PercentText(double part, double whole);
// "2026-11-29 22:07:25 UTC" of seconds since 1970.
std::string DateText(double seconds);

}  // namespace ringlet

#endif  // RINGLET_TOOLS_RINGLET_REPORT_HTML_H_
