// Messages of failures for the user of the chat page.

const MESSAGES = {
  no_route: "No set of machines can serve this model right now. Try again in a moment.",
  kv_exhausted: "Every machine that serves this model is full. Try again in a moment.",
  too_many_sessions: "Every machine that serves this model is busy. Try again in a moment.",
  contract_mismatch: "The machines that serve this model do not fit together. The site's administrator can see why.",
  step_timeout: "A machine on the route stopped answering. Try again: another route may be free.",
  gateway_lost: "The site did not receive the answer fast enough. Try again in a moment.",
  client_too_slow: "Your connection was too slow for the answer. Try again on a faster one.",
  context_length_exceeded: "The conversation is too long for this model. Start a new one, or allow fewer tokens.",
  insufficient_credit: "You have too few credits for this answer. Shorten it, or earn some by running a node.",
  too_many_generations: "You have too many answers running. Wait for one to end.",
  not_signed_in: "You are signed out. Reload the page and sign in.",
  worker_lost: "A machine on the route failed in the middle of the answer. Try again: another route may be free.",
  relay_unavailable: "The site cannot reach the machines right now. Try again in a moment.",
  connection_lost: "The site lost its connection to the machines. Try again in a moment.",
  sign_in_changed: "Your sign-in has changed. Reload the page.",
  // This code comes from the page itself, if the stream ends without an error from the site.
  site_unreachable: "The connection to the site was lost. Try again in a moment.",
};

/** One or two sentences for a failure; `stage` is the index of the stage at fault, or null if there is none. */
export function failureText({ code, message, stage = null }, stages = []) {
  const node = stage === null ? null : stages.find((one) => one.stage === stage);
  if (code === "stage_lost") {
    return `The machine ${node ? `"${node.node}"` : "of one stage"} left in the middle of the answer. Try again: another route may be free.`;
  }
  const text = MESSAGES[code] ?? message ?? "The answer failed. Try again.";
  return node ? `${text} (stage ${stage + 1}, "${node.node}")` : text;
}
