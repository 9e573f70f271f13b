#include "wire/status.h"

namespace meshnet {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kMalformed:
      return "malformed";
    case Code::kMessageTooLarge:
      return "message_too_large";
    case Code::kEdgeNotPermitted:
      return "edge_not_permitted";
    case Code::kSequenceGap:
      return "sequence_gap";
    case Code::kWrongPosition:
      return "wrong_position";
    case Code::kWindowExceeded:
      return "window_exceeded";
    case Code::kWrongShape:
      return "wrong_shape";
    case Code::kWrongDtype:
      return "wrong_dtype";
    case Code::kWrongSize:
      return "wrong_size";
    case Code::kBadTokenId:
      return "bad_token_id";
    case Code::kMissingTokenIds:
      return "missing_token_ids";
    case Code::kNotFinite:
      return "not_finite";
    case Code::kUnknownSession:
      return "unknown_session";
    case Code::kOldEpoch:
      return "old_epoch";
    case Code::kSessionExists:
      return "session_exists";
    case Code::kContractMismatch:
      return "contract_mismatch";
    case Code::kKvExhausted:
      return "kv_exhausted";
    case Code::kTooManySessions:
      return "too_many_sessions";
    case Code::kNotReady:
      return "not_ready";
    case Code::kPaused:
      return "paused";
    case Code::kContextFull:
      return "context_full";
    case Code::kIdle:
      return "idle";
    case Code::kStepTimeout:
      return "step_timeout";
    case Code::kGatewayLost:
      return "gateway_lost";
    case Code::kStageLost:
      return "stage_lost";
    case Code::kRewindRefused:
      return "rewind_refused";
    case Code::kEngineFailed:
      return "engine_failed";
    case Code::kCancelled:
      return "cancelled";
    case Code::kFileMissing:
      return "file_missing";
    case Code::kNotGguf:
      return "not_gguf";
    case Code::kTruncated:
      return "truncated";
    case Code::kUnsupportedArchitecture:
      return "unsupported_architecture";
    case Code::kLayersOutOfRange:
      return "layers_out_of_range";
    case Code::kLoadFailed:
      return "load_failed";
    case Code::kInvalidArgument:
      return "invalid_argument";
  }
  return "unknown";
}

}  // namespace meshnet
