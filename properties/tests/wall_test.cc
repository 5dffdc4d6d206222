// Whatever a subject does behind its wall, a call comes back with what it did, and the next one is answered.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <ostream>
#include <vector>

#include "direct.h"
#include "norma/generate.h"

namespace norma::properties {
namespace {

using Kind = Reply::Kind;

Case small_case(std::uint64_t salt = 0) {
  Case c = *parse_case("layer_norm f32 x=f32[2,3]:3f800000,40000000,40400000,3f800000*2,40000000 gamma=f32[3]:3f800000*3 epsilon=0x1p-17");
  c.salt = salt;
  return c;
}

Status by_reference(const Spec& spec, const ByRole<ConstView>& inputs, const ByRole<View>& outputs) {
  ByRole<ConstView> all = inputs;
  for (const Role role : {Role::running_mean, Role::running_variance}) {
    if (outputs[role]) all[role] = ConstView{outputs[role]->format, outputs[role]->data, outputs[role]->shape, outputs[role]->strides};
  }
  return compute(spec, all, outputs);
}

using Normalize = std::function<Status(const Spec&, const ByRole<ConstView>&, const ByRole<View>&)>;
std::unique_ptr<Subject> behind_wall(Normalize normalize, Limits limits = {}) {
  Result<std::unique_ptr<Subject>> subject = start(BuiltIn{"test", "", "", std::move(normalize)}, limits);
  EXPECT_TRUE(subject.ok()) << subject.status().message;
  return std::move(*subject);
}

// In any place, layout and order a tensor comes through as it is.
TEST(Wall, PlacementChangesNoValue) {
  const std::unique_ptr<Subject> walled = behind_wall(by_reference);
  Direct direct(BuiltIn{"direct", "", "", by_reference});
  int compared = 0;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    const Case c = generate({.finite = false, .statistics = true, .residual = true, .mixed = true, .placements = true}, 9, i).value();
    const Reply got = walled->run(c);
    Case plain = c;
    plain.placement = {};
    ASSERT_EQ(got.kind, Kind::ok) << got.what << "\n" << to_line(c);
    const Reply want = direct.run(plain);
    for (std::size_t r = 0; r < role_count; ++r) {
      const auto role = static_cast<Role>(r);
      if (!want.outputs[role] || role == Role::mean || role == Role::rstd) continue;  // of another format there
      ++compared;
      ASSERT_EQ(got.outputs[role]->data, want.outputs[role]->data) << name(role) << "\n" << to_line(c);
    }
  }
  EXPECT_GT(compared, 1500);
}

struct Crime {
  const char* name;
  Normalize commit;
  Kind kind;
  const char* says;
  std::uint64_t salt;
};
void PrintTo(const Crime& of, std::ostream* to) { *to << of.name; }
std::byte* y_end(const ByRole<View>& o) { return o[Role::y]->data + 24; }

const std::vector<Crime>& crimes() {
  static const std::vector<Crime> all{
      {"writes_past_the_end_into_the_wall", [](auto&, auto&, auto& o) { return *y_end(o) = std::byte{1}, Status{}; }, Kind::crashed,
       "1 bytes beyond the end of y", 1},
      {"writes_past_the_end_where_no_wall_is",
       [](auto& s, auto& i, auto& o) {
         Status status = by_reference(s, i, o);
         *y_end(o) = std::byte{1};
         return status;
       },
       Kind::misbehaved, "wrote 1 bytes beyond the end of y", 0},
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
       Kind::crashed, "beyond the end of x", 0},
      {"leaves_one_unwritten",
       [](auto& s, auto& i, auto& o) {
         std::byte before[4];
         std::memcpy(before, o[Role::y]->data + 12, 4);
         Status status = by_reference(s, i, o);
         std::memcpy(o[Role::y]->data + 12, before, 4);
         return status;
       },
       Kind::misbehaved, "y[3] was not written", 0},
      {"aborts", [](auto&, auto&, auto&) -> Status { std::abort(); }, Kind::crashed, "SIGABRT", 0},
      {"exits", [](auto&, auto&, auto&) -> Status { _exit(3); }, Kind::crashed, "exited with status 3", 0},
      {"follows_null",
       [](auto&, auto&, auto&) -> Status {
         return {*static_cast<volatile Code*>(nullptr), ""};
       },
       Kind::crashed, "null pointer", 0},
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
         for (int k = 0; k < 100000; ++k) (void)!write(STDOUT_FILENO, "noise\n", 6);
         return by_reference(s, i, o);
       },
       Kind::ok, "", 0},
  };
  return all;
}

