// SPDX-License-Identifier: Apache-2.0
// A filter of system calls (seccomp(2)), written out: a library for it would be the worker's only one. It is a list of
// what is refused, and not of what is allowed: which calls a C library makes for memory, threads and sockets changes
// from version to version.
#include "serving/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace netpipe {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t this_machine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t this_machine = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t this_machine = 0;  // no filter
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool sanitized = false;
#endif

// Numbers that a header may not know yet. Calls after Linux 5.0 have one number everywhere.
constexpr int nr_pidfd_send_signal = 424, nr_io_uring_setup = 425, nr_io_uring_enter = 426, nr_io_uring_register = 427,
              nr_open_tree = 428, nr_move_mount = 429, nr_fsopen = 430, nr_fsmount = 432, nr_fspick = 433,
              nr_pidfd_open = 434, nr_clone3 = 435, nr_openat2 = 437, nr_pidfd_getfd = 438, nr_process_madvise = 440,
              nr_mount_setattr = 442, nr_process_mrelease = 448, nr_fchmodat2 = 452, nr_setxattrat = 463,
              nr_removexattrat = 466, nr_open_tree_attr = 467, nr_file_setattr = 469;

// Refused whatever their arguments.
constexpr std::array of_files = {__NR_openat,       nr_openat2,     __NR_open_by_handle_at, __NR_name_to_handle_at,
                                 __NR_unlinkat,     __NR_renameat,  __NR_renameat2,         __NR_mkdirat,
                                 __NR_symlinkat,    __NR_linkat,    __NR_mknodat,           __NR_fchmodat,
                                 nr_fchmodat2,      __NR_fchmod,    __NR_fchownat,          __NR_fchown,
                                 __NR_truncate,     __NR_ftruncate, __NR_utimensat,         __NR_setxattr,
                                 __NR_lsetxattr,    __NR_fsetxattr, __NR_removexattr,       __NR_lremovexattr,
                                 __NR_fremovexattr, __NR_fallocate, nr_setxattrat,          nr_removexattrat,
                                 nr_file_setattr};
constexpr std::array of_file_systems = {
    __NR_mount,    __NR_umount2, __NR_pivot_root,    __NR_chroot,        nr_open_tree,     nr_move_mount,
    nr_fsopen,     nr_fsmount,   nr_fspick,          nr_mount_setattr,   __NR_swapon,      __NR_swapoff,
    __NR_quotactl, __NR_acct,    __NR_fanotify_init, __NR_inotify_init1, nr_open_tree_attr};
// Programs, processes, and what looks into them.
constexpr std::array of_processes = {
    __NR_execve,         __NR_execveat,   __NR_ptrace,          __NR_process_vm_readv, __NR_process_vm_writev,
    __NR_kcmp,           nr_pidfd_open,   nr_pidfd_getfd,       nr_pidfd_send_signal,  nr_process_madvise,
    nr_process_mrelease, __NR_kill,       __NR_tkill,           __NR_rt_sigqueueinfo,  __NR_rt_tgsigqueueinfo,
    __NR_setns,          __NR_unshare,    __NR_setpgid,         __NR_setsid,           __NR_setpriority,
    __NR_migrate_pages,  __NR_move_pages, __NR_perf_event_open, __NR_ioprio_set};
// Rights, and the kernel.
constexpr std::array of_the_kernel = {
    __NR_setuid,        __NR_setgid,       __NR_setreuid,        __NR_setregid,    __NR_setresuid,
    __NR_setresgid,     __NR_setgroups,    __NR_setfsuid,        __NR_setfsgid,    __NR_capset,
    __NR_personality,   __NR_bpf,          __NR_userfaultfd,     __NR_init_module, __NR_finit_module,
    __NR_delete_module, __NR_kexec_load,   __NR_kexec_file_load, __NR_reboot,      __NR_sethostname,
    __NR_setdomainname, __NR_settimeofday, __NR_clock_settime,   __NR_adjtimex,    __NR_clock_adjtime,
    __NR_syslog,        __NR_add_key,      __NR_request_key,     __NR_keyctl};
