// A job whose workers are threads of one process, which leave it and come back:
// the elastic Collective without a network.

#ifndef RINGLET_TESTS_SUPPORT_ELASTIC_COLLECTIVE_H_
#define RINGLET_TESTS_SUPPORT_ELASTIC_COLLECTIVE_H_

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "thread_collective.h"

namespace ringlet {

// Who is there, and who has met.
class ElasticJob {
 public:
  struct View {
    std::vector<int> members;
    std::shared_ptr<ThreadJob> job;
  };

  void Arrive(int worker) {
    std::lock_guard<std::mutex> lock(mutex_);
    alive_.insert(worker);
  }
  // Dies, or is done.
  void Leave(int worker) {
    std::lock_guard<std::mutex> lock(mutex_);
    alive_.erase(worker);
    if (view_.job != nullptr && Has(view_.members, worker)) view_.job->Leave();
    MeetIfAll();
  }
  // Waits until all who are alive are here.
  View Meet(int worker) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (view_.job != nullptr && Has(view_.members, worker)) view_.job->Leave();
    waiting_.insert(worker);
    const int round = round_;
    MeetIfAll();
    met_.wait(lock, [&] { return round_ != round; });
    return view_;
  }
  bool visited() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](int w) { return !Has(view_.members, w); });
  }

 private:
  static bool Has(const std::vector<int>& members, int worker) {
    return std::find(members.begin(), members.end(), worker) != members.end();
  }
  void MeetIfAll() {
    if (waiting_.empty() || waiting_ != alive_) return;
    view_.members.assign(waiting_.begin(), waiting_.end());
    view_.job =
        std::make_shared<ThreadJob>(static_cast<int>(view_.members.size()));
    waiting_.clear();
    ++round_;
    met_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable met_;
  std::set<int> alive_, waiting_;
  View view_;
  int round_ = 0;
};

// Of one life of a worker, which ends by its call number `dies`.
class ElasticCollective final : public Collective {
 public:
  ElasticCollective(ElasticJob* job, int worker, int dies)
      : job_(job), worker_(worker), calls_left_(dies) {
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
    if (broadcasts_ == last_broadcast_) DieInNextCall();
    return Call([&] { return in_->Broadcast(data, bytes, root); });
  }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    if (bytes == last_bytes_) DieInNextCall();
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
    if (!dead_) in_->Abort(reason);
  }
  Status Reform() override {
    if (dead_) return Error(Code::kInternal, "dead");
    if (next_job_ != nullptr && next_job_ != job_) {
      next_job_->Arrive(worker_);
      job_->Leave(worker_);
      job_ = next_job_;
    }
    next_job_ = nullptr;
    view_ = job_->Meet(worker_);
    rank_ = static_cast<int>(
        std::find(view_.members.begin(), view_.members.end(), worker_) -
        view_.members.begin());
    in_ = std::make_unique<ThreadCollective>(view_.job.get(), rank_);
    ++reforms_;
    if (dies_after_reform_ > 0) calls_left_ = dies_after_reform_;
    return Status();
  }
  bool elastic() const override { return true; }
  bool visited() const override { return job_->visited(); }
  int worker() const override { return worker_; }

  void DieInNextCall() { calls_left_ = 1; }
  // The next call finds the others lost; this worker meets those of `job`,
  // which may be those.
  void MoveTo(ElasticJob* job) { next_job_ = job; }
  // The next gather of so many bytes of a rank ends on all others, and here
  // where one of them does anything else than a barrier.
  void LoseGather(size_t bytes) { lost_bytes_ = bytes; }
  // The next such gather is the call that it dies in.
  void DieInGather(size_t bytes) { last_bytes_ = bytes; }
  // … or the one before which it moves to `job`.
  void MoveInGather(size_t bytes, ElasticJob* job) {
    move_bytes_ = bytes;
    move_to_ = job;
  }
  // The `count`th broadcast from now, over all meetings, is.
  void DieInBroadcast(int count) { last_broadcast_ = broadcasts_ + count; }
  void DieAfterReform(int calls) { dies_after_reform_ = calls; }
  bool dead() const { return dead_; }
  int reforms() const { return reforms_; }
  int broadcasts() const { return broadcasts_; }
  size_t broadcast_bytes() const { return broadcast_bytes_; }

 private:
  template <typename What>
  Status Call(const What& what) {
    if (dead_ || --calls_left_ == 0) {
      dead_ = true;  // to the others once the process has ended
      return Error(Code::kInternal, "dead");
    }
    if (next_job_ != nullptr) return PeerLost(-1, "cut off");
    return what();
  }

  ElasticJob* job_;
  ElasticJob* next_job_ = nullptr;
  const int worker_;
  int calls_left_, dies_after_reform_ = 0;
  bool dead_ = false;
  size_t lost_bytes_ = 0, last_bytes_ = 0, move_bytes_ = 0,
         broadcast_bytes_ = 0;
  ElasticJob* move_to_ = nullptr;
  int broadcasts_ = 0, last_broadcast_ = 0;
  int rank_ = 0, reforms_ = 0;
  ElasticJob::View view_;
  std::unique_ptr<ThreadCollective> in_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_ELASTIC_COLLECTIVE_H_
