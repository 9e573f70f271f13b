// The conversation, stored in this browser.
// Invariants: the page shows the messages that are stored, and the site keeps no copy. An answer without text stays
// visible and is not sent to the model.

const MESSAGES_MAX = 200;

/** A conversation of one user; it survives reloads if the browser allows storage. */
export class Conversation {
  constructor(user, storage = window.localStorage) {
    this.key = `meshnet-conversation-${user}`;
    this.storage = storage;
    this.messages = this.load();
  }

  /** The name of the model that the user chose last. */
  get model() {
    return this.storage.getItem(`${this.key}-model`) ?? "";
  }

  rememberModel(name) {
    this.store(`${this.key}-model`, name);
  }

  /** The messages that the model is given: every turn that has text. */
  get turns() {
    return this.messages.filter((one) => one.content !== "").map(({ role, content }) => ({ role, content }));
  }

  add(role, content) {
    const message = { role, content, note: "" };
    this.messages.push(message);
    this.save();
    return message;
  }

  /** Remove the last answer, so that its question can be asked again. */
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
      // If storage is full or forbidden, the chat goes on, and the conversation is lost at the next reload.
      console.warn("the conversation cannot be stored:", error.name);
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
