// EventFile: TensorBoard's event file, written.
//
// A file of records, each framed as TFRecord does and each one an Event in
// protobuf's encoding; the first names the version. docs/event_files.md has the
// format. The field numbers are from tensorboard's event.proto, summary.proto
// and histogram.proto.
//
//   EventFile file;
//   file.Open("logs/train");
//   file.AddScalar("loss", step, loss);
//   file.Close();
//
// Records wait in memory until Flush writes them. Bytes that could not be
// written stay in memory, and the next Flush continues after the last written
// byte. So a disk that was full for some time leaves no incomplete record. One
// thread uses a file at a time.

#ifndef RINGLET_IO_LOGS_EVENT_FILE_H_
#define RINGLET_IO_LOGS_EVENT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "../files/file_system.h"
#include "ringlet/collective.h"
#include "ringlet/status.h"

namespace ringlet {

class EventFile {
 public:
  // The histogram has the form of TensorBoard's own.
  static constexpr int kBuckets = 30;
  // Bytes that wait at most; records beyond them are refused.
  static constexpr size_t kMaxPending = size_t{1} << 20;

  EventFile() = default;
  ~EventFile();  // closes; Close returns errors
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // A new file in `folder`, which is created if it is missing:
  // events.out.tfevents.<seconds>.<host>.<pid>.<number>. `clock` and `files`
  // outlive this.
  Status Open(const std::string& folder, Clock* clock = Clock::System(),
              FileSystem* files = PosixFiles());
  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }

  // Adds an event with one value. Values are stored as float32, also infinite
  // ones and NaN.
  Status AddScalar(const std::string& tag, int64_t step, double value);
  // Adds the histogram of the finite numbers among `count` values, in kBuckets
  // of equal width from the smallest to the largest, or in one bucket if all
  // are equal.
  Status AddHistogram(const std::string& tag, int64_t step, const float* values,
                      int64_t count);

  Status Flush();
  Status Close();

 private:
  Status Create(const std::string& folder, FileSystem* files);
  Status AddSummary(const std::string& tag, int64_t step);
  Status AddRecord();
  Status WritePending();

  Clock* clock_ = nullptr;
  std::string path_;
  std::unique_ptr<File> file_;
  std::string pending_;  // framed records
  // Messages being built, here so that their memory is used again.
  std::string event_, summary_, value_, what_;
};

}  // namespace ringlet

#endif  // RINGLET_IO_LOGS_EVENT_FILE_H_
