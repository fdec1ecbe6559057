// Doctors on a simulated network: bytes arrive when the test says so.

#include "net/doctor/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../support/contains.h"
#include "../../support/fake_clock.h"
#include "core/base/crc32c.h"

namespace ringlet {
namespace {

using Reach = PeerReport::Reach;

// One end of a connection. Written bytes wait in `out` for the test.
struct End {
  std::deque<uint8_t> out;
  ByteStream::Owner* owner = nullptr;
  bool closed = false, ended = false;
};

class TestStream final : public ByteStream {
 public:
  explicit TestStream(std::shared_ptr<End> end) : end_(std::move(end)) {}
  void Start(Owner* owner) override { end_->owner = owner; }
  bool open() const override { return true; }
  int64_t Write(const Piece* pieces, int count) override {
    int64_t bytes = 0;
    for (int i = 0; i < count; ++i) {
      end_->out.insert(end_->out.end(), pieces[i].data,
                       pieces[i].data + pieces[i].bytes);
      bytes += static_cast<int64_t>(pieces[i].bytes);
    }
    return bytes;
  }
  bool blocked() const override { return false; }
  void StopReading() override {}
  void Close() override {
    end_->closed = true;
    end_->owner = nullptr;
    delete this;
  }
  bool authentic() const override { return false; }
  SharedMemory* shared_memory() override { return nullptr; }
  DescriptorSocket* descriptors() override { return nullptr; }
  bool is_local() const override { return false; }
  const std::string& remote() const override { return remote_; }
  const sockaddr_storage& remote_address() const override { return address_; }

 private:
  const std::shared_ptr<End> end_;
  const std::string remote_ = "10.0.0.9:1234";
  sockaddr_storage address_ = {};
};

// Doctors of one job; worker r's is doctors[r], null if it has not started.
class Job {
 public:
  explicit Job(int size) : doctors(static_cast<size_t>(size)) {
    for (int r = 0; r < size; ++r) transports_.push_back({this, r});
  }

  DoctorExchange::Options MakeOptions(int worker) const {
    DoctorExchange::Options options;
    options.self.worker = worker;
    options.self.size = static_cast<int>(doctors.size());
    options.self.job = "j";
    options.facts = "facts of " + std::to_string(worker);
    options.settings = std::string(20000, static_cast<char>('a' + worker));
    return options;
  }
  void Start(const DoctorExchange::Options& options) {
    const auto r = static_cast<size_t>(options.self.worker);
    DoctorExchange::Transport* const transport = &transports_[r];
    doctors[r] = std::make_unique<DoctorExchange>(options, transport, &clock);
  }
  void StartAll() {
    for (size_t r = 0; r < doctors.size(); ++r) {
      Start(MakeOptions(static_cast<int>(r)));
    }
  }
  // Runs for a time; stops if all are done.
  void Run(double seconds) {
    const int64_t end = clock.monotonic + static_cast<int64_t>(seconds * 1e9);
    while (clock.monotonic < end && !AllDone()) {
      clock.Advance(0.02);
      for (const auto& doctor : doctors) {
        if (doctor != nullptr) doctor->Tick(clock.monotonic);
      }
      while (Deliver()) {
      }
    }
  }
  bool AllDone() const {
    return std::all_of(doctors.begin(), doctors.end(), [](const auto& doctor) {
      return doctor != nullptr && doctor->done();
    });
  }
  // A connection from outside to a worker.
  std::shared_ptr<End> Dial(int to) {
    auto near = std::make_shared<End>(), remote = std::make_shared<End>();
    links_.push_back({near, remote, -1, to});
    doctors[static_cast<size_t>(to)]->OnAccepted(
        StreamPtr(new TestStream(remote)), clock.monotonic);
    strangers_.push_back(remote);
    return near;
  }
  // Connections of Dial that the doctor has open.
  int64_t strangers() const {
    return std::count_if(strangers_.begin(), strangers_.end(),
                         [](const auto& end) { return !end->closed; });
  }
  const PeerReport& Report(int worker, int peer) const {
    return doctors[static_cast<size_t>(worker)]
        ->reports()[static_cast<size_t>(peer)];
  }

  FakeClock clock;
  std::vector<std::unique_ptr<DoctorExchange>> doctors;
  bool (*drops)(int from, int to) = nullptr;  // connections
  size_t most_bytes = SIZE_MAX;  // the most from worker 0 to worker 1

 private:
  struct Link {
    std::shared_ptr<End> dialler, listener;
    int from, to;
    size_t moved = 0;
  };
  struct Transport final : DoctorExchange::Transport {
    Transport(Job* to_job, int worker) : job(to_job), from(worker) {}
    Status Connect(int peer, StreamPtr* out) override {
      return job->Connect(from, peer, out);
    }
    Job* job;
    int from;
  };

