// TcpServer: a listener and its connections, on a thread of their own.
//
// For a server derived from it. All methods except Serve and Stop run on the
// loop's thread. A connection is deleted in its close callback.

#ifndef RINGLET_NET_TRANSPORT_TCP_SERVER_H_
#define RINGLET_NET_TRANSPORT_TCP_SERVER_H_

#include <uv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loop.h"
#include "ringlet/status.h"
#include "uv_stream.h"

namespace ringlet {

// `Connection` is default-constructible and derived from Accepted.
template <typename Connection>
class TcpServer : private UvListener::Owner {
 public:
  struct Accepted {
    uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&tcp); }

    TcpServer* server = nullptr;
    int64_t since = 0;  // UvNanos() at its start
    bool closing = false;
    uv_tcp_t tcp;
    uv_write_t write;
  };

  Status Serve(const sockaddr_storage& address) {
    RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
    handles_ = std::make_unique<UvHandles>(loop_.get());
    UvListener::Owner* const self = this;
    listener_ = std::make_unique<UvListener>(handles_.get(), self);
    Status status;
    RunOnLoop(loop_.get(), [&](const auto& done) {
      OnStart();
      status = Listen(address);
      done();
    });
    return status;
  }

 protected:
  TcpServer() = default;
  ~TcpServer() { RINGLET_CHECK(loop_ == nullptr); }

  // Closes all connections and ends the thread. The derived class's destructor
  // calls it first.
  void Stop() {
    if (loop_ == nullptr) return;
    RunOnLoop(loop_.get(), [&](const auto& done) {
      listener_->Close();
      uv_close(AsHandle(&timer_), [](uv_handle_t* handle) {
        static_cast<TcpServer*>(handle->data)->handles_->Closed();
      });
      while (!connections_.empty()) Close(connections_.back());
      handles_->WhenAllClosed(done);
    });
    loop_.reset();
  }

  // The open connections, the oldest first.
  const std::vector<Connection*>& connections() const { return connections_; }

  // Called first, on the loop's thread.
  virtual void OnStart() {}
  // If false, the accepted connection is closed immediately. It is the last of
  // connections().
  virtual bool Admit(Connection* connection) = 0;
  // The space for the next bytes of OnRead.
  virtual uv_buf_t SpaceOf(Connection* connection) = 0;
  // Like a uv_read_cb: `bytes` below 0 is an error, also an error of Read.
  virtual void OnRead(Connection* connection, ssize_t bytes) = 0;
  // Like a uv_write_cb. It is also called after Close and after an error of
  // Send.
  virtual void OnSent(Connection* connection, int status) = 0;
  // Called twice a second.
  virtual void OnTimer() = 0;

  void Read(Connection* connection) {
    const int error = uv_read_start(
        connection->stream(),
        [](uv_handle_t* handle, size_t, uv_buf_t* out) {
          auto* const connection = static_cast<Connection*>(handle->data);
          *out = connection->server->SpaceOf(connection);
        },
        [](uv_stream_t* stream, ssize_t bytes, const uv_buf_t*) {
          auto* const connection = static_cast<Connection*>(stream->data);
          connection->server->OnRead(connection, bytes);
        });
    if (error != 0) OnRead(connection, error);
  }

  // The bytes stay where they are until OnSent.
  void Send(Connection* connection, char* bytes, size_t count) {
    connection->write.data = connection;
    const uv_buf_t buffer = uv_buf_init(bytes, static_cast<unsigned>(count));
    const int error = uv_write(&connection->write, connection->stream(),
                               &buffer, 1, [](uv_write_t* write, int status) {
                                 auto* const connection =
                                     static_cast<Connection*>(write->data);
                                 connection->server->OnSent(connection, status);
                               });
    if (error != 0) OnSent(connection, error);
  }

  void Close(Connection* connection) {
    if (std::exchange(connection->closing, true)) return;
    connections_.erase(
        std::find(connections_.begin(), connections_.end(), connection));
    uv_close(AsHandle(&connection->tcp), [](uv_handle_t* handle) {
      auto* const connection = static_cast<Connection*>(handle->data);
      UvHandles* const handles = connection->server->handles_.get();
      delete connection;
      handles->Closed();
    });
  }

 private:
  Status Listen(const sockaddr_storage& address) {
    uv_timer_init(handles_->uv(), &timer_);  // cannot fail
    timer_.data = this;
    handles_->Opened();
    uv_timer_start(
        &timer_,
        [](uv_timer_t* timer) {
          static_cast<TcpServer*>(timer->data)->OnTimer();
        },
        500, 500);
    return listener_->ListenTcp(reinterpret_cast<const sockaddr*>(&address));
  }

  void OnConnection(UvListener*) override {
    auto* const connection = new Connection;
    connection->server = this;
    uv_tcp_init(handles_->uv(), &connection->tcp);  // cannot fail
    connection->tcp.data = connection;
    connection->since = UvNanos();
    handles_->Opened();
    connections_.push_back(connection);
    if (uv_accept(listener_->stream(), connection->stream()) == 0 &&
        Admit(connection)) {
      return Read(connection);
    }
    Close(connection);
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<UvHandles> handles_;
  std::unique_ptr<UvListener> listener_;
  uv_timer_t timer_;
  std::vector<Connection*> connections_;
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_TCP_SERVER_H_
