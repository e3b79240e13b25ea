// SPDX-License-Identifier: Apache-2.0
#include "catalog/probing.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/descriptor.h"
#include "catalog/absent.h"
#include "catalog/description.h"

namespace netpipe {
namespace {

constexpr auto limit_ns = static_cast<std::int64_t>(probing_s * 1e9);
constexpr std::size_t most_words = 1U << 20U;  // that one module may have to say
constexpr const char* remedy = "; repair it, or remove it";

// What the process apart says: one of these letters, a text, and a NUL. Of each module the last is A, F, U or V.
enum Says : char {
  begins = 'B',       // a step
  describes = 'D',    // its table is this
  answers = 'A',      // its probe: why it cannot be used, or nothing
  fails = 'F',        // it misbehaved in this way
  is_unusable = 'U',  // the file is wrong (Exit::usage)
  lacks = 'V',        // it cannot be loaded here (Exit::unavailable)
};

struct Pipe {
  Descriptor reading, writing;
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  // Not in the place of a standard stream that was closed here: the process apart puts others there.
  for (Descriptor* end : {&pipe.reading, &pipe.writing}) {
    if (end->get() <= STDERR_FILENO) end->reset(fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!*end) return std::nullopt;
  }
  return pipe;
}

// ------------------------------------------------------------------------------------------- in the process apart

class Inspector {
 public:
  Inspector(int report, const Pipe& output) : report_(report), output_(output) {}

  void inspect(const std::string& path) {
    const Result<std::unique_ptr<Layer>> layer = load_layer(path, [this](const char* what) { begin(what); });
    if (!layer) {
      check();
      say(layer.failure().exit == Exit::usage ? is_unusable : lacks, layer.failure().sentence);
      return;
    }
    const std::string description = describe_layer(**layer, path, {});
    begin("its probe");
    const std::string reason = probe_reason(**layer);
    check();
    say(describes, description);
    say(answers, reason);
  }

 private:
  void say(Says what, const std::string& text) const {
    const std::string words = std::string(1, what) + text;
    std::size_t done = 0;
    while (done <= words.size()) {  // the NUL behind it too
      const ssize_t wrote = write(report_, words.c_str() + done, words.size() + 1 - done);
      if (wrote < 0 && errno != EINTR) _exit(static_cast<int>(Exit::failed));
      if (wrote > 0) done += static_cast<std::size_t>(wrote);
    }
  }

  void begin(const char* what) {
    check();
    step_ = what;
    say(begins, what);
  }

  // Whether the step that ends has left standard output alone: in a worker it carries what Python reads.
  void check() const {
    std::fflush(nullptr);
    struct stat now{}, before{};
    const bool same = fstat(STDOUT_FILENO, &now) == 0 && fstat(output_.writing.get(), &before) == 0 &&
                      now.st_ino == before.st_ino && now.st_dev == before.st_dev;
    int bytes = 0;
    ioctl(output_.reading.get(), FIONREAD, &bytes);
    if (bytes > 0) {
      std::array<char, 60> text{};
      const ssize_t got = read(output_.reading.get(), text.data(), text.size());
      std::string words(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
      for (char& c : words) {
        if (c < ' ' || c > '~') c = ' ';
      }
      give_up(step_ + " printed '" + words + "' to standard output");
    }
    if (!same) give_up(step_ + " closed or replaced standard output");
  }

  // Nothing that is done in this process from now on would tell about the next module.
  [[noreturn]] void give_up(const std::string& what) const {
    say(fails, what);
    _exit(static_cast<int>(Exit::failed));
  }

  int report_;
  const Pipe& output_;
  std::string step_ = "loading";
};

void settle_in(pid_t parent, const Pipe& output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(Exit::failed));  // it died before the line above
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // The plan, and what a library says about itself on standard error, are nothing to a module that was not chosen.
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere < 0 || dup2(nowhere, STDIN_FILENO) < 0 || dup2(output.writing.get(), STDOUT_FILENO) < 0 ||
      dup2(nowhere, STDERR_FILENO) < 0) {
    _exit(static_cast<int>(Exit::failed));
  }
  fcntl(output.writing.get(), F_SETFL, O_NONBLOCK);  // nobody reads it while a module runs
}

// ------------------------------------------------------------------------------------------------ in this process

std::string how_it_ended(int status, bool late) {
  if (late && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "did not return within %g s", probing_s);
    return text.data();
  }
  if (!WIFSIGNALED(status)) return "ended the process with exit code " + std::to_string(WEXITSTATUS(status));
  const char* const name = strsignal(WTERMSIG(status));
  return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + (name != nullptr ? name : "?") + ")";
}

// Ends the process and what it started. It has until the deadline to end by itself. Its status, as of waitpid.
int end_process(pid_t pid, std::int64_t deadline_ns) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0 &&
         now_ns() < deadline_ns) {
    poll(nullptr, 0, 1);
  }
  kill(-pid, SIGKILL);  // while the dead leader still holds the number of the group
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// One process, and what it has found out so far.
class Probing {
 public:
  Probing(std::span<const std::string> paths, std::vector<Result<ProbedModule>>& found)
      : paths_(paths), found_(found), first_(found.size()) {}

