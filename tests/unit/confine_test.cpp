// SPDX-License-Identifier: Apache-2.0
// What a process that measures for a client can still do, tried in processes of their own.
#include "serving/confine.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>

#include "machine/environment.h"
#include "machine/files.h"
#include "machine/footprint.h"
#include "machine/memory.h"

namespace netpipe {
namespace {

#define NEEDS_A_FILTER() \
  if (const Outcome can = can_confine(); !can) GTEST_SKIP() << can.failure().sentence

// The exit code of a process that was confined and then did this.
int confined(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    ::_exit(confine() ? body() : 99);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// 0 where the call failed with EPERM.
int denied(long result) { return result == -1 && errno == EPERM ? 0 : 1; }

TEST(Confine, OpensNoFileForReadingOrWriting) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] { return denied(::open("/etc/passwd", O_RDONLY)); }), 0);
  EXPECT_EQ(confined([] { return denied(::open("/tmp/netpipe-confined", O_WRONLY | O_CREAT, 0600)); }), 0);
  EXPECT_EQ(confined([] { return denied(::creat("/tmp/netpipe-confined", 0600)); }), 0);
  EXPECT_EQ(confined([] { return std::ifstream("/proc/self/status") ? 1 : 0; }), 0);
  EXPECT_EQ(confined([] { return ::opendir("/") == nullptr ? 0 : 1; }), 0);
  EXPECT_EQ(confined([] { return denied(::unlink("/tmp/netpipe-confined")); }), 0);
  EXPECT_EQ(confined([] { return denied(::mkdir("/tmp/netpipe-confined", 0700)); }), 0);
  EXPECT_EQ(confined([] { return denied(::rename("/tmp/netpipe-a", "/tmp/netpipe-b")); }), 0);
  // setxattrat, removexattrat, open_tree_attr, file_setattr, which came with Linux 6.13 to 6.17
  for (const long call : {463, 466, 467, 469}) {
    EXPECT_EQ(confined([&] { return denied(::syscall(call, AT_FDCWD, "/tmp", 0, nullptr, nullptr, 0)); }), 0) << call;
  }
}

TEST(Confine, StartsNoProgramAndNoProcess) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] { return denied(::execl("/bin/true", "true", nullptr)); }), 0);
  EXPECT_EQ(confined([] { return denied(::fork()); }), 0);
  EXPECT_EQ(confined([] { return std::system("true") == 0 ? 1 : 0; }), 0);
}

TEST(Confine, LeavesOtherProcessesAlone) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] { return denied(::kill(::getppid(), 0)); }), 0);
  EXPECT_EQ(confined([] { return denied(::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr)); }), 0);
  EXPECT_EQ(confined([] {
              char byte = 0;
              const iovec here{&byte, 1}, there{&byte, 1};
              return denied(::process_vm_readv(::getppid(), &here, 1, &there, 1, 0));
            }),
            0);
}

// The kernel signals the owner of a descriptor when data arrives, and asks no call for signals.
TEST(Confine, MakesNobodyElseTheOwnerOfADescriptor) {
  NEEDS_A_FILTER();
  const auto on_socket = [](const std::function<int(int)>& body) {
    return confined([&] { return body(::socket(AF_INET, SOCK_DGRAM, 0)); });
  };
  EXPECT_EQ(on_socket([](int fd) { return denied(::fcntl(fd, F_SETOWN, ::getppid())); }), 0);
  EXPECT_EQ(on_socket([](int fd) {
              const f_owner_ex owner{F_OWNER_PID, ::getppid()};
              return denied(::fcntl(fd, F_SETOWN_EX, &owner));
            }),
            0);
  EXPECT_EQ(on_socket([](int fd) { return denied(::fcntl(fd, F_SETSIG, SIGKILL)); }), 0);
  for (const unsigned long request : {FIOSETOWN, SIOCSPGRP}) {
    EXPECT_EQ(on_socket([&](int fd) {
                const int owner = ::getppid();
                return denied(::ioctl(fd, request, &owner));
              }),
              0);
  }
  EXPECT_EQ(on_socket([](int fd) { return ::fcntl(fd, F_SETFL, O_NONBLOCK); }), 0);
}

