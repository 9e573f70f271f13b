// The list of messages on the page.
// Invariants: markdown.js turns model output into nodes; a user's text stays text. The view follows the end of the
// list unless the reader has scrolled away from it.

import { render } from "./markdown.js";

const NEAR_END_PX = 80;

/** Draws messages into a scrolling element. */
export class MessageList {
  constructor(element, welcome, retry) {
    this.element = element;
    this.welcome = welcome;
    this.retry = retry;
  }

  /** Draw a whole conversation. */
  show(messages) {
    this.element.replaceChildren(this.welcome);
    this.welcome.hidden = messages.length > 0;
    for (const message of messages) {
      this.append(message);
    }
    this.scrollToEnd();
  }

  /** Draw one more message. Returns a function that draws it again; call that after the message has changed. */
  append(message) {
    this.welcome.hidden = true;
    const article = document.createElement("article");
    article.className = `message ${message.role}`;
    article.setAttribute("aria-label", message.role === "user" ? "You" : "Answer");
    const body = document.createElement("div");
    body.className = "body";
    const note = document.createElement("p");
    note.className = "note quiet";
    article.append(body, note);
    this.element.append(article);
    const draw = () => this.draw(message, body, note);
    draw();
    this.scrollToEnd();
    return draw;
  }

  draw(message, body, note) {
    const follows = this.isNearEnd();
    body.replaceChildren(message.role === "user" ? message.content : render(message.content));
    body.classList.toggle("waiting", message.role === "assistant" && message.isRunning === true);
    note.replaceChildren(message.note ?? "");
    note.hidden = !message.note;
    if (message.canRetry) {
      note.append(" ", this.retryButton());
    }
    if (follows) {
      this.scrollToEnd();
    }
  }

  retryButton() {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link retry";
    button.textContent = "Try again";
    button.addEventListener("click", () => this.retry());
    return button;
  }

  isNearEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  scrollToEnd() {
    this.element.scrollTop = this.element.scrollHeight;
  }
}
