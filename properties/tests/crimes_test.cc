// Whatever a subject does behind its wall, a call comes back with what it did, and the next one is answered.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "behind_wall.h"
#include "norma/check.h"

namespace norma::properties {
namespace {

using Kind = Reply::Kind;

struct Crime {
  const char* name;
  Normalize commit;
  Kind kind;
  const char* says;
  std::uint64_t salt;
};
void PrintTo(const Crime& of, std::ostream* to) { *to << of.name; }
std::byte* y_end(const ByRole<View>& o) { return o[Role::y]->data + 24; }

// Deeper than any stack, and nothing that a compiler makes a loop of.
int recurse(int depth) {
  volatile char room[4096] = {};
  return depth == 0 ? room[0] : recurse(depth - 1) + room[1] + 1;
}

std::vector<Crime> crimes() {
  std::vector<Crime> all{
      {"writes_past_the_end_into_the_wall", [](auto&, auto&, auto& o) { return *y_end(o) = std::byte{1}, Status{}; }, Kind::crashed,
       "wrote 1 byte beyond the end of y", 1},
      {"writes_past_the_end_where_no_wall_is",
       [](auto& s, auto& i, auto& o) {
         Status status = by_reference(s, i, o);
         *y_end(o) = std::byte{1};
         return status;
       },
       Kind::misbehaved, "wrote 1 byte beyond the end of y", 0},
      {"writes_before_the_start_into_the_wall", [](auto&, auto&, auto& o) { return o[Role::y]->data[-4] = std::byte{1}, Status{}; },
       Kind::crashed, "4 bytes before the start of y", 0},
      {"writes_before_the_start_where_no_wall_is",
       [](auto& s, auto& i, auto& o) {
         Status status = by_reference(s, i, o);
         o[Role::y]->data[-4] = std::byte{1};
         return status;
       },
       Kind::misbehaved, "wrote 4 bytes before the start of y", 1},
      {"writes_to_x", [](auto&, auto& i, auto&) { return *const_cast<std::byte*>(i[Role::x]->data) = std::byte{1}, Status{}; },
       Kind::crashed, "wrote to x, which is an input", 0},
      {"reads_past_x",
       [](auto&, auto& i, auto&) {
         return Status{*(i[Role::x]->data + 24 + 3) == std::byte{1} ? Code::ok : Code::io_error, "?"};
       },
       Kind::crashed, "read 4 bytes beyond the end of x", 0},
      {"leaves_one_unwritten",
       [](auto& s, auto& i, auto& o) {
         std::byte before[4];
         std::memcpy(before, o[Role::y]->data + 12, 4);
         Status status = by_reference(s, i, o);
         std::memcpy(o[Role::y]->data + 12, before, 4);
         return status;
       },
       Kind::misbehaved, "y[3] was not written", 0},
      {"reads_past_x_where_no_wall_is",
       [](auto& s, auto& i, auto& o) {
         Status status = by_reference(s, i, o);
         float x = 0;
         std::memcpy(&x, i[Role::x]->data + 24, sizeof x);
         return std::isnan(x) ? status : Status{Code::io_error, "a number"};
       },
       Kind::ok, "", 1},
      {"takes_a_stride_too_many", [](auto&, auto&, auto& o) { return o[Role::y]->data[24 + 40'000] = std::byte{1}, Status{}; },
       Kind::crashed, "wrote 40001 bytes beyond the end of y", 1},
      {"exits_as_if_all_was_well", [](auto&, auto&, auto&) -> Status { std::exit(0); }, Kind::crashed, "exited with status 0", 0},
      {"throws", [](auto&, auto&, auto&) -> Status { throw std::runtime_error("no gain"); }, Kind::misbehaved,
       "let an exception out: no gain", 0},
      {"throws_something", [](auto&, auto&, auto&) -> Status { throw 7; }, Kind::misbehaved, "let an exception out", 0},
      {"has_no_memory", [](auto&, auto&, auto&) -> Status { throw std::bad_alloc(); }, Kind::refused, "no memory", 0},
      {"closes_what_it_did_not_open",
       [](auto&, auto&, auto&) -> Status {
         close_range(0, ~0U, 0);
         for (;;) pause();
       },
       Kind::crashed, "closed its connection to the harness", 0},
      {"closes_what_it_did_not_open_and_answers",
       [](auto& s, auto& i, auto& o) {
         close_range(0, ~0U, 0);
         return by_reference(s, i, o);
       },
       Kind::crashed, "closed its connection to the harness", 0},
      {"closes_standard_output",
       [](auto& s, auto& i, auto& o) {
         std::fclose(stdout);
         close(STDERR_FILENO);
         return by_reference(s, i, o);
       },
       Kind::ok, "", 0},
      {"stops_itself",
       [](auto&, auto&, auto&) -> Status {
         raise(SIGSTOP);
         return {};
       },
       Kind::hung, "no answer within 300 ms", 0},
      {"leaves_a_child_behind",
       [](auto&, auto&, auto&) -> Status {
         if (fork() == 0) {
           for (;;) pause();
         }
         std::abort();
       },
       Kind::crashed, "killed by SIGABRT", 0},
      {"prints_a_lot_and_dies",
       [](auto&, auto&, auto&) -> Status {
         for (int k = 0; k < 20'000; ++k) std::puts("noise");
         std::puts("assertion failed: n > 1");
         std::abort();
       },
       Kind::crashed, "it said: assertion failed: n > 1", 0},
      {"prints_for_ever",
       [](auto&, auto&, auto&) -> Status {
         for (;;) std::puts("noise");
       },
       Kind::hung, "it said: noise", 0},
      {"kills_itself",
       [](auto&, auto&, auto&) -> Status {
         raise(SIGSEGV);
         return {};
       },
       Kind::crashed, "killed by SIGSEGV", 0},
      {"runs_out_of_stack",
       [](auto&, auto&, auto&) {
         return Status{recurse(1'000'000'000) != 0 ? Code::ok : Code::io_error, ""};
       },
       Kind::crashed, "killed by SIGSEGV: it ran out of stack", 0},
      {"aborts", [](auto&, auto&, auto&) -> Status { std::abort(); }, Kind::crashed, "SIGABRT", 0},
      {"exits", [](auto&, auto&, auto&) -> Status { _exit(3); }, Kind::crashed, "exited with status 3", 0},
      {"follows_null",
       [](auto&, auto&, auto&) -> Status {
         volatile std::uintptr_t field = 64;  // volatile: a compiler that sees what comes refuses it
         return {*reinterpret_cast<volatile Code*>(field), ""};
       },
       Kind::crashed, "killed by SIGSEGV: read what a null pointer points to", 0},
      {"says_why_and_dies",
       [](auto&, auto&, auto&) -> Status {
         (void)!write(STDERR_FILENO, "first\nassertion failed: n > 1\n", 29);
         std::abort();
       },
       Kind::crashed, "it said: assertion failed: n > 1", 0},
      {"hangs",
       [](auto&, auto&, auto&) -> Status {
         for (;;) pause();
       },
       Kind::hung, "no answer within 300 ms", 0},
      {"eats_memory",
       [](auto&, auto&, auto&) -> Status {
         const void* much = mmap(nullptr, std::size_t{8} << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
         return much == MAP_FAILED ? Status{Code::no_memory, "no more"} : Status{};
       },
       Kind::refused, "no more", 0},
      {"does_not_do_this",
       [](auto&, auto&, auto&) {
         return Status{Code::bad_parameter, "no gain"};
       },
       Kind::unsupported, "no gain", 0},
      {"prints_on_standard_output",
       [](auto& s, auto& i, auto& o) {
         for (int k = 0; k < 20'000; ++k) (void)!write(STDOUT_FILENO, "noise\n", 6);
         return by_reference(s, i, o);
       },
       Kind::ok, "", 0},
  };
#if defined(__x86_64__)
  all.push_back({"stores_as_if_aligned",
                 [](auto&, auto&, auto& o) {
                   asm volatile("movaps %%xmm0, (%0)" ::"r"(o[Role::y]->data) : "memory");
                   return Status{};
                 },
                 Kind::crashed, "killed by SIGSEGV: an aligned load or store of what is not aligned", 1});
#endif
  return all;
}

class Walls : public ::testing::TestWithParam<Crime> {};
INSTANTIATE_TEST_SUITE_P(Crimes, Walls, ::testing::ValuesIn(crimes()), [](const auto& i) { return std::string(i.param.name); });

TEST_P(Walls, Hold) {
  const Crime& crime = GetParam();
  Limits limits;
  limits.time = std::chrono::milliseconds(crime.kind == Kind::hung ? 300 : 4000);
#if defined(NORMA_SANITIZE)
  limits.memory = 0;
  if (std::string_view(crime.name) == "eats_memory") GTEST_SKIP() << "no limit of memory under a sanitizer, which reserves terabytes";
#endif
  const std::unique_ptr<Subject> subject =
      behind_wall([&crime](const Spec& s, const ByRole<ConstView>& i,
                           const ByRole<View>& o) { return s.epsilon == 1.0 ? by_reference(s, i, o) : crime.commit(s, i, o); },
                  limits);
  const auto begin = std::chrono::steady_clock::now();
  const Reply reply = subject->run(small_case(crime.salt));
  EXPECT_EQ(reply.kind, crime.kind) << reply.what;
  EXPECT_NE(reply.what.find(crime.says), std::string::npos) << reply.what;
  EXPECT_EQ(reply.what.find('\n'), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  // The next one is answered as if nothing had been.
  Case honest = small_case(crime.salt);
  honest.spec.epsilon = 1.0;
  const Reply next = subject->run(honest);
  EXPECT_EQ(next.kind, Kind::ok) << next.what;
}

// A search finds the crime, shrinks it, and goes on.
TEST(Crimes, AreFindingsOfASearchThatGoesOn) {
  struct {
    Normalize commit;
    Kind kind;
    const char* says;
  } const all[] = {
      {[](auto&, auto&, auto&) -> Status { std::abort(); }, Kind::crashed, "crashed: killed by SIGABRT"},
      {[](auto&, auto&, auto&) -> Status {
         for (;;) pause();
       },
       Kind::hung, "hung: no answer within 40 ms"},
      {[](auto&, auto&, auto&) { return Status{}; }, Kind::misbehaved, "[0] was not written"},
      {[](auto&, auto&, auto&) {
         return Status{Code::io_error, "no device"};
       },
       Kind::refused, "refused: no device"},
  };
  for (const auto& crime : all) {
    Limits limits;
    limits.time = std::chrono::milliseconds(40);
#if defined(NORMA_SANITIZE)
    limits.memory = 0;
#endif
    const std::unique_ptr<Subject> subject =
        behind_wall([&](const Spec& s, const ByRole<ConstView>& i,
                        const ByRole<View>& o) { return i[Role::x]->shape.back() == 17 ? crime.commit(s, i, o) : by_reference(s, i, o); },
                    limits);
    Settings settings;
    settings.cases = 300;
    settings.ops = {Op::layer_norm};
    settings.formats = {Format::f32};
    settings.laws = {"tails", "deterministic"};
    const Report report = check(*subject, settings);
    ASSERT_EQ(report.laws.size(), 2U);
    for (const LawReport& r : report.laws) {
      ASSERT_GT(r.broken, 0) << crime.says;
      EXPECT_GT(r.held, 10 * r.broken) << crime.says;
      EXPECT_EQ(r.first->reply, crime.kind);
      EXPECT_NE(r.first->what.find(crime.says), std::string::npos) << r.first->what;
      EXPECT_EQ(r.first->smallest.x().shape.back(), 17) << to_line(r.first->smallest);
    }
  }
}

// Both go on from where one of them was made. What the later one says is not taken for the answer to the next call.
TEST(Crimes, OfTwoThatComeBackOneAnswers) {
  const std::unique_ptr<Subject> subject = behind_wall([](const Spec& s, const ByRole<ConstView>& i, const ByRole<View>& o) {
    if (s.epsilon == 1.0) {
      usleep(50'000);
      return by_reference(s, i, o);
    }
    if (fork() == 0) usleep(20'000);
    return Status{Code::bad_parameter, "no"};
  });
  EXPECT_EQ(subject->run(small_case()).kind, Kind::unsupported);
  usleep(200'000);
  Case next = small_case();
  next.spec.epsilon = 1.0;
  const Reply reply = subject->run(next);
  EXPECT_EQ(reply.kind, Kind::ok) << reply.what;
}

// Processes that make processes, whether their subject is dead or hangs.
TEST(Crimes, AForkBombIsDefused) {
  void* const shared = mmap(nullptr, sizeof(std::atomic<int>[2]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const counts = new (shared) std::atomic<int>[2] {};
  std::atomic<int>&made = counts[0], &beats = counts[1];
  for (const bool dies : {false, true}) {
    made = beats = 0;
    Limits limits;
    limits.time = std::chrono::milliseconds(dies ? 10'000 : 1000);
    const std::unique_ptr<Subject> subject = behind_wall(
        [&, dies](const Spec& s, const ByRole<ConstView>& i, const ByRole<View>& o) -> Status {
          if (s.epsilon == 1.0) return by_reference(s, i, o);
          const pid_t self = getpid();
          alarm(10);  // should nobody defuse it; of each process its own
          for (;;) {
            if (made.fetch_add(1) < 10 && fork() == 0) alarm(10);
            if (dies && getpid() == self && beats > 300) std::abort();
            ++beats;
            usleep(100);
          }
        },
        limits);
    const Reply reply = subject->run(small_case());
    EXPECT_EQ(reply.kind, dies ? Kind::crashed : Kind::hung) << reply.what;
    const int then = beats;
    usleep(100'000);
    EXPECT_GT(then, 100);
    EXPECT_EQ(beats, then);
    Case honest = small_case();
    honest.spec.epsilon = 1.0;
    EXPECT_EQ(subject->run(honest).kind, Kind::ok);
  }
  munmap(shared, sizeof(std::atomic<int>[2]));
}

}  // namespace
}  // namespace norma::properties
