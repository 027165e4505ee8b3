#include "agent/workers/worker_launcher.h"

#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/process/v2/posix/default_launcher.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "agent/workers/close_descriptors.h"
#include "common/check.h"
#include "proto/memory_block.h"

namespace ddprun {
namespace {

namespace process = boost::process::v2;
using boost::system::error_code;

// The properties that a worker's process must have, for any Boost.Process launcher.
struct WorkerSetup {
  const char* directory = nullptr;                   // nullptr: the agent's own.
  const std::vector<unsigned long>* cpus = nullptr;  // A mask; nullptr: the agent's own.
  ChildStdio stdio{};
  const std::vector<int>* kept = nullptr;
  const std::vector<MemoryBlock>* blocks = nullptr;
  char* own_pid = nullptr;  // Where its number is wanted, as text; nullptr: nowhere.
  const char* const* environment = nullptr;
  pid_t agent = 0;
  bool helper = false;
  bool outlives = false;
  LaunchUnderWay* under_way = nullptr;
  const char* step = "start a process for";  // The step that was being tried, for the message.

  template <class Launcher>
  error_code on_setup(Launcher& launcher, const process::filesystem::path&, const char* const*&) {
    launcher.env = environment;
    return {};
  }

  template <class Launcher>
  error_code on_exec_setup(Launcher&, const process::filesystem::path&, const char* const*&) {
    return Apply() ? error_code{} : error_code(errno, boost::system::system_category());
  }

  bool Apply();
  bool HandOnBlocks() const;
};

bool WorkerSetup::Apply() {
  if (under_way != nullptr && !under_way->Begun(::getpid())) {
    errno = ECANCELED;
    return false;
  }
  step = "start a session for";
  if (helper ? !outlives && ::setpgid(0, 0) != 0 : ::setsid() < 0) {
    return false;
  }
  step = "tie to its agent";
  if (!outlives && ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return false;
  }
  if (::getppid() != agent) {  // The agent died before prctl: no signal would come.
    errno = ESRCH;
    return false;
  }
  // Where Yama lets only ancestors look at a process, the agent's tools may. Elsewhere the kernel
  // refuses, and that is no matter.
  (void)::prctl(PR_SET_PTRACER, agent, 0, 0, 0);
  step = "bind to its CPUs";
  if (cpus != nullptr && ::syscall(SYS_sched_setaffinity, 0, cpus->size() * sizeof(unsigned long),
                                   cpus->data()) != 0) {
    return false;
  }
  step = "set the limits of";
  const auto& limits = UserLimits();
  for (std::size_t i = 0; i < limits.size(); ++i) {
    rlimit now{};
    if (!limits[i] || ::getrlimit(static_cast<__rlimit_resource>(i), &now) != 0 ||
        (now.rlim_cur == limits[i]->rlim_cur && now.rlim_max == limits[i]->rlim_max)) {
      continue;
    }
    if (::setrlimit(static_cast<__rlimit_resource>(i), &*limits[i]) != 0) {
      return false;
    }
  }
  step = "connect the output of";
  for (int target = 0; target < 3; ++target) {
    if (stdio[target] != target && ::dup2(stdio[target], target) < 0) {
      return false;
    }
  }
  // Boost 1.81's own close_all leaves gaps; this leaves nothing.
  if (!ChangeDescriptors(3, Descriptors::kClosedOnExec)) {
    return false;
  }
  for (const int descriptor : *kept) {
    if (::fcntl(descriptor, F_SETFD, 0) != 0) {
      return false;
    }
  }
  step = "hand memory on to";
  if (!HandOnBlocks()) {
    return false;
  }
  step = "enter the working directory of";
  if (directory != nullptr && ::chdir(directory) != 0) {
    return false;
  }
  // Last, with every signal blocked until here: no handler of the agent may run in shared memory.
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  step = "execute";
  return true;
}

bool WorkerSetup::HandOnBlocks() const {
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    if (::dup2((*blocks)[i].file->get(), kFirstBlock + static_cast<int>(i)) < 0) {
      return false;
    }
  }
  if (own_pid != nullptr) {
    *std::to_chars(own_pid, own_pid + kPidRoom - 1, ::getpid()).ptr = '\0';
  }
  return true;
}

// A Boost.Process launcher. The library's vfork_launcher tells Asio of the fork from inside the
// child, which shares the agent's memory, and calls exit() there (boostorg/process issues 314 and
// 514); its default_launcher copies the whole address space. This one does what glibc's
// posix_spawn does: a stack of its own and every signal blocked while memory is shared.
struct SharedMemoryLauncher : process::posix::default_launcher {
  template <class Setup>
  LaunchedWorker Launch(error_code& ec, const process::filesystem::path& file,
                        const char** arguments, Setup& setup) {
    const char* const* argv = this->build_argv_(file, arguments);
    ec = process::posix::detail::on_setup(*this, file, argv, setup);
    if (ec) {
      return {};
    }
    struct Child {
      SharedMemoryLauncher& launcher;
      const process::filesystem::path& file;
      const char* const* argv;
      Setup& setup;
      error_code& ec;
    } child{*this, file, argv, setup, ec};
    const auto run = [](void* argument) -> int {
      Child& c = *static_cast<Child*>(argument);
      c.ec = process::posix::detail::on_exec_setup(c.launcher, c.file, c.argv, c.setup);
      if (!c.ec) {
        ::execve(c.file.c_str(), const_cast<char* const*>(c.argv),
                 const_cast<char* const*>(c.launcher.env));
        c.ec.assign(errno, boost::system::system_category());
      }
      return 127;  // clone() ends the child with it, without running exit handlers.
    };
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    int pidfd = -1;
    pid = Clone(run, &child, &pidfd);
    const int clone_error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (setup.under_way != nullptr) {
      setup.under_way->End();
    }
    if (pid < 0) {
      ec.assign(clone_error, boost::system::system_category());
    } else if (ec) {
      ::close(pidfd);
      ::waitpid(pid, nullptr, 0);
    } else {
      return {pid, UniqueFd(pidfd)};
    }
    return {};
  }

