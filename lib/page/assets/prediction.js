"use strict";
// Shows a prediction of llmc plan: what was chosen, what was not, and why.
(() => {
  const { el, num, format } = llmc;
  const timeColors = { compute: "#4477aa", bubble: "#8d99a6", optimizer: "#228833", host: "#99aabb" };
  const words = { compute: "products, attention and elementwise kernels", tp: "collectives of tensor-parallel ranks that nothing hides", dp: "gradients and weights between data-parallel ranks that nothing hides",
    pp: "messages between stages", cp: "keys and values between context-parallel ranks that nothing hides", ep: "tokens on their way to experts and back", bubble: "stages that wait for the first and the last micro-batch",
    optimizer: "the update of weights, masters and moments", host: "kernels that the host launches too slowly, and what a step does once" };
  const wordsOf = (part) => words[part] || part;
  const colorOf = (part) => timeColors[part] || llmc.axisColor(part);
  const meshText = (mesh) => Object.entries(mesh || {}).filter(([name, size]) => size > 1 || ["dp", "pp", "tp"].includes(name)).map(([name, size]) => `${name} ${size}`).join(" x ");
  const choices = (chosen) => [["schedule", chosen.schedule + (chosen.virtual_stages > 1 ? ` of ${chosen.virtual_stages} chunks` : "")], ["micro-batches", `${chosen.micro_batches} of ${chosen.micro_batch}`],
    ["zero", chosen.zero], ["recompute", chosen.recompute], ["precision", chosen.precision], ["sequence-parallel", chosen.sequence_parallel]]
    .filter(([, value]) => value !== undefined && value !== "");
  llmc.meshText = meshText;

  const time = (path, chosen) => {
    const parts = Object.entries(chosen.time_s || {}).filter(([, seconds]) => seconds > 0).sort((x, y) => y[1] - x[1]);
    return llmc.section("time", "Where the time goes",
      el("div", { class: "stages" }, parts.map(([part, seconds]) => [el("span", {}, part, el("div", { class: "soft small wide" }, wordsOf(part))),
        llmc.strip(wordsOf(part), [[part, seconds, colorOf(part), format.seconds(seconds)]], chosen.step_time_s),
        el("span", {}, num(`${path}.time_s.${part}`, "seconds"), ` (${format.percent(seconds / chosen.step_time_s)})`)])));
  };

  const memory = (path, chosen) => {
    const stages = (chosen.memory_bytes || {}).stages || [];
    const order = ["weights", "masters", "gradients", "optimizer", "gathered", "activations", "logits", "workspace", "communication", "fragmentation", "context"];
    const parts = (stage) => Object.entries(stage).filter(([name]) => name !== "stage" && name !== "peak").sort((x, y) => order.indexOf(x[0]) - order.indexOf(y[0]));
    const most = Math.max(1, ...stages.map((stage) => stage.peak));
    return llmc.section("memory", "Memory of each stage",
      llmc.legend(llmc.seenParts(stages.map(parts), most).map((name) => [name, llmc.partColor(name)])),
      llmc.stageBars(stages.map((stage, i) => ({ name: `stage ${stage.stage}`, parts: parts(stage), total: stage.peak, totalPath: `${path}.memory_bytes.stages.${i}.peak` })), most, 0, llmc.partColor));
  };

  const traffic = (path, chosen) => {
    const list = chosen.traffic || [];
    const rows = list.map((row, i) => el("tr", {}, el("td", { class: "n" }, row.stage), el("td", {}, row.axis), el("td", {}, row.kind), el("td", {}, row.phase),
        el("td", { class: "n" }, num(`${path}.traffic.${i}.calls`, "number")), el("td", { class: "n" }, num(`${path}.traffic.${i}.bytes`, "bytes"))));
    return list.length ? llmc.section("traffic", "What a rank sends in a step",
      llmc.table([["stage", "n"], ["axis"], ["kind"], ["phase"], ["calls", "n"], ["bytes", "n"]], rows), llmc.fold(rows, 12)) : null;
  };

  // Tables choices shaped like what was chosen.
  const alternatives = (base, prediction) => {
    const list = prediction.alternatives || [], best = prediction.chosen.step_time_s;
    return list.length ? llmc.section("alternatives", "Runners-up", llmc.table([["mesh"], ["choices"], ["step", "n"], ["slower by", "n"], ["MFU", "n"], ["bubble", "n"], ["memory", "n"], ["fits"]],
      list.map((one, i) => el("tr", {}, el("td", { class: "name" }, meshText(one.mesh)), el("td", { class: "name" }, choices(one).map(([name, value]) => `${name} ${value}`).join(", ")),
        el("td", { class: "n" }, num(`${base}.alternatives.${i}.step_time_s`, "seconds")), el("td", { class: "n" }, one.step_time_s && best ? format.percent(one.step_time_s / best - 1) : ""),
        el("td", { class: "n" }, num(`${base}.alternatives.${i}.mfu`, "percent")), el("td", { class: "n" }, num(`${base}.alternatives.${i}.bubble_fraction`, "percent")),
        el("td", { class: "n" }, num(`${base}.alternatives.${i}.memory_bytes.peak`, "bytes")), el("td", {}, one.fits === false ? "no" : "yes"))))) : null;
  };
  const rejected = (prediction) => {
    const list = prediction.rejected || [];
    return list.length ? llmc.section("rejected", "Rejected", llmc.table([["mesh"], ["why"]],
      list.map((one) => el("tr", {}, el("td", {}, meshText(one.mesh)), el("td", { class: "name" }, one.reason))))) : null;
  };

  llmc.prediction = () => {
    const prediction = llmc.document.prediction, chosen = prediction.chosen, base = "prediction", path = base + ".chosen";
    const tile = (name, value, more) => el("div", { class: "tile" }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), more ? el("div", { class: "more" }, more) : null);
    return [el("header", {}, el("h1", {}, prediction.model.name), el("div", { class: "soft" }, num(base + ".model.parameters", "short"), " parameters, ", num(base + ".model.layers", "count"), " layers, ", meshText(chosen.mesh), ", as llmc plan predicts it"),
      el("div", { class: "tiles" }, tile("step", num(path + ".step_time_s", "seconds")), tile("tokens/s an accelerator", num(path + ".tokens_per_s_per_gpu", "number")),
        tile("MFU", num(path + ".mfu", "percent"), ["HFU ", num(path + ".hfu", "percent")]), tile("bubble", num(path + ".bubble_fraction", "percent")),
        tile("memory", num(path + ".memory_bytes.peak", "bytes"), chosen.fits === false ? el("span", { class: "bad" }, "does not fit") : el("span", { class: "good" }, "fits"))),
      el("ul", { class: "choices" }, choices(chosen).map(([name, value]) => el("li", {}, el("b", {}, name + " "), String(value))))),
    time(path, chosen), memory(path, chosen), llmc.schedule(llmc.document.schedule), alternatives(base, prediction), rejected(prediction), traffic(path, chosen),
    el("footer", {}, "Made by llmc plan.")];
  };
})();
