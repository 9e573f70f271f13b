// The conversation, kept in this browser.
// Invariants: what is stored is what is shown; the site keeps no copy. Failed answers stay visible and are not sent.

const MESSAGES_MAX = 200;

/** A conversation of one user; survives reloads where the browser allows it. */
export class Conversation {
  constructor(user, storage = window.localStorage) {
    this.key = `meshnet-conversation-${user}`;
    this.storage = storage;
    this.messages = this.load();
  }

  /** Name of the model that was chosen last. */
  get model() {
    return this.storage.getItem(`${this.key}-model`) ?? "";
  }

  rememberModel(name) {
    this.store(`${this.key}-model`, name);
  }

  /** What the model is given: every turn that has text. */
  get turns() {
    return this.messages.filter((one) => one.content !== "").map(({ role, content }) => ({ role, content }));
  }

  add(role, content) {
    const message = { role, content, note: "" };
    this.messages.push(message);
    this.save();
    return message;
  }

  /** Forget the last answer, so that its question can be asked again. */
  dropLastAnswer() {
    if (this.messages.at(-1)?.role === "assistant") {
      this.messages.pop();
      this.save();
    }
  }

  clear() {
    this.messages = [];
    this.save();
  }

  save() {
    this.store(this.key, JSON.stringify(this.messages.slice(-MESSAGES_MAX)));
  }

  store(key, value) {
    try {
      this.storage.setItem(key, value);
    } catch (error) {
      // A full or forbidden storage costs the reload, not the chat.
      console.warn("the conversation is not kept:", error.name);
    }
  }

  load() {
    try {
      const stored = JSON.parse(this.storage.getItem(this.key) ?? "[]");
      return Array.isArray(stored) ? stored.filter(isMessage) : [];
    } catch (error) {
      console.warn("the stored conversation cannot be read:", error.name);
      return [];
    }
  }
}

function isMessage(one) {
  return one && ["user", "assistant"].includes(one.role) && typeof one.content === "string";
}
