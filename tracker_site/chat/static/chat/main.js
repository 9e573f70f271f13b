// The chat page: connects the composer, the stream of an answer and the route panel.
// Invariants: one answer runs at a time. Whether it finishes, fails or is stopped, it ends once and the composer is
// shown again.

import { Conversation } from "./conversation.js";
import { postStream } from "./event_stream.js";
import { failureText } from "./failure_text.js";
import { MessageList } from "./message_list.js";
import { TelemetryView } from "./telemetry_view.js";

const find = (id) => document.getElementById(id);
const page = find("chat");
const conversation = new Conversation(page.dataset.user);
const list = new MessageList(find("messages"), find("welcome"), retry);
const telemetry = new TelemetryView(find);
let running = null; // the AbortController of the running answer

function requestBody() {
  const maxTokens = Number.parseInt(find("max-tokens").value, 10);
  const temperature = Number.parseFloat(find("temperature").value);
  return {
    model: find("model").value,
    messages: conversation.turns,
    stream: true,
    ...(Number.isFinite(temperature) ? { temperature } : {}),
    ...(maxTokens > 0 ? { max_tokens: maxTokens } : {}),
  };
}

function setRunning(controller) {
  running = controller;
  find("stop").hidden = controller === null;
  find("send").hidden = controller !== null;
  find("clear").disabled = controller !== null;
}

/** Ask for an answer to the present conversation. */
async function answer() {
  const body = requestBody();
  const message = conversation.add("assistant", "");
  message.isRunning = true;
  const draw = throttled(list.append(message));
  telemetry.reset(performance.now());
  const controller = new AbortController();
  setRunning(controller);
  try {
    for await (const chunk of postStream(page.dataset.streamUrl, page.dataset.csrfToken, body, controller.signal)) {
      takeChunk(chunk, message, draw);
    }
  } catch (error) {
    noteFailure(error, message);
  } finally {
    delete message.isRunning;
    conversation.save();
    draw();
    setRunning(null);
    find("prompt").focus();
  }
}

function takeChunk(chunk, message, draw) {
  if (chunk.telemetry) {
    telemetry.show(chunk.telemetry);
  }
  if (chunk.usage) {
    message.note = `${chunk.usage.completion_tokens} tokens, ${find("rate").textContent} tokens/s${message.note}`;
  }
  const choice = chunk.choices?.[0];
  if (choice?.finish_reason === "length") {
    message.note = ", stopped at the longest answer that the options allow";
  }
  if (choice?.delta?.content) {
    telemetry.noteToken(performance.now());
    message.content += choice.delta.content;
    draw();
  }
}

function noteFailure(error, message) {
  message.canRetry = true;
  if (error.name === "AbortError") {
    message.note = "Stopped.";
    telemetry.setPhase("done", "Stopped");
    return;
  }
  const text = failureText(error, telemetry.stages);
  message.note = text;
  telemetry.showFailure(text);
}

/** Ask the last question again, without the answer that failed. */
function retry() {
  if (running) {
    return;
  }
  conversation.dropLastAnswer();
  list.show(conversation.messages);
  answer();
}

/** Return a function that calls `draw` at most once in a frame of the display. */
function throttled(draw) {
  let isDue = false;
  return () => {
    if (!isDue) {
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        draw();
      });
    }
  };
}

function fitPrompt() {
  const prompt = find("prompt");
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

find("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find("prompt").value.trim();
  if (!text || running) {
    return;
  }
  find("prompt").value = "";
  fitPrompt();
  list.append(conversation.add("user", text));
  answer();
});

find("prompt").addEventListener("keydown", (event) => {
  // While an input method is composing, Enter chooses a word and must not send the message.
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    find("composer").requestSubmit();
  }
});

find("prompt").addEventListener("input", fitPrompt);
find("stop").addEventListener("click", () => running?.abort());
page.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing) {
    running?.abort();
  }
});
find("clear").addEventListener("click", () => {
  conversation.clear();
  list.show([]);
  find("prompt").focus();
});
find("model").addEventListener("change", () => conversation.rememberModel(find("model").value));
window.addEventListener("pagehide", () => running?.abort());

list.show(conversation.messages);
if ([...find("model").options].some((option) => option.value === conversation.model)) {
  find("model").value = conversation.model;
}
