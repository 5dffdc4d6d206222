// Generated cases are what was wished for, the same each time, of every family; what they shrink to is smaller, and ends.
#include "norma/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include "norma/law.h"
#include "norma/truth.h"

namespace norma::properties {
namespace {

TEST(Generate, TheSameNumberIsTheSameCase) {
  const Wish wish{.finite = false, .statistics = true, .residual = true, .mixed = true, .placements = true, .epsilon_zero = true};
  std::set<std::string> lines;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string line = to_line(generate(wish, 3, i).value());
    EXPECT_EQ(line, to_line(generate(wish, 3, i).value()));
    EXPECT_NE(line, to_line(generate(wish, 4, i).value()));
    lines.insert(line);
    const Result<Case> read = parse_case(line);
    ASSERT_TRUE(read.ok()) << read.status().message << "\n" << line;
    EXPECT_EQ(to_line(*read), line);
  }
  EXPECT_EQ(lines.size(), 300U);
}

TEST(Generate, TheReferenceTakesEveryCase) {
  const Wish wish{.finite = false, .statistics = true, .residual = true, .mixed = true, .epsilon_zero = true};
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Case c = generate(wish, 1, i).value();
    const Result<Truth> truth = truth_of(c, {});
    ASSERT_TRUE(truth.ok()) << truth.status().message << "\n" << to_line(c);
  }
}

// Every family, op, format and length has its share.
TEST(Generate, Distribution) {
  constexpr int count = 10'000;
  std::map<std::string, int> families_seen, ops_seen, formats_seen;
  std::set<std::int64_t> lengths;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Case c = generate({.finite = false}, 1, i).value();
    ++families_seen[c.families.substr(0, c.families.find(','))];
    ++ops_seen[std::string(info(c.spec.op).name)];
    ++formats_seen[std::string(info(c.format).name)];
    if (c.spec.op == Op::layer_norm || c.spec.op == Op::rms_norm) lengths.insert(c.elements() / c.x().shape[0]);
  }
  for (const Family& f : families()) EXPECT_GE(families_seen[std::string(f.name)], count / 100) << f.name;
  for (const auto& [op, n] : ops_seen) EXPECT_GE(n, count / 10) << op;
  EXPECT_EQ(ops_seen.size(), 6U);
  for (const auto& [format, n] : formats_seen) EXPECT_GE(n, count / 8) << format;
  EXPECT_EQ(lengths.size(), 130U);
  for (const auto& [family, n] : families_seen) std::cout << family << " " << n << "\n";
}

TEST(Generate, FamiliesAreWhatTheySay) {
  rc::Random random(7);
  for (const Family& f : families()) {
    for (const Format format : {Format::f16, Format::bf16, Format::f32, Format::f64}) {
      std::vector<Bits> bits(64);
      f.fill(random, format, bits);
      double most = 0;
      for (const Bits b : bits) {
        const Decoded d = decode(format, b);
        EXPECT_TRUE(d.kind == Kind::finite || !f.finite) << f.name;
        if (d.kind == Kind::finite) most = std::max(most, std::ldexp(static_cast<double>(d.significand), d.exponent));
      }
      EXPECT_TRUE(most < std::ldexp(1.0, info(format).max_exponent() - 6) || !f.tame) << f.name << " " << info(format).name;
    }
  }
}

// By whatever is smaller, again and again, a case comes to an end.
TEST(Generate, ShrinkingEnds) {
  const Wish wish{.statistics = true, .residual = true, .mixed = true, .placements = true, .epsilon_zero = true};
  for (std::uint64_t i = 0; i < 40; ++i) {
    Case c = generate(wish, 5, i).value();
    int steps = 0;
    rc::Random choice(i);
    for (std::vector<Case> next = smaller(c, wish); !next.empty() && steps < 5000; next = smaller(c, wish), ++steps) {
      c = next[choice.next() % next.size()];
      ASSERT_TRUE(truth_of(c, {}).ok()) << to_line(c);
    }
    EXPECT_LT(steps, 5000) << to_line(c);
  }
}

// What a wish has only now and then, it has among the cases of a law as `norma check` asks it.
TEST(Generate, WhatIsRareIsThere) {
  const auto wish = [](std::string_view slug) { return law_named(slug)->wish(); };
  int huge = 0, with = 0, without = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    huge += generate(wish("large_n"), 1, i).value().elements() >= 1 << 20;
    ++(generate(wish("deterministic"), 1, i).value().outputs.contain(Role::rstd) ? with : without);
  }
  EXPECT_GE(huge, 2);
  EXPECT_GE(with, 40);
  EXPECT_GE(without, 40);
}

}  // namespace
}  // namespace norma::properties
