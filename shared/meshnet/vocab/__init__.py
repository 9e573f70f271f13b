"""Text to tokens and back, for the gateway and the node-local API alike.

Invariants: text that a user supplied never becomes a control token, whatever it spells; the beginning-of-sequence token
stands at most once, first; sizes are checked before anything is tokenised. Calls are synchronous, keep the processor
busy for milliseconds and may be made from any thread, several at once: event loops call them in a worker thread.
"""

from meshnet.vocab.byte_vocabulary import ByteVocabulary
from meshnet.vocab.opening import FAKE_ARCHITECTURE, open_vocabulary
from meshnet.vocab.prompt import tokenise_prompt
from meshnet.vocab.vocabulary import PROMPT_BYTES_MAX, IncrementalDecoder, RenderContext, Vocabulary, VocabularyError

__all__ = [
    "FAKE_ARCHITECTURE",
    "PROMPT_BYTES_MAX",
    "ByteVocabulary",
    "IncrementalDecoder",
    "RenderContext",
    "Vocabulary",
    "VocabularyError",
    "open_vocabulary",
    "tokenise_prompt",
]
