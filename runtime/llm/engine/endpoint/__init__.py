"""The OpenAI-compatible endpoint: `server` takes HTTP, `thread` steps the engine, `completions` and `answers` translate
between OpenAI's fields and the engine's tokens."""
