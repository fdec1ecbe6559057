#include "resolvers.h"

#include "../../core/base/text.h"

namespace ringlet {

namespace {

Status MalformedListError(const std::string& text, const char* fault) {
  return InvalidArgument("host list %s: %s", Quoted(text).c_str(), fault);
}

// Appends to *names each of `heads` followed by each of the numbers of
// `ranges`, "01-03,7": as many digits as the range's first number has.
Status ExpandRanges(const std::string& ranges,
                    const std::vector<std::string>& heads,
                    std::vector<std::string>* names) {
  std::vector<std::string> numbers;
  for (const std::string& range : SplitAt(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string low = range.substr(0, dash);
    const std::string high =
        dash == std::string::npos ? low : range.substr(dash + 1);
    const int first = ParseDigits(low, 999999999);
    const int last = ParseDigits(high, 999999999);
    if (first < 0 || last < first) {
      return MalformedListError(
          "[" + ranges + "]",
          "brackets hold numbers and rising ranges, as in "
          "node[01-03,7]");
    }
    if (last - first >= kMaxWorldSize) {
      return MalformedListError("[" + ranges + "]", "more than 1024 hosts");
    }
    for (int i = first; i <= last; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < low.size()) {
        digits.insert(0, low.size() - digits.size(), '0');
      }
      numbers.push_back(digits);
    }
    if (numbers.size() * heads.size() > kMaxWorldSize) {
      return MalformedListError("[" + ranges + "]", "more than 1024 hosts");
    }
  }
  for (const std::string& head : heads) {
    for (const std::string& number : numbers) names->push_back(head + number);
  }
  return Status();
}

// Expands one item, which has no comma outside brackets.
Status ExpandItem(const std::string& item, std::vector<std::string>* names) {
  const size_t literal = item.find(']');
  if (item[0] == '[' && item.find(':') < literal) {  // an IPv6 address
    names->push_back(item);
    return Status();
  }
  *names = {""};
  size_t at = 0;
  while (at < item.size()) {
    const size_t open = item.find_first_of("[]", at);
    for (std::string& name : *names) name += item.substr(at, open - at);
    if (open == std::string::npos) break;
    const size_t close = item.find_first_of("[]", open + 1);
    if (item[open] == ']' || close == std::string::npos || item[close] == '[') {
      return MalformedListError(item, "its brackets do not pair");
    }
    std::vector<std::string> longer;
    RINGLET_RETURN_IF_ERROR(
        ExpandRanges(item.substr(open + 1, close - open - 1), *names, &longer));
    names->swap(longer);
    at = close + 1;
  }
  return Status();
}

}  // namespace

Status ExpandHostList(const std::string& text,
                      std::vector<std::string>* items) {
  constexpr size_t kMaxBytes = 1 << 20;
  if (text.empty()) return InvalidArgument("the host list is empty");
  if (text.size() > kMaxBytes)
    return MalformedListError(text, "longer than 1 MiB");
  items->clear();
  size_t start = 0;
  while (start <= text.size()) {
    bool inside = false;
    size_t end = start;
    for (; end < text.size() && (inside || text[end] != ','); ++end) {
      if (text[end] == '[') inside = true;
      if (text[end] == ']') inside = false;
    }
    const std::string item = text.substr(start, end - start);
    start = end + 1;
    if (item.empty()) {
      return MalformedListError(text,
                                "a host is empty: is there a comma too many?");
    }
    std::vector<std::string> names;
    RINGLET_RETURN_IF_ERROR(ExpandItem(item, &names));
    items->insert(items->end(), names.begin(), names.end());
    if (items->size() > kMaxWorldSize) {
      return MalformedListError(text, "more than 1024 hosts");
    }
  }
  return Status();
}

}  // namespace ringlet
