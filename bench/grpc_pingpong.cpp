// SPDX-License-Identifier: Apache-2.0
// What a ping-pong over gRPC costs when it is written by hand in gRPC for C++, as services are: two pinned processes,
// the generic asynchronous interface, bytes that are not serialised. netpipe's module grpc, which calls the C library
// below, is held against it.
//
//     grpc_pingpong --output FILE [--cpus a,b] [--bytes n] [--seconds s] [--wait block|poll] [--api stream|unary]
//                   [--transport tcp|unix]
//
// The file gets half round trips in nanoseconds, a line for each batch.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kBatch = 100;

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(4);
}

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

struct Queue {
  explicit Queue(bool polling) : polls(polling) {}
  bool polls;
  // Until the one thing that was started has ended.
  void wait(grpc::CompletionQueue& queue) const {
    void* tag = nullptr;
    bool good = false;
    if (polls) {
      while (queue.AsyncNext(&tag, &good, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::TIMEOUT) {
      }
    } else {
      queue.Next(&tag, &good);
    }
    if (!good) std::exit(0);  // the other one has ended
  }
};

// As every program does that does not keep messages in the library's slices.
void unpack(const grpc::ByteBuffer& message, std::vector<char>& data) {
  std::vector<grpc::Slice> slices;
  check(message.Dump(&slices).ok(), "Dump");
  std::size_t at = 0;
  for (const grpc::Slice& slice : slices) {
    check(at + slice.size() <= data.size(), "a message too long");
    std::memcpy(data.data() + at, slice.begin(), slice.size());
    at += slice.size();
  }
  check(at == data.size(), "a message too short");
}

grpc::ByteBuffer pack(const std::vector<char>& data) {
  const grpc::Slice slice(data.data(), data.size());
  return {&slice, 1};
}

void answer(int cpu, int link, const std::string& where, std::size_t bytes, const Queue& way, bool unary) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(cpu);
  std::vector<char> data(bytes, 1);
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(where, grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  check(server != nullptr && write(link, &port, sizeof port) == sizeof port, "listening");
  int tag = 0;
  for (;;) {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream(&context);
    service.RequestCall(&context, &stream, queue.get(), queue.get(), &tag);
    way.wait(*queue);
    do {
      grpc::ByteBuffer message;
      stream.Read(&message, &tag);
      way.wait(*queue);
      unpack(message, data);
      if (unary)
        stream.WriteAndFinish(pack(data), grpc::WriteOptions(), grpc::Status::OK, &tag);
      else
        stream.Write(pack(data), &tag);
      way.wait(*queue);
    } while (!unary);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int cpus[2] = {0, 1}, link[2];
  std::size_t bytes = 8;
  double seconds = 1;
  bool polls = false, unary = false, local = false;
  std::FILE* output = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--cpus")
      check(std::sscanf(value.c_str(), "%d,%d", &cpus[0], &cpus[1]) == 2, "--cpus a,b");
    else if (name == "--bytes")
      bytes = std::stoull(value);
    else if (name == "--seconds")
      seconds = std::stod(value);
    else if (name == "--output")
      check((output = std::fopen(value.c_str(), "w")) != nullptr, "--output");
    else if (name == "--wait")
      polls = value == "poll";
    else if (name == "--api")
      unary = value == "unary";
    else if (name == "--transport")
      local = value == "unix";
    else
      return std::fprintf(stderr, "grpc_pingpong: unknown option %s\n", name.c_str()), 2;
  }
  if (output == nullptr || seconds <= 0)
    return std::fprintf(stderr, "grpc_pingpong: --output is needed, and --seconds must be positive\n"), 2;
  const Queue way(polls);
  std::string where = local ? "unix-abstract:grpc-pingpong-" + std::to_string(getpid()) : "127.0.0.1:0";
  check(pipe(link) == 0, "pipe");
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) answer(cpus[1], link[1], where, bytes, way, unary);
  int port = 0;
  check(read(link[0], &port, sizeof port) == sizeof port, "read");
  if (!local) where = "ipv4:127.0.0.1:" + std::to_string(port);
  pin(cpus[0]);
  std::vector<char> data(bytes, 1);
  grpc::ChannelArguments settings;
  settings.SetMaxReceiveMessageSize(-1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(where, grpc::InsecureChannelCredentials(), settings));
  grpc::CompletionQueue queue;
  int tag = 0;
  grpc::ClientContext life;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  if (!unary) {
    stream = stub.PrepareCall(&life, "/bench/Stream", &queue);
    stream->StartCall(&tag);
    way.wait(queue);
  }
  const auto once = [&] {
    grpc::ByteBuffer message;
    if (unary) {
      grpc::ClientContext context;
      grpc::Status status;
      const auto call = stub.PrepareUnaryCall(&context, "/bench/Exchange", pack(data), &queue);
      call->StartCall();
      call->Finish(&message, &status, &tag);
      way.wait(queue);
      check(status.ok(), "a call");
    } else {
      stream->Write(pack(data), &tag);
      way.wait(queue);
      stream->Read(&message, &tag);
      way.wait(queue);
    }
    unpack(message, data);
  };
  const std::int64_t end = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
  while (now_ns() < end) {
    std::int64_t ns[kBatch], begin = now_ns();
    for (std::int64_t& one : ns) {
      once();
      const std::int64_t now = now_ns();
      one = now - begin;
      begin = now;
    }
    for (int i = 0; i < kBatch; i++)
      std::fprintf(output, "%.1f%c", static_cast<double>(ns[i]) / 2, i + 1 < kBatch ? ' ' : '\n');
    std::fflush(output);
  }
  kill(child, SIGKILL);
  wait(nullptr);
  _exit(0);  // the stream is still there, and nobody answers it
}
