// LineSplitter: cuts bytes that arrive in pieces into lines.
//
// Pure.

#ifndef RINGLET_NET_LAUNCH_LINE_SPLITTER_H_
#define RINGLET_NET_LAUNCH_LINE_SPLITTER_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ringlet {

class LineSplitter {
 public:
  // Appends the lines that these bytes end, without their line feeds. A line of
  // more than `max_bytes` bytes is cut in pieces.
  void Feed(const char* data, size_t bytes, size_t max_bytes,
            std::vector<std::string>* lines);
  // Ends the line that has begun.
  void End(std::vector<std::string>* lines);

 private:
  void Emit(std::vector<std::string>* lines);
  std::string line_;  // begun
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_LINE_SPLITTER_H_