class Walls : public ::testing::TestWithParam<Crime> {};
INSTANTIATE_TEST_SUITE_P(Crimes, Walls, ::testing::ValuesIn(crimes()), [](const auto& i) { return std::string(i.param.name); });

TEST_P(Walls, Hold) {
  const Crime& crime = GetParam();
  Limits limits;
  limits.time = std::chrono::milliseconds(300);
#if defined(__SANITIZE_ADDRESS__)
  limits.memory = 0;  // a sanitizer reserves terabytes
  if (std::string_view(crime.name) == "eats_memory") limits.time = std::chrono::milliseconds(3000);
#endif
  const std::unique_ptr<Subject> subject =
      behind_wall([&crime](const Spec& s, const ByRole<ConstView>& i,
                           const ByRole<View>& o) { return s.epsilon == 1.0 ? by_reference(s, i, o) : crime.commit(s, i, o); },
                  limits);
#if defined(__SANITIZE_ADDRESS__)
  if (limits.memory == 0 && std::string_view(crime.name) == "eats_memory") return;
#endif
  const Reply reply = subject->run(small_case(crime.salt));
  EXPECT_EQ(reply.kind, crime.kind) << reply.what;
  EXPECT_NE(reply.what.find(crime.says), std::string::npos) << reply.what;
  EXPECT_EQ(reply.what.find('\n'), std::string::npos);
  // The next one is answered as if nothing had been.
  Case honest = small_case(crime.salt);
  honest.spec.epsilon = 1.0;
  const Reply next = subject->run(honest);
  EXPECT_EQ(next.kind, Kind::ok) << next.what;
}

TEST(Wall, GapsBetweenRowsAreNobodys) {
  const std::unique_ptr<Subject> subject = behind_wall([](const Spec& s, const ByRole<ConstView>& i, const ByRole<View>& o) {
    const Status status = by_reference(s, i, o);
    o[Role::y]->data[3 * 4] = std::byte{1};  // the first element after the first row
    return status;
  });
  Case c = small_case();
  c.placement.row_gap = 5;
  const Reply reply = subject->run(c);
  EXPECT_EQ(reply.kind, Kind::misbehaved);
  EXPECT_NE(reply.what.find("between the rows of y"), std::string::npos) << reply.what;
}

TEST(Wall, LargeTensorsGetThrough) {
  const std::unique_ptr<Subject> subject = behind_wall(by_reference);
  Case c;
  c.spec.op = Op::rms_norm;
  for (const std::int64_t n : {std::int64_t{3}, std::int64_t{1} << 20, std::int64_t{5}}) {
    c.inputs[Role::x] = tensor_of(Role::x, Format::f32, {1, n});
    set_bits(*c.inputs[Role::x], n - 1, nearest_bits(Format::f32, 1));
    const Reply reply = subject->run(c);
    ASSERT_EQ(reply.kind, Kind::ok) << reply.what;
    EXPECT_GT(value_at(*reply.outputs[Role::y], n - 1), 0);
  }
}

// What a call costs beside the subject's own work.
TEST(Wall, ACallIsCheap) {
  const std::unique_ptr<Subject> subject = behind_wall([](const Spec&, const ByRole<ConstView>& i, const ByRole<View>& o) {
    return std::memcpy(o[Role::y]->data, i[Role::x]->data, 24), Status{};
  });
  const Case c = small_case();
  const auto begin = std::chrono::steady_clock::now();
  constexpr int calls = 5000;
  for (int k = 0; k < calls; ++k) ASSERT_EQ(subject->run(c).kind, Kind::ok);
  const double us = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() * 1e6 / calls;
  std::cout << us << " us a call\n";
  EXPECT_LT(us, 1000);  // 50 on an idle machine
}

TEST(Library, WhatIsNoneIsRefused) {
  for (const auto& [path, says] :
       {std::pair{"/nowhere/libkernel.so", "/nowhere/libkernel.so"}, {"/proc/self/exe", "exe"}, {"/etc/passwd", "/etc/passwd"}}) {
    const auto begin = std::chrono::steady_clock::now();
    const Result<std::unique_ptr<Subject>> subject = start_library(path, {});
    ASSERT_FALSE(subject.ok()) << path;
    EXPECT_NE(subject.status().message.find(says), std::string::npos) << subject.status().message;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

}  // namespace
}  // namespace norma::properties
