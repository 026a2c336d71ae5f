// Draws the charts of a page from the JSON beside each, and keeps the view in the address.
"use strict";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Okabe and Ito's colours: told apart by colour-blind readers; hatching tells them apart in print.
const SERIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999", "#666666"];
const PANEL_HEIGHT = 150;
const PANEL_GAP = 46;
const LEFT = 78;
const RIGHT = 18;
const SETTLED_MS = 450;

const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
function amount(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const [divisor, prefix] = unit === "B/s" ? STEPS.find(([least]) => Math.abs(value) >= least) || STEPS[4] : STEPS[4];
  const number = (value / divisor).toLocaleString("en", { maximumSignificantDigits: 4 });
  return `${number} ${prefix}${unit}`.trim();
}

const utc = (ms) => new Date(ms).toISOString();
const clock = (ms) => utc(ms).slice(0, 19).replace("T", " ");

function texts() {
  return { color: colour("--ink-soft"), fontFamily: getComputedStyle(document.body).fontFamily };
}

function frame(label) {
  return {
    animation: false,
    useUTC: true,
    backgroundColor: "transparent",
    textStyle: texts(),
    aria: { enabled: true, label: { description: label } },
  };
}

function axisStyle() {
  return {
    axisLine: { lineStyle: { color: colour("--ink-soft") } },
    axisLabel: { color: colour("--ink-soft"), hideOverlap: true },
    splitLine: { lineStyle: { color: colour("--line") } },
  };
}

// A step without traffic is a gap, not a straight line to the next one.
function points(panel, values, stepMs) {
  const found = [];
  panel.t.forEach((start, i) => {
    if (i && start - panel.t[i - 1] > stepMs * 1.5) found.push([panel.t[i - 1] + stepMs, null]);
    found.push([start, values[i]]);
  });
  if (panel.t.length) found.push([panel.t[panel.t.length - 1] + stepMs, values[values.length - 1]]);
  return found;
}

function valueSeries(chart, panel, index) {
  const isTokens = chart.value === "tokens";
  const dashed = { type: [6, 3], color: colour("--bound"), width: 1.5 };
  const areas = panel.throttled.map(([from, until]) => [{ xAxis: from }, { xAxis: until }]);
  const findings = panel.findings.map(([from, until]) => [
    { xAxis: from, itemStyle: { color: "transparent", borderColor: colour("--mark"), borderWidth: 2 } },
    { xAxis: Math.max(until, from + chart.step_ms) },
  ]);
  const changes = panel.changes.map(([at]) => ({ xAxis: at, lineStyle: { color: colour("--mark"), type: "dotted", width: 2 } }));
  const samples = panel.samples.map((at) => ({ xAxis: at, lineStyle: { color: colour("--ink-soft"), type: "solid", width: 0.5 } }));
  const zero = isTokens ? [{ yAxis: 0, lineStyle: dashed }] : [];
  return {
    name: isTokens ? "tokens" : "rate",
    type: "line",
    step: "end",
    showSymbol: panel.t.length < 3,
    xAxisIndex: index,
    yAxisIndex: index,
    data: points(panel, panel.value, chart.step_ms),
    lineStyle: { color: colour("--series"), width: 1.5 },
    itemStyle: { color: colour("--series") },
    markArea: { silent: true, itemStyle: { color: colour("--shade") }, data: [...areas, ...findings] },
    markLine: { silent: true, symbol: "none", label: { show: false }, data: [...changes, ...samples, ...zero] },
  };
}

function boundSeries(chart, panel, index) {
  return {
    name: "bound",
    type: "line",
    step: "end",
    showSymbol: false,
    xAxisIndex: index,
    yAxisIndex: index,
    data: points(panel, panel.bound, chart.step_ms),
    lineStyle: { color: colour("--bound"), type: [6, 3], width: 1.5 },
    itemStyle: { color: colour("--bound") },
  };
}

