// Uses a page the way a reader would and tells what it finds to the page around it; browser.rs reads that.
"use strict";

function luminance(color) {
  const [r, g, b] = color.match(/[\d.]+/g).map((part) => {
    const share = Number(part) / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(element, ground) {
  const [a, b] = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(luminance);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

function useTable() {
  const table = document.querySelector("table.data");
  const head = [...table.tHead.rows[0].cells][1];
  const rows = () => [...table.tBodies[0].rows];
  const texts = () => rows().map((row) => row.cells[1].textContent.trim()).filter((text) => text !== "");
  const isSorted = (values, down) => values.every((value, place) => {
    if (place === 0) return true;
    const [a, b] = [values[place - 1], value];
    const numbers = !isNaN(parseFloat(a)) && !isNaN(parseFloat(b));
    const order = numbers ? parseFloat(a) - parseFloat(b) : a < b ? -1 : a > b ? 1 : 0;
    return down ? order >= 0 : order <= 0;
  });
  const found = { rows: rows().length, aria: [] };
  head.querySelector("button").click();
  found.aria.push(head.getAttribute("aria-sort"));
  found.sorted_up = isSorted(texts(), false);
  head.querySelector("button").click();
  found.aria.push(head.getAttribute("aria-sort"));
  found.sorted_down = isSorted(texts(), true);
  const input = document.querySelector("input[type=search]");
  const filter = (text) => {
    input.value = text;
    input.dispatchEvent(new Event("input"));
    return rows().filter((row) => row.offsetParent !== null).length;
  };
  const wanted = rows()[0].querySelector("th").textContent.trim();
  found.with_first_rows_text = filter(wanted.toUpperCase());
  found.rows_holding_it = rows().filter((row) => row.textContent.toLowerCase().includes(wanted.toLowerCase())).length;
  found.with_nonsense = filter("no row holds this");
  found.said = document.querySelector("output").textContent;
  filter("");
  return found;
}

async function useMarks() {
  const place = document.getElementById("marked");
  if (!place) return null;
  for (let wait = 0; place.hidden && wait < 100; wait += 1) await new Promise((done) => setTimeout(done, 50));
  const spans = [...place.querySelectorAll(".tokens span")];
  const layers = place.querySelectorAll("select")[1];
  const choose = (value) => {
    layers.value = value;
    layers.dispatchEvent(new Event("change"));
    return spans.map((span) => span.className).join(" ");
  };
  const first = choose("1");
  const found = {
    tokens: spans.length,
    marked_in_layer_0: spans.filter((span) => span.className !== "k0").length,
    said: place.querySelector("output").textContent,
  };
  found.differs_by_layer = choose("2") !== first;
  return found;
}

async function use() {
  const all = [...document.querySelectorAll("*")];
  const root = document.documentElement;
  const found = {
    inner_width: window.innerWidth,
    stolen: "stolen" in window,
    handlers: all.filter((one) => [...one.attributes].some((each) => each.name.startsWith("on"))).length,
    foreign_scripts: [...document.scripts].filter((script) =>
      script.src ? !/\/(assets\/report|drive)\.js$/.test(script.src) : script.type !== "application/json").length,
    first_focus: document.querySelector("a, button, input, select, [tabindex]").textContent,
    scheme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
    contrast: Math.min(...[...document.querySelectorAll("p, th, td, a, .note, summary")]
      .slice(0, 400).map((one) => contrast(one, document.body))),
  };
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  document.querySelectorAll("img").forEach((one) => { one.loading = "eager"; });
  await Promise.all([...document.images].map((one) => one.decode().catch(() => null)));
  found.broken_images = [...document.images].filter((one) => one.naturalWidth === 0).length;
  found.kept = await useMarks();
  found.unlabelled = [...document.querySelectorAll("input, select")].filter((one) => one.labels.length === 0).length;
  found.tables_without_caption_or_scope = [...document.querySelectorAll("table")].filter((one) =>
    !one.caption || [...one.querySelectorAll("th")].some((head) => !head.scope)).length;
  found.scroll_width = Math.max(root.scrollWidth, document.body.scrollWidth);
  found.table = useTable();
  found.asked_for = performance.getEntriesByType("resource").map((entry) => entry.name);
  parent.postMessage(JSON.stringify(found), "*");
}

use();
