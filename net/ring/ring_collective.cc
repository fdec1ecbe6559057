#include "ring_collective.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "../../core/base/byte_order.h"
#include "../../core/base/message.h"
#include "loop.h"
#include "name_lookup.h"
#include "own_addresses.h"
#include "ring_node.h"
#include "socket_address.h"
#include "withdrawal.h"

namespace ringlet {
namespace {

Status CheckOptions(const RingOptions& options, std::vector<Address>* hosts) {
  const int size = static_cast<int>(options.addresses.size());
  if (size < 1 || size > 1024) {
    return InvalidArgument("a ring of %d workers: 1 to 1024 are possible",
                           size);
  }
  if (options.rank < 0 || options.rank >= size) {
    return InvalidArgument("rank %d in a ring of %d workers", options.rank,
                           size);
  }
  if (options.job.size() > kMaxJobBytes) {
    return InvalidArgument("the job's name has %zu bytes, at most %zu",
                           options.job.size(), kMaxJobBytes);
  }
  if (!(options.timeout_seconds >= 0.1 && options.timeout_seconds <= 3600)) {
    return InvalidArgument("a timeout of %g s: 0.1 to 3600 are possible",
                           options.timeout_seconds);
  }
  if (!(options.start_timeout_seconds >= 0 &&
        options.start_timeout_seconds <= 1e6)) {
    return InvalidArgument("a start timeout of %g s: 0 to 10^6 are possible",
                           options.start_timeout_seconds);
  }
  if (!(options.patience_seconds >= 0)) {
    return InvalidArgument(
        "a patience of %g s: give 0, which is for ever, or more",
        options.patience_seconds);
  }
  if (options.wire_dtype != WireDtype::kFloat32 &&
      options.implementation == RingImplementation::kTree) {
    return InvalidArgument(
        "wire dtype %s with implementation TREE, whose vectors are short and "
        "travel as float32: use AUTO or RING",
        WireDtypeName(options.wire_dtype));
  }
  hosts->resize(size);
  for (int r = 0; r < size; ++r) {
    const Status parsed = ParseAddress(options.addresses[r], &(*hosts)[r]);
    if (!parsed.ok()) return parsed.Annotate("rank %d", r);
    const Status findable = NameLookup::Check((*hosts)[r]);
    if (!findable.ok()) return findable.Annotate("rank %d", r);
    for (int before = 0; before < r; ++before) {
      if (options.addresses[before] == options.addresses[r]) {
        return InvalidArgument("ranks %d and %d have the same address %s",
                               before, r, options.addresses[r].c_str());
      }
    }
  }
  return Status();
}

class Ring final : public RingCollective, private RingNode::Owner {
 public:
  explicit Ring(const RingOptions& options) : options_(options) {}

  ~Ring() override { Close(); }

  Status Reform() override {
    if (size() > 1) ++generation_;
    End();
    submitted_.clear();
    taken_.clear();
    swapped_.clear();
    issued_ = completed_ = 0;
    running_ = closed_ = told_ = false;
    failure_ = Status();
    const Status status = Begin();
    if (status.ok()) return status;
    // Nothing is left but the reason why no call can succeed.
    End();
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = status;
    return status;
  }

  Status Begin() {
    std::vector<Address> hosts;
    RINGLET_RETURN_IF_ERROR(CheckOptions(options_, &hosts));
    if (size() == 1) return Status();
    std::vector<sockaddr_storage> own;
    std::string warning;
    RINGLET_RETURN_IF_ERROR(FindOwnAddresses(hosts, options_.rank,
                                             options_.start_timeout_seconds,
                                             &own, &warning, Say));
    if (!warning.empty()) Say("warning: " + warning);
    RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
    RingNode::Owner* owner = this;
    node_ =
        std::make_unique<RingNode>(options_, std::move(hosts), std::move(own),
                                   generation_, loop_.get(), owner);
    loop_->Post([this] { node_->Begin(); });
    std::unique_lock<std::mutex> lock(mutex_);
    while (!running_ && failure_.ok()) {
      changed_.wait(lock, [this] {
        return running_ || !failure_.ok() || !notices_.empty();
      });
      SayNotices(&lock);
    }
    if (!failure_.ok()) return failure_;
    lock.unlock();
    // So that nobody can be done before all have met.
    return Barrier();
  }