// What would do some of the above unseen by this filter.
constexpr std::array unseen = {nr_io_uring_setup, nr_io_uring_enter, nr_io_uring_register, __NR_io_setup};
// What other processes of this user share.
constexpr std::array of_shared_things = {__NR_shmget,     __NR_shmat,   __NR_shmctl,   __NR_semget, __NR_semop,
                                         __NR_semtimedop, __NR_semctl,  __NR_msgget,   __NR_msgctl, __NR_msgsnd,
                                         __NR_msgrcv,     __NR_mq_open, __NR_mq_unlink};
#if defined(__x86_64__)
// The older names of the above.
constexpr std::array older = {__NR_open,    __NR_creat,  __NR_unlink,    __NR_rmdir,     __NR_rename, __NR_mkdir,
                              __NR_symlink, __NR_link,   __NR_mknod,     __NR_chmod,     __NR_chown,  __NR_lchown,
                              __NR_utime,   __NR_utimes, __NR_futimesat, __NR_fork,      __NR_vfork,  __NR_inotify_init,
                              __NR_uselib,  __NR_iopl,   __NR_ioperm,    __NR_modify_ldt};
#else
constexpr std::array<int, 0> older = {};
#endif
constexpr std::array<std::span<const int>, 7> refused = {of_files, of_file_systems,  of_processes, of_the_kernel,
                                                         unseen,   of_shared_things, older};

// What the timed region of a module for two hosts may call: looked for first, and allowed. Linux from 5.11 on remembers
// that and asks the filter no more; before it, each would otherwise go past all of the list above.
constexpr std::array timed = {
    __NR_read,        __NR_write,       __NR_readv,      __NR_writev,        __NR_sendto,
    __NR_recvfrom,    __NR_sendmsg,     __NR_recvmsg,    __NR_ppoll,         __NR_futex,
    __NR_sched_yield, __NR_epoll_pwait, __NR_setsockopt, __NR_clock_gettime, __NR_clock_nanosleep,
#if defined(__x86_64__)
    __NR_poll,        __NR_epoll_wait,
#endif
};

class Program {
 public:
  Program() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, this_machine, 1, 0);
    give(SECCOMP_RET_ERRNO | EPERM);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1);  // the calls of x32
    give(SECCOMP_RET_ERRNO | EPERM);
#endif
  }

  void allow(int call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1);
    give(SECCOMP_RET_ALLOW);
  }
  void refuse(int call, int error = EPERM) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1);
    give(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error));
  }
  // Refused where this argument (its lower 32 bits) has any of these bits, or where it has none of them.
  void refuse_with(int call, int argument, std::uint32_t bits) { on_bits(call, argument, bits, true); }
  void refuse_without(int call, int argument, std::uint32_t bits) { on_bits(call, argument, bits, false); }
  // Refused unless (or if) this argument is one of these.
  void refuse_unless(int call, int argument, const std::vector<std::uint32_t>& values) {
    on_values(call, argument, values, false);
  }
  void refuse_if(int call, int argument, const std::vector<std::uint32_t>& values) {
    on_values(call, argument, values, true);
  }

  // All but those of IP, and of netlink those that tell of interfaces. UNIX sockets lead to whatever serves this user:
  // agents, buses, containers. So do those of a pair, if they are for datagrams: sendto takes an address.
  void refuse_sockets() {
    refuse(__NR_socketpair);
    add(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 8);
    load_argument(0);
    add(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 5, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 4, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 2);
    load_argument(2);
    add(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_ROUTE, 1, 0);
    give(SECCOMP_RET_ERRNO | EPERM);
    give(SECCOMP_RET_ALLOW);
  }

  std::vector<sock_filter> finish() {
    give(SECCOMP_RET_ALLOW);
    return code_;
  }

 private:
  void add(int code, std::uint32_t k, std::size_t if_true = 0, std::size_t if_false = 0) {
    code_.push_back(
        {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(if_true), static_cast<std::uint8_t>(if_false), k});
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void load_argument(int n) {  // both machines are little-endian here
    load(offsetof(seccomp_data, args) + static_cast<std::size_t>(n) * sizeof(std::uint64_t));
  }
  void give(std::uint32_t what) { add(BPF_RET | BPF_K, what); }

  void on_bits(int call, int argument, std::uint32_t bits, bool refused_if_set) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4);
    load_argument(argument);
    add(BPF_JMP | BPF_JSET | BPF_K, bits, refused_if_set ? 0 : 1, refused_if_set ? 1 : 0);
    give(SECCOMP_RET_ERRNO | EPERM);
    give(SECCOMP_RET_ALLOW);
  }
  void on_values(int call, int argument, const std::vector<std::uint32_t>& values, bool refused_if_found) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, values.size() + 3);
    load_argument(argument);
    for (std::size_t i = 0; i < values.size(); ++i) add(BPF_JMP | BPF_JEQ | BPF_K, values[i], values.size() - i, 0);
    give(refused_if_found ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM);
    give(refused_if_found ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW);
  }

  std::vector<sock_filter> code_;
};