  // Until all have been looked at, or one of them has stopped the process. At least one more is found out.
  void run() {
    std::optional<Pipe> report = make_pipe();
    std::optional<Pipe> output = make_pipe();
    std::fflush(nullptr);  // or the other process would write what is buffered here
    const pid_t parent = getpid();
    if (!report || !output) return start_nothing();
    const pid_t pid = fork();
    if (pid < 0) return start_nothing();
    if (pid == 0) {
      settle_in(parent, *output);
      Inspector inspector(report->writing.get(), *output);
      for (const std::string& path : paths_.subspan(first_)) inspector.inspect(path);
      _exit(0);
    }
    setpgid(pid, pid);  // on both sides: whoever is first, a signal to the group finds it
    report->writing.reset();
    output.reset();
    listen(report->reading.get());
    const int status = end_process(pid, over() || late_ ? 0 : deadline_ns_);
    if (over()) return;
    // The thread of another module may have done it, so it is looked at once more, first of all. Not where it took
    // long: nobody waits for that twice.
    if (found_.size() > first_ && !late_) return;
    blame(fault_.empty() ? step_ + " " + how_it_ended(status, late_) + remedy : fault_ + remedy);
  }

 private:
  [[nodiscard]] bool over() const { return found_.size() == paths_.size(); }
  void start_nothing() {
    const std::string why = std::strerror(errno);
    while (!over()) blame("no process can be started to look at it: " + why);
  }
  void blame(const std::string& what) { add(failed("module " + paths_[found_.size()] + ": " + what)); }
  void add(Result<ProbedModule> result) {
    found_.push_back(std::move(result));
    current_ = {};
    step_ = "loading";
    deadline_ns_ = now_ns() + limit_ns;
  }

  void listen(int fd) {
    deadline_ns_ = now_ns() + limit_ns;
    std::string words;
    while (!over() && fault_.empty()) {
      const std::int64_t left_ns = deadline_ns_ - now_ns();
      pollfd wait{fd, POLLIN, 0};
      const int ready = left_ns > 0 ? poll(&wait, 1, static_cast<int>(left_ns / 1'000'000) + 1) : 0;
      if (ready < 0 && errno == EINTR) continue;
      late_ = ready == 0;
      if (ready <= 0) return;
      std::array<char, 4096> chunk{};
      const ssize_t got = read(fd, chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || words.size() > most_words) return;
      words.append(chunk.data(), static_cast<std::size_t>(got));
      for (auto end = words.find('\0'); end != std::string::npos && !over(); end = words.find('\0')) {
        hear(std::string_view(words).substr(0, end));
        words.erase(0, end + 1);
      }
    }
  }

  void hear(std::string_view said) {
    const std::string text(said.substr(said.empty() ? 0 : 1));
    switch (said.empty() ? '\0' : said[0]) {
      case begins: step_ = text; break;
      case describes: current_.description = text; break;
      case answers:
        current_.reason = text;
        add(std::move(current_));
        break;
      case fails: fault_ = text; break;
      case is_unusable: add(usage(text)); break;
      case lacks: add(unavailable(text)); break;
      default: break;  // a module has written into the pipe; what it breaks is its own
    }
  }

  std::span<const std::string> paths_;
  std::vector<Result<ProbedModule>>& found_;
  std::size_t first_;
  ProbedModule current_;
  std::string step_ = "loading", fault_;
  std::int64_t deadline_ns_ = 0;
  bool late_ = false;
};

}  // namespace

Result<std::unique_ptr<Layer>> load_layer(const std::string& path, const Step& step) {
  const auto begin = [&](const char* what) {
    if (step) step(what);
  };
  begin("loading");
  // RTLD_LOCAL: two modules may bind two builds of one library.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    const std::string said = "module " + path + " cannot be loaded: " + (why != nullptr ? why : "unknown reason");
    const std::string get = library_command(path);
    if (get.empty()) return unavailable(said + "; install what is missing, or remove the module");
    return unavailable(said + "; install its library (" + get +
                       "), and build netpipe again if that is another version");
  }
  using Entry = const np_module* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, NP_ENTRY));
  if (entry == nullptr) {
    dlclose(library);
    return usage(path + " is not a netpipe module: it does not export " NP_ENTRY "(); see docs/writing-a-module.md");
  }
  begin(NP_ENTRY "()");
  const np_module* const table = entry();
  begin("its table");
  Result<std::unique_ptr<Layer>> layer = Layer::of(table, path);
  if (!layer) dlclose(library);  // the sentence has copied what it names of the library
  return layer;
}

std::string probe_reason(const Layer& layer) {
  if (layer.probe == nullptr) return {};
  std::array<char, 512> message{};
  if (layer.probe(message.data(), message.size()) == NP_OK) return {};
  message.back() = '\0';
  return message[0] != '\0' ? message.data() : "the module does not say why";
}

std::vector<Result<ProbedModule>> probe_modules(const std::vector<std::string>& paths) {
  std::vector<Result<ProbedModule>> found;
  while (found.size() < paths.size()) Probing(paths, found).run();
  return found;
}

}  // namespace netpipe
