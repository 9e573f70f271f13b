// The route panel: phase, progress of the prompt, the route's stages and their figures.
// Invariant: it shows the latest telemetry only. If that names no stages, the stages of the last one that did stay.

const PHASES = {
  queued: "Waiting",
  routing: "Finding a route",
  prefill: "Reading the prompt",
  decode: "Answering",
  done: "Done",
  failed: "Failed",
};

const HEALTH = { ok: "is answering", late: "is late", lost: "is not connected any more" };

/** Draws telemetry into the elements of the panel. `find` returns an element by its id. */
export class TelemetryView {
  constructor(find) {
    this.at = {
      panel: find("telemetry"), phase: find("phase"), elapsed: find("elapsed"), prefill: find("prefill"),
      bar: find("prefill-bar"), label: find("prefill-label"), rate: find("rate"), tokens: find("tokens"),
      first: find("first-token"), route: find("route"), failure: find("failure"),
    };
    this.routeKey = "";
  }

  /** Clear the panel for a new request, which starts at `startedMs` of `performance.now()`. */
  reset(startedMs) {
    this.startedMs = startedMs;
    this.hasToken = false;
    this.stages = [];
    this.setPhase("queued");
    for (const name of ["rate", "tokens", "first"]) {
      this.at[name].textContent = "-";
    }
    this.at.elapsed.textContent = "";
    this.at.prefill.hidden = true;
    this.at.failure.hidden = true;
  }

  show(telemetry) {
    this.stages = telemetry.stages.length ? telemetry.stages : this.stages;
    this.setPhase(telemetry.phase);
    this.at.elapsed.textContent = seconds(telemetry.elapsed_ms);
    this.showPrefill(telemetry);
    if (telemetry.generated_tokens > 0) {
      this.at.tokens.textContent = String(telemetry.generated_tokens);
      this.at.rate.textContent = telemetry.tokens_per_s.toFixed(1);
    }
    this.showRoute(telemetry);
  }

  /** Note that text arrived at `nowMs`; the first text's delay is shown. */
  noteToken(nowMs) {
    if (!this.hasToken) {
      this.hasToken = true;
      this.at.first.textContent = seconds(Math.round(nowMs - this.startedMs));
    }
  }

  showFailure(text) {
    this.setPhase("failed");
    this.at.failure.textContent = text;
    this.at.failure.hidden = false;
  }

  setPhase(phase, text = PHASES[phase] ?? phase) {
    if (this.at.phase.textContent !== text) {
      this.at.phase.textContent = text;
    }
    this.at.panel.dataset.phase = phase;
  }

  showPrefill({ phase, prefill_done: done, prefill_total: total }) {
    this.at.prefill.hidden = total === 0 || !["prefill", "decode", "done"].includes(phase);
    this.at.bar.max = Math.max(total, 1);
    this.at.bar.value = done;
    this.at.label.textContent = `Prompt ${done} / ${total} tokens`;
  }

  showRoute({ stages, route_health: health }) {
    const shown = (one) => [one.node, one.layer_begin, one.layer_end, one.carrier, one.seam_codec, one.recipe];
    const key = JSON.stringify(stages.map(shown));
    if (key !== this.routeKey && stages.length) {
      this.routeKey = key;
      const layerCount = stages.at(-1).layer_end; // a route covers all layers of the model
      this.at.route.replaceChildren(...stages.map((stage, index) => stageBox(stage, stages[index - 1], layerCount)));
    }
    stages.forEach((stage, index) => updateBox(this.at.route.children[index], stage, health[index]));
  }
}

function stageBox(stage, before, layerCount) {
  const box = document.createElement("li");
  box.className = "stage";
  box.append(
    part("carrier", `${before ? rowsOf(before) : "tokens"}, ${stage.carrier}`),
    part("node", stage.node),
    part("layers", layersText(stage, layerCount)),
    part("recipe", stage.recipe),
    part("residence", ""),
  );
  return box;
}

function layersText({ layer_begin: begin, layer_end: end }, layerCount) {
  return end - begin === 1 ? `layer ${begin} of ${layerCount}` : `layers ${begin}-${end - 1} of ${layerCount}`;
}

function rowsOf({ seam_codec: codec }) {
  return codec && codec !== "raw" ? `activations as ${codec}` : "activations";
}

function updateBox(box, stage, health) {
  if (!box) {
    return;
  }
  const state = health?.state ?? "ok";
  box.dataset.health = state;
  box.title = `${stage.node} ${HEALTH[state]}, last heard from ${seconds(health?.last_seen_ms ?? 0)} ago`;
  const { residence } = stage;
  box.querySelector(".residence").textContent = residence ? `${(residence.compute_us / 1000).toFixed(1)} ms a step` : "";
}

function part(className, text) {
  const made = document.createElement("span");
  made.className = className;
  made.textContent = text;
  return made;
}

function seconds(milliseconds) {
  return milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
