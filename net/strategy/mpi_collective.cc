// Requests complete in the order of their start, and Wait takes them from the
// front. The first error stays in status_, and no MPI call follows it: a rank
// that continues could wait for a rank that has stopped.

#include "mpi_collective.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>

#include "ringlet/status.h"

namespace ringlet {
namespace {

// Elements of one MPI call: its counts are int.
constexpr size_t kMaxElements = size_t{1} << 30;

Status MpiStatus(int error, const char* operation) {
  if (error == MPI_SUCCESS) return Status();
  char text[MPI_MAX_ERROR_STRING] = "";
  int bytes = 0;
  MPI_Error_string(error, text, &bytes);
  return Error(Code::kUnavailable, "MPI's %s failed: %s", operation, text);
}

#define RETURN_IF_MPI_ERROR(call, operation) \
  RINGLET_RETURN_IF_ERROR(MpiStatus((call), (operation)))

class MpiCollective final : public Collective {
 public:
  explicit MpiCollective(const MpiOptions& options) : options_(options) {}
  ~MpiCollective() override {
    if (ours_ && (!opened_ || (status_.ok() && WaitForAll()))) MPI_Finalize();
  }

  Status Open() {
    int is_initialized = 0;
    int is_finalized = 0;
    MPI_Initialized(&is_initialized);
    MPI_Finalized(&is_finalized);
    if (is_finalized) {
      return InvalidArgument(
          "MPI was finalized in this process and cannot begin again: make one "
          "strategy and keep it");
    }
    if (!is_initialized) {
      int level = 0;
      RETURN_IF_MPI_ERROR(
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
          "start");
      ours_ = true;
    }
    for (MPI_Comm* comm : {&comm_, &farewell_}) {
      RETURN_IF_MPI_ERROR(MPI_Comm_dup(MPI_COMM_WORLD, comm), "communicator");
      MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    }
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    opened_ = true;
    return Status();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  size_t bucket_bytes() const override {
    return static_cast<size_t>(std::max<int64_t>(options_.bytes_per_pack, 4));
  }

  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    return StartSum(MPI_FLOAT, data, count, ticket);
  }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return StartSum(MPI_UINT32_T, data, count, ticket);
  }

  Status Wait(Ticket ticket) override {
    if (ticket > issued_) {
      return InvalidArgument(
          "a wait for operation %llu, none beyond %llu was started",
          static_cast<unsigned long long>(ticket),
          static_cast<unsigned long long>(issued_));
    }
    while (status_.ok() && !under_way_.empty() &&
           under_way_.front().ticket <= ticket) {
      status_ =
          MpiStatus(MPI_Wait(&under_way_.front().request, MPI_STATUS_IGNORE),
                    "all-reduce");
      under_way_.pop_front();
    }
    return status_;
  }

  Status Broadcast(void* data, size_t bytes, int root) override {
    if (root < 0 || root >= size_) {
      return InvalidArgument("a broadcast from rank %d; the ranks are 0 to %d",
                             root, size_ - 1);
    }
    for (size_t at = 0; at < bytes && status_.ok(); at += kMaxElements) {
      const int n = static_cast<int>(std::min(bytes - at, kMaxElements));
      status_ = MpiStatus(
          MPI_Bcast(static_cast<char*>(data) + at, n, MPI_BYTE, root, comm_),
          "broadcast");
    }
    return status_;
  }

  Status AllGather(const void* in, size_t bytes, void* out) override {
    if (bytes > kMaxElements) {
      return InvalidArgument("an all-gather of %zu bytes over MPI: at most %zu",
                             bytes, kMaxElements);
    }
    if (!status_.ok() || bytes == 0) return status_;
    std::memmove(static_cast<char*>(out) + bytes * rank_, in, bytes);
    status_ = MpiStatus(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out,
                                      static_cast<int>(bytes), MPI_BYTE, comm_),
                        "all-gather");
    return status_;
  }

  Status Barrier() override {
    if (status_.ok()) status_ = MpiStatus(MPI_Barrier(comm_), "barrier");
    return status_;
  }

  // Waits inside MPI cannot be ended with a reason, and a rank in Barrier would
  // never return. So the launcher ends all ranks, with this rank's message.
  void Abort(const Status& reason) override {
    if (!status_.ok()) return;
    status_ =
        reason.ok() ? Error(Code::kInternal, "it gave no reason") : reason;
    if (size_ == 1) return;
    Notice("error: rank %d failed: %s", rank_, status_.message());
    MPI_Abort(MPI_COMM_WORLD, ExitCodeOf(status_));
  }

  Status Reform() override {
    return InvalidArgument(
        "a job over MPI cannot be formed again: mpirun ends all of it with a "
        "rank; start it again, it continues from the backup");
  }

 private:
  struct Request {
    Ticket ticket;
    MPI_Request request;
  };

  // The numbers have four bytes each.
  Status StartSum(MPI_Datatype type, void* data, size_t count, Ticket* ticket) {
    RINGLET_RETURN_IF_ERROR(status_);
    for (size_t at = 0; at < count && status_.ok(); at += kMaxElements) {
      const int n = static_cast<int>(std::min(count - at, kMaxElements));
      Request request = {issued_ + 1, MPI_REQUEST_NULL};
      status_ = MpiStatus(
          MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data) + 4 * at, n,
                         type, MPI_SUM, comm_, &request.request),
          "all-reduce");
      if (status_.ok()) under_way_.push_back(request);
    }
    *ticket = ++issued_;
    return status_;
  }

  // Returns true if all ranks reach this call within the timeout. MPI_Finalize
  // would wait for them without one.
  bool WaitForAll() {
    Wait(issued_).IgnoreError();  // the spans will be freed
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(farewell_, &request) != MPI_SUCCESS) return false;
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(
                                        options_.leave_timeout_seconds);
    for (;;) {
      int done = 0;
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return false;
      }
      if (done) return true;
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const MpiOptions options_;
  bool ours_ = false;  // this object finalizes MPI
  bool opened_ = false;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Comm farewell_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  Ticket issued_ = 0;
  std::deque<Request> under_way_;
  Status status_;  // the error of the first failed call, which all later calls
                   // return
};

}  // namespace

Status OpenMpi(const MpiOptions& options, std::unique_ptr<Collective>* out) {
  auto collective = std::make_unique<MpiCollective>(options);
  RINGLET_RETURN_IF_ERROR(collective->Open());
  *out = std::move(collective);
  return Status();
}

}  // namespace ringlet
