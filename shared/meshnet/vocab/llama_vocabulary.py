"""The vocabulary of a GGUF file, read and applied by llama.cpp's own tokeniser.

Invariants: only the vocabulary is loaded, never weights. Every id is checked before it reaches the library, whose
asserts abort the process. The model is freed once, after its vocabulary. `llama_cpp` is imported when the first
vocabulary opens, because the import loads a shared library; `meshnet.llama_library` must have named its folder before.
The library's vocabulary functions only read, so several threads may call them at once.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from functools import cache
from typing import TYPE_CHECKING, Final

from meshnet.failure_codes import FailureCode
from meshnet.llama_library import BUILD_FOLDER, LIBRARY_FOLDER
from meshnet.vocab.chat_template import ChatTemplate
from meshnet.vocab.errors import VocabularyError
from meshnet.vocab.vocabulary import Traits, Vocabulary

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

# If special parsing is off, the tokeniser does not read tokens with these attributes from text. Source: llama.h.
_ATTRIBUTE_UNKNOWN: Final = 1 << 0
_ATTRIBUTE_CONTROL: Final = 1 << 3
# The tokeniser that puts a space before every text (SentencePiece). Source: llama.h, LLAMA_VOCAB_TYPE_SPM.
_VOCAB_TYPE_SPM: Final = 1
# Every SentencePiece vocabulary has this as a token of its own, so the text after it is tokenised as a continuation.
_CONTINUATION_MARK: Final = "\n"
_PIECE_BYTES: Final = 256

_loading = threading.Lock()


class LlamaVocabulary(Vocabulary):
    """The vocabulary of one GGUF file; it owns a loaded llama.cpp model and frees it."""

    def __init__(self, model: int, *, context_length: int, chat_template: str | None) -> None:
        """Take over `model`, a loaded llama.cpp model, and free it with this object."""
        library = _library()
        weakref.finalize(self, library.llama_model_free, model).atexit = False
        self._library = library
        self._vocab = library.llama_model_get_vocab(model)
        size = library.llama_vocab_n_tokens(self._vocab)
        self._special_spellings = {token_id: self._spelling(token_id) for token_id in self._special_tokens(size)}
        super().__init__(
            self._read_traits(size, context_length),
            template=self._compile(chat_template or _file_template(library, model)),
            control_spellings=self._special_spellings.values(),
        )
        is_spm = library.llama_vocab_type(self._vocab) == _VOCAB_TYPE_SPM
        self._mark_tokens = self._call_tokenise(_CONTINUATION_MARK, parse_special=False) if is_spm else []

    @classmethod
    def open(cls, path: Path, *, context_length: int, chat_template: str | None = None) -> LlamaVocabulary:
        """Load the vocabulary of a GGUF file; arguments and errors are those of `open_vocabulary`."""
        library = _library()
        parameters = library.llama_model_default_params()
        parameters.vocab_only = True
        with _loading:  # The library's start-up and its log are process-wide.
            model = library.llama_model_load_from_file(str(path).encode(), parameters) if path.is_file() else None
        if model is None:
            message = "The model's vocabulary cannot be read."
            raise VocabularyError("vocabulary_invalid", "Vocabulary invalid", message)
        return cls(model, context_length=context_length, chat_template=chat_template)

    def piece(self, token_id: int) -> bytes:
        """Return the bytes of one token; control tokens have none."""
        if not 0 <= token_id < self.size:
            raise VocabularyError(
                FailureCode.BAD_TOKEN_ID, "Bad token id", f"{token_id} is not one of {self.size} tokens."
            )
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        length = self._library.llama_token_to_piece(self._vocab, token_id, buffer, len(buffer), 0, False)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = self._library.llama_token_to_piece(self._vocab, token_id, buffer, len(buffer), 0, False)
        return buffer.raw[:length]

    def _tokenise(self, text: str, *, parse_special: bool, continues: bool) -> list[int]:
        if not (continues and self._mark_tokens):
            return self._call_tokenise(text, parse_special=parse_special)
        marked = self._call_tokenise(_CONTINUATION_MARK + text, parse_special=parse_special)
        if marked[: len(self._mark_tokens)] == self._mark_tokens:
            return marked[len(self._mark_tokens) :]
        return self._call_tokenise(text, parse_special=parse_special)

    def _call_tokenise(self, text: str, *, parse_special: bool) -> list[int]:
        data = text.encode()
        capacity = len(data) + 2
        tokens = (ctypes.c_int32 * capacity)()
        arguments = (self._vocab, data, len(data))
        count = self._library.llama_tokenize(*arguments, tokens, capacity, False, parse_special)
        if count < 0:  # normalisation may lengthen text
            capacity = -count
            tokens = (ctypes.c_int32 * capacity)()
            count = self._library.llama_tokenize(*arguments, tokens, capacity, False, parse_special)
        if count < 0:
            raise VocabularyError("tokenise_failed", "Tokenising failed", "The prompt could not be tokenised.")
        return list(tokens[:count])

    def _read_traits(self, size: int, context_length: int) -> Traits:
        library, vocab = self._library, self._vocab
        bos = library.llama_vocab_bos(vocab)
        wants_bos = library.llama_vocab_get_add_bos(vocab) and 0 <= bos < size
        end_tokens = tuple(token_id for token_id in range(size) if library.llama_vocab_is_eog(vocab, token_id))
        return Traits(
            size=size, context_length=context_length, end_tokens=end_tokens, bos_token=bos if wants_bos else None
        )

    def _special_tokens(self, size: int) -> list[int]:
        mask = _ATTRIBUTE_UNKNOWN | _ATTRIBUTE_CONTROL
        attribute = self._library.llama_vocab_get_attr
        return [token_id for token_id in range(size) if attribute(self._vocab, token_id) & mask]

    def _spelling(self, token_id: int) -> str:
        text: bytes = self._library.llama_vocab_get_text(self._vocab, token_id)
        return text.decode("utf-8", errors="replace")

    def _compile(self, source: str | None) -> ChatTemplate | None:
        if not source:
            return None
        library, spellings = self._library, self._special_spellings
        return ChatTemplate(
            source,
            bos_token=spellings.get(library.llama_vocab_bos(self._vocab), ""),
            eos_token=spellings.get(library.llama_vocab_eos(self._vocab), ""),
        )


def _file_template(library: ModuleType, model: int) -> str | None:
    template: bytes | None = library.llama_model_chat_template(model, None)
    return None if template is None else template.decode("utf-8", errors="replace")


@cache
def _library() -> ModuleType:
    """Import llama.cpp's bindings and silence the library's log, which would print parts of templates."""
    try:
        import llama_cpp.llama_cpp as library  # noqa: PLC0415 - loads a shared library
    except ModuleNotFoundError:
        message = "The llama.cpp bindings are not installed: install the extra [llama]."
        raise VocabularyError("llama_missing", "llama.cpp missing", message) from None
    except (ImportError, OSError, RuntimeError):
        # API clients read this message too, so it names the build folder of any checkout, and no folder of this
        # machine.
        message = (
            f"libllama cannot be loaded: `make native` builds it into {BUILD_FOLDER} of Meshnet's folder, and it is "
            f"found there; if {LIBRARY_FOLDER} is set, it must name the folder that holds the library."
        )
        raise VocabularyError("llama_missing", "llama.cpp missing", message) from None
    library.llama_log_set(_silent_log(library), None)
    library.llama_backend_init()
    return library


@cache
def _silent_log(library: ModuleType) -> object:
    """Return a log callback that does nothing. It is never freed, because the library keeps its address."""
    return library.llama_log_callback(lambda _level, _text, _user_data: None)
