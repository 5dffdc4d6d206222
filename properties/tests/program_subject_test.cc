// Programs as subjects: the honest one in the examples, and ones that lie.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "behind_wall.h"
#include "norma/check.h"

namespace norma::properties {
namespace {

using Kind = Reply::Kind;

// A reply frame around a header and as many zeros, as a shell's printf takes it, and what comes with it.
std::string frame(const std::string& header, std::size_t zeros = 0, const std::string& more = "") {
  std::string text = "printf '";
  const std::size_t length = 8 + header.size() + zeros;
  const auto number = [&](std::size_t n) {
    for (int i = 0; i < 8; ++i) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned>(n >> (8 * i) & 0xff));
      text += octal;
    }
  };
  number(length);
  number(header.size());
  text += header;
  for (std::size_t i = 0; i < zeros; ++i) text += "\\0";
  return text + more + "'";
}
// Reads a request, and says hello to the first.
const std::string take = "head -c $(head -c 8 | od -An -tu8) >/dev/null";
std::string hello() { return take + "; " + frame(R"({"__metadata__":{"name":"liar"}})") + "; " + take; }

struct Lie {
  const char* name;
  std::string command;
  Kind kind;  // of the second reply; ok where it does not even start
  const char* says;
};
void PrintTo(const Lie& of, std::ostream* to) { *to << of.name; }
const std::vector<Lie>& lies() {
  static const std::vector<Lie> all{
      {"no_such_program", "/nowhere/kernel", Kind::ok, "exited with status 127"},
      {"no_program", "/etc/passwd", Kind::ok, "exited with status 126; it said: sh: 1: /etc/passwd: Permission denied"},
      {"leaves_a_child_behind", "sleep 30 & echo 'no device' >&2; exit 3", Kind::ok, "exited with status 3; it said: no device"},
      {"leaves_a_child_behind_at_the_call", hello() + "; sleep 30 & exit 3", Kind::crashed, "exited with status 3"},
      {"leaves_children_behind_and_half_a_reply", hello() + "; sleep 30 & sleep 30 & printf '\\100\\0\\0\\0\\0\\0\\0\\0half'; exit 0",
       Kind::crashed, "exited with status 0, after 4 of the 64 bytes of its answer"},
      {"dies_at_start", "echo 'ImportError: no module named torch' >&2; exit 1", Kind::ok,
       "exited with status 1; it said: ImportError: no module named torch"},
      {"ends_at_once", "true", Kind::ok, "exited with status 0"},
      {"talks_on_standard_output", "echo Loading the model, please wait; sleep 5", Kind::ok,
       "its answer begins with \"Loading the model, please wait\\u{0a}\", which is no length: nothing but answers may go to standard "
       "output"},
      {"says_little_and_ends", "echo hi", Kind::ok, "exited with status 0, after \"hi\\u{0a}\", which is no answer"},
      {"dies_at_the_call", hello() + "; exit 4", Kind::crashed, "exited with status 4"},
      {"says_why_it_dies", hello() + "; echo 'CUDA error: out of memory' >&2; kill -9 $$", Kind::crashed,
       "killed by SIGKILL; it said: CUDA error: out of memory"},
      {"half_a_reply", hello() + "; printf '\\100\\0\\0\\0\\0\\0\\0\\0half'; exit 0", Kind::crashed,
       "exited with status 0, after 4 of the 64 bytes of its answer"},
      {"half_a_reply_and_no_more", hello() + "; printf '\\100\\0\\0\\0\\0\\0\\0\\0half'; sleep 5", Kind::hung,
       "no end of an answer that begins with"},
      {"a_length_and_more", hello() + "; " + frame("{}", 0, "done") + "; sleep 5", Kind::misbehaved, "4 bytes follow its answer: \"done\""},
      {"an_endless_reply", hello() + "; printf '\\0\\0\\0\\0\\0\\1\\0\\0'; cat /dev/zero", Kind::misbehaved,
       "its answer says that 1099511627776 bytes follow, expected 8 to"},
      {"an_empty_reply", hello() + "; printf '\\0\\0\\0\\0\\0\\0\\0\\0'; sleep 5", Kind::misbehaved,
       "its answer says that 0 bytes follow, expected 8 to"},
      {"reads_nothing", "sleep 5", Kind::ok, "no answer within 400 ms: it has not read all of the request"},
      {"closes_its_output", hello() + "; exec >&-; sleep 5", Kind::crashed, "closed its standard output"},
      {"closes_its_errors", hello() + "; exec 2>&-; exit 4", Kind::crashed, "exited with status 4"},
      {"no_safetensors", hello() + "; printf '\\020\\0\\0\\0\\0\\0\\0\\0qqqqqqqqqqqqqqqq'; sleep 5", Kind::misbehaved, "its answer: "},
      {"no_y", hello() + "; " + frame("{}") + "; sleep 5", Kind::misbehaved, "its answer: there is no tensor \"y\""},
      {"wrong_shape", hello() + "; " + frame(R"({"y":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})") + "; sleep 5", Kind::misbehaved,
       "y is f32[0], expected f32[1, 2]"},
      {"wrong_format", hello() + "; " + frame(R"({"y":{"dtype":"F16","shape":[1,0],"data_offsets":[0,0]}})") + "; sleep 5",
       Kind::misbehaved, "y is f16[1, 0], expected f32[1, 2]"},
      {"right_shape_of_a_wrong_format",
       hello() + "; " + frame(R"({"y":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}})", 4) + "; sleep 5", Kind::misbehaved,
       "y is f16[1, 2], expected f32[1, 2]"},
      {"prints_a_lot_and_dies", hello() + "; head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo 'no device' >&2; exit 4", Kind::crashed,
       "exited with status 4; it said: no device"},
      {"says_no_to_hello", take + "; " + frame(R"({"__metadata__":{"status":"unsupported","message":"no hello"}})") + "; sleep 5", Kind::ok,
       "it does not say hello: no hello"},
      {"says_unsupported", hello() + "; " + frame(R"({"__metadata__":{"status":"unsupported","message":"no gain"}})") + "; sleep 5",
       Kind::unsupported, "no gain"},
      {"says_nonsense", hello() + "; " + frame(R"({"__metadata__":{"status":"fine"}})") + "; sleep 5", Kind::misbehaved,
       "its status is \"fine\", expected ok, unsupported or error"},
      {"says_error", hello() + "; " + frame(R"({"__metadata__":{"status":"error","message":"CUDA"}})") + "; sleep 5", Kind::refused,
       "CUDA"},
      {"hangs", hello() + "; sleep 30", Kind::hung, "no answer within 400 ms: it has read the request (is its output flushed?)"},
  };
  return all;
}