  Status Connect(int from, int to, StreamPtr* out) {
    DoctorExchange* const doctor = doctors[static_cast<size_t>(to)].get();
    if (doctor == nullptr || (drops != nullptr && drops(from, to))) {
      return Error(Code::kUnavailable, "cannot connect: Connection refused");
    }
    auto near = std::make_shared<End>(), remote = std::make_shared<End>();
    links_.push_back({near, remote, from, to});
    doctor->OnAccepted(StreamPtr(new TestStream(remote)), clock.monotonic);
    *out = StreamPtr(new TestStream(near));
    return Status();
  }
  bool Move(End* from, End* to, size_t* budget) {
    bool any = false;
    while (!from->out.empty() && to->owner != nullptr && *budget > 0) {
      const ByteStream::Space space = to->owner->NextSpace();
      const size_t n =
          std::min({space.bytes, from->out.size(), *budget, size_t{5000}});
      std::copy_n(from->out.begin(), n, space.data);
      from->out.erase(from->out.begin(),
                      from->out.begin() + static_cast<ptrdiff_t>(n));
      *budget -= n;
      to->owner->OnRead(n, clock.monotonic);
      any = true;
    }
    if (from->closed && from->out.empty() && to->owner != nullptr &&
        !std::exchange(to->ended, true)) {
      to->owner->OnEnded(LossCause::kExited, Error(Code::kIo, "closed"),
                         clock.monotonic);
      any = true;
    }
    return any;
  }
  bool Deliver() {
    bool any = false;
    for (size_t i = 0; i < links_.size(); ++i) {
      const Link link = links_[i];
      const bool narrow = link.from == 0 && link.to == 1;
      size_t budget = narrow ? most_bytes - link.moved : SIZE_MAX;
      const size_t before = budget;
      any |= Move(link.dialler.get(), link.listener.get(), &budget);
      links_[i].moved += narrow ? before - budget : 0;
      size_t all = SIZE_MAX;
      any |= Move(link.listener.get(), link.dialler.get(), &all);
    }
    return any;
  }

