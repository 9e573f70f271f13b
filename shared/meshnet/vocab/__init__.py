"""Text to tokens and back, for the Gateway and for a node's own API.

Invariants: a user's text never becomes a control token, whatever it spells. The beginning-of-sequence token occurs at
most once, first. Sizes are checked before text is tokenised. Calls are synchronous, keep the processor busy for
milliseconds, and may be made from several threads at once; event loops call them in a worker thread.
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