  // After an error of Begin: whether another rank has told of it. Ends the
  // ring.
  bool ToldByOther() {
    if (node_ == nullptr) return false;
    Close();
    return node_->told_by_other();
  }

  int rank() const override { return options_.rank; }
  int size() const override {
    return static_cast<int>(options_.addresses.size());
  }
  std::string address(int rank) const override {
    return options_.addresses[rank];
  }
  size_t bucket_bytes() const override {
    return static_cast<size_t>(std::max<int64_t>(options_.bytes_per_pack, 4));
  }

  Status StartAllReduce(float* data, size_t count, Ticket* ticket) override {
    if (count > static_cast<size_t>(INT64_MAX) / sizeof(float)) {
      return InvalidArgument("an all-reduce of %zu floats", count);
    }
    // Numbers travel little-endian: where the host's are not, they are summed
    // in that order, in place, until Wait.
    if (kBigEndian) SwapToLittle(data, sizeof(float), count);
    RINGLET_RETURN_IF_ERROR(
        Submit({FrameType::kAllReduce, reinterpret_cast<uint8_t*>(data),
                count * sizeof(float), 0},
               ticket));
    if (kBigEndian) swapped_.push_back({*ticket, data, count});
    return Status();
  }

  Status Wait(Ticket ticket) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (ticket > issued_) {
      return InvalidArgument(
          "a wait for operation %llu, none beyond %llu was "
          "started",
          static_cast<unsigned long long>(ticket),
          static_cast<unsigned long long>(issued_));
    }
    // The node's heartbeats and timers end this: by completion, or by the loss
    // of whoever it waits for. One that lives and does not come: see below.
    const Steady::time_point begin = Steady::now();
    if (!WaitUntil(&lock, begin, options_.timeout_seconds, ticket)) {
      WaitOn(&lock, begin, ticket);
    }
    SayNotices(&lock);
    if (completed_ < ticket) return failure_;
    lock.unlock();
    while (!swapped_.empty() && swapped_.front().ticket <= ticket) {
      SwapToLittle(swapped_.front().data, sizeof(float),
                   swapped_.front().count);
      swapped_.pop_front();
    }
    return Status();
  }

  Status Broadcast(void* data, size_t bytes, int root) override {
    if (root < 0 || root >= size()) {
      return InvalidArgument("a broadcast from rank %d of %d", root, size());
    }
    return Run(
        {FrameType::kBroadcast, static_cast<uint8_t*>(data), bytes, root});
  }

  Status AllGather(const void* in, size_t bytes, void* out) override {
    Ticket ticket = 0;
    RINGLET_RETURN_IF_ERROR(StartAllGather(in, bytes, out, &ticket));
    return Wait(ticket);
  }

  Status StartAllGather(const void* in, size_t bytes, void* out,
                        Ticket* ticket) override {
    uint8_t* to = static_cast<uint8_t*>(out);
    if (bytes > 0) std::memmove(to + bytes * rank(), in, bytes);
    return Submit({FrameType::kAllGather, to, bytes, 0}, ticket);
  }

  Status Barrier() override {
    return Run({FrameType::kBarrier, nullptr, 0, 0});
  }

  void Abort(const Status& reason) override {
    const Status why =
        reason.ok() ? Error(Code::kInternal, "it gave no reason") : reason;
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_.ok()) return;
    if (node_ == nullptr) {  // a ring of one
      failure_ = why;
      return;
    }
    lock.unlock();
    loop_->Post([this, why] { node_->Abort(why); });
    lock.lock();
    changed_.wait(lock, [this] { return !failure_.ok(); });
    // This may be the last that the process does, so the frames should be with
    // the kernel; not for ever, where some other rank does not read.
    changed_.wait_for(
        lock, std::chrono::duration<double>(options_.timeout_seconds / 4),
        [this] { return told_; });
  }

  void SetStep(uint64_t step) override {
    if (node_ == nullptr) return;
    std::lock_guard<std::mutex> lock(mutex_);
    step_ = step;
  }

 private:
  using Steady = std::chrono::steady_clock;
  static constexpr size_t kMostNotices = 32;  // that nobody has said yet

