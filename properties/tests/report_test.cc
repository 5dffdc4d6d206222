// Reports of norma check: shares of a run that join to the whole, files that are whole or not there, waivers, and a page to look at.
#include <nlohmann/json.hpp>
#include <set>

#include "program.h"

namespace norma {
namespace {

using nlohmann::ordered_json;

class Reports : public Program {
 protected:
  // Runs a check and keeps what --json prints.
  ordered_json checked(const std::string& arguments, const std::string& file) const {
    const Outcome o = norma("check " + arguments + " --json");
    EXPECT_TRUE(o.status == 0 || o.status == 1) << arguments << "\n" << o.err;
    std::ofstream(at(file)) << o.out;
    return ordered_json::parse(o.out);
  }
  void put(const std::string& file, const std::string& text) const { std::ofstream(at(file)) << text; }

  // What Python prints, given a program and its arguments.
  [[nodiscard]] std::string run_python(const std::string& arguments) const {
    const Outcome o = shell(NORMA_PYTHON " -W ignore " + arguments);
    EXPECT_EQ(o.status, 0) << o.out << o.err;
    return o.out;
  }
  [[nodiscard]] std::string python(const std::string& program, const std::string& files) const {
    put("program.py", program);
    return run_python("program.py " + files);
  }
  // How many errors each of the files has, by the schema.
  [[nodiscard]] std::string validated(const std::string& files) const {
    return run_python(NORMA_SOURCE "/properties/tests/validate.py " NORMA_SOURCE "/properties/schema/report.schema.json " + files);
  }
};

TEST_F(Reports, SharesJoinToTheWhole) {
  for (const std::string run :
       {"plain --cases 10", "mutant:unbiased-variance --cases 7 --seed 3", "simd_fast --cases 5 --op rms_norm --strict"}) {
    const ordered_json whole = checked(run + " --html whole.html --junit whole.xml", "whole.json");
    for (const std::string shard : {"1", "2", "3"}) checked(run + " --shard " + shard + "/3", shard + ".json");
    const Outcome merged = norma("report merge 2.json 3.json 1.json --json --html merged.html --junit merged.xml");
    ASSERT_EQ(merged.status, whole["verdict"] == "holds" ? 0 : 1) << merged.err;
    EXPECT_EQ(merged.out, contents(at("whole.json"))) << run << ordered_json::diff(ordered_json::parse(merged.out), whole).dump(2);
    EXPECT_GT(whole["accuracy"]["elements"], 10'000);
    EXPECT_GT(whole["accuracy"]["conditions"].size(), 5U);
    EXPECT_EQ(contents(at("merged.html")), contents(at("whole.html")));
    EXPECT_EQ(contents(at("merged.xml")), contents(at("whole.xml")));
    EXPECT_GT(contents(at("whole.html")).size(), 10'000U);
  }
  // A report of one share joins to itself, and all else is made of it as it is made of the run.
  const std::string run = "mutant:unbiased-variance --cases 7 --seed 3";
  checked(run, "whole.json");
  for (const std::string form : {"", " --markdown"}) {
    const Outcome again = norma("report merge whole.json" + form), first = norma("check " + run + form);
    EXPECT_EQ(again.out, first.out) << form;
    EXPECT_EQ(again.status, 1);
    EXPECT_EQ(first.status, 1);
  }
}

TEST_F(Reports, WhatDoesNotBelongTogetherIsRefused) {
  const std::string run = "reference --cases 4 --law flat_row_is_beta,mean_zero";
  const ordered_json first = checked(run + " --shard 1/2", "1.json");
  checked(run + " --shard 2/2", "2.json");
  ASSERT_EQ(norma("report merge 1.json 2.json").status, 0);
  expect_refusal("report merge 1.json", {"shard 2/2 is missing"});
  expect_refusal("report merge 1.json 2.json 1.json", {"1.json", "is shard 1/2, as is 1.json", "once"});
  const std::map<std::string, std::string> others{
      {"plain --cases 4 --law flat_row_is_beta,mean_zero", "subject is \"plain\", not \"reference\""},
      {run + " --seed 2", "seed is 2, not 1"},
      {"reference --cases 6 --law flat_row_is_beta,mean_zero", "cases is 6, not 4"},
      {run + " --strict", "strict is true, not false"},
      {run + " --op layer_norm", "ops is [\"layer_norm\"], not []"},
      {run + " --dtype f32", "dtypes is [\"f32\"], not []"},
      {"reference --cases 4 --law mean_zero", "laws is mean_zero, not mean_zero, flat_row_is_beta"},
  };
  for (const auto& [other, words] : others) {
    checked(other + " --shard 2/2", "other.json");
    expect_refusal("report merge 1.json other.json", {"other.json: belongs to another run than 1.json", words});
  }
  checked(run + " --shard 2/3", "third.json");
  expect_refusal("report merge 1.json third.json", {"third.json", "shards is 3, not 2"});

  // Files that are no report, or no longer the one that was written.
  const auto changed = [&](const char* path, const ordered_json& value) {
    ordered_json j = first;
    j[ordered_json::json_pointer(path)] = value;
    put("changed.json", j.dump());
    return "report merge changed.json 2.json";
  };
  expect_refusal(changed("/version", "0.0.9"), {"changed.json: is a report of norma \"0.0.9\": expected "});
  expect_refusal(changed("/laws/0/held", 77), {"changed.json: is no report of norma check: mean_zero: its numbers of cases do not add up"});
  expect_refusal(changed("/must_violations", 77), {"changed.json: does not fit together: /must_violations: expected 0"});
  expect_refusal(changed("/laws/0/verdict", "broken"), {"/laws/0/verdict: expected \"holds\""});
  expect_refusal(changed("/laws/0/law", "mean_zeor"), {"changed.json", "there is no law \"mean_zeor\""});
  expect_refusal(changed("/surprise", 1), {"/surprise: expected nothing there"});
  expect_refusal(changed("/seed", "one"), {"changed.json: is no report of norma check: "});
  expect_refusal(changed("/shard", 0), {"changed.json: is no report of norma check: ", "shard 0/2"});
  expect_refusal(changed("/shard", 3), {"changed.json: is no report of norma check: ", "shard 3/2"});
  expect_refusal(changed("/shards", 1'000'000'000'000), {"changed.json"});
  expect_refusal(changed("/accuracy/ulp_histogram", ordered_json::array({1})), {"changed.json"});
  for (const char* number : {"/accuracy/elements", "/accuracy/correctly_rounded", "/accuracy/faithful", "/accuracy/within_bound",
                             "/accuracy/ulp_histogram/0", "/accuracy/conditions/0/elements", "/accuracy/kinds/0/elements"}) {
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{7}, std::int64_t{1} << 62}) {
      expect_refusal(changed(number, value), {"changed.json: is no report of norma check: "});
    }
  }
  for (const char* number : {"/cases", "/laws/0/vacuous", "/laws/0/unsupported", "/laws/0/families/ordinary"}) {
    for (const int value : {-5, 7}) {
      if (number == std::string_view("/cases") && value > 0) continue;
      expect_refusal(changed(number, value), {"changed.json: is no report of norma check: "});
    }
  }
  expect_refusal(changed("/laws/0/unsupported_because", {{"x", 7}}), {"changed.json: is no report of norma check: ", "do not add up"});
  for (const char* words : {"/name", "/arithmetic", "/ended_early"}) {
    expect_refusal(changed(words, "\u001b[2J::error::"), {"changed.json: is no report of norma check: \"\\u{1b}[2J::error::\" is no line"});
  }
  expect_refusal(
      changed(
          "/accuracy/worst_by_ulp",
          {{"element", "\u001b[2J"}, {"ulp_error", 0}, {"margin", 0}, {"condition", 0}, {"law", "mean_zero"}, {"number", 0}, {"case", ""}}),
      {"changed.json: is no report of norma check: ", "is no line"});
  expect_refusal(changed("/accuracy/max_margin", -1), {"changed.json: is no report of norma check: -1 is negative"});
  put("nul.json", first.dump() + std::string(1, '\0') + "more");
  expect_refusal("report merge nul.json 2.json", {"nul.json: is no JSON: there is a byte 0"});
  expect_refusal("report merge 1.json 2.json --html 1.json", {"--html: 1.json is also 1.json"});
  expect_refusal("report merge 1.json 2.json --html ./2.json", {"--html: ./2.json is also 2.json"});
  expect_refusal("report merge 1.json 2.json --html new --junit ./new", {"--html: new is also ./new"});
  put("half.json", first.dump(2).substr(0, 500));
  expect_refusal("report merge half.json 2.json", {"half.json: is no JSON", "line "});
  put("deep.json", std::string(200'000, '['));
  expect_refusal("report merge deep.json", {"deep.json: line 1", "levels"});
  put("empty.json", "");
  expect_refusal("report merge empty.json", {"empty.json: is no JSON"});
  put("list.json", "[]");
  expect_refusal("report merge list.json", {"list.json: is no report of norma check"});
  expect_refusal("report merge nowhere.json", {"nowhere.json", "No such file"});
  expect_refusal("report merge .", {"regular file"});
  expect_refusal("report merge", {"FILE"});
  expect_refusal("report", {"norma report --help"});
  expect_refusal("report mrege 1.json", {"\"mrege\""});
  expect_refusal("report merge 1.json 2.json --html nowhere/x.html", {"nowhere/x.html"});
}

TEST_F(Reports, AreAsTheSchemaSays) {
  const ordered_json j = checked("mutant:unbiased-variance --cases 12", "mutant.json");
  checked("plain --cases 6", "plain.json");
  checked("simd --cases 3 --op layer_norm,batch_norm --dtype f32,bf16", "simd.json");
  checked("mutant:tail-dropped --law tails,batch_of_one --cases 30 --strict", "few.json");
  int findings = 0;
  for (const ordered_json& law : j["laws"]) findings += static_cast<int>(law["findings"].size());
  EXPECT_GT(findings, 10);
  EXPECT_EQ(validated("mutant.json plain.json simd.json few.json"), "mutant.json 0\nplain.json 0\nsimd.json 0\nfew.json 0\n");
  // It would notice.
  ordered_json more = j, less = j, wrong = j, odd = j;
  more["laws"][0]["surprise"] = 1;
  less["accuracy"].erase("effective_depth");
  wrong["accuracy"]["max_margin"] = "large";
  for (ordered_json& law : odd["laws"]) {
    for (ordered_json& finding : law["findings"]) finding["golden"]["surprise"] = 1;
  }
  put("odd.json", odd.dump());
  put("more.json", more.dump());
  put("less.json", less.dump());
  put("wrong.json", wrong.dump());
  const std::string said = validated("more.json less.json wrong.json odd.json");
  EXPECT_NE(said.find("odd.json " + std::to_string(findings) + " laws/"), std::string::npos) << said;
  EXPECT_NE(said.find("more.json 1 laws/0: "), std::string::npos) << said;
  EXPECT_NE(said.find("less.json 1 accuracy: "), std::string::npos) << said;
  EXPECT_NE(said.find("wrong.json 1 accuracy/max_margin: "), std::string::npos) << said;
}

TEST_F(Reports, FindingsComeWithAllThatRepeatsThem) {
  const ordered_json j = checked("mutant:unbiased-variance --law variance_one,agrees_with_reference", "report.json");
  for (const ordered_json& law : j["laws"]) {
    ASSERT_FALSE(law["findings"].empty()) << law["law"];
    const ordered_json& f = law["findings"][0];
    const std::string command = f["command"];
    EXPECT_EQ(norma(command.substr(6)).status, 1) << command;
    EXPECT_NE(f["cpp"].get<std::string>().find("spec.op = norma::Op::"), std::string::npos);
    const ordered_json& golden = f["golden"];
    EXPECT_EQ(golden["comment"], law["law"].get<std::string>() + ": " + f["what"].get<std::string>());
    // The bits are those of the line, in the other order.
    const std::string line = f["case"], data = golden["inputs"]["x"]["data"];
    std::string reversed;
    const std::size_t digits =
        std::map<std::string, std::size_t>{{"f16", 4}, {"bf16", 4}, {"f32", 8}, {"f64", 16}}[golden["inputs"]["x"]["dtype"]];
    for (std::size_t i = digits; i > 0; i -= 2) reversed += data.substr(i - 2, 2);
    EXPECT_NE(line.find("]:" + reversed), std::string::npos) << line << "\n" << data;
    EXPECT_TRUE(golden["outputs"].contains("y") && golden["outputs"].contains("rstd"));
  }
  EXPECT_GE(j["accuracy"]["effective_depth"], 100);
  const ordered_json right = checked("simd --law agrees_with_reference", "right.json");
  EXPECT_EQ(right["accuracy"]["effective_depth"], 0);
  EXPECT_NE(norma("check simd --law agrees_with_reference").out.find("effective depth 0"), std::string::npos);
}

constexpr const char* page_reader = R"(
import html.parser, sys
class Page(html.parser.HTMLParser):
    void = {'meta', 'wbr', 'br'}
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]
        if tag not in self.void: self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]
    def handle_endtag(self, tag): assert self.open and self.open.pop() == tag, (tag, self.getpos())
    def handle_data(self, data):
        if 'style' not in self.open: self.text.append(data)
text = open(sys.argv[1], encoding='utf-8').read()
page = Page()
page.feed(text)
page.close()
assert page.open == [], page.open
tags = page.tags
assert tags.count('table') == tags.count('caption') > 1
assert tags.count('svg') == 2 == sum(a[:2] == ('svg', 'aria-label') and len(a[2]) > 20 for a in page.attributes)
assert not {'script', 'link', 'img', 'iframe', 'object', 'b'} & set(tags), set(tags)
assert not any(name in ('src', 'href', 'style') or name.startswith('on') for _, name, _ in page.attributes)
assert 'http' not in text and 'url(' not in text and '@import' not in text and 'nan' not in text.split('<h2 id="laws">')[0].split('<h2>Accuracy')[1]
assert 'prefers-color-scheme:dark' in text and '@media print' in text
print(''.join(page.text))
)";

TEST_F(Reports, ThePageSaysAll) {
  const Outcome o = norma("check mutant:unbiased-variance --cases 12 --json --html page.html");
  ASSERT_EQ(o.status, 1) << o.err;
  const std::string text = python(page_reader, "page.html");
  const ordered_json j = ordered_json::parse(o.out);
  for (const ordered_json& law : j["laws"]) {
    EXPECT_NE(text.find(law["statement"].get<std::string>()), std::string::npos) << law["law"];
    for (const ordered_json& f : law["findings"]) {
      for (const char* key : {"what", "command", "cpp"}) {
        const std::string part = f[key];
        EXPECT_TRUE(part.size() >= 4000 || text.find(part) != std::string::npos) << part;
      }
      const std::string golden = f["golden"].dump();
      EXPECT_TRUE(golden.size() >= 4000 || text.find(golden) != std::string::npos) << golden;
    }
  }
  EXPECT_NE(text.find("✗ violated"), std::string::npos);
  const std::string headline = j["headline"];
  EXPECT_NE(text.find(headline.substr(headline.find(": ") + 2)), std::string::npos) << headline;
  // What a subject is called is no markup.
  const Outcome odd =
      norma("check 'exec:" NORMA_PYTHON " " NORMA_SOURCE
            "/properties/examples/subject.py \"<b>&\" \xef\xbf\xbe\xef\xbf\xbf' --cases 2 --op layer_norm --html odd.html --junit odd.xml");
  ASSERT_LT(odd.status, 2) << odd.err;
  EXPECT_NE(python(page_reader, "odd.html").find("subject.py \"<b>&\""), std::string::npos);
  EXPECT_EQ(python("import sys, xml.dom.minidom as m\nprint(m.parse(sys.argv[1]).documentElement.tagName)", "odd.xml"), "testsuite\n");
}

TEST_F(Reports, WaivedLawsDoNotFail) {
  const std::string run = "check mutant:epsilon-as-maximum --cases 20 --law variance_one,mean_zero";
  ASSERT_EQ(norma(run).status, 1);
  put("waivers.json", R"([
  {"subject": "mutant:epsilon-as-maximum", "law": "variance_one", "reason": "issue 12: <n - 1>, until spring"},
  {"subject": "simd", "law": "mean_zero", "reason": "of another subject"}
])");
  const Outcome o = norma(run + " --waivers waivers.json --strict --junit report.xml --html page.html");
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("! variance_one  must        20  waived: issue 12: <n - 1>, until spring (broken by "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("1 law holds, 1 waived"), std::string::npos) << o.out;
  const std::string xml = contents(at("report.xml"));
  EXPECT_NE(xml.find("failures=\"0\" errors=\"0\" skipped=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("<skipped message=\"waived: issue 12: &lt;n - 1&gt;"), std::string::npos) << xml;
  EXPECT_NE(contents(at("page.html")).find("waived: issue 12: &lt;n - 1&gt;"), std::string::npos);
  EXPECT_NE(norma(run + " --waivers waivers.json --markdown").out.find("waived: issue 12: &lt;n - 1&gt;"), std::string::npos);
  const ordered_json j = ordered_json::parse(norma(run + " --waivers waivers.json --json").out);
  EXPECT_EQ(j["verdict"], "holds");
  EXPECT_EQ(j["waivers"].size(), 1U);
  EXPECT_EQ(j["must_violations"], 1);
  std::map<std::string, std::string> states;
  for (const ordered_json& law : j["laws"]) states[law["law"]] = law["state"];
  EXPECT_EQ(states, (std::map<std::string, std::string>{{"variance_one", "waived"}, {"mean_zero", "holds"}}));

