// Fuzzes the code that reads messages of a peer or the relay: the parsers, the cutting and joining of frames, and two
// stages of a route with a FakeEngine each, until their session is closed.
//
// The fuzzer stops at what the sanitizers find, and also if an accepted message cannot be read again once it is
// written, if a frame changes by that, if the parts of a frame do not join to the same frame, if IsFinite accepts
// packed rows that are not finite once unpacked, or if a KV cell stays reserved or a sequence stays open after the
// session was closed.
#include <cstdlib>
#include <iostream>

#include "session/machine_fixture.h"
#include "wire/edge_codec.h"
#include "wire/fragment.h"
#include "wire/seam_codec.h"
#include "wire/tensor_codec.h"
#include "wire_records.h"

namespace meshnet::fuzz {
namespace {

constexpr std::size_t kPartBytes = 512;
constexpr std::uint32_t kStages = 2;
const std::string kPeer(32, 'p');

// The id of the session whose messages are in tests/vectors/.
std::string VectorSession() {
  std::string session(kSessionIdBytes, '\0');
  for (std::size_t i = 0; i < session.size(); ++i) session[i] = static_cast<char>(i);
  return session;
}

void Require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << std::endl;
  std::abort();
}

void CutAndJoin(const v1::Frame& frame) {
  std::vector<v1::Frame> parts;
  if (frame.has_fragment() || !FragmentFrame(v1::Frame(frame), &parts, kPartBytes).ok()) return;
  if (parts.size() == 1) return;
  FrameAssembler assembler;
  v1::Frame whole;
  bool is_complete = false;
  for (v1::Frame& part : parts) {
    Require(!is_complete, "a frame that is whole before its last part");
    Require(assembler.Add(std::move(part), kMaxTensorBytes, &whole, &is_complete).ok(), "a part that is refused");
  }
  Require(is_complete && SerialiseFrame(whole) == SerialiseFrame(frame), "parts that join to another frame");
}

void UnpackFinite(const v1::Frame& frame) {
  if (frame.has_fragment()) return;
  for (const v1::Tensor& tensor : frame.tensors()) {
    if (tensor.dtype() != v1::DTYPE_F32 || !IsFinite(tensor)) continue;
    std::vector<float> rows(std::size_t{tensor.shape(0)} * tensor.shape(1));
    UnpackRows(tensor, rows);
    Require(AllFinite(rows), "rows that are finite only while they are packed");
  }
}

void ReadFrame(std::string_view bytes) {
  const Result<v1::Frame> frame = ParseFrame(bytes);
  if (!frame.ok()) return;
  const std::string written = SerialiseFrame(frame.value());
  const Result<v1::Frame> again = ParseFrame(written);
  Require(again.ok() && SerialiseFrame(again.value()) == written, "a frame that reads differently once written");
  CutAndJoin(frame.value());
  UnpackFinite(frame.value());
}

void ReadEdgeMessage(std::string_view bytes) {
  const Result<v1::EdgeMessage> message = ParseEdgeMessage(bytes);
  if (!message.ok()) return;
  const Result<v1::EdgeMessage> again = ParseEdgeMessage(message.value().SerializeAsString());
  Require(again.ok(), "an edge message that cannot be read once written");
}

// A stage with one open session, whose edge to the other stage is a direct link.
class OpenStage {
 public:
  OpenStage(std::uint32_t stage, LayerSpan layers) : stage_(layers) {
    v1::SessionSpec spec = SpecFor(stage_.engine->facts(), stage, kStages);
    spec.set_session(VectorSession());
    for (v1::EdgeSpec& edge : *spec.mutable_edges()) {
      if (edge.from_stage() == kGatewayStage || edge.to_stage() == kGatewayStage) continue;
      edge.set_carrier(v1::EdgeSpec::CARRIER_DIRECT);
      edge.set_peer_fingerprint(kPeer);
    }
    Require(stage_.machine.Open(spec, At(0)).ok(), "a session that cannot be opened");
  }

  template <typename Body>
  void Receive(const WireRecord& record, TimePoint now) {
    // The message is parsed and not checked, as gRPC delivers it to the bridge and to a link.
    Body message;
    if (!message.ParseFromArray(record.bytes.data(), static_cast<int>(record.bytes.size()))) return;
    const Origin origin = record.from_bridge ? Origin{} : Origin{Carrier::kPeer, kPeer};
    (void)stage_.machine.Receive(origin, std::move(message), now);
    stage_.Run(now);
    (void)stage_.machine.Tick(now);
    (void)stage_.machine.TakeOutgoing();
  }

  void Close(TimePoint now) {
    (void)stage_.machine.Close(ToSessionId(VectorSession()), ~0u, now);
    stage_.Run(now);
    Require(stage_.machine.table().kv_cells_reserved() == 0, "a cell that is never freed");
    Require(stage_.opened == stage_.closed, "a sequence that is never closed");
  }

 private:
  TestStage stage_;
};

void ReceiveAll(const std::uint8_t* data, std::size_t size) {
  OpenStage head(0, {0, 4});
  OpenStage tail(1, {4, 8});
  WireRecords records(data, size);
  WireRecord record;
  int now_ms = 0;
  while (records.Next(&record)) {
    OpenStage& stage = record.to_tail ? tail : head;
    ++now_ms;
    if (record.is_edge_message) {
      ReadEdgeMessage(record.bytes);
      stage.Receive<v1::EdgeMessage>(record, At(now_ms));
    } else {
      ReadFrame(record.bytes);
      stage.Receive<v1::Frame>(record, At(now_ms));
    }
  }
  head.Close(At(now_ms));
  tail.Close(At(now_ms));
}

}  // namespace
}  // namespace meshnet::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  meshnet::fuzz::ReceiveAll(data, size);
  return 0;
}