  // Until `seconds` after `begin`; false where the ticket's operation is then
  // still under way.
  bool WaitUntil(std::unique_lock<std::mutex>* lock, Steady::time_point begin,
                 double seconds, Ticket ticket) {
    const auto ended = [&] { return completed_ >= ticket || !failure_.ok(); };
    const double patience = options_.patience_seconds;
    if (patience > 0) seconds = std::min(seconds, patience);
    const std::chrono::duration<double> time(seconds);
    return changed_.wait_until(
        *lock, begin + std::chrono::duration_cast<Steady::duration>(time),
        ended);
  }

  // Goes on waiting, and says so; gives up in the end. The lock is not held
  // while it speaks: whoever reads stderr may be slow.
  void WaitOn(std::unique_lock<std::mutex>* lock, Steady::time_point begin,
              Ticket ticket) {
    const double patience = options_.patience_seconds;
    Reminder reminder(options_.timeout_seconds);
    bool said = false;
    const auto seconds = [&] {
      return std::chrono::duration<double>(Steady::now() - begin).count();
    };
    do {
      loop_->Post([this] {
        const Waiting now = node_->WaitsFor();
        Tell([&] { waiting_ = now, asked_ = false; });
      });
      asked_ = true;
      changed_.wait(*lock, [this] { return !asked_; });
      if (completed_ >= ticket || !failure_.ok()) break;
      const std::string text =
          WaitText(waiting_, seconds(), options_.addresses);
      lock->unlock();
      if (patience > 0 && seconds() >= patience) {
        Abort(Error(Code::kDeadlineExceeded, "%s; its patience of %g s is over",
                    text.c_str(), patience));
      } else {
        Say("warning: " + text);
        said = true;
        reminder.Said();
      }
      lock->lock();
    } while (!WaitUntil(lock, begin, reminder.next(), ticket));
    if (!said || completed_ < ticket) return;
    lock->unlock();
    char text[96];
    std::snprintf(text, sizeof(text), "rank %d has waited %.*f s, and goes on",
                  rank(), seconds() < 10 ? 1 : 0, seconds());
    Say(text);
    lock->lock();
  }

  // The lock is not held while it speaks.
  void SayNotices(std::unique_lock<std::mutex>* lock) {
    while (!notices_.empty()) {
      const std::string line = std::move(notices_.front());
      notices_.pop_front();
      lock->unlock();
      Say(line);
      lock->lock();
    }
  }

  static void Say(const std::string& text) { Notice("%s", text.c_str()); }

  void End() {
    Close();
    // Whose thread has ended.
    if (node_ != nullptr && node_->generation() >= generation_) {
      generation_ = node_->generation() + 1;
    }
    node_.reset();
  }

  // Says goodbye, and joins the loop's thread: nobody else is left then.
  void Close() {
    if (node_ == nullptr || loop_ == nullptr) return;
    loop_->Post([this] { node_->Leave(); });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return closed_; });  // bounded by the timeout
    lock.unlock();
    loop_.reset();
  }

  Status Submit(const Call& call, Ticket* ticket) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    *ticket = ++issued_;
    if (node_ == nullptr) {  // a ring of one: all is done already
      RINGLET_CHECK(size() == 1);
      completed_ = issued_;
      return Status();
    }
    submitted_.push_back(call);
    const bool first = submitted_.size() == 1;
    lock.unlock();
    if (first) loop_->Post([this] { TakeSubmitted(); });
    return Status();
  }

  Status Run(const Call& call) {
    Ticket ticket = 0;
    RINGLET_RETURN_IF_ERROR(Submit(call, &ticket));
    return Wait(ticket);
  }

  // On the loop's thread, as all that follows.
  void TakeSubmitted() {
    uint64_t step;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      taken_.swap(submitted_);
      step = step_;
    }
    node_->SetStep(step);
    node_->Start(taken_.data(), taken_.size());
    taken_.clear();
  }

  void OnRunning() override {
    Tell([this] { running_ = true; });
  }
  void OnCompleted(uint64_t sequence) override {
    Tell([&] { completed_ = sequence; });
  }
  void OnFailed(const Status& status) override {
    Tell([&] { failure_ = status; });
  }
  void OnTold() override {
    Tell([this] { told_ = true; });
  }
  void OnClosed() override {
    Tell([this] { closed_ = true; });
  }
  void OnNotice(const std::string& line) override {
    Tell([&] {
      if (notices_.size() < kMostNotices) notices_.push_back(line);
    });
  }
  // Wakes whoever waits once the lock is free: woken before, he would only
  // wait for the lock. This lives until the loop's thread was joined.
  template <typename Change>
  void Tell(const Change& change) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  const RingOptions options_;
  uint32_t generation_ = 1;  // proposed to the others
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<RingNode> node_;
  std::vector<Call> taken_;  // of the loop's thread

  struct Swapped {
    Ticket ticket;
    float* data;
    size_t count;
  };
  std::deque<Swapped> swapped_;  // of the training thread, oldest first

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Call> submitted_;
  uint64_t issued_ = 0;
  uint64_t completed_ = 0;
  uint64_t step_ = 0;
  Status failure_;
  bool running_ = false;
  bool closed_ = false;
  bool told_ = false;
  std::deque<std::string> notices_;  // for the training thread to say
  Waiting waiting_;                  // as of the last question
  bool asked_ = false;               // and no answer yet
};

