// Reads server-sent events from a fetch response and parses them.
// Invariants: an event is complete when its empty line has arrived. Comments are skipped. If a stream ends without
// [DONE] and without an error, that is an error too.

/** Split text into complete events and the incomplete rest. */
export function takeEvents(buffer) {
  const parts = buffer.split(/\r?\n\r?\n/);
  const rest = parts.pop();
  return { events: parts, rest };
}

/** The data of one event; null if the event is a comment. */
export function dataOf(event) {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : null;
}

/** An error that the site sent, or a lost connection to the site. */
export class StreamError extends Error {
  constructor({ code, message, stage = null, status = null }) {
    super(message);
    this.code = code;
    this.stage = stage;
    this.status = status;
  }
}

/** Post a request and yield the stream's objects until the stream ends. `signal` aborts it. */
export async function* postStream(url, csrfToken, body, signal) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRFToken": csrfToken },
    body: JSON.stringify(body),
    credentials: "same-origin",
    signal,
  });
  if (!response.ok || !response.body) {
    throw await refusalOf(response);
  }
  yield* readStream(response.body.pipeThrough(new TextDecoderStream()).getReader());
}

async function* readStream(reader) {
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      throw new StreamError({ code: "site_unreachable", message: "The connection to the site was lost." });
    }
    const { events, rest } = takeEvents(buffer + value);
    buffer = rest;
    for (const data of events.map(dataOf).filter((one) => one !== null)) {
      if (data === "[DONE]") {
        return;
      }
      const parsed = JSON.parse(data);
      if (parsed.error) {
        throw new StreamError(parsed.error);
      }
      yield parsed;
    }
  }
}

async function refusalOf(response) {
  const text = await response.text();
  try {
    return new StreamError({ ...JSON.parse(text).error, status: response.status });
  } catch {
    // If the user signed in again in another tab, this page has an outdated CSRF token, and Django answers 403.
    const code = response.status === 403 ? "sign_in_changed" : "http_error";
    const message = `The site answered with status ${response.status}.`;
    return new StreamError({ code, message, status: response.status });
  }
}