function tooltip(chart) {
  return (found) => {
    const at = found[0].axisValue;
    const box = document.createElement("div");
    const line = (text, isStrong) => {
      const row = document.createElement(isStrong ? "strong" : "div");
      row.textContent = text;
      row.style.display = "block";
      box.append(row);
    };
    line(`${clock(at)} UTC`, true);
    chart.panels.forEach((panel) => {
      const i = panel.t.findLastIndex((start) => start <= at && at < start + chart.step_ms);
      const held = panel.throttled.find(([from, until]) => from <= at && at < until);
      if (i < 0) return line(`broker ${panel.broker}: no traffic`);
      const bound = panel.bound[i] === null ? "no quota" : `bound ${amount(panel.bound[i], chart.unit)}`;
      const value = amount(panel.value[i], chart.value === "tokens" ? "tokens" : chart.unit);
      line(`broker ${panel.broker}: ${value}, ${bound}${held ? `; throttled ${held[2]} requests, ${(held[3] / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} s in this stretch` : ""}`);
      const near = (from) => Math.abs(from - at) <= chart.step_ms;
      panel.changes.filter(([from]) => near(from)).forEach(([, text]) => line(`quota of ${text}`));
      panel.findings.filter(([from, until]) => from <= at && at <= until).forEach(([, , text]) => line(`finding: ${text}`));
    });
    return box;
  };
}

function historyOption(chart, label) {
  const indexes = chart.panels.map((_, i) => i);
  const top = (i) => 26 + i * (PANEL_HEIGHT + PANEL_GAP);
  const style = axisStyle();
  const unit = chart.value === "tokens" ? "" : chart.unit;
  return {
    ...frame(label),
    title: chart.panels.map((panel, i) => ({
      text: `broker ${panel.broker}`, left: LEFT, top: top(i) - 24,
      textStyle: { fontSize: 13, fontWeight: 600, color: colour("--ink") },
    })),
    grid: indexes.map((i) => ({ left: LEFT, right: RIGHT, top: top(i), height: PANEL_HEIGHT })),
    xAxis: indexes.map((i) => ({ type: "time", gridIndex: i, min: chart.from, max: chart.until, ...style, splitLine: { show: false } })),
    yAxis: indexes.map((i) => ({
      type: "value", gridIndex: i, splitNumber: 3, ...style,
      axisLabel: { ...style.axisLabel, formatter: (value) => amount(value, unit) },
    })),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: {
      trigger: "axis", confine: true, formatter: tooltip(chart), backgroundColor: colour("--paper"),
      borderColor: colour("--line"), textStyle: { color: colour("--ink"), fontSize: 13 },
    },
    dataZoom: [
      { type: "inside", xAxisIndex: indexes, filterMode: "none", minValueSpan: 1000 },
      {
        type: "slider", xAxisIndex: indexes, filterMode: "none", left: LEFT, right: RIGHT, bottom: 8, height: 22,
        minValueSpan: 1000, showDataShadow: false, labelFormatter: (value) => clock(value), textStyle: { color: colour("--ink-soft") },
      },
    ],
    series: chart.panels.flatMap((panel, i) =>
      chart.value === "tokens" ? [valueSeries(chart, panel, i)] : [valueSeries(chart, panel, i), boundSeries(chart, panel, i)],
    ),
  };
}

function daysOption(chart, label) {
  const style = axisStyle();
  return {
    ...frame(label),
    aria: { ...frame(label).aria, decal: { show: chart.series.length > 1 } },
    color: SERIES,
    legend: { show: chart.series.length > 1, type: "scroll", top: 0, textStyle: texts() },
    grid: { left: LEFT, right: RIGHT, top: 40, bottom: 28 },
    xAxis: { type: "category", data: chart.days, ...style },
    yAxis: { type: "value", name: "seconds", nameTextStyle: texts(), ...style },
    tooltip: {
      trigger: "axis", axisPointer: { type: "shadow" }, confine: true, backgroundColor: colour("--paper"), borderColor: colour("--line"),
      textStyle: { color: colour("--ink"), fontSize: 13 },
      valueFormatter: (value) => (value === null || value === undefined ? "not audited" : `${value.toLocaleString("en", { maximumFractionDigits: 1 })} s`),
    },
    series: chart.series.map((one) => ({ name: one.name, type: "bar", stack: "all", barMaxWidth: 28, data: one.values })),
  };
}

function read(place) {
  return JSON.parse(place.querySelector("[data-series]").textContent);
}

// The page of another view is asked for as a whole: what it shows, and its address, are the same
// whether one zoomed there or was sent the link.
let asked = 0;
async function show(from, until) {
  const own = ++asked;
  const address = new URL(location.href);
  address.searchParams.set("from", utc(from));
  address.searchParams.set("until", utc(until));
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok) return location.assign(address);
  const text = await answer.text();
  if (own !== asked) return;
  const page = new DOMParser().parseFromString(text, "text/html");
  const main = page.querySelector("main");
  const focused = document.activeElement?.dataset?.zoom || (document.activeElement?.matches("[data-chart]") ? "chart" : null);
  document.querySelectorAll("[data-chart]").forEach((place) => echarts.getInstanceByDom(place.querySelector("[data-canvas]"))?.dispose());
  document.querySelector("main").replaceWith(document.adoptNode(main));
  history.replaceState(null, "", address);
  drawAll();
  const again = focused === "chart" ? "[data-chart]" : `[data-zoom="${focused}"]`;
  if (focused) document.querySelector(again)?.focus({ preventScroll: true });
}

