// The classes of kStyle are used by chart.cc and the pages too: s0 to s5 and t0
// to t5 are the colours of strokes and texts, b0 to b6 the colours of bars, n
// is a cell with a number, cm a confusion matrix.

#include "html.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "core/base/number_text.h"
#include "core/base/text.h"
#include "ringlet/model.h"

namespace ringlet {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// The bytes of the UTF-8 character at the start of `text`; 0 if there is none.
size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes > text.size()) return 0;
  return ValidUtf8Bytes(std::string(text.substr(0, bytes))) == bytes ? bytes
                                                                     : 0;
}

// U+202A to U+202E, U+2066 to U+2069, and the two that XML does not have.
bool IsRefused(std::string_view character) {
  if (character.size() != 3) return false;
  const std::string_view two = character.substr(0, 2);
  const auto last = static_cast<unsigned char>(character[2]);
  return (two == "\xE2\x80" && last >= 0xAA && last <= 0xAE) ||
         (two == "\xE2\x81" && last >= 0xA6 && last <= 0xA9) ||
         (two == "\xEF\xBF" && last >= 0xBE);
}

const char* EntityOf(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

// Colours: the palette of Okabe and Ito, which colour-blind readers tell apart,
// with a darker orange on white and lighter ones on black.
constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d8dee4;
--card:#f6f8fa;--c0:#0072b2;--c1:#c2410c;--c2:#00795a;--c3:#a2487f;--c4:#8a6d00;
--c5:#4b5563;--b0:#0072b2;--b1:#e69f00;--b2:#56b4e9;--b3:#009e73;--b4:#cc79a7;--b5:#f0e442;--b6:#9a9a9a;
--on1:#000;--heat:0,114,178}
@media (prefers-color-scheme:dark){:root{--bg:#0f1419;--fg:#e6edf3;--dim:#9aa7b4;
--line:#30363d;--card:#171d24;--c0:#56b4e9;--c1:#ff9e5e;--c2:#33d1a0;--c3:#e79ac6;
--c4:#e8d44d;--c5:#b6c2cf;--heat:86,180,233}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1120px;padding:16px 20px 48px;background:var(--bg);
color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:24px;margin:8px 0 2px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 8px;border-bottom:1px solid var(--line);padding-bottom:4px;
overflow-wrap:anywhere}
h3{font-size:15px;margin:20px 0 6px}
p{margin:6px 0}
.dim,figcaption span,.key{color:var(--dim)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(148px,1fr));gap:10px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 12px;min-width:0}
.tile div{color:var(--dim);font-size:13px;overflow-wrap:anywhere}
.tile b{display:block;font-size:18px;line-height:1.3;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:8px 28px}
figure{margin:14px 0 6px;min-width:0}
figcaption{font-weight:600;overflow-wrap:anywhere}
figcaption span{font-weight:400;font-size:13px}
.key{display:none;list-style:none;margin:2px 0;padding:0;font-size:13px}
.key li{display:inline-block;margin-right:14px;overflow-wrap:anywhere}
.key li::before{content:"";display:inline-block;width:18px;border-top:3px solid;margin-right:5px;
vertical-align:4px}
.key li.d::before{border-top-style:dashed}
.plot{position:relative;height:230px;margin:20px 118px 0 52px}
.plot.alone{margin-right:12px}
.plot svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible;display:block}
.plot path,.plot line{vector-effect:non-scaling-stroke;fill:none}
.gr{stroke:var(--line);stroke-width:1}
.ln{stroke-width:1.9;stroke-linejoin:round;stroke-linecap:round}
.ln.d{stroke-dasharray:6 4;stroke-linecap:butt}
.ho rect{fill:transparent}
.ho rect:hover{fill:var(--dim);fill-opacity:.16}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}
.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
.t0{color:var(--c0)}.t1{color:var(--c1)}.t2{color:var(--c2)}.t3{color:var(--c3)}
.t4{color:var(--c4)}.t5{color:var(--c5)}
.plot span{position:absolute;font-size:12px;line-height:16px;white-space:nowrap;
font-variant-numeric:tabular-nums}
.y{right:calc(100% + 7px);transform:translateY(-50%);color:var(--dim)}
.x{top:calc(100% + 5px);transform:translateX(-50%);color:var(--dim)}
.e{left:calc(100% + 8px);transform:translateY(-50%);width:112px;overflow:hidden;
text-overflow:ellipsis;font-weight:600}
.m{bottom:calc(100% + 1px);transform:translateX(-50%);font-weight:700;cursor:default}
.ml{stroke-width:1.2;stroke-dasharray:2 3}
.xl{margin:24px 118px 0 52px;text-align:center;font-size:12px;color:var(--dim)}
.xl.alone{margin-right:12px}
.fb{fill:var(--c0)}.dot{stroke:var(--c0);stroke-width:5;stroke-linecap:round;stroke-opacity:.45}
.ref{stroke:var(--c1);stroke-width:1.8;stroke-dasharray:6 4}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;margin:8px 0;font-variant-numeric:tabular-nums}
th,td{padding:3px 8px;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
overflow-wrap:break-word;max-width:420px}
th{color:var(--dim);font-weight:600;vertical-align:bottom}
th:first-child,td:first-child{padding-left:0}
.n{text-align:right;white-space:nowrap}
.bar{display:flex;height:24px;border-radius:4px;overflow:hidden;background:var(--card);
border:1px solid var(--line)}
.bar i{font:600 12px/22px system-ui,sans-serif;overflow:hidden;white-space:nowrap;text-align:center;
min-width:0;color:#000}
.bar .b0{background:var(--b0);color:#fff}.bar .b1{background:var(--b1)}.bar .b2{background:var(--b2)}
.bar .b3{background:var(--b3)}.bar .b4{background:var(--b4)}.bar .b5{background:var(--b5)}
.bar .b6{background:var(--b6)}
.row{display:grid;grid-template-columns:minmax(70px,max-content) 1fr;gap:4px 12px;align-items:center;
margin:8px 0}
.sw{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px}
.sw.b0{background:var(--b0)}.sw.b1{background:var(--b1)}.sw.b2{background:var(--b2)}
.sw.b3{background:var(--b3)}.sw.b4{background:var(--b4)}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px;overflow-x:auto;
font:12px/1.45 ui-monospace,monospace}
details{margin:6px 0}summary{cursor:pointer;color:var(--dim);font-size:13.5px}
.cm td,.cm th{text-align:right;border:1px solid var(--bg);padding:3px 7px;max-width:120px}
.cm td{background:rgba(var(--heat),var(--a,0));min-width:40px}
.cm td.hi{color:#fff}.cm .right{outline:2px solid var(--dim);outline-offset:-2px}
@media (prefers-color-scheme:dark){.cm td.hi{color:#000}}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 10px;font-size:13px;
overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.card img{display:block;width:96px;height:96px;object-fit:contain;image-rendering:pixelated;
background:#7f7f7f22;margin-bottom:6px}
.bad{color:var(--c1);font-weight:600}
@media (max-width:640px){body{padding:10px 12px 40px;font-size:14.5px}.key{display:block}
.plot,.plot.alone{margin:20px 16px 0 50px;height:200px}.xl,.xl.alone{margin:24px 16px 0 50px}.e{display:none}
.x.o{display:none}th,td{padding:3px 7px}.tiles{grid-template-columns:1fr 1fr}.tile b{font-size:16px}
.row{grid-template-columns:1fr}.cm td,.cm th{padding:3px 4px}.cm td{min-width:30px}}
@media print{details{display:none}}
)";

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text.substr(at));
    const std::string_view character = text.substr(at, bytes);
    const auto lead = static_cast<unsigned char>(text[at]);
    const bool control = (lead < 0x20 && lead != '\n') || lead == 0x7F;
    const char* const entity = EntityOf(text[at]);
    if (bytes == 0 || control || IsRefused(character)) {
      out += kReplacement;
    } else if (entity != nullptr) {
      out += entity;
    } else {
      out += character;
    }
    at += std::max<size_t>(bytes, 1);
  }
  return out;
}

std::string Shortened(const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end) + "…";
}

