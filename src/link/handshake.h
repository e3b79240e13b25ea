// SPDX-License-Identifier: Apache-2.0
// The conversation between a client and a server before a measurement, as two state machines without input or output:
// received bytes go in, bytes to send come out. Neither side trusts the other until it has proved that it knows the
// token.
//
//     client                                  server
//     HELLO         version, ABI, nonce  ->
//                                        <-   CHALLENGE     version, ABI, nonce
//     CLIENT_PROOF  plan hash, tag       ->
//                                        <-   SERVER_PROOF  tag
//     PLAN          text                 ->
//                                        <-   ACCEPT        tag, host name
//
// The server allocates nothing before CLIENT_PROOF, and the client reveals nothing before SERVER_PROOF. The server may
// answer any message with REFUSE (an exit code and a sentence). A tag is an HMAC-SHA-256 with the token as its key,
// over a label that names its purpose and the SHA-256 of HELLO, CHALLENGE and the plan's hash. So it is valid for these
// two nonces, this plan and this purpose only, and cannot be replayed. The client proves first, so that a server that
// anybody can reach gives nobody a tag to test tokens against.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/sha256.h"
#include "link/frame.h"
#include "link/seal.h"
#include "netpipe/module.h"

namespace netpipe {

inline constexpr std::uint32_t rendezvous_version = 3;

using Nonce = std::array<std::byte, 32>;  // fresh from the system's random source for each conversation

// What one side brings to a conversation.
struct Terms {
  std::string_view token;  // outlives the conversation
  std::uint32_t version = rendezvous_version;
  std::uint32_t abi = NP_ABI;
};

// What all tags of one conversation have in common.
class Transcript {
 public:
  void add(std::span<const std::byte> payload) { said_.update(payload); }
  void seal() { digest_ = said_.finish(); }  // after HELLO, CHALLENGE and the plan's hash were added
  [[nodiscard]] Digest tag(const Terms& terms, std::string_view purpose, std::string_view more = {}) const;
  // 32 hexadecimal digits that only these two sides can know.
  [[nodiscard]] std::string job(const Terms& terms) const;
  // Of what follows the handshake.
  [[nodiscard]] FrameKeys client_keys(const Terms& terms) const;
  [[nodiscard]] FrameKeys server_keys(const Terms& terms) const;

 private:
  Sha256 said_;
  Digest digest_{};
};

class ServerHandshake {
 public:
  enum class State {
    hello,     // waits for HELLO
    proof,     // waits for CLIENT_PROOF
    plan,      // waits for PLAN; the client knows the token
    complete,  // the plan is here: the owner calls accept, or refuse
    accepted,  // ACCEPT is in the output; the stream belongs to the measurement from then on
    refused,   // REFUSE is in the output; to be closed after it
    dropped,   // nothing more to say: to be closed
  };

  // deadline_ns: when a client that has not sent its plan by then is dropped, on the clock that feed and tick are
  // given.
  ServerHandshake(const Terms& terms, const Nonce& nonce, std::int64_t deadline_ns);
  ServerHandshake(const ServerHandshake&) = delete;  // the reader points into room_
  ServerHandshake& operator=(const ServerHandshake&) = delete;

  void feed(std::span<const std::byte> bytes, std::int64_t now_ns);
  void tick(std::int64_t now_ns);
  void accept(std::string_view server_host);  // in complete
  void refuse(const Failure& why);            // in complete

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool ended() const { return state_ >= State::accepted; }
  [[nodiscard]] std::int64_t deadline_ns() const { return deadline_ns_; }
  // The bytes to send now, at most about a kilobyte; they are given out once.
  std::string take_output() { return std::exchange(output_, {}); }
  // Why it was refused or dropped, for the server's own log.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] std::string plan_hash() const { return hex(plan_hash_); }           // from plan on
  [[nodiscard]] std::string_view plan_text() const;                                 // in complete and accepted
  [[nodiscard]] std::string job() const { return transcript_.job(terms_); }         // from plan on
  [[nodiscard]] FrameKeys keys() const { return transcript_.server_keys(terms_); }  // from plan on

 private:
  void take_hello();
  void take_proof();
  void take_plan();
  void drop(std::string_view reason);

  Terms terms_;
  Nonce nonce_;
  std::int64_t deadline_ns_;
  State state_ = State::hello;
  std::array<std::byte, max_hello_bytes> room_;
  std::unique_ptr<std::array<std::byte, max_plan_bytes>> plan_room_;
  FrameReader reader_;
  Transcript transcript_;
  Digest plan_hash_{};
  std::string output_;
  std::string reason_;
};

class ClientHandshake {
 public:
  enum class State { challenge, server_proof, verdict, accepted, failed };

  // HELLO is in the output from the start. plan_text: 1 to max_plan_bytes bytes.
  ClientHandshake(const Terms& terms, const Nonce& nonce, std::string plan_text);
  ClientHandshake(const ClientHandshake&) = delete;
  ClientHandshake& operator=(const ClientHandshake&) = delete;

  // The most that may be read from the stream now: what comes after ACCEPT is the measurement's.
  [[nodiscard]] std::size_t wants() const { return ended() ? 0 : reader_.wants(); }
  void feed(std::span<const std::byte> bytes);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool ended() const { return state_ >= State::accepted; }
  std::string take_output() { return std::exchange(output_, {}); }
  [[nodiscard]] const Failure& failure() const { return failure_; }                 // in failed
  [[nodiscard]] const std::string& server_host() const { return server_host_; }     // in accepted
  [[nodiscard]] std::string job() const { return transcript_.job(terms_); }         // in accepted
  [[nodiscard]] FrameKeys keys() const { return transcript_.client_keys(terms_); }  // in accepted

 private:
  void take_challenge();
  void take_server_proof();
  void take_verdict();
  void take_refusal();
  void expect(FrameType type) { reader_.expect({type, FrameType::refuse}, room_); }
  void fail(Failure failure);

  Terms terms_;
  Nonce nonce_;
  State state_ = State::challenge;
  std::array<std::byte, 4 + max_sentence_bytes> room_;
  FrameReader reader_;
  Transcript transcript_;
  std::string plan_text_;
  std::string output_;
  std::string server_host_;
  Failure failure_;
};

// The message REFUSE, which a server may send instead of any of its own.
std::string refusal(const Failure& why);

// Text from another host, fit for a terminal: whatever is not printable ASCII becomes '?'.
std::string printable(std::string_view text);

}  // namespace netpipe