  static pid_t Clone(int (*run)(void*), void* argument, int* pidfd) {
    constexpr std::size_t kStack = 64 * 1024;
    void* const stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
      return -1;
    }
    const pid_t pid = ::clone(run, static_cast<char*>(stack) + kStack,
                              CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, argument, pidfd);
    const int clone_error = errno;
    ASAN_UNPOISON_MEMORY_REGION(stack, kStack);  // execve left its frames without returning.
    ::munmap(stack, kStack);
    errno = clone_error;
    return pid;
  }
};

std::vector<const char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(text.c_str());
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string LimitOfProcesses(int error_number) {
  return error_number == EAGAIN   ? " (the limit of processes is reached: ulimit -u, the cgroup's "
                                    "pids.max) [process-limit]"
         : error_number == ENOMEM ? " (no memory for one more process) [process-limit]"
                                  : "";
}

std::vector<unsigned long> MaskOf(const CpuSet& cpus) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(cpus.empty() ? 0 : *cpus.rbegin() / kBits + 1);
  for (const int cpu : cpus) {
    mask[cpu / kBits] |= 1UL << (cpu % kBits);
  }
  return mask;
}

LaunchUnderWay::LaunchUnderWay() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Either the process sees that it was given up, or the giving up sees the process.
bool LaunchUnderWay::Begun(pid_t pid) {
  pid_ = pid;
  return !given_up_;
}

void LaunchUnderWay::GiveUp() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  ::eventfd_write(wake_.get(), 1);
  if (const pid_t pid = pid_; pid != 0) {
    ::kill(pid, SIGKILL);
  }
}

void LaunchUnderWay::End() {
  const std::lock_guard lock(mutex_);
  pid_ = 0;
}

const std::array<std::optional<rlimit>, RLIMIT_NLIMITS>& UserLimits() {
  static const auto limits = [] {
    std::array<std::optional<rlimit>, RLIMIT_NLIMITS> found;
    for (std::size_t i = 0; i < found.size(); ++i) {
      rlimit limit{};
      if (::getrlimit(static_cast<__rlimit_resource>(i), &limit) == 0) {
        found[i] = limit;
      }
    }
    return found;
  }();
  return limits;
}

Result<LaunchedWorker> LaunchWorker(const WorkerSpec& spec, const ChildStdio& stdio,
                                    LaunchUnderWay* under_way) {
  UserLimits();  // Its first call must not be in the child.
  std::vector<std::string> assignments;
  if (!spec.first_variable.empty()) {
    assignments.push_back(spec.first_variable);
  }
  for (const auto& [name, value] : spec.environment) {
    assignments.push_back(name + "=" + value);
  }
  for (const MemoryBlock& block : spec.blocks) {
    CHECK(block.file->get() >= kAboveBlocks);
  }
  std::string listen_pid = "LISTEN_PID=";
  const std::size_t known = listen_pid.size();
  listen_pid.resize(known + kPidRoom);
  std::vector<const char*> environment = Pointers(assignments);
  const bool listens = spec.environment.contains("LISTEN_FDS");
  if (listens) {
    environment.back() = listen_pid.c_str();
    environment.push_back(nullptr);
  }
  std::vector<const char*> argv = Pointers(spec.command.argv);
  const std::vector<unsigned long> mask = MaskOf(spec.cpus);
  WorkerSetup setup{.directory = spec.directory.empty() ? nullptr : spec.directory.c_str(),
                    .cpus = mask.empty() ? nullptr : &mask,
                    .stdio = stdio,
                    .kept = &spec.kept,
                    .blocks = &spec.blocks,
                    .own_pid = listens ? listen_pid.data() + known : nullptr,
                    .environment = environment.data(),
                    .agent = ::getpid(),
                    .helper = spec.helper,
                    .outlives = spec.outlives,
                    .under_way = under_way};
  error_code ec;
  LaunchedWorker worker =
      SharedMemoryLauncher{}.Launch(ec, spec.command.file.native(), argv.data(), setup);
  if (!ec) {
    return worker;
  }
  Error error = SystemError(setup.step, spec.command.file.native(), ec.value());
  const bool executing = std::string_view(setup.step) == "execute";
  if (executing && ec.value() == ENOEXEC) {
    error.message +=
        " (does its first line name an interpreter, as #!/bin/sh? A program in Python is started "
        "as: python3 " +
        spec.command.file.native() + ")";
  } else if (executing && ec.value() == ENOENT && ::access(spec.command.file.c_str(), F_OK) == 0) {
    error.message += " (the file exists, but not the interpreter in its first line)";
  } else if (executing && ec.value() == EACCES) {
    error.message += " (is it executable: chmod +x?)";
  } else if (const std::string limit = LimitOfProcesses(ec.value()); !limit.empty()) {
    error = {ErrorKind::kUnavailable, error.message + limit};
  } else if (!spec.directory.empty() && !executing) {
    error.message += " (directory '" + spec.directory.native() + "')";
  }
  return error;
}

}  // namespace ddprun