// A node that only withdraws, on a loop of its own.
class Withdrawing final : public Withdrawal, private RingNode::Owner {
 public:
  Withdrawing(const RingOptions& options, const Status& why)
      : options_(options), why_(why) {}

  ~Withdrawing() override {
    if (loop_ == nullptr) return;
    std::unique_lock<std::mutex> lock(mutex_);
    // The node's own deadline, or a little later.
    const std::chrono::duration<double> most(2 * kWithdrawSeconds);
    changed_.wait_for(lock, most, [this] { return told_; });
    lock.unlock();
    loop_->Post([this] { node_->Leave(); });
    lock.lock();
    changed_.wait(lock, [this] { return closed_; });
    lock.unlock();
    loop_.reset();
  }

  // The node needs to listen only for what it can find at once.
  Status Start() {
    std::vector<Address> hosts;
    RINGLET_RETURN_IF_ERROR(CheckOptions(options_, &hosts));
    std::vector<sockaddr_storage> own(1);
    if (!NumericAddress(hosts[options_.rank], &own[0]).ok()) own.clear();
    RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
    RingNode::Owner* owner = this;
    node_ = std::make_unique<RingNode>(options_, std::move(hosts),
                                       std::move(own), 1, loop_.get(), owner);
    loop_->Post([this] { node_->BeginWithdrawal(why_); });
    return Status();
  }

 private:
  void OnRunning() override {}
  void OnCompleted(uint64_t) override {}
  void OnFailed(const Status&) override {}
  void OnNotice(const std::string&) override {}
  void OnTold() override { Tell(&told_); }
  void OnClosed() override { Tell(&closed_); }
  void Tell(bool* what) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      *what = true;
    }
    changed_.notify_all();
  }

  const RingOptions options_;
  const Status why_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<RingNode> node_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool told_ = false;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<Withdrawal> Withdrawal::Begin(const RingOptions& options,
                                              const Status& why) {
  if (options.addresses.size() < 2) return nullptr;
  RingOptions telling;  // whatever is wrong with the others
  telling.addresses = options.addresses;
  telling.rank = options.rank;
  if (options.job.size() <= kMaxJobBytes) {
    telling.job = options.job;
  } else {
    telling.job.clear();
  }
  telling.local_sockets = false;  // nobody vouches for who answers there
  telling.start_timeout_seconds = kWithdrawSeconds;
  auto withdrawal = std::make_unique<Withdrawing>(telling, why);
  if (!withdrawal->Start().ok()) return nullptr;
  return withdrawal;
}

Status OpenRing(const RingOptions& options, std::unique_ptr<Collective>* out,
                std::unique_ptr<Withdrawal>* withdrawal) {
  auto ring = std::make_unique<Ring>(options);
  const Status status = ring->Begin();
  if (status.ok()) {
    *out = std::move(ring);
    return status;
  }
  const bool others_news = ring->ToldByOther();
  ring.reset();
  if (IsPermanent(status) && !others_news) {
    *withdrawal = Withdrawal::Begin(options, status);
  }
  return status;
}

Status RingCollective::Open(const RingOptions& options,
                            std::unique_ptr<Collective>* out) {
  std::unique_ptr<RingCollective> ring;
  RINGLET_RETURN_IF_ERROR(Open(options, &ring));
  *out = std::move(ring);
  return Status();
}

Status RingCollective::Open(const RingOptions& options,
                            std::unique_ptr<RingCollective>* out) {
  auto ring = std::make_unique<Ring>(options);
  RINGLET_RETURN_IF_ERROR(ring->Begin());
  *out = std::move(ring);
  return Status();
}

}  // namespace ringlet