class Programs : public ::testing::TestWithParam<Lie> {};
INSTANTIATE_TEST_SUITE_P(Lies, Programs, ::testing::ValuesIn(lies()), [](const auto& i) { return std::string(i.param.name); });

TEST_P(Programs, AreDiagnosedInOneLine) {
  const Lie& lie = GetParam();
  Limits limits;
  const bool mute = lie.kind == Kind::ok && std::string_view(lie.says).starts_with("no answer");
  limits.time = std::chrono::milliseconds(lie.kind == Kind::hung ? 400 : 4000);
  limits.launch = std::chrono::milliseconds(mute ? 400 : 4000);
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<Subject>> subject = start_program(lie.command, limits);
  std::string what;
  if (lie.kind == Kind::ok) {
    ASSERT_FALSE(subject.ok());
    what = subject.status().message;
  } else {
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    EXPECT_EQ((*subject)->name(), "liar");
    const Reply reply = (*subject)->run(*parse_case("layer_norm f32 x=f32[1,2]:3f800000,40000000"));
    EXPECT_EQ(reply.kind, lie.kind) << reply.what;
    what = reply.what;
  }
  EXPECT_NE(what.find(lie.says), std::string::npos) << what;
  EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// A program that ends after every reply is started anew.
TEST(Program, ComesBack) {
  const std::string reply = R"({"y":{"dtype":"F32","shape":[1,0],"data_offsets":[0,0]}})";
  const Result<std::unique_ptr<Subject>> subject = start_program(hello() + "; " + frame(reply) + "; exit 0", {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  const Case c = *parse_case("layer_norm f32 x=f32[1,0]:");
  int answered = 0, gone = 0;
  for (int i = 0; i < 6; ++i) {
    const Reply r = (*subject)->run(c);
    answered += r.kind == Kind::ok;
    gone += r.kind == Kind::crashed;
  }
  EXPECT_EQ(answered, 3);
  EXPECT_EQ(gone, 3);
}

// Who sleeps before it says hello is not waited for as long as who works.
TEST(Program, MayTakeItsTimeToStartButNotSleep) {
  Limits limits;
  limits.idle = std::chrono::milliseconds(500);
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<Subject>> asleep = start_program("sleep 30", limits);
  ASSERT_FALSE(asleep.ok());
  EXPECT_NE(asleep.status().message.find("no answer within 500 ms of doing nothing"), std::string::npos) << asleep.status().message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  const std::string work = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done; ";
  const Result<std::unique_ptr<Subject>> busy = start_program(work + hello(), limits);
  EXPECT_TRUE(busy.ok()) << busy.status().message;
}

// It is started twice before it is lost, and that it is says nothing of the call.
TEST(Program, MayBeLost) {
  const std::filesystem::path count = std::filesystem::temp_directory_path() / ("norma_starts_" + std::to_string(getpid()));
  for (const bool comes_back : {true, false}) {
    std::ofstream(count) << "0";
    const std::string nth = "n=$(cat " + count.string() + "); echo $((n + 1)) >" + count.string();
    const std::string gone = comes_back ? "[ $n = 1 ] && sleep 30; " : "[ $n -gt 0 ] && exit 5; ";
    Limits limits;
    limits.idle = std::chrono::milliseconds(500);
    const Result<std::unique_ptr<Subject>> subject = start_program(nth + "; " + gone + hello() + "; exit 4", limits);
    ASSERT_TRUE(subject.ok()) << subject.status().message;
    EXPECT_EQ((*subject)->run(small_case()).kind, Kind::crashed);
    const Reply second = (*subject)->run(small_case());
    EXPECT_EQ(second.kind, comes_back ? Kind::crashed : Kind::lost) << second.what;
    EXPECT_EQ(second.what, comes_back ? "exited with status 4" : "exited with status 5");
    std::string starts;
    std::ifstream(count) >> starts;
    EXPECT_EQ(starts, "3");
  }
  std::filesystem::remove(count);
}

TEST(Program, IsNotToSayWhatNobodyAskedFor) {
  const std::string greets = take + "; " + frame(R"({"__metadata__":{"name":"liar"}})") + "; sleep 0.1; echo ready; sleep 5";
  const Result<std::unique_ptr<Subject>> subject = start_program(greets, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  usleep(500'000);
  const Reply reply = (*subject)->run(small_case());
  EXPECT_EQ(reply.kind, Kind::misbehaved);
  EXPECT_EQ(reply.what.find("printed \"ready\\u{0a}\" that nobody asked for"), 0U) << reply.what;
}

// More than pipes hold, both ways at once: a program that answers while it reads.
TEST(Program, LargeTensorsGetThrough) {
  const std::string echo = take + "; " + frame(R"({"__metadata__":{"name":"liar"}})") + "; exec cat";
  const Result<std::unique_ptr<Subject>> subject = start_program(echo, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  Case c;
  c.inputs[Role::x] = tensor_of(Role::x, Format::f32, {1, 1 << 20});
  const Reply reply = (*subject)->run(c);
  EXPECT_EQ(reply.kind, Kind::misbehaved);
  EXPECT_NE(reply.what.find("there is no tensor \"y\": the file has \"x\""), std::string::npos) << reply.what;
}

// Nor is it a signal to the harness that nobody reads what it writes.
TEST(Program, MayEndWithoutReading) {
  const std::string greets = take + "; " + frame(R"({"__metadata__":{"name":"liar"}})") + "; sleep 0.1; exit 4";
  const Result<std::unique_ptr<Subject>> subject = start_program(greets, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  Case c;
  c.inputs[Role::x] = tensor_of(Role::x, Format::f32, {1, 1 << 20});
  const Reply reply = (*subject)->run(c);
  EXPECT_EQ(reply.kind, Kind::crashed);
  EXPECT_EQ(reply.what, "exited with status 4");
}

TEST(Program, HasNoMoreMemoryThanItMay) {
  Limits limits;
  limits.memory = std::size_t{64} << 20;
  const std::string eats = "head -c 500000000 /dev/zero | tail >/dev/null || exit 9";
  const Result<std::unique_ptr<Subject>> subject = start_program(eats, limits);
  ASSERT_FALSE(subject.ok());
  EXPECT_NE(subject.status().message.find("exited with status 9; it said: tail: memory exhausted"), std::string::npos)
      << subject.status().message;
}

TEST(Program, PlacementDoesNotReachIt) {
  const Result<std::unique_ptr<Subject>> subject = start_program(hello() + "; " + frame("{}") + "; sleep 5", {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  for (const char* placement : {"gap=1", "offset=1", "in_place"}) {
    EXPECT_EQ((*subject)->run(*parse_case(std::string("layer_norm f32 x=f32[1,1]:3f800000 ") + placement)).kind, Kind::unsupported);
  }
  EXPECT_EQ((*subject)->run(*parse_case("layer_norm f32 x=f32[1,1]:3f800000 channels_last")).kind, Kind::misbehaved);  // reached
}

// A number of threads does; the reply shows the request's metadata where it says so.
TEST(Program, IsToldHowManyThreadsToUse) {
  const Result<std::unique_ptr<Subject>> subject =
      start_program(take + "; " + frame(R"({"__metadata__":{"name":"liar","profile":"threads"}})") +
                        "; head -c $(head -c 8 | od -An -tu8) | grep -ao '.threads.:.[0-9]*.' >&2; exit 7",
                    {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  EXPECT_TRUE((*subject)->arithmetic().threads);
  EXPECT_EQ((*subject)->run(*parse_case("layer_norm f32 x=f32[1,1]:3f800000 threads=3")).what,
            "exited with status 7; it said: \"threads\":\"3\"");
}

// Whoever starts a program and ends, however suddenly, takes along what its shell has started. So does the end of the subject.
TEST(Program, NobodyIsLeftBehind) {
  const std::string file = ::testing::TempDir() + "norma_left_behind_" + std::to_string(getpid());
  const std::string command = hello() + "; sh -c 'echo $$ >" + file + "; exec sleep 30'; exit";
  for (const bool killed : {true, false}) {
    const pid_t tester = fork();
    if (tester == 0) {
      Limits limits;
      limits.time = std::chrono::milliseconds(killed ? 60'000 : 400);
      if (const auto subject = start_program(command, limits); subject.ok()) (void)(*subject)->run(small_case());
      for (;;) pause();
    }
    std::string child;
    for (int i = 0; i < 500 && child.empty(); ++i) {
      usleep(10'000);
      std::ifstream(file) >> child;
    }
    if (killed) kill(tester, SIGKILL);
    EXPECT_FALSE(child.empty());
    EXPECT_TRUE(ends(child)) << child;
    kill(tester, SIGKILL);
    waitpid(tester, nullptr, 0);
    std::remove(file.c_str());
  }
}

void expect_honest(const std::string& command, std::vector<Op> ops) {
  const Result<std::unique_ptr<Subject>> subject = start_program(command, {});
  ASSERT_TRUE(subject.ok()) << subject.status().message;
  Settings settings;
  settings.cases = 20;
  settings.ops = std::move(ops);
  settings.formats = {Format::f32};
  settings.laws = {"agrees_with_reference", "mean_zero", "no_leak", "affine_linear", "flat_row_is_beta"};
  const Report report = check(**subject, settings);
  EXPECT_EQ(report.must_violations(), 0) << (report.laws[0].first ? report.laws[0].first->what : "");
  for (const LawReport& r : report.laws) EXPECT_GT(r.held, 0) << r.law->slug << " " << (r.reasons.empty() ? "" : r.reasons.begin()->first);
}

TEST(Program, TheExampleInPythonIsHonest) {
  expect_honest(NORMA_PYTHON " " NORMA_EXAMPLES "/subject.py", {Op::layer_norm});
}  // needs python3-numpy

TEST(Program, TheExampleForNodeIsHonest) {
  const std::string node = NORMA_NODE;
  if (node.find('/') == std::string::npos) GTEST_SKIP() << "there was no node when this was configured: the example for it is not tested";
  expect_honest(node + " " NORMA_EXAMPLES "/subject.js", {Op::layer_norm, Op::rms_norm});
}

TEST(Examples, AreShort) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NORMA_EXAMPLES)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    int lines = 0;
    for (std::string line; std::getline(file, line); ++lines) EXPECT_LE(line.size(), 140U) << entry.path();
    EXPECT_LE(lines, 40) << entry.path();
    ++examples;
  }
  EXPECT_EQ(examples, 4);
}

}  // namespace
}  // namespace norma::properties