std::string HtmlPage(const std::string& title, const std::string& body,
                     const std::string& head) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
         "'none'; style-src 'unsafe-inline'; img-src data:\"/>"
         "<meta name=\"viewport\" content=\"width=device-width, "
         "initial-scale=1\"/>"
         "<meta name=\"color-scheme\" content=\"light dark\"/>"
         "<meta name=\"generator\" content=\"ringlet " RINGLET_VERSION
         "\"/>\n" +
         head + "<title>" + EscapeHtml(title) + "</title><style>" + kStyle +
         "</style></head>\n" + "<body>\n" + body + "</body></html>\n";
}

std::string TilesHtml(const std::vector<KeyFigure>& tiles) {
  std::string out = "<div class=\"tiles\">\n";
  for (const KeyFigure& tile : tiles) {
    out += "<div class=\"tile\"><div>" + EscapeHtml(tile.name) + "</div><b>" +
           EscapeHtml(tile.value) + "</b><div>" + EscapeHtml(tile.note) +
           "</div></div>\n";
  }
  return out + "</div>\n";
}

HtmlTable::HtmlTable(const std::vector<std::string>& headings,
                     size_t first_number)
    : first_number_(first_number) {
  for (size_t i = 0; i < headings.size(); ++i) {
    head_ += (i >= first_number_ ? "<th class=\"n\">" : "<th>") +
             EscapeHtml(headings[i]) + "</th>";
  }
}