  std::vector<Transport> transports_;
  std::vector<Link> links_;
  std::vector<std::shared_ptr<End>> strangers_;  // the doctors' ends
};

TEST(ExchangeTest, ThreeDoctors_AllIsKnownOfEach) {
  Job job(3);
  job.StartAll();
  job.Run(5);
  ASSERT_TRUE(job.AllDone());
  for (int r = 0; r < 3; ++r) {
    for (int other = 0; other < 3; ++other) {
      if (other == r) continue;
      const PeerReport& report = job.Report(r, other);
      EXPECT_EQ(report.reach, Reach::kDoctor);
      EXPECT_TRUE(report.reaches_this);
      EXPECT_FALSE(report.stalled);
      EXPECT_EQ(report.facts, "facts of " + std::to_string(other));
      EXPECT_EQ(report.settings, job.MakeOptions(other).settings);
      EXPECT_GT(report.round_trip, 0);
      EXPECT_GT(report.data_bytes, 100000);
    }
  }
}

TEST(ExchangeTest, DoctorStartsLater_IsWaitedFor) {
  Job job(2);
  job.Start(job.MakeOptions(0));
  job.Run(4);
  EXPECT_EQ(job.Report(0, 1).reach, Reach::kNone);
  EXPECT_TRUE(Contains(job.Report(0, 1).reason, "refused"));
  job.Start(job.MakeOptions(1));
  job.Run(3);
  EXPECT_TRUE(job.AllDone());
  EXPECT_EQ(job.Report(0, 1).reach, Reach::kDoctor);
}

TEST(ExchangeTest, OneWayDropped_OnlyTheOtherReaches) {
  Job job(2);
  job.drops = [](int from, int) { return from == 0; };
  job.StartAll();
  job.Run(8);
  EXPECT_FALSE(job.AllDone());
  EXPECT_EQ(job.Report(0, 1).reach, Reach::kNone);
  EXPECT_TRUE(job.Report(0, 1).reaches_this);
  EXPECT_EQ(job.Report(1, 0).reach, Reach::kDoctor);
  EXPECT_FALSE(job.Report(1, 0).reaches_this);
}

TEST(ExchangeTest, LargeFramesDoNotArrive_IsStalled) {
  Job job(2);
  job.most_bytes = 1500;
  job.StartAll();
  job.Run(8);
  EXPECT_TRUE(job.Report(0, 1).stalled);
  EXPECT_GT(job.Report(0, 1).round_trip, 0);
  EXPECT_FALSE(job.Report(1, 0).stalled);
}

TEST(ExchangeTest, OtherListOrJob_IsRefusedWithTheReason) {
  Job job(2);
  DoctorExchange::Options other = job.MakeOptions(1);
  other.self.cluster_hash = 9;
  job.Start(job.MakeOptions(0));
  job.Start(other);
  job.Run(5);
  EXPECT_TRUE(job.AllDone());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(job.Report(r, 1 - r).reach, Reach::kRefused);
    EXPECT_TRUE(Contains(job.Report(r, 1 - r).reason, "same list"));
    ASSERT_EQ(job.doctors[static_cast<size_t>(r)]->refusals().size(), 1u);
  }
}

TEST(ExchangeTest, PortHeldByAJob_OwnAddressIsDialledToo) {
  Job job(2);
  DoctorExchange::Options options = job.MakeOptions(0);
  options.listens = false;
  job.Start(job.MakeOptions(1));
  job.Start(options);
  job.Run(3);
  EXPECT_TRUE(job.doctors[0]->done());
  EXPECT_EQ(job.Report(0, 1).reach, Reach::kDoctor);
}

TEST(ExchangeTest, HostileConnections_AreBoundedAndHarmless) {
  std::mt19937 draw(5);
  for (int round = 0; round < 20; ++round) {
    Job job(3);  // one worker is absent, so that the others wait
    job.Start(job.MakeOptions(0));
    job.Start(job.MakeOptions(1));
    for (int i = 0; i < 40; ++i) {
      const auto end = job.Dial(round % 2);
      FrameHeader header;
      header.type = static_cast<FrameType>(draw() % 24);
      header.chunk = draw() % 9;
      header.payload_bytes = draw() % 100;
      uint8_t bytes[kFrameHeaderBytes];
      EncodeHeader(header, bytes);
      if (i % 3 == 0) bytes[draw() % sizeof(bytes)] ^= 1 << draw() % 8;
      if (i % 5 != 0) end->out.insert(end->out.end(), bytes, bytes + 56);
      for (unsigned n = draw() % 300; n > 0; --n) {
        end->out.push_back(static_cast<uint8_t>(draw()));
      }
    }
    EXPECT_LE(job.strangers(), 14);
    job.Run(8);
    // Silent connections are closed after the time of a handshake.
    EXPECT_EQ(job.strangers(), 0);
    EXPECT_EQ(job.Report(0, 1).reach, Reach::kDoctor);
    EXPECT_EQ(job.Report(1, 0).reach, Reach::kDoctor);
  }
}

// A doctor with a valid identity that then breaks each rule.
TEST(ExchangeTest, HostileDoctor_EndsOnlyItsConnection) {
  std::mt19937 draw(7);
  for (int round = 0; round < 60; ++round) {
    Job job(3);
    job.StartAll();
    const auto end = job.Dial(0);
    const auto send = [&](FrameHeader header, std::vector<uint8_t> payload) {
      header.payload_bytes = static_cast<uint32_t>(payload.size());
      header.payload_crc = Crc32c(payload.data(), payload.size());
      uint8_t bytes[kFrameHeaderBytes];
      EncodeHeader(header, bytes);
      end->out.insert(end->out.end(), bytes, bytes + sizeof(bytes));
      end->out.insert(end->out.end(), payload.begin(), payload.end());
    };
    Identity self = job.MakeOptions(1).self;
    FrameHeader hello;
    hello.type = FrameType::kHello;
    hello.chunk = kFeatureProbes | kFeatureDoctor;
    send(hello, EncodeIdentity(self));
    for (int i = 0; i < 20; ++i) {
      FrameHeader header;
      header.type = FrameType::kDoctor;
      header.chunk = draw() % 9;
      header.sequence = draw();
      size_t bytes = draw() % 2000;
      if (round % 4 == 0) {  // the settings become longer than kSettingsBytes
        header.chunk = static_cast<uint32_t>(DoctorMessage::kSettings);
        bytes = 8000;
      } else if (draw() % 8 == 0) {
        header.type = FrameType::kAllReduce;
      } else if (draw() % 8 == 0) {
        bytes = 9000;  // too much at a time
      }
      send(header, std::vector<uint8_t>(bytes));
    }
    job.Run(5);
    EXPECT_EQ(job.Report(0, 2).reach, Reach::kDoctor);
    EXPECT_TRUE(job.Report(0, 1).reaches_this);
    EXPECT_LE(job.Report(0, 1).settings.size(), kSettingsBytes);
    EXPECT_LE(job.Report(0, 1).facts.size(), kFactsBytes);
  }
}

}  // namespace
}  // namespace ringlet
