// Shared libraries as subjects: the honest ones in the examples, and one that fails in every way there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "norma/check.h"
#include "norma/harness.h"
#include "norma/subject.h"

namespace norma::properties {
namespace {

using Kind = Reply::Kind;

TEST(Library, WhatIsNoneIsRefused) {
  for (const auto& [path, says] : {std::pair{"/nowhere/libkernel.so", "No such file or directory"},
                                   {"/proc/self/exe", "exe"},
                                   {"/etc/passwd", "/etc/passwd"},
                                   {"/etc", "/etc"},
                                   {"libm.so.6", "exports no norma_get_subject"}}) {
    const auto begin = std::chrono::steady_clock::now();
    const Result<std::unique_ptr<Subject>> subject = start_library(path, {});
    ASSERT_FALSE(subject.ok()) << path;
    EXPECT_NE(subject.status().message.find(says), std::string::npos) << subject.status().message;
    EXPECT_EQ(subject.status().message.find('\n'), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
}

// The fixture reads from the environment what to do wrong; its process has that from this one.
Result<std::unique_ptr<Subject>> start_fixture(const char* fault) {
  setenv("NORMA_TEST_FAULT", fault, 1);
  Limits limits;
  limits.time = limits.load = std::chrono::milliseconds(500);
  return start_library(NORMA_FIXTURE, limits);
}

TEST(Library, OneSentenceSaysWhyItCannotBeRun) {
  for (const auto& [fault, says] : {std::pair{"constructor_crashes", "killed by SIGSEGV"},
                                    {"constructor_hangs", "no answer within 500 ms, while it was loaded"},
                                    {"constructor_exits", "exited with status 5; it said: no licence, while it was loaded"},
                                    {"null", "norma_get_subject() returned a null pointer"},
                                    {"version", "made for version 99 of norma/subject.h, expected 1"},
                                    {"normalize", "its normalize is a null pointer"},
                                    {"profile", "\"compute=f33\""}}) {
    std::fputs("still to be printed; ", stdout);
    const Result<std::unique_ptr<Subject>> subject = start_fixture(fault);
    ASSERT_FALSE(subject.ok()) << fault;
    EXPECT_NE(subject.status().message.find(says), std::string::npos) << subject.status().message;
    EXPECT_NE(subject.status().message.find(NORMA_FIXTURE), std::string::npos) << subject.status().message;
    EXPECT_EQ(subject.status().message.find('\n'), std::string::npos);
  }
  std::puts("");
}

TEST(Library, IsToldHowManyThreadsToUse) {
  static const norma_subject counts{NORMA_SUBJECT_VERSION, "counts", "threads",
                                    [](const norma_call* call, char* message, std::size_t room) {
                                      std::snprintf(message, room, "%d threads", static_cast<int>(call->threads));
                                      return int{NORMA_ERROR};
                                    }};
  const Result<std::unique_ptr<Subject>> subject = start(counts, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  EXPECT_TRUE((*subject)->arithmetic().threads);
  EXPECT_EQ((*subject)->run(*parse_case("layer_norm f32 x=f32[1,1]:3f800000 threads=3")).what, "3 threads");
  EXPECT_EQ((*subject)->run(*parse_case("layer_norm f32 x=f32[1,1]:3f800000")).what, "0 threads");
}

TEST(Library, AnswersAreOfSubjectH) {
  const Case c = *parse_case("layer_norm f32 x=f32[1,1]:3f800000 axis=-1");
  struct {
    const char* fault;
    Kind kind;
    const char* says;
  } const all[] = {{"answers_7", Kind::misbehaved, "answered 7, expected 0, 1 or 2"},
                   {"unsupported", Kind::unsupported, "not on this machine"},
                   {"error", Kind::refused, "no device"},
                   {"axis", Kind::refused, "axis 1"},
                   {"forgets_y", Kind::misbehaved, "y[0] was not written"}};
  for (const auto& [fault, kind, says] : all) {
    const Result<std::unique_ptr<Subject>> subject = start_fixture(fault);
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    EXPECT_EQ((*subject)->name(), "fixture");
    const Reply reply = (*subject)->run(c);
    EXPECT_EQ(reply.kind, kind) << reply.what;
    EXPECT_NE(reply.what.find(says), std::string::npos) << reply.what;
  }
}

// It dies of a call, and does not come back.
TEST(Library, MayBeLost) {
  const Result<std::unique_ptr<Subject>> subject = start_fixture("crashes");
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  const Case c = *parse_case("layer_norm f32 x=f32[1,1]:3f800000");
  EXPECT_EQ((*subject)->run(c).kind, Kind::crashed);
  setenv("NORMA_TEST_FAULT", "constructor_hangs", 1);
  const Reply lost = (*subject)->run(c);
  EXPECT_EQ(lost.kind, Kind::lost) << lost.what;
  EXPECT_EQ(lost.what, "no answer within 500 ms, while it was loaded");
  setenv("NORMA_TEST_FAULT", "error", 1);
  EXPECT_EQ((*subject)->run(c).kind, Kind::refused);
}

TEST(Library, WhatSubjectHHasNoWordForIsUnsupported) {
  const Result<std::unique_ptr<Subject>> subject = start_fixture("answers_7");
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  for (const char* line : {"weight_norm f32 x=f32[1,1]:3f800000", "layer_norm f8_e4m3 x=f32[1,1]:3f800000",
                           "layer_norm f32 x=f32[1,1]:3f800000 want=y,xhat"}) {
    const Reply reply = (*subject)->run(*parse_case(line));
    EXPECT_EQ(reply.kind, Kind::unsupported) << line;
    EXPECT_NE(reply.what.find("norma/subject.h does not know"), std::string::npos) << reply.what;
  }
}

TEST(Library, TheExamplesAreHonest) {
  for (const char* path : {NORMA_EXAMPLE_C, NORMA_EXAMPLE_CC}) {
    const Result<std::unique_ptr<Subject>> subject = start_library(path, {});
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    Settings settings;
    settings.cases = 60;
    const Report report = check(**subject, settings);
    for (const LawReport& r : report.laws) {
      EXPECT_TRUE(r.severity == Severity::should || r.broken == 0) << path << " " << r.law->slug << ": " << r.first->what << "\n"
                                                                   << to_line(r.first->smallest);
    }
    EXPECT_GT(report.accuracy.elements, 5'000) << path;
  }
}

// What a case costs beside the subject's own work, which is next to nothing here: 50 us at most. The best of many short runs, for other
// processes on the machine only ever add to it.
TEST(Library, ACallIsCheap) {
  const Result<std::unique_ptr<Subject>> subject = start_library(NORMA_EXAMPLE_C, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  Case c;
  c.spec.op = Op::layer_norm;
  for (const Role role : {Role::x, Role::gamma, Role::beta}) {
    c.inputs[role] = tensor_of(role, Format::f32, role == Role::x ? Shape{4, 64} : Shape{64});
  }
  double best = 1e9;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int run = 0; run < 50 || (best > 50 && std::chrono::steady_clock::now() < until); ++run) {
    constexpr int calls = 100;
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < calls; ++k) ASSERT_EQ((*subject)->run(c).kind, Kind::ok);
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls);
  }
  std::cout << best << " us a case\n";
#if !defined(NORMA_SANITIZE)
  EXPECT_LT(best, 50);
#endif
}

}  // namespace
}  // namespace norma::properties
