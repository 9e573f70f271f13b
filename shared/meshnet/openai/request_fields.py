"""The parameters that both endpoints accept, and their rules.

Invariants: types are strict (a string is never a number, a boolean never an integer), and numbers are finite and within
OpenAI's ranges. If an unsupported parameter would change the answer, it is refused by name; if it cannot change the
answer, it is accepted and ignored. The `type` of a `PydanticCustomError` that is raised here is the API's error code;
its context may hold `param`, the name of the parameter at fault.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from meshnet.openai.specification import DeliverySpec, SamplingSpec

STOP_STRINGS_MAX: Final = 16
STOP_LENGTH_MAX: Final = 256  # characters; a stream holds back at most this many
LOGIT_BIAS_MAX: Final = 1024  # entries
TOP_LOGPROBS_MAX: Final = 20
TOKEN_ID_MAX: Final = 2**31 - 1
_TOKEN_ID_DIGITS_MAX: Final = len(str(TOKEN_ID_MAX))
MODEL_NAME_LENGTH_MAX: Final = 256  # characters


def _refuse_unless_empty(value: object) -> object:
    if value in (None, [], {}):
        return value
    raise PydanticCustomError("unsupported_parameter", "This parameter is not supported.")


def _refuse_unless_text(value: object) -> object:
    if value is None or value == {"type": "text"}:
        return value
    raise PydanticCustomError("unsupported_parameter", "Only the response format 'text' is supported.")


def _refuse_unless_none_or_auto(value: object) -> object:
    if value in (None, "none", "auto"):
        return value
    raise PydanticCustomError("unsupported_parameter", "This parameter is not supported.")


def _refuse_unless_one(value: object) -> object:
    if value is None or (value == 1 and isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("unsupported_value", "Only the value 1 is supported.")


def _refuse_unless_false(value: object) -> object:
    if value is None or value is False:
        return value
    raise PydanticCustomError("unsupported_value", "Only the value false is supported.")


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _check_stops(stops: list[str]) -> list[str]:
    if not all(0 < len(stop) <= STOP_LENGTH_MAX for stop in stops):
        message = "A stop string must have 1 to {length_max} characters."
        raise PydanticCustomError("invalid_value", message, {"length_max": STOP_LENGTH_MAX})
    return stops


def _check_token_keys(bias: dict[str, float]) -> dict[str, float]:
    for key in bias:
        # An id has only one valid spelling; "7" and "007" would be two biases of one token.
        is_number = key.isascii() and key.isdigit() and len(key) <= _TOKEN_ID_DIGITS_MAX
        if not is_number or str(int(key)) != key or int(key) > TOKEN_ID_MAX:
            raise PydanticCustomError("invalid_value", "The keys of logit_bias must be token ids.")
    return bias


Unsupported = Annotated[object, AfterValidator(_refuse_unless_empty)]
TextFormatOnly = Annotated[object, AfterValidator(_refuse_unless_text)]
ToolChoice = Annotated[object, AfterValidator(_refuse_unless_none_or_auto)]
OneOnly = Annotated[object, AfterValidator(_refuse_unless_one)]
FalseOnly = Annotated[object, AfterValidator(_refuse_unless_false)]
Ignored = object
ModelName = Annotated[str, Field(min_length=1, max_length=MODEL_NAME_LENGTH_MAX)]
TokenCount = Annotated[int, Field(ge=1, le=TOKEN_ID_MAX)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Bias = Annotated[float, Field(ge=-100, le=100)]
Stops = Annotated[
    Annotated[list[str], Field(max_length=STOP_STRINGS_MAX), AfterValidator(_check_stops)] | None,
    BeforeValidator(_as_list),
]
LogitBias = Annotated[dict[str, Bias], Field(max_length=LOGIT_BIAS_MAX), AfterValidator(_check_token_keys)]


class RequestPart(BaseModel):
    """Base class of everything that a client sends."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, hide_input_in_errors=True)


class StreamOptions(RequestPart):
    """The additions to a stream that the client asks for. Obfuscation is accepted and ignored."""

    include_usage: bool | None = None
    include_telemetry: bool | None = None
    include_obfuscation: Ignored = None


class GenerationFields(RequestPart):
    """Parameters of both endpoints as in OpenAI's API reference; `top_k` and `min_p` are as in other servers."""

    model: ModelName
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: TokenCount | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=TOKEN_ID_MAX)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    stop: Stops = None
    n: OneOnly = None
    # A server that stores nothing gives the same answer for all of these.
    user: Ignored = None
    metadata: Ignored = None
    store: Ignored = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> GenerationFields:
        if self.stream_options is not None and not self.stream:
            message = "'stream_options' is only allowed if 'stream' is true."
            raise PydanticCustomError("invalid_value", message, {"param": "stream_options"})
        return self

    def delivery(self) -> DeliverySpec:
        """Return how the answer is to be sent."""
        options = self.stream_options or StreamOptions()
        return DeliverySpec(
            stream=bool(self.stream),
            include_usage=bool(options.include_usage),
            include_telemetry=bool(options.include_telemetry),
        )

    def sampling(self, *, logprobs: bool, top_logprobs: int) -> SamplingSpec:
        """Return how tokens are drawn; a parameter that is not set takes OpenAI's default."""
        top_p = 1.0 if self.top_p is None else self.top_p
        # With top_p 0, OpenAI keeps one token; our sampler would keep none, so it becomes top_k 1.
        top_k = 1 if top_p == 0 else max(self.top_k or 0, 0)
        return SamplingSpec(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=top_p or 1.0,
            top_k=top_k,
            min_p=self.min_p or 0.0,
            seed=None if self.seed is None else self.seed % 2**64,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            logit_bias=tuple(sorted((int(key), value) for key, value in (self.logit_bias or {}).items())),
            logprobs=logprobs,
            top_logprobs=top_logprobs,
        )
