"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  // All text goes through textContent: names come from the checked program and may be anything.
  function make(name, attributes, ...children) {
    const svg = ["svg", "g", "rect", "line", "path", "text", "tspan", "defs", "marker", "title"].includes(name);
    const node = svg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (typeof value === "function") node.addEventListener(key, value);
      else if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  }

  // `name` in a sentence is code.
  const prose = (text) => text.split(/(`[^`]*`)/).map((part) =>
    part.length > 2 && part.startsWith("`") ? make("code", {}, part.slice(1, -1)) : part);
  const times = (count) => (count === 1 ? "once" : `${count.toLocaleString("en")} times`);
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  // At most two lines, at a space if there is one.
  const broken = (text, most) => {
    if (text.length <= most) return [text];
    const space = text.lastIndexOf(" ", most);
    const at = space > most / 3 ? space : most;
    return [text.slice(0, at), cut(text.slice(at).trim(), most)];
  };
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  const where = (place) => (place.file ? place.file + (place.line ? `:${place.line}` : "") : place.line ? `location ${place.line}` : "");

  // ---- the list ----
  const findings = data.findings;
  const wanted = { text: "", ranks: new Set(), engines: new Set() };
  let shown = [];
  let current = -1;
  const rows = findings.map((finding, at) => {
    finding.searched = [finding.headline, finding.code, finding.file, finding.fingerprint, ...finding.steps.map((step) =>
      `${step.thread} ${step.action} ${step.function || ""} ${step.file || ""}`)].join(" ").toLowerCase();
    const button = make("button", { type: "button", class: finding.rank, click: () => open(at, true) },
      make("div", { class: "code" }, finding.code, make("span", {}, finding.count > 1 ? `${finding.count.toLocaleString("en")}×` : "")),
      make("div", { class: "name" }, finding.who),
      make("div", { class: "where" }, make("bdi", {}, finding.at || " ")));
    return make("li", {}, button);
  });
  $("list").append(...rows);

  function chip(kind, name, rank) {
    const button = make("button", { type: "button", "aria-pressed": "false", class: rank, click: () => {
      const set = wanted[kind];
      if (!set.delete(name)) set.add(name);
      button.setAttribute("aria-pressed", String(set.has(name)));
      filter();
    } }, rank ? make("span", { class: "dot" }) : null, name);
    return button;
  }
  const ranks = ["high", "medium", "low"].filter((rank) => findings.some((finding) => finding.rank === rank));
  const engines = [...new Set(findings.flatMap((finding) => finding.engines))].sort();
  $("chips").append(...ranks.map((rank) => chip("ranks", rank, rank)), ...(engines.length > 1 ? engines.map((engine) => chip("engines", engine)) : []));

  function filter() {
    const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    shown = [];
    findings.forEach((finding, at) => {
      const fits = words.every((word) => finding.searched.includes(word)) &&
        (!wanted.ranks.size || wanted.ranks.has(finding.rank)) &&
        (!wanted.engines.size || finding.engines.some((engine) => wanted.engines.has(engine)));
      rows[at].hidden = !fits;
      if (fits) shown.push(at);
    });
    const all = findings.length;
    $("count").textContent = shown.length === all ? `${all} finding${all === 1 ? "" : "s"}` : `${shown.length} of ${all} findings`;
    if (shown.length && !shown.includes(current)) open(shown[0], false);
    if (!shown.length) {
      current = -1;
      $("detail").replaceChildren(make("p", { class: "empty" }, all ? "No finding fits the filter. Esc clears it." : "Nothing was found."));
    }
  }

  function open(at, fromUser) {
    if (current >= 0) rows[current].firstChild.removeAttribute("aria-current");
    current = at;
    const button = rows[at].firstChild;
    button.setAttribute("aria-current", "true");
    $("detail").replaceChildren(detail(findings[at], `d${at}`));
    $("detail").scrollTop = 0;
    rows[at].scrollIntoView({ block: "nearest" });
    if (fromUser) history.replaceState(null, "", `#${findings[at].fingerprint}`);
  }

  // ---- one finding ----
  function detail(finding, id) {
    const root = make("section", { class: `finding ${finding.rank}` });
    const light = (number, on) => root.querySelectorAll(`[data-step~="${number}"]`).forEach((node) => node.classList.toggle("lit", on));
    const steps = finding.steps;
    root.append(
      make("span", { class: "tag" }, `${finding.rank} · ${finding.code}`),
      make("h2", {}, prose(finding.headline)),
      make("p", { class: "at" }, prose(finding.between || "")),
      ...(finding.about.length ? [make("p", { class: "at about" }, prose(capital(finding.about.join("; ")) + "."))] : []),
      make("div", { class: "advice" },
        make("p", {}, make("b", {}, "What to do: "), prose(finding.help), "."),
        finding.doubt ? make("p", {}, make("b", {}, "Is it real? "), finding.doubt, ".") : null,
        finding.notes.map((note) => make("p", {}, make("b", {}, "Note: "), prose(note)))));
    const source = sources(finding, light);
    root.append(make("div", { class: source.length ? "both" : "" },
      make("div", {}, make("h3", {}, "What happened, time downwards"), make("div", { class: "diagram" }, diagram(finding, id, light))),
      source.length ? make("div", {}, make("h3", {}, "Source"), source) : null));
    root.append(make("h3", {}, "More"));
    root.append(make("details", {}, make("summary", {}, "Call stacks"), make("table", {}, steps.map((step) => make("tr", {},
      make("th", {}, `${step.sign} ${step.thread}`),
      make("td", {}, stack([step.site, ...step.stack])))))));
    if (finding.also.length) {
      root.append(make("details", {}, make("summary", {}, `The same gap, seen in ${finding.also.length} other way${finding.also.length === 1 ? "" : "s"}`),
        make("ul", {}, finding.also.map((way) => make("li", {}, prose(way))))));
    }
    const about = data.explain[finding.code];
    if (about) {
      root.append(make("details", { class: "explain" }, make("summary", {}, `What “${finding.code}” means`), meaning(about)));
    }
    root.append(make("p", { class: "at" }, `${capital(finding.evidence)}. Criterion: ${finding.criterion}. Fingerprint: ${finding.fingerprint}.`));
    return root;
  }

  // Frames of libraries are folded: how std calls a closure is nobody's business.
  function stack(places) {
    const rows = [];
    for (const place of places) {
      const row = make("div", {}, make("code", {}, place.function || "?"), ` ${where(place)}`);
      const last = rows[rows.length - 1];
      if (!place.library) rows.push(row);
      else if (last && last.className === "folded") last.append(row);
      else rows.push(make("details", { class: "folded" }, make("summary", {}), row));
    }
    for (const folded of rows.filter((row) => row.className === "folded")) {
      const frames = folded.children.length - 1;
      folded.firstChild.textContent = `⋯ ${frames} frame${frames === 1 ? "" : "s"} of libraries`;
    }
    return rows;
  }

  const meaning = (about) => [make("p", {}, about.meaning), make("pre", { class: "example" }, about.example), make("p", {}, make("b", {}, "When it is harmless: "), about.harmless)];

  // One lane a thread, time downwards. The band is the function that should have been in one piece;
  // the arrows leave it and come back: that is the cycle.
  function diagram(finding, id, light) {
    const steps = finding.steps;
    const lanes = [...new Set(steps.map((step) => step.thread))];
    // What a step does may take two lines; then all boxes have room for them.
    const actions = steps.map((step) => broken(step.action.replaceAll("`", ""), 30));
    const more = actions.some((lines) => lines.length > 1) ? 16 : 0;
    const width = 214, gap = 42, box = 46 + more, pitch = 74 + more, top = 62, side = 18;
    const x = (lane) => side + lane * (width + gap);
    const y = (row) => top + row * pitch;
    const lane = steps.map((step) => lanes.indexOf(step.thread));
    const total = side * 2 + lanes.length * width + (lanes.length - 1) * gap;
    const height = y(steps.length) + 4;
    const svg = make("svg", { width: total, style: lanes.length > 3 ? `min-width: ${total}px` : undefined, viewBox: `0 0 ${total} ${height}`, role: "img",
      "aria-label": "Interleaving: " + steps.map((step) => `${step.number}. ${step.thread} ${step.action}`).join("; ") });
    svg.append(make("defs", {}, make("marker", { id: `${id}-arrow`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      make("path", { d: "M0 0 8 4 0 8z" }))));
    lanes.forEach((name, at) => {
      const centre = x(at) + width / 2;
      const head = make("svg", { x: x(at), y: 0, width, height: 48 }, make("text", { class: "head", x: width / 2, y: 24 }, cut(name, 30), make("title", {}, name)));
      const spawned = finding.spawned[name];
      if (spawned) head.append(make("text", { class: "from", x: width / 2, y: 40 }, cut(`started at ${spawned.split("/").pop()}`, 36), make("title", {}, spawned)));
      svg.append(head);
      svg.append(make("line", { class: "lane", x1: centre, x2: centre, y1: 48, y2: height - 6 }));
    });
    const own = steps.map((step, at) => (step.culprit ? at : -1)).filter((at) => at >= 0);
    if (own.length > 1) {
      const from = y(own[0]) - 8, to = y(own[own.length - 1]) + box + 8;
      svg.append(make("rect", { class: "span", x: x(lane[own[0]]) - 8, y: from, width: width + 16, height: to - from, rx: 10 }));
    }
    steps.forEach((step, at) => {
      const left = x(lane[at]), upper = y(at);
      const group = make("g", { class: step.culprit ? "step own" : "step", "data-step": step.number,
        mouseenter: () => light(step.number, true), mouseleave: () => light(step.number, false) },
        make("title", {}, `${step.thread} ${step.action}\n${where(step)}${step.meaning ? "\n" + step.meaning : ""}`),
        make("rect", { x: left, y: upper, width, height: box, rx: 7 }),
        // What is too wide is cut off at the edge of its box.
        make("svg", { x: left, y: upper, width: width - 4, height: box },
          make("text", { x: 10, y: 19 }, make("tspan", { class: "sign" }, step.sign + " "), actions[at][0]),
          actions[at].slice(1).map((line) => make("text", { x: 26, y: 35 }, line)),
          make("text", { class: "small", x: 10, y: 20 + 16 * actions[at].length }, cut(step.meaning || [where(step).split("/").pop(), step.bare].filter(Boolean).join(" · "), 36))));
      svg.append(group);
    });
    for (const [from, to] of finding.edges) {
      if (!steps[from] || !steps[to]) continue;
      const right = lane[to] > lane[from], same = lane[to] === lane[from];
      const x1 = same || right ? x(lane[from]) + width : x(lane[from]);
      const x2 = same ? x(lane[to]) + width : right ? x(lane[to]) : x(lane[to]) + width;
      const y1 = y(from) + box / 2 + 6, y2 = y(to) + box / 2 - 6;
      const bend = same ? 34 : Math.max(18, Math.abs(x2 - x1) / 2);
      const c1 = same || right ? x1 + bend : x1 - bend, c2 = same ? x2 + bend : right ? x2 - bend : x2 + bend;
      svg.append(make("path", { class: "edge", d: `M${x1} ${y1}C${c1} ${y1} ${c2} ${y2} ${x2} ${y2}`, "marker-end": `url(#${id}-arrow)` }));
    }
    return svg;
  }

  function sources(finding, light) {
    return finding.windows.map((window) => {
      const lines = data.sources[window.path] || {};
      const pre = make("pre", { tabindex: "0", "aria-label": window.name });
      let last = null;
      for (const number of window.lines) {
        if (last !== null && number > last + 1) pre.append(make("div", { class: "gap" }, "⋯"));
        last = number;
        const here = finding.steps.filter((step) => step.path === window.path && step.line === number);
        const classes = ["row", here.some((step) => step.culprit) ? "own" : "", here.some((step) => !step.culprit) ? "theirs" : ""];
        const row = make("div", { class: classes.filter(Boolean).join(" "), "data-step": here.map((step) => step.number).join(" ") },
          make("i", {}, String(number)),
          make("em", { title: here.map((step) => `${step.sign} ${step.thread} ${step.action}`).join("\n") || undefined },
            here.map((step) => make("b", { class: step.culprit ? "" : "theirs" }, step.sign))),
          make("span", {}, lines[number] || " "));
        if (here.length) {
          row.addEventListener("mouseenter", () => here.forEach((step) => light(step.number, true)));
          row.addEventListener("mouseleave", () => here.forEach((step) => light(step.number, false)));
        }
        pre.append(row);
      }
      return make("div", { class: "source" }, make("div", { class: "file" }, window.name), pre);
    });
  }

  // ---- yields: a map of the source ----
  function yields() {
    const root = $("yields");
    root.append(make("h2", {}, `${data.yields.length} yield${data.yields.length === 1 ? "" : "s"} inferred`),
      make("p", { class: "at" }, "Where other threads interfere; with a yield at each of these lines, the code between them can be read as if it ran alone."));
    if (data.density.length) {
      const kinds = [["preemptive", "if they may anywhere"], ["cooperative", "with these yields"], ["atomic", "between atomic functions"]];
      root.append(make("h3", {}, "Interference density: the share of executed places at which others may get in"),
        make("table", { class: "density" }, make("tr", {}, make("th", {}, ""), kinds.map(([kind, meaning]) => make("th", {}, make("b", {}, kind), make("div", {}, meaning)))),
          data.density.map((one) => make("tr", {}, make("th", {}, one.name), kinds.map(([kind]) => make("td", { class: kind, style: `--share: ${one[kind]}%` },
            make("span", {}, `${one[kind].toFixed(1)} %`)))))));
    }
    const most = Math.max(1, ...data.yields.map((one) => one.count));
    for (const path of [...new Set(data.yields.map((one) => one.path))]) {
      const here = data.yields.filter((one) => one.path === path);
      const lines = data.sources[path] || {};
      const marks = new Map(here.map((one) => [one.line, one]));
      const numbers = [...new Set([...Object.keys(lines).map(Number).filter((line) => here.some((one) => Math.abs(one.line - line) <= 4)), ...marks.keys()])].sort((a, b) => a - b);
      const pre = make("pre", { tabindex: "0" });
      let last = null;
      for (const number of numbers) {
        if (last !== null && number > last + 1) pre.append(make("div", { class: "gap" }, "⋯"));
        last = number;
        const one = marks.get(number);
        const others = one ? one.with.slice(0, 2).join(", ") + (one.with.length > 2 ? ` and ${one.with.length - 2} more` : "") : "";
        const row = make("div", { class: one ? "row heat" : "row", title: one ? one.with.join("\n") : undefined,
          style: one ? `--heat: ${Math.round(8 + 26 * Math.log1p(one.count) / Math.log1p(most))}` : undefined },
          make("i", {}, String(number)), make("em", {}),
          make("span", {}, lines[number] || (one ? one.function : "") || " ", one ? make("small", {}, `yield, needed ${times(one.count)}, against ${others}`) : null));
        pre.append(row);
      }
      root.append(make("h3", {}, ""), make("div", { class: "source" }, make("div", { class: "file" }, here[0].name || "unknown file"), pre));
    }
  }

  function run() {
    const root = $("run");
    root.append(make("h2", {}, "What was checked"));
    for (const one of data.documents) {
      root.append(make("h3", {}, one.file + (one.process ? `, process ${one.process}` : "")),
        make("p", {}, `${one.events.toLocaleString("en")} events of ${one.threads} threads, checked in ${one.seconds.toFixed(2)} s.`),
        one.warnings.map((warning) => make("p", {}, make("b", {}, "Warning: "), warning)),
        make("table", {}, make("tr", {}, make("th", {}, "Engine"), make("th", { class: "number" }, "Static violations"), make("th", { class: "number" }, "With repetitions"), make("th", {}, "Remarks")),
          one.engines.map((engine) => make("tr", {}, make("td", {}, engine.name), make("td", { class: "number" }, engine.findings.toLocaleString("en")),
            make("td", { class: "number" }, engine.violations.toLocaleString("en")), make("td", {}, (engine.remarks || []).join("; "))))));
    }
    root.append(make("p", { class: "at" }, `Written by atomsan ${data.version}.`));
  }

  // ---- views, keys, paper ----
  const built = { findings: true };
  function view(name) {
    if (!built[name]) { built[name] = true; ({ yields, run })[name](); }
    document.querySelectorAll("nav button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.view === name)));
    document.querySelectorAll("main").forEach((main) => { main.hidden = main.id !== name; });
  }
  document.querySelectorAll("nav button").forEach((button) => button.addEventListener("click", () => view(button.dataset.view)));
  document.querySelector("[data-view=yields]").hidden = !data.yields.length;
  $("summary").textContent = data.summary;
  document.title = `${data.summary} · atomsan`;
  $("filter").addEventListener("input", () => { wanted.text = $("filter").value; filter(); });

  function move(by) {
    if (!shown.length) return;
    const at = shown.indexOf(current) + by;
    open(shown[Math.min(Math.max(at, 0), shown.length - 1)], true);
    rows[current].firstChild.focus({ preventScroll: true });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === $("filter");
    if (event.key === "Escape") {
      if (typing && $("filter").value) { $("filter").value = ""; wanted.text = ""; filter(); }
      else if (current >= 0) rows[current].firstChild.focus();
    } else if (event.key === "Enter" && (typing || event.target.closest?.("#list"))) {
      $("detail").focus();
      if (!typing) return;
    } else if (typing && event.key === "ArrowDown") {
      move(0);
    } else if (typing) {
      return;
    } else if (event.key === "/") {
      view("findings");
      $("filter").focus();
      $("filter").select();
    } else if (event.key === "j" || event.key === "k") {
      view("findings");
      move(event.key === "j" ? 1 : -1);
    } else {
      return;
    }
    event.preventDefault();
  });

  // Paper gets every finding that the filter leaves, but not a book. Nobody can open anything there, so stacks are open; what a
  // code means is told once, at the end.
  addEventListener("beforeprint", () => {
    const printed = shown.slice(0, 200);
    $("paper").replaceChildren(...printed.map((at) => detail(findings[at], `p${at}`)));
    $("paper").querySelectorAll("details:not(.folded)").forEach((one) => { if (one.classList.contains("explain")) one.remove(); else one.open = true; });
    const codes = [...new Set(printed.map((at) => findings[at].code))].filter((code) => data.explain[code]);
    $("paper").append(make("section", {}, make("h2", {}, "What the codes mean"), codes.map((code) => make("div", { class: "meaning" }, make("h3", {}, code), meaning(data.explain[code])))));
    if (printed.length < shown.length) $("paper").append(make("p", { class: "at" }, `${shown.length - printed.length} more findings are not printed.`));
  });
  addEventListener("afterprint", () => $("paper").replaceChildren());

  filter();
  const asked = findings.findIndex((finding) => finding.fingerprint === location.hash.slice(1));
  if (asked >= 0) open(asked, false);
  if (!findings.length && data.yields.length) view("yields");
})();