  // Stale: the law holds. Not asked: nothing to say.
  put("stale.json", R"([{"subject": "mutant:epsilon-as-maximum", "law": "mean_zero", "reason": "who knows"},
                        {"subject": "mutant:epsilon-as-maximum", "law": "variance_one", "reason": "known"}])");
  const Outcome stale = norma(run + " --waivers stale.json --junit report.xml");
  EXPECT_EQ(stale.status, 1);
  EXPECT_NE(stale.out.find("✗ mean_zero"), std::string::npos) << stale.out;
  EXPECT_NE(stale.out.find("holds, but is waived"), std::string::npos) << stale.out;
  EXPECT_NE(contents(at("report.xml")).find("<failure message=\"holds, but is waived"), std::string::npos);
  EXPECT_EQ(norma("check mutant:epsilon-as-maximum --cases 20 --law variance_one --waivers stale.json").status, 0);
  // A share may hold what another one breaks: staleness is of the whole.
  for (const std::string shard : {"1", "2"}) {
    const Outcome part = norma(run + " --waivers stale.json --json --shard " + shard + "/2");
    EXPECT_EQ(part.status, 0) << part.out;
    put(shard + ".json", part.out);
  }
  const Outcome merged = norma("report merge 1.json 2.json --json");
  EXPECT_EQ(merged.status, 1);
  EXPECT_EQ(merged.out, norma(run + " --waivers stale.json --json").out);
  checked("mutant:epsilon-as-maximum --cases 20 --law variance_one,mean_zero --shard 2/2", "2.json");
  expect_refusal("report merge 1.json 2.json", {"2.json", "waivers is [], not ["});
}

