// SPDX-License-Identifier: Apache-2.0
// What joins two ranks: a stream, on which messages travel with api=stream. With api=unary each message is half of a
// call of its own, and the stream only says who is there, and who has gone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "grpc_loop.h"

namespace netpipe::grpc {

inline constexpr char kStreamMethod[] = "/netpipe.Messages/Stream";
inline constexpr char kUnaryMethod[] = "/netpipe.Messages/Exchange";

// What a call says of the one who makes it.
inline constexpr std::string_view kTokenKey = "netpipe-token", kRankKey = "netpipe-rank";

inline std::string_view text_of(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// Asks for the next call, of whomever: the endpoint, which knows its server.
struct Door {
  void (*ask)(void* owner) = nullptr;
  void* owner = nullptr;
  void wait_for_call() const { ask(owner); }
};

class Link {
 public:
  Link(Loop& loop, bool unary, Door door) : loop_(loop), lib_(loop.lib), unary_(unary), door_(door) {
    for (grpc_metadata_array* array : {&life_initial_, &life_trailing_, &initial_, &trailing_}) {
      lib_.grpc_metadata_array_init(array);
    }
    begun_ = {[](void* self, bool good) { static_cast<Link*>(self)->note_begun(good); }, this};
    ended_ = {[](void* self, bool) { static_cast<Link*>(self)->lost_ = true; }, this};
    sent_ = {[](void* self, bool good) { static_cast<Link*>(self)->note_sent(good); }, this};
    heard_ = {[](void* self, bool good) { static_cast<Link*>(self)->note_heard(good); }, this};
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  // Nothing is outstanding any more.
  ~Link() {
    drop_incoming();
    if (call_ != nullptr && call_ != life_) lib_.grpc_call_unref(call_);
    if (life_ != nullptr) lib_.grpc_call_unref(life_);
    lib_.grpc_slice_unref(life_details_);
    for (grpc_metadata_array* array : {&life_initial_, &life_trailing_, &initial_, &trailing_}) {
      lib_.grpc_metadata_array_destroy(array);
    }
  }

  // The rank that connects. token and rank: text that outlives the link.
  bool call(grpc_channel* channel, const std::string& token, const std::string& rank) {
    calls_ = true;
    channel_ = channel;
    const auto pair = [&](std::string_view key, std::string_view value) {
      return grpc_metadata{.key = lib_.grpc_slice_from_static_buffer(key.data(), key.size()),
                           .value = lib_.grpc_slice_from_static_buffer(value.data(), value.size()),
                           .internal_data = {}};
    };
    credentials_ = {pair(kTokenKey, token), pair(kRankKey, rank)};
    if (unary_) method_ = lib_.grpc_channel_register_call(channel, kUnaryMethod, nullptr, nullptr);
    life_ = make_call(lib_.grpc_channel_register_call(channel, kStreamMethod, nullptr, nullptr));
    if (life_ == nullptr) return false;
    grpc_op begin[2] = {operation(GRPC_OP_SEND_INITIAL_METADATA), operation(GRPC_OP_RECV_INITIAL_METADATA)};
    begin[0].data.send_initial_metadata.count = credentials_.size();
    begin[0].data.send_initial_metadata.metadata = credentials_.data();
    begin[1].data.recv_initial_metadata.recv_initial_metadata = &life_initial_;
    grpc_op end = operation(GRPC_OP_RECV_STATUS_ON_CLIENT);
    end.data.recv_status_on_client = {&life_trailing_, &life_status_, &life_details_, nullptr};
    return loop_.start(life_, begin, 2, begun_) && loop_.start(life_, &end, 1, ended_);
  }

  // The rank that listens: a call of this peer has come. The link owns it from here on.
  bool answer(grpc_call* life) {
    life_ = life;
    const grpc_op begin = operation(GRPC_OP_SEND_INITIAL_METADATA);
    grpc_op end = operation(GRPC_OP_RECV_CLOSE_ON_SERVER);
    end.data.recv_close_on_server.cancelled = &cancelled_;
    return loop_.start(life_, &begin, 1, begun_) && loop_.start(life_, &end, 1, ended_);
  }
  // False: there is one under way, and a peer has one at a time.
  bool answer_request(grpc_call* request) {
    if (call_ != nullptr) return false;
    call_ = request;
    return receive();
  }

  [[nodiscard]] bool has_called() const { return life_ != nullptr; }
  [[nodiscard]] grpc_call* life() const { return life_; }
  [[nodiscard]] bool joined() const { return joined_; }
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] bool sending() const { return sending_; }
  // Not before the library has said so: it fills in the place earlier.
  [[nodiscard]] bool has_message() const { return !hearing_ && incoming_ != nullptr; }
  [[nodiscard]] grpc_byte_buffer* message() const { return incoming_; }
  void drop_incoming() {
    if (incoming_ != nullptr) lib_.grpc_byte_buffer_destroy(incoming_);
    incoming_ = nullptr;
  }
  // Of the end of the stream, "" where there was none to hear.
  [[nodiscard]] std::string why_lost() const { return std::string(text_of(life_details_)); }

  // One at a time: when it is no longer sending(), the library has written it to the socket, or given up.
  bool send(grpc_byte_buffer* message) {
    if (!unary_) return send_on_stream(message);
    return calls_ ? request(message) : reply(message);
  }

  // The next message is wanted. Nothing, where that is known already.
  void listen() {
    if (hearing_ || incoming_ != nullptr || lost_) return;
    if (!unary_) {
      receive();
    } else if (!calls_ && call_ == nullptr) {
      door_.wait_for_call();
    }
  }

  // All that is outstanding comes back soon.
  void cancel() {
    if (call_ != nullptr && call_ != life_) lib_.grpc_call_cancel(call_, nullptr);
    if (life_ != nullptr) lib_.grpc_call_cancel(life_, nullptr);
  }

 private:
  static grpc_op operation(grpc_op_type type) {
    grpc_op made{};
    made.op = type;
    return made;
  }
  grpc_call* make_call(void* method) {
    return lib_.grpc_channel_create_registered_call(channel_, nullptr, GRPC_PROPAGATE_DEFAULTS, loop_.queue, method,
                                                    lib_.gpr_inf_future(GPR_CLOCK_MONOTONIC), nullptr);
  }

  bool send_on_stream(grpc_byte_buffer* message) {
    grpc_op send = operation(GRPC_OP_SEND_MESSAGE);
    send.flags = GRPC_WRITE_THROUGH;  // or it may come back while a megabyte still waits for somebody to write it
    send.data.send_message.send_message = message;
    sending_ = loop_.start(call_, &send, 1, sent_);
    return sending_;
  }

  // The whole call in one batch, as the synchronous interface of gRPC for C++ has it.
  bool request(grpc_byte_buffer* message) {
    call_ = make_call(method_);
    if (call_ == nullptr) return false;
    grpc_op all[6] = {operation(GRPC_OP_SEND_INITIAL_METADATA),  operation(GRPC_OP_SEND_MESSAGE),
                      operation(GRPC_OP_SEND_CLOSE_FROM_CLIENT), operation(GRPC_OP_RECV_INITIAL_METADATA),
                      operation(GRPC_OP_RECV_MESSAGE),           operation(GRPC_OP_RECV_STATUS_ON_CLIENT)};
    all[0].data.send_initial_metadata.count = credentials_.size();
    all[0].data.send_initial_metadata.metadata = credentials_.data();
    all[1].data.send_message.send_message = message;
    initial_.count = trailing_.count = 0;
    all[3].data.recv_initial_metadata.recv_initial_metadata = &initial_;
    all[4].data.recv_message.recv_message = &incoming_;
    all[5].data.recv_status_on_client = {&trailing_, &status_, &details_, nullptr};
    hearing_ = loop_.start(call_, all, 6, heard_);
    return hearing_;
  }
  bool reply(grpc_byte_buffer* message) {
    grpc_op all[4] = {operation(GRPC_OP_SEND_INITIAL_METADATA), operation(GRPC_OP_SEND_MESSAGE),
                      operation(GRPC_OP_SEND_STATUS_FROM_SERVER), operation(GRPC_OP_RECV_CLOSE_ON_SERVER)};
    all[1].data.send_message.send_message = message;
    all[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    all[3].data.recv_close_on_server.cancelled = &cancelled_;
    sending_ = loop_.start(call_, all, 4, sent_);
    return sending_;
  }
  bool receive() {
    grpc_op take = operation(GRPC_OP_RECV_MESSAGE);
    take.data.recv_message.recv_message = &incoming_;
    hearing_ = loop_.start(call_, &take, 1, heard_);
    return hearing_;
  }

  void note_begun(bool good) {
    joined_ = good && !lost_;
    if (!good) lost_ = true;
    if (joined_ && !unary_) call_ = life_;
  }
  void note_sent(bool good) {
    sending_ = false;
    if (!good) lost_ = true;
    if (unary_) end_call();
  }
  void note_heard(bool good) {
    hearing_ = false;
    if (!good || incoming_ == nullptr) lost_ = true;
    if (!unary_ || !calls_) return;
    lib_.grpc_slice_unref(details_);
    end_call();
  }
  void end_call() {
    lib_.grpc_call_unref(call_);
    call_ = nullptr;
  }

  Loop& loop_;
  const Library& lib_;
  const bool unary_;
  const Door door_;
  bool calls_ = false, joined_ = false, lost_ = false, sending_ = false, hearing_ = false;
  Tag begun_, ended_, sent_, heard_;
  grpc_channel* channel_ = nullptr;
  void* method_ = nullptr;
  std::array<grpc_metadata, 2> credentials_{};
  // The stream.
  grpc_call* life_ = nullptr;
  grpc_metadata_array life_initial_{}, life_trailing_{};
  grpc_status_code life_status_ = GRPC_STATUS_OK;
  grpc_slice life_details_{};
  // Where messages go: the stream, or of api=unary the call under way.
  grpc_call* call_ = nullptr;
  grpc_metadata_array initial_{}, trailing_{};
  grpc_status_code status_ = GRPC_STATUS_OK;
  grpc_slice details_{};
  int cancelled_ = 0;
  grpc_byte_buffer* incoming_ = nullptr;
};

}  // namespace netpipe::grpc
