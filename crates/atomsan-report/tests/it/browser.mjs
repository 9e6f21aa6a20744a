// Opens the pages in headless Chromium and uses them as a person does. No packages: Node has
// WebSocket from version 22 on; before that, the protocol is spoken over a pipe.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

const [browser, some, many, wide, folder, profile] = process.argv.slice(2);
const chromium = spawn(browser, ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", `--user-data-dir=${profile}`,
  "--window-size=1400,950", "--remote-debugging-pipe", "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const quit = (status) => { chromium.kill(); process.exit(status); };
setTimeout(() => { console.error("the browser took too long"); quit(1); }, 120_000).unref();

// Messages are JSON, separated by zero bytes.
const waiting = new Map();
const troubles = [];
let number = 0, rest = "";
chromium.stdio[4].on("data", (bytes) => {
  const parts = (rest + bytes).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id) {
      const { resolve, reject } = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) reject(new Error(JSON.stringify(message.error))); else resolve(message.result);
    } else if (message.method === "Runtime.exceptionThrown" || message.method === "Log.entryAdded" ||
      (message.method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(message.params.type))) {
      troubles.push(JSON.stringify(message.params));
    } else if (message.method === "Network.requestWillBeSent" && !/^(file|data):/.test(message.params.request.url)) {
      troubles.push(`asked the network for ${message.params.request.url}`);
    }
  }
});
let session;
const send = (method, params = {}) => new Promise((resolve, reject) => {
  waiting.set(++number, { resolve, reject });
  chromium.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId: session }) + "\0");
});