TEST_F(Reports, WaiversAreReadWithSuspicion) {
  const auto refused = [&](const std::string& text, std::initializer_list<std::string> words) {
    put("w.json", text);
    expect_refusal("check simd --waivers w.json", words);
  };
  refused("[\n{\"subject\": \"simd\",\n", {"w.json: is no JSON", "line 3"});
  refused("{}", {"w.json", "array"});
  refused("[\n\n3]", {"w.json: line 3: expected an object"});
  refused(
      "[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": \"x\"},\n {\"subject\": \"simd\", \"law\": \"mean_zeor\", \"reason\": "
      "\"x\"}]",
      {"w.json: line 2: there is no law \"mean_zeor\", did you mean mean_zero?"});
  refused("[{\"subject\": \"smid\", \"law\": \"mean_zero\", \"reason\": \"x\"}]",
          {"line 1: there is no subject \"smid\", did you mean simd?"});
  refused("[{\"subject\": \"mutant:tail-droped\", \"law\": \"tails\", \"reason\": \"x\"}]", {"did you mean tail-dropped?"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": \" \"}]", {"line 1", "without a reason"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": \"\u00a0 \"}]", {"line 1", "without a reason"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": \"a\u202eb\"}]", {"line 1", "do not show"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\"}]", {"line 1: expected reason"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": 7}]", {"line 1: reason: expected a string"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"raeson\": \"x\"}]",
          {"line 1: a waiver has no \"raeson\", did you mean reason?"});
  refused("[{\"subject\": \"simd\", \"law\": \"mean_zero\",\n \"law\": \"tails\", \"reason\": \"x\"}]",
          {"line 2: the key \"law\" is there twice"});
  refused(
      "[{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": \"x\"},\n{\"subject\": \"simd\", \"law\": \"mean_zero\", \"reason\": "
      "\"y\"}]",
      {"line 2: mean_zero of \"simd\" is waived twice"});
  expect_refusal("check simd --waivers nowhere.json", {"nowhere.json", "No such file"});
  put("w.json", "[]");
  EXPECT_EQ(norma("check simd --cases 2 --law mean_zero --waivers w.json").status, 0);
}

// What tested nothing does not hold.
TEST_F(Reports, SayThatNothingWasTested) {
  const Outcome o = norma("check " NORMA_EXAMPLE_C " --law mean_zero --dtype f16 --cases 5 --junit report.xml");
  EXPECT_EQ(o.status, 1) << o.out << o.err;
  EXPECT_NE(o.out.find("UNTESTED: 0 laws hold, 1 not supported by the subject"), std::string::npos) << o.out;
}

// Of shares, too: one that was asked to the end and does nothing, and one that died.
TEST_F(Reports, JoinWhereOneShareEndedEarly) {
  put("moody.py", R"(import os, sys
def send(metadata):
    header = ('{"__metadata__":' + metadata + '}').encode()
    sys.stdout.buffer.write((8 + len(header)).to_bytes(8, 'little') + len(header).to_bytes(8, 'little') + header)
    sys.stdout.buffer.flush()
greeted = False
while size := sys.stdin.buffer.read(8):
    sys.stdin.buffer.read(int.from_bytes(size, 'little'))
    if greeted and os.path.exists('die'): sys.exit(5)
    send('{"status":"unsupported","message":"no"}' if greeted else '{"name":"moody"}')
    greeted = True)");
  const std::string run = "check 'exec:" NORMA_PYTHON " moody.py' --law mean_zero,tails,large_n --cases 40 --json --shard ";
  put("1.json", norma(run + "1/2").out);
  put("die", "");
  put("2.json", norma(run + "2/2").out);
  const Outcome o = norma("report merge 2.json 1.json --json");
  EXPECT_EQ(o.status, 1) << o.out << o.err;
  const ordered_json j = ordered_json::parse(o.out);
  EXPECT_EQ(j["ended_early"], "10 calls crashed, and none was computed");
  ASSERT_EQ(j["laws"].size(), 3U);
  EXPECT_EQ(j["laws"][0]["broken"], 10);
  for (const ordered_json& law : j["laws"]) EXPECT_EQ(law["unsupported"], 20) << law["law"];
}

// A subject that greets and dies: every form says that the search ended, and why.
TEST_F(Reports, SayWhyASearchEndedEarly) {
  put("mute.py", R"(import sys
sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), 'little'))
header = b'{"__metadata__":{"name":"mute"}}'
sys.stdout.buffer.write((8 + len(header)).to_bytes(8, 'little') + len(header).to_bytes(8, 'little') + header)
sys.stdout.buffer.flush()
sys.exit(5))");
  const std::string run = "check 'exec:" NORMA_PYTHON " mute.py # ```' --junit report.xml --html page.html";
  const std::string why = "10 calls crashed, and none was computed";
  const Outcome o = norma(run + " --json");
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.err, "norma: the search ended early: " + why + "\n");
  const ordered_json j = ordered_json::parse(o.out);
  EXPECT_EQ(j["ended_early"], why);
  EXPECT_NE(contents(at("report.xml")).find("errors=\"1\" skipped=\"" + std::to_string(j["laws"].size() - 1) + "\""), std::string::npos);
  EXPECT_NE(contents(at("report.xml")).find("<error message=\"ended early: " + why), std::string::npos);
  EXPECT_NE(contents(at("page.html")).find("ended early: " + why), std::string::npos);
  const std::string markdown = norma(run + " --markdown").out;
  EXPECT_NE(markdown.find("ended early: " + why), std::string::npos);
  EXPECT_NE(markdown.find("\n````\nnorma check 'exec:"), std::string::npos) << markdown;
  put("mute.json", o.out);
  EXPECT_EQ(j["laws"].size(), ordered_json::parse(norma("check reference --cases 1 --json").out)["laws"].size());
  const Outcome merged = norma("report merge mute.json");
  EXPECT_EQ(merged.status, 1);
  EXPECT_NE(merged.out.find("ended early: " + why), std::string::npos) << merged.out << merged.err;
}

TEST_F(Reports, ArriveWholeOrNotAtAll) {
  expect_refusal("check simd --html nowhere/page.html", {"nowhere/page.html"});
  expect_refusal("check simd --html /proc/page.html", {"/proc/page.html"});  // where not even root writes
  expect_refusal("check simd --html /dev/full", {"/dev/full", "regular file"});
  expect_refusal("check simd --html . ", {"directory"});
  expect_refusal("check simd --html same --junit same", {"--html: same is also same"});
  put("w.json", "[]");
  expect_refusal("check simd --waivers w.json --html w.json", {"--html: w.json is also w.json"});
  EXPECT_EQ(contents(at("w.json")), "[]");
  const Outcome into = norma("check simd --law mean_zero --cases 2 --html .out");
  EXPECT_EQ(into.status, 2);
  EXPECT_EQ(into.err, "norma: --html: .out is also standard output: expected a file of its own\n");
  const std::string longest(300, 'a'), other(300, 'b');
  expect_refusal("check simd --junit " + longest + " --html " + other, {longest + ": cannot be written: File name too long"});
  // Before any work: the subject, which would be found missing, is not looked at.
  expect_refusal("check ./nowhere.so --html nowhere/page.html", {"nowhere/page.html"});
  // No room for the page: what was there stays, and nothing else is left, whether the system says so or kills.
  put("page.html", "what was there");
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(at(""))) names.insert(entry.path().filename().string());
    return names;
  };
  const std::set<std::string> before = files();
  const std::string check = program() + " check plain --cases 2 --law mean_zero --html page.html >.out 2>.err";
  for (const std::string fate : {"trap '' XFSZ; ", ""}) {
    const std::string command = "cd " + at("").string() + " && (" + fate + "ulimit -f 8 && " + check + ")";
    const int status = WEXITSTATUS(std::system(command.c_str()));
    if (fate.empty()) {
      EXPECT_GT(status, 128) << "not killed";
    } else {
      EXPECT_EQ(status, 2);
      EXPECT_NE(contents(at(".err")).find("page.html: cannot be written"), std::string::npos) << contents(at(".err"));
      EXPECT_NE(contents(at(".out")).find("holds: 1 law holds"), std::string::npos) << contents(at(".out"));
    }
    EXPECT_EQ(contents(at("page.html")), "what was there");
    std::set<std::string> after = files();
    after.erase("core");
    EXPECT_EQ(after, before);
  }
  ASSERT_EQ(std::system(("cd " + at("").string() + " && " + check).c_str()), 0);
  EXPECT_GT(contents(at("page.html")).size(), 8U * 1024);
}

}  // namespace
}  // namespace norma
