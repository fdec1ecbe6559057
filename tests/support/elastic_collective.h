// An elastic Collective without a network. The workers are threads of one
// process, which leave the job and join it again.

#ifndef RINGLET_TESTS_SUPPORT_ELASTIC_COLLECTIVE_H_
#define RINGLET_TESTS_SUPPORT_ELASTIC_COLLECTIVE_H_

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "thread_collective.h"
#include "threads.h"

namespace ringlet {

constexpr int kNever = 1 << 30;  // more calls or steps than any process makes

// The running workers, and the present view.
class ElasticJob {
 public:
  // If `waits`, the job is not elastic: the other workers wait for a worker
  // that has ended.
  explicit ElasticJob(bool waits = false) : waits_(waits) {}
  bool waits() const { return waits_; }

  struct View {
    std::vector<int> members;
    std::shared_ptr<ThreadJob> job;
  };

  void Arrive(int worker) {
    std::lock_guard<std::mutex> lock(mutex_);
    running_.insert(worker);
  }
  // The worker's process has ended, or has finished its work.
  void Leave(int worker) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!waits_) running_.erase(worker);
    if (view_.job != nullptr && Has(view_.members, worker)) view_.job->Leave();
    FormViewIfAll();
  }
  // Forms a view. Waits until all running workers have called it.
  View FormView(int worker) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (view_.job != nullptr && Has(view_.members, worker)) view_.job->Leave();
    waiting_.insert(worker);
    const int round = round_;
    FormViewIfAll();
    formed_.wait(lock, [&] { return round_ != round; });
    return view_;
  }
  bool has_joiner() {
    if (waits_) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](int w) { return !Has(view_.members, w); });
  }

 private:
  static bool Has(const std::vector<int>& members, int worker) {
    return std::find(members.begin(), members.end(), worker) != members.end();
  }
  void FormViewIfAll() {
    if (waiting_.empty() || waiting_ != running_) return;
    view_.members.assign(waiting_.begin(), waiting_.end());
    view_.job =
        std::make_shared<ThreadJob>(static_cast<int>(view_.members.size()));
    waiting_.clear();
    ++round_;
    formed_.notify_all();
  }

  const bool waits_;
  std::mutex mutex_;
  std::condition_variable formed_;
  std::set<int> running_, waiting_;
  View view_;
  int round_ = 0;
};

// The Collective of one process of a worker. The process ends in its call
// number `last_call`.
class ElasticCollective final : public Collective {
 public:
  ElasticCollective(ElasticJob* job, int worker, int last_call = kNever)
      : job_(job), worker_(worker), calls_left_(last_call) {
    Reform().IgnoreError();
  }
  ~ElasticCollective() override { job_->Leave(worker_); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(view_.members.size()); }
  size_t bucket_bytes() const override { return 256; }
  Status StartAllReduce(float*, size_t, Ticket*) override {
    return Error(Code::kInternal, "sums of floats are not elastic");
  }
  Status StartAllReduceInts(int32_t* data, size_t count,
                            Ticket* ticket) override {
    return Call([&] { return in_->StartAllReduceInts(data, count, ticket); });
  }
  Status Wait(Ticket ticket) override {
    return Call([&] { return in_->Wait(ticket); });
  }
  Status Broadcast(void* data, size_t bytes, int root) override {
    ++broadcasts_;
    broadcast_bytes_ += bytes;
    if (broadcasts_ == last_broadcast_) EndInNextCall();
    return Call([&] { return in_->Broadcast(data, bytes, root); });
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    if (bytes == last_bytes_) EndInNextCall();
    if (bytes == move_bytes_) MoveTo(move_to_), move_bytes_ = 0;
    return Call([&] {
      const Status status = in_->AllGather(in, bytes, out);
      if (bytes != lost_bytes_ || !status.ok()) return status;
      lost_bytes_ = 0;
      return in_->Barrier();
    });
  }
  Status Barrier() override {
    return Call([&] { return in_->Barrier(); });
  }
  void Abort(const Status& reason) override {
    if (!ended_) in_->Abort(reason);
  }
  Status Reform() override {
    if (ended_) return Error(Code::kInternal, "the process has ended");
    if (next_job_ != nullptr && next_job_ != job_) {
      next_job_->Arrive(worker_);
      job_->Leave(worker_);
      job_ = next_job_;
    }
    next_job_ = nullptr;
    view_ = job_->FormView(worker_);
    rank_ = static_cast<int>(
        std::find(view_.members.begin(), view_.members.end(), worker_) -
        view_.members.begin());
    in_ = std::make_unique<ThreadCollective>(view_.job.get(), rank_);
    ++reforms_;
    if (ends_after_reform_ > 0) calls_left_ = ends_after_reform_;
    return Status();
  }
  bool elastic() const override { return !job_->waits(); }
  bool has_joiner() const override { return job_->has_joiner(); }
  int worker() const override { return worker_; }

  // The process ends in the next call after `others` more calls.
  void EndInNextCall(int others = 0) { calls_left_ = 1 + others; }
  // The next call returns kPeerLost, and Reform forms a view with the workers
  // of `job`. `job` may be the present one.
  void MoveTo(ElasticJob* job) { next_job_ = job; }
  // The next gather of `bytes` a rank succeeds on the other ranks. Here it
  // fails when one of them forms a new view.
  void LoseGather(size_t bytes) { lost_bytes_ = bytes; }
  // The process ends in the next gather of `bytes` a rank.
  void EndInGather(size_t bytes) { last_bytes_ = bytes; }
  // The process moves to `job` before the next gather of `bytes` a rank.
  void MoveInGather(size_t bytes, ElasticJob* job) {
    move_bytes_ = bytes;
    move_to_ = job;
  }
  // The process ends in the `count`th broadcast from now, in any view.
  void EndInBroadcast(int count) { last_broadcast_ = broadcasts_ + count; }
  // The process ends in the given call after each Reform.
  void EndAfterReform(int calls) { ends_after_reform_ = calls; }
  bool ended() const { return ended_; }
  int reforms() const { return reforms_; }
  int broadcasts() const { return broadcasts_; }
  size_t broadcast_bytes() const { return broadcast_bytes_; }

 private:
  template <typename What>
  Status Call(const What& what) {
    if (ended_ || --calls_left_ == 0) {
      ended_ = true;  // the others notice when the object is destroyed
      return Error(Code::kInternal, "the process has ended");
    }
    if (next_job_ != nullptr) return PeerLost(-1, "cut off");
    return what();
  }

  ElasticJob* job_;
  ElasticJob* next_job_ = nullptr;
  const int worker_;
  int calls_left_, ends_after_reform_ = 0;
  bool ended_ = false;
  size_t lost_bytes_ = 0, last_bytes_ = 0, move_bytes_ = 0,
         broadcast_bytes_ = 0;
  ElasticJob* move_to_ = nullptr;
  int broadcasts_ = 0, last_broadcast_ = 0;
  int rank_ = 0, reforms_ = 0;
  ElasticJob::View view_;
  std::unique_ptr<ThreadCollective> in_;
};

// Calls body(w) for each worker w of a job, each on a thread. All workers
// arrive before the first begins, so none begins alone.
template <typename Body>
void RunWorkers(ElasticJob* job, int workers, const Body& body) {
  for (int w = 0; w < workers; ++w) job->Arrive(w);
  RunThreads(workers, body);
}

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_ELASTIC_COLLECTIVE_H_