TEST(Confine, ChangesTheSchedulingOfNobodyElse) {
  NEEDS_A_FILTER();
  const auto pins = [](pid_t pid) {
    cpu_set_t all;
    ::sched_getaffinity(0, sizeof all, &all);
    return ::sched_setaffinity(pid, sizeof all, &all);
  };
  EXPECT_EQ(confined([&] { return denied(pins(::getppid())); }), 0);
  EXPECT_EQ(confined([&] { return pins(0); }), 0);
  const auto idles = [](pid_t pid) {
    const sched_param none{};
    return ::sched_setscheduler(pid, SCHED_IDLE, &none);
  };
  EXPECT_EQ(confined([&] { return denied(idles(::getppid())); }), 0);
  EXPECT_EQ(confined([&] { return idles(0); }), 0);
  EXPECT_EQ(confined([] { return denied(::syscall(SYS_ioprio_set, 1, ::getppid(), 0)); }), 0);
  EXPECT_EQ(confined([] {
              sembuf up{0, 1, 0};
              return denied(::semop(0, &up, 1));
            }),
            0);
}

TEST(Confine, MakesNoSocketsThatLeadElsewhereInThisHost) {
  NEEDS_A_FILTER();
  for (const int domain : {AF_UNIX, AF_PACKET, AF_VSOCK}) {
    EXPECT_EQ(confined([&] { return denied(::socket(domain, SOCK_STREAM, 0)); }), 0) << domain;
  }
  EXPECT_EQ(confined([] { return denied(::socket(AF_NETLINK, SOCK_RAW, 9)); }), 0) << "audit";
  for (const int kind : {SOCK_STREAM, SOCK_DGRAM}) {
    EXPECT_EQ(confined([&] {
                int pair[2];
                return denied(::socketpair(AF_UNIX, kind, 0, pair));
              }),
              0);
  }
}

TEST(Confine, MakesNoMemoryExecutable) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] {
              void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              if (memory == MAP_FAILED) return 2;
              return denied(::mprotect(memory, 4096, PROT_READ | PROT_EXEC));
            }),
            0);
  EXPECT_EQ(confined([] {
              void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return memory == MAP_FAILED ? denied(-1) : 1;
            }),
            0);
}

TEST(Confine, GetsNoNewPrivilegesAndKeepsNoCapability) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] { return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 1; }), 0);
  EXPECT_EQ(confined([] { return denied(::sethostname("confined", 8)); }), 0);
}

TEST(Confine, SpeaksToNobodyThroughStandardOutput) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] {
              struct stat out{};
              struct stat in{};
              if (::fstat(STDOUT_FILENO, &out) != 0 || ::fstat(STDIN_FILENO, &in) != 0) return 2;
              return S_ISCHR(out.st_mode) && out.st_rdev == in.st_rdev ? 0 : 1;
            }),
            0);
}

TEST(Confine, LeavesWhatAMeasurementNeeds) {
  NEEDS_A_FILTER();
  EXPECT_EQ(confined([] {  // connections
              const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
              sockaddr_in at{};
              at.sin_family = AF_INET;
              ::inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
              socklen_t bytes = sizeof at;
              if (::bind(listener, reinterpret_cast<sockaddr*>(&at), bytes) != 0 || ::listen(listener, 1) != 0)
                return 2;
              if (::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &bytes) != 0) return 3;
              const int client = ::socket(AF_INET, SOCK_STREAM, 0);
              if (::connect(client, reinterpret_cast<sockaddr*>(&at), bytes) != 0) return 4;
              return ::accept(listener, nullptr, nullptr) >= 0 ? 0 : 5;
            }),
            0);
  EXPECT_EQ(confined([] {  // threads
              int done = 1;
              std::thread([&] { done = 0; }).join();
              return done;
            }),
            0);
  EXPECT_EQ(confined([] {  // memory
              return std::vector<char>(64U << 20, 'x').back() == 'x' ? 0 : 1;
            }),
            0);
  EXPECT_EQ(confined([] { return std::signal(SIGABRT, SIG_DFL), std::abort(), 0; }), 1000 + SIGABRT);
}

TEST(Confine, StillReadsWhatWasKeptOpen) {
  NEEDS_A_FILTER();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::uint64_t cache = last_level_cache_bytes();
    keep_open({"/proc/self/status", "/proc/self/smaps_rollup", "/proc/meminfo"});
    if (!confine()) ::_exit(99);
    const auto before = read_footprint();
    if (!before || before->resident_bytes <= 0) ::_exit(1);
    std::vector<char> grown(32U << 20, 'x');
    const auto after = read_footprint();
    if (!after || after->resident_bytes < before->resident_bytes + (24 << 20)) ::_exit(2);
    if (available_memory_bytes() == UINT64_MAX || most_resident_bytes() == 0) ::_exit(3);
    ::_exit(last_level_cache_bytes() == cache && grown[1] == 'x' ? 0 : 4);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace netpipe
