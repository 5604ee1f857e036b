"use strict";
// Shows what a run measured beside the forecast.
(() => {
  const { el, num, format } = llmc;
  const cell = (path, name) => el("td", { class: "n" }, num(path, name));
  const off = (measured, predicted) => el("td", { class: "n" }, measured > 0 ? (predicted / measured - 1 >= 0 ? "+" : "\u2212") + format.percent(Math.abs(predicted / measured - 1)) : "");

  const trace = () => {
    const t = llmc.document.measured.trace, path = "measured.trace.";
    if (!t) return null;
    const kinds = [["compute_s", "computes"], ["communication_s", "collectives and messages, waiting for others included"], ["wait_s", "waits for other streams"]];
    const rows = t.stages.flatMap((stage, i) => kinds.map(([kind, words], k) => el("tr", {}, el("td", {}, k ? "" : `stage ${stage.stage}, rank ${stage.rank}`), el("td", {}, words),
      cell(`${path}stages.${i}.measured.${kind}`, "seconds"), cell(`${path}stages.${i}.predicted.${kind}`, "seconds"), off(stage.measured[kind], stage.predicted[kind]))));
    const calls = t.traffic.map((row, i) => el("tr", {}, el("td", { class: "name" }, llmc.document.traffic[row.group].pattern || llmc.document.traffic[row.group].name),
      el("td", {}, llmc.document.traffic[row.group].kind), el("td", {}, llmc.document.traffic[row.group].axes.join(" ")), cell(`${path}traffic.${i}.calls`, "count"),
      cell(`${path}traffic.${i}.measured_s`, "seconds"), cell(`${path}traffic.${i}.predicted_s`, "seconds"), off(row.measured_s, row.predicted_s)));
    return [el("h3", {}, "From the trace"),
      el("p", {}, "Step ", num(path + "step", "count"), ", the median of ", String(t.steps.length), " traced, took ", num(path + "seconds", "seconds"), "; the forecast is ",
        num("step.seconds", "seconds"), ". Its schedule is drawn above, below that of the forecast."),
      llmc.table([["rank"], ["time in which it"], ["measured", "n"], ["predicted", "n"], ["off", "n"]], rows),
      calls.length ? [el("h3", { style: { marginTop: "14px" } }, "A call, from when the rank comes to it"),
        llmc.table([["what"], ["kind"], ["axes"], ["calls", "n"], ["measured", "n"], ["predicted", "n"], ["off", "n"]], calls), llmc.fold(calls, 8)] : null];
  };

  const metrics = () => {
    const m = llmc.document.measured.metrics, path = "measured.metrics.";
    if (!m) return null;
    const place = el("div", { class: "plot", role: "img", "aria-label": "Seconds of each step of the run" });
    let plot = null;
    llmc.drawers.push(() => {
      if (plot) plot.destroy();
      const predicted = llmc.document.step.seconds, most = Math.max(predicted, ...m.step_time_s);
      plot = new uPlot({
        width: place.clientWidth, height: 200, legend: { show: false }, padding: [10, 8, 0, 0],
        scales: { x: { time: false }, y: { range: [0, most * 1.1] } },
        axes: [{ ...llmc.axis(30), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 1e5, 1e6] }, { ...llmc.axis(74), values: (u, list) => list.map(format.seconds) }],
        series: [{}, { stroke: llmc.color("F"), width: 1.5, points: { show: m.step.length < 60 } }, { stroke: llmc.color("B"), width: 1.5, dash: [6, 4], points: { show: false } }],
        cursor: { y: false },
      }, [m.step, m.step_time_s, m.step.map(() => predicted)], place);
    });
    return [el("h3", { style: { marginTop: "14px" } }, "From the metrics"),
      el("p", {}, "The median of ", num(path + "steps", "count"), " steps is ", num(path + "median_s", "seconds"), " (", num(path + "fastest_s", "seconds"), " to ",
        num(path + "slowest_s", "seconds"), ", without the first); the forecast is ", num("step.seconds", "seconds"), ".",
        m.every > 1 ? ` Every ${m.every}th step is drawn.` : ""),
      llmc.legend([["measured", "var(--F)"], ["predicted", "var(--B)"]]), place];
  };

  llmc.measured = () => llmc.document.measured ? llmc.section("measured", "Measured beside predicted", trace(), metrics()) : null;
})();
