// Sorts and filters the table; the page says everything without it.
"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const value = (row, i) => {
    const cell = row.cells[i];
    return cell.dataset.v === undefined ? cell.textContent.trim() : cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
  heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const keyed = rows.map((row, n) => [value(row, i), n, row]);
    // What is not known comes last, whichever way.
    keyed.sort(([a, m], [b, n]) => (a === null) - (b === null) || (a === null ? 0 : sign * order(a, b)) || m - n);
    body.append(...keyed.map((entry) => entry[2]));
  }));
  const tools = document.getElementById(table.dataset.sortable);
  const [text, status, said] = ["input", "select", "output"].map((name) => tools.querySelector(name));
  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const inside = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => inside.includes(word)) || (status.value !== "" && row.dataset.status !== status.value);
      shown += row.hidden ? 0 : 1;
    }
    said.value = `${shown} of ${rows.length} rows`;
  };
  text.addEventListener("input", filter);
  status.addEventListener("change", filter);
  filter();
}
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