function moved(chart, how) {
  const length = chart.until - chart.from;
  const middle = chart.from + length / 2;
  if (how === "all") return chart.day;
  if (how === "in") return [middle - Math.max(length / 4, 500), middle + Math.max(length / 4, 500)];
  if (how === "out") return [middle - length, middle + length];
  const by = how === "earlier" ? -length / 2 : length / 2;
  return [chart.from + by, chart.until + by];
}

const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", 0: "all" };

function zooms(place, chart, drawn) {
  let settled;
  // Where the last step leads: the next one goes on from there, also before the page has come.
  let view = [chart.from, chart.until];
  const go = (how) => {
    view = moved({ ...chart, from: view[0], until: view[1] }, how).map(Math.round);
    show(...view);
  };
  place.addEventListener("keydown", (event) => {
    const how = KEYS[event.key];
    if (!how || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(how);
  });
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => go(button.dataset.zoom)));
  drawn.on("datazoom", () => {
    clearTimeout(settled);
    settled = setTimeout(() => {
      const { startValue, endValue } = drawn.getOption().dataZoom[0];
      if (endValue - startValue < chart.until - chart.from) show(Math.round(startValue), Math.round(endValue));
    }, SETTLED_MS);
  });
}

function draw(place) {
  const chart = read(place);
  const label = place.getAttribute("aria-label");
  let canvas = place.querySelector("[data-canvas]");
  if (canvas) echarts.getInstanceByDom(canvas)?.dispose();
  else {
    canvas = document.createElement("div");
    canvas.dataset.canvas = "";
    place.append(canvas);
  }
  const isHistory = chart.kind === "history";
  canvas.style.height = isHistory ? `${26 + chart.panels.length * (PANEL_HEIGHT + PANEL_GAP) + 34}px` : "16rem";
  const drawn = echarts.init(canvas, null, { renderer: "canvas" });
  drawn.setOption(isHistory ? historyOption(chart, label) : daysOption(chart, label));
  // The group has the name; a second one inside it would be read twice.
  canvas.removeAttribute("aria-label");
  canvas.setAttribute("aria-hidden", "true");
  return [chart, drawn];
}

function drawAll() {
  document.querySelectorAll("[data-chart]").forEach((place) => {
    const [chart, drawn] = draw(place);
    if (chart.kind === "history") zooms(place, chart, drawn);
    place.dataset.drawn = chart.kind;
  });
}

const resized = () => document.querySelectorAll("[data-canvas]").forEach((canvas) => echarts.getInstanceByDom(canvas)?.resize());
drawAll();
addEventListener("resize", resized);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
