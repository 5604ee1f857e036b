"use strict";
// Tables what ranks send each other, what it costs, and why it is there.
(() => {
  const { el, num } = llmc;
  const links = { memory: "memory of the machine", domain: "NVLink domain", network: "network" };

  const details = (row) => {
    const term = (name, text) => text ? [el("dt", {}, name), el("dd", {}, text)] : [];
    const why = row.why;
    return el("dl", {},
      term("example", row.name), term("node", why.node), term("tactic", why.tactic + (why.seed ? `, seeded at ${why.seed}` : "")), term("rule", why.rule),
      term("partition", why.partition), term("moved", why.moved),
      term("tensors", row.tensors.map((t) => `${t.name}: ${t.layout}${t.needed ? `, needed ${t.needed}` : ""}`).join("; ")),
      term("beside", row.overlap), term("members", `${row.ranks} ranks in a group, ${row.groups} such groups in a stage`),
      row.alternatives.map((other, i) => term(i ? "or" : "instead", other.text)));
  };

  const rowOf = (row, i, most) => {
    const path = `traffic.${i}.`, more = el("tr", { class: "more", hidden: true });
    const open = el("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": "why it is there", onclick: () => {
      if (!more.firstChild) more.append(el("td", { colspan: 10 }, el("div", { class: "inner" }, details(row))));
      more.hidden = !more.hidden;
      open.setAttribute("aria-expanded", String(!more.hidden));
      open.textContent = more.hidden ? "+" : "\u2212";
    } }, "+");
    const stages = row.stages[0] === row.stages[1] ? `stage ${row.stages[0]}` : `stages ${row.stages[0]} to ${row.stages[1]}`;
    return [el("tr", {},
      el("td", { class: "name" }, open, row.pattern || row.name, el("div", { class: "soft" }, `${row.members > 1 ? `${row.members} like ${row.name}` : row.name}, ${stages}`)),
      el("td", {}, row.kind), el("td", {}, row.axes.join(" ")), el("td", {}, row.phase), el("td", {}, links[row.link] || row.link),
      el("td", { class: "n" }, num(path + "bytes", "bytes")), el("td", { class: "n" }, num(path + "calls", "count")),
      el("td", { class: "n" }, num(path + "each_s", "seconds")), el("td", { class: "n" }, num(path + "step_s", "seconds")),
      el("td", { class: "n" }, num(path + "exposed_s", "seconds"), el("span", { class: "bar", style: { width: (most > 0 ? 100 * row.exposed_s / most : 0) + "%" } }))), more];
  };

  llmc.traffic = () => {
    const list = llmc.document.traffic, most = Math.max(0, ...list.map((row) => row.exposed_s));
    if (!list.length) return null;
    const rows = list.map((row, i) => rowOf(row, i, most));
    return llmc.section("traffic", "What ranks send each other",
      el("p", { class: "soft" }, "Collectives and messages that layers and stages have alike are one row, the most exposed first: that is the time in which a rank computes nothing meanwhile. Times are of one rank of the stage that they cost most, from when all members have come; a message between stages counts on both of its ends. + tells why it is there, and what could stand in its place."),
      llmc.table([["what"], ["kind"], ["axes"], ["phase"], ["over"], ["bytes a call", "n"], ["calls a step", "n"], ["time a call", "n"], ["time a step", "n"], ["exposed", "n"]], rows),
      llmc.fold(rows.map(([row]) => row), 12));
  };
})();
