// What gets through a wall, and what does not; what lives behind it, and for how long.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "behind_wall.h"
#include "direct.h"
#include "norma/generate.h"

namespace norma::properties {
namespace {

using Kind = Reply::Kind;

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

// A NaN of x that comes out as it is has been written, whatever it looks like.
TEST(Wall, AnyNaNMayComeOut) {
  const auto copy = [](const Spec&, const ByRole<ConstView>& i, const ByRole<View>& o) {
    return std::memcpy(o[Role::y]->data, i[Role::x]->data, std::size_t{2} << 16), Status{};
  };
  const std::unique_ptr<Subject> subject = behind_wall(copy);
  for (const Format format : {Format::bf16, Format::f16}) {
    Case c;
    c.format = format;
    c.inputs[Role::x] = tensor_of(Role::x, format, {1, 1 << 16});
    for (std::int64_t i = 0; i < 1 << 16; ++i) set_bits(*c.inputs[Role::x], i, static_cast<Bits>(i));
    const Reply reply = subject->run(c);
    ASSERT_EQ(reply.kind, Kind::ok) << reply.what;
    EXPECT_EQ(reply.outputs[Role::y]->data, c.x().data);
  }
}

// An offset is kept to the byte, on either side of the memory, and what lies beside it is watched.
TEST(Wall, OffsetsCountFromLines) {
  const std::unique_ptr<Subject> subject = behind_wall([](const Spec& s, const ByRole<ConstView>& i, const ByRole<View>& o) {
    const Status status = by_reference(s, i, o);
    const auto beside = [](const std::byte* p) { return std::to_string(reinterpret_cast<std::uintptr_t>(p) % 64); };
    if (s.epsilon == 2.0) o[Role::y]->data[24] = std::byte{1};
    return s.epsilon == 1.0 ? Status{Code::io_error, beside(i[Role::x]->data) + " " + beside(o[Role::y]->data)} : status;
  });
  for (std::int64_t offset = 1; offset < 40; ++offset) {
    Case c = small_case(static_cast<std::uint64_t>(offset) / 2);
    c.placement.offset = offset;
    c.spec.epsilon = 1.0;
    const std::string at = std::to_string(offset * 4 % 64);
    EXPECT_EQ(subject->run(c).what, at + " " + at);
    c.spec.epsilon = 2.0;
    const Reply reply = subject->run(c);
    EXPECT_NE(reply.kind, Kind::ok);
    EXPECT_NE(reply.what.find("wrote 1 byte beyond the end of y"), std::string::npos) << reply.what;
  }
}

// An x without elements has statistics all the same, and they need room.
TEST(Wall, StatisticsMayBeLargerThanX) {
  const std::unique_ptr<Subject> subject = behind_wall([](const Spec&, const ByRole<ConstView>&, const ByRole<View>& o) {
    return std::memset(o[Role::mean]->data, 0, std::size_t{8} << 20), Status{};
  });
  Case c;
  c.inputs[Role::x] = tensor_of(Role::x, Format::f32, {2 << 20, 0});
  c.outputs = {Role::y, Role::mean};
  const Reply reply = subject->run(c);
  EXPECT_EQ(reply.kind, Kind::ok) << reply.what;
}

// What one subject can reach is not another's.
TEST(Wall, SubjectsDoNotShareMemory) {
  const auto where = [](const Spec&, const ByRole<ConstView>&, const ByRole<View>& o) {
    return Status{Code::io_error, std::to_string(reinterpret_cast<std::uintptr_t>(o[Role::y]->data))};
  };
  const std::unique_ptr<Subject> first = behind_wall(where);
  const std::uintptr_t address = std::stoull(first->run(small_case()).what);
  const std::unique_ptr<Subject> second = behind_wall([address](const Spec&, const ByRole<ConstView>&, const ByRole<View>&) {
    return *reinterpret_cast<volatile char*>(address) = 1, Status{};
  });
  EXPECT_EQ(second->run(small_case()).kind, Kind::crashed);
}

// Descriptors and what is done about signals are the harness's, and stay with it.
TEST(Wall, ASubjectHasNothingOfTheHarness) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  std::FILE* const file = fdopen(fds[1], "w");
  std::fputs("of the harness", file);
  std::signal(SIGTERM, SIG_IGN);
  const std::unique_ptr<Subject> subject = behind_wall([&](const Spec& s, const ByRole<ConstView>&, const ByRole<View>&) {
    for (const int fd : fds) {
      if (fcntl(fd, F_GETFD) != -1) return Status{Code::io_error, "a descriptor"};
    }
    if (s.epsilon == 1.0) std::exit(raise(SIGTERM));
    return Status{Code::io_error, "nothing"};
  });
  EXPECT_EQ(subject->run(small_case()).what, "nothing");
  Case ends = small_case();
  ends.spec.epsilon = 1.0;
  EXPECT_EQ(subject->run(ends).what, "killed by SIGTERM");
  std::signal(SIGTERM, SIG_DFL);
  std::fclose(file);
  close(fds[0]);
}

// Whoever starts a subject and ends, however suddenly, takes it along.
TEST(Wall, NobodyIsLeftBehind) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const std::unique_ptr<Subject> subject = behind_wall([](const Spec& s, const ByRole<ConstView>&, const ByRole<View>&) {
      while (s.epsilon == 1.0) pause();
      return Status{Code::io_error, std::to_string(getpid())};
    });
    const std::string child = subject->run(small_case()).what;
    (void)!write(fds[1], child.data(), child.size());
    Case hangs = small_case();
    hangs.spec.epsilon = 1.0;
    (void)subject->run(hangs);
    for (;;) kill(getpid(), SIGKILL);
  }
  close(fds[1]);
  char child[32] = {};
  ASSERT_GT(read(fds[0], child, sizeof child - 1), 0);
  close(fds[0]);
  usleep(50'000);  // into the call that hangs
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(ends(child)) << child;
}

}  // namespace
}  // namespace norma::properties
