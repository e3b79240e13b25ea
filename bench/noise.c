/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes this machine bad on purpose and in a known way, so that what is to hold on a bad machine can be tried on any.
 *
 *     noise [--seed N] [--seconds S] [--cpus a,b,..] [--plan]
 *           [--steal FRACTION] [--burst-ms MEAN] [--priority normal|raised]
 *           [--bandwidth FRACTION] [--memory MIB] [--wakeups RATE]
 *
 * steal: on each processor a pinned thread computes in bursts, FRACTION of the time. Bursts and the gaps between them
 * have exponential lengths; a burst counts processor time, so beside somebody who wants the processor too it lasts
 * longer by the clock, and what follows comes later. With --priority raised (SCHED_FIFO) nobody else has the processor
 * in a burst, as when a hypervisor takes it.
 *
 * bandwidth: one thread goes through more memory than the last-level cache holds, reads and writes each line, for
 * FRACTION of the time, in bursts likewise. It has to run somewhere: its processor time is stolen as well.
 *
 * wakeups: on each processor a thread sleeps until its next timer, about RATE times a second. Timers come in bursts,
 * and from burst to burst the rate wanders between a quarter and four times the mean, so that the depth of idle states,
 * and what it takes to wake from them, wanders.
 *
 * What is planned depends on the seed and the options alone; --plan prints it and does nothing. The first line of a run
 * says that all threads are there, the last one, a JSON object, what they really did. It ends at its deadline, on
 * SIGTERM and with its parent, whatever happens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { kMostCpus = 1024, kLine = 64, kPiece = 1 << 20 };
static const int64_t kSecond = 1000000000, kLongestSleep = 20000000, kLook = 20000;
static const double kWakeBurstNs = 0.2e9;     /* mean length of a burst of timers, and of the silence after it */
static const double kStreamBurstNs = 0.002e9; /* of a burst of memory traffic */

static volatile sig_atomic_t told_to_stop;
static void stop(int signal) {
  (void)signal;
  told_to_stop = 1;
}

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * kSecond + t.tv_nsec;
}

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "noise: %s: %s\n", what, strerror(errno));
  exit(4);
}

/* ------------------------------------------------------------------------------------------------- what is planned */

