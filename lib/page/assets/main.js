"use strict";
// Puts the page together.
(() => {
  const { el, num, format } = llmc;
  llmc.document = JSON.parse(document.getElementById("document").textContent);
  const doc = llmc.document;

  const tile = (name, value, more) => el("div", { class: "tile" }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), more ? el("div", { class: "more" }, more) : null);

  const header = () => {
    const process = typeof doc.step.process_bytes === "number";
    return el("header", {},
      el("h1", {}, doc.model.name),
      el("div", { class: "soft" }, num("model.parameters", "short"), " parameters, ", num("model.layers", "count"), " layers, ", doc.mesh.text, " = ", num("mesh.ranks", "count"), " ranks on ", doc.cluster.name),
      el("div", { class: "tiles" },
        tile("step, predicted", num("step.seconds", "seconds"), ["bubble ", num("step.bubble_fraction", "percent")]),
        tile("tokens a second", num("step.tokens_per_s", "number"), [num("step.tokens_per_s_per_rank", "number"), " a rank"]),
        doc.step.hfu === null ? null : doc.step.mfu === null ? tile("HFU", num("step.hfu", "percent"), "recomputed FLOPs included") : tile("MFU", num("step.mfu", "percent"), ["HFU ", num("step.hfu", "percent")]),
        tile("largest arena of a rank", num("step.peak_bytes", "bytes"), ["stage ", num("step.peak_stage", "count")]),
        tile(process ? "memory of all ranks" : "memory that a rank may use", num(process ? "step.process_bytes" : "cluster.usable_bytes", "bytes"),
          doc.step.fits ? el("span", { class: "good" }, "\u2713 it fits") : el("span", { class: "bad" }, "\u2717 it does not fit"))),
      el("div", { class: "cards" }, doc.findings.map((finding) => el("div", { class: "card" }, el("h3", {}, finding.title), el("p", {}, finding.text)))),
      el("ul", { class: "choices" }, doc.choices.map(([name, value]) => el("li", {}, el("b", {}, name + " "), value))));
  };

  // Splits the step of the rank that stands for each stage.
  const time = () => {
    const step = doc.step.seconds, axes = [...new Set(doc.stages.flatMap((stage) => Object.keys(stage.exposed_s)))];
    const parts = (stage) => [["computes", stage.compute_s, "var(--product)"], ...axes.map((name) => [name, stage.exposed_s[name] || 0, llmc.axisColor(name)]), ["idles", stage.idle_s, "var(--copy)"]];
    return llmc.section("time", "Where the time goes",
      el("p", { class: "soft" }, "A step of one rank of each stage: it computes; or nothing hides its communication over an axis; or it idles, until others have computed what it needs."),
      llmc.legend([["computes", "var(--product)"], ...axes.map((name) => [`waits for ${name}`, llmc.axisColor(name)]), ["idles", "var(--copy)"]]),
      el("div", { class: "stages" }, doc.stages.map((stage, i) => [el("span", {}, `stage ${stage.stage}`),
        llmc.strip(`stage ${stage.stage}, rank ${stage.rank}, layers ${stage.layers}`, parts(stage).map(([name, seconds, color]) => [name, seconds, color, format.seconds(seconds)]), step),
        el("span", {}, num(`stages.${i}.compute_s`, "seconds"), el("span", { class: "wide" }, " computing, "), el("span", { class: "wide" }, format.percent(stage.compute_s / step)))])));
  };

  const footer = () => el("footer", {}, `Made by ${doc.compiler}: a forecast of every instruction of the plan on ${doc.cluster.name}. One rank of each stage is drawn, ${doc.stages.length} of ${doc.mesh.ranks}: the one that computes longest.`);

  const page = document.getElementById("page");
  try {
    if (doc.kind === "prediction") {
      document.title = `${doc.prediction.model.name}: llmc plan`;
      page.replaceChildren(...llmc.prediction().flat(9).filter(Boolean));
    } else {
      document.title = `${doc.model.name} on ${doc.mesh.text}: llmc report`;
      const trace = doc.measured && doc.measured.trace;
      const view = llmc.view(Math.max(doc.step.seconds, trace ? trace.seconds : 0));
      llmc.shown = () => [view.from, view.to];
      page.replaceChildren(...[header(), time(), llmc.timeline(view), llmc.memory(view), llmc.traffic(), llmc.measured(), llmc.mesh(), footer()].filter(Boolean));
    }
    llmc.redraw();
  } catch (error) {
    llmc.fail(error && error.stack || error);
    page.append(el("p", { class: "bad" }, "This page could not be drawn as a whole: " + error));
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
