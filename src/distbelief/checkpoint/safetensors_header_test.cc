#include "distbelief/checkpoint/safetensors_header.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::checkpoint {
namespace {

std::string file_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + header + data;
}

// The error message for a file with this content; fails when it is accepted.
std::string refusal(const std::string& content) {
  try {
    decode_header("some/file", std::as_bytes(std::span(content)));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_TRUE(error.message().starts_with("some/file is not a whole safetensors file")) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "accepted: " << content.substr(0, 200);
  return {};
}

void expect_refused(const std::string& header, const std::string& data, const std::string& reason) {
  const std::string message = refusal(file_bytes(header, data));
  EXPECT_NE(message.find(reason), std::string::npos) << header.substr(0, 200) << "\n" << message;
}

TEST(SafetensorsHeader, ReadsWhatAnotherWriterMayMake) {
  const std::string content =
      file_bytes(R"({"b":{"shape":[2],"data_offsets":[1,3],"dtype":"U8"},)"
                 R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"__metadata__":{"k":"v"}}   )",
                 "xyz");
  const DecodedHeader header = decode_header("file", std::as_bytes(std::span(content)));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].shape, Shape{2});
  EXPECT_EQ(static_cast<char>(*header.tensors[1].data), 'y');
  EXPECT_EQ(header.metadata, (Metadata{{"k", "v"}}));
}

TEST(SafetensorsHeader, WidensHalfFloatsWhereTheyAreWanted) {
  const std::string header = R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[4,6]}})";
  const std::string data("\x00\x3c\x00\xc0\x80\x3f", 6);
  const std::string content = file_bytes(header, data);
  EXPECT_NE(refusal(content).find(R"(dtype "F16")"), std::string::npos);
  const DecodedHeader found = decode_header("file", std::as_bytes(std::span(content)), HalfFloats::kWidened);
  std::vector<float> values(3);
  read_elements(found.tensors[0], {0, 2}, reinterpret_cast<std::byte*>(values.data()));
  read_elements(found.tensors[1], {0, 1}, reinterpret_cast<std::byte*>(values.data() + 2));
  EXPECT_EQ(values, (std::vector<float>{1, -2, 1}));
  EXPECT_EQ(found.tensors[0].type, ElementType::kFloat32);
  const std::string cut = file_bytes(header, data.substr(0, 5));
  EXPECT_THROW(decode_header("file", std::as_bytes(std::span(cut)), HalfFloats::kWidened), Error);
  const std::string wide = file_bytes(R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,4]}})", "1234");
  EXPECT_THROW(decode_header("file", std::as_bytes(std::span(wide)), HalfFloats::kWidened), Error);
}

TEST(SafetensorsHeader, RefusesHostileHeaderLengths) {
  EXPECT_NE(refusal("").find("ends at offset 0"), std::string::npos);
  EXPECT_NE(refusal(std::string(8, '\xff') + "{}").find("at most 33554432"), std::string::npos);
  EXPECT_NE(refusal(std::string("\x03\0\0\0\0\0\0\0{}", 10)).find("ends at offset 10"), std::string::npos);
}

TEST(SafetensorsHeader, RefusesHeadersThatAreNotJsonObjects) {
  expect_refused("", "", "not JSON");
  expect_refused("{\"a\":", "", "not JSON");
  expect_refused("[1,2]", "", "not a JSON object");
  expect_refused("{\"a\xff\":{}}", "", "not JSON");
  expect_refused(std::string(1'000'000, '['), "", "nested too deeply");
}

TEST(SafetensorsHeader, RefusesTensorsWithMissingOrStrangeFields) {
  expect_refused(R"({"a":1})", "", "tensor 'a' has no 'dtype'");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0]}})", "", "tensor 'a' has no 'data_offsets'");
  expect_refused(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "xx", R"(dtype "BF16")");
  expect_refused(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", "x", "dtype 7");
  expect_refused(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x", "'shape' holds -1");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "x", "'shape' holds 1.0");
  expect_refused(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "x", "'shape' is not a list");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", "x", "no begin and end");
  expect_refused(R"({"__metadata__":{"k":1}})", "", "metadata 'k' is not a string");
  expect_refused(R"({"__metadata__":[]})", "", "not an object");
}

TEST(SafetensorsHeader, RefusesOffsetsThatDoNotFitTheData) {
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "x", "ends at data offset 2");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "x", "no begin and end");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,1]}})", "x",
                 "not an index");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}})", "xyz", "its shape [1] needs 4");
}

TEST(SafetensorsHeader, RefusesShapesThatOverflow) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", "",
                 "impossible shape");
  expect_refused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "",
                 "impossible shape");
  expect_refused(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})", "",
                 "not an index");
}

TEST(SafetensorsHeader, RefusesOverlapsHolesAndDuplicates) {
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  expect_refused("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xyz",
                 "tensor 'b' at data offset 1 overlaps");
  expect_refused("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})", "wxyz",
                 "hole at data offset 2");
  expect_refused("{" + a + "}", "xyz", "end at data offset 2, the data at 3");
  expect_refused("{" + a + "," + a + "}", "xy", "tensor 'a' is listed twice");
}

}  // namespace
}  // namespace distbelief::checkpoint
