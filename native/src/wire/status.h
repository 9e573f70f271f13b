// Values that functions return to say whether they succeeded: a code for programs and a message for people. Our
// interfaces throw no exceptions.
#ifndef MESHNET_WIRE_STATUS_H_
#define MESHNET_WIRE_STATUS_H_

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace meshnet {

// kOk, then the failure codes of docs/wire.md in that document's order, then the codes for the loading of a shard and
// for wrong arguments, which never cross an edge. Their names (CodeName) never change.
enum class Code {
  kOk,
  kMalformed,
  kMessageTooLarge,
  kEdgeNotPermitted,
  kSequenceGap,
  kWrongPosition,
  kWindowExceeded,
  kWrongShape,
  kWrongDtype,
  kWrongSize,
  kBadTokenId,
  kMissingTokenIds,
  kNotFinite,
  kUnknownSession,
  kOldEpoch,
  kSessionExists,
  kContractMismatch,
  kKvExhausted,
  kTooManySessions,
  kNotReady,
  kPaused,
  kContextFull,
  kIdle,
  kStepTimeout,
  kGatewayLost,
  kStageLost,
  kRewindRefused,
  kEngineFailed,
  kCancelled,
  // The codes below never cross an edge.
  kFileMissing,
  kNotGguf,
  kTruncated,
  kUnsupportedArchitecture,
  kLayersOutOfRange,
  kLoadFailed,
  kInvalidArgument,
};

// The name of a code on the wire, for example "wrong_shape".
std::string_view CodeName(Code code);

// Whether an operation succeeded, and if not, why. Messages hold sizes and names, never prompt or completion text.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value, or the status that says why there is none. Call value() only if ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}         // NOLINT: converts on purpose
  Result(Status status) : content_(std::in_place_index<1>, std::move(status)) {}  // NOLINT: converts on purpose

  bool ok() const { return content_.index() == 0; }
  T& value() { return std::get<0>(content_); }
  const T& value() const { return std::get<0>(content_); }
  Status status() const { return ok() ? Status::Ok() : std::get<1>(content_); }

 private:
  std::variant<T, Status> content_;
};

}  // namespace meshnet

#endif  // MESHNET_WIRE_STATUS_H_
