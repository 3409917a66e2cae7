#include "distbelief/base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace distbelief {
namespace {

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>('a' + i % 23);
  return text;
}

TEST(Sha256, MatchesTheStandardsExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  const std::string text = long_text();
  Sha256 pieces;
  for (std::size_t at = 0; at < text.size(); at += 77) {
    pieces.update(text.data() + at, std::min<std::size_t>(77, text.size() - at));
  }
  EXPECT_EQ(pieces.hex(), sha256(text));
}

TEST(Sha256, GoesOnAfterADigestWasRead) {
  Sha256 hash;
  hash.update("a", 1);
  EXPECT_EQ(hash.hex(), sha256("a"));
  EXPECT_EQ(hash.hex(), sha256("a"));
  hash.update("bc", 2);
  EXPECT_EQ(hash.hex(), sha256("abc"));
}

TEST(Xxh3, MatchesThePublishedValueOfNothing) { EXPECT_EQ(xxh3("", 0), 0x2d06800538d394c2ULL); }

TEST(Xxh3, PiecesGiveTheValueOfTheWhole) {
  const std::string text = long_text();
  Xxh3 pieces;
  for (std::size_t at = 0; at < text.size(); at += 501) {
    pieces.update(text.data() + at, std::min<std::size_t>(501, text.size() - at));
  }
  EXPECT_EQ(pieces.value(), xxh3(text.data(), text.size()));
}

TEST(Xxh3, EveryFlippedBitChangesTheValue) {
  std::string text = long_text().substr(0, 300);
  const std::uint64_t whole = xxh3(text.data(), text.size());
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(xxh3(text.data(), text.size()), whole) << "bit " << bit;
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace distbelief