async function evaluate(expression) {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
  assert.ok(!exceptionDetails, `${expression}: ${JSON.stringify(exceptionDetails)}`);
  return result.value;
}
async function until(expression) {
  for (let tries = 0; tries < 200; tries++) {
    if (await evaluate(expression)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`never became true: ${expression}`);
}
async function show(file, scheme = "light") {
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  await send("Page.navigate", { url: pathToFileURL(file).href });
  await until(`document.readyState === "complete" && document.querySelectorAll("#list li").length > 0`);
}
async function press(key) {
  const text = key.length === 1 ? key : key === "Enter" ? "\r" : undefined;
  await send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", key, text });
  await send("Input.dispatchKeyEvent", { type: "keyUp", key });
}
async function click(selector) {
  const { x, y } = await evaluate(`(() => { const b = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect(); return { x: b.x + b.width / 2, y: b.y + b.height / 2 }; })()`);
  for (const type of ["mousePressed", "mouseReleased"]) await send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
}
async function picture(name) {
  const { data } = await send("Page.captureScreenshot", { format: "png" });
  writeFileSync(`${folder}/${name}.png`, Buffer.from(data, "base64"));
}
const heading = () => evaluate(`document.querySelector("#detail h2")?.textContent ?? ""`);
const visible = () => evaluate(`document.querySelectorAll("#list li:not([hidden])").length`);

try {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  session = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
  await send("Emulation.setDeviceMetricsOverride", { width: 1400, height: 950, deviceScaleFactor: 1, mobile: false });

  await show(some);
  assert.equal(await visible(), 3);
  assert.match(await heading(), /is not atomic/);
  assert.equal(await evaluate(`document.querySelectorAll("#detail svg .step").length`), 3);
  assert.equal(await evaluate(`document.querySelectorAll("#detail svg .edge").length`), 2);
  assert.ok(await evaluate(`document.querySelectorAll("#detail .source .row.own").length`) > 0, "source beside it");
  await picture("light");
  await click("#list li:nth-child(2) button");
  const second = await heading();
  await click("#list li:nth-child(3) button");
  assert.notEqual(await heading(), second, "a click opens a finding");
  await picture("pair");
  await click("#detail details summary");
  assert.ok(await evaluate(`document.querySelector("#detail details").open`), "stacks on demand");
  const frames = await evaluate(`[...document.querySelectorAll("#detail details td")].map((stack) => ({ own: stack.querySelectorAll(":scope > div").length,
    folded: [...stack.querySelectorAll(".folded")].map((one) => [one.open, one.querySelector("summary").textContent, one.querySelectorAll("div").length]) }))`);
  assert.ok(frames.length > 2 && frames.every((stack) => stack.own > 1), JSON.stringify(frames));
  for (const [open, text, count] of frames.flatMap((stack) => stack.folded)) assert.ok(!open && text.includes(`${count} frame`), "libraries are folded");
  assert.ok(frames.some((stack) => stack.folded.length > 0), JSON.stringify(frames));

  await press("k");
  assert.equal(await heading(), second, "k goes back");
  await press("/");
  assert.equal(await evaluate(`document.activeElement.id`), "filter");
  for (const letter of "total") await press(letter);
  await until(`document.querySelectorAll("#list li:not([hidden])").length === 1`);
  assert.match(await heading(), /total/, "the filter filters");
  assert.match(await evaluate(`document.getElementById("count").textContent`), /1 of 3/);
  await press("Enter");
  assert.equal(await evaluate(`document.activeElement.id`), "detail");
  await press("/");
  await press("Escape");
  assert.equal(await visible(), 3, "Esc clears the filter");
  await press("Escape");
  assert.equal(await evaluate(`document.activeElement.getAttribute("aria-current")`), "true", "Esc goes back to the list");
  assert.notEqual(await evaluate(`getComputedStyle(document.activeElement).outlineStyle`), "none", "focus can be seen");
  await click("#chips .high");
  assert.equal(await visible(), 2, "by rank");
  await click("#chips .high");
  await click("[data-view=yields]");
  // The map: each yield at its line, hotter where it is needed more often, and the shares above.
  const map = await evaluate(`(() => {
    const data = JSON.parse(document.getElementById("data").textContent);
    const rows = [...document.querySelectorAll("#yields .heat")].map((row) => ({
      line: Number(row.querySelector("i").textContent), text: row.textContent, title: row.title,
      heat: Number(row.style.getPropertyValue("--heat")), colour: getComputedStyle(row).backgroundColor }));
    const shares = [...document.querySelectorAll("#yields .density tr:has(td)")].map((row) => [...row.children].map((cell) => cell.textContent));
    return { rows, shares, yields: data.yields, density: data.density, files: [...document.querySelectorAll("#yields .file")].map((file) => file.textContent) };
  })()`);
  assert.ok(map.yields.length > 1, "the programs need yields");
  assert.deepEqual(map.rows.map((row) => row.line).sort(), map.yields.map((one) => one.line).sort(), "each yield at its line");
  for (const one of map.yields) {
    const row = map.rows.find((row) => row.line === one.line && row.title === one.with.join("\n"));
    assert.match(row.text, one.count === 1 ? /needed once/ : new RegExp(`needed ${one.count.toLocaleString("en")} times`));
  }
  const counts = map.yields.map((one) => one.count), heats = map.rows.map((row) => row.heat);
  const hottest = map.yields[counts.indexOf(Math.max(...counts))], coldest = map.yields[counts.indexOf(Math.min(...counts))];
  const heat = (one) => map.rows.find((row) => row.line === one.line).heat;
  assert.equal(heat(hottest), Math.max(...heats), "the hottest line");
  if (hottest.count > coldest.count) assert.ok(heat(hottest) > heat(coldest));
  assert.notEqual(map.rows[0].colour, "rgba(0, 0, 0, 0)", "heat can be seen");
  const percent = (share) => `${share.toFixed(1)} %`;
  assert.ok(map.density.length > 1, "Silver has counted");
  assert.deepEqual(map.shares, map.density.map((one) => [one.name, percent(one.preemptive), percent(one.cooperative), percent(one.atomic)]), "the interference density");
  assert.deepEqual(map.files, [...new Set(map.yields.map((one) => one.name))], "one map a file");
  await picture("yields");
  await click("[data-view=run]");
  assert.match(await evaluate(`document.getElementById("run").textContent`), /doublechecker/);
  await evaluate(`dispatchEvent(new Event("beforeprint"))`);
  assert.equal(await evaluate(`document.querySelectorAll("#paper .finding").length`), 3);
  assert.equal(await evaluate(`document.querySelectorAll("#paper details:not([open], .folded)").length`), 0, "nobody can open anything on paper");
  assert.equal(await evaluate(`document.querySelectorAll("#paper .meaning").length`), 2, "each code is explained once");
  await evaluate(`dispatchEvent(new Event("afterprint"))`);
  const { data: paper } = await send("Page.printToPDF", { printBackground: true });
  writeFileSync(`${folder}/paper.pdf`, Buffer.from(paper, "base64"));
  await show(some, "dark");
  // Paper is white, whatever the screen is.
  await send("Emulation.setEmulatedMedia", { media: "print", features: [{ name: "prefers-color-scheme", value: "dark" }] });
  assert.equal(await evaluate(`getComputedStyle(document.body).color`), "rgb(29, 28, 26)");
  await send("Emulation.setEmulatedMedia", { media: "", features: [{ name: "prefers-color-scheme", value: "dark" }] });
  await picture("dark");

  // Nothing is wider than its place, whatever the names are.
  for (const width of [1400, 700, 380]) {
    await send("Emulation.setDeviceMetricsOverride", { width, height: 950, deviceScaleFactor: 1, mobile: false });
    await show(wide);
    assert.match(await heading(), /extraordinarily/);
    await evaluate(`document.querySelectorAll("#detail details").forEach((one) => { one.open = true; })`);
    const over = await evaluate(`(() => {
      const over = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
      for (const box of document.querySelectorAll("header, #choose, #list, #detail, #list li, #detail h2, #detail p, #detail td, .advice, .diagram, .source, .source .file")) {
        const { left, right } = box.getBoundingClientRect();
        if (right > innerWidth + 1 || left < -1) over.push(\`\${box.tagName} \${box.className} \${left}–\${right}\`);
        if (getComputedStyle(box).overflowX === "visible" && box.scrollWidth > box.clientWidth + 1 && box.clientWidth) over.push(\`content of \${box.tagName} \${box.className}\`);
      }
      for (const step of document.querySelectorAll("#detail svg .step")) {
        const end = (node) => node.x.baseVal.value + node.width.baseVal.value;
        const inner = step.querySelector("svg");
        if (end(inner) > end(step.querySelector("rect")) || getComputedStyle(inner).overflow !== "hidden") over.push("a step");
      }
      return over;
    })()`);
    assert.deepEqual(over, [], `at a width of ${width}`);
    await picture(`wide-${width}`);
  }
  await send("Emulation.setDeviceMetricsOverride", { width: 1400, height: 950, deviceScaleFactor: 1, mobile: false });

  await show(many);
  assert.equal(await visible(), 1000);
  // Quick: with layout, in the page's own time, on any machine.
  const took = await evaluate(`(() => {
    const time = (work) => { const start = performance.now(); work(); document.body.offsetHeight; return performance.now() - start; };
    const type = (text) => { const filter = document.getElementById("filter"); filter.value = text; filter.dispatchEvent(new Event("input")); };
    const clicks = time(() => document.querySelector("#list li:nth-child(900) button").click());
    const opened = document.querySelector("#detail h2").textContent;
    const filters = time(() => type("function_99"));
    const left = document.querySelectorAll("#list li:not([hidden])").length;
    const all = time(() => type(""));
    return { clicks, filters, all, opened, left };
  })()`);
  assert.match(took.opened, /function_899/, "a click opens one of a thousand");
  assert.equal(took.left, 11);
  for (const what of ["clicks", "filters", "all"]) assert.ok(took[what] < 1000, `${what}: ${took[what]} ms`);
  await evaluate(`document.querySelector("#list li button").click()`);
  for (let times = 0; times < 7; times++) await press("j");
  assert.match(await heading(), /<\/script><img src=x onerror=alert\(1\)>/, "a hostile name is only a name");
  assert.equal(await evaluate(`document.images.length`), 0);
  await press("/");
  for (const letter of "function_777") await press(letter);
  await until(`document.querySelectorAll("#list li:not([hidden])").length === 1`);
  assert.match(await heading(), /function_777/);
  await picture("thousand");

  assert.deepEqual(troubles, [], "no errors, no network");
  console.log("all checks passed");
  quit(0);
} catch (error) {
  console.error(error.stack ?? error, troubles.join("\n"));
  quit(1);
}