void HtmlTable::Row(const std::vector<std::string>& cells) {
  ++rows_;
  body_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    body_ +=
        (i >= first_number_ ? "<td class=\"n\">" : "<td>") + cells[i] + "</td>";
  }
  body_ += "</tr>\n";
}

std::string HtmlTable::Html(const std::string& caption) const {
  return (caption.empty() ? "" : "<p class=\"dim\">" + caption + "</p>\n") +
         "<div class=\"scroll\"><table>" + "<thead><tr>" + head_ +
         "</tr></thead><tbody>\n" + body_ + "</tbody></table></div>\n";
}

std::string BarHtml(const std::vector<BarPart>& parts, double whole) {
  std::string out = "<div class=\"bar\">";
  for (const BarPart& part : parts) {
    const double percent = whole > 0 ? 100 * part.value / whole : 0;
    if (!(percent >= 0.05)) continue;
    const std::string name = EscapeHtml(part.name);
    out += "<i class=\"b" + std::to_string(part.color) +
           "\" style=\"width:" + PrintedText(percent, 'f', 2) + "%\" title=\"" +
           name + " " + EscapeHtml(part.text) + "\">" +
           (percent >= 12 ? name : "") + "</i>";
  }
  return out + "</div>";
}

std::string ExactText(double value) {
  return std::isnan(value) ? "nan" : ShortestText(value);
}

std::string ShortText(double value) {
  return std::isnan(value) ? "nan" : PrintedText(value, 'g', 4);
}

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || std::fabs(seconds) > 1e15) return "?";
  const double size = std::fabs(seconds);
  if (size == 0) return "0 s";
  if (size < 0.001) return PrintedText(seconds * 1e6, 'f', 0) + " µs";
  if (size < 1) return PrintedText(seconds * 1e3, 'g', 3) + " ms";
  if (size < 99.95) return PrintedText(seconds, 'f', 1) + " s";
  const auto whole = static_cast<int64_t>(std::llround(size));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  const auto two = [](int64_t n) {
    return (n < 10 ? "0" : "") + std::to_string(n);
  };
  const std::string text =
      days > 0    ? std::to_string(days) + " d " + two(hours % 24) + " h"
      : hours > 0 ? std::to_string(hours) + " h " + two(minutes % 60) + " min"
                  : std::to_string(minutes) + " min " + two(whole % 60) + " s";
  return seconds < 0 ? "−" + text : text;
}

std::string PercentText(double part, double whole) {
  if (!(whole > 0)) return "–";
  return PrintedText(100 * part / whole, 'f', 1) + " %";
}

std::string DateText(double seconds) {
  if (!(seconds >= 0 && seconds < 253402300800.0)) return "?";  // year 10000
  const auto time = static_cast<time_t>(seconds);
  struct tm utc;
  if (gmtime_r(&time, &utc) == nullptr) return "?";
  char text[80];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02d %02d:%02d:%02d UTC",
                utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                utc.tm_min, utc.tm_sec);
  return text;
}

}  // namespace ringlet
