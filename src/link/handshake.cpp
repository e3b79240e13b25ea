// SPDX-License-Identifier: Apache-2.0
#include "link/handshake.h"

#include <algorithm>
#include <utility>

namespace netpipe {
namespace {

// No label begins with another, and all are followed by a digest of fixed length: one tag never serves two purposes.
constexpr std::string_view client_purpose = "netpipe client proof";
constexpr std::string_view server_purpose = "netpipe server proof";
constexpr std::string_view accept_purpose = "netpipe accept";
constexpr std::string_view job_purpose = "netpipe job";
constexpr std::string_view client_frames = "netpipe client frames";  // keys: of what the client sends after ACCEPT,
constexpr std::string_view server_frames = "netpipe server frames";  // and of what the server sends

constexpr std::size_t digest_bytes = std::tuple_size_v<Digest>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The payload of HELLO and of CHALLENGE.
std::string introduction(const Terms& terms, const Nonce& nonce) {
  return big_endian(terms.version) + big_endian(terms.abi) + std::string(text_of(nonce));
}

// "" when both sides of an introduction fit together.
std::string mismatch(const Terms& server, const Terms& client) {
  const auto sentence = [](std::string_view what, std::uint32_t servers, std::uint32_t clients) {
    return "the server has " + std::string(what) + " " + std::to_string(servers) + " and the client " +
           std::to_string(clients) + "; install the same netpipe on both hosts";
  };
  if (server.version != client.version) return sentence("rendezvous protocol version", server.version, client.version);
  if (server.abi != client.abi) return sentence("module ABI", server.abi, client.abi);
  return {};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string clean(text);
  std::replace_if(clean.begin(), clean.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return clean;
}

std::string refusal(const Failure& why) {
  const std::string sentence = why.sentence.empty() ? "the server gave no reason" : why.sentence;
  return make_frame(FrameType::refuse,
                    big_endian(static_cast<std::uint32_t>(why.exit)) + sentence.substr(0, max_sentence_bytes));
}

Digest Transcript::tag(const Terms& terms, std::string_view purpose, std::string_view more) const {
  return HmacSha256(terms.token).update(purpose).update(digest_).update(more).finish();
}

std::string Transcript::job(const Terms& terms) const { return hex(tag(terms, job_purpose)).substr(0, 32); }

FrameKeys Transcript::client_keys(const Terms& terms) const {
  return {tag(terms, client_frames), tag(terms, server_frames)};
}

FrameKeys Transcript::server_keys(const Terms& terms) const {
  return {tag(terms, server_frames), tag(terms, client_frames)};
}

// ---------------------------------------------------------------------------------------------- the server's side

ServerHandshake::ServerHandshake(const Terms& terms, const Nonce& nonce, std::int64_t deadline_ns)
    : terms_(terms), nonce_(nonce), deadline_ns_(deadline_ns) {
  reader_.expect({FrameType::hello}, room_);
}

void ServerHandshake::tick(std::int64_t now_ns) {
  if (!ended() && now_ns >= deadline_ns_) drop("it did not finish its handshake in time");
}

void ServerHandshake::feed(std::span<const std::byte> bytes, std::int64_t now_ns) {
  tick(now_ns);
  if (ended() || bytes.empty()) return;
  if (state_ == State::complete) return drop("it spoke before it was answered");
  switch (reader_.take(bytes)) {
    case FrameReader::Progress::incomplete: return;
    case FrameReader::Progress::wrong: return drop(reader_.complaint());
    case FrameReader::Progress::whole: break;
  }
  if (state_ == State::hello) return take_hello();
  if (state_ == State::proof) return take_proof();
  take_plan();
}

void ServerHandshake::take_hello() {
  const auto payload = reader_.payload();
  // First the two numbers, which stand at the same place in all versions, so that another version is named and not only
  // refused.
  const std::string why = mismatch(terms_, {{}, read_big_endian(payload), read_big_endian(payload.subspan(4))});
  if (!why.empty()) return refuse(unavailable(why));
  const std::string challenge = introduction(terms_, nonce_);
  if (payload.size() != challenge.size()) return drop("its HELLO is not of the length of this version");
  transcript_.add(payload);
  transcript_.add(std::as_bytes(std::span(challenge)));
  output_ = make_frame(FrameType::challenge, challenge);
  reader_.expect({FrameType::client_proof}, room_);
  state_ = State::proof;
}

void ServerHandshake::take_proof() {
  const auto payload = reader_.payload();
  std::copy_n(payload.begin(), digest_bytes, plan_hash_.begin());
  transcript_.add(plan_hash_);
  transcript_.seal();
  if (!same(payload.last<digest_bytes>(), transcript_.tag(terms_, client_purpose)))
    return refuse(usage("the token is not the one that the server was started with"));
  // The first allocation for this client, of a fixed size.
  plan_room_ = std::make_unique_for_overwrite<std::array<std::byte, max_plan_bytes>>();
  reader_.expect({FrameType::plan}, *plan_room_);
  output_ = make_frame(FrameType::server_proof, text_of(transcript_.tag(terms_, server_purpose)));
  state_ = State::plan;
}

void ServerHandshake::take_plan() {
  state_ = State::complete;
  if (!same(sha256(plan_text()), plan_hash_))
    refuse(failed("the plan that arrived is not the one that its hash announced"));
}

void ServerHandshake::accept(std::string_view server_host) {
  if (state_ != State::complete) return;
  const std::string_view host = server_host.substr(0, max_host_bytes);
  output_ = make_frame(FrameType::accept,
                       std::string(text_of(transcript_.tag(terms_, accept_purpose, host))) + std::string(host));
  state_ = State::accepted;
}

void ServerHandshake::refuse(const Failure& why) {
  if (ended()) return;
  output_ = refusal(why);
  reason_ = output_.substr(frame_header_bytes + 4);  // behind the exit code
  state_ = State::refused;
}

void ServerHandshake::drop(std::string_view reason) {
  reason_ = reason;
  output_.clear();
  state_ = State::dropped;
}

std::string_view ServerHandshake::plan_text() const { return text_of(reader_.payload()); }

// ---------------------------------------------------------------------------------------------- the client's side

ClientHandshake::ClientHandshake(const Terms& terms, const Nonce& nonce, std::string plan_text)
    : terms_(terms), nonce_(nonce), plan_text_(std::move(plan_text)) {
  const std::string hello = introduction(terms_, nonce_);
  transcript_.add(std::as_bytes(std::span(hello)));
  output_ = make_frame(FrameType::hello, hello);
  expect(FrameType::challenge);
}

void ClientHandshake::feed(std::span<const std::byte> bytes) {
  if (ended() || bytes.empty()) return;
  switch (reader_.take(bytes)) {
    case FrameReader::Progress::incomplete: return;
    case FrameReader::Progress::wrong:
      return fail(unavailable("what answers there is not a netpipe server: " + std::string(reader_.complaint())));
    case FrameReader::Progress::whole: break;
  }
  if (reader_.type() == FrameType::refuse) return take_refusal();
  if (state_ == State::challenge) return take_challenge();
  if (state_ == State::server_proof) return take_server_proof();
  take_verdict();
}

void ClientHandshake::take_challenge() {
  const auto payload = reader_.payload();
  const std::string why = mismatch({{}, read_big_endian(payload), read_big_endian(payload.subspan(4))}, terms_);
  if (!why.empty()) return fail(unavailable(why));
  transcript_.add(payload);
  const Digest plan_hash = sha256(plan_text_);
  transcript_.add(plan_hash);
  transcript_.seal();
  output_ = make_frame(FrameType::client_proof,
                       std::string(text_of(plan_hash)) + std::string(text_of(transcript_.tag(terms_, client_purpose))));
  expect(FrameType::server_proof);
  state_ = State::server_proof;
}

void ClientHandshake::take_server_proof() {
  if (!same(reader_.payload(), transcript_.tag(terms_, server_purpose))) {
    return fail(usage(
        "what answers there does not know the token, so nothing was sent to it; is it the server that you started?"));
  }
  output_ = make_frame(FrameType::plan, plan_text_);
  expect(FrameType::accept);
  state_ = State::verdict;
}

void ClientHandshake::take_verdict() {
  const auto payload = reader_.payload();
  const std::string_view host = text_of(payload.subspan(digest_bytes));
  if (!same(payload.first<digest_bytes>(), transcript_.tag(terms_, accept_purpose, host))) {
    return fail(
        failed("the server's acceptance does not carry the token's tag; something between the hosts changed it"));
  }
  server_host_ = printable(host);
  state_ = State::accepted;
}

void ClientHandshake::take_refusal() {
  const auto payload = reader_.payload();
  const std::uint32_t code = read_big_endian(payload);
  const bool known =
      code >= static_cast<std::uint32_t>(Exit::usage) && code <= static_cast<std::uint32_t>(Exit::failed);
  fail({known ? static_cast<Exit>(code) : Exit::failed, printable(text_of(payload.subspan(4)))});
}

void ClientHandshake::fail(Failure failure) {
  failure_ = std::move(failure);
  output_.clear();
  state_ = State::failed;
}

}  // namespace netpipe