static uint64_t draw(uint64_t* state) { /* splitmix64 */
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static double uniform(uint64_t* state) { return (double)(draw(state) >> 11) * 0x1p-53; }
static double exponential(uint64_t* state, double mean) { return -log1p(-uniform(state)) * mean; }

enum kind { STEAL, STREAM, WAKE };
static const char* const names[] = {"steal", "stream", "wake"};

/* One thread's plan: bursts of processor time, or timers, which last no time. */
typedef struct plan {
  enum kind kind;
  uint64_t random;
  double burst_ns, gap_ns;   /* means */
  double rate, walk;         /* of timers: a second, and log4 of this burst's rate over it */
  int64_t at_ns, silence_ns; /* how far it is planned; of timers, when this burst of them ends */
} plan;

typedef struct event {
  int64_t at_ns, for_ns; /* after the beginning */
} event;

static event next_event(plan* p) {
  if (p->kind != WAKE) {
    const int64_t at = p->at_ns + (int64_t)exponential(&p->random, p->gap_ns);
    const event e = {at, (int64_t)exponential(&p->random, p->burst_ns) + 1};
    p->at_ns = e.at_ns + e.for_ns;
    return e;
  }
  p->at_ns += (int64_t)exponential(&p->random, 1e9 / (2 * p->rate * exp2(2 * p->walk))) + 1;
  if (p->at_ns >= p->silence_ns) {
    p->at_ns = p->silence_ns + (int64_t)exponential(&p->random, kWakeBurstNs);
    p->silence_ns = p->at_ns + (int64_t)exponential(&p->random, kWakeBurstNs);
    p->walk += uniform(&p->random) - 0.5;
    if (p->walk > 1) p->walk = 2 - p->walk;
    if (p->walk < -1) p->walk = -2 - p->walk;
  }
  return (event){p->at_ns, 0};
}

/* ------------------------------------------------------------------------------------------------- what is done */

typedef struct worker {
  plan planned;
  pthread_t thread;
  int cpu; /* -1: any of the chosen ones */
  int raised;
  int64_t begin_ns, end_ns;
  uint64_t* memory; /* STREAM */
  size_t words, next;
  uint64_t events;
  int64_t planned_ns, busy_ns, late_ns, latest_ns, bytes;
} worker;

static int over(const worker* w) { return told_to_stop || clock_ns(CLOCK_MONOTONIC) >= w->end_ns; }

/* false: it is over. In slices, because a signal may come to another thread. */
static int sleep_until(const worker* w, int64_t at_ns) {
  for (int64_t now = clock_ns(CLOCK_MONOTONIC); now < at_ns; now = clock_ns(CLOCK_MONOTONIC)) {
    if (over(w)) return 0;
    int64_t next = at_ns - now > kLongestSleep ? now + kLongestSleep : at_ns;
    if (next > w->end_ns) next = w->end_ns;
    const struct timespec until = {next / kSecond, next % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
  }
  return !over(w);
}

static void compute(void) { /* some 20 us */
  uint64_t state = 1;
  for (int64_t i = 0; i < kLook; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    __asm__ volatile("" : "+r"(state));
  }
}

static void stream(worker* w) {
  const size_t step = kLine / sizeof(uint64_t);
  for (size_t i = 0; i < kPiece / sizeof(uint64_t); i += step) w->memory[w->next + i] += 1;
  __asm__ volatile("" : : "r"(w->memory) : "memory");
  w->next += kPiece / sizeof(uint64_t);
  if (w->next >= w->words) w->next = 0;
  w->bytes += 2 * kPiece; /* each line is read and written */
}

static void burst(worker* w, int64_t for_ns) {
  const int64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  int64_t spent = 0;
  while (spent < for_ns && !over(w)) {
    w->planned.kind == STREAM ? stream(w) : compute();
    spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
  }
  w->busy_ns += spent;
}

static void* work(void* of) {
  worker* const w = of;
  for (;;) {
    const event e = next_event(&w->planned);
    const int64_t at = w->begin_ns + e.at_ns;
    if (at >= w->end_ns) return NULL;
    const int awake = sleep_until(w, at);
    if (told_to_stop && clock_ns(CLOCK_MONOTONIC) < at) return NULL;
    w->planned_ns += at + e.for_ns > w->end_ns ? w->end_ns - at : e.for_ns;
    if (!awake) continue; /* over, but what was planned until now is counted */
    ++w->events;
    const int64_t late = clock_ns(CLOCK_MONOTONIC) - at;
    w->late_ns += late;
    if (late > w->latest_ns) w->latest_ns = late;
    if (w->planned.kind != WAKE) burst(w, e.for_ns);
  }
}

static void start(worker* w, const cpu_set_t* all) {
  pthread_attr_t how;
  cpu_set_t set = *all;
  if (w->cpu >= 0) {
    CPU_ZERO(&set);
    CPU_SET((unsigned)w->cpu, &set);
  }
  pthread_attr_init(&how);
  pthread_attr_setaffinity_np(&how, sizeof set, &set);
  if (w->raised) {
    const struct sched_param first = {.sched_priority = 1};
    pthread_attr_setinheritsched(&how, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&how, SCHED_FIFO);
    pthread_attr_setschedparam(&how, &first);
  }
  errno = pthread_create(&w->thread, &how, work, w);
  check(errno == 0, w->raised ? "a thread of raised priority, which needs CAP_SYS_NICE" : "a thread");
  pthread_attr_destroy(&how);
}

/* ------------------------------------------------------------------------------------------------- what it was told */

static double number(const char* name, const char* text, double least, double most) {
  char* end = NULL;
  const double value = strtod(text, &end);
  if (end != text && *end == '\0' && value >= least && value <= most) return value;
  fprintf(stderr, "noise: %s must be a number from %g to %g\n", name, least, most);
  exit(2);
}

static int cpus_of(const char* text, int* cpus) {
  int count = 0;
  if (text != NULL) {
    for (char* end; *text != '\0' && count < kMostCpus; text = *end == ',' ? end + 1 : end) {
      cpus[count++] = (int)strtol(text, &end, 10);
      if (end == text || (*end != ',' && *end != '\0') || cpus[count - 1] < 0 || cpus[count - 1] >= kMostCpus) {
        fprintf(stderr, "noise: --cpus must be processors such as 0,1\n");
        exit(2);
      }
    }
    return count;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  check(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
  for (int cpu = 0; cpu < kMostCpus && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET((unsigned)cpu, &set)) cpus[count++] = cpu;
  }
  return count;
}

/* Mean gap between bursts of this mean length that take up such a fraction of the time. */
static double gap(double burst_ns, double fraction) { return burst_ns * (1 - fraction) / fraction; }

static size_t default_mib(void) { /* more than the last-level cache, but no more than a shared machine can spare */
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t twice = cache > 0 ? 2 * (size_t)cache >> 20 : 128;
  return twice < 64 ? 64 : twice > 1024 ? 1024 : twice;
}

static void say(const worker* w, const char* before) {
  printf("%s{\"what\":\"%s\",\"cpu\":%d,\"events\":%" PRIu64, before, names[w->planned.kind], w->cpu, w->events);
  if (w->planned.kind != WAKE) {
    printf(",\"planned_s\":%.6f,\"stolen_s\":%.6f", (double)w->planned_ns * 1e-9, (double)w->busy_ns * 1e-9);
  }
  if (w->planned.kind == STREAM) printf(",\"bytes\":%" PRId64 ",\"memory_bytes\":%zu", w->bytes, 8 * w->words);
  const double each = w->events > 0 ? (double)w->late_ns / (double)w->events : 0;
  printf(",\"late_us\":%.1f,\"latest_us\":%.1f}", each * 1e-3, (double)w->latest_ns * 1e-3);
}

int main(int argc, char** argv) {
  static int cpus[kMostCpus];
  static worker workers[2 * kMostCpus + 1];
  const char* chosen = NULL;
  double seconds = 10, steal = 0, burst_ms = 5, bandwidth = 0, wakeups = 0, mib = 0;
  uint64_t seed = 1;
  int only_plan = 0, raised = 0;
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(name, "--plan") == 0) {
      only_plan = 1;
      continue;
    }
    if (strcmp(name, "--seed") == 0)
      seed = (uint64_t)number(name, value, 0, 1e15);
    else if (strcmp(name, "--seconds") == 0)
      seconds = number(name, value, 0.01, 86400);
    else if (strcmp(name, "--cpus") == 0)
      chosen = value;
    else if (strcmp(name, "--steal") == 0)
      steal = number(name, value, 0, 0.95);
    else if (strcmp(name, "--burst-ms") == 0)
      burst_ms = number(name, value, 0.1, 1000);
    else if (strcmp(name, "--priority") == 0 && (strcmp(value, "normal") == 0 || strcmp(value, "raised") == 0))
      raised = value[0] == 'r';
    else if (strcmp(name, "--bandwidth") == 0)
      bandwidth = number(name, value, 0, 0.95);
    else if (strcmp(name, "--memory") == 0)
      mib = number(name, value, 1, 1 << 20);
    else if (strcmp(name, "--wakeups") == 0)
      wakeups = number(name, value, 0, 100000);
    else
      return fprintf(stderr, "noise: unknown option %s %s; what there is stands at the top of bench/noise.c\n", name,
                     value),
             2;
    ++i;
  }
  const int count = cpus_of(chosen, cpus);
  if (count == 0 || (steal == 0 && bandwidth == 0 && wakeups == 0))
    return fprintf(stderr, "noise: name a processor and one of --steal, --bandwidth and --wakeups\n"), 2;

  int many = 0;
  for (int i = 0; i < count; ++i) {
    if (steal > 0)
      workers[many++] =
          (worker){.cpu = cpus[i],
                   .raised = raised,
                   .planned = {.kind = STEAL, .burst_ns = burst_ms * 1e6, .gap_ns = gap(burst_ms * 1e6, steal)}};
    if (wakeups > 0) workers[many++] = (worker){.cpu = cpus[i], .planned = {.kind = WAKE, .rate = wakeups}};
  }
  if (bandwidth > 0)
    workers[many++] = (worker){
        .cpu = -1, .planned = {.kind = STREAM, .burst_ns = kStreamBurstNs, .gap_ns = gap(kStreamBurstNs, bandwidth)}};
  for (int i = 0; i < many; ++i) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)i;
    workers[i].planned.random = draw(&state);
  }
  const int64_t length_ns = (int64_t)(seconds * 1e9);
  if (only_plan) {
    for (int i = 0; i < many; ++i) {
      for (event e = next_event(&workers[i].planned); e.at_ns < length_ns; e = next_event(&workers[i].planned))
        printf("%s cpu %d at %" PRId64 " ns for %" PRId64 " ns\n", names[workers[i].planned.kind], workers[i].cpu,
               e.at_ns, e.for_ns);
    }
    return 0;
  }

  /* Whatever happens: with its parent, and a few seconds after its deadline even if no thread of it gets to run. */
  const pid_t parent = getppid();
  check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
  if (getppid() != parent) return 0;
  alarm((unsigned)seconds + 5);
  const struct sigaction on_stop = {.sa_handler = stop};
  check(sigaction(SIGTERM, &on_stop, NULL) == 0 && sigaction(SIGINT, &on_stop, NULL) == 0, "sigaction");
  if (bandwidth > 0) {
    worker* const w = &workers[many - 1];
    const size_t pieces = mib > 0 ? (size_t)mib : default_mib();
    w->words = pieces * kPiece / sizeof(uint64_t);
    w->memory = mmap(NULL, pieces * kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(w->memory != MAP_FAILED, "memory for --bandwidth");
  }
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int i = 0; i < count; ++i) CPU_SET((unsigned)cpus[i], &all);
  const int64_t begin = clock_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < many; ++i) {
    workers[i].begin_ns = begin;
    workers[i].end_ns = begin + length_ns;
    start(&workers[i], &all);
  }
  printf("making noise, seed %" PRIu64 ", for %g s\n", seed, seconds);
  fflush(stdout);
  for (int i = 0; i < many; ++i) pthread_join(workers[i].thread, NULL);
  printf("{\"seed\":%" PRIu64 ",\"seconds\":%.3f,\"cpu_s\":%.6f,\"threads\":[", seed,
         (double)(clock_ns(CLOCK_MONOTONIC) - begin) * 1e-9, (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9);
  for (int i = 0; i < many; ++i) say(&workers[i], i > 0 ? "," : "");
  printf("]}\n");
  return 0;
}
