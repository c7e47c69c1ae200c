// Sorting and filtering of tables, and marks of kept tokens. Every page reads without this.
"use strict";

function element(name, fields, ...children) {
  const made = Object.assign(document.createElement(name), fields);
  made.append(...children);
  return made;
}

// --- tables of class "data": a button in each column's head, a filter above

function enhance(table, number) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const rows = Array.from(body.rows);
  const said = element("output", { className: "note" });
  const input = element("input", { type: "search", id: "filter-" + number });
  const shown = () => {
    const wanted = input.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const count = rows.filter((row) => !row.hidden).length;
    said.textContent = count + " of " + rows.length + " rows";
  };
  input.addEventListener("input", shown);
  const label = element("label", { htmlFor: input.id }, "Show rows with", input);
  table.parentElement.before(element("div", { className: "tools" }, label, said));
  shown();
  heads.forEach((head, place) => {
    const button = element("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((left, right) => compare(left.cells[place], right.cells[place], down));
      body.append(...rows);
    });
  });
}

// numbers by size, texts by letters; empty cells last either way
function compare(left, right, down) {
  const [a, b] = [left.textContent.trim(), right.textContent.trim()];
  if (a === "" || b === "") return (a === "") - (b === "");
  const order = isNaN(parseFloat(a)) || isNaN(parseFloat(b))
    ? (a < b ? -1 : a > b ? 1 : 0)
    : parseFloat(a) - parseFloat(b);
  return down ? -order : order;
}

document.querySelectorAll("table.data").forEach(enhance);

// --- kept tokens

// base64 of a raw deflate stream of a bitmap: a row for each layer and KV head, bit p % 8 of byte p / 8 is position p
async function unpack(cell, cells) {
  const packed = Uint8Array.from(atob(cell.bits), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  // stored as the differences from an earlier cell
  if (cell.like !== null) cells[cell.like].forEach((byte, place) => { bytes[place] ^= byte; });
  return bytes;
}

async function showKept(place, data) {
  const cells = [];
  for (const cell of data.cells) cells.push(await unpack(cell, cells));
  const choice = (name, texts) => {
    const select = element("select", { id: "choose-" + name });
    texts.forEach((text, value) => select.append(element("option", { value }, text)));
    return [select, element("label", { htmlFor: select.id }, name, select)];
  };
  const [cell, cellLabel] = choice("cell", data.cells.map((known) => known.name));
  const layers = Array.from({ length: data.layers }, (_, layer) => "layer " + layer);
  const [layer, layerLabel] = choice("layers", ["all layers", ...layers]);
  const said = element("output", {});
  const spans = data.pieces.map((piece) => element("span", {}, piece));
  const text = element("div", { className: "tokens", dir: "auto", tabIndex: 0 }, ...spans);
  text.setAttribute("role", "region");
  text.setAttribute("aria-label", "prompt with its kept tokens marked");
  const mark = () => {
    const bytes = cells[Number(cell.value)];
    const only = Number(layer.value) - 1;
    const [from, to] = only < 0 ? [0, data.layers] : [only, only + 1];
    const rowBytes = Math.ceil(spans.length / 8);
    const most = (to - from) * data.heads;
    let some = 0;
    spans.forEach((span, position) => {
      let kept = 0;
      for (let row = from * data.heads; row < to * data.heads; row += 1) {
        kept += (bytes[row * rowBytes + (position >> 3)] >> (position & 7)) & 1;
      }
      some += kept > 0;
      span.className = "k" + Math.ceil(4 * kept / most);
      span.title = "position " + position + ": " + kept + " of " + most + " heads keep it";
    });
    said.textContent = some + " of " + spans.length + " tokens are kept by at least one of " + most + " heads";
  };
  cell.addEventListener("change", mark);
  layer.addEventListener("change", mark);
  mark();
  const legend = element("p", { className: "note" }, "Kept by: ");
  ["no head", "up to a quarter of the heads", "up to half", "up to three quarters", "more"].forEach((words, level) => {
    legend.append(element("span", { className: "k" + level }, words), level < 4 ? ", " : ". ");
  });
  legend.append("The stronger the line below a token, the more heads keep it.");
  place.append(element("div", { className: "tools" }, cellLabel, layerLabel), said, legend, text);
  place.hidden = false;
}

const kept = document.getElementById("kept");
if (kept) {
  const place = document.getElementById("marked");
  showKept(place, JSON.parse(kept.textContent)).catch((error) => {
    place.append(element("p", {}, "This browser cannot unpack the kept positions: " + error));
    place.hidden = false;
  });
}