std::vector<sock_filter> filter() {
  Program program;
  for (const int call : timed) program.allow(call);
  for (const std::span<const int> calls : refused) {
    for (const int call : calls) program.refuse(call);
  }
  program.refuse(nr_clone3, ENOSYS);  // its flags are out of reach; C libraries then take clone
  program.refuse_without(__NR_clone, 0, CLONE_THREAD);
  program.refuse_with(__NR_mmap, 2, PROT_EXEC);
  program.refuse_with(__NR_mprotect, 2, PROT_EXEC);
  program.refuse_with(__NR_pkey_mprotect, 2, PROT_EXEC);
  const auto self = static_cast<std::uint32_t>(::getpid());
  program.refuse_unless(__NR_tgkill, 0, {self});
  for (const int call :
       {__NR_prlimit64, __NR_sched_setaffinity, __NR_sched_setscheduler, __NR_sched_setparam, __NR_sched_setattr}) {
    program.refuse_unless(call, 0, {0, self});
  }
  // The kernel signals whoever owns a descriptor when data arrives: any process, with any signal.
  program.refuse_if(__NR_fcntl, 1, {F_SETOWN, F_SETOWN_EX, F_SETSIG});
  program.refuse_sockets();
  program.refuse_if(__NR_ioctl, 1, {FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX});  // the last two type into a terminal
  return program.finish();
}

Failure without(const std::string& what) {
  return unavailable(what + ": measurements for clients run with all rights of this user");
}

// Of root's: that there is nothing that only they allow, such as to change a route by netlink.
bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  return ::syscall(__NR_capset, &header, none.data()) == 0;
}

bool lead_nowhere(int fd, int mode) {
  const int nowhere = ::open("/dev/null", mode | O_CLOEXEC);
  if (nowhere < 0) return false;
  const bool led = ::dup2(nowhere, fd) == fd;
  if (nowhere != fd) ::close(nowhere);
  return led;
}

}  // namespace

Outcome can_confine() {
  if (this_machine == 0) return without("netpipe has no filter of system calls for this processor");
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  if (::syscall(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) return ok();
  return without(std::string("this kernel, or what contains this process, has no filter of system calls (seccomp: ") +
                 std::strerror(errno) + ")");
}

Outcome confine() {
  const bool silent = lead_nowhere(STDIN_FILENO, O_RDONLY) && lead_nowhere(STDOUT_FILENO, O_WRONLY) &&
                      (sanitized || lead_nowhere(STDERR_FILENO, O_WRONLY));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed(std::string("prctl: ") + std::strerror(errno));
  if (!drop_capabilities()) return failed(std::string("capset: ") + std::strerror(errno));
  if (Outcome can = can_confine(); !can) return can;
  std::vector<sock_filter> code = filter();
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  // Of this thread, and so of those that it starts: none is there yet. SPEC_ALLOW: kernels before 5.16 would make the
  // processor slower for a process with a filter (no speculative store bypass), and so what is measured.
  const auto set = [&](unsigned flags) {
    return ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
  };
  if (!set(SECCOMP_FILTER_FLAG_SPEC_ALLOW) && !(errno == EINVAL && set(0))) {
    return failed(std::string("seccomp: ") + std::strerror(errno));
  }
  return silent ? ok() : Outcome(failed("/dev/null cannot be opened"));
}

}  // namespace netpipe
