// Every kind of arrival in every state of a receiving end, and the sending end's windows.
#include "session/edge.h"

#include <gtest/gtest.h>

#include "session/machine_fixture.h"

namespace meshnet {
namespace {

using Arrival = ReceivingEdge::Arrival;

v1::Frame Rows(std::uint64_t seq, std::uint32_t rows = 1) {
  v1::Frame frame = Chunk(seq, 0, rows, false);
  const std::vector<float> values(std::size_t{rows} * kTestWidth, 1.0f);
  AddTensor("hidden", rows, values, &frame);
  return frame;
}

// Two parts of a frame of 2 rows (128 bytes).
std::vector<v1::Frame> Parts(std::uint64_t seq) {
  v1::Frame whole = Rows(seq, 2);
  const std::string data = whole.tensors(0).data();
  std::vector<v1::Frame> parts(2, whole);
  for (std::uint32_t i = 0; i < 2; ++i) {
    parts[i].mutable_tensors(0)->set_data(data.substr(i * 64, 64));
    parts[i].mutable_fragment()->set_index(i);
    parts[i].mutable_fragment()->set_count(2);
    parts[i].mutable_fragment()->set_offset_bytes(i * 64);
    parts[i].mutable_fragment()->set_total_bytes(128);
  }
  return parts;
}

struct Took {
  Arrival arrival;
  Code code;
};

bool operator==(const Took& a, const Took& b) { return a.arrival == b.arrival && a.code == b.code; }
std::ostream& operator<<(std::ostream& stream, const Took& took) {
  return stream << static_cast<int>(took.arrival) << " " << CodeName(took.code);
}

Took Take(ReceivingEdge* edge, v1::Frame frame) {
  v1::Frame whole;
  Status failure;
  const Arrival arrival = edge->Receive(std::move(frame), &whole, &failure);
  return {arrival, failure.code()};
}

const Took kDelivered{Arrival::kDelivered, Code::kOk};
const Took kKept{Arrival::kKept, Code::kOk};
const Took kRepeated{Arrival::kRepeated, Code::kOk};
Took Failed(Code code) { return {Arrival::kFailed, code}; }

// An end that has delivered and consumed frame 0, so that 1 is next.
ReceivingEdge Expecting(Window window = {2, 200}) {
  ReceivingEdge edge(window);
  EXPECT_EQ(Take(&edge, Rows(0)), kDelivered);
  edge.Consume(0);
  return edge;
}

ReceivingEdge Assembling() {
  ReceivingEdge edge = Expecting();
  EXPECT_EQ(Take(&edge, Parts(1)[0]), kKept);
  return edge;
}

TEST(ReceivingEdgeTest, Expecting) {
  const auto take = [](v1::Frame frame) {
    ReceivingEdge edge = Expecting();
    return Take(&edge, std::move(frame));
  };
  EXPECT_EQ(take(Rows(1)), kDelivered);
  EXPECT_EQ(take(Parts(1)[0]), kKept);
  EXPECT_EQ(take(Parts(1)[1]), Failed(Code::kSequenceGap));
  EXPECT_EQ(take(Rows(0)), kRepeated);
  EXPECT_EQ(take(Parts(0)[1]), kRepeated);
  EXPECT_EQ(take(Rows(2)), Failed(Code::kSequenceGap));
  EXPECT_EQ(take(Rows(1, 4)), Failed(Code::kMessageTooLarge));
}

TEST(ReceivingEdgeTest, Assembling) {
  const auto take = [](v1::Frame frame) {
    ReceivingEdge edge = Assembling();
    return Take(&edge, std::move(frame));
  };
  EXPECT_EQ(take(Rows(1)), Failed(Code::kMalformed));
  EXPECT_EQ(take(Parts(1)[0]), kRepeated);
  EXPECT_EQ(take(Parts(1)[1]), kDelivered);
  EXPECT_EQ(take(Rows(0)), kRepeated);
  EXPECT_EQ(take(Rows(2)), Failed(Code::kSequenceGap));
  EXPECT_EQ(take(Parts(2)[0]), Failed(Code::kSequenceGap));
}

TEST(ReceivingEdgeTest, TheWindowCountsFramesAndBytesUntilConsumed) {
  ReceivingEdge edge({2, 150});
  EXPECT_EQ(Take(&edge, Rows(0)), kDelivered);
  EXPECT_EQ(edge.held_bytes(), 64u);
  EXPECT_FALSE(edge.consumed_seq().has_value());
  EXPECT_EQ(Take(&edge, Rows(1)), kDelivered);
  edge.Consume(0);
  EXPECT_EQ(edge.consumed_seq(), 0u);
  EXPECT_EQ(Take(&edge, Rows(2)), kDelivered);
  EXPECT_EQ(Take(&edge, Rows(3)), Failed(Code::kWindowExceeded));
  ReceivingEdge bytes({9, 150});
  EXPECT_EQ(Take(&bytes, Rows(0)), kDelivered);
  EXPECT_EQ(Take(&bytes, Rows(1, 2)), Failed(Code::kWindowExceeded));
}

TEST(SendingEdgeTest, NumbersFramesWithinTheWindow) {
  SendingEdge edge({2, 100});
  EXPECT_TRUE(edge.Fits(100));
  EXPECT_FALSE(edge.Fits(101));
  EXPECT_FALSE(edge.waiting_since().has_value());
  EXPECT_EQ(edge.Send(60, At(0)), 0u);
  EXPECT_FALSE(edge.HasCredit(60));
  EXPECT_TRUE(edge.HasCredit(40));
  EXPECT_EQ(edge.Send(40, At(5)), 1u);
  EXPECT_FALSE(edge.HasCredit(0));
  EXPECT_EQ(edge.waiting_since(), At(0));
  EXPECT_EQ(edge.Acknowledge(2, At(6)).code(), Code::kMalformed);
  EXPECT_TRUE(edge.Acknowledge(0, At(7)).ok());
  EXPECT_EQ(edge.waiting_since(), At(7));
  EXPECT_TRUE(edge.Acknowledge(0, At(8)).ok());
  EXPECT_EQ(edge.waiting_since(), At(7));  // a repeated acknowledgement is no progress
  EXPECT_TRUE(edge.Acknowledge(1, At(9)).ok());
  EXPECT_FALSE(edge.waiting_since().has_value());
}

}  // namespace
}  // namespace meshnet
