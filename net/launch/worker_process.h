// WorkerProcess: one run of the command, from its start until its output has
// ended.
//
// On the loop's thread; pinned. Its owner deletes it in OnEnded, the call of
// its last handle's close callback, and not before.

#ifndef RINGLET_NET_LAUNCH_WORKER_PROCESS_H_
#define RINGLET_NET_LAUNCH_WORKER_PROCESS_H_

#include <sys/types.h>
#include <uv.h>

#include <string>
#include <vector>

#include "console.h"
#include "guard.h"
#include "launcher.h"
#include "line_splitter.h"
#include "ringlet/status.h"

namespace ringlet {

class WorkerProcess {
 public:
  // The runs of one job share it; it outlives them.
  struct Shared {
    class Owner {
     public:
      virtual void OnExit(int index, int code) = 0;  // output may follow
      virtual void OnEnded(int index) = 0;           // the last call

     protected:
      ~Owner() = default;
    };
    Owner* owner;
    const LaunchOptions* options;
    std::string key;   // "RINGLET_LAUNCHER_KEY=KEY", or ""
    int done_fd = -1;  // the descriptor for ReportDone; -1 if not used
    uv_loop_t loop;
    Console* console;
    Guard guard;
    char buffer[64 * 1024];  // the buffer of each read in turn
  };

  WorkerProcess(Shared* shared, int index) : shared_(shared), index_(index) {}
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // OnEnded follows in any case, later. `variable` is its "TF_CONFIG=…".
  Status Start(const std::string& variable);
  // Sends a signal to the whole group, or closes a remote worker's stdin; does
  // nothing once the worker has ended.
  void Signal(int signal);
  // Sets whether its output of this kind (0 stdout, 1 stderr) is read.
  void Read(int stream, bool enabled);
  // Closes the pipes, although a process keeps their other ends open.
  void CloseStreams();

  pid_t pid() const { return pid_; }  // 0 once it has ended
  // The exit code, once the worker has ended. 127 or 126, as in a shell: it
  // could not be started.
  int code() const { return code_; }

 private:
  struct Stream {
    uv_pipe_t pipe;
    WorkerProcess* process;
    int index;  // 0 stdout, 1 stderr
    bool open = false;
    bool drawn = false;  // a terminal: the console has the unfinished line
    // The worker's end of that terminal. Some systems drop unread bytes when
    // the last writer closes, so this end stays open.
    int held = -1;
    LineSplitter lines;
  };

  uv_buf_t buffer() {
    return uv_buf_init(shared_->buffer, sizeof(shared_->buffer));
  }
  Status OpenStreams(int* write_ends);
  int OpenPipe(int index, uv_file* ends);
  // `stdin_end` is of a remote worker; -1 means /dev/null.
  Status Spawn(uv_file stdin_end, const int* write_ends,
               const std::string& variable);
  int Fork(const uv_process_options_t& options);
  void OnExit(int code);
  void OnRead(Stream* stream, const char* data, size_t bytes);
  void Emit(const Stream& stream, const std::vector<std::string>& lines);
  void ReadRest(Stream* stream);
  void EndLine(Stream* stream);
  void CloseStream(Stream* stream);
  void CloseProcess();
  void CloseInput();
  void OnHandleClosed();

  Shared* const shared_;
  const int index_;
  uv_process_t process_;
  Stream streams_[2];
  int input_ = -1;  // writes to a remote worker's stdin; -1 if there is none
  int open_handles_ = 0;
  pid_t pid_ = 0;  // nonzero from its start until it is reaped
  int code_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_LAUNCH_WORKER_PROCESS_H_
